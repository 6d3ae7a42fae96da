"""What is measured: a scenario read from scenarios/NAME.toml. Called by run, soak and chaos."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from pathlib import Path

BENCH = Path(__file__).resolve().parent
REPOSITORY = BENCH.parent


@dataclass(frozen=True)
class Scenario:
    """An application, one request to it, and the answer that counts as right."""

    name: str
    title: str
    app: Path
    root: Path
    path: str
    status: int
    # None: any body.
    body: str | None
    content_type: str
    # Relative to `app`.
    resident_script: str
    classic_script: str
    # Arguments for PHP, run once in `app` before the servers start.
    prepare: list[str] = field(default_factory=list)
    # Environment of every server.
    env: dict[str, str] = field(default_factory=dict)
    # Whether it is measured when none is asked for by name.
    default: bool = True


def load(name: str) -> Scenario:
    """Reads a scenario; SystemExit names what there is."""
    path = BENCH / "scenarios" / f"{name}.toml"
    if not path.is_file():
        raise SystemExit(f"no scenario {name!r}; there are: {', '.join(names())}")
    with path.open("rb") as file:
        raw = tomllib.load(file)
    app = REPOSITORY / raw["app"]
    return Scenario(
        name=name,
        title=raw["title"],
        app=app,
        root=app / raw["root"],
        path=raw["path"],
        status=raw["status"],
        body=raw.get("body"),
        content_type=raw["content_type"],
        resident_script=raw["resident"]["script"],
        classic_script=raw["classic"]["script"],
        prepare=raw.get("prepare", []),
        env=raw.get("env", {}),
        default=raw.get("default", True),
    )


def names() -> list[str]:
    """All scenarios, in the order of their names."""
    return sorted(path.stem for path in (BENCH / "scenarios").glob("*.toml"))
