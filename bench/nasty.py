"""Does a request find a trace of another? A million requests of apps/nasty, each leaving behind what it can. `make nasty`.

Each answer must be the one that its case has in a process that has seen nothing; a probe among the cases, which writes down
all that can be observed, must be the same byte by byte; memory and descriptors of the workers must stay flat and no worker
may be replaced. Exit status 1: something of this does not hold. See README.md.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections import Counter
from pathlib import Path

import chaos
import nasty_client as clients
import peers
import processes
import report
import run
import scenario as scenarios
import soak

# Answers between two samples of memory and descriptors, as a part of all.
SAMPLES = 25
# Events that are no fault of the server: the application's own lines, and what it has to say of settings that are meant here.
EXPECTED = ("php", "PHP does not log errors", "PHP runs as root", "the application answered with a server error")


def main() -> None:
    parser = options_of(__doc__, 1_000_000)
    parser.add_argument("--only", help="cases whose name contains this")
    options = parser.parse_args()
    run.raise_descriptor_limit()
    with tempfile.TemporaryDirectory(prefix="hearth-nasty-") as folder:
        right = asyncio.run(nasty(options, Path(folder)))
    raise SystemExit(0 if right else 1)


def options_of(description: str, requests: int) -> argparse.ArgumentParser:
    """What this and legacy.py are told."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--requests", type=int, default=requests, help=f"default: {requests}")
    parser.add_argument("--clients", type=int, default=16, help="keep-alive connections (default: 16)")
    parser.add_argument("--workers", type=int, default=4, help="default: 4")
    parser.add_argument("--mode", default="request", choices=["request", "none", "classic"],
                        help="isolation of a resident pool, or classic; none must fail (default: request)")
    parser.add_argument("--method", choices=["rewind", "fork"], help="isolation_method (default: what hearth chooses)")
    parser.add_argument("--worker", type=Path, metavar="FILE", help="hearth-worker (default: the one beside hearth)")
    parser.add_argument("--ini", action="append", default=[], metavar="NAME=VALUE", help="a setting of PHP")
    parser.add_argument("--allow", type=float, default=2.0,
                        help="MiB of private memory a process may grow behind the warm-up (default: 2)")
    return parser


async def nasty(options: argparse.Namespace, folder: Path) -> bool:
    """The whole run; whether there was no trace."""
    expected = await record(options, folder)
    if options.only:
        expected = {case: answer for case, answer in expected.items() if options.only in case}
    server = start("nasty", options, options.mode, options.workers, folder)
    history: dict[int, list[soak.Sample]] = {}
    try:
        plan = clients.Plan(
            fast=[case for case in expected if not case.startswith("slow/")],
            slow=[case for case in expected if case.startswith("slow/")] or list(expected),
            expected=expected,
            probe=await first_probe(server, options.mode),
            process=process_of(options.mode),
        )
        await chaos.all_workers(server, options.workers, set())
        roles = soak.name_processes(server)
        begin = time.monotonic()
        seen = await load(server, options, plan, history)
        took = time.monotonic() - begin
        run.settle(server.roots)
        soak.take(history, server, seen.answers)
        # Children of the workers come and go; a new child of the zygote is a replaced worker.
        own = {*roles, *run.hearth_workers(server)}
        history = {pid: samples for pid, samples in history.items() if pid in own}
        zombies = [process for process in processes.tree(server.roots) if process.state == "Z"]
        alive = server.alive()
    finally:
        server.stop()
    print(f"\n{options.mode}: {seen.answers:,} answers ({seen.probes:,} probes) in {took:.0f} s, "
          f"{seen.answers / took:,.0f} a second; {len(seen.asked)} of {len(expected)} cases")
    print(report.columns([soak.HEADINGS, *(soak.line(roles.get(pid, "new"), one) for pid, one in history.items())]))
    wrong = show(seen)
    if zombies and options.mode == "request":
        wrong.append(f"{len(zombies)} processes were not waited for")
    wrong += [] if alive else [f"the server ended\n{server.log()}"]
    wrong += [f"{count} times in the log: {what}" for what, count in logged(server.folder).most_common(20)]
    print("\n".join(f"WRONG: {one}" for one in wrong) or "no trace")
    replaced = [line for line in server.log().splitlines() if "fresh worker" in line or "worker ended" in line]
    print("\n".join(replaced))
    # Classic workers have no image: what malloc keeps of a spike is theirs.
    flat = soak.verdict(history, roles, 0, 64.0 if options.mode == "classic" else options.allow)
    return not wrong and flat


async def record(options: argparse.Namespace, folder: Path) -> dict[str, clients.Answer]:
    """What each case answers to the first who asks, in a classic worker: it boots for each request."""
    server = start("nasty", options, "classic", 1, folder / "record")
    connection = clients.Connection(server.port)
    try:
        listed = (await connection.ask("/?list")).body.decode().splitlines()
        cases = [line.partition(" ")[2] for line in listed]
        return {case: await connection.ask(clients.target(case)) for case in cases}
    finally:
        connection.close()
        server.stop()


def start(name: str, options: argparse.Namespace, mode: str, workers: int, folder: Path) -> peers.Server:
    """A server of an application with a php.ini of its own. `mode` is "classic" or the isolation of a resident pool."""
    folder.mkdir(exist_ok=True)
    scenario = scenarios.load(name)
    setup = peers.Setup(scenario, workers, folder, peers.free_port())
    lines = [f"workers = {workers}", f'php_ini = "{scenario.app / "php.ini"}"']
    lines += [f'worker_binary = "{options.worker.resolve()}"'] if options.worker else []
    if mode == "classic":
        lines += ['mode = "classic"', f'script = "{scenario.classic_script}"']
    else:
        lines += ['mode = "resident"', f'script = "{scenario.resident_script}"', f'isolation = "{mode}"']
        lines += [f'isolation_method = "{options.method}"'] if options.method else []
    ini = "".join(f'{name} = "{value}"\n' for name, _, value in (one.partition("=") for one in options.ini))
    config = setup.write("hearth.toml", (
        f'listen = "127.0.0.1:{setup.port}"\nadmin_socket = "{folder}/admin.sock"\nroot = "{scenario.root}"\n\n'
        '[compression]\nalgorithms = []\n\n'
        '[log]\naccess = false\nformat = "json"\n'
        f'level = "warn"\n\n[pool.web]\n' + "\n".join(lines) + (f"\n\n[pool.web.ini]\n{ini}" if ini else "\n")
    ))
    return peers.start_commands(f"hearth-{mode}", setup, [peers.serve(scenario.app, config)])


def process_of(mode: str) -> str:
    """Classic workers are not put back as a whole: their memory and their numbers of descriptors are their own."""
    return "no" if mode == "classic" else "yes"


async def first_probe(server: peers.Server, mode: str) -> clients.Answer:
    """The probe that all others must equal: the one after OPcache has compiled what the probe includes."""
    connection = clients.Connection(server.port)
    target = clients.probe_target(process_of(mode), b"")
    probes = [await connection.ask(target) for _ in range(20)]
    connection.close()
    if probes[-1].status != 200:
        raise SystemExit(f"the probe failed: {probes[-1]}\n{server.log()}")
    return probes[-1]


async def load(server: peers.Server, options: argparse.Namespace, plan: clients.Plan,
               history: dict[int, list[soak.Sample]]) -> clients.Seen:
    """All clients at the same time; memory and descriptors are sampled on the way."""
    seen = clients.Seen()
    running = [asyncio.create_task(clients.client(number, server.port, plan, seen, options.requests))
               for number in range(options.clients)]
    next_sample = 0
    while not all(task.done() for task in running):
        await asyncio.wait(running, timeout=0.5, return_when=asyncio.FIRST_EXCEPTION)
        if seen.answers >= next_sample:
            soak.take(history, server, seen.answers)
            next_sample = seen.answers + options.requests // SAMPLES
        run.say(f"{seen.answers:,} answers, {len(seen.wrong)} cases wrong, {len(seen.traces)} traces")
    run.say("")
    for task in running:
        task.result()
    return seen


def logged(folder: Path) -> Counter[str]:
    """What the server, not the application, found worth a warning, without what identifies one."""
    found: Counter[str] = Counter()
    for event in chaos.read_log(folder):
        if event.get("level") in ("WARN", "ERROR") and not event.get("message", "").startswith(EXPECTED):
            kept = {key: value for key, value in event.items()
                    if key not in ("timestamp", "pid", "worker", "incarnation", "request", "id", "target", "spans", "span")}
            found[str(kept)] += 1
    return found


def show(seen: clients.Seen) -> list[str]:
    """What was wrong, most frequent first."""
    wrong = [f"{count} times {case}: {seen.examples[case]}" for case, count in seen.wrong.most_common(60)]
    lines: dict[str, list[tuple[int, str]]] = {}
    for (line, before), count in seen.traces.most_common():
        lines.setdefault(line.partition(":")[0], []).append((count, f"{line} (after {before})"))
    for name, found in list(lines.items())[:60]:
        total = sum(count for count, _ in found)
        wrong.append(f"{total} probes differ in {name}, e.g. " + "; ".join(text for _, text in found[:2]))
    return wrong


if __name__ == "__main__":
    main()
