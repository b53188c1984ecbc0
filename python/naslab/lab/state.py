"""Servers that `naslab lab up` left running, by name: small files in a private folder of the user.

The folder is `naslab/lab` in XDG_RUNTIME_DIR, or in the user's data folder where there is none. A record names
the server's guardian by process id, start time and boot, so that one from before is never taken for a living one.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from naslab.client.process import Process
from naslab.errors import UsageError
from naslab.lab import place
from naslab.lab.server import Server, from_facts


def folder() -> Path:
    """Where records lie; made, readable by the user alone."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime and Path(runtime).is_dir() and os.access(runtime, os.W_OK):
        found = Path(runtime) / "naslab" / "lab"
    else:
        import platformdirs

        found = Path(platformdirs.user_data_dir("naslab", appauthor=False)) / "lab"
    try:
        found.mkdir(parents=True, exist_ok=True, mode=0o700)
        found.chmod(0o700)
    except OSError as error:
        raise UsageError(f"lab: {found}: {error.strerror}; set XDG_RUNTIME_DIR to a folder of your own") from None
    return found


@contextlib.contextmanager
def locked() -> Iterator[Path]:
    """The folder, with every other `lab up` and `lab down` of this user kept waiting."""
    path = folder()
    handle = os.open(path / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield path
    finally:
        os.close(handle)


def save(server: Server) -> None:
    """Records a server that outlives this process."""
    path = folder()
    record = {"boot": place.boot_id(), "guardian": server.guardian, "facts": server.facts}
    place.Place(path, path, False).write(f"{server.name}.json", json.dumps(record))


def find(name: str) -> Server | None:
    """The running server of this name. A record whose guardian is gone is removed, with its folder."""
    return _read(folder() / f"{name}.json")


def all_servers() -> list[Server]:
    """All running servers, by name."""
    found = [_read(path) for path in sorted(folder().glob("*.json"))]
    return [server for server in found if server is not None]


def forget(server: Server) -> None:
    """Removes a server's record."""
    (folder() / f"{server.name}.json").unlink(missing_ok=True)


def _read(path: Path) -> Server | None:
    try:
        record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        server = from_facts(record["facts"])
        guardian = Process(*record["guardian"])
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError):
        path.unlink(missing_ok=True)
        return None
    if place.is_abandoned({"boot": record.get("boot"), "guardian": guardian}):
        found = place.read_mark(server.folder)
        if found is not None and place.is_abandoned(found):
            place.remove(server.folder)
        path.unlink(missing_ok=True)
        return None
    return server
