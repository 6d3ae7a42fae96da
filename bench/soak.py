"""Does memory stay flat? Many requests to Hearth, memory and descriptors of each of its processes sampled on the way.

`make soak`. Exit status 1: a process grew, a request failed or a worker was replaced. See README.md.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import dataclass
from pathlib import Path

import load
import peers
import processes
import report
import run
import scenario as scenarios
from report import MIB

CONNECTIONS = 64
# Samples before this part of the requests are warm-up: buffers, caches and OPcache find their size there.
WARM_UP = 0.2


@dataclass(frozen=True)
class Sample:
    """One process after so many requests of the whole server."""

    requests: int
    pss: int
    private: int
    descriptors: int


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scenario", default="hello,symfony", help="NAME[,NAME] (default: hello,symfony)")
    parser.add_argument("--server", default="hearth", choices=list(peers.PEERS), help="default: hearth")
    parser.add_argument("--requests", type=int, default=1_000_000, help="a scenario (default: 1000000)")
    parser.add_argument("--every", type=int, default=3, help="seconds between samples (default: 3)")
    parser.add_argument("--workers", type=int, default=run.default_workers(), help="default: two a core")
    parser.add_argument("--allow", type=float, default=1.0,
                        help="MiB of private memory a process may grow behind the warm-up (default: 1)")
    options = parser.parse_args()
    run.raise_descriptor_limit()
    with tempfile.TemporaryDirectory(prefix="hearth-soak-") as folder:
        found = [soak(name, options, Path(folder)) for name in options.scenario.split(",")]
    raise SystemExit(0 if all(found) else 1)


def soak(name: str, options: argparse.Namespace, folder: Path) -> bool:
    """One scenario; whether all stayed flat."""
    scenario = scenarios.load(name)
    run.prepare(scenario)
    server = peers.start(options.server, scenario, options.workers, folder)
    history: dict[int, list[Sample]] = {}
    sent = errors = 0
    seconds = 0.0
    try:
        # All processes are there once they have worked.
        load.run(server.port, scenario, CONNECTIONS, 1)
        run.settle(server.roots)
        roles = name_processes(server)
        take(history, server, sent)
        while sent < options.requests:
            seen = load.run(server.port, scenario, CONNECTIONS, options.every)
            if not seen.requests:
                raise SystemExit(f"{name}: no answer within {options.every} s\n{server.log()}")
            sent += seen.requests
            errors += seen.errors
            seconds += seen.seconds
            run.settle(server.roots)
            take(history, server, sent)
            run.say(f"{name}: {sent:,} requests")
        run.say("")
        run.must_be_right(server)
    finally:
        server.stop()
    print(f"\n{scenario.title}: {sent:,} requests in {seconds:.0f} s, {errors} errors")
    print(report.columns([HEADINGS, *(line(roles.get(pid, "new"), samples) for pid, samples in history.items())]))
    return verdict(history, roles, errors, options.allow)


HEADINGS = ["process", "samples", "PSS MiB", "private MiB", "fds", "PSS MiB/1M", "private MiB/1M"]


def name_processes(server: peers.Server) -> dict[int, str]:
    """What each process of the server is to a reader."""
    workers = run.hearth_workers(server)
    roles = {}
    for process in processes.tree(server.roots):
        what = "worker" if process.pid in workers else "server" if process.pid in server.roots else "zygote"
        roles[process.pid] = f"{what if workers else process.name} {process.pid}"
    return roles


def take(history: dict[int, list[Sample]], server: peers.Server, requests: int) -> None:
    """Samples every process of the server."""
    for process in processes.tree(server.roots):
        memory = processes.memory(process.pid)
        descriptors = processes.descriptors(process.pid)
        history.setdefault(process.pid, []).append(Sample(requests, memory.pss, memory.private, descriptors))


def line(role: str, samples: list[Sample]) -> list[str]:
    """One process in the table."""
    first, last = samples[0], samples[-1]
    return [
        role,
        str(len(samples)),
        f"{first.pss / MIB:.2f} > {last.pss / MIB:.2f}",
        f"{first.private / MIB:.2f} > {last.private / MIB:.2f}",
        f"{first.descriptors} > {last.descriptors}",
        f"{slope(samples, 'pss') / MIB * 1e6:+.2f}",
        f"{slope(samples, 'private') / MIB * 1e6:+.2f}",
    ]


def slope(samples: list[Sample], figure: str) -> float:
    """Growth a request, by least squares over the samples behind the warm-up."""
    settled = [one for one in samples if one.requests >= samples[-1].requests * WARM_UP]
    if len(settled) < 2:
        return 0.0
    middle = sum(one.requests for one in settled) / len(settled)
    mean = sum(getattr(one, figure) for one in settled) / len(settled)
    above = sum((one.requests - middle) * (getattr(one, figure) - mean) for one in settled)
    below = sum((one.requests - middle) ** 2 for one in settled)
    return above / below if below else 0.0


def verdict(history: dict[int, list[Sample]], roles: dict[int, str], errors: int, allow: float) -> bool:
    """Prints what is wrong; whether nothing is."""
    wrong = [f"{errors} requests failed"] if errors else []
    for pid, samples in history.items():
        if pid not in roles:
            wrong.append(f"process {pid} is new: a worker was replaced")
            continue
        growth = slope(samples, "private") * samples[-1].requests / MIB
        if growth > allow:
            wrong.append(f"{roles[pid]} has grown by {growth:.2f} MiB")
        if samples[-1].descriptors > samples[min(1, len(samples) - 1)].descriptors + 2:
            wrong.append(f"{roles[pid]} has more and more descriptors")
    print("flat" if not wrong else "NOT flat: " + "; ".join(wrong))
    return not wrong


if __name__ == "__main__":
    main()
