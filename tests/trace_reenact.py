"""Carries a trace out with plain system calls in an empty folder: the slow, obvious reading of the format.

What is there afterwards, names and lengths, must be what the recorded command left.
"""

from __future__ import annotations

import os
from pathlib import Path

from naslab.trace import Operation, Trace, files_of


def reenact(trace: Path, folder: Path) -> None:
    """Prepares what `files_of` says, then carries out every operation that went well. Reads must find their bytes."""
    for fact in files_of(Trace(trace)):
        place = folder / fact.path
        if fact.folder:
            place.mkdir()
        else:
            with place.open("wb") as file:
                file.truncate(fact.size_bytes)
    open_files: dict[int, int] = {}
    try:
        for operation in Trace(trace):
            if operation.error is None:
                _carry_out(operation, folder, open_files)
    finally:
        for number in open_files.values():
            os.close(number)


def _carry_out(o: Operation, folder: Path, open_files: dict[int, int]) -> None:
    path = folder / (o.path or "")
    number = open_files.get(o.handle) if o.handle is not None else None
    match o.op:
        case "open" | "create":
            flags = os.O_RDONLY if path.is_dir() else os.O_RDWR
            flags |= os.O_CREAT if o.op == "create" else 0
            flags |= os.O_TRUNC if "t" in o.flags else 0
            flags |= os.O_EXCL if "e" in o.flags else 0
            open_files[o.handle] = os.open(path, flags, 0o600)  # type: ignore[index]
        case "close":
            os.close(open_files.pop(o.handle))  # type: ignore[arg-type]
        case "read":
            assert len(os.pread(number, o.len_bytes, o.offset_bytes)) == o.len_bytes, o  # type: ignore[arg-type]
        case "write":
            os.pwrite(number, bytes(o.len_bytes), o.offset_bytes)  # type: ignore[arg-type]
        case "truncate":
            os.truncate(path if number is None else number, o.len_bytes)  # type: ignore[arg-type]
        case "mkdir":
            path.mkdir()
        case "rmdir":
            path.rmdir()
        case "remove":
            path.unlink()
        case "rename":
            path.rename(folder / str(o.to_path))
        case "link":
            os.link(path, folder / str(o.to_path))
        case "stat" if number is None:
            assert path.exists(), o
        case "readdir" if number is None:
            assert path.is_dir(), o


def tree(folder: Path) -> dict[str, int | None]:
    """Names and lengths of all below a folder; None for folders. Symbolic links are left out: traces have none."""
    return {
        str(path.relative_to(folder)): None if path.is_dir() else path.stat().st_size
        for path in folder.rglob("*")
        if not path.is_symlink()
    }
