"""What a job copies: the items of a tree, and a folder of this machine as a source. Nothing here writes to a source."""

from __future__ import annotations

import os
import stat
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from naslab.errors import UsageError

REQUEST_BYTES = 1 << 20


class Reader(Protocol):
    """A file of the source being read from its start."""

    def read(self, size: int, /) -> bytes:
        """Up to `size` bytes; none at the end."""

    def close(self) -> None:
        """Ends reading."""


@dataclass(frozen=True)
class Item:
    """A folder or file. path: parts joined by `/`. kind, number: of generated contents. Times: ns since 1970."""

    path: str
    size_bytes: int
    is_dir: bool = False
    kind: str = ""
    number: int = 0
    accessed_ns: int = 0
    modified_ns: int = 0


class Source(Protocol):
    """A tree that files come from. items: folders before what lies in them. skipped: reason and count."""

    items: list[Item]
    skipped: dict[str, int]
    label: str

    def open(self, item: Item) -> Reader:
        """A reader of a file's contents. Raises OSError."""

    def ratio(self) -> float:
        """Raw size over size by deflate at level 6, of a sample."""

    def changed(self, item: Item) -> bool:
        """Whether a file is no longer what it was when the tree was listed."""


class FolderSource:
    """A folder of this machine. Links are not followed; links, sockets, pipes and devices are counted as skipped."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.label = str(folder)
        self.items: list[Item] = []
        self.skipped: dict[str, int] = {}
        self._paths: dict[str, bytes] = {}
        self._walk(os.fsencode(folder), "")
        if not any(not item.is_dir for item in self.items):
            raise UsageError(f"--source {folder}: no file in it can be read; name a folder with files")

    def _walk(self, folder: bytes, prefix: str) -> None:
        try:
            with os.scandir(folder) as found:
                entries = sorted(found, key=lambda entry: entry.name)
        except OSError:
            self._skip("unreadable folders")
            return
        for entry in entries:
            path = prefix + os.fsdecode(entry.name)
            self._take(entry, path)

    def _take(self, entry: os.DirEntry[bytes], path: str) -> None:
        try:
            found = entry.stat(follow_symlinks=False)
        except OSError:
            self._skip("vanished")
            return
        if stat.S_ISDIR(found.st_mode):
            self.items.append(_item(path, found, is_dir=True))
            self._walk(entry.path, path + "/")
        elif not stat.S_ISREG(found.st_mode):
            self._skip("links" if stat.S_ISLNK(found.st_mode) else "sockets, pipes and devices")
        elif not os.access(entry.path, os.R_OK):
            self._skip("unreadable files")
        else:
            self._paths[path] = entry.path
            self.items.append(_item(path, found, number=len(self.items)))

    def _skip(self, reason: str) -> None:
        self.skipped[reason] = self.skipped.get(reason, 0) + 1

    def open(self, item: Item) -> Reader:
        """A reader of the file. Raises OSError."""
        return open(self._paths[item.path], "rb", buffering=0)

    def changed(self, item: Item) -> bool:
        """By its size and time of change; one that is gone is changed."""
        try:
            found = os.stat(self._paths[item.path], follow_symlinks=False)
        except OSError:
            return True
        return (found.st_size, found.st_mtime_ns) != (item.size_bytes, item.modified_ns)

    def ratio(self) -> float:
        """Of the first MiB of up to 16 files spread over the tree."""
        files = [item for item in self.items if item.size_bytes]
        raw = packed = 0
        for item in files[:: max(1, len(files) // 16)]:
            try:
                with open(self._paths[item.path], "rb") as file:
                    data = file.read(REQUEST_BYTES)
            except OSError:
                continue
            raw, packed = raw + len(data), packed + len(zlib.compress(data, 6))
        return raw / packed if packed else 1.0


def _item(path: str, found: os.stat_result, is_dir: bool = False, number: int = 0) -> Item:
    size = 0 if is_dir else found.st_size
    return Item(path, size, is_dir, number=number, accessed_ns=found.st_atime_ns, modified_ns=found.st_mtime_ns)


def open_folder(folder: Path) -> FolderSource:
    """A folder as a source. Raises UsageError when it is none, cannot be read or holds no file."""
    if not folder.exists():
        raise UsageError(f"--source {folder}: there is no such folder")
    if not folder.is_dir():
        raise UsageError(f"--source {folder}: that is no folder; name the folder that holds the files")
    return FolderSource(folder)
