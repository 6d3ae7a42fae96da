"""Keep-alive clients for apps/echo which hold every answer against its request. Called by chaos.

Each request carries an id of its own and, half of them, a body; the answer must repeat the id, the method, and length and
SHA-256 of the body, on the connection of the request.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
import re
from collections import Counter
from dataclasses import dataclass, field

REQUEST_IN_PAGE = re.compile(rb"<p>Request ([^<]+)</p>")
ANSWER_DEADLINE = 30.0


@dataclass(frozen=True)
class Request:
    """One request and what its answer must say."""

    id: str
    method: str
    body: bytes
    milliseconds: int
    pad: int

    def bytes(self) -> bytes:
        """As sent."""
        head = (
            f"{self.method} /?id={self.id}&ms={self.milliseconds}&pad={self.pad} HTTP/1.1\r\nHost: chaos\r\n"
            f"Content-Type: application/octet-stream\r\nContent-Length: {len(self.body)}\r\n\r\n"
        )
        return head.encode() + self.body

    def wrong(self, answer: bytes) -> str | None:
        """Why a 200 is not the answer to this request, or None."""
        text, _, pad = answer.partition(b"\n")
        try:
            said = json.loads(text)
        except ValueError:
            return f"no JSON: {answer[:100]!r}"
        expected = {"id": self.id, "method": self.method, "length": len(self.body),
                    "sha256": hashlib.sha256(self.body).hexdigest()}
        if {key: said.get(key) for key in expected} != expected:
            return f"{said} is not the answer to {expected}"
        digest = hashlib.sha256(self.id.encode()).hexdigest().encode()
        if pad != (digest * (self.pad // len(digest) + 1))[: self.pad]:
            return f"padding of {self.id} differs ({len(pad)} of {self.pad} bytes)"
        return None


@dataclass
class Seen:
    """What all clients have seen so far."""

    right: int = 0
    # Answers that belong to another request, or to none. There must not be one.
    wrong: list[str] = field(default_factory=list)
    # The server said that the worker died: method and the server's number of the request.
    failed: list[tuple[str, str]] = field(default_factory=list)
    # The answer broke off: method, and the worker's process id as far as the answer came to it.
    broken: list[tuple[str, int | None]] = field(default_factory=list)
    # Other statuses.
    other: Counter[str] = field(default_factory=Counter)


async def client(number: int, port: int, stop: asyncio.Event, seen: Seen) -> None:
    """Sends one request after the other over one connection, a new one where the server closed it."""
    dice = random.Random(number)
    reader = writer = None
    count = 0
    while not stop.is_set():
        if writer is None:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
        count += 1
        request = make(dice, f"{number}-{count}")
        received = bytearray()
        try:
            async with asyncio.timeout(ANSWER_DEADLINE):
                writer.write(request.bytes())
                await writer.drain()
                status, keep = await read_answer(reader, received)
        except (OSError, EOFError, TimeoutError) as error:
            seen.broken.append((request.method, worker_of(received)))
            if not received:
                seen.wrong.append(f"{request.id}: no answer at all ({type(error).__name__})")
            keep = False
        else:
            judge(request, status, bytes(received), seen)
        if not keep:
            writer.close()
            writer = None
    if writer is not None:
        writer.close()


def make(dice: random.Random, id_: str) -> Request:
    """A request: half of them POST; some bodies pass the memory bound, some answers do not fit into one piece."""
    post = dice.random() < 0.5
    size = dice.choice([0, 10, 1000, 20_000]) if dice.random() < 0.98 else 400_000
    pad = 0 if dice.random() < 0.95 else 300_000
    return Request(
        id=id_,
        method="POST" if post else "GET",
        body=dice.randbytes(size) if post else b"",
        milliseconds=dice.choice([0, 0, 0, 2, 10]),
        pad=pad,
    )


def judge(request: Request, status: int, body: bytes, seen: Seen) -> None:
    """Counts one complete answer."""
    page = REQUEST_IN_PAGE.search(body)
    if status == 200:
        if why := request.wrong(body):
            seen.wrong.append(why)
        else:
            seen.right += 1
    elif status == 502 and page:
        seen.failed.append((request.method, page.group(1).decode()))
    else:
        seen.other[f"status {status}"] += 1


def worker_of(received: bytes) -> int | None:
    """The process id in the part of an answer that arrived."""
    found = re.search(rb'"worker":(\d+)', received)
    return int(found.group(1)) if found else None


async def read_answer(reader: asyncio.StreamReader, body: bytearray) -> tuple[int, bool]:
    """Reads one answer into `body`; status, and whether the connection stays. EOFError: it broke off."""
    head = await reader.readuntil(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    status = int(lines[0].split(" ")[1])
    fields = {}
    for line in lines[1:]:
        name, _, value = line.partition(":")
        fields[name.lower()] = value.strip()
    if fields.get("transfer-encoding") == "chunked":
        while size := int((await reader.readuntil(b"\r\n")).partition(b";")[0], 16):
            await take(reader, size, body)
            await reader.readexactly(2)
        await reader.readuntil(b"\r\n")
    else:
        await take(reader, int(fields.get("content-length", "0")), body)
    return status, fields.get("connection", "").lower() != "close"


async def take(reader: asyncio.StreamReader, size: int, into: bytearray) -> None:
    """Reads exactly so many bytes, and keeps what came when the rest does not."""
    while size:
        part = await reader.read(min(size, 65536))
        if not part:
            raise EOFError("the answer broke off")
        into += part
        size -= len(part)
