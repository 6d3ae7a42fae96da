"""What an HTTP client is used for, asked of respond.php: the same for requests and httpx, whose sessions look alike.

`Asked` holds what differs between the two. A check that fails ends the program.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

REPEATS = 20
TEXT = "".join(f"line {line} of a text that is worth compressing\n" for line in range(5000))
BIG = b"".join(hashlib.sha256(str(part).encode()).digest() * (1 << 15) for part in range(8))


@dataclass
class Asked:
    """A client and the server that it asks."""

    client: Any  # requests.Session or httpx.Client
    base: str  # scheme, address and port of the server
    protocol: str  # what PHP has to see
    folder: Path  # for files
    send: Callable[[str, bytes | Iterable[bytes]], Any]  # POSTs a body as it is
    receive: Callable[[str], Iterator[bytes]]  # GETs a body as it comes


def everything(asked: Asked) -> None:
    """All of it, over one connection."""
    ports = {echo(asked.client.get(f"{asked.base}/echo"), asked)["port"] for _ in range(REPEATS)}
    for check in [get, post, upload, cookies, redirects, codings, bodies]:
        check(asked)
    ports.add(echo(asked.client.get(f"{asked.base}/echo"), asked)["port"])
    assert len(ports) == 1, f"connections were not kept: {ports}"
    # A download that is not read to its end by then has one of its own.
    downloads(asked)


def echo(response: Any, asked: Asked) -> dict[str, Any]:
    assert response.status_code == 200, response
    came = response.json()
    assert came["protocol"] == asked.protocol, came
    assert came["secure"] == asked.base.startswith("https:"), came
    return came


def get(asked: Asked) -> None:
    came = echo(asked.client.get(f"{asked.base}/echo", params={"a": "1 & 2", "b[]": ["x", "ü"]}), asked)
    assert came["method"] == "GET" and came["query"] == {"a": "1 & 2", "b": ["x", "ü"]}, came
    head = asked.client.head(f"{asked.base}/hello")
    assert head.status_code == 200 and head.content == b"", head


def post(asked: Asked) -> None:
    came = echo(asked.client.post(f"{asked.base}/echo", data={"name": "Ada & Bob", "city": "Köln"}), asked)
    assert came["method"] == "POST" and came["fields"] == {"name": "Ada & Bob", "city": "Köln"}, came
    came = echo(asked.client.post(f"{asked.base}/echo", json={"n": 1}), asked)
    assert came["fields"] == [] and came["length"] in (len('{"n": 1}'), len('{"n":1}')), came


def upload(asked: Asked) -> None:
    files = {"small": ("a.txt", b"few", "text/plain"), "big": ("b.bin", BIG[:1_500_000], "application/octet-stream")}
    came = echo(asked.client.post(f"{asked.base}/echo", data={"field": "value"}, files=files), asked)
    assert came["fields"] == {"field": "value"}, came
    for field, (name, content, kind) in files.items():
        expected = {"name": name, "type": kind, "size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        assert came["files"][field] == expected, came


def cookies(asked: Asked) -> None:
    counts = [asked.client.get(f"{asked.base}/count").json()["count"] for _ in range(3)]
    assert counts == [1, 2, 3], counts


def redirects(asked: Asked) -> None:
    for status, method in [(301, "GET"), (302, "GET"), (303, "GET"), (307, "POST"), (308, "POST")]:
        response = asked.client.post(f"{asked.base}/leave?status={status}", data={"kept": "yes"})
        came = echo(response, asked)
        assert [earlier.status_code for earlier in response.history] == [status], response.history
        assert came["method"] == method and came["query"] == {"from": str(status)}, came
        assert came["fields"] == ({"kept": "yes"} if method == "POST" else []), came


def codings(asked: Asked) -> None:
    known = asked.client.headers["Accept-Encoding"].replace(" ", "").split(",")
    assert {"gzip", "br"} <= set(known), known
    for coding in known:
        response = asked.client.get(f"{asked.base}/text", headers={"Accept-Encoding": coding})
        # deflate is one that the server does not have.
        expected = None if coding == "deflate" else coding
        assert response.headers.get("Content-Encoding") == expected, (coding, response.headers)
        assert response.text == TEXT, coding
    assert asked.client.get(f"{asked.base}/text").text == TEXT


def bodies(asked: Asked) -> None:
    pieces = [BIG[start : start + 65_521] for start in range(0, len(BIG), 65_521)]
    # A generator has no length: chunks over HTTP/1.1.
    for body in [BIG, (piece for piece in pieces), b""]:
        came = echo(asked.send(f"{asked.base}/echo", body), asked)
        content = b"" if body == b"" else BIG
        assert came["length"] == len(content) and came["sha256"] == hashlib.sha256(content).hexdigest(), came


def downloads(asked: Asked) -> None:
    assert b"".join(asked.receive(f"{asked.base}/big?mib=8")) == BIG
    # The second part is sent when the first was read.
    opened = asked.folder / f"open-{asked.protocol.replace('/', '-')}-{asked.base.partition(':')[0]}"
    received = b""
    for piece in asked.receive(f"{asked.base}/parts?open={opened}"):
        received += piece
        if received == b"first\n":
            opened.touch()
    assert received == b"first\nsecond\n", received
    opened.unlink()
