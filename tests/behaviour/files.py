"""A folder on the subject, and what tests do in it."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any

from naslab import _engine
from naslab.errors import TargetError


class Files:
    """A folder of a session, and shorthands for what tests do in it."""

    def __init__(self, session: _engine.Session, folder: str) -> None:
        self.session = session
        self.folder = folder

    def path(self, name: str) -> str:
        """Its path from the target's root."""
        return f"{self.folder}/{name}"

    @contextlib.contextmanager
    def open(self, name: str, session: _engine.Session | None = None, **options: Any) -> Iterator[int]:
        """An open file, for reading and writing and made if missing, unless options say otherwise."""
        session = session or self.session
        chosen = {"read": True, "write": True, "create": "if_missing", **options}
        file = session.open(self.path(name), json.dumps(chosen))
        try:
            yield file
        finally:
            with contextlib.suppress(TargetError):
                session.close(file)

    def make(self, name: str, data: bytes = b"") -> str:
        """A file with these bytes; its path."""
        with self.open(name, create="new") as file:
            if data:
                assert self.session.write(file, 0, data) == len(data)
        return self.path(name)

    def content(self, name: str) -> bytes:
        """All bytes of a file."""
        length, _ = self.session.stat(self.path(name))
        with self.open(name, write=False, create="never") as file:
            return self.session.read(file, 0, length) if length else b""

    def names(self, folder: str = "") -> dict[str, bool]:
        """Names in it and whether they are folders."""
        return dict(self.session.readdir(f"{self.folder}/{folder}" if folder else self.folder))

    def remove_all(self) -> None:
        """Takes the folder away with all that is in it."""
        self._remove(self.folder)

    def _remove(self, folder: str) -> None:
        for name, is_folder in self.session.readdir(folder):
            if is_folder:
                self._remove(f"{folder}/{name}")
            else:
                self.session.remove(f"{folder}/{name}")
        self.session.rmdir(folder)


def fails(kind: str, *others: str) -> Any:
    """The block must raise a TargetError of one of these classes."""
    return _Fails((kind, *others))


class _Fails:
    def __init__(self, kinds: tuple[str, ...]) -> None:
        self.kinds = kinds

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: Any, _trace: Any) -> bool:
        assert isinstance(error, TargetError), f"expected an error of class {self.kinds}, got {error!r}"
        assert error.kind in self.kinds, f"{error.kind}: {error}"
        return True
