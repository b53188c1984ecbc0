"""`python -m naslab.lab.native.mover DELAY_NS FOLDER FOLDER...`: the second copies of a duplicated pool, made later.

A file is written to one disk of the pool; once it has rested for a while this program copies it to a second one under
the same name. The pool over the folders shows the newest copy (mergerfs, category.search=newest), so there is one name
space at all times. A copy that became old is made anew, one whose file went away is removed by the pool itself, which
removes and renames on all disks. It is the way of Windows Home Server's Drive Extender, in small.

FOLDER is where a disk is mounted: its part of the pool is the folder `files` there. Copies are made in `drafts` beside
that and take the place of an older one only when the source did not change meanwhile.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from naslab.lab.devices.plan import FILES

POLL_S = 0.5
COPIES = 2
DRAFTS = "drafts"
"""Copies in the making."""
_PIECE_BYTES = 1 << 20


@dataclass(frozen=True)
class Seen:
    """One copy of a file: on which disk, and what tells whether it changed."""

    disk: Path
    size_bytes: int
    changed_ns: int


def main() -> int:
    """Entry point."""
    delay_ns, folders = int(sys.argv[1]), [Path(each) for each in sys.argv[2:]]
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        copy_all(folders, delay_ns, time.time_ns())
        time.sleep(POLL_S)


def copy_all(folders: list[Path], delay_ns: int, now_ns: int) -> int:
    """Makes the copies that are due; how many were made."""
    made = 0
    for name, source, target in due(survey(folders), folders, delay_ns, now_ns):
        with contextlib.suppress(OSError):  # it went away or grew meanwhile, or the disk is full: the next round's
            made += copy(name, source, target)
    return made


def survey(folders: Iterable[Path]) -> dict[str, list[Seen]]:
    """All files by their name in the pool, with the copies there are."""
    found: dict[str, list[Seen]] = {}
    for disk in folders:
        for path, status in _files(disk / FILES, ""):
            found.setdefault(path, []).append(Seen(disk, status.st_size, status.st_mtime_ns))
    return found


def due(
    files: dict[str, list[Seen]], folders: list[Path], delay_ns: int, now_ns: int
) -> Iterator[tuple[str, Seen, Path]]:
    """Files that have rested and lack a copy: name, newest copy, disk of the other one."""
    for name, copies in sorted(files.items()):
        newest = max(copies, key=lambda each: each.changed_ns)
        if now_ns - newest.changed_ns < delay_ns:
            continue
        same = [each for each in copies if (each.changed_ns, each.size_bytes) == (newest.changed_ns, newest.size_bytes)]
        if len(same) >= min(COPIES, len(folders)):
            continue
        old = [each.disk for each in copies if each not in same]
        others = [each for each in folders if each != newest.disk]
        yield name, newest, old[0] if old else max(others, key=_room_bytes)


def copy(name: str, source: Seen, target: Path) -> bool:
    """Copies a file to another disk, times and rights with it; False where it changed meanwhile. Raises OSError."""
    origin, end = source.disk / FILES / name, target / FILES / name
    draft = target / DRAFTS / f"{os.getpid()}"
    draft.parent.mkdir(mode=0o700, exist_ok=True)
    try:
        with origin.open("rb", buffering=0) as reader, draft.open("wb", buffering=0) as writer:
            while piece := reader.read(_PIECE_BYTES):
                writer.write(piece)
            status = os.fstat(reader.fileno())
            os.fchown(writer.fileno(), status.st_uid, status.st_gid)
            os.fchmod(writer.fileno(), status.st_mode & 0o7777)
            os.fsync(writer.fileno())
        os.utime(draft, ns=(status.st_atime_ns, status.st_mtime_ns))
        _folders(source.disk / FILES, target / FILES, Path(name).parent)
        if not _is_still(origin, source):
            return False
        draft.replace(end)
        if not origin.exists():
            end.unlink()  # removed in this very moment: no copy may bring it back
            return False
        return True
    finally:
        draft.unlink(missing_ok=True)


def _is_still(path: Path, seen: Seen) -> bool:
    status = path.stat()
    return (status.st_size, status.st_mtime_ns) == (seen.size_bytes, seen.changed_ns)


def _folders(source: Path, target: Path, name: Path) -> None:
    """The folder on the other disk, with the owner and the rights that it has on the first."""
    if not name.parts or (target / name).is_dir():
        return
    _folders(source, target, name.parent)
    status = (source / name).stat()
    (target / name).mkdir(exist_ok=True)
    os.chown(target / name, status.st_uid, status.st_gid)
    (target / name).chmod(status.st_mode & 0o7777)


def _files(root: Path, below: str) -> Iterator[tuple[str, os.stat_result]]:
    try:
        entries = sorted(os.scandir(root / below), key=lambda each: each.name)
    except OSError:
        return
    for entry in entries:
        name = f"{below}/{entry.name}" if below else entry.name
        with contextlib.suppress(OSError):
            if entry.is_dir(follow_symlinks=False):
                yield from _files(root, name)
            elif entry.is_file(follow_symlinks=False):
                yield name, entry.stat(follow_symlinks=False)


def _room_bytes(folder: Path) -> int:
    status = os.statvfs(folder)
    return status.f_bavail * status.f_frsize


if __name__ == "__main__":
    main()
