"""Python's requests as a client: with_requests.py URL FOLDER [AUTHORITY]."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import checks
import requests
from requests.adapters import HTTPAdapter

THREADS = 16
REQUESTS = 400


def main(base: str, folder: str, authority: str | None = None) -> None:
    with requests.Session() as session:
        session.mount(base, HTTPAdapter(pool_maxsize=THREADS))
        if authority:
            assert_verifying(base)
            session.verify = authority
            # Else a bundle that the environment names is taken for it.
            session.trust_env = False

        def receive(url: str) -> Iterator[bytes]:
            with session.get(url, stream=True) as response:
                response.raise_for_status()
                yield from response.iter_content(None)

        def send(url: str, body: object) -> requests.Response:
            return session.post(url, data=body)

        checks.everything(checks.Asked(session, base, "HTTP/1.1", Path(folder), send, receive))
        at_once(session, base)


def assert_verifying(base: str) -> None:
    """Whom nobody vouches for is not asked."""
    try:
        requests.get(f"{base}/hello", timeout=10)
    except requests.exceptions.SSLError:
        return
    raise AssertionError("the certificate was not verified")


def at_once(session: requests.Session, base: str) -> None:
    def ask(number: int) -> tuple[int, int]:
        came = session.post(f"{base}/echo?n={number}", data={"body": "x" * number}).json()
        assert came["query"] == {"n": str(number)} and len(came["fields"]["body"]) == number, came
        return number, came["port"]

    with ThreadPoolExecutor(THREADS) as pool:
        answers = list(pool.map(ask, range(1, REQUESTS + 1)))
    ports = {port for _, port in answers}
    assert len(answers) == REQUESTS and len(ports) <= THREADS, ports


main(*sys.argv[1:])
