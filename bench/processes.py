"""CPU time and memory of a tree of processes, from /proc. Linux only.

CPU time is user + system of each process and of its children that ended and were waited for; so a worker that is
replaced between two readings is not lost as long as its parent lives.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

TICK = os.sysconf("SC_CLK_TCK")
PROC = Path("/proc")


@dataclass(frozen=True)
class Process:
    """One line of /proc/PID/stat. Seconds."""

    pid: int
    parent: int
    name: str
    state: str
    cpu: float


@dataclass(frozen=True)
class Memory:
    """Bytes. `pss` counts a page shared by n processes as 1/n; `private` is what only this process has, written to."""

    pss: int
    private: int


def read_all() -> dict[int, Process]:
    """Every process of the machine."""
    found = {}
    for entry in os.scandir(PROC):
        if entry.name.isdigit() and (process := _read(int(entry.name))):
            found[process.pid] = process
    return found


def tree(roots: list[int]) -> list[Process]:
    """The processes with these ids and all their descendants, parents first."""
    everything = read_all()
    children: dict[int, list[Process]] = {}
    for process in everything.values():
        children.setdefault(process.parent, []).append(process)
    found: list[Process] = []
    waiting = [everything[pid] for pid in roots if pid in everything]
    while waiting:
        process = waiting.pop(0)
        found.append(process)
        waiting.extend(sorted(children.get(process.pid, []), key=lambda child: child.pid))
    return found


def cpu_seconds(roots: list[int]) -> float:
    """CPU time of the tree so far. Resolution: a clock tick (10 ms) a process."""
    return sum(process.cpu for process in tree(roots))


def memory(pid: int) -> Memory:
    """Memory of one process; nothing once it has ended."""
    pss = private = 0
    try:
        for line in (PROC / str(pid) / "smaps_rollup").read_text().splitlines():
            name, _, rest = line.partition(":")
            if name == "Pss":
                pss = int(rest.split()[0]) * 1024
            elif name == "Private_Dirty":
                private = int(rest.split()[0]) * 1024
    except PermissionError:
        # Of a process that is not dumpable, only root may know more.
        return _unshared(pid)
    except (FileNotFoundError, ProcessLookupError):
        pass
    return Memory(pss, private)


def _unshared(pid: int) -> Memory:
    """Anonymous memory alone, by /proc/PID/statm."""
    try:
        _, resident, shared, *_ = (PROC / str(pid) / "statm").read_text().split()
    except (FileNotFoundError, ProcessLookupError):
        return Memory(0, 0)
    private = (int(resident) - int(shared)) * os.sysconf("SC_PAGE_SIZE")
    return Memory(private, private)


def pss(roots: list[int]) -> int:
    """Bytes of the tree, shared pages counted once."""
    return sum(memory(process.pid).pss for process in tree(roots))


def descriptors(pid: int) -> int:
    """Open file descriptors of one process; 0 once it has ended, or where only root may know."""
    try:
        return len(os.listdir(PROC / str(pid) / "fd"))
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return 0


def _read(pid: int) -> Process | None:
    try:
        text = (PROC / str(pid) / "stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    # proc(5): the name is in parentheses and may contain any character.
    head, _, tail = text.rpartition(")")
    fields = tail.split()
    return Process(
        pid=pid,
        parent=int(fields[1]),
        name=head.partition("(")[2],
        state=fields[0],
        cpu=sum(int(value) for value in fields[11:15]) / TICK,
    )
