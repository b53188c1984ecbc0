"""`python -m naslab.lab.guest.run FOLDER -- COMMAND...`: runs a command in the guest that lives in a folder.

Its output comes as it is made, its exit code is the command's. When this process ends, so does the command. Runs that
a naslab in it stored come into the user's own store: the guest writes them into a file of its folder, since locks on
files do not hold between a guest and the host.
"""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from naslab.errors import NaslabError
from naslab.lab.guest.client import find

if TYPE_CHECKING:
    from naslab.results.store import Store

_STREAMS = {"out": 1, "err": 2}
_PASSED = ("COLUMNS", "NO_COLOR")
_NOT_RUN = 127
_INTERRUPTED = 130


def prefix(folder: str) -> list[str]:
    """Words before a command that put it into the guest."""
    return [sys.executable, "-m", "naslab.lab.guest.run", folder, "--"]


def pass_on(name: str, data: bytes) -> None:
    """Writes a piece of output where it belongs."""
    while data:
        data = data[os.write(_STREAMS[name], data) :]


def bring_home(path: Path, home: Store) -> list[str]:
    """Copies the runs of a store into another, and removes the first; their ids. Raises StoreError.

    The process that measured is gone: what is still called running is partial.
    """
    from naslab.results.store import Store

    found: list[str] = []
    if path.exists():
        with Store(path) as away:
            for each in reversed(away.list_runs()):
                run = away.load(each.run_id)
                blobs = {
                    cell["id"]: {name: run.blob(cell, name) for name in run.blob_names(cell)} for cell in run.cells
                }
                status = "partial" if run.document["status"] == "running" else run.document["status"]
                found.append(home.save({**run.document, "status": status}, blobs, away.spec(each.run_id)))
    for each_file in path.parent.glob(f"{path.name}*"):
        with contextlib.suppress(FileNotFoundError):
            each_file.unlink()
    return found


def _run(folder: Path, command: list[str]) -> int:
    from naslab.results.store import Store

    path = folder / f"store-{os.getpid()}.sqlite"
    env = {"NASLAB_STORE": str(path), **{name: os.environ[name] for name in _PASSED if name in os.environ}}
    code = _INTERRUPTED
    try:
        with contextlib.suppress(KeyboardInterrupt):
            code = find(folder).run(command, env=env, timeout_s=None, on_output=pass_on).code
    finally:
        with Store() as home:
            bring_home(path, home)
    return code


def main() -> int:
    """Entry point."""
    folder, _, *command = sys.argv[1:]
    try:
        return _run(Path(folder), command)
    except (NaslabError, BrokenPipeError) as error:
        if isinstance(error, NaslabError):
            print(f"naslab: {error}", file=sys.stderr)
        return _NOT_RUN


if __name__ == "__main__":
    sys.exit(main())
