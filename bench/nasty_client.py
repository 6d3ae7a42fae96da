"""Keep-alive clients for apps/nasty: random cases, a probe after many of them. Called by nasty.

An answer must be the one that the case has in a process that has seen nothing; a probe must be the first probe.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
import urllib.parse
from collections import Counter
from dataclasses import dataclass, field

ANSWER_DEADLINE = 60.0
# What differs by right: time, which worker, and how the body is framed, which depends on who is faster.
IGNORED = frozenset({b"date", b"x-worker", b"content-length", b"transfer-encoding", b"connection", b"keep-alive"})
PROBE = "probe"


@dataclass(frozen=True)
class Answer:
    """One response, without what differs by right."""

    status: int
    headers: tuple[bytes, ...]
    body: bytes
    whole: bool
    worker: str = field(compare=False)

    def __str__(self) -> str:
        """Enough of it to see what is wrong."""
        headers = b"; ".join(self.headers).decode(errors="replace")
        return f"{self.status} [{headers}] {self.body[:300]!r}{'' if self.whole else ' broken off'}"


@dataclass
class Plan:
    """What to send, and what must come back."""

    fast: list[str]
    slow: list[str]
    # The answer of each case in a process that has seen nothing.
    expected: dict[str, Answer]
    # The first probe.
    probe: Answer
    # "no": without what only a worker that is put back as a whole has the same.
    process: str
    probes: float = 0.34
    slowly: float = 0.0002


@dataclass
class Seen:
    """What all clients have seen so far."""

    answers: int = 0
    probes: int = 0
    # A case and the number of its wrong answers; examples.
    wrong: Counter[str] = field(default_factory=Counter)
    # A line of the probe and the case that came before it in that worker.
    traces: Counter[tuple[str, str]] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)
    # By worker: the last case.
    last: dict[str, str] = field(default_factory=dict)
    # Cases asked at least once.
    asked: set[str] = field(default_factory=set)


class Connection:
    """One keep-alive connection, opened anew where it was closed."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.reader: asyncio.StreamReader | None = None
        self.writer: asyncio.StreamWriter | None = None

    async def ask(self, target: str, host: str = "nasty", cookie: str = "") -> Answer:
        """Sends one request; an answer that breaks off is returned as it is."""
        if self.writer is None:
            self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
        more = f"Cookie: {cookie}\r\n" if cookie else ""
        self.writer.write(f"GET {target} HTTP/1.1\r\nHost: {host}\r\n{more}\r\n".encode())
        async with asyncio.timeout(ANSWER_DEADLINE):
            answer, keep = await self._read()
        if not keep:
            self.close()
        return answer

    def close(self) -> None:
        """Ends it."""
        if self.writer is not None:
            self.writer.close()
        self.writer = None

    async def _read(self) -> tuple[Answer, bool]:
        try:
            head = await self.reader.readuntil(b"\r\n\r\n")
        except (EOFError, OSError):
            return Answer(0, (), b"no answer", False, "none"), False
        first, *lines = head[:-4].split(b"\r\n")
        fields = [line.partition(b":") for line in lines]
        named = {name.lower(): value.strip() for name, _, value in fields}
        body = bytearray()
        whole = True
        try:
            await self._body(named, body)
        except (EOFError, OSError):
            whole = False
        kept = tuple(sorted(line for line, (name, _, _) in zip(lines, fields) if name.lower() not in IGNORED))
        worker = named.get(b"x-worker", b"none").decode()
        keep = whole and named.get(b"connection", b"").lower() != b"close"
        return Answer(int(first.split()[1]), kept, bytes(body), whole, worker), keep

    async def _body(self, named: dict[bytes, bytes], body: bytearray) -> None:
        if named.get(b"transfer-encoding") == b"chunked":
            while size := int(await self.reader.readuntil(b"\r\n"), 16):
                body += (await self.reader.readexactly(size + 2))[:-2]
            await self.reader.readuntil(b"\r\n")
        elif b"content-length" in named:
            body += await self.reader.readexactly(int(named[b"content-length"]))


def target(case: str) -> str:
    """The URL of a case."""
    return "/?case=" + urllib.parse.quote(case)


def probe_target(process: str, known: bytes) -> str:
    """The URL of a probe that answers "same" if it finds what `known` says.

    All are of the same length: nothing of the request's own size shows in the memory of the worker.
    """
    return f"/?process={process:.<3}&probe={hashlib.sha256(known).hexdigest()}"


async def client(number: int, port: int, plan: Plan, seen: Seen, enough: int) -> None:
    """Asks until all clients together have had `enough` answers."""
    dice = random.Random(number)
    connection = Connection(port)
    probe = probe_target(plan.process, plan.probe.body)
    # Between them the clients ask for each case once before the dice decide.
    first = [case for n, case in enumerate([*plan.fast, *plan.slow]) if n % 16 == number % 16]
    while seen.answers < enough:
        if first:
            case = first.pop()
        else:
            case = dice.choice(plan.slow if dice.random() < plan.slowly else plan.fast)
        answer = await connection.ask(target(case))
        seen.answers += 1
        seen.asked.add(case)
        seen.last[answer.worker] = case
        if answer != plan.expected[case]:
            seen.wrong[case] += 1
            seen.examples.setdefault(case, f"{answer}\n    instead of {plan.expected[case]}")
        if first or dice.random() < plan.probes:
            judge(await connection.ask(probe), plan, seen)
    connection.close()


def judge(answer: Answer, plan: Plan, seen: Seen) -> None:
    """Holds one probe against the first."""
    seen.answers += 1
    seen.probes += 1
    if answer.body == b"same" and (answer.status, answer.headers) == (plan.probe.status, plan.probe.headers):
        return
    before = seen.last.get(answer.worker, "nothing")
    if answer.body == b"same" or answer.status != plan.probe.status:
        seen.traces[f"the answer itself: {answer}", before] += 1
        return
    if answer.headers != plan.probe.headers:
        seen.traces[f"headers {set(answer.headers) ^ set(plan.probe.headers)}", before] += 1
    for line in differing(plan.probe.body, answer.body):
        seen.traces[line, before] += 1


def differing(first: bytes, now: bytes) -> list[str]:
    """The lines of a probe that differ from the first one's, by name."""
    def named(text: bytes) -> dict[str, str]:
        lines = [line.partition(" = ") for line in text.decode(errors="replace").splitlines()]
        return {name: value for name, _, value in lines}

    was, is_ = named(first), named(now)
    names = [name for name in {**was, **is_} if was.get(name) != is_.get(name)]
    return [f"{name}: {was.get(name, 'nothing')[:200]} > {is_.get(name, 'nothing')[:200]}" for name in names]
