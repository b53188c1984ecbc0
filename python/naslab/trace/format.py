"""The trace format, version 1: what a line may hold and what makes it wrong (docs/reference/trace.md).

A trace is newline-delimited JSON: a header, one operation a line in the order of their starts, an end line with
counts. Field names in files are short (they are the msgspec names below); Python code sees the long ones.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from naslab.trace.names import path_problem, shown

VERSION = 1
MAX_LINE_BYTES = 1 << 20
"""No line of a trace, or of a text that is converted, is longer."""
MAX_OFFSET = (1 << 63) - 1
MAX_REQUEST_BYTES = 1 << 32
"""No read or write moves more at once: Linux ends at 2 GiB, NFS and SMB at 4."""
MAX_STREAMS = 1 << 19
MAX_OPEN = 1 << 17
"""Handles that are open at once. Each stream and each open handle is kept in memory, 200 to 700 bytes."""
MAX_HANDLE = (1 << 40) - 1
"""Handles of files; a reader numbers those it infers above this."""

Kind = Literal[
    "open", "create", "close", "read", "write", "flush", "stat", "readdir", "mkdir", "rmdir", "remove", "rename",
    "link", "truncate",
]  # fmt: skip
Source = Literal["strace", "pcap", "fio", "dbench", "naslab"]
Time = Annotated[int, msgspec.Meta(ge=0, le=1 << 62)]
Size = Annotated[int, msgspec.Meta(ge=0, le=MAX_OFFSET)]
Handle = Annotated[int, msgspec.Meta(ge=0, le=MAX_HANDLE)]
Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 62)]
ErrorName = Annotated[str, msgspec.Meta(pattern=r"^[A-Z][A-Z0-9_]*$", max_length=64)]
FLAGS = "rwtedsafi"
"""Of an open: read, write, truncate, exclusive, direct, synchronous, append; of a folder; inferred."""
Flags = Annotated[str, msgspec.Meta(pattern=f"^[{FLAGS}]*$", max_length=len(FLAGS))]


class Operation(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True, gc=False, kw_only=True):
    """One operation of an application. Which fields an operation must and may have: `RULES`.

    start_ns: since the trace began. duration_ns: None where the source does not tell. stream: who issued it, one
    operation at a time. path: relative to the root of the trace, `/` between components; a reader fills it in
    where the file names a handle only. len_bytes: moved by a read or write; entries of a readdir; the new length
    of a truncate. asked_bytes: what a read or write asked for, where it is not what was moved. file_bytes: the
    file's length as the source saw it at an open or stat. error: it failed with this; it changed nothing.
    """

    start_ns: Time = msgspec.field(name="t")
    stream: Handle = msgspec.field(name="s")
    op: Kind
    duration_ns: Time | None = msgspec.field(name="d", default=None)
    path: str | None = msgspec.field(name="f", default=None)
    to_path: str | None = msgspec.field(name="to", default=None)
    handle: Annotated[int, msgspec.Meta(ge=0)] | None = msgspec.field(name="h", default=None)
    offset_bytes: Size | None = msgspec.field(name="o", default=None)
    len_bytes: Size | None = msgspec.field(name="n", default=None)
    asked_bytes: Size | None = msgspec.field(name="q", default=None)
    file_bytes: Size | None = msgspec.field(name="len", default=None)
    flags: Flags = msgspec.field(name="x", default="")
    error: ErrorName | None = msgspec.field(name="e", default=None)


class Header(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """First line. streams, skipped: where known when the trace was begun; the end line has the final counts.

    command: without secrets, None where unknown or hidden. started_at: ISO 8601, None where the source has none.
    root: the folder that paths are relative to, None where unknown or hidden.
    """

    naslab_trace: Literal[1] = 1
    source: Source
    command: str | None = None
    started_at: str | None = None
    streams: Count | None = None
    anonymised: bool = False
    root: str | None = None
    skipped: dict[str, Count] = {}
    notes: list[str] = []


class End(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Counts of the whole trace. skipped: what the source had and the trace has not, by reason."""

    operations: Count
    streams: Count
    skipped: dict[str, Count] = {}
    notes: list[str] = []


class EndLine(msgspec.Struct, forbid_unknown_fields=True):
    """Last line; a trace without it was cut off."""

    end: End


class Rule(msgspec.Struct, frozen=True):
    """Fields that one kind of operation must have and may have, beside t, s, op, d and e."""

    needs: frozenset[str]
    may: frozenset[str] = frozenset()
    file: bool = False
    """It works on a file that is named by its handle or its path."""


def _rule(needs: str = "", may: str = "", file: bool = False) -> Rule:
    return Rule(frozenset(needs.split()), frozenset(may.split()), file)


RULES: dict[str, Rule] = {
    "open": _rule("f", "h x len"), "create": _rule("f", "h x len"), "close": _rule("h"),
    "read": _rule("o n", "q", file=True), "write": _rule("o n", "q", file=True), "flush": _rule(file=True),
    "stat": _rule("", "len x", file=True), "readdir": _rule("", "n", file=True), "truncate": _rule("n", file=True),
    "mkdir": _rule("f"), "rmdir": _rule("f"), "remove": _rule("f"), "rename": _rule("f to"), "link": _rule("f to"),
}  # fmt: skip
DATA = frozenset(("read", "write"))
OPENS = frozenset(("open", "create"))
_OPTIONAL = (
    ("f", "path"), ("to", "to_path"), ("h", "handle"), ("o", "offset_bytes"), ("n", "len_bytes"),
    ("q", "asked_bytes"), ("len", "file_bytes"),
)  # fmt: skip
_BITS = {name: 1 << bit for bit, name in enumerate([*(name for name, _ in _OPTIONAL), "x"])}


def _masks(rule: Rule) -> tuple[int, int]:
    """Bits of the fields it needs, and of those it must not have."""
    needs = sum(_BITS[name] for name in rule.needs)
    allowed = rule.needs | rule.may | ({"f", "h"} if rule.file else {"f"} if "h" in rule.needs else set())
    return needs, sum(bit for name, bit in _BITS.items() if name not in allowed)


_MASKS = {op: (*_masks(rule), rule.file) for op, rule in RULES.items()}
_NAMED = _BITS["f"] | _BITS["h"]


def problem(operation: Operation) -> str | None:
    """What is wrong with an operation by itself, in words; None if nothing is."""
    o = operation
    present = (
        (o.path is not None) | (o.to_path is not None) << 1 | (o.handle is not None) << 2
        | (o.offset_bytes is not None) << 3 | (o.len_bytes is not None) << 4 | (o.asked_bytes is not None) << 5
        | (o.file_bytes is not None) << 6 | (o.flags != "") << 7
    )  # fmt: skip
    needs, forbidden, file = _MASKS[o.op]
    if present & needs != needs or present & forbidden or (file and not present & _NAMED):
        return _fields_problem(o.op, present, needs, forbidden)
    if o.path is not None and (found := path_problem(o.path)):
        return f'"f" {found}'
    if o.to_path is not None and (found := _target_problem(o)):
        return f'"to" {found}'
    if o.op in OPENS and o.handle is None and o.error is None:
        return f'{o.op} without "h", and it did not fail'
    return _data_problem(o.op, o.offset_bytes or 0, o.len_bytes or 0, o.asked_bytes or 0) if o.op in DATA else None


def _target_problem(o: Operation) -> str | None:
    """Of a new name: no server lets a folder become part of itself, or the root another name."""
    path, to = o.path or ".", o.to_path or ""
    if (found := path_problem(to)) or o.error is not None:
        return found
    if "." in (path, to) or to.startswith(path + "/") or (path.startswith(to + "/") and o.op == "rename"):
        return f"{shown(to)} cannot come from {shown(path)}: one lies in the other"
    return None


def _data_problem(op: str, offset: int, length: int, asked: int) -> str | None:
    if length > MAX_REQUEST_BYTES:
        return f'{op} of {length} bytes ("n"); no request moves more than {MAX_REQUEST_BYTES}'
    if offset + max(length, asked) > MAX_OFFSET:
        return f"{op} beyond the largest file there can be ({MAX_OFFSET} bytes)"
    return None


def _fields_problem(op: str, present: int, needs: int, forbidden: int) -> str:
    for name, bit in _BITS.items():
        if needs & bit and not present & bit:
            return f'{op} without "{name}"'
        if forbidden & bit and present & bit:
            return f'{op} with "{name}", which it does not use'
    return f'{op} without "h" or "f"'
