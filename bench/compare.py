"""Compares two runs of the same machine: `python3 bench/compare.py BEFORE.json AFTER.json`.

A change counts where the rounds of both runs do not overlap; all else is noise. Exit status 2: not comparable.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import report

FIGURES = [("rate", "req/s", "{:,.0f}"), ("cpu_us", "CPU us/req", "{:.1f}"), ("p99_us", "p99 us", "{:,.0f}")]


def main() -> None:
    if len(sys.argv) != 3:
        raise SystemExit("usage: python3 bench/compare.py BEFORE.json AFTER.json")
    before, after = (json.loads(Path(name).read_text()) for name in sys.argv[1:])
    refuse_unlike(before, after)
    for side, run in (("before", before), ("after", after)):
        print(f"{side}: {run['started']}, " + ", ".join(f"{key} {value}" for key, value in run["software"].items()))
    print(f"\n{table(before, after)}\n\n* the rounds do not overlap: the change is more than the noise of these two runs")


def refuse_unlike(before: dict, after: dict) -> None:
    """Figures of different machines, or of other settings, say nothing about each other."""
    unlike = [
        f"  {key}: {before[part].get(key)!r} and {after[part].get(key)!r}"
        for part, keys in (("machine", before["machine"]), ("options", ["workers", "duration"]))
        for key in keys
        if before[part].get(key) != after[part].get(key)
    ]
    if unlike:
        print("not comparable, the runs differ in:\n" + "\n".join(unlike), file=sys.stderr)
        raise SystemExit(2)


def table(before: dict, after: dict) -> str:
    """One line for each row that both runs have."""
    new = rows(after)
    lines = [["row", *(heading for _, heading, _ in FIGURES)]]
    for key, old_row in rows(before).items():
        if key in new:
            lines.append([" ".join(key), *(change(old_row, new[key], figure, shown) for figure, _, shown in FIGURES)])
    return report.columns(lines)


def rows(run: dict) -> dict[tuple[str, str, str], dict]:
    """The rows of a run by scenario, connections and server."""
    return {
        (scenario["name"], f"c={row['connections']}", row["server"]): row
        for scenario in run["scenarios"]
        for row in scenario["rows"]
    }


def change(old: dict, new: dict, figure: str, shown: str) -> str:
    """Both medians, the change, and a star where the spreads do not overlap."""
    was, was_least, was_greatest = report.spread(old, figure)
    now, now_least, now_greatest = report.spread(new, figure)
    apart = now_least > was_greatest or now_greatest < was_least
    percent = f"{(now - was) / was * 100:+.0f} %" if was else "new"
    return f"{shown.format(was)} > {shown.format(now)} {percent}{'*' if apart else ' '}"


if __name__ == "__main__":
    main()
