"""Asks on and on while something changes, and looks at each answer: keep_asking.py CHECK LAST AUTHORITY URL...

CHECK says what changes: `releases` (settings) or `certificates`. LAST is a file with the number that is reached: what is asked from then on
must have it, or a later one. Each URL is asked over HTTP/1.1 and 2, by clients that keep their connection and by one with a new connection
each time. Prints "asking" when each has an answer, and goes on until standard input ends; each asks once more then.
"""

from __future__ import annotations

import ssl
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import httpx

PAUSE = 0.005  # seconds that a client rests between two requests: the server has other things to do, too


def main(check: str, last: str, authority: str, *bases: str) -> None:
    kinds = [(base, version) for base in bases for version in ("1.1", "2")]
    look = {"releases": look_at_release, "certificates": look_at_certificate}[check]
    clients = [
        Asking(base, version, keeps, Path(last), look, context(authority))
        for base, version in kinds
        for keeps in (True, False)
    ]
    over = threading.Event()
    begun = threading.Barrier(len(clients) + 1)
    failures: list[str] = []

    def ask(client: Asking) -> None:
        try:
            client.ask(begun, over)
        except Exception as error:  # noqa: BLE001: whatever it is, it is a failure
            failures.append(f"{client.name}, after {client.requests}: {error!r}")
            begun.abort()

    threads = [threading.Thread(target=ask, args=[client], daemon=True) for client in clients]
    for thread in threads:
        thread.start()
    try:
        begun.wait()
        print("asking", flush=True)
        sys.stdin.read()
    except threading.BrokenBarrierError:
        pass
    over.set()
    for thread in threads:
        thread.join()
    sys.exit("\n".join(failures) or 0)


class Socket(ssl.SSLSocket):
    """Has its context remember the number of the certificate that was shown last."""

    def do_handshake(self, block: bool = False) -> None:
        super().do_handshake(block)
        self.context.shown = int(self.getpeercert()["serialNumber"], 16)


def context(authority: str) -> ssl.SSLContext:
    made = ssl.create_default_context(cafile=authority)
    made.sslsocket_class = Socket
    return made


def look_at_release(client: Asking, response: httpx.Response, at_least: int) -> None:
    """Each answer is of one release, and of none that was replaced before it was asked for."""
    release = response.json()["release"]
    assert release >= at_least, f"release {release} after {at_least}"
    assert response.headers["X-Release"] == str(release), response.headers
    expected = "gzip" if release % 2 == 1 else None
    assert response.headers.get("Content-Encoding") == expected, (release, response.headers)


def look_at_certificate(client: Asking, _: httpx.Response, at_least: int) -> None:
    """A new connection has none that was replaced before."""
    if not client.keeps:
        assert client.context.shown >= at_least, f"certificate {client.context.shown} after {at_least}"


@dataclass
class Asking:
    """One client."""

    base: str
    version: str
    keeps: bool
    last: Path
    look: Callable[[Asking, httpx.Response, int], None]
    context: ssl.SSLContext
    requests: int = 0
    port: int = 0

    @property
    def name(self) -> str:
        return f"HTTP/{self.version} at {self.base}, {'kept' if self.keeps else 'new'} connection"

    def open(self) -> httpx.Client:
        # In the clear, HTTP/2 is what a client knows beforehand.
        http1 = self.version == "1.1" or self.base.startswith("https:")
        limits = httpx.Limits(keepalive_expiry=None)
        return httpx.Client(http1=http1, http2=self.version == "2", verify=self.context, limits=limits, timeout=60)

    def ask(self, begun: threading.Barrier, over: threading.Event) -> None:
        with self.open() as client:
            self.once(client)
            begun.wait()
            last = False
            while not last:
                last = over.wait(PAUSE)
                if self.keeps:
                    self.once(client)
                else:
                    with self.open() as new:
                        self.once(new)

    def once(self, client: httpx.Client) -> None:
        at_least = int(self.last.read_text())
        response = client.get(f"{self.base}/release", headers={"Accept-Encoding": "gzip"})
        assert response.status_code == 200, response
        assert response.http_version == {"1.1": "HTTP/1.1", "2": "HTTP/2"}[self.version], response.http_version
        came = response.json()
        assert came["text"] == "x" * 2000, came
        if self.keeps:
            self.port = self.port or came["port"]
            assert came["port"] == self.port, "the connection was not kept"
        self.look(self, response, at_least)
        self.requests += 1


main(*sys.argv[1:])
