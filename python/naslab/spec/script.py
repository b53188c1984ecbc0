"""Scripts: what each stream of an application does, step by step, written for the engine.

A script has streams; each stream is a list of steps with at most one under way, and the engine gives each a worker of
its own. Steps name paths relative to the run's folder of files and handles (open files of the stream). A step may wait
until another stream has done so many steps, or until it is due. Form of the file: docs/notes/0003-scripts.md.
"""

from __future__ import annotations

import hashlib
import secrets
import shutil
import struct
import tempfile
from pathlib import Path
from types import TracebackType
from typing import IO

from naslab.errors import UsageError

MAGIC = b"naslabS1"
READ, WRITE, FLUSH, OPEN, CLOSE, STAT, READDIR, MKDIR, RMDIR, REMOVE, RENAME, TRUNCATE, PAUSE = range(13)
"""Kinds of steps, as in crates/workload/src/script.rs."""
FLAG_READ, FLAG_WRITE, FLAG_CREATE, FLAG_EXCLUSIVE, FLAG_TRUNCATE, FLAG_SYNC, FLAG_DIRECT, FLAG_FAILS = (
    1, 2, 4, 8, 16, 32, 64, 128,
)  # fmt: skip
NONE, NO_STREAM, STARTED = 0xFFFFFFFF, 0xFFFF, 1 << 31
MOST_STREAMS = 4096
MOST_STEP_BYTES = 64 << 20
_STEP = struct.Struct("<BBHIIIIIQQ")
_STREAM = struct.Struct("<QQIIII")
_HEAD = struct.Struct("<8sIIQ8x")
_BUFFERED_STEPS = 4096


class ScriptStream:
    """The steps of one stream, in order. Made by `ScriptWriter.stream`; sizes in bytes, times in nanoseconds.

    Each method adds one step. due_ns: when it starts at recorded pace, from the start of the script.
    """

    def __init__(self, writer: ScriptWriter, number: int) -> None:
        self._writer = writer
        self._file: IO[bytes] = tempfile.TemporaryFile(dir=writer.folder)  # noqa: SIM115 - closed by the writer
        self._buffer: list[bytes] = []
        self._wait = (NO_STREAM, 0)
        self.number = number
        self.steps = 0
        self.handles = 0
        self.most_bytes = 0
        self.kinds = 0

    def after(self, other: ScriptStream, started: bool = False, steps: int | None = None) -> None:
        """The next step starts when all steps that `other` has so far are done, or the last of them has started.

        steps: only its first so many. Raises UsageError for itself.
        """
        if other is self:
            raise UsageError("script: a stream cannot wait for itself")
        count = other.steps if steps is None else steps
        self._wait = (other.number, count | (STARTED if started else 0))

    def open(self, path: str, flags: int = FLAG_READ, due_ns: int = 0, handle: int | None = None) -> int:
        """Opens a file; its handle: the next free number, or the one given, whose file is closed first."""
        number = self.handles if handle is None else handle
        self.handles = max(self.handles, number + 1)
        self._add(OPEN, flags, number, self._writer.path(path), due_ns=due_ns)
        return number

    def read(self, handle: int, offset_bytes: int, len_bytes: int, due_ns: int = 0, flags: int = 0) -> None:
        """Reads from an open file."""
        self._move(READ, handle, offset_bytes, len_bytes, due_ns, flags)

    def write(self, handle: int, offset_bytes: int, len_bytes: int, due_ns: int = 0, flags: int = 0) -> None:
        """Writes to an open file."""
        self._move(WRITE, handle, offset_bytes, len_bytes, due_ns, flags)

    def flush(self, handle: int, due_ns: int = 0, flags: int = 0) -> None:
        """Makes what was written to an open file durable."""
        self._add(FLUSH, flags, handle, due_ns=due_ns)

    def close(self, handle: int, due_ns: int = 0) -> None:
        """Closes a file."""
        self._add(CLOSE, 0, handle, due_ns=due_ns)

    def truncate(self, handle: int, len_bytes: int, due_ns: int = 0, flags: int = 0) -> None:
        """Sets the length of an open file."""
        self._add(TRUNCATE, flags, handle, offset_bytes=len_bytes, due_ns=due_ns)

    def rename(self, path: str, path_to: str, due_ns: int = 0, flags: int = 0) -> None:
        """Renames a file or folder."""
        self._add(RENAME, flags, path=self._writer.path(path), path_to=self._writer.path(path_to), due_ns=due_ns)

    def on_path(self, kind: int, path: str, due_ns: int = 0, flags: int = 0) -> None:
        """STAT, READDIR, MKDIR, RMDIR or REMOVE."""
        self._add(kind, flags, path=self._writer.path(path), due_ns=due_ns)

    def pause(self, due_ns: int = 0) -> None:
        """Does nothing, but waits as the others do."""
        self._add(PAUSE, 0, due_ns=due_ns)

    def _move(self, kind: int, handle: int, offset_bytes: int, len_bytes: int, due_ns: int, flags: int) -> None:
        if not 0 < len_bytes <= MOST_STEP_BYTES:
            raise UsageError(f"script: a request of {len_bytes} bytes; give 1 byte to 64 MiB")
        self.most_bytes = max(self.most_bytes, len_bytes)
        self._add(kind, flags, handle, len_bytes=len_bytes, offset_bytes=offset_bytes, due_ns=due_ns)

    def _add(
        self, kind: int, flags: int, handle: int = NONE, path: int = NONE, path_to: int = NONE, len_bytes: int = 0,
        offset_bytes: int = 0, due_ns: int = 0,
    ) -> None:  # fmt: skip
        stream, steps = self._wait
        self._wait = (NO_STREAM, 0)
        self._buffer.append(
            _STEP.pack(kind, flags, stream, steps, handle, path, path_to, len_bytes, offset_bytes, due_ns)
        )
        self.kinds |= 1 << kind
        self.steps += 1
        if len(self._buffer) >= _BUFFERED_STEPS:
            self._spill()

    def _spill(self) -> None:
        self._file.writelines(self._buffer)
        self._buffer.clear()

    def _copy_to(self, out: IO[bytes]) -> None:
        self._spill()
        self._file.seek(0)
        shutil.copyfileobj(self._file, out, 1 << 20)


class ScriptWriter:
    """Writes a script file: add steps to streams, then `save`. A context manager: its temporary files go at the end.

    folder: for temporary files; None: the system's. Steps are kept on disk, so that memory stays small however many
    there are.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder
        self.streams: list[ScriptStream] = []
        self._paths: dict[int, int] = {}
        self._names: IO[bytes] = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - closed with the context
        self._key = secrets.token_bytes(16)

    def __enter__(self) -> ScriptWriter:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _at: TracebackType | None
    ) -> None:
        for stream in self.streams:
            stream._file.close()
        self._names.close()

    def stream(self) -> ScriptStream:
        """One more stream. Raises UsageError beyond 4096."""
        if len(self.streams) >= MOST_STREAMS:
            raise UsageError(f"script: more than {MOST_STREAMS} streams; join some of them")
        made = ScriptStream(self, len(self.streams))
        self.streams.append(made)
        return made

    def path(self, path: str) -> int:
        """Number of a path in the table. Raises UsageError for one that leads out of the folder. "": the folder."""
        text = path.encode()
        # Hundreds of thousands of paths are longer than all else that is known of them.
        digest = int.from_bytes(hashlib.blake2b(text, digest_size=8, key=self._key).digest())
        found = self._paths.get(digest)
        if found is None:
            check_path(path)
            found = self._paths[digest] = len(self._paths)
            self._names.write(struct.pack("<I", len(text)) + text)
        return found

    @property
    def steps(self) -> int:
        """Steps of all streams."""
        return sum(stream.steps for stream in self.streams)

    @property
    def most_bytes(self) -> int:
        """Longest read or write."""
        return max((stream.most_bytes for stream in self.streams), default=0)

    def save(self, path: Path) -> None:
        """Writes the file. Raises UsageError without a stream, OSError."""
        if not self.streams:
            raise UsageError("script: it has no stream")
        at = _HEAD.size + _STREAM.size * len(self.streams)
        heads = []
        for stream in self.streams:
            heads.append(_STREAM.pack(at, stream.steps, stream.handles, stream.most_bytes, stream.kinds, 0))
            at += _STEP.size * stream.steps
        with path.open("wb") as out:
            out.write(_HEAD.pack(MAGIC, len(self.streams), len(self._paths), at))
            out.writelines(heads)
            for stream in self.streams:
                stream._copy_to(out)
            self._names.seek(0)
            shutil.copyfileobj(self._names, out, 1 << 20)


def check_path(path: str) -> None:
    """Raises UsageError for a path that is not plain and relative."""
    parts = path.split("/")
    if len(path.encode()) > 4096:
        raise UsageError(f"script: the path {path[:60]!r}... is longer than 4096 bytes on the target")
    if path and (any(part in ("", ".", "..") for part in parts) or "\0" in path):
        raise UsageError(f"script: {path!r} is not a plain relative path")
