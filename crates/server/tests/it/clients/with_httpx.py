"""Python's httpx as a client: with_httpx.py VERSION URL FOLDER [AUTHORITY], where VERSION of HTTP is 1.1 or 2."""

from __future__ import annotations

import asyncio
import ssl
import sys
from collections.abc import Iterator
from pathlib import Path

import checks
import httpx

REQUESTS = 400
CONNECTIONS = 16


def main(version: str, base: str, folder: str, authority: str | None = None) -> None:
    # In the clear, HTTP/2 is what a client knows beforehand.
    settings = {"http1": version == "1.1" or authority is not None, "http2": version == "2", "timeout": 60}
    if authority:
        assert_verifying(base)
        settings["verify"] = ssl.create_default_context(cafile=authority)
    protocol = "HTTP/2.0" if version == "2" else "HTTP/1.1"
    with httpx.Client(follow_redirects=True, limits=limits(), **settings) as client:

        def receive(url: str) -> Iterator[bytes]:
            with client.stream("GET", url) as response:
                response.raise_for_status()
                yield from response.iter_bytes()

        def send(url: str, body: object) -> httpx.Response:
            return client.post(url, content=body)

        checks.everything(checks.Asked(client, base, protocol, Path(folder), send, receive))
    asyncio.run(at_once(base, protocol, settings))


def limits() -> httpx.Limits:
    """A connection is kept for any time: a busy machine may need longer than httpx waits."""
    return httpx.Limits(max_connections=CONNECTIONS, max_keepalive_connections=CONNECTIONS, keepalive_expiry=None)


def assert_verifying(base: str) -> None:
    """Whom nobody vouches for is not asked."""
    try:
        httpx.get(f"{base}/hello", timeout=10)
    except httpx.ConnectError as error:
        assert "CERTIFICATE_VERIFY_FAILED" in str(error), error
        return
    raise AssertionError("the certificate was not verified")


async def at_once(base: str, protocol: str, settings: dict[str, object]) -> None:
    async with httpx.AsyncClient(limits=limits(), **settings) as client:

        async def ask(number: int) -> int:
            response = await client.post(f"{base}/echo?n={number}", data={"body": "x" * number})
            came = response.json()
            assert came["query"] == {"n": str(number)} and len(came["fields"]["body"]) == number, came
            assert came["protocol"] == protocol, came
            return came["port"]

        # Which versions are spoken is known by then, so HTTP/2 has one connection for all.
        ports = [await ask(1)]
        ports += await asyncio.gather(*(ask(number) for number in range(2, REQUESTS + 1)))
    assert len(ports) == REQUESTS, len(ports)
    assert len(set(ports)) <= (1 if protocol == "HTTP/2.0" else CONNECTIONS), set(ports)


main(*sys.argv[1:])
