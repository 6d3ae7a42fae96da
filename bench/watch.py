"""How long from saving a file to the first answer of its code (`hearth serve --watch`)? On the Symfony demo; see README.md.

Each round writes another greeting into a controller and asks for it at once: the request waits for the new code. Exit status 1: an
answer of older code came after the first of the new.
"""

from __future__ import annotations

import argparse
import re
import shutil
import statistics
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

import peers

ROOT = Path(__file__).resolve().parent.parent
CONTROLLER = "src/Controller/ApiController.php"
DEADLINE = 30.0
# Answers looked at after the first one that is new.
FURTHER = 20
# So that a save meets a server at rest.
REST = 1.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20, help="saves (default: 20)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="hearth-watch-") as name:
        folder = Path(name)
        shutil.copytree(ROOT / "php", folder / "php")
        shutil.copytree(ROOT / "apps/symfony", folder / "apps/symfony")
        port = peers.free_port()
        command = [peers.binary("hearth"), "serve", str(folder / "apps/symfony"), "--watch", "--listen", f"127.0.0.1:{port}",
                   "--set", f"admin_socket={folder / 'admin.sock'}", "--set", "log.access=false"]
        with (folder / "log").open("wb") as log:
            server = subprocess.Popen(command, stdout=log, stderr=log)
            try:
                ask_until(port, b"Hello")
                file = folder / "apps/symfony" / CONTROLLER
                rounds = [save(file, port, number) for number in range(options.rounds)]
            finally:
                server.terminate()
                server.wait(60)
    times, old = sorted(took for took, _ in rounds), sum(old for _, old in rounds)
    print(f"{len(times)} saves: first new answer after {statistics.median(times):.0f} ms ({times[0]:.0f}-{times[-1]:.0f}), "
          f"{old} answers of older code after it")
    return 1 if old else 0


def ask(port: int) -> bytes:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/hello", timeout=DEADLINE) as answer:
        return answer.read()


def ask_until(port: int, text: bytes) -> None:
    """Returns with the first answer that holds `text`."""
    until = time.monotonic() + DEADLINE
    while True:
        try:
            if text in ask(port):
                return
        except urllib.error.URLError:
            time.sleep(0.01)
        if time.monotonic() > until:
            raise SystemExit(f"no answer with {text!r} in {DEADLINE:.0f} s")


def save(file: Path, port: int, number: int) -> tuple[float, int]:
    """Milliseconds from a save to the first answer of the new code, and how many older ones came after it."""
    code = re.sub(r"Hello, [^!]*!", f"Hello, save {number}!", file.read_text())
    new = f"save {number}!".encode()
    begin = time.monotonic()
    file.write_text(code)
    ask_until(port, new)
    took = (time.monotonic() - begin) * 1000
    old = sum(new not in ask(port) for _ in range(FURTHER))
    time.sleep(REST)
    return took, old


if __name__ == "__main__":
    raise SystemExit(main())
