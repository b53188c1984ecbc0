"""What a replay of a trace has to do, straight from the rules of docs/guide/trace.md, and as a server sees it."""

from __future__ import annotations

import errno
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from naslab.commands.replay import Names
from naslab.trace import Operation, Trace, files_of
from naslab.trace.names import name_text

Row = tuple[Any, ...]
"""Kind, path, and what else tells operations of this kind apart; the name of the error last, where it failed."""
PREPARED_BYTES = 1 << 20
"""Files are made in writes of at most so much."""


def of_trace(trace: Path) -> list[tuple[int, Row]]:
    """(stream, what it has to do) in the order of the trace."""
    found: list[tuple[int, Row]] = []
    folders = {fact.path for fact in files_of(Trace(trace)) if fact.folder} | {"."}
    opened: dict[int, str | None] = {}
    lengths = {fact.path: fact.size_bytes for fact in files_of(Trace(trace)) if not fact.folder}
    for o in Trace(trace):
        assert "i" not in o.flags, "nothing was open before the command began"
        path = o.path or "."
        if o.op == "mkdir" and o.error is None:
            folders.add(path)
        if o.op in ("open", "create") and o.error is None:
            opened[o.handle or 0] = "folder" if path in folders else None
            if path in folders:
                found.append((o.stream, row("stat", path)))
                continue
            lengths[path] = 0 if "t" in o.flags else lengths.get(path, 0)
        state = opened.get(-1 if o.handle is None else o.handle)
        if state is not None and o.op in ("close", "readdir"):
            if o.op == "readdir":
                if state == "folder":
                    found.append((o.stream, row("readdir", path)))
                opened[o.handle or 0] = "listed" if o.len_bytes else "folder"
            continue
        if o.op == "write":
            lengths[path] = max(lengths[path], (o.offset_bytes or 0) + (o.len_bytes or 0))
        found += [(o.stream, each) for each in as_replayed(o, lengths)]
    return found


def by_stream(found: Iterable[tuple[int, Row]]) -> list[list[Row]]:
    """What each stream does, in order; the streams in an order of their own."""
    streams: dict[int, list[Row]] = {}
    for stream, each in found:
        streams.setdefault(stream, []).append(each)
    return sorted(streams.values(), key=repr)


def as_replayed(o: Operation, lengths: dict[str, int]) -> Iterator[Row]:
    """One operation that is on no folder's handle."""
    if o.op in ("read", "write") and not o.len_bytes:
        if o.op == "read" and o.asked_bytes:
            yield row("read", o.path, o.offset_bytes, 0)
        return
    if o.op == "link":
        to = o.to_path or ""
        lengths[to] = lengths[o.path or ""]
        yield row("create", to, "ew")
        yield row("truncate", to, lengths[to])
        yield row("close", to)
    elif o.op in ("open", "create"):
        if o.error is None:
            yield row(o.op, o.path, "".join(sorted(set(o.flags) & set("rwte"))))
        else:
            yield row(o.op, o.path, o.error)
    elif o.op in ("read", "write"):
        yield row(o.op, o.path, o.offset_bytes, o.len_bytes)
    elif o.op == "truncate":
        yield row(o.op, o.path, o.len_bytes)
    elif o.op == "rename" and o.error is None:
        lengths[o.to_path or ""] = lengths.pop(o.path or "", 0)
        yield row(o.op, o.path, o.to_path)
    elif o.error is not None:
        # Before the engine removes anything in a folder it looks at it: that is all where nothing is.
        yield row("stat" if o.op == "remove" else o.op, o.path, o.error)
    else:
        yield row(o.op, o.path)


def row(op: str, path: str | None, *rest: object) -> Row:
    return (op, path or ".", *rest)


def as_text(path: str) -> str:
    """A path of a trace as it stands in the trace of its replay: the files have its escapes in their names."""
    return name_text(path.encode())


def on_smb(path: str) -> str:
    """The same for a replay over SMB, which forbids some names."""
    return path if path == "." else "/".join(as_text(Names(smb=True)(part)) for part in path.split("/"))


def named(found: Row, how: Callable[[str], str]) -> Row:
    """A row with other names."""
    op, path, *rest = found
    if op == "rename" and rest[0] not in errno.errorcode.values():
        rest = [how(rest[0])]
    return (op, how(path), *rest)


def prepared(trace: Path) -> list[Row]:
    """What is done before: folders, and files of their lengths."""
    rows: list[Row] = []
    for fact in files_of(Trace(trace)):
        rows.append(row("mkdir", fact.path) if fact.folder else row("create", fact.path, "ew"))
        for offset in range(0, 0 if fact.folder else fact.size_bytes, PREPARED_BYTES):
            rows.append(row("write", fact.path, offset, min(PREPARED_BYTES, fact.size_bytes - offset)))
    return rows


@dataclass
class AtServer:
    """What a server can tell of a replay, whatever the protocol; each by path."""

    moved: dict[str, Counter[Row]] = field(default_factory=lambda: defaultdict(Counter))
    """Reads and writes: (kind, offset, length)."""
    changed: dict[str, list[Row]] = field(default_factory=lambda: defaultdict(list))
    """Creations, removals and renames of a name, in order; those to it, too."""
    lengths: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    """Lengths that were set, opening with truncation included."""
    opened: Counter[str] = field(default_factory=Counter)
    flushed: Counter[str] = field(default_factory=Counter)
    looked: Counter[str] = field(default_factory=Counter)
    listed: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)

    def add(self, found: Row) -> None:
        """One operation."""
        op, path, *rest = found
        if rest and isinstance(rest[-1], str) and rest[-1].isupper():
            self.failed[path] += 1
        elif op in ("read", "write"):
            self.moved[path][op, *rest] += 1
        elif op in ("open", "create"):
            if op == "open":
                self.opened[path] += 1
            else:
                self.changed[path].append((op, "e" in rest[0]))
            if "t" in rest[0] and "e" not in rest[0]:
                self.lengths[path].append(0)
        elif op == "truncate":
            self.lengths[path].append(rest[0])
        elif op == "rename":
            self.changed[path].append((op, "away"))
            self.changed[rest[0]].append((op, "here", path))
        elif op in ("mkdir", "remove", "rmdir"):
            self.changed[path].append((op,))
        else:
            {"flush": self.flushed, "stat": self.looked, "readdir": self.listed, "close": Counter()}[op][path] += 1


def in_capture(operations: Iterable[Operation], inside: re.Pattern[str], smb: bool) -> AtServer:
    """Of all that a capture has, what was done below one folder.

    On SMB a lookup is an open without access, or of a folder; a listing may take several calls.
    """
    found = AtServer()
    for o in operations:
        path = o.path or ""
        if "i" in o.flags or not inside.match(path):
            continue
        path = inside.sub("", path) or "."
        rest: tuple[Any, ...] = {
            "read": (o.offset_bytes, o.len_bytes), "write": (o.offset_bytes, o.len_bytes), "truncate": (o.len_bytes,),
            "open": (o.flags,), "create": (o.flags,), "rename": (inside.sub("", o.to_path or ""),),
        }.get(o.op, ())  # fmt: skip
        if o.error is not None:
            found.add((o.op, path, o.error.upper()))
        elif smb and o.op == "open" and ("f" in o.flags or not {"r", "w"} & set(o.flags)):
            found.add(("stat", path))
        else:
            found.add((o.op, path, *rest))
    return found
