"""The journal of what was acknowledged, on this machine and never on the target.

One line a fact: the CRC-32 of the rest in hexadecimal, a blank, JSON. A line is written the moment the acknowledgement
came, so that it survives this process; a thread syncs it to the disk all the time, so that a crash of this machine
costs the last few milliseconds. What is lost so, or torn, makes writes count as not acknowledged, and asks less of
the server: it never accuses it wrongly.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import threading
import time
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from naslab.commands.durable import plan as plans
from naslab.commands.durable.plan import Plan
from naslab.errors import UsageError

KIND = "naslab-durable"
VERSION = 1
_SYNC_EVERY_S = 0.005


class Journal:
    """A journal being written; several threads may. Times are those of the monotonic clock, in ns."""

    def __init__(self, path: Path, file: int) -> None:
        self.path = path
        self._file = file
        self._lock = threading.Lock()
        self._dirty = threading.Event()
        self._ended = False
        self._thread = threading.Thread(target=self._sync, daemon=True, name="naslab-journal")
        self._thread.start()

    @classmethod
    def create(cls, path: Path, plan: Plan, about: dict[str, Any]) -> Journal:
        """A new one, locked while it is written. about: further facts of the head.

        Raises UsageError where a file is there or cannot be made.
        """
        try:
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
        except FileExistsError:
            raise UsageError(f"--journal {path}: it exists; name a new file, or continue with --check {path}") from None
        except OSError as error:
            raise UsageError(f"--journal {path}: {error.strerror}; name a file that can be created") from None
        fcntl.flock(file, fcntl.LOCK_EX)
        journal = cls(path, file)
        journal.write(kind=KIND, version=VERSION, plan=plan.document(), wall_ns=time.time_ns(), **about)
        journal.settle()
        return journal

    @classmethod
    def reopen(cls, path: Path, sound_bytes: int) -> Journal:
        """To go on with one that `read` read; what it could not read of its end is cut off.

        Raises UsageError where the process that wrote it still does.
        """
        try:
            file = os.open(path, os.O_WRONLY | os.O_APPEND)
        except OSError as error:
            raise UsageError(f"--check {path}: {error.strerror}; the check adds to it: make it writable") from None
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(file)
            raise UsageError(
                f"--check {path}: the naslab that writes it is still running; wait for it or end it"
            ) from None
        os.ftruncate(file, sound_bytes)
        return cls(path, file)

    def write(self, **fact: Any) -> None:
        """Adds a line; it survives this process from then on."""
        text = json.dumps(fact, separators=(",", ":")).encode()
        line = b"%08x %s\n" % (zlib.crc32(text), text)
        with self._lock:
            if os.write(self._file, line) != len(line):
                raise OSError(f"the journal {self.path} could not be written to")
        self._dirty.set()

    def settle(self) -> None:
        """Returns when all lines are on the disk."""
        os.fsync(self._file)

    def close(self) -> None:
        """Syncs and closes it. May be called again."""
        if not self._ended:
            self._ended = True
            self._dirty.set()
            self._thread.join()
            os.fsync(self._file)
            os.close(self._file)

    def _sync(self) -> None:
        while not self._ended:
            self._dirty.wait()
            self._dirty.clear()
            with contextlib.suppress(OSError):  # the next write tells
                os.fdatasync(self._file)
            time.sleep(_SYNC_EVERY_S)


@dataclass
class ModeFacts:
    """What is known of one file. batches: (batch, places in it that were acknowledged or None for all, when).

    flushes: (last batch covered, when).
    """

    batches: list[tuple[int, list[int] | None, int]] = field(default_factory=list)
    flushes: list[tuple[int, int]] = field(default_factory=list)


@dataclass
class CutFacts:
    """What is known of one cut. steps: (file, step, when) of metadata. lost_ns: when the server was gone.

    filled: files and folder were flushed, the load began. result: what its check found, if it was checked.
    """

    number: int
    filled: bool = False
    modes: dict[str, ModeFacts] = field(default_factory=lambda: {mode: ModeFacts() for mode in plans.MODES})
    steps: list[tuple[int, str, int]] = field(default_factory=list)
    lost_ns: int | None = None
    result: dict[str, Any] | None = None


@dataclass
class Recorded:
    """A journal that was read. head: its first line. sound_bytes: how much of it was sound."""

    plan: Plan
    head: dict[str, Any]
    cuts: list[CutFacts]
    sound_bytes: int


def read(path: Path) -> Recorded:
    """A journal, up to the first line that is torn. Raises UsageError for what is none."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"--check {path}: {error.strerror}; name the journal of a `naslab durable`") from None
    lines, sound = _lines(data)
    if not lines or lines[0].get("kind") != KIND:
        raise UsageError(f"--check {path}: this is not a journal of `naslab durable`; name the file that it wrote")
    if lines[0].get("version") != VERSION:
        raise UsageError(f"--check {path}: its version is {lines[0].get('version')}, this naslab reads {VERSION}")
    cuts: list[CutFacts] = []
    for line in lines[1:]:
        _take(line, cuts)
    return Recorded(plans.from_document(lines[0]["plan"]), lines[0], cuts, sound)


def _lines(data: bytes) -> tuple[list[dict[str, Any]], int]:
    """All sound lines from the head on, and their length."""
    lines: list[dict[str, Any]] = []
    at = 0
    while (end := data.find(b"\n", at)) >= 0:
        checksum, _, text = data[at:end].partition(b" ")
        if checksum != b"%08x" % zlib.crc32(text):
            break
        lines.append(json.loads(text))
        at = end + 1
    return lines, at


def _take(line: dict[str, Any], cuts: list[CutFacts]) -> None:
    match line:
        case {"cut": number}:
            cuts.append(CutFacts(number))
        case {"filled": True}:
            cuts[-1].filled = True
        case {"mode": mode, "batch": batch, "at": at}:
            cuts[-1].modes[mode].batches.append((batch, line.get("only"), at))
        case {"mode": mode, "flushed": batch, "at": at}:
            cuts[-1].modes[mode].flushes.append((batch, at))
        case {"step": step, "file": file, "at": at}:
            cuts[-1].steps.append((file, step, at))
        case {"lost": at}:
            cuts[-1].lost_ns = at
        case {"result": result}:
            cuts[-1].result = result
