"""The servers that are compared: each is started from files of its own in a temporary folder, and ended by its id.

Nothing of the system's services is touched. All run as the user who runs the comparison, with the same php.ini, the same
number of PHP workers, no access log, and answers on 127.0.0.1.
"""

from __future__ import annotations

import ctypes
import json
import os
import pwd
import shlex
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import fronts
import load
import processes
from scenario import BENCH, REPOSITORY, Scenario

PHP_INI = BENCH / "php.ini"
# As in the Makefile: the PHP that Hearth was built with.
PHP_VERSION = os.environ.get("PHP_VERSION", "8.2")
START_DEADLINE = 30.0
STOP_DEADLINE = 20.0
# Names of processes that run no PHP.
FRONTS = ("hearth", "nginx", "apache2", "bare_hyper")
PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Setup:
    """What a server is started with."""

    scenario: Scenario
    # PHP workers.
    workers: int
    # Folder of the server's own files.
    folder: Path
    port: int
    # Where it is asked over TLS, and 0 where it is not.
    tls_port: int = 0

    def write(self, name: str, text: str) -> Path:
        """Writes a file into the server's folder."""
        path = self.folder / name
        path.write_text(text)
        return path


# The commands of a server, started in this order.
Commands = Callable[[Setup], list[list[str]]]


def program(*candidates: str) -> str:
    """The first of `candidates` that is installed."""
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin:/usr/local/sbin"
    for name in candidates:
        if found := shutil.which(name, path=path):
            return found
    raise SystemExit(f"{candidates[0]} is not installed; see bench/packages.txt")


def php() -> str:
    """PHP on the command line."""
    return program(os.environ.get("PHP", f"php{PHP_VERSION}"), f"php{PHP_VERSION}", "php")


def php_fpm() -> str:
    """php-fpm of the same version."""
    return program(f"php-fpm{PHP_VERSION}", "php-fpm")


def release(*parts: str) -> Path:
    """Where this repository's release build puts a program."""
    return REPOSITORY.joinpath(os.environ.get("CARGO_TARGET_DIR", "target"), "release", *parts)


def binary(*parts: str) -> str:
    """A program of this repository's release build; it must be there."""
    path = release(*parts)
    if not path.is_file():
        raise SystemExit(f"{path} is missing; `make bench` builds it")
    return str(path)


def hearth_config(setup: Setup, mode: str, script: str, settings: str) -> Path:
    """hearth.toml for one server. `settings` are lines of its pool."""
    scenario = setup.scenario
    return setup.write(
        "hearth.toml",
        f'listen = "127.0.0.1:{setup.port}"\nadmin_socket = "{setup.folder}/admin.sock"\nroot = "{scenario.root}"\n\n'
        # Nor do the others compress.
        '[compression]\nalgorithms = []\n\n[log]\naccess = false\nlevel = "warn"\nformat = "json"\n\n'
        f'[pool.web]\nmode = "{mode}"\nscript = "{script}"\n{settings}'
        f'workers = {setup.workers}\nphp_ini = "{PHP_INI}"\n',
    )


def serve(app: Path, config: Path) -> list[str]:
    """The command that serves `app`, with the arguments in HEARTH_ARGS behind it."""
    more = shlex.split(os.environ.get("HEARTH_ARGS", ""))
    return [binary("hearth"), "serve", str(app), "--config", str(config), *more]


def _hearth(config: Path, setup: Setup) -> list[list[str]]:
    return [serve(setup.scenario.app, config)]


def _classic(setup: Setup) -> list[list[str]]:
    return _hearth(hearth_config(setup, "classic", setup.scenario.classic_script, ""), setup)


def _resident(*settings: str, large: bool = False) -> Commands:
    """A resident pool with these lines. It is warmed by the requests of the scenario."""

    def commands(setup: Setup) -> list[list[str]]:
        scenario = setup.scenario
        script = scenario.large_script if large else scenario.resident_script
        if not script:
            raise SystemExit(f"scenario {scenario.name} has no large script")
        paths = f"warmup_paths = {json.dumps([request.path for request in scenario.requests])}"
        return _hearth(hearth_config(setup, "resident", script, "\n".join([*settings, paths, ""])), setup)

    return commands


def _encrypted(plain: Commands) -> Commands:
    """The same, measured over TLS; it answers in the clear, too."""

    def commands(setup: Setup) -> list[list[str]]:
        started = plain(setup)
        certificate, key = setup.folder / "cert.pem", setup.folder / "key.pem"
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
             "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(certificate)],
            check=True, capture_output=True,
        )
        with (setup.folder / "hearth.toml").open("a") as config:
            config.write(f'\n[tls]\nlisten = "127.0.0.1:{setup.tls_port}"\n'
                         f'certificates = ["{certificate}"]\nkeys = ["{key}"]\n')
        return started

    return commands


def _fpm(preload: bool) -> Commands:
    def commands(setup: Setup) -> list[list[str]]:
        fpm = _php_fpm_command(fronts.php_fpm(setup, setup.scenario.env, mode="0600"))
        if preload:
            fpm += ["-d", f"opcache.preload={_preload(setup)}"]
            if os.geteuid() == 0:
                fpm += ["-d", f"opcache.preload_user={pwd.getpwuid(0).pw_name}"]
        return [fpm, _nginx(setup, setup.folder / "fpm.sock")]

    return commands


def _nginx(setup: Setup, socket_path: Path) -> list[str]:
    """nginx in front of what speaks FastCGI on a unix socket."""
    user = pwd.getpwuid(os.geteuid()).pw_name
    config = setup.write("nginx.conf", _NGINX.format(
        folder=setup.folder,
        user=f"user {user};" if os.geteuid() == 0 else "",
        port=setup.port,
        root=setup.scenario.root,
        index=_index(setup),
        socket=socket_path,
    ))
    return [program("nginx"), "-p", str(setup.folder), "-c", str(config), "-e", str(setup.folder / "nginx.log")]


def _index(setup: Setup) -> str:
    """The front controller, relative to the document root."""
    return str(Path(setup.scenario.classic_script).relative_to(setup.scenario.root.name))


def _fastcgi(setup: Setup) -> list[list[str]]:
    """nginx, with Hearth in the place of php-fpm."""
    config = fronts.hearth_config(setup, PHP_INI, _ISOLATED)
    return [*_hearth(config, setup), _nginx(setup, setup.folder / "fcgi.sock")]


def _apache_fpm(setup: Setup) -> list[list[str]]:
    config = fronts.php_fpm(setup, setup.scenario.env)
    return [_php_fpm_command(config), fronts.apache(setup, setup.scenario.root, _index(setup), setup.folder / "fpm.sock")]


def _thin_client(setup: Setup) -> list[list[str]]:
    """The same Apache and php-fpm, whose index.php passes requests on to Hearth."""
    hearth = _hearth(fronts.hearth_config(setup, PHP_INI, _ISOLATED), setup)
    config = fronts.php_fpm(setup, {"HEARTH_ADDRESS": f"unix://{setup.folder}/http.sock"})
    root = fronts.thin_client(setup)
    return [*hearth, _php_fpm_command(config), fronts.apache(setup, root, "index.php", setup.folder / "fpm.sock")]


def _php_fpm_command(config: Path) -> list[str]:
    command = [php_fpm(), "-F", "-y", str(config), "-c", str(PHP_INI)]
    return [*command, "-R"] if os.geteuid() == 0 else command


def _preload(setup: Setup) -> Path:
    """A preload script with every file that one request of the scenario includes."""
    scenario = setup.scenario
    command = [php(), str(BENCH / "included_files.php"), str(scenario.app / scenario.classic_script), scenario.first.path]
    done = subprocess.run(
        command, cwd=scenario.app, env={**os.environ, **scenario.env}, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    files = "".join(f"opcache_compile_file({_php_string(name)});\n" for name in done.stdout.splitlines())
    return setup.write("preload.php", f"<?php\n\n{files}")


def _php_string(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _php_s(setup: Setup) -> list[list[str]]:
    prepend = f"auto_prepend_file={BENCH / 'content_length.php'}"
    address = f"127.0.0.1:{setup.port}"
    return [[php(), "-q", "-c", str(PHP_INI), "-d", prepend, "-S", address, "-t", str(setup.scenario.root)]]


def _bare_hyper(setup: Setup) -> list[list[str]]:
    request = setup.scenario.first
    return [[binary("examples", "bare_hyper"), f"127.0.0.1:{setup.port}", request.body or "", request.content_type]]


ENCRYPTED = "hearth-isolated-tls"
HTTP2 = "hearth-isolated-h2"
_ISOLATED = 'isolation = "request"'

# In the order of the table. The name is what --only takes.
PEERS: dict[str, Commands] = {
    "hearth": _resident('isolation = "none"'),
    "hearth-isolated-requests": _resident(_ISOLATED, 'warmup = "requests"'),
    "hearth-isolated": _resident(_ISOLATED),
    "hearth-isolated-large": _resident(_ISOLATED, large=True),
    "hearth-isolated-cold": _resident(_ISOLATED, 'warmup = "none"'),
    ENCRYPTED: _encrypted(_resident(_ISOLATED)),
    HTTP2: _resident(_ISOLATED),
    "hearth-isolated-fork": _resident(_ISOLATED, 'isolation_method = "fork"'),
    "hearth-classic": _classic,
    "fpm": _fpm(preload=False),
    "fpm-preload": _fpm(preload=True),
    "nginx-hearth": _fastcgi,
    "apache-fpm": _apache_fpm,
    "apache-thin-client": _thin_client,
    "php-s": _php_s,
    "bare-hyper": _bare_hyper,
}

# What a scenario is measured with that names no servers.
USUAL = ["hearth", "hearth-isolated", "hearth-classic", "fpm", "fpm-preload", "php-s", "bare-hyper"]


@dataclass
class Server:
    """A running server."""

    name: str
    port: int
    folder: Path
    scenario: Scenario
    tls_port: int = 0
    running: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def roots(self) -> list[int]:
        """Ids of the processes that were started; the tree below them is the server."""
        return [process.pid for process in self.running]

    def load(self, connections: int, seconds: float) -> load.Load:
        """Puts it under load, over TLS or HTTP/2 if that is what it is measured for."""
        if self.name == HTTP2:
            return load.run_http2(self.port, self.scenario, connections, seconds)
        if self.tls_port:
            return load.run(self.tls_port, self.scenario, connections, seconds, "https")
        return load.run(self.port, self.scenario, connections, seconds)

    def alive(self) -> bool:
        """Whether no started process has ended."""
        return all(process.poll() is None for process in self.running)

    def cpu_seconds(self) -> tuple[float, float]:
        """CPU time so far: of its processes that run no PHP, and of those that do."""
        front = php = 0.0
        for process in processes.tree(self.roots):
            if process.name in FRONTS:
                front += process.cpu
            else:
                php += process.cpu
        return front, php

    def log(self) -> str:
        """The last lines of what it printed."""
        lines = []
        for path in sorted(self.folder.glob("*.log")):
            lines += [f"{path.name}: {line}" for line in path.read_text(errors="replace").splitlines()[-15:]]
        return "\n".join(lines)

    def stop(self) -> None:
        """Asks each process to end, front first; kills what does not within the deadline."""
        for process in reversed(self.running):
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
            try:
                process.wait(STOP_DEADLINE)
            except subprocess.TimeoutExpired:
                for below in reversed(processes.tree([process.pid])):
                    os.kill(below.pid, signal.SIGKILL)
                process.wait()


def start(name: str, scenario: Scenario, workers: int, folder: Path) -> Server:
    """Starts a server and waits until its answer is right."""
    folder = folder / f"{scenario.name}-{name}".replace("/", "-")
    folder.mkdir()
    setup = Setup(scenario, workers, folder, free_port(), free_port() if name == ENCRYPTED else 0)
    return start_commands(name, setup, PEERS[name](setup))


def start_commands(name: str, setup: Setup, commands: list[list[str]]) -> Server:
    """Runs the commands of one server and waits until its answer is right."""
    server = Server(name, setup.port, setup.folder, setup.scenario, setup.tls_port)
    env = {**os.environ, **setup.scenario.env, "PHP_CLI_SERVER_WORKERS": str(setup.workers),
           "BENCH_SESSIONS": str(_sessions(setup))}
    try:
        for number, command in enumerate(commands):
            with (setup.folder / f"output-{number}.log").open("wb") as output:
                server.running.append(subprocess.Popen(
                    command, cwd=setup.scenario.app, env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                    process_group=0, preexec_fn=_end_with_parent,
                ))
        wrong = load.wait_until_right(setup.port, setup.scenario, server.alive, START_DEADLINE)
        if wrong is not None:
            raise SystemExit(f"{name} does not answer as it should: {wrong}\n{' '.join(commands[0])}\n{server.log()}")
    except BaseException:
        server.stop()
        raise
    return server


def _sessions(setup: Setup) -> Path:
    """The server's own folder of sessions, with those of the scenario."""
    folder = setup.folder / "sessions"
    folder.mkdir(mode=0o700, exist_ok=True)
    if setup.scenario.session:
        for number in range(load.SESSIONS):
            (folder / f"sess_{load.session_id(number)}").write_text(setup.scenario.session.content)
    return folder


def free_port() -> int:
    """A port that was free just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _end_with_parent() -> None:
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


_NGINX = """\
daemon off;
{user}
pid {folder}/nginx.pid;
error_log {folder}/nginx.log warn;
worker_processes auto;
worker_rlimit_nofile 16384;

events {{
    worker_connections 4096;
}}

http {{
    access_log off;
    default_type application/octet-stream;
    sendfile on;
    tcp_nopush on;
    keepalive_requests 1000000000;
    client_body_temp_path {folder}/body;
    fastcgi_temp_path {folder}/fastcgi;
    proxy_temp_path {folder}/proxy;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;

    server {{
        listen 127.0.0.1:{port} backlog=4096;
        root {root};

        location / {{
            try_files $uri /{index}$is_args$args;
        }}

        location ~ \\.php$ {{
            fastcgi_pass unix:{socket};
            fastcgi_param QUERY_STRING $query_string;
            fastcgi_param REQUEST_METHOD $request_method;
            fastcgi_param CONTENT_TYPE $content_type;
            fastcgi_param CONTENT_LENGTH $content_length;
            fastcgi_param SCRIPT_FILENAME $realpath_root$fastcgi_script_name;
            fastcgi_param SCRIPT_NAME $fastcgi_script_name;
            fastcgi_param REQUEST_URI $request_uri;
            fastcgi_param DOCUMENT_URI $document_uri;
            fastcgi_param DOCUMENT_ROOT $realpath_root;
            fastcgi_param SERVER_PROTOCOL $server_protocol;
            fastcgi_param REQUEST_SCHEME $scheme;
            fastcgi_param GATEWAY_INTERFACE CGI/1.1;
            fastcgi_param SERVER_SOFTWARE nginx/$nginx_version;
            fastcgi_param REMOTE_ADDR $remote_addr;
            fastcgi_param REMOTE_PORT $remote_port;
            fastcgi_param SERVER_ADDR $server_addr;
            fastcgi_param SERVER_PORT $server_port;
            fastcgi_param SERVER_NAME $server_name;
            fastcgi_param REDIRECT_STATUS 200;
        }}
    }}
}}
"""
