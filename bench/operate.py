"""Kills, stops, reloads, deploys and replaces Hearth under load on the Symfony demo. `make operate`; see README.md.

What must hold: no request fails (all are GET, and may run again); every answer is right; after a deploy no client gets an answer of
an older one. Exit status 1: something of this does not hold.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import nasty_client
import peers
import processes
import run

ROOT = Path(__file__).resolve().parent.parent
CONTROLLER = "src/Controller/ApiController.php"
MESSAGE = re.compile(rb'^{"message":"Hello, deploy (\d+)!"}$')
DEADLINE = 60.0
STOPPED = 0.2


@dataclass
class Seen:
    """What all clients have seen so far."""

    right: int = 0
    # Answers when a connection was closed under a request, which its client sends again.
    resent: int = 0
    wrong: Counter[str] = field(default_factory=Counter)
    # Number of the last deploy that was said to be done.
    deployed: int = 0


class Site:
    """A running server, and two folders that it is deployed to in turn."""

    def __init__(self, folder: Path, workers: int) -> None:
        self.folder, self.port, self.number = folder, peers.free_port(), 0
        shutil.copytree(ROOT / "php", folder / "php")
        for name in ("one", "two"):
            shutil.copytree(ROOT / "apps/symfony", folder / "apps" / name)
        self.write(0)
        command = [peers.binary("hearth"), "serve", str(self.place(0)), "--listen", f"127.0.0.1:{self.port}",
                   "--set", f"admin_socket={self.socket}", "--set", "log.access=false", "--set", f"pool.web.workers={workers}",
                   "--set", 'pool.web.warmup_paths=["/api/hello"]', "--set", 'pool.web.health_path="/api/hello"',
                   "--set", "reload.keep_previous=0 s"]
        self.log = (folder / "log").open("wb")
        self.first = subprocess.Popen(command, stdout=self.log, stderr=self.log)

    @property
    def socket(self) -> Path:
        return self.folder / "admin.sock"

    def place(self, number: int) -> Path:
        return self.folder / "apps" / ("one", "two")[number % 2]

    def write(self, number: int) -> None:
        """The code of a deploy."""
        file = self.place(number) / CONTROLLER
        file.write_text(re.sub(r"Hello, [^!]*!", f"Hello, deploy {number}!", file.read_text()))

    async def command(self, *words: str) -> str:
        """What a command of hearth prints; it must succeed."""
        process = await asyncio.create_subprocess_exec(
            peers.binary("hearth"), *words, "--socket", str(self.socket), stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT)
        said, _ = await process.communicate()
        if process.returncode:
            raise SystemExit(f"hearth {words}: {said.decode()}\n{self.tail()}")
        return said.decode()

    async def status(self) -> dict:
        return json.loads(await self.command("status", "--json"))

    async def ready(self) -> None:
        """Waits until it answers on its admin socket and serves."""
        until = time.monotonic() + DEADLINE
        while True:
            try:
                if (await self.status())["state"] == "serving":
                    return
            except SystemExit:
                if time.monotonic() > until:
                    raise
            await asyncio.sleep(0.05)

    def tail(self) -> str:
        return (self.folder / "log").read_text(errors="replace")[-3000:]


async def client(number: int, site: Site, stop: asyncio.Event, seen: Seen) -> None:
    """Sends one request after the other over one connection; one that was closed under a request is opened anew once."""
    connection = nasty_client.Connection(site.port)
    last = 0
    while not stop.is_set():
        at_least = max(last, seen.deployed)
        try:
            answer = await connection.ask("/api/hello", host="operate")
            if answer.status == 0:
                seen.resent += 1
                connection.close()
                answer = await connection.ask("/api/hello", host="operate")
        except OSError as error:
            seen.wrong[f"not connected: {error}"] += 1
            connection.close()
            continue
        said = MESSAGE.match(answer.body)
        if answer.status != 200 or not said:
            seen.wrong[str(answer)] += 1
        elif int(said[1]) < at_least:
            seen.wrong[f"deploy {int(said[1])} after {at_least}"] += 1
        else:
            last = int(said[1])
            seen.right += 1
    connection.close()


async def workers_of(site: Site) -> list[int]:
    pools = (await site.status())["pools"]
    return [worker["pid"] for pool in pools for worker in pool["workers"] if worker["state"] in ("idle", "running")]


async def one_of(site: Site, dice: random.Random) -> int:
    while not (pids := await workers_of(site)):
        await asyncio.sleep(0.01)
    return dice.choice(pids)


async def kill(site: Site, dice: random.Random) -> None:
    pid = await one_of(site, dice)
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


async def halt(site: Site, dice: random.Random) -> None:
    pid = await one_of(site, dice)
    os.kill(pid, signal.SIGSTOP)
    await asyncio.sleep(STOPPED)
    os.kill(pid, signal.SIGCONT)


async def reload(site: Site, seen: Seen) -> None:
    await site.command("reload")


async def deploy(site: Site, seen: Seen) -> None:
    number = seen.deployed + 1
    site.write(number)
    await site.command("reload", "--to", str(site.place(number)))
    seen.deployed = number


async def replace(site: Site) -> None:
    """A new binary; returns when the old process is gone."""
    old = (await site.status())["pid"]
    os.kill(old, signal.SIGUSR2)
    until = time.monotonic() + DEADLINE
    while Path(f"/proc/{old}").exists() and not is_zombie(old):
        if time.monotonic() > until:
            raise SystemExit(f"server {old} did not go\n{site.tail()}")
        await asyncio.sleep(0.05)
    await site.ready()


def is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


async def operate(site: Site, options: argparse.Namespace) -> Seen:
    seen, stop, dice = Seen(), asyncio.Event(), random.Random(options.seed)
    await site.ready()
    clients = [asyncio.create_task(client(number, site, stop, seen)) for number in range(options.clients)]
    acts = [("kills", options.kills, lambda: kill(site, dice)), ("stops", options.stops, lambda: halt(site, dice)),
            ("reloads", options.reloads, lambda: reload(site, seen)), ("deploys", options.deploys, lambda: deploy(site, seen)),
            ("replacements", options.replacements, lambda: replace(site))]
    await asyncio.sleep(3)
    calm, begin = seen.right, time.monotonic()
    await asyncio.sleep(3)
    rate = (seen.right - calm) / (time.monotonic() - begin)
    print(f"undisturbed: {rate:,.0f} requests/s", flush=True)
    for name, count, act in acts:
        right, begin, wrong = seen.right, time.monotonic(), sum(seen.wrong.values())
        for _ in range(count):
            await act()
        took = max(time.monotonic() - begin, 0.001)
        during = (seen.right - right) / took
        print(f"{count} {name} in {took:.0f} s: {during:,.0f} requests/s ({during / rate:.2f} x), "
              f"{sum(seen.wrong.values()) - wrong} wrong", flush=True)
    stop.set()
    await asyncio.gather(*clients)
    await memory(site)
    return seen


async def memory(site: Site) -> None:
    """What server, zygotes and workers have at the end."""
    status = await site.status()
    descriptors = len(list(Path(f"/proc/{status['pid']}/fd").iterdir()))
    private = processes.memory(status["pid"]).private / 2**20
    workers = sum(len(pool["workers"]) for pool in status["pools"])
    generations = sum(len(pool["generations"]) for pool in status["pools"])
    print(f"at the end: server {private:.1f} MiB private, {descriptors} descriptors; {generations} generations, {workers} workers")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in (("kills", 1000), ("stops", 20), ("reloads", 100), ("deploys", 20), ("replacements", 20),
                          ("clients", 16), ("workers", run.default_workers()), ("seed", 1)):
        parser.add_argument(f"--{name}", type=int, default=default, help=f"default: {default}")
    options = parser.parse_args()
    run.raise_descriptor_limit()
    with tempfile.TemporaryDirectory(prefix="hearth-operate-") as folder:
        site = Site(Path(folder), options.workers)
        try:
            seen = asyncio.run(operate(site, options))
        finally:
            end(site)
    print(f"{seen.right:,} right answers; {seen.resent} sent again on a new connection")
    print("\n".join(f"WRONG: {count} x {what}" for what, count in seen.wrong.most_common(20)) or "none failed, none was old")
    raise SystemExit(1 if seen.wrong else 0)


def end(site: Site) -> None:
    """Ends the server, whichever process it is by now."""
    status = subprocess.run([peers.binary("hearth"), "status", "--json", "--socket", str(site.socket)],
                            capture_output=True, check=False)
    pid = json.loads(status.stdout)["pid"] if status.returncode == 0 else site.first.pid
    try:
        os.kill(pid, signal.SIGTERM)
    except ProcessLookupError:
        pass
    site.first.wait(DEADLINE)
    until = time.monotonic() + DEADLINE
    while Path(f"/proc/{pid}").exists() and not is_zombie(pid) and time.monotonic() < until:
        time.sleep(0.05)
    site.log.close()


if __name__ == "__main__":
    main()
