"""What is measured: a scenario read from scenarios/NAME.toml. Called by run, soak and chaos."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qsl

BENCH = Path(__file__).resolve().parent
REPOSITORY = BENCH.parent
FOLDER = BENCH / "scenarios"
# Of forms with files.
BOUNDARY = "hearth-bench"


@dataclass(frozen=True)
class Request:
    """One request, and the answer that counts as right."""

    path: str
    status: int
    content_type: str
    # None: any body.
    body: str | None
    # Part of the body.
    contains: str
    # Whether it comes with the cookie of a session, see Session.
    session: bool
    # What a form has, urlencoded; "": GET.
    form: str
    # Bytes of a file that goes with it.
    upload: int

    @property
    def method(self) -> str:
        """GET, or POST for a form."""
        return "POST" if self.form else "GET"

    def content(self) -> tuple[str, bytes]:
        """Type and bytes of what is sent along."""
        if not self.upload:
            return "application/x-www-form-urlencoded" if self.form else "", self.form.encode()
        fields = "".join(f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
                         for name, value in parse_qsl(self.form))
        file = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="x.txt"\r\nContent-Type: text/plain\r\n\r\n'
        return f"multipart/form-data; boundary={BOUNDARY}", f"{fields}{file}{'x' * self.upload}\r\n--{BOUNDARY}--\r\n".encode()


@dataclass(frozen=True)
class Session:
    """What the sessions of a scenario hold before anything is measured."""

    cookie: str
    content: str


@dataclass(frozen=True)
class Goal:
    """What the median of a server's figure shall not exceed: `times` that of another server, plus `plus`. A rate shall not be below."""

    server: str
    # "cpu_us", "rate", or "private" in MiB a worker.
    figure: str
    # None: `plus` alone.
    of: str | None
    times: float
    plus: float


@dataclass(frozen=True)
class Scenario:
    """An application, requests to it in the order in which they are sent, and the servers that are compared."""

    name: str
    title: str
    app: Path
    root: Path
    requests: list[Request]
    # Relative to `app`.
    resident_script: str
    classic_script: str
    # Boots more than resident_script for the same answer; "" where there is none.
    large_script: str
    session: Session | None = None
    # Arguments for PHP, each run once in `app` before the servers start.
    prepare: list[list[str]] = field(default_factory=list)
    # Environment of every server.
    env: dict[str, str] = field(default_factory=dict)
    # Servers and numbers of connections; empty: those of every scenario.
    servers: list[str] = field(default_factory=list)
    connections: list[int] = field(default_factory=list)
    goals: list[Goal] = field(default_factory=list)
    # A file outside of the repository without which the application does not run.
    needs: Path | None = None
    # Whether it is measured when none is asked for by name. Those of a folder are not.
    default: bool = True

    @property
    def first(self) -> Request:
        """The only request of most scenarios."""
        return self.requests[0]


def load(name: str) -> Scenario:
    """Reads a scenario; SystemExit names what there is."""
    raw = _read(name)
    app = REPOSITORY / raw["app"]
    return Scenario(
        name=name,
        title=raw["title"],
        app=app,
        root=app / raw["root"],
        requests=[_request(one) for one in raw.get("request", [raw])],
        resident_script=raw["resident"]["script"],
        classic_script=raw["classic"]["script"],
        large_script=raw.get("large", {}).get("script", ""),
        session=Session(**raw["session"]) if "session" in raw else None,
        prepare=raw.get("prepare", []),
        env=raw.get("env", {}),
        servers=raw.get("servers", []),
        connections=raw.get("connections", []),
        goals=[_goal(one) for one in raw.get("goal", [])],
        needs=Path(raw["needs"]) if "needs" in raw else None,
        default=raw.get("default", "/" not in name),
    )


def names() -> list[str]:
    """All scenarios, in the order of their names."""
    return sorted(str(path.relative_to(FOLDER).with_suffix("")) for path in FOLDER.rglob("*.toml"))


def chosen(wanted: list[str]) -> list[Scenario]:
    """The scenarios of these names, and all of a folder where one is named; the default ones where none is."""
    if not wanted:
        return [scenario for scenario in map(load, names()) if scenario.default]
    found = []
    for name in wanted:
        found += [one for one in names() if one.startswith(f"{name}/")] or [name]
    return [load(name) for name in found]


def _read(name: str) -> dict:
    path = FOLDER / f"{name}.toml"
    if not path.is_file():
        raise SystemExit(f"no scenario {name!r}; there are: {', '.join(names())}")
    with path.open("rb") as file:
        raw = tomllib.load(file)
    # What another scenario says, unless this one says it.
    return {**_read(raw["like"]), **raw} if "like" in raw else raw


def _request(raw: dict) -> Request:
    return Request(
        path=raw["path"],
        status=raw["status"],
        content_type=raw["content_type"],
        body=raw.get("body"),
        contains=raw.get("contains", ""),
        session=raw.get("session", False),
        form=raw.get("form", ""),
        upload=raw.get("upload", 0),
    )


def _goal(raw: dict) -> Goal:
    return Goal(
        server=raw["server"],
        figure=raw.get("figure", "cpu_us"),
        of=raw.get("of"),
        times=raw.get("times", 1.0 if "of" in raw else 0.0),
        plus=raw.get("plus", 0.0),
    )
