"""Attacks Hearth in every way that attack_http1 and attack_http2 know, and asks all the while as a normal client. `make attack`; see README.md.

What must hold under each: the normal client, 50 requests a second over kept and new connections, gets every answer, 99 of 100 within
50 ms; the server's process stays below 200 MB. Exit status 1: something of this does not hold.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

import attack_http1
import attack_http2
import nasty_client
import peers
import processes
import run

P99_LIMIT = 0.050
MEMORY_LIMIT = 200e6
# Requests a second of the normal client, over so many connections that are kept; each other one is on a new connection.
PACE, KEPT = 50, 4
# Time for 1000 clients to be there, and for what they ask at once to be answered.
WARM = 4.0
WORKER = """<?php
while (hearth_handle_request(function (): void {
    if ($_SERVER['REQUEST_URI'] === '/big') {
        for ($i = 0; $i < 64; $i++) {
            echo str_repeat('x', 16384);
        }
        return;
    }
    echo 'hello';
})) {
}
"""


@dataclass
class Seen:
    """What the normal client has seen under one attack."""

    times: list[float] = field(default_factory=list)
    wrong: Counter[str] = field(default_factory=Counter)
    memory: int = 0

    @property
    def p99(self) -> float:
        times = sorted(self.times)
        return times[int(len(times) * 0.99)] if times else float("inf")

    @property
    def holds(self) -> bool:
        return self.p99 < P99_LIMIT and self.memory < MEMORY_LIMIT and not self.wrong


async def ask(connection: nasty_client.Connection, seen: Seen) -> None:
    """One request of the normal client."""
    begin = time.perf_counter()
    try:
        answer = await connection.ask("/", host="normal")
        if answer.status != 200 or answer.body != b"hello":
            seen.wrong[str(answer)] += 1
    except (OSError, TimeoutError) as error:
        seen.wrong[f"{type(error).__name__}: {error}"] += 1
        connection.close()
    seen.times.append(time.perf_counter() - begin)


async def normal(port: int, seconds: float, seen: Seen) -> None:
    """The normal client: it does not wait for one answer before it asks for the next."""
    kept = [nasty_client.Connection(port) for _ in range(KEPT)]
    # Connections that are free.
    free = list(kept)
    tasks: set[asyncio.Task] = set()

    async def one(number: int) -> None:
        if number % 2 or not free:
            connection = nasty_client.Connection(port)
            await ask(connection, seen)
            connection.close()
            return
        connection = free.pop()
        await ask(connection, seen)
        free.append(connection)

    begin = time.perf_counter()
    for number in range(int(seconds * PACE)):
        await asyncio.sleep(max(0.0, begin + number / PACE - time.perf_counter()))
        task = asyncio.create_task(one(number))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    await asyncio.gather(*tasks)
    for connection in kept:
        connection.close()


async def watch_memory(pid: int, seen: Seen) -> None:
    """The most that the server's process has, until it is cancelled."""
    while True:
        seen.memory = max(seen.memory, processes.memory(pid).pss)
        await asyncio.sleep(0.2)


def attacker(attack: Callable[[int], Awaitable[None]], port: int) -> None:
    """A process that attacks until it is ended. The machine is shared: what is asked is whether the server holds, not the scheduler."""
    os.nice(5)
    run.raise_descriptor_limit()
    asyncio.run(attack(port))


async def under(name: str, port: int, pid: int, seconds: float) -> Seen:
    """What the normal client sees under an attack; `none` is none."""
    seen = Seen()
    attack = (attack_http1.ATTACKS | attack_http2.ATTACKS).get(name)
    process = None
    if attack:
        process = multiprocessing.get_context("fork").Process(target=attacker, args=(attack, port), daemon=True)
        process.start()
    watch = asyncio.create_task(watch_memory(pid, seen))
    try:
        await asyncio.sleep(WARM)
        await normal(port, seconds, seen)
    finally:
        watch.cancel()
        if process:
            if not process.is_alive():
                seen.wrong["the attack ended"] += 1
            process.kill()
            process.join()
    return seen


def attacked(name: str, options: argparse.Namespace) -> bool | None:
    """Whether it holds under an attack, by a server of its own; `None` if there is nothing to attack."""
    with tempfile.TemporaryDirectory(prefix="hearth-attack-") as folder:
        port = peers.free_port()
        server = start(Path(folder), port, options.set)
        try:
            asyncio.run(is_ready(port))
            if name in attack_http2.ATTACKS and not asyncio.run(attack_http2.is_spoken(port)):
                return None
            seen = asyncio.run(under(name, port, server.pid, options.seconds))
        finally:
            server.terminate()
            server.wait(60)
        if not seen.holds:
            print((Path(folder) / "log").read_text(errors="replace")[-400:])
    median, most = sorted(seen.times)[len(seen.times) // 2], max(seen.times)
    print(f"{name:24} {len(seen.times):6} {median * 1e3:5.1f} ms {seen.p99 * 1e3:5.1f} ms {most * 1e3:5.0f} ms "
          f"{seen.memory / 1e6:6.1f} MB{'' if seen.holds else '  DOES NOT HOLD'}", flush=True)
    for what, count in seen.wrong.most_common(3):
        print(f"    {count} x {what}", flush=True)
    return seen.holds


def start(folder: Path, port: int, more: list[str]) -> subprocess.Popen:
    (folder / "public").mkdir()
    (folder / "worker.php").write_text(WORKER)
    with (folder / "public/big.bin").open("wb") as file:
        file.truncate(32 << 20)
    command = [peers.binary("hearth"), "serve", str(folder), "--listen", f"127.0.0.1:{port}", "--set", "log.access=false",
               "--set", f"admin_socket={folder / 'admin.sock'}"]
    log = (folder / "log").open("wb")
    return subprocess.Popen([*command, *(word for setting in more for word in ("--set", setting))], stdout=log, stderr=log)


async def is_ready(port: int) -> None:
    until = time.monotonic() + 30
    while True:
        seen = Seen()
        await ask(nasty_client.Connection(port), seen)
        if not seen.wrong:
            return
        if time.monotonic() > until:
            raise SystemExit(f"no answer: {seen.wrong}")
        await asyncio.sleep(0.05)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=8, help="of each attack; default: 8")
    parser.add_argument("--only", help="names of attacks, with commas between them")
    parser.add_argument("--set", action="append", default=[], help="a setting of the server")
    options = parser.parse_args()
    run.raise_descriptor_limit()
    names = options.only.split(",") if options.only else [*attack_http1.ATTACKS, *attack_http2.ATTACKS]
    print(f"{'attack':24} {'asked':>6} {'p50':>8} {'p99':>8} {'max':>8} {'memory':>9}", flush=True)
    # The first is none: what the machine does to a normal client by itself.
    found = [attacked(name, options) for name in ["none", *names]]
    if None in found:
        print("HTTP/2 is not spoken: its attacks were left out")
    raise SystemExit(1 if False in found else 0)


if __name__ == "__main__":
    main()
