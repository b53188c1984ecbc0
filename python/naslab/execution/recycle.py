"""Recycle bins of file servers: what a share keeps of the files that naslab removed.

Many NAS move a removed file into a folder of the share instead of freeing it (Samba's `vfs_recycle` and its like). The
engine empties its own files before it removes them (`Session.discard`), so a bin gets names and no bytes; what a test
removes as the thing it measures is moved there whole.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from naslab import _engine
from naslab.errors import NaslabError
from naslab.targets import Target

BINS = ("#recycle", "@Recycle", ".recycle", ".Recycle.Bin", "Recycle Bin", "$RECYCLE.BIN", "recycle", ".Trash")
"""Names of bins at the top of a share, by maker: Synology, QNAP, Samba and TrueNAS, Unraid, Asustor, Windows."""
RUN_FOLDER = re.compile(r"naslab-\d{8}-\d{6}-[a-z0-9]+\Z")
_FILE = re.compile(r"(Copy #\d+ of )?naslab[.-]")
"""Files of a bin that keeps no folders; Samba numbers those of one name."""
MAX_ENTRIES = 100_000
"""Entries removed from one bin."""


@dataclass
class Recycled:
    """What a bin holds of naslab's: folders of runs and loose files, as paths from the top of the share."""

    bin: str
    folders: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.folders or self.files)


def share_of(target: Target) -> Target:
    """The whole share that a folder on an SMB server lies in: there the bin is."""
    return target.with_options(root="") if target.protocol == "smb" else target


def look(session: _engine.Session, below: str = "", run: str | None = None) -> list[Recycled]:
    """The bins of a share that hold something of naslab's. What may not be listed counts as holding nothing.

    session: at the top of the share. below: the folder in which naslab worked. run: only the folder of this name, and
    loose files, which bear no run's name. Raises TargetError where the share itself cannot be listed.
    """
    found = []
    for name, is_dir in session.readdir(""):
        if is_dir and name in BINS:
            held = Recycled(name)
            for folder in _places(session, name, below):
                _take(held, folder, _list(session, folder), run)
            found += [held] if held else []
    return found


def _places(session: _engine.Session, name: str, below: str) -> list[str]:
    """Folders of a bin in which runs may lie: the bin, those of its users, and the worked-in folder in each."""
    inner = [entry for entry, is_dir in _list(session, name) if is_dir and not RUN_FOLDER.match(entry)]
    tops = [name, *(f"{name}/{entry}" for entry in inner)]
    return list(dict.fromkeys([*tops, *(f"{top}/{below}" for top in tops if below)]))


def _list(session: _engine.Session, folder: str) -> list[tuple[str, bool]]:
    with contextlib.suppress(NaslabError):
        return session.readdir(folder)
    return []


def _take(held: Recycled, folder: str, entries: list[tuple[str, bool]], run: str | None) -> None:
    for name, is_dir in entries:
        path = f"{folder}/{name}"
        if is_dir and (name == run if run else RUN_FOLDER.match(name)):
            held.folders.append(path)
        elif not is_dir and _FILE.match(name):
            held.files.append(path)


def empty(session: _engine.Session, held: Recycled) -> None:
    """Removes what `look` found in a bin. Raises TargetError."""
    for path in held.files:
        session.remove(path)
    left = [MAX_ENTRIES]
    for folder in held.folders:
        _remove(session, folder, left)


def _remove(session: _engine.Session, folder: str, left: list[int]) -> None:
    for name, is_dir in session.readdir_within(folder):
        left[0] -= 1
        if left[0] < 0:
            return
        if is_dir:
            _remove(session, f"{folder}/{name}", left)
        else:
            session.remove(f"{folder}/{name}")
    session.rmdir(folder)


@contextlib.contextmanager
def bins_of(target: Target, run: str | None = None) -> Iterator[tuple[_engine.Session, list[Recycled]]]:
    """A session at the top of the target's share, and what `look` finds there. Raises TargetError."""
    session = _engine.Session(share_of(target).engine_json())
    try:
        yield session, look(session, str(target.options.get("root") or ""), run)
    finally:
        session.end()


def warning(target: Target, run_folder: str) -> str | None:
    """What to say of a run whose files a bin of its server kept; None where none did, or nobody can tell."""
    if target.protocol != "smb":
        return None
    with contextlib.suppress(NaslabError), bins_of(target, run_folder) as (_, kept):
        if kept:
            return (
                f"the share has a recycle bin ({kept[0].bin}): a removed file is moved there, so rates of removing are "
                "those of renaming; `naslab clean --recycle-bin` on the target removes what is left of this run"
            )
    return None
