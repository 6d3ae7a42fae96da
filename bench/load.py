"""Sends requests: wrk for load, http.client for the check that the answers are right."""

from __future__ import annotations

import http.client
import json
import subprocess
import time
from dataclasses import dataclass

from scenario import BENCH, Scenario

# Longer than any answer takes at 1000 connections on one core.
TIMEOUT = "20s"


@dataclass(frozen=True)
class Load:
    """What wrk saw in one round. Microseconds."""

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


def run(port: int, path: str, connections: int, seconds: float) -> Load:
    """Keeps `connections` keep-alive connections busy, one request each at a time, from one thread."""
    # wrk takes whole seconds.
    command = ["wrk", "-t1", f"-c{connections}", f"-d{max(1, round(seconds))}s", "--timeout", TIMEOUT]
    command += ["-s", str(BENCH / "wrk.lua"), f"http://127.0.0.1:{port}{path}"]
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


def check(port: int, scenario: Scenario, timeout: float = 10.0) -> str | None:
    """Asks once; what is wrong with the answer, or None."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        connection.request("GET", scenario.path)
        answer = connection.getresponse()
        body = answer.read().decode(errors="replace")
    except (OSError, http.client.HTTPException) as error:
        return f"{type(error).__name__}: {error}"
    finally:
        connection.close()
    if answer.status != scenario.status:
        return f"status {answer.status} instead of {scenario.status}: {body[:200]!r}"
    if scenario.body is not None and body != scenario.body:
        return f"body {body[:200]!r} instead of {scenario.body!r}"
    kind = answer.headers.get("Content-Type", "")
    if kind.lower().replace(" ", "") != scenario.content_type.lower().replace(" ", ""):
        return f"Content-Type {kind!r} instead of {scenario.content_type!r}"
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
