"""The private folder of one lab server, and what a server needs to be started in it."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import socket
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from naslab.client.process import Process, is_alive
from naslab.errors import UsageError
from naslab.lab import loops

PREFIX = "naslab-lab-"
_UNBORN = ".naslab-lab-"
"""Folders whose owner is being written down; one that stays so had its maker killed."""
_BIRTH_S = 60.0
OWNER = "owner.json"
_PORTS = range(20000, 32000)
"""Below the ports that systems give to outgoing connections, so that none of these takes one first."""


@dataclass
class Place:
    """Where one server lives.

    folder: private, removed at the end. data: what the shares lie on; the user's folder, or one in `folder`.
    can_mount: the server gets a mount namespace of its own, so file systems may be mounted for it.
    """

    folder: Path
    data: Path
    can_mount: bool

    def make(self, name: str, mode: int = 0o700) -> Path:
        """A folder in the private one."""
        path = self.folder / name
        path.mkdir(mode=mode, parents=True, exist_ok=True)
        path.chmod(mode)
        return path

    def write(self, name: str, text: str) -> Path:
        """A file that only its owner can read."""
        path = self.folder / name
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        return path


@dataclass
class Service:
    """A server ready to be started.

    command: its program in the foreground. setup: shell lines before it, in the server's own namespaces.
    port: answers when the server is ready. facts: what the user is told (url, targets, user ...).
    log: a file whose end explains a failure. tmpfs_bytes: file systems in memory to mount for it, and their sizes.
    env: added to its environment. keeper: a program that prepares something for the server first, says so in a line
    of JSON, and ends by itself when its standard input does; keeper_ready_s: how long that may take. ready_s: how
    long the server may take to answer. prefix: words before the server's namespaces.
    """

    command: list[str]
    port: int
    facts: dict[str, Any]
    log: Path
    setup: list[str] = field(default_factory=list)
    tmpfs_bytes: dict[Path, int] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)
    keeper: list[str] = field(default_factory=list)
    keeper_ready_s: float = 15.0
    ready_s: float = 15.0
    prefix: list[str] = field(default_factory=list)


def new_folder(guardian: Process | None, fast: bool = False, **facts: Any) -> Path:
    """A private folder for a server: under TMPDIR, or in memory with `fast`. It has its mark from the start."""
    base = "/dev/shm" if fast and os.access("/dev/shm", os.W_OK) else None
    made = Path(tempfile.mkdtemp(prefix=_UNBORN, dir=base))
    if guardian is not None:
        mark(made, guardian, **facts)
    return made.rename(made.with_name(PREFIX + made.name.removeprefix(_UNBORN)))


def mark(folder: Path, guardian: Process, **facts: Any) -> None:
    """Writes who answers for the folder, for `sweep`."""
    place = Place(folder, folder, False)
    place.write(OWNER + ".new", json.dumps({"guardian": guardian, "boot": boot_id(), **facts}))
    (folder / (OWNER + ".new")).replace(folder / OWNER)


def read_mark(folder: Path) -> dict[str, Any] | None:
    """What `mark` wrote, None where it did not or another user did."""
    path = folder / OWNER
    try:
        if folder.is_symlink() or {folder.lstat().st_uid, path.lstat().st_uid} != {os.getuid()}:
            return None
        found = json.loads(path.read_text(encoding="utf-8"))
        found["guardian"] = Process(*found["guardian"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return dict(found)


def is_abandoned(found: dict[str, Any]) -> bool:
    """Whether the guardian of a marked folder is certainly gone."""
    return found.get("boot") != boot_id() or not is_alive(found["guardian"])


def sweep() -> list[Path]:
    """Removes folders whose guardian was killed; those removed. Devices go that were left without a folder."""
    loops.remove_orphans()
    removed = []
    for base in {tempfile.gettempdir(), "/dev/shm"}:
        for folder in Path(base).glob(PREFIX + "*"):
            found = read_mark(folder)
            if found is not None and is_abandoned(found) and remove(folder):
                removed.append(folder)
        for folder in Path(base).glob(_UNBORN + "*"):
            with contextlib.suppress(OSError):
                about = folder.lstat()
                if about.st_uid == os.getuid() and time.time() - about.st_mtime > _BIRTH_S:
                    remove(folder)
    return removed


def remove(folder: Path) -> bool:
    """Removes a private folder with all that lies in it, and the device that it names; whether it is gone.

    A device that is still in use keeps the folder, and so does a server that is still dying and writes on: both are
    left to the next sweep, which needs the mark. So that goes last, alone, and is written again where it went too soon.
    """
    if not loops.release_recorded(folder):
        return False
    for _ in range(20):
        with contextlib.suppress(OSError):
            _remove_contents(folder)
            _remove_empty(folder)
        if not folder.exists():
            return True
        time.sleep(0.01)
    return False


def _remove_contents(folder: Path) -> None:
    """Removes what lies in a private folder but for its mark. Raises OSError."""
    for each in [each for each in folder.iterdir() if each.name != OWNER]:
        if each.is_dir() and not each.is_symlink():
            shutil.rmtree(each, ignore_errors=True)
        else:
            each.unlink(missing_ok=True)


def _remove_empty(folder: Path) -> None:
    """Removes a private folder that holds its mark at most; one with more stays, with its mark."""
    if any(each.name != OWNER for each in folder.iterdir()):
        return
    owner = folder / OWNER
    said = owner.read_text(encoding="utf-8") if owner.exists() else None
    owner.unlink(missing_ok=True)
    try:
        folder.rmdir()
    except OSError:
        if said is not None and folder.exists():
            Place(folder, folder, False).write(OWNER, said)


def boot_id() -> str:
    """Identity of this start of the system; empty where it has none."""
    with contextlib.suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return ""


def free_port() -> int:
    """A loopback port that nobody listens on. Raises UsageError when there is none."""
    for _ in range(200):
        port = secrets.choice(_PORTS)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError):
                probe.bind(("127.0.0.1", port))
                return port
    raise UsageError(f"lab: no free port between {_PORTS.start} and {_PORTS.stop}; end some of the servers there")


def new_password() -> str:
    """A random password of 24 letters and digits."""
    return secrets.token_hex(12)
