"""fio's logs (--write_bw_log, --write_iops_log, --write_lat_log): lines `time ms, value, direction, block, offset`.

Source: fio's HOWTO, "Log File Formats", and logs of fio 3.33. Bandwidth is KiB/s, latency nanoseconds (microseconds
before 3.0, which nothing in the file tells). A log says in its name what it is: NAME_bw.1.log. Lines of averages
(--log_avg_msec) have a block of 0.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from naslab.errors import ForeignFileError
from naslab.exchange.importers.base import KIB, MAX_NUMBER, Cell, Draft, Input
from naslab.results.foreign import foreign_cell

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Rows = NDArray[np.int64]

NAME = re.compile(r"(.{0,200}?)_(bw|iops|lat|clat|slat)(?:\.(\d{1,7}))?\.log\Z")
LINE = re.compile(rb"\d{1,15}, \d{1,19}, [012], \d{1,12}(?:, \d{1,19}|, 0x[0-9a-f]{1,16})?(?:, \d{1,10}){0,3}\s*\Z")
_COLUMNS = 4
"""Those that are used: the offset is not."""
CHUNK = 500_000
"""Rows that are worked on at a time."""
LARGE = 4 << 20
"""Bytes from which a log is read as a whole."""
MOST_COLUMNS = 8
MAX_INTERVALS = 1_000_000
_DIRECTIONS = ("read", "write")
MEANINGS = {"bw": "bandwidth", "iops": "operations per second", "lat": "latency", "clat": "completion latency"}


def parse(sources: Sequence[Input]) -> Draft:
    """The run in the logs of one job: a cell a direction. Raises ForeignFileError where nothing can be read."""
    draft = Draft("fio", "fio-log", [], unknown=("the options of a job", "time zone"))
    logs: dict[str, list[Any]] = {}
    for source in sources:
        found = NAME.match(source.name)
        if not found:
            what = "is a fio log, but its name does not show what it logs"
            raise source.broken(f"{what}; name it as fio does: NAME_bw.1.log, NAME_iops.1.log, NAME_lat.1.log")
        if found[2] in MEANINGS and source.data.strip():
            logs.setdefault(found[2], []).append(_read(source))
        draft.title = found[1]
    for at, direction in enumerate(_DIRECTIONS):
        chosen = {kind: [rows[rows[:, 2] == at] for rows in all_of] for kind, all_of in logs.items()}
        chosen = {kind: rows for kind, rows in chosen.items() if sum(map(len, rows))}
        if chosen:
            cell, blobs = _cell(len(draft.cells), direction, chosen)
            draft.cells.append(cell)
            draft.blobs |= {cell["id"]: blobs} if blobs else {}
    if not draft.cells:
        names = ", ".join(source.name for source in sources[:4])
        raise ForeignFileError(
            f"{names}: looks like fio-log, but contains no bandwidth, IOPS or latency of a read or write"
        )
    draft.warnings.append(("of_logs", "from logs, which do not contain file size, queue depth and workers"))
    return draft


def _read(source: Input) -> Rows:
    import numpy as np

    if (table := _plain(source.data)) is not None:
        return table
    parts, rows, odd, total = [], list[list[int]](), list[int](), 0
    for at, line in enumerate(io.BytesIO(source.data), 1):
        if LINE.match(line):
            rows.append(_row(line))
            total += 1
        elif line.strip():
            odd.append(at)
            if len(odd) > 1:
                break
        if len(rows) >= CHUNK:  # as numbers of Python they would need gigabytes
            parts.append(np.array(rows, np.int64))
            rows = []
    if len(odd) > 1 or not total:  # the last line may be cut off
        where = ", ".join(map(str, odd)) or "1"
        raise source.broken(f"is not a log of fio: line {where} is not `time, value, direction, block`")
    return np.concatenate([*parts, np.array(rows, np.int64).reshape(-1, _COLUMNS)])


def _plain(data: bytes) -> Rows | None:
    """The rows of a large log that is all of lines alike, as fio's logs of every operation are; None for any other.

    Line by line, ten million of them take a minute and gigabytes.
    """
    import numpy as np

    first = data.partition(b"\n")[0]
    width, lines = first.count(b",") + 1, data.count(b"\n")
    if len(data) < LARGE or not LINE.match(first) or data[-1:] != b"\n" or data.translate(None, b"0123456789, \n"):
        return None
    if data.count(b",") != lines * (width - 1) or data.count(b", ") != data.count(b","):
        return None
    marks = np.frombuffer(data.translate(None, b"0123456789 "), np.uint8).reshape(lines, width)
    if (marks[:, -1] != ord("\n")).any() or (marks[:, :-1] != ord(",")).any():
        return None  # a line has more, another less
    values = np.fromstring(data.replace(b",", b""), np.int64, sep=" ")
    if len(values) != lines * width or not _COLUMNS <= width <= MOST_COLUMNS:
        return None
    np.minimum(values, int(MAX_NUMBER), out=values)
    rows = np.array(values.reshape(lines, width)[:, :_COLUMNS])
    return rows if (rows[:, 2] <= 2).all() else None


def _row(line: bytes) -> list[int]:
    found = [int(part, 0) if part.strip().startswith(b"0x") else int(part) for part in line.split(b",")[:_COLUMNS]]
    return [min(part, int(MAX_NUMBER)) for part in found]


def _cell(number: int, direction: str, logs: dict[str, list[Rows]]) -> tuple[Cell, dict[str, bytes]]:
    """(cell, raw data) of one direction. Rates are means over the time that the log covers."""
    import numpy as np

    told: dict[str, Any] = {"workers": max(map(len, logs.values()))}
    blocks = {int(block) for all_of in logs.values() for rows in all_of for block in np.unique(rows[:, 3]) if block}
    told["record_bytes"] = blocks.pop() if len(blocks) == 1 else None
    rate, blob = _rate(logs.get("bw", []), KIB)
    iops, _ = _rate(logs.get("iops", []), 1)
    told["iops"] = iops
    if rate is None and iops is not None and told["record_bytes"]:
        rate = iops * told["record_bytes"]
    latency, histogram = _latency(logs.get("lat") or logs.get("clat") or [])
    told["latency_ns"] = latency
    cell = foreign_cell(number, direction, rate, pattern=None, **told)
    blobs = {f"latency:{direction}": histogram} if histogram else {}
    if blob is not None:
        cell["interval_ns"], cell["start_ns"] = blob[0], 0
        blobs["series"] = _series(blob[1], direction, cell)
    return cell, blobs


def _rate(all_of: Iterable[Rows], unit: int) -> tuple[float | None, tuple[int, Any] | None]:
    """(mean of averaged logs, all jobs together; (interval, amounts per interval)). Logs of every operation are counted
    by their bytes instead, since the rate of one operation is no rate of the job."""
    import numpy as np

    total, series, told = 0.0, [], False
    step = 0
    for rows in all_of:
        if not len(rows):
            continue
        span_ms = int(rows[-1, 0])
        if rows[:, 3].any():
            if not span_ms:
                return None, None
            amount = rows[:, 3].sum() if unit == KIB else len(rows)
            total, told = total + float(amount) / span_ms * 1000, True
            continue
        times = np.diff(rows[:, 0], prepend=0)
        step = step or int(np.median(times))
        weight = np.maximum(times, 1)
        total, told = total + float((rows[:, 1] * weight).sum() / weight.sum()) * unit, True
        series.append(rows[:, 1] * unit)
    long = max(map(len, series), default=0)
    if not step or long < 2 or long > MAX_INTERVALS:
        return (total if told else None), None
    amounts = sum(np.pad(each, (0, long - len(each))) for each in series)
    return total, (step * 10**6, np.asarray(amounts, np.float64) * step / 1000)


def _series(amounts: Any, direction: str, cell: Cell) -> bytes:
    """The interval series of bytes, and of operations where their size is known."""
    import numpy as np

    rows = np.zeros((len(amounts), 7), "<i8")
    at = 0 if direction == "read" else 2
    rows[:, at + 1] = np.minimum(amounts, MAX_NUMBER)
    if cell["record_bytes"]:
        rows[:, at] = rows[:, at + 1] // cell["record_bytes"]
    return rows.tobytes()


def _latency(all_of: list[Rows]) -> tuple[dict[str, Any], bytes | None]:
    """(latency, histogram): of averages the mean alone, of every operation all."""
    import numpy as np

    from naslab.results.histogram import from_values, merge

    values = np.concatenate([rows[:, 1] for rows in all_of]) if all_of else np.empty(0, np.int64)
    if not len(values):
        return {}, None
    if not all(rows[:, 3].all() for rows in all_of):
        return {"mean": round(float(values.mean()))}, None
    found = merge(from_values(values[at : at + CHUNK]) for at in range(0, len(values), CHUNK))
    exact = {"min": int(values.min()), "max": int(values.max()), "mean": round(float(values.mean()))}
    return {**found.summary(), **exact}, found.encode()
