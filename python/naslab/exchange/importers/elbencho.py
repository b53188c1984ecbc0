"""elbencho's --csvfile: a heading, then a line a phase; and its --jsonfile: an object a phase. Runs add to both.

Source: github.com/breuner/elbencho, docs/csv-docs.md, CHANGELOG.md, Statistics.cpp and ProgArgs.cpp (3.1). Of its two
results the one of the last thread done is taken, as naslab counts. MiB is 2^20 bytes, latencies are whole microseconds.
An object is read as the line of the CSV that it would be, with bytes/s where the CSV has whole MiB/s.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from naslab.errors import ForeignFileError
from naslab.exchange.importers.base import MAX_CELLS, MIB, Cell, Draft, Input, checked, number, short, whole
from naslab.results.foreign import foreign_cell

HEADING = ("operation", "MiB/s [last]", "time ms [last]")
METADATA = {
    "MKDIRS": "mkdir", "RMDIRS": "rmdir", "STAT": "stat", "STATDIRS": "stat_dir", "RMFILES": "remove",
}  # fmt: skip
_PREPARING = ("SYNC", "DROPCACHE")
_BY_START = (3, 0, 27)
"""The first version whose CSV has the date at which a phase began; before it has that of its end."""
_EXACT = "bytes/s [last]"
"""A column of ours: what the CSV has no decimals of."""
_CONFIG = {
    "hosts": "hosts", "threads": "threads", "file size": "file_size", "block size": "block_size",
    "direct IO": "direct_io", "random": "random_offsets", "IO depth": "io_depth", "version": "version",
    "command": "command",
}  # fmt: skip
_DONE = {"time ms": "elapsed_time_ms", "entries/s": "entries/s", "IOPS": "iops", "entries": "entries"}
_YES = ("1", "true")
Row = Mapping[str, str]


def parse(source: Input) -> Draft:
    """The run in elbencho's CSV or JSON: a cell a phase; those that are alike are repeats. Raises ForeignFileError."""
    in_json = source.text.lstrip().startswith("{")
    draft = Draft("elbencho", "elbencho-json" if in_json else "elbencho-csv", [])
    seen: dict[tuple[Any, ...], int] = {}
    others: dict[str, int] = {}
    try:
        for row in _objects(source, draft) if in_json else csv.DictReader(source.lines, restval=""):
            cell = _cell(len(draft.cells), row)
            if cell is None:
                name = short(str(row.get("operation")))[:40]
                others[name] = others.get(name, 0) + (name not in _PREPARING)
            elif len(draft.cells) < MAX_CELLS:
                _facts(draft, row, cell)
                same = tuple(cell[n] for n in ("op", "file_bytes", "record_bytes", "queue_depth", "workers", "direct"))
                cell["start_wall_ns"] = _began_ns(row, cell)
                cell["block"] = seen[same] = seen.get(same, -1) + 1
                draft.cells.append(cell)
    except csv.Error as error:
        raise source.broken(f"is not a CSV of elbencho: {error}") from error
    left = [f"{count} of {name}" for name, count in others.items() if count]
    if left:
        draft.warnings.append(("left_out", f"phases without a counterpart here: {', '.join(left[:10])}"))
    return checked(draft, source)


def _objects(source: Input, draft: Draft) -> Iterator[dict[str, str]]:
    """Objects one behind another, each as a line of the CSV; a last one that is cut off is left out, and told."""
    text, at = source.text, 0
    source.values(b",[{")
    while at < len(text) and len(draft.cells) < MAX_CELLS:
        if text[at].isspace():
            at += 1
            continue
        try:
            found, at = source.json(at)
        except ForeignFileError:
            if not draft.cells:
                raise
            line = text.count("\n", 0, at) + 1
            draft.warnings.append(
                ("cut_off", f"the file is damaged from line {line} on; the part before it is imported")
            )
            return
        yield _line_of(found if isinstance(found, dict) else {})


def _line_of(phase: Mapping[str, Any]) -> dict[str, str]:
    """An object as a line of the CSV. Objects before 3.0.37 have no `config`."""
    config, done = _part(phase, "config"), _part(phase, "last_done")
    found = {"operation": phase.get("phase_type"), "ISO date": phase.get("iso_start_date"), "label": phase.get("label")}
    found |= {ours: config.get(theirs) for ours, theirs in _CONFIG.items()}
    for prefix, side in (("", done), ("rwmix read ", _part(done, "rwmix_read"))):
        found |= {f"{prefix}{ours} [last]": side.get(theirs) for ours, theirs in _DONE.items()}
        found[prefix + _EXACT] = side.get("bytes/s")
    for kind, theirs in (("Ent", "entries"), ("IO", "IO")):
        times = _part(_part(done, "latency"), theirs)
        for prefix, side in (("", times), ("rwmix read ", _part(times, "rwmix_read"))):
            found |= {f"{prefix}{kind} lat us [{name}]": side.get(f"{name}_us") for name in ("min", "avg", "max")}
    return {name: "" if value is None else str(value) for name, value in found.items()}


def _part(whole_of: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = whole_of.get(name)
    return found if isinstance(found, Mapping) else {}


def _began_ns(row: Row, cell: Cell) -> int:
    """When the phase began; 0: not told."""
    date = date_ns(row.get("ISO date") or "")
    numbers = re.findall(r"\d{1,6}", row.get("version") or "")[:3]
    # Only 3.0.27 and later write JSON, the first of them without its version.
    ended = bool(numbers) and tuple(map(int, numbers)) < _BY_START
    return max(0, date - (cell["duration_ns"] or 0)) if ended else date


def _facts(draft: Draft, row: Row, cell: Cell) -> None:
    """What the first line tells of the whole."""
    if draft.cells:
        return
    draft.tool_version = short(row.get("version") or "") or None
    draft.command_line = short((row.get("command") or "").replace('"', "")) or None
    draft.title = short(row.get("label") or "") or None
    draft.start_wall_ns = _began_ns(row, cell)


def date_ns(text: str) -> int:
    """Nanoseconds since 1970 of elbencho's date, `2024-05-03T10:11:12.345+0200`; 0 where it is none."""
    try:
        found = datetime.fromisoformat(text.strip()[:40])
        found = found if found.tzinfo else found.replace(tzinfo=UTC)
        return max(0, round(found.timestamp() * 1000)) * 10**6
    except (ValueError, OverflowError):
        return 0


def _cell(at: int, row: Row) -> Cell | None:
    """A phase as a cell; None for one that is no file operation, or did nothing."""
    phase = str(row.get("operation") or "").upper()
    mixed = bool(re.match(r"(?:RWMIX|MIX-T)\d{1,9}\Z", phase))  # a share of reads, or reading threads of their own
    time_ms = whole(row.get("time ms [last]"))
    told: dict[str, Any] = {
        "workers": _workers(row), "duration_ns": time_ms * 10**6 if time_ms else None,
        "queue_depth": max(1, whole(row.get("IO depth")) or 1), "file_bytes": whole(row.get("file size")) or None,
        "access": "positioned",
    }  # fmt: skip
    if phase in METADATA:
        count, per_s = whole(row.get("entries [last]")), number(row.get("entries/s [last]"))
        if not per_s:
            return None
        told |= {"bytes": 0, "ops": count, "iops": per_s, "latency_ns": _latency(row, "Ent"), "file_bytes": None}
        return foreign_cell(at, METADATA[phase], None, pattern=None, **told)
    if phase not in ("WRITE", "READ") and not mixed:
        return None
    block = whole(row.get("block size")) or None
    rate, iops = _rate(row, block)
    if not rate:
        return None
    random = str(row.get("random")).strip() in _YES
    op = "mixed" if mixed else f"random_{phase.lower()}" if random else phase.lower()
    direct = str(row.get("direct IO") or "").strip()
    told |= {
        "record_bytes": block, "iops": iops, "latency_ns": _latency(row, "IO"),
        "write_fraction": _written(row, phase) if mixed else float(phase == "WRITE"),
        "pattern": "random" if random else "sequential", "direct": direct in _YES if direct else None,
    }  # fmt: skip
    return foreign_cell(at, op, rate, **told)


def _written(row: Row, phase: str) -> float | None:
    """Share of writes in a mix, as it was; RWMIX70 asks for 70 % of reads."""
    writes, reads = number(row.get("IOPS [last]")), number(row.get("rwmix read IOPS [last]"))
    if writes is not None and reads:
        return writes / (writes + reads)
    share = whole(phase.removeprefix("RWMIX"))
    return None if share is None else 1 - min(share, 100) / 100


def _workers(row: Row) -> int | None:
    """Threads of all hosts; elbencho's count is of one."""
    threads = whole(row.get("threads"))
    return threads and threads * max(1, whole(row.get("hosts")) or 1)


def _rate(row: Row, block: int | None) -> tuple[float, float | None]:
    """(bytes per s, operations per s). MiB/s has no decimals, so operations of a known size tell the rate better as
    long as both agree; a last block that is cut short makes them differ. In a mix the reads are told apart."""
    mib, iops = number(row.get("MiB/s [last]")), number(row.get("IOPS [last]"))
    mib = (mib or 0) + (number(row.get("rwmix read MiB/s [last]")) or 0)
    if iops is not None:
        iops += number(row.get("rwmix read IOPS [last]")) or 0
    exact = [value for each in ("", "rwmix read ") if (value := number(row.get(each + _EXACT))) is not None]
    if exact:
        return sum(exact), iops
    if iops and block and int(iops * block / MIB) in (int(mib), int(mib) + 1):
        return iops * block, iops
    return mib * MIB, iops


def _latency(row: Row, kind: str) -> dict[str, int]:
    """Least, mean and largest, reads and writes of a mix together; 0 and nothing mean not measured (--lat)."""
    sides = []
    for prefix in ("", "rwmix read "):
        times = [number(row.get(f"{prefix}{kind} lat us [{name}]")) for name in ("min", "avg", "max")]
        if any(times):
            sides.append((*times, number(row.get(f"{prefix}IOPS [last]")) or 1))
    lows, means, highs, weights = zip(*sides, strict=True) if sides else ((), (), (), ())
    mean = sum(value * weight for value, weight in zip(means, weights, strict=True) if value)
    found = {"min": _of(min, lows), "mean": mean / sum(weights) if all(means) and means else None,
             "max": _of(max, highs)}  # fmt: skip
    return {name: round(value * 1000) for name, value in found.items() if value}


def _of(pick: Any, values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value]
    return pick(known) if known else None
