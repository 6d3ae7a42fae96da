"""Kills random workers of Hearth under load and holds every answer against its request. `make chaos`; see README.md.

What must hold: the server stays up; each answer belongs to its request; a request fails only if it was in a worker that was
killed, and the log says so; a request that may run again (GET) does not fail before its answer has begun. Exit status 1:
something of this does not hold.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import tempfile
import time
from pathlib import Path

import echo_client
import load
import peers
import run
import scenario as scenarios

REPLACED_DEADLINE = 15.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200, help="default: 200")
    parser.add_argument("--clients", type=int, default=16, help="keep-alive connections (default: 16)")
    parser.add_argument("--pause", type=float, default=0.1, help="seconds between replacement and next kill (default: 0.1)")
    parser.add_argument("--workers", type=int, default=run.default_workers(), help="default: two a core")
    parser.add_argument("--server", default="hearth", choices=["hearth", "hearth-classic"], help="default: hearth")
    options = parser.parse_args()
    run.raise_descriptor_limit()
    with tempfile.TemporaryDirectory(prefix="hearth-chaos-") as folder:
        server = peers.start(options.server, scenarios.load("echo"), options.workers, Path(folder))
        try:
            seen, killed, took = asyncio.run(chaos(server, options))
            wrong = after(server, options.workers)
        finally:
            server.stop()
        events = read_log(server.folder)
        wrong += judge(seen, killed, events)
        print(f"{len(killed)} workers killed in {took:.0f} s; {seen.right:,} right answers")
        print(f"{len(seen.failed)} requests answered 502, {len(seen.broken)} answers broken off, other: {dict(seen.other)}")
        print("\n".join(f"WRONG: {one}" for one in wrong[:20]) or "all of them were in a killed worker, and logged")
    raise SystemExit(1 if wrong else 0)


async def chaos(server: peers.Server, options: argparse.Namespace) -> tuple[echo_client.Seen, set[int], float]:
    """Load and kills at the same time; what was seen, who was killed, seconds."""
    seen = echo_client.Seen()
    stop = asyncio.Event()
    begin = time.monotonic()
    clients = [asyncio.create_task(echo_client.client(number, server.port, stop, seen))
               for number in range(options.clients)]
    try:
        killed = await kill_workers(server, options, seen)
    finally:
        stop.set()
        ended = await asyncio.gather(*clients, return_exceptions=True)
    seen.wrong += [f"a client failed: {error!r}" for error in ended if error is not None]
    return seen, killed, time.monotonic() - begin


async def kill_workers(server: peers.Server, options: argparse.Namespace, seen: echo_client.Seen) -> set[int]:
    """Kills one worker after the other, each time all are there."""
    dice = random.Random(1)
    killed: set[int] = set()
    while len(killed) < options.kills:
        workers = await all_workers(server, options.workers, killed)
        await asyncio.sleep(options.pause * dice.random() * 2)
        victim = dice.choice(workers)
        os.kill(victim, signal.SIGKILL)
        killed.add(victim)
        run.say(f"{len(killed)} killed, {seen.right:,} right answers, {len(seen.failed)} failed")
    await all_workers(server, options.workers, killed)
    run.say("")
    return killed


async def all_workers(server: peers.Server, count: int, killed: set[int]) -> list[int]:
    """The living workers, once there are `count`."""
    end = time.monotonic() + REPLACED_DEADLINE
    while True:
        workers = [pid for pid in run.hearth_workers(server) if pid not in killed]
        if len(workers) >= count:
            return workers
        if not server.alive():
            raise SystemExit(f"the server ended\n{server.log()}")
        if time.monotonic() > end:
            raise SystemExit(f"a killed worker was not replaced within {REPLACED_DEADLINE:g} s\n{server.log()}")
        await asyncio.sleep(0.01)


def after(server: peers.Server, workers: int) -> list[str]:
    """What is wrong with the server when all is over."""
    wrong = []
    if not server.alive():
        wrong.append("the server ended")
    if problem := load.check(server.port, server.scenario):
        wrong.append(f"after the load: {problem}")
    if (count := len(run.hearth_workers(server))) != workers:
        wrong.append(f"{count} workers instead of {workers}")
    return wrong


def judge(seen: echo_client.Seen, killed: set[int], events: list[dict]) -> list[str]:
    """Holds what the clients saw against whom we killed and what the log says."""
    wrong = list(seen.wrong)
    wrong += [f"{count} answers with {what}" for what, count in seen.other.items()]
    died = {event.get("pid"): event for event in events if event.get("message") == "worker died"}
    reported = {event.get("id") for event in events if event.get("message") == "request failed"}
    ran_in_killed = {str(event.get("request")) for pid, event in died.items() if pid in killed}
    wrong += [f"the log does not say that process {pid} died" for pid in sorted(killed - died.keys())]
    wrong += [f"process {pid} died by itself: {died[pid]}" for pid in sorted(died.keys() - killed)]
    for method, request in seen.failed:
        if request not in ran_in_killed:
            wrong.append(f"{method} {request} failed and was in no killed worker")
        if request not in reported:
            wrong.append(f"{method} {request} failed and the log does not say so")
        if method == "GET":
            wrong.append(f"GET {request} failed, though it may run again")
    for method, worker in seen.broken:
        if worker is not None and worker not in killed:
            wrong.append(f"an answer to {method} broke off in process {worker}, which was not killed")
    return wrong


def read_log(folder: Path) -> list[dict]:
    """The JSON lines that the server printed."""
    events = []
    for path in sorted(folder.glob("output-*.log")):
        for line in path.read_text(errors="replace").splitlines():
            try:
                event = json.loads(line)
            except ValueError:
                continue
            if isinstance(event, dict):
                events.append(event)
    return events


if __name__ == "__main__":
    main()
