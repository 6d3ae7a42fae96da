"""The nasty application with the compiler's sanitizers watching our C: does it touch what is not its own? `make nasty-sanitized`.

nasty.py runs once a way of serving, with a hearth-worker that was built with HEARTH_SANITIZE. Exit status 1: a sanitizer has
something to say, or a run that must be free of traces is not. See README.md.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import peers

# Each process writes to a file of its own. Leaks are not looked for: a worker ends, or is put back, with all it has. Undefined
# behaviour is a trap, which the address sanitizer reports as SIGILL.
OPTIONS = "log_path={folder}/report:detect_leaks=0:quarantine_size_mb=64:handle_sigill=1"
# PHP's own allocator hides its blocks from the sanitizer; this one gives each to malloc(), and knows memory_limit too.
WATCHED_MEMORY = {"USE_ZEND_ALLOC": "0", "USE_TRACKED_ALLOC": "1"}
# What a report has in it, unlike the sanitizer's warnings.
REPORT = "ERROR: AddressSanitizer"
# Lines of a report that are shown.
SHOWN = 40


@dataclass(frozen=True)
class Run:
    """One way of serving."""

    title: str
    arguments: tuple[str, ...]
    memory: dict[str, str]
    # Part of all requests.
    part: float
    # It must see no trace of another request; else nasty.py may say what it likes.
    traceless: bool


RUNS = [
    Run("rewind, PHP's memory watched", ("--method", "rewind"), WATCHED_MEMORY, 0.3, True),
    # A warm image, and the search for free memory, need PHP's own allocator.
    Run("rewind, PHP's own allocator", ("--method", "rewind"), {}, 0.3, True),
    # An open file of the boot is one for all forks: a request that sets a flag on it shows in the next one's probe.
    Run("fork, PHP's memory watched", ("--method", "fork"), WATCHED_MEMORY, 0.05, False),
    Run("isolation none, PHP's memory watched", ("--mode", "none"), WATCHED_MEMORY, 0.05, False),
    Run("classic, PHP's memory watched", ("--mode", "classic"), WATCHED_MEMORY, 0.3, False),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("worker", type=Path, help="hearth-worker, built with HEARTH_SANITIZE")
    parser.add_argument("--requests", type=int, default=20_000, help="in all runs together (default: 20000)")
    parser.add_argument("--workers", type=int, default=4, help="default: 4")
    parser.add_argument("--only", default="", help="runs whose title contains this")
    options = parser.parse_args()
    must_be_watched(options.worker)
    results = [is_clean(one, options) for one in RUNS if options.only in one.title]
    raise SystemExit(0 if results and all(results) else 1)


def must_be_watched(worker: Path) -> None:
    """A worker that nobody watches would find nothing, ever."""
    linked = subprocess.run(["ldd", worker], capture_output=True, text=True, check=True).stdout
    if "libasan" not in linked:
        raise SystemExit(f"{worker} is not linked with libasan; build it with HEARTH_SANITIZE=address")


def is_clean(one: Run, options: argparse.Namespace) -> bool:
    """Runs it; whether there was nothing to complain of."""
    requests = max(1, int(options.requests * one.part))
    with tempfile.TemporaryDirectory(prefix="hearth-sanitized-") as folder:
        done = subprocess.run(
            [sys.executable, peers.BENCH / "nasty.py", "--worker", options.worker, "--requests", str(requests),
             "--workers", str(options.workers), "--allow", "256", *one.arguments],
            env={**os.environ, **one.memory, "ASAN_OPTIONS": OPTIONS.format(folder=folder)},
            capture_output=True, text=True, check=False,
        )
        found = reports(Path(folder))
    lines = done.stdout.splitlines()
    answered = next((line for line in lines if " answers (" in line), "")
    clean = not found and bool(answered) and (done.returncode == 0 or not one.traceless)
    print(f"{one.title}: {answered.strip() or 'nasty.py broke off'}: {len(found)} reports, {'clean' if clean else 'NOT CLEAN'}")
    if not clean:
        print("\n".join([*lines, done.stderr, *found]))
    sys.stdout.flush()
    return clean


def reports(folder: Path) -> list[str]:
    """What the sanitizers have found, shortened; each only once, and with the number of processes that said so."""
    found: dict[str, list[str]] = {}
    for path in sorted(folder.iterdir()):
        text = path.read_text(errors="replace")
        if REPORT in text:
            summary = next((line for line in text.splitlines() if line.startswith("SUMMARY")), text.splitlines()[0])
            found.setdefault(summary, []).append(text)
    return [f"{len(texts)} processes:\n" + "\n".join(texts[0].splitlines()[:SHOWN]) for texts in found.values()]


if __name__ == "__main__":
    main()
