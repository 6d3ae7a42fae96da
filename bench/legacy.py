"""Does an application that was never written for it run resident? 100 000 requests of apps/legacy. `make legacy`.

Users of three sites in three languages mix at random; each answer must be the one of classic mode, where the application boots for
each request. Exit status 1: one was not, or a worker was replaced. See README.md.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import random
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import nasty
import nasty_client as clients
import run

SITES = ("one.test", "two.test", "three.test")
USERS = ("", "alice", "bob", "admin", "banned")
LANGUAGES = ("", "en", "de", "fr")
PAGES = ("/", "/article?id=3", "/article?id=7&loud=1", "/article?id=99", "/admin", "/login", "/time", "/visits", "/nowhere",
         "/broken", "/broken?how=type", "/broken?how=memory")


@dataclass(frozen=True)
class Ask:
    """One request."""

    page: str
    site: str
    user: str
    language: str

    def target(self) -> str:
        """The URL."""
        if not self.language:
            return self.page
        return f"{self.page}{'&' if '?' in self.page else '?'}lang={self.language}"

    async def send(self, connection: clients.Connection, session: str) -> clients.Answer:
        """The answer to it."""
        return await connection.ask(self.target(), self.site, f"user={self.user}; CMS={session}")


@dataclass
class Seen:
    """What all clients have seen so far."""

    answers: int = 0
    wrong: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)
    sessions: set[str] = field(default_factory=set)


def main() -> None:
    options = nasty.options_of(__doc__, 100_000).parse_args()
    with tempfile.TemporaryDirectory(prefix="hearth-legacy-") as folder:
        (Path(folder) / "sessions").mkdir()
        options.ini.append(f"session.save_path={folder}/sessions")
        right = asyncio.run(legacy(options, Path(folder)))
    raise SystemExit(0 if right else 1)


async def legacy(options: argparse.Namespace, folder: Path) -> bool:
    """The whole run; whether each answer was right."""
    expected = await record(options, folder)
    server = nasty.start("legacy", options, options.mode, options.workers, folder)
    seen = Seen()
    try:
        # The server is ready with its first worker.
        while len(before := set(run.hearth_workers(server))) < options.workers:
            await asyncio.sleep(0.01)
        begin = time.monotonic()
        await asyncio.gather(*(client(number, server.port, expected, seen, options.requests)
                               for number in range(options.clients)))
        took = time.monotonic() - begin
        replaced = len(set(run.hearth_workers(server)) - before)
    finally:
        server.stop()
    print(f"{options.mode}: {seen.answers:,} answers of {len(expected)} kinds in {took:.0f} s, "
          f"{seen.answers / took:,.0f} a second, from {len(seen.sessions)} sessions; {replaced} workers replaced")
    wrong = [f"WRONG: {count} times {ask}: {seen.examples[ask]}" for ask, count in seen.wrong.most_common(20)]
    print("\n".join(wrong) or "all were right")
    return not wrong and not replaced


async def record(options: argparse.Namespace, folder: Path) -> dict[Ask, clients.Answer]:
    """What classic mode answers to each kind of request."""
    server = nasty.start("legacy", options, "classic", options.workers, folder / "record")
    connection = clients.Connection(server.port)
    try:
        asks = [Ask(*one) for one in itertools.product(PAGES, SITES, USERS, LANGUAGES)]
        return {ask: await ask.send(connection, f"record{number}") for number, ask in enumerate(asks)}
    finally:
        connection.close()
        server.stop()


async def client(number: int, port: int, expected: dict[Ask, clients.Answer], seen: Seen, enough: int) -> None:
    """Random requests, one after the other; only the session and its visits are this client's own."""
    dice = random.Random(number)
    asks = list(expected)
    connection = clients.Connection(port)
    visits = Counter[Ask]()
    while seen.answers < enough:
        ask = dice.choice(asks)
        session = f"client{number}x{asks.index(ask)}"
        answer = await ask.send(connection, session)
        seen.answers += 1
        right = expected[ask]
        if ask.page == "/visits":
            visits[ask] += 1
            seen.sessions.add(session)
            body = right.body.replace(b"visit 1 ", f"visit {visits[ask]} ".encode())
            right = clients.Answer(right.status, right.headers, body, right.whole, right.worker)
        if answer != right:
            seen.wrong[str(ask)] += 1
            seen.examples.setdefault(str(ask), f"{answer}\n    instead of {right}")
    connection.close()


if __name__ == "__main__":
    main()
