"""Rounds to medians with spread, and medians to a table. Called by run and compare."""

from __future__ import annotations

import statistics
from collections.abc import Callable

MIB = 1024 * 1024
HEADINGS = ["server", "req/s", "CPU us/req", "front + PHP", "p50", "p99", "max", "errors", "PSS MiB", "private/worker"]
# Ratios to these servers, where they take part: heading, server, figure.
RATIOS = [
    ("req/s : fpm", "fpm", "rate"),
    ("CPU : fpm", "fpm", "cpu_us"),
    ("CPU : hearth", "hearth", "cpu_us"),
    ("CPU : hyper", "bare-hyper", "cpu_us"),
]


def spread(row: dict, key: str) -> tuple[float, float, float]:
    """Median, least and greatest of a figure over the rounds of a row."""
    values = [one[key] for one in row["rounds"]]
    return statistics.median(values), min(values), max(values)


def median(row: dict, key: str) -> float:
    """Median of a figure over the rounds of a row."""
    return spread(row, key)[0]


def tables(run: dict) -> str:
    """All tables of a run, one for each scenario and number of connections."""
    texts = []
    for scenario in run["scenarios"]:
        for connections in sorted({row["connections"] for row in scenario["rows"]}):
            rows = [row for row in scenario["rows"] if row["connections"] == connections]
            texts.append(f"{scenario['title']}, c={connections}\n{_table(rows)}" + "".join(
                f"\n  {line}" for goal in scenario.get("goals", []) for line in _goal(goal, rows)
            ))
    return "\n\n".join(texts)


def milliseconds(microseconds: float) -> str:
    """A time for people."""
    return f"{microseconds / 1000:.2f} ms" if microseconds < 100_000 else f"{microseconds / 1000:.0f} ms"


def columns(lines: list[list[str]]) -> str:
    """Aligned text: the first column to the left, the others to the right; a rule below the first line."""
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    out = []
    for number, line in enumerate(lines):
        cells = [cell.ljust(width) if column == 0 else cell.rjust(width)
                 for column, (cell, width) in enumerate(zip(line, widths))]
        out.append("  " + "  ".join(cells).rstrip())
        if number == 0:
            out.append("  " + "-" * (len(out[0]) - 2))
    return "\n".join(out)


def _table(rows: list[dict]) -> str:
    by_server = {row["server"]: row for row in rows}
    ratios = [ratio for ratio in RATIOS if ratio[1] in by_server]
    lines = [[*HEADINGS, *(heading for heading, _, _ in ratios)]]
    for row in rows:
        lines.append([
            row["server"],
            _with_spread(row, "rate", lambda value: f"{value:,.0f}"),
            _with_spread(row, "cpu_us", lambda value: f"{value:.1f}"),
            _parts(row),
            milliseconds(median(row, "p50_us")),
            milliseconds(median(row, "p99_us")),
            milliseconds(max(one["max_us"] for one in row["rounds"])),
            str(sum(one["errors"] for one in row["rounds"])),
            f"{row['rounds'][0]['pss_before'] / MIB:.0f} > {row['rounds'][-1]['pss_after'] / MIB:.0f}",
            f"{_private_mib(row):.1f} MiB" if _private_mib(row) else "",
            *(_ratio(row, by_server[server], key) for _, server, key in ratios),
        ])
    return columns(lines)


def _goal(goal: dict, rows: list[dict]) -> list[str]:
    """What a goal says and what was measured, where its servers took part."""
    by_server = {row["server"]: row for row in rows}
    row, other = by_server.get(goal["server"]), by_server.get(goal["of"])
    if row is None or (goal["of"] and other is None):
        return []
    figure, unit = FIGURES[goal["figure"]]
    bound = goal["plus"] + (goal["times"] * figure(other) if other else 0.0)
    terms = [f"{goal['times']:.2f} x {goal['of']}"] if other else []
    terms += [f"{goal['plus']:g} {unit}"] if goal["plus"] or not other else []
    is_rate = goal["figure"] == "rate"
    held = "reached" if (figure(row) >= bound if is_rate else figure(row) <= bound) else "MISSED"
    sign = ">=" if is_rate else "<="
    return [f"goal {held}: {goal['server']} {figure(row):.1f} {sign} {' + '.join(terms)} = {bound:.1f}"]


def _private_mib(row: dict) -> float:
    """MiB of private memory of the median worker after the last round; 0 of a server that is not hearth."""
    workers = row["rounds"][-1]["private_of_workers"]
    return statistics.median(workers) / MIB if workers else 0.0


# Of a goal: how it is found, and what it is.
FIGURES: dict[str, tuple[Callable[[dict], float], str]] = {
    "cpu_us": (lambda row: median(row, "cpu_us"), "us CPU/req"),
    "rate": (lambda row: median(row, "rate"), "req/s"),
    "private": (_private_mib, "MiB private/worker"),
}


def _parts(row: dict) -> str:
    """Of a run that was made before these were told apart: nothing."""
    return " + ".join(f"{median(row, key):.1f}" for key in ("front_us", "php_us") if key in row["rounds"][0])


def _with_spread(row: dict, key: str, shown: Callable[[float], str]) -> str:
    middle, least, greatest = spread(row, key)
    return f"{shown(middle)} ({shown(least)}-{shown(greatest)})" if len(row["rounds"]) > 1 else shown(middle)


def _ratio(row: dict, other: dict, key: str) -> str:
    if not median(other, key):
        return ""
    return f"{median(row, key) / median(other, key):.2f}"
