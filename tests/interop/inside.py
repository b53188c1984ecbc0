"""One server and all commands against it, in a namespace of network and processes that ends with this program.

    unshare --net --pid --fork --kill-child --mount-proc python inside.py NAME FOLDER

FOLDER/outcome.json gets, by command, the exit code and the last line that was printed.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from interop.servers import PASSWORD, SERVERS, USER, Foreign

STARTED_S, ENDED_S, COMMAND_S = 30, 60, 240
SEEN = 5
"""Intervals of a load after which the server is killed."""
Outcome = dict[str, Any]
COMMANDS: dict[str, tuple[str, ...]] = {
    "doctor": ("doctor",),
    "sweep": ("sweep", "--file-size", "256k,1m", "--record", "4k,64k", "--workers", "3", "--verify",
              "--tests", "write,rewrite,read,reread,random_read,random_write"),
    "tree": ("tree", "--depth-of-tree", "1", "--fan-out", "3", "--files", "60"),
    "job": ("job", "copy-in,copy-out,zip,unzip", "--corpus", "sources", "--scale", "0.02", "--verify"),
    "apps": ("apps", "--scale", "0.01"),
    "replay": ("replay", str(Path(__file__).with_name("small.trace"))),
}  # fmt: skip
"""By what is tried; the target is put behind the command's name."""
TRIED = (*COMMANDS, "restart")


class World:
    """A server, and naslab beside it."""

    def __init__(self, server: Foreign, folder: Path) -> None:
        self.server, self.folder = server, folder
        self.data = folder / "data"
        self.data.mkdir(exist_ok=True)
        (folder / "recovery").mkdir(exist_ok=True)
        self.credentials = folder / "credentials"
        self.credentials.write_text(f"username={USER}\npassword={PASSWORD}\n")
        self.credentials.chmod(0o600)
        self._words = server.command(self.data)
        os.environ.update(server.beside(self.data))
        self._child: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """The server, until it listens."""
        with (self.folder / "server.log").open("ab") as out:
            self._child = subprocess.Popen(
                self._words, stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd=self.folder,
                env={**os.environ, **self.server.environment},
            )  # fmt: skip
        end = time.monotonic() + STARTED_S
        while time.monotonic() < end and self._child.poll() is None:
            with contextlib.suppress(OSError), socket.create_connection(self.server.ready_at, 1):
                return
            time.sleep(0.05)
        raise SystemExit(f"{self.server.name} does not listen: {(self.folder / 'server.log').read_text()[-500:]}")

    def kill(self) -> None:
        """The server, at once."""
        if self._child is not None:
            self._child.kill()
            self._child.wait()

    def naslab(self, command: str, *words: str) -> list[str]:
        """A command line against the server."""
        login = ["--credentials", str(self.credentials)] if self.server.logs_in else []
        store = [] if command in ("doctor", "clean") else ["--store", str(self.folder / "runs.sqlite"), "--quiet"]
        return [sys.executable, "-m", "naslab", command, self.server.target, *words, *login, *store]

    def tried(self, name: str) -> Outcome:
        """One of COMMANDS."""
        command, *words = COMMANDS[name]
        outcome = ended(self.naslab(command, *words))
        if command == "doctor" and self.server.room_bytes:
            outcome["free_bytes"] = json.loads(printed(self.naslab(command, "--json")))["space"]["free_bytes"]
        return outcome

    def restart(self) -> Outcome:
        """The server is killed under a load: the run says so, and what it left is removed from the new server."""
        live = self.folder / "live"
        load = ("--size", "2m", "--duration", "20s", "--block", "64k", "--write", "50", "--live", str(live))
        words = self.naslab("sustained", *load)
        run = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        end = time.monotonic() + STARTED_S
        while time.monotonic() < end and run.poll() is None and not under_load(live):
            time.sleep(0.05)
        begun = under_load(live)
        self.kill()
        try:
            _, said = run.communicate(timeout=ENDED_S)
        except subprocess.TimeoutExpired:
            run.send_signal(signal.SIGKILL)
            return {"code": -1, "said": "naslab did not end after the server was gone"}
        told = last_line(said.decode())
        if not begun:
            return {"code": run.returncode or -1, "said": f"the load did not begin: {told}"}
        if run.returncode != 1 or not told:
            return {"code": run.returncode, "said": told or "the loss of the server was not reported"}
        return self._cleaned() or {"code": 0, "said": told}

    def _cleaned(self) -> Outcome | None:
        """What is wrong with removing from the new server what the run left; None where nothing is."""
        is_elsewhere = self.server.keeps and not list(self.data.glob("naslab-*"))
        self.start()
        done = subprocess.run(self.naslab("clean"), capture_output=True, text=True, timeout=COMMAND_S, check=False)
        if done.returncode:
            return {"code": done.returncode, "said": last_line(done.stderr)}
        if list(self.data.glob("naslab-*")) or (is_elsewhere and "removed naslab-" not in done.stdout):
            return {"code": 1, "said": "files were left on the server"}
        return None


def ended(words: list[str]) -> Outcome:
    """What a command comes to."""
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=COMMAND_S, check=False)
    except subprocess.TimeoutExpired:
        return {"code": -1, "said": f"no end within {COMMAND_S} s"}
    fixes = [line for line in done.stdout.splitlines() if line.startswith("FIX")]
    return {"code": done.returncode, "said": last_line(done.stderr) or (fixes or [""])[0]}


def printed(words: list[str]) -> str:
    """What a command printed as its result."""
    return subprocess.run(words, capture_output=True, text=True, timeout=COMMAND_S, check=False).stdout


def under_load(live: Path) -> bool:
    """Whether the load itself, which follows the filling of its file, has been going on for some intervals."""
    return live.exists() and live.read_text().count('"event": "sample"') >= SEEN


def last_line(text: str) -> str:
    """What was printed last."""
    return (text.strip().splitlines() or [""])[-1]


def main() -> None:
    """Entry point."""
    server = next(each for each in SERVERS if each.name == sys.argv[1])
    folder = Path(sys.argv[2])
    # Ganesha resolves its own address, and takes a machine with loopback addresses alone for one without a network.
    for words in (["link", "set", "lo", "up"], ["address", "add", "10.94.0.1/32", "dev", "lo"]):
        subprocess.run(["ip", *words], check=True)
    world = World(server, folder)
    found: dict[str, Outcome] = {}
    world.start()
    actions: dict[str, Callable[[], Outcome]] = {name: (lambda name=name: world.tried(name)) for name in COMMANDS}
    for name, act in {**actions, "restart": world.restart}.items():
        found[name] = act()
        (folder / "outcome.json").write_text(json.dumps(found, indent=1))
    world.kill()


if __name__ == "__main__":
    main()
