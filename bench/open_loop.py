"""Sends requests at given times, whether or not earlier ones have been answered, and notes how long each took. Called by overload.

As users do, who do not wait for one another: time counts from the moment a request was due, so neither a slow server nor a slow client
hides what it holds up.
"""

from __future__ import annotations

import asyncio
import time
from array import array
from collections import Counter
from dataclasses import dataclass, field

# One turn of the clock.
TICK = 0.002
ANSWER_DEADLINE = 30.0
# A connection that is idle for longer is closed: the server does so after a minute, maybe under a request that was just sent.
IDLE = 30.0


@dataclass
class Seen:
    """What came back. Seconds."""

    took: dict[int, array] = field(default_factory=dict)
    # What was no answer.
    failed: Counter[str] = field(default_factory=Counter)
    # Longest time a request was sent after it was due.
    lag: float = 0.0

    def note(self, status: int, seconds: float) -> None:
        self.took.setdefault(status, array("f")).append(seconds)

    def count(self, status: int) -> int:
        return len(self.took.get(status, ()))

    def percentile(self, status: int, share: float) -> float:
        """0 if there was no such answer."""
        times = sorted(self.took.get(status, ()))
        return times[min(len(times) - 1, int(len(times) * share))] if times else 0.0

    @property
    def answers(self) -> int:
        return sum(len(times) for times in self.took.values())


class Wire(asyncio.Protocol):
    """One connection with at most one request under way. `client` is told what becomes of it."""

    def __init__(self, client: Client) -> None:
        self.client, self.transport = client, None
        self.buffer, self.seen, self.due, self.closes = b"", None, 0.0, False
        self.idle_since = 0.0

    def connection_made(self, transport) -> None:
        self.transport = transport

    def send(self, request: bytes, seen: Seen, due: float, closes: bool) -> None:
        self.buffer, self.seen, self.due, self.closes = b"", seen, due, closes
        self.transport.write(request)

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        head, found, rest = self.buffer.partition(b"\r\n\r\n")
        if not found or self.seen is None:
            return
        lower = head.lower()
        at = lower.find(b"\r\ncontent-length:")
        if at >= 0:
            whole = len(rest) >= int(lower[at + 17:].split(b"\r\n", 1)[0])
        else:
            whole = rest.endswith(b"0\r\n\r\n")
        if whole:
            seen, self.seen = self.seen, None
            seen.note(int(head[9:12]), time.monotonic() - self.due)
            self.client.over(self, self.closes or b"\r\nconnection: close" in lower)

    def connection_lost(self, error: Exception | None) -> None:
        if self.seen is not None:
            self.seen.failed[f"connection lost: {error}"] += 1
            self.seen = None
        self.client.lost(self)


class Client:
    """All connections to one server."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.idle: list[Wire] = []
        self.under_way = 0
        self.tasks: set[asyncio.Task] = set()

    def over(self, wire: Wire, closes: bool) -> None:
        self.under_way -= 1
        if closes:
            wire.transport.close()
        else:
            wire.idle_since = time.monotonic()
            self.idle.append(wire)

    def retire(self, now: float) -> None:
        """Closes what has been idle for long; that is at the front, since the last one is taken first."""
        while self.idle and self.idle[0].idle_since < now - IDLE:
            self.idle.pop(0).transport.close()

    def lost(self, wire: Wire) -> None:
        if wire in self.idle:
            self.idle.remove(wire)

    def ask(self, path: str, seen: Seen, due: float, anew: bool) -> None:
        """Sends a request, over a connection of its own if `anew`."""
        self.under_way += 1
        closing = "Connection: close\r\n" if anew else ""
        request = f"GET {path} HTTP/1.1\r\nHost: overload\r\n{closing}\r\n".encode()
        if self.idle and not anew:
            self.idle.pop().send(request, seen, due, False)
            return
        task = asyncio.get_running_loop().create_task(self._connect(request, seen, due, anew))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def _connect(self, request: bytes, seen: Seen, due: float, anew: bool) -> None:
        try:
            _, wire = await asyncio.get_running_loop().create_connection(lambda: Wire(self), "127.0.0.1", self.port)
        except OSError as error:
            self.under_way -= 1
            seen.failed[f"not connected: {error}"] += 1
            return
        wire.send(request, seen, due, anew)

    async def one(self, path: str) -> tuple[int, float]:
        """One request on a connection of its own: status and seconds; status 0 is no answer."""
        seen = Seen()
        begin = time.monotonic()
        self.ask(path, seen, begin, True)
        while not seen.took and not seen.failed and time.monotonic() < begin + ANSWER_DEADLINE:
            await asyncio.sleep(0.0005)
        return next(((status, times[0]) for status, times in seen.took.items()), (0, time.monotonic() - begin))

    async def load(self, turns: list[tuple[str, Seen]], rate: float, seconds: float, anew: float) -> None:
        """`rate` requests a second, each time the next of `turns`; the share `anew` over connections of their own."""
        begin, sent, fresh = time.monotonic(), 0, 0.0
        while (now := time.monotonic()) < begin + seconds:
            self.retire(now)
            while sent < (now - begin) * rate:
                path, seen = turns[sent % len(turns)]
                due = begin + sent / rate
                seen.lag = max(seen.lag, now - due)
                fresh += anew
                self.ask(path, seen, due, fresh >= 1)
                fresh -= fresh >= 1
                sent += 1
            await asyncio.sleep(TICK)

    async def answered(self) -> None:
        """Waits until nothing is under way."""
        until = time.monotonic() + ANSWER_DEADLINE
        while self.under_way > 0 and time.monotonic() < until:
            await asyncio.sleep(0.01)

    def close(self) -> None:
        for wire in list(self.idle):
            wire.transport.close()
