"""`files_of` against the file system itself: random operations on a random tree, carried out again elsewhere."""

from __future__ import annotations

import errno
import os
import random
from pathlib import Path

import pytest

from naslab.trace import Header, Operation, Trace, TraceWriter, files_of
from trace_reenact import reenact, tree

FOLDERS = ("", "d", "d/e", "n")
NAMES = ("a", "b", "d", "e", "n")


class Actor:
    """Does random things below a folder and writes down what it did, failures included."""

    def __init__(self, folder: Path, seed: int, writer: TraceWriter) -> None:
        self.folder, self.writer = folder, writer
        self.random = random.Random(seed)
        self.open: dict[int, tuple[int, str]] = {}
        self.clock = 0
        self.next_handle = 0

    def path(self) -> str:
        return os.path.join(self.random.choice(FOLDERS), self.random.choice(NAMES))

    def write_down(self, op: str, error: OSError | None, **fields: object) -> None:
        self.clock += 10
        name = None if error is None else errno.errorcode[error.errno or 0]
        self.writer.write(Operation(start_ns=self.clock, stream=0, op=op, error=name, **fields))  # type: ignore[arg-type]

    def step(self) -> None:
        """One operation."""
        kinds = ["open", "create", "io", "io", "io", "close", "stat", "readdir", "mkdir", "rmdir", "remove", "rename",
                 "link", "truncate"]  # fmt: skip
        kind = self.random.choice(kinds)
        if kind in ("io", "close"):
            if self.open:
                self.on_handle(kind, self.random.choice(sorted(self.open)))
        elif kind in ("open", "create"):
            self.opens(kind)
        else:
            self.on_name(kind)

    def opens(self, kind: str) -> None:
        path = self.path()
        flags = "rw" + ("t" if self.random.random() < 0.3 else "")
        flags += "e" if kind == "create" and self.random.random() < 0.3 else ""
        bits = os.O_RDWR | (os.O_CREAT if kind == "create" else 0)
        bits |= (os.O_TRUNC if "t" in flags else 0) | (os.O_EXCL if "e" in flags else 0)
        try:
            number = os.open(self.folder / path, bits, 0o600)
        except OSError as error:
            self.write_down(kind, error, path=path, flags=flags)
            return
        self.next_handle += 1
        self.open[self.next_handle] = (number, path)
        self.write_down(kind, None, path=path, flags=flags, handle=self.next_handle)

    def on_handle(self, kind: str, handle: int) -> None:
        number, path = self.open[handle]
        offset, length = self.random.randrange(60), self.random.randrange(1, 40)
        named = {"handle": handle, "path": path}
        if kind == "close":
            os.close(self.open.pop(handle)[0])
            self.write_down("close", None, **named)
        elif self.random.random() < 0.15:
            self.write_down("stat", None, file_bytes=os.fstat(number).st_size, **named)
        elif self.random.random() < 0.15:
            os.ftruncate(number, length)
            self.write_down("truncate", None, len_bytes=length, **named)
        elif self.random.random() < 0.5:
            moved = len(os.pread(number, length, offset))
            self.write_down("read", None, offset_bytes=offset, len_bytes=moved, asked_bytes=length, **named)
        else:
            os.pwrite(number, bytes(length), offset)
            self.write_down("write", None, offset_bytes=offset, len_bytes=length, **named)

    def on_name(self, kind: str) -> None:
        path, other = self.path(), self.path()
        at, to = self.folder / path, self.folder / other
        length = self.random.randrange(50)
        facts: dict[str, object] = {}
        error: OSError | None = None
        try:
            if kind == "stat":
                facts = {"flags": "f"} if at.is_dir() else {"file_bytes": at.stat().st_size}
            elif kind == "readdir":
                facts = {"len_bytes": len(os.listdir(at))}
            elif kind == "truncate":
                facts = {"len_bytes": length}
                os.truncate(at, length)
            elif kind in ("rename", "link"):
                facts = {"to_path": other}
                (os.rename if kind == "rename" else os.link)(at, to)
            else:
                {"mkdir": os.mkdir, "rmdir": os.rmdir, "remove": os.unlink}[kind](at)
        except OSError as failed:
            error = failed
            facts = {"to_path": other} if "to_path" in facts else {"len_bytes": 0} if kind == "truncate" else {}
        self.write_down(kind, error, path=path, **facts)


def start(folder: Path, seed: int) -> None:
    """A tree that may have anything at the names that are used."""
    generator = random.Random(seed)
    for part in FOLDERS[1:]:
        if generator.random() < 0.6 and (folder / part).parent.is_dir():
            (folder / part).mkdir(exist_ok=True)
    for part in FOLDERS:
        for name in NAMES:
            place = folder / part / name
            if place.parent.is_dir() and not place.exists() and generator.random() < 0.4:
                place.write_bytes(bytes(generator.randrange(80)))


@pytest.mark.parametrize("first", range(0, 400, 50))
def test_what_is_needed_is_enough_and_all_of_it_was_there(first: int, tmp_path: Path) -> None:
    """Prepared as `files_of` says, every operation succeeds again and leaves nothing else; none of it is made up."""
    for seed in range(first, first + 50):
        here, again, made = tmp_path / f"{seed}", tmp_path / f"{seed}-again", tmp_path / "x.trace"
        here.mkdir()
        again.mkdir()
        start(here, seed)
        before = tree(here)
        with TraceWriter(made, Header(source="naslab")) as writer:
            actor = Actor(here, seed, writer)
            for _ in range(60):
                actor.step()
            for handle in sorted(actor.open):
                actor.on_handle("close", handle)
        for fact in files_of(Trace(made)):
            assert fact.path in before, (seed, fact)
            if fact.folder or fact.need_bytes or fact.known_bytes is not None:
                assert (before[fact.path] is None) == fact.folder, (seed, fact)
            assert fact.folder or fact.size_bytes <= (before[fact.path] or 0), (seed, fact)
        try:
            reenact(made, again)
        except (OSError, AssertionError) as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        left, copy = tree(here), tree(again)
        assert set(copy) <= set(left), seed
        for name, size in copy.items():
            # What is only renamed may have been a file or a folder: no operation tells.
            assert (size or 0) <= (left[name] or 0), (seed, name)
