"""Sends requests: wrk for load, h2load where it is HTTP/2, http.client for the check that the answers are right."""

from __future__ import annotations

import http.client
import json
import re
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote_from_bytes

from scenario import BENCH, Request, Scenario

# Longer than any answer takes at 1000 connections on one core.
TIMEOUT = "20s"
# Sessions that requests take in turn: more than there are workers, so that none waits for the lock of its session.
SESSIONS = 16
# Requests at a time on a connection of HTTP/2.
STREAMS = 16


@dataclass(frozen=True)
class Load:
    """What wrk or h2load saw in one round. Microseconds."""

    seconds: float
    requests: int
    errors: int
    p50: int
    p99: int
    max: int

    @property
    def rate(self) -> float:
        """Answers a second."""
        return self.requests / self.seconds if self.seconds else 0.0


def run(port: int, scenario: Scenario, connections: int, seconds: float, scheme: str = "http") -> Load:
    """Keeps `connections` keep-alive connections busy, one request each at a time, from one thread."""
    # wrk takes whole seconds.
    command = ["wrk", "-t1", f"-c{connections}", f"-d{max(1, round(seconds))}s", "--timeout", TIMEOUT]
    command += ["-s", str(BENCH / "wrk.lua"), f"{scheme}://127.0.0.1:{port}{scenario.first.path}"]
    if scenario.session or scenario.first.form or len(scenario.requests) > 1:
        command += ["--", *_turns(scenario)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    line = next((line for line in done.stdout.splitlines() if line.startswith("{")), None)
    if done.returncode != 0 or line is None:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    seen = json.loads(line)
    return Load(
        seconds=seen["duration"] / 1e6,
        requests=seen["requests"],
        errors=sum(seen[kind] for kind in ("connect", "read", "write", "status", "timeout")),
        p50=seen["p50"],
        p99=seen["p99"],
        max=seen["max"],
    )


def run_http2(port: int, scenario: Scenario, streams: int, seconds: float) -> Load:
    """Keeps `streams` requests going over HTTP/2 in the clear, `STREAMS` of them on each connection, from one thread."""
    whole = max(1, round(seconds))
    with tempfile.NamedTemporaryFile(prefix="hearth-h2load-") as log:
        command = ["h2load", "-t1", f"-c{-(-streams // STREAMS)}", f"-m{min(streams, STREAMS)}", f"-D{whole}", "--log-file", log.name,
                   f"http://127.0.0.1:{port}{scenario.first.path}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        counts = re.search(r"requests: .* (\d+) succeeded, (\d+) failed, \d+ errored, \d+ timeout", done.stdout)
        if done.returncode != 0 or counts is None:
            raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
        times = sorted(int(line.rpartition("\t")[2]) for line in Path(log.name).read_text().splitlines())
    return Load(
        seconds=float(whole),
        requests=int(counts[1]),
        errors=int(counts[2]),
        p50=times[len(times) // 2] if times else 0,
        p99=times[len(times) * 99 // 100] if times else 0,
        max=times[-1] if times else 0,
    )


def check(port: int, scenario: Scenario, timeout: float = 10.0) -> str | None:
    """Sends each request once; what is wrong with the first wrong answer, or None."""
    for request in scenario.requests:
        if wrong := _check(port, request, cookie(scenario, request, 0), timeout):
            return f"{request.path}: {wrong}"
    return None


def session_id(number: int) -> str:
    """Symfony takes ids of 22 characters and more."""
    return f"{number:032x}"


def cookie(scenario: Scenario, request: Request, number: int) -> str:
    """The cookie that names a session, or nothing."""
    return f"{scenario.session.cookie}={session_id(number)}" if scenario.session and request.session else ""


def _turns(scenario: Scenario) -> list[str]:
    """The requests for wrk.lua, all of a round once with each session: PHP locks a session while a request uses it."""
    return [
        "\t".join([request.method, request.path, cookie(scenario, request, number), *_coded(request)])
        for number in range(SESSIONS if scenario.session else 1)
        for request in scenario.requests
    ]


def _coded(request: Request) -> list[str]:
    """Type and content, for an argument."""
    kind, content = request.content()
    return [kind, quote_from_bytes(content)]


def _check(port: int, request: Request, cookies: str, timeout: float) -> str | None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        kind, content = request.content()
        headers = {name: value for name, value in (("Cookie", cookies), ("Content-Type", kind)) if value}
        connection.request(request.method, request.path, content or None, headers)
        answer = connection.getresponse()
        body = answer.read().decode(errors="replace")
    except (OSError, http.client.HTTPException) as error:
        return f"{type(error).__name__}: {error}"
    finally:
        connection.close()
    if answer.status != request.status:
        return f"status {answer.status} instead of {request.status}: {body[:200]!r}"
    if request.body is not None and body != request.body:
        return f"body {body[:200]!r} instead of {request.body!r}"
    if request.contains not in body:
        return f"{request.contains!r} is not in body {body[:2000]!r}"
    kind = answer.headers.get("Content-Type", "")
    if kind.lower().replace(" ", "") != request.content_type.lower().replace(" ", ""):
        return f"Content-Type {kind!r} instead of {request.content_type!r}"
    return None


def wait_until_right(port: int, scenario: Scenario, alive, deadline: float) -> str | None:
    """Asks until the answer is right, `alive()` is false or `deadline` seconds have passed; what is wrong, or None."""
    end = time.monotonic() + deadline
    while True:
        wrong = check(port, scenario)
        if wrong is None:
            return None
        if not alive():
            return f"it ended ({wrong})"
        if time.monotonic() > end:
            return wrong
        time.sleep(0.02)
