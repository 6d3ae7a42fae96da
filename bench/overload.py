"""Asks Hearth for twice what it can do, and for slow answers beside fast ones. `make overload`; see README.md.

What must hold at twice the capacity: as many requests are served as before, or nearly; all others get a quick 503; who is served waits no
longer than the queue lets him; memory stays flat; a second after the load is over all is as before. And with workers enough, slow
requests hold up no fast ones. Exit status 1: something of this does not hold.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import os
import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import load
import open_loop
import peers
import processes
import run
import scenario as scenarios

QUEUE_TIMEOUT = 0.5
# What a 503, or an answer, may take beyond that; the sweep that ends waiting runs ten times a second.
MORE = 0.3
# New connections among all requests.
ANEW = 0.2
CALM = 3.0
SLOW_RATE = 300.0
ROUND = 8.0


@dataclass(frozen=True)
class Case:
    """What is asked for."""

    # What --only takes.
    key: str
    name: str
    scenario: str
    path: str
    workers: int
    classic: bool = False


# Of the first two the client must be able to send twice as many: in classic mode a page of Symfony is slow enough.
CASES = [
    Case("waits", "a script that waits 10 ms, 8 workers", "echo", "/?id=overload&ms=10", 8),
    Case("symfony", "Symfony in classic mode, on one core", "symfony", "/", 4, classic=True),
    Case("beside", "fast beside slow", "echo", "/?id=calm", 32),
]


class Site:
    """A running server, on the first core; this process is on the others, if there are."""

    def __init__(self, case: Case, folder: Path) -> None:
        scenario = scenarios.load(case.scenario)
        run.prepare(scenario)
        place = folder / case.scenario
        place.mkdir()
        setup = peers.Setup(scenario, case.workers, place, peers.free_port())
        settings = f'queue_timeout = "{round(QUEUE_TIMEOUT * 1000)} ms"\n'
        mode = ("classic", scenario.classic_script) if case.classic else ("resident", scenario.resident_script)
        config = peers.hearth_config(setup, *mode, settings)
        cores = sorted(os.sched_getaffinity(0))
        command = [peers.binary("hearth"), "serve", str(scenario.app), "--config", str(config)]
        self.server = peers.start_commands("hearth", setup, [["taskset", "-c", str(cores[0]), *command]])
        if len(cores) > 1:
            os.sched_setaffinity(0, cores[1:])
        self.cores, self.path, self.port = cores, case.path, setup.port

    def memory(self) -> tuple[int, int]:
        """Private bytes of all its processes, and the descriptors of the server."""
        everything = processes.tree(self.server.roots)
        private = sum(processes.memory(process.pid).private for process in everything)
        return private, processes.descriptors(self.server.roots[0])

    def stop(self) -> None:
        os.sched_setaffinity(0, self.cores)
        self.server.stop()


def capacity(case: Case, site: Site) -> load.Load:
    """What is answered when there are always some requests that wait, and no more."""
    scenario = site.server.scenario
    asked = dataclasses.replace(scenario, requests=[dataclasses.replace(scenario.first, path=case.path)])
    return load.run(site.port, asked, 2 * case.workers, CALM)


async def share(case: Case, site: Site, client: open_loop.Client, options: argparse.Namespace) -> float:
    """How much of the capacity is served at twice of it: short rounds, each between two of the capacity, since a machine's speed changes."""
    able, shares = [(await asyncio.to_thread(capacity, case, site)).rate], []
    for _ in range(3 * options.rounds):
        seen, begin = open_loop.Seen(), time.monotonic()
        await client.load([(site.path, seen)], 2 * able[-1], CALM, ANEW)
        served = seen.count(200) / (time.monotonic() - begin)
        await client.answered()
        able.append((await asyncio.to_thread(capacity, case, site)).rate)
        shares.append(2 * served / sum(able[-2:]))
    low, middle, high = statistics.quantiles(shares, n=4)
    print(f"  served {middle:.2f} x the capacity, in {len(shares)} rounds (quartiles {low:.2f}, {high:.2f})", flush=True)
    return middle


async def recovery(client: open_loop.Client, site: Site, normal: float) -> float:
    """Seconds until a request is answered as if nothing had been."""
    begin = time.monotonic()
    while (now := time.monotonic() - begin) < 60:
        status, seconds = await client.one(site.path)
        if status == 200 and seconds <= normal:
            return now
        await asyncio.sleep(0.01)
    return now


async def twice(case: Case, site: Site, options: argparse.Namespace) -> list[str]:
    """What is wrong at twice the capacity."""
    client = open_loop.Client(site.port)
    await asyncio.to_thread(capacity, case, site)
    calm = await asyncio.to_thread(capacity, case, site)
    able, normal = calm.rate, max(3 * calm.p99 / 1e6, 0.05)
    print(f"{case.name}: {able:,.0f} requests/s, p99 {calm.p99 / 1e3:.0f} ms", flush=True)
    served = await share(case, site, client, options)
    seen, before = open_loop.Seen(), []

    async def sample() -> None:
        await asyncio.sleep(min(60.0, options.seconds / 4))
        before.append(site.memory())

    sampler = asyncio.create_task(sample())
    begin = time.monotonic()
    await client.load([(site.path, seen)], 2 * able, options.seconds, ANEW)
    took = time.monotonic() - begin
    recovered, (private, descriptors) = await asyncio.gather(recovery(client, site, normal), asyncio.to_thread(site.memory))
    await sampler
    await client.answered()
    client.close()
    (private_before, descriptors_before), = before
    others = {status: len(times) for status, times in seen.took.items() if status not in (200, 503)}
    print(f"  {seen.answers / took:,.0f} requests/s for {took:.0f} s: {seen.count(200) / took:,.0f} served a second, "
          f"p50 {seen.percentile(200, 0.5) * 1e3:.0f} ms, p99 {seen.percentile(200, 0.99) * 1e3:.0f} ms; "
          f"{seen.count(503) / took:,.0f} refused a second, p99 {seen.percentile(503, 0.99) * 1e3:.0f} ms")
    print(f"  private memory {private_before / 2**20:.1f} MiB, at the end {private / 2**20:.1f} MiB; descriptors of the server "
          f"{descriptors_before}, {descriptors}; recovered after {recovered:.2f} s; sent at most {seen.lag * 1e3:.0f} ms late")
    bound = QUEUE_TIMEOUT + MORE
    held = {
        "served at least 0.9 of the capacity": served >= 0.9,
        "the load was twice the capacity": seen.answers >= 1.95 * able * took,
        "all others got 503": not others and not seen.failed,
        f"503 within {bound} s (p99)": seen.percentile(503, 0.99) <= bound,
        f"served within {bound} s (p99)": seen.percentile(200, 0.99) <= bound,
        "memory is flat": private <= private_before * 1.05 + 8 * 2**20,
        "recovered within 1 s": recovered <= 1.0,
    }
    return [f"{case.name}: not so: {what} {others or ''} {dict(seen.failed) or ''}" for what, holds in held.items() if not holds]


async def beside(site: Site, options: argparse.Namespace) -> list[str]:
    """What is wrong with fast requests beside slow ones: rounds with and without take turns."""
    fast, slow = "/?id=fast", "/?id=slow&ms=100"
    client = open_loop.Client(site.port)
    p99: dict[bool, list[float]] = {False: [], True: []}
    await client.load([(fast, open_loop.Seen())], SLOW_RATE, 2, 0)
    for number in range(2 * options.rounds):
        mixed = number % 2 == 1
        seen, aside = open_loop.Seen(), open_loop.Seen()
        # One of twenty is slow; without, it is left out.
        turns = [(fast, seen)] * 19 + ([(slow, aside)] if mixed else [])
        rate = SLOW_RATE if mixed else SLOW_RATE * 0.95
        await client.load(turns, rate, ROUND, 0)
        await client.answered()
        p99[mixed].append(seen.percentile(200, 0.99))
        if seen.failed or aside.failed or set(seen.took) != {200}:
            return [f"fast beside slow: {dict(seen.failed)} {sorted(seen.took)}"]
    client.close()
    without, with_slow = statistics.median(p99[False]), statistics.median(p99[True])
    shown = {mixed: " ".join(f"{value * 1e3:.2f}" for value in sorted(values)) for mixed, values in p99.items()}
    print(f"5 % of 100 ms beside fast requests: p99 {with_slow * 1e3:.2f} ms, without {without * 1e3:.2f} ms "
          f"({with_slow / without:.2f} x)\n  with: {shown[True]}\n  without: {shown[False]}", flush=True)
    return [f"fast beside slow: p99 {with_slow / without:.2f} x"] if with_slow > 1.5 * without else []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600, help="at twice the capacity, each case (default: 600)")
    parser.add_argument("--rounds", type=int, default=7, help="of fast with and without slow requests; of twice the capacity three times as many (default: 7)")
    parser.add_argument("--only", choices=["waits", "symfony", "beside"], help="one of the three")
    options = parser.parse_args()
    run.raise_descriptor_limit()
    wrong: list[str] = []
    with tempfile.TemporaryDirectory(prefix="hearth-overload-") as folder:
        for case in CASES:
            if options.only not in (None, case.key):
                continue
            place = Path(folder) / case.key
            place.mkdir()
            site = Site(case, place)
            try:
                wrong += asyncio.run(beside(site, options) if case.key == "beside" else twice(case, site, options))
                if problem := load.check(site.port, site.server.scenario):
                    wrong.append(f"{case.name}: afterwards: {problem}")
            finally:
                site.stop()
    print("\n".join(f"WRONG: {one}" for one in wrong) or "all of it held")
    raise SystemExit(1 if wrong else 0)


if __name__ == "__main__":
    main()
