"""From a trace to a definition with the same statistics: one `mix` for each kind of stream that the trace has.

Streams that were never at work at the same time count as one. What a `mix` has no word for is told in the definition.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from naslab.commands.apps.model import parse
from naslab.commands.replay.streams import StreamTimes, join
from naslab.errors import UsageError
from naslab.spec.script import MOST_STEP_BYTES
from naslab.trace.fileset import FileFacts, FileSet
from naslab.trace.format import Operation
from naslab.trace.reader import Trace
from naslab.units import duration_text, size_text

BUFFER = "1s"
MOST_PARTS = 6
MOST_LEVELS = 16
MOST_ROWS = 60
"""Of a table of sizes."""
FINEST = 8
"""Classes of sizes for each power of two."""
_MOST_SIZES = 4096
"""Distinct sizes that are counted one by one."""
_LATER = {
    "stat": "stats", "mkdir": "mkdirs", "rmdir": "rmdirs", "remove": "removes", "rename": "renames",
    "flush": "flushes", "truncate": "truncates",
}  # fmt: skip
"""Counts of a `mix` that are the number of operations of one kind."""


class Sizes:
    """Sizes and how many of each, in bounded memory: rare ones are counted in classes, eight for a power of two."""

    def __init__(self) -> None:
        self._exact: Counter[int] = Counter()
        self._count: Counter[int] = Counter()
        self._bytes: Counter[int] = Counter()

    def add(self, size_bytes: int) -> None:
        """One more."""
        self._exact[size_bytes] += 1
        if len(self._exact) > _MOST_SIZES:
            kept = dict(self._exact.most_common(_MOST_SIZES // 2))
            for size, count in self._exact.items():
                if size not in kept:
                    self._merge(size, count, FINEST)
            self._exact = Counter(kept)

    def _merge(self, size_bytes: int, count: int, finest: int) -> None:
        at = -1 if size_bytes < 1 else int(math.log2(size_bytes) * finest) * (FINEST // finest)
        self._count[at] += count
        self._bytes[at] += count * size_bytes

    def rows(self) -> list[tuple[int, int]]:
        """(size, count), the largest first: the most common sizes, and the mean size of the others of each class.

        The sum of all is that of the sizes added, but for the rounding of a mean. Classes are as fine as so many rows
        allow.
        """
        if len(self._exact) <= MOST_ROWS and not self._count:
            return sorted(self._exact.items(), reverse=True)
        every = self._exact.total() + self._count.total()
        common = {size: n for size, n in self._exact.most_common(MOST_ROWS // 3) if n * 100 >= every}
        finest, rows = FINEST, self._classes(common, FINEST)
        while len(rows) > MOST_ROWS and finest > 1:
            finest //= 2
            rows = self._classes(common, finest)
        return sorted(rows.items(), reverse=True)

    def _classes(self, common: dict[int, int], finest: int) -> dict[int, int]:
        merged = Sizes()
        for at, count in self._count.items():
            coarse = at // (FINEST // finest) * (FINEST // finest)
            merged._count[coarse] += count
            merged._bytes[coarse] += self._bytes[at]
        for size, count in self._exact.items():
            if size not in common:
                merged._merge(size, count, finest)
        rows = dict(common)
        for at, count in merged._count.items():
            mean = round(merged._bytes[at] / count)
            rows[mean] = rows.get(mean, 0) + count
        return rows

    def __bool__(self) -> bool:
        return bool(self._exact)


@dataclass
class _Ratio:
    of: int = 0
    hits: int = 0

    def add(self, hit: bool) -> None:
        self.of += 1
        self.hits += hit

    def percent(self) -> float:
        """100 where nothing was to be decided."""
        return round(100 * self.hits / self.of, 2) if self.of else 100


@dataclass
class _Kind:
    """What streams of one kind did. counts: by the names of a `mix`. lanes: of the streams. borrowed: files of another
    kind's making that they used, with their length."""

    lanes: set[int] = field(default_factory=set)
    counts: Counter[str] = field(default_factory=Counter)
    sizes: dict[str, Sizes] = field(default_factory=lambda: {n: Sizes() for n in ("reads", "writes", "makes", "files")})
    sequential: dict[str, _Ratio] = field(default_factory=lambda: {"read": _Ratio(), "write": _Ratio()})
    onward: _Ratio = field(default_factory=_Ratio)
    open_at_once: Counter[int] = field(default_factory=Counter)
    folders: set[str] = field(default_factory=set)
    borrowed: dict[str, int] = field(default_factory=dict)


@dataclass
class _Lane:
    """One stream while the trace goes by: requests of each direction, flushes, where the last request ended."""

    reads: int = 0
    writes: int = 0
    flushes: int = 0
    sequence: _Ratio = field(default_factory=_Ratio)
    last: tuple[str | None, int] | None = None
    open: set[int] = field(default_factory=set)

    def kind(self) -> tuple[str, bool, bool]:
        """What it is like: direction, in order, durable as it goes."""
        if not self.reads + self.writes:
            return "names", False, False
        share = self.writes / (self.reads + self.writes)
        way = "reads" if share < 0.1 else "writes" if share > 0.9 else "both"
        return way, self.sequence.percent() >= 50, self.flushes * 20 >= self.writes > 0


@dataclass(slots=True)
class _Open:
    """An open file. kind: of the stream that opened it; users: streams that read or wrote it.

    end: where the last request ended; length: up to where it was written; made: it is a new file.
    """

    kind: _Kind
    folder: bool
    listed: bool = False
    end: int = -1
    length: int = 0
    made: bool = False
    users: list[_Lane] = field(default_factory=list)


class _Measure:
    """The second and third pass over a trace: streams by kind, then what each kind did."""

    def __init__(self, lanes: dict[int, int]) -> None:
        self.lane_of = lanes
        self.files = FileSet()
        self.left_out: Counter[str] = Counter()
        self.kinds: dict[Any, _Kind] = {}
        self.global_: _Ratio = _Ratio()
        self.idle_ns = 0
        """How long nothing was under way, if the trace has durations."""
        self.timed = False
        self._busy_until_ns = 0
        self._last: tuple[str | None, int] | None = None
        self._lanes: dict[int, _Lane] = {}
        self._by_lane: dict[int, _Kind] = {}
        self._open: dict[int, _Open] = {}
        self._first_use: dict[str, _Kind] = {}
        self._made_by: dict[str, tuple[_Kind, int]] = {}

    def look(self, trace: Trace) -> None:
        """Which kind of stream each is; those beyond `MOST_PARTS` kinds join the most like them in direction."""
        ends: dict[int, int] = {}
        lanes: dict[int, _Lane] = {}
        for o in trace:
            lane = lanes.setdefault(self.lane_of[o.stream], _Lane())
            if o.op == "close":
                ends.pop(o.handle or 0, None)
            if o.error is not None or o.op not in ("read", "write", "flush"):
                continue
            if o.op == "flush":
                lane.flushes += 1
            elif o.len_bytes:
                lane.reads += o.op == "read"
                lane.writes += o.op == "write"
                start, handle = o.offset_bytes or 0, o.handle or 0
                if handle in ends:
                    lane.sequence.add(ends[handle] == start)
                ends[handle] = start + o.len_bytes
        found = {number: lane.kind() for number, lane in lanes.items()}
        wanted = [kind for kind, _ in Counter(found.values()).most_common(MOST_PARTS)]
        for number, kind in found.items():
            near = kind if kind in wanted else next((one for one in wanted if one[0] == kind[0]), wanted[0])
            self._by_lane[number] = self.kinds.setdefault(near, _Kind())
            self._by_lane[number].lanes.add(number)
            self._lanes[number] = _Lane()

    def add(self, o: Operation) -> None:
        """The next operation."""
        number = self.lane_of[o.stream]
        kind, lane = self._by_lane[number], self._lanes[number]
        self.idle_ns += max(o.start_ns - self._busy_until_ns, 0)
        self._busy_until_ns = max(self._busy_until_ns, o.start_ns + (o.duration_ns or 0))
        self.timed |= o.duration_ns is not None
        made_before = self.files.created_files
        self.files.add(o)
        if o.error is not None:
            self._failed(kind, o)
            return
        if o.path is not None and len(self.kinds) > 1:
            self._first_use.setdefault(o.path, kind)
            self._names(kind, o, o.path)
        if o.op in ("open", "create"):
            self._opens(kind, o, self.files.created_files > made_before)
        elif o.op == "close":
            self._close(o)
        elif o.op in ("read", "write"):
            self._data(kind, lane, o)
        elif o.op == "readdir":
            self._list(kind, o)
        elif o.op == "link":
            kind.sizes["makes"].add(0)
            self.left_out["second names: new empty files"] += 1
        else:
            kind.counts[_LATER[o.op]] += 1

    def _names(self, kind: _Kind, o: Operation, path: str) -> None:
        """Follows files that were made, and notes those used by another kind of stream."""
        if o.op not in ("open", "remove", "rename"):
            return
        found = self._made_by.get(path) if o.op == "open" else self._made_by.pop(path, None)
        if found is None:
            return
        if found[0] is not kind:
            kind.borrowed[path] = max(kind.borrowed.get(path, 0), found[1])
        if o.op == "rename" and o.to_path is not None:
            self._made_by[o.to_path] = (kind, found[1])

    def _failed(self, kind: _Kind, o: Operation) -> None:
        if o.op == "open" and o.handle is None:
            kind.counts["missing_opens"] += 1
        elif o.op == "close" and o.handle in self._open:
            self._close(o)
        else:
            kind.counts["missing"] += 1
            if o.op != "stat":
                self.left_out[f"{o.op} that failed: a lookup that fails"] += 1

    def _opens(self, kind: _Kind, o: Operation, new: bool) -> None:
        handle = o.handle or 0
        opened = self._open[handle] = _Open(kind, self.files.is_folder(handle))
        if opened.folder:
            return
        if {"d", "s"} & set(o.flags):
            self.left_out["files opened unbuffered or synchronous: opened as usual"] += 1
        if o.op == "create":
            opened.made = True
            if not new:
                self.left_out["existing files that were created again: new files"] += 1
        else:
            kind.counts["opens"] += 1

    def _close(self, o: Operation) -> None:
        opened = self._open.pop(o.handle or 0, None)
        if opened is None:
            return
        self._closed(opened)
        if opened.made and o.path is not None:
            self._made_by[o.path] = (opened.kind, opened.length)
        for lane in opened.users:
            lane.open.discard(o.handle or 0)

    def _closed(self, opened: _Open) -> None:
        if opened.made:
            opened.kind.sizes["makes"].add(opened.length)
        elif not opened.folder:
            opened.kind.counts["idle"] += not opened.users

    def finish(self) -> None:
        """No operation is left: what is still open counts as closed, and the files needed go to who used them first."""
        for opened in self._open.values():
            self._closed(opened)
        for kind in self.kinds.values():
            for size in kind.borrowed.values():
                kind.sizes["files"].add(size)
            if kind.borrowed:
                self.left_out["files that one kind of stream made and another used: exist from the start"] += len(
                    kind.borrowed
                )
        other = next(iter(self.kinds.values()))
        for fact in self.files.needed():
            self._needed(self._first_use.get(fact.path, other), fact)

    def _needed(self, kind: _Kind, fact: FileFacts) -> None:
        parent = fact.path if fact.folder else fact.path.rpartition("/")[0]
        if parent:
            kind.folders.add(parent)
        if not fact.folder:
            kind.sizes["files"].add(fact.size_bytes)

    def _data(self, kind: _Kind, lane: _Lane, o: Operation) -> None:
        handle, moved, start = o.handle or 0, o.len_bytes or 0, o.offset_bytes or 0
        opened = self._open.get(handle)
        if opened is None or opened.folder:
            self.left_out[f"{o.op} of a folder"] += 1
            return
        if not moved:
            if o.op == "read":
                kind.counts["ends"] += 1
            else:
                self.left_out["writes of nothing"] += 1
            return
        rest = moved
        while rest:
            piece = min(rest, MOST_STEP_BYTES)
            kind.sizes["reads" if o.op == "read" else "writes"].add(piece)
            rest -= piece
        end = start + moved
        if opened.end >= 0:
            kind.sequential[o.op].add(opened.end == start)
        opened.end = end
        if o.op == "write":
            opened.length = max(opened.length, end)
        if lane.last is not None:
            kind.onward.add(lane.last == (o.path, start))
        lane.last = (o.path, end)
        if self._last is not None:
            self.global_.add(self._last == (o.path, start))
        self._last = (o.path, end)
        if handle not in lane.open:
            lane.open.add(handle)
            opened.users.append(lane)
        kind.open_at_once[len(lane.open)] += 1

    def _list(self, kind: _Kind, o: Operation) -> None:
        """One for each listing, however many calls it took."""
        opened = self._open.get(o.handle) if o.handle is not None else None
        if opened is None or not opened.listed:
            kind.counts["lists"] += 1
        if opened is not None:
            opened.listed = bool(o.len_bytes)


def definition_of(trace: Trace) -> str:
    """The definition of an application like the trace, as TOML. Raises UsageError for a trace that moves no data."""
    times = StreamTimes()
    for operation in trace:
        times.add(operation)
    spans = times.spans()
    if not spans:
        raise UsageError(f"{trace.path}: contains no operations")
    together = times.most_at_once()
    measure = _Measure(join(times, together))
    measure.look(trace)
    for operation in trace:
        measure.add(operation)
    measure.finish()
    if not any(kind.sizes["reads"] or kind.sizes["writes"] for kind in measure.kinds.values()):
        raise UsageError(f"{trace.path}: moves no data, but naslab apps measures data; use naslab replay")
    text = "\n".join(_lines(trace, measure, spans, together))
    parse(text, f"{trace.path}: its definition")
    return text


def _lines(trace: Trace, measure: _Measure, spans: list[tuple[int, int, int]], together: int) -> Iterator[str]:
    name, duration_ns = _name(trace.path.name), max(1, *(last for _, last, _ in spans))
    streams = f"{len(spans):,} stream{'s' * (len(spans) != 1)}, at most {together} at once"
    yield f'name = "{name}"'
    yield 'set = "own"'
    yield f"about = {_text(f'Like the trace {trace.path.name}: {streams}, in {duration_text(duration_ns)}.')}"
    remarks = [f"{count:,} x {what}" for what, count in sorted(measure.left_out.items())]
    if remarks:
        yield f"rationale = {_text('Different from the trace: ' + '; '.join(remarks) + '.')}"
    yield ""
    yield "[sources]"
    command = f" ({trace.header.command})" if trace.header.command else ""
    yield f"trace = {_text(f'trace: {trace.path.name}, measured{command}')}"
    yield ""
    yield "[whole]"
    active = sum(len(kind.lanes) for kind in measure.kinds.values() if kind.sizes["reads"] or kind.sizes["writes"])
    if active > 1 and measure.global_.of:
        yield _number("sequential", measure.global_.percent(), "percent of the requests, as a server sees them")
    yield _number("duration", _seconds(duration_ns), "first start to last end")
    late = "how late a request may start at recorded pace is not in a trace"
    yield f'buffer = {{ is = "{BUFFER}", from = "chosen", why = "{late}" }}'
    if measure.timed and measure.idle_ns:
        why = "time without any operation; remove the # to keep it at any pace"
        yield "# " + _number("think", _seconds(measure.idle_ns), why)
    for kind in sorted(measure.kinds.values(), key=lambda one: min(one.lanes)):
        yield ""
        yield from _part(kind)


def _part(kind: _Kind) -> Iterator[str]:
    yield "[[part]]"
    yield 'does = "mix"'
    yield _number("streams", len(kind.lanes), "alike, and active at the same time")
    if kind.sizes["files"]:
        yield _rows("files", kind.sizes["files"], "files that must exist: size, number")
    if kind.folders:
        parents = {path[:at] for path in kind.folders for at in _slashes(path)} | kind.folders
        yield _number("folders", len(parents), "folders that must exist", True)
        yield _number(
            "levels", min(max(path.count("/") + 1 for path in parents), MOST_LEVELS), "depth of these folders"
        )
    for name, why in (("makes", "new files: size, number"), ("reads", "requests: size, number"),
                      ("writes", "requests: size, number")):  # fmt: skip
        if kind.sizes[name]:
            yield _rows(name, kind.sizes[name], why)
    if kind.onward.of or kind.sizes["reads"] or kind.sizes["writes"]:
        for op in ("read", "write"):
            if kind.sizes[f"{op}s"]:
                why = f"percent of the {op}s that continue the previous one on the same open file"
                yield _number(f"sequential_{op}s", kind.sequential[op].percent(), why)
        yield _number("onward", kind.onward.percent(), "percent that continue the stream's previous request")
        used = sum(count * number for count, number in kind.open_at_once.items()) / kind.open_at_once.total()
        yield _number("at_once", max(round(used), 1), f"files that a stream has in use, {used:.1f} on average")
    for name in ("opens", "idle", "ends", "flushes", "truncates", "stats", "missing", "missing_opens", "lists",
                 "mkdirs", "rmdirs", "removes", "renames"):  # fmt: skip
        count = kind.counts[name]
        if name == "opens" and not count and not kind.sizes["makes"]:
            count = len(kind.lanes)  # of files that another stream opened
        if count:
            yield _number(name, count, "", True)


def _number(name: str, value: object, why: str, scales: bool = False) -> str:
    told = f', why = "{why}"' if why else ""
    shown = f'"{value}"' if isinstance(value, str) else value
    return f'{name} = {{ is = {shown}, from = "trace"{told}{", scales = true" if scales else ""} }}'


def _rows(name: str, sizes: Sizes, why: str) -> str:
    rows = ", ".join(f'["{size_text(size)}", {count}]' for size, count in sizes.rows())
    return f'{name} = {{ is = [{rows}], from = "trace", why = "{why}", scales = true }}'


def _slashes(path: str) -> list[int]:
    return [at for at, character in enumerate(path) if character == "/"]


def _seconds(time_ns: int) -> str:
    return f"{time_ns // 10**9}.{time_ns % 10**9:09}".rstrip("0").rstrip(".") + "s"


def _name(file: str) -> str:
    """A name of an application from that of a file."""
    plain = re.sub(r"[^A-Za-z0-9_-]+", "-", re.sub(r"\.trace(\.zst)?\Z|\.zst\Z", "", file)).strip("-_")
    return f"Like-{plain}"[:64] if plain else "Like-trace"


def _text(text: str) -> str:
    """A TOML string of one line."""
    plain = "".join(c if c.isprintable() else " " for c in text)
    return json.dumps(plain, ensure_ascii=False)
