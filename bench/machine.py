"""What a comparison ran on. Two files are compared only when `identity` is equal."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from pathlib import Path

import peers
from scenario import REPOSITORY


def identity() -> dict[str, object]:
    """What makes figures comparable: processor, cores, memory, kernel."""
    model = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    total = re.search(r"^MemTotal:\s*(\d+)", Path("/proc/meminfo").read_text(), re.MULTILINE)
    return {
        "cpu": model.group(1) if model else platform.machine(),
        "architecture": platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(int(total.group(1)) / 1024**2) if total else 0,
        "kernel": platform.release(),
    }


def software() -> dict[str, str]:
    """Versions of what takes part."""
    return {
        "hearth": _first_line([str(peers.release("hearth")), "--version"]),
        "commit": _first_line(["git", "-C", str(REPOSITORY), "describe", "--always", "--dirty", "--abbrev=12"]),
        "php": _first_line([peers.php(), "-r", "echo PHP_VERSION;"]),
        "php-fpm": _first_line([peers.php_fpm(), "-v"]),
        "nginx": _first_line([peers.program("nginx"), "-v"]),
        "wrk": _first_line(["wrk", "-v"]),
    }


def _first_line(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return "absent"
    return ((done.stdout + done.stderr).strip().splitlines() or ["unknown"])[0]
