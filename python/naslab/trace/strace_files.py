"""What the traced processes had open: descriptor tables, file positions, working folders, sizes seen."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass, field
from functools import lru_cache

from naslab.trace.names import name_text, too_long

MAX_SIZES = 1 << 16
"""Files whose length is remembered for appending; beyond, the oldest is forgotten."""


class Root:
    """The folder whose files are traced. alias: the same folder by another name, e.g. through a symbolic link."""

    def __init__(self, folder: bytes, alias: bytes | None = None) -> None:
        self.folders = [posixpath.normpath(name) for name in (folder, alias) if name is not None]
        self.relative = lru_cache(maxsize=1 << 14)(self._relative)

    def _relative(self, absolute: bytes) -> str | None:
        """The path of a trace for an absolute path; None outside the root, and for names beyond the limit."""
        path = posixpath.normpath(absolute)
        if path.startswith(b"//"):
            path = path[1:]
        for folder in self.folders:
            if path == folder:
                return "."
            if path.startswith(folder.rstrip(b"/") + b"/"):
                text = name_text(path[len(folder.rstrip(b"/")) + 1 :])
                return None if too_long(text) else text
        return None


@dataclass(slots=True)
class OpenFile:
    """An open file description: shared by the descriptors that dup and fork made of one open."""

    handle: int
    path: str
    absolute: bytes
    append: bool = False
    visible: bool = True
    """Whether the trace has it; O_PATH descriptors only serve as starting points of names."""
    position: int = 0
    references: int = 1


@dataclass(slots=True)
class Table:
    """Descriptors of a process, or of several that share them."""

    files: dict[int, OpenFile] = field(default_factory=dict)
    on_exec: set[int] = field(default_factory=set)
    """Descriptors that an execve closes."""
    users: int = 1

    def copy(self) -> Table:
        """As fork does it."""
        for file in self.files.values():
            file.references += 1
        return Table(dict(self.files), set(self.on_exec))

    def put(self, number: int, file: OpenFile, on_exec: bool = False) -> OpenFile | None:
        """Sets a descriptor; what it stood for before."""
        before = self.files.get(number)
        self.files[number] = file
        (self.on_exec.add if on_exec else self.on_exec.discard)(number)
        return before

    def take(self, number: int) -> OpenFile | None:
        """Removes a descriptor; what it stood for."""
        self.on_exec.discard(number)
        return self.files.pop(number, None)


@dataclass(slots=True)
class Folder:
    """A working folder, of one process or of several threads. None: not known. root: what chroot made its `/`."""

    path: bytes | None
    root: bytes = b""

    def absolute(self, name: bytes) -> bytes | None:
        """The whole path of a name; None for one that is relative to an unknown folder."""
        if name.startswith(b"/"):
            return self.root + posixpath.normpath(name) if self.root else name
        return self.path and self.path + b"/" + name


@dataclass(slots=True)
class Task:
    """A process or thread."""

    table: Table
    folder: Folder
    stream: int | None = None


class Sizes:
    """Lengths of files as far as calls showed them, for the offsets of appended writes."""

    def __init__(self) -> None:
        self._sizes: dict[str, int] = {}
        self._new_folders: set[str] = set()

    def set(self, path: str, size_bytes: int) -> None:
        """It is so long now."""
        self._sizes.pop(path, None)
        if len(self._sizes) >= MAX_SIZES:
            del self._sizes[next(iter(self._sizes))]
        self._sizes[path] = size_bytes

    def made(self, folder: str) -> None:
        """A folder was made: what no call showed in it is not there, and empty when it is made."""
        if len(self._new_folders) < MAX_SIZES:
            self._new_folders.add(folder)

    def get(self, path: str) -> int | None:
        """Its length, None if no call showed it."""
        found = self._sizes.get(path)
        return 0 if found is None and posixpath.dirname(path) in self._new_folders else found

    def grow(self, path: str, end: int) -> None:
        """It was written up to here."""
        if end > self._sizes.get(path, -1):
            self.set(path, end)

    def move(self, old: str, new: str) -> None:
        """It has another name. What lies in a folder that moves becomes unknown under its new names."""
        size_bytes = self.get(old)
        self.forget(old)
        self.forget(new)
        if size_bytes is not None:
            self.set(new, size_bytes)

    def forget(self, path: str) -> None:
        """It is gone."""
        self._sizes.pop(path, None)
        self._new_folders.discard(path)


class Links:
    """Names of symbolic links that the calls showed, a bounded number of them."""

    def __init__(self) -> None:
        self._names: set[str] = set()

    def __contains__(self, path: str) -> bool:
        return path in self._names

    def add(self, path: str) -> None:
        """There is one of this name."""
        if len(self._names) < MAX_SIZES:
            self._names.add(path)

    def discard(self, path: str) -> None:
        """It is gone."""
        self._names.discard(path)

    def move(self, old: str, new: str) -> None:
        """It has another name."""
        self.discard(old)
        self.add(new)
