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
_SAMPLES, _SAMPLE_BYTES = 192, 96 << 10


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
            raise UsageError(f"--source {folder}: it has no readable files; name a folder with files")

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
        """Raw size over size by deflate."""
        return sampled_ratio(self)


def sampled_ratio(source: Source) -> float:
    """Raw size over size by deflate at level 6, of the heads of files; 1.0 where none can be read.

    Files are chosen at even steps of the tree's bytes, so that one is chosen as often as its size says: the mean of
    packed over raw of what is chosen then estimates that of the whole (sampling with probability proportional to size,
    Cochran, Sampling Techniques, 9A). Heads of up to 96 KiB, together 18 MiB.
    """
    files = [item for item in source.items if item.size_bytes]
    total, at, begun, shares = sum(item.size_bytes for item in files), 0, 0, []
    for number in range(_SAMPLES if files else 0):
        point = (2 * number + 1) * total // (2 * _SAMPLES)
        first = number == 0
        while begun + files[at].size_bytes <= point:
            begun += files[at].size_bytes
            at, first = at + 1, True
        if first:
            share = _packed_share(source, files[at])
        if share is not None:
            shares.append(share)
    return len(shares) / sum(shares) if shares else 1.0


def _packed_share(source: Source, item: Item) -> float | None:
    """Packed over raw size of a file's head; None where it cannot be read."""
    try:
        reader = source.open(item)
        try:
            data = reader.read(_SAMPLE_BYTES)
        finally:
            reader.close()
    except OSError:
        return None
    return packed_share(data) if data else None


def packed_share(data: bytes) -> float:
    """Size by deflate at level 6 over raw size."""
    return len(zlib.compress(data, 6)) / len(data)


def _item(path: str, found: os.stat_result, is_dir: bool = False, number: int = 0) -> Item:
    size = 0 if is_dir else found.st_size
    return Item(path, size, is_dir, number=number, accessed_ns=found.st_atime_ns, modified_ns=found.st_mtime_ns)


def open_folder(folder: Path) -> FolderSource:
    """A folder as a source. Raises UsageError when it is none, cannot be read or holds no file."""
    if not folder.exists():
        raise UsageError(f"--source {folder}: there is no such folder; check the name")
    if not folder.is_dir():
        raise UsageError(f"--source {folder}: this is not a folder; name the folder with the files")
    return FolderSource(folder)
