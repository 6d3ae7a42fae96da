"""Servers behind a web server that stays: Hearth in the place of php-fpm, and Hearth behind the thin client of a host with php-fpm.

The web server in front is the same, with the same configuration, whatever answers.
"""

from __future__ import annotations

import json
import os
import pwd
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from scenario import REPOSITORY

if TYPE_CHECKING:
    from peers import Setup

# Debian's.
MODULES = Path("/usr/lib/apache2/modules")
CLIENT = REPOSITORY / "php" / "client" / "index.php"


def hearth_config(setup: Setup, php_ini: Path, settings: str) -> Path:
    """hearth.toml of a resident application that listens on unix sockets alone: `fcgi.sock`, and `http.sock` for HTTP."""
    scenario = setup.scenario
    paths = json.dumps([request.path for request in scenario.requests])
    return setup.write(
        "hearth.toml",
        f'listen = "unix:{setup.folder}/http.sock"\nadmin_socket = "{setup.folder}/admin.sock"\nroot = "{scenario.root}"\n\n'
        f'[fastcgi]\nlisten = "unix:{setup.folder}/fcgi.sock"\n\n[trusted_proxies]\naddresses = ["unix"]\n\n'
        '[log]\naccess = false\nlevel = "warn"\nformat = "json"\n\n'
        f'[pool.web]\nmode = "resident"\nscript = "{scenario.resident_script}"\nwarmup_paths = {paths}\n{settings}\n'
        f'workers = {setup.workers}\nphp_ini = "{php_ini}"\n',
    )


def thin_client(setup: Setup) -> Path:
    """A document root with nothing but the client."""
    root = setup.folder / "host"
    root.mkdir()
    shutil.copy(CLIENT, root / "index.php")
    # The web server may run as another user.
    os.chmod(setup.folder, 0o755)
    os.chmod(setup.folder.parent, 0o755)
    return root


def apache(setup: Setup, root: Path, index: str, socket_path: Path) -> list[str]:
    """Apache with the event MPM; what names no file goes to `index`."""
    is_root = os.geteuid() == 0
    os.chmod(setup.folder, 0o755)
    os.chmod(setup.folder.parent, 0o755)
    config = setup.write("apache.conf", _APACHE.format(
        folder=setup.folder,
        modules=MODULES,
        user="User www-data\nGroup www-data" if is_root else "",
        port=setup.port,
        root=root,
        index=index,
        socket=socket_path,
    ))
    return ["apache2", "-f", str(config), "-D", "FOREGROUND"]


def php_fpm(setup: Setup, variables: dict[str, str], mode: str = "0666") -> Path:
    """php-fpm.conf with the socket `fpm.sock`, which every web server may use unless its `mode` says otherwise."""
    user = pwd.getpwuid(os.geteuid()).pw_name
    return setup.write("fpm.conf", _FPM.format(
        folder=setup.folder,
        workers=setup.workers,
        mode=mode,
        user=f"user = {user}\ngroup = {user}" if os.geteuid() == 0 else "",
        env="\n".join(f'env[{name}] = "{value}"' for name, value in variables.items()),
    ))


_FPM = """\
[global]
error_log = {folder}/fpm.log
log_level = warning
daemonize = no

[www]
listen = {folder}/fpm.sock
listen.backlog = 4096
listen.mode = {mode}
{user}
pm = static
pm.max_children = {workers}
pm.max_requests = 0
{env}
"""

_APACHE = """\
ServerRoot {folder}
DefaultRuntimeDir {folder}
PidFile {folder}/apache.pid
ErrorLog {folder}/apache.log
LogLevel error
ServerName localhost
Listen 127.0.0.1:{port}
{user}
LoadModule mpm_event_module {modules}/mod_mpm_event.so
LoadModule authz_core_module {modules}/mod_authz_core.so
LoadModule dir_module {modules}/mod_dir.so
LoadModule mime_module {modules}/mod_mime.so
LoadModule proxy_module {modules}/mod_proxy.so
LoadModule proxy_fcgi_module {modules}/mod_proxy_fcgi.so
TypesConfig /etc/mime.types
StartServers 2
ServerLimit 16
ThreadsPerChild 64
MaxRequestWorkers 1024
KeepAlive On
MaxKeepAliveRequests 0
DocumentRoot {root}
<Directory {root}>
    Require all granted
    FallbackResource /{index}
</Directory>
<FilesMatch "\\.php$">
    SetHandler "proxy:unix:{socket}|fcgi://localhost"
</FilesMatch>
"""
