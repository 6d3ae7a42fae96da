"""Compares Hearth with nginx + php-fpm, php -S and bare hyper, side by side in one run. `make bench`; see README.md."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from datetime import datetime, timezone
from pathlib import Path

import load
import machine
import peers
import processes
import report
import scenario as scenarios
from scenario import BENCH, Scenario

SETTLE_DEADLINE = 10.0
# Of a scenario that names none.
CONNECTIONS = [1, 64, 1000]


def main() -> None:
    options = read_options()
    raise_descriptor_limit()
    run = {
        "format": 1,
        "started": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "machine": machine.identity(),
        "software": machine.software(),
        "options": {key: getattr(options, key) for key in ("rounds", "duration", "warmup", "workers")},
        "scenarios": [],
    }
    print("machine:  " + ", ".join(f"{key} {value}" for key, value in run["machine"].items()))
    print("software: " + ", ".join(f"{key} {value}" for key, value in run["software"].items()))
    print(f"workers:  {options.workers} PHP workers everywhere; {options.rounds} rounds of {options.duration:g} s")
    with tempfile.TemporaryDirectory(prefix="hearth-bench-") as folder:
        for scenario in scenarios.chosen(options.scenario):
            if scenario.needs and not scenario.needs.exists():
                print(f"left out: {scenario.title}: there is no {scenario.needs}")
                continue
            run["scenarios"].append(measure(scenario, options, Path(folder)))
    path = save(run, options.output)
    print(f"\n{report.tables(run)}\n\nsaved as {os.path.relpath(path)}")
    if errors := sum(one["errors"] for part in run["scenarios"] for row in part["rows"] for one in row["rounds"]):
        print(f"{errors} requests failed; see the column `errors`")


def measure(scenario: Scenario, options: argparse.Namespace, folder: Path) -> dict:
    """All rows of one scenario. All servers run during all rounds; the ones not asked are idle."""
    prepare(scenario)
    servers: list[peers.Server] = []
    try:
        for name in options.only or scenario.servers or peers.USUAL:
            servers.append(peers.start(name, scenario, options.workers, folder))
        rows = []
        for connections in options.connections or scenario.connections or CONNECTIONS:
            of_connections = {server.name: {"server": server.name, "connections": connections, "rounds": []}
                              for server in servers}
            for server in servers:
                say(f"{scenario.name} c={connections}: warming up {server.name}")
                server.load(connections, options.warmup)
            for number in range(options.rounds):
                for server in servers:
                    say(f"{scenario.name} c={connections}: round {number + 1}/{options.rounds}, {server.name}")
                    settle([root for each in servers for root in each.roots])
                    one = one_round(server, connections, options.duration)
                    of_connections[server.name]["rounds"].append(one)
            rows += of_connections.values()
        say("")
        goals = [dataclasses.asdict(goal) for goal in scenario.goals]
        return {"name": scenario.name, "title": scenario.title, "goals": goals, "rows": rows}
    finally:
        for server in servers:
            server.stop()


def one_round(server: peers.Server, connections: int, duration: float) -> dict:
    """One server under load once."""
    must_be_right(server)
    pss_before = processes.pss(server.roots)
    before = server.cpu_seconds()
    seen = server.load(connections, duration)
    front, php = (after - was for after, was in zip(server.cpu_seconds(), before))
    settle(server.roots)
    pss_after = processes.pss(server.roots)
    must_be_right(server)
    if not seen.requests:
        raise SystemExit(f"{server.name} answered nothing within {duration} s at c={connections}\n{server.log()}")
    return {
        "requests": seen.requests,
        "rate": round(seen.rate, 1),
        "cpu_us": round((front + php) / seen.requests * 1e6, 2),
        "front_us": round(front / seen.requests * 1e6, 2),
        "php_us": round(php / seen.requests * 1e6, 2),
        "p50_us": seen.p50,
        "p99_us": seen.p99,
        "max_us": seen.max,
        "errors": seen.errors,
        "pss_before": pss_before,
        "pss_after": pss_after,
        "private_of_workers": [processes.memory(pid).private for pid in hearth_workers(server)],
    }


def hearth_workers(server: peers.Server) -> list[int]:
    """The workers of a hearth server: children of the zygote, which is the server's child."""
    if not server.name.startswith("hearth"):
        return []
    below = processes.tree(server.roots)
    zygotes = {process.pid for process in below if process.parent in server.roots}
    return [process.pid for process in below if process.parent in zygotes]


def must_be_right(server: peers.Server) -> None:
    """Ends the comparison when a server does not give the right answer."""
    if wrong := load.check(server.port, server.scenario, timeout=30.0):
        raise SystemExit(f"{server.name}: {wrong}\n{server.log()}")


def settle(roots: list[int]) -> None:
    """Waits until the servers are idle: what an ended load left in queues must not be charged to the next round."""
    end = time.monotonic() + SETTLE_DEADLINE
    before = processes.cpu_seconds(roots)
    while time.monotonic() < end:
        time.sleep(0.1)
        now = processes.cpu_seconds(roots)
        if now - before < 2 / processes.TICK:
            return
        before = now


def prepare(scenario: Scenario) -> None:
    """Runs what the scenario wants to be run before any server starts."""
    env = {**os.environ, **scenario.env}
    for arguments in scenario.prepare:
        subprocess.run([peers.php(), *arguments], cwd=scenario.app, env=env, check=True, stdout=subprocess.DEVNULL)


def save(run: dict, output: Path | None) -> Path:
    """Writes the run as one JSON file."""
    if output is None:
        stamp = run["started"].replace(":", "").replace("-", "").partition("+")[0]
        output = BENCH / "results" / f"{stamp}.json"
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(run, indent=1) + "\n")
    return output


def say(text: str) -> None:
    """Progress, on one line where there is a terminal."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


def raise_descriptor_limit() -> None:
    """1000 connections need more descriptors than many a shell allows; the servers inherit the limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 65536 if hard == resource.RLIM_INFINITY else min(65536, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def default_workers() -> int:
    """What hearth chooses: two a core, at least 2."""
    return max(2, 2 * len(os.sched_getaffinity(0)))


def read_options() -> argparse.Namespace:
    def numbers(text: str) -> list[int]:
        return [int(part) for part in text.split(",")]

    def known(text: str) -> list[str]:
        chosen = text.split(",")
        if unknown := [name for name in chosen if name not in peers.PEERS]:
            raise argparse.ArgumentTypeError(f"no server {unknown[0]!r}; there are: {', '.join(peers.PEERS)}")
        return chosen

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scenario", type=lambda text: text.split(","), default=[],
                        help="NAME[,NAME]: files and folders of bench/scenarios")
    parser.add_argument("--only", type=known, help="SERVER[,SERVER] of all scenarios: " + ", ".join(peers.PEERS))
    parser.add_argument("--connections", type=numbers, help="N[,N] (default: the scenario's, or 1,64,1000)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds a row (default: 3)")
    parser.add_argument("--duration", type=float, default=3.0, help="seconds a round (default: 3)")
    parser.add_argument("--warmup", type=float, default=1.0, help="seconds before the first round (default: 1)")
    parser.add_argument("--workers", type=int, default=default_workers(), help="PHP workers (default: two a core)")
    parser.add_argument("--quick", action="store_true", help="1 round of 1 s: does everything run?")
    parser.add_argument("--output", type=Path, help="the JSON file (default: bench/results/TIME.json)")
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.duration = 1, 1.0
    return options


if __name__ == "__main__":
    main()
