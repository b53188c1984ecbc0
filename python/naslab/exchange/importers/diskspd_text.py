"""DiskSpd's text, 2.0.12 to 2.2, and that of DiskSpd for Linux: tables are read by their headings, so columns may be
absent.

Source: ResultParser.cpp of github.com/microsoft/diskspd; result_formatter.cc of github.com/microsoft/diskspd-for-linux,
whose parameters stand before each job's results, whose MB/s are of 2^20 bytes, and whose percentiles of reads and
writes together count the first threads again with each further one: they are taken where there is one thread.
"""

from __future__ import annotations

import re
from typing import Any

from naslab.exchange.importers.base import MIB, Draft, Input, checked, date_ns, number, short, size_bytes, whole
from naslab.exchange.importers.diskspd import KINDS, Part, Setting, Span, environment, span_cell

LEAST_MIB_PER_S = 10
_TABLES = {"Total IO": "total", "Read IO": "read", "Write IO": "write"}
_PERCENTILES = {"min": "min", "50th": "p50", "90th": "p90", "99th": "p99", "3-nines": "p99_9", "max": "max"}
_FILE = re.compile(r"(.{1,1000}?) \((\d[\d.]{0,20} ?[KMGT]?i?B?)\)\s*\Z")
_DEPTH = re.compile(r"number of outstanding I/O operations(?: per thread)?: (\d{1,9})\)?\s*\Z")
LINUX = "DiskSpd for Linux"


def parse(source: Input) -> Draft:
    """The run in DiskSpd's text, a cell a time span. Raises ForeignFileError where nothing of it can be read."""
    draft = Draft("diskspd", "diskspd-text", [], unknown=("time zone",))
    asked: dict[int, Span] = {}
    span, host = Span(), ""
    found: list[Span] = []
    table: str | None = None
    results = False
    for line in source.lines:
        text = line.strip()
        if text.startswith("Command Line:"):
            draft.command_line = short(text[13:])
        elif text.startswith("computer name:"):
            host = short(text[14:])
        elif text.startswith("start time:"):
            draft.start_wall_ns = date_ns(text[11:])
        elif text.startswith(("timespan:", "job:")):
            span = asked[len(asked) + 1] = Span(linux=text.startswith("job:"))
        elif text == "Input parameters:":
            results = False
        elif text.startswith(("Results for timespan", "Results for job ")):
            span, table, results = asked.get(len(found) + 1, Span()), None, True
            found.append(span)
        elif text == "Totals:":
            break  # all time spans together
        elif results:
            table = _result(text, span, table)
        else:
            _setting(text, span)
    _finish(draft, found, host)
    return checked(draft, source)


def _finish(draft: Draft, found: list[Span], host: str) -> None:
    for span in found:
        if span.linux:
            _of_linux(span)
        if made := span_cell(len(draft.cells), span):
            cell, blobs = made
            draft.cells.append(cell)
            draft.blobs |= {cell["id"]: blobs} if blobs else {}
    interrupted = len(found) - len(draft.cells)
    if interrupted:
        draft.warnings.append(("interrupted", f"{interrupted} time spans have no result and were left out"))
    if any(span.rounded for span in found):
        draft.warnings.append(("rounded", "file sizes are rounded by DiskSpd's text output; its XML has exact values"))
    draft.target = short(", ".join(dict.fromkeys(s.path for span in found for s in span.settings)))
    usage = next((span.cpu_percent for span in found if span.cpu_percent is not None), None)
    draft.environment = environment(host, {"cpu_usage_percent": usage})
    if "naslab diskspd" in (draft.command_line or ""):
        draft.tool_version = "naslab front end"
    elif any(span.linux for span in found):
        draft.tool_version = LINUX


def _of_linux(span: Span) -> None:
    """What stands otherwise there: caches, and percentiles of all threads (see above)."""
    for one in span.settings:
        one.direct, one.through = bool(one.direct), bool(one.through)
    kinds = [kind for kind in ("read", "write") if kind in span.parts and span.parts[kind].ops]
    if len(kinds) == 1 and kinds[0] in span.latency_ms:
        span.latency_ms["total"] = span.latency_ms[kinds[0]]
    elif (span.threads or 0) > 1 and "total" in span.latency_ms:
        span.latency_ms["total"] = {n: ms for n, ms in span.latency_ms["total"].items() if n in ("min", "max")}


def _setting(text: str, span: Span) -> None:
    """A line of the input parameters."""
    if text.startswith("path:"):
        path = text[5:].strip().removeprefix("template target").strip()
        span.settings.append(Setting(path.strip("'")))
        return
    if text.startswith("number of outstanding I/O operations per thread:") and not span.settings:
        span.depth = whole(text.rpartition(":")[2])
    elif text.startswith("total threads:"):
        span.threads = whole(text[14:])
    if not span.settings:
        return
    one = span.settings[-1]
    if depth := _DEPTH.match(text):
        one.depth = int(depth[1])
    elif text.startswith("block size:"):
        one.block_bytes = size_bytes(text[11:])
    elif text.startswith("performing mix test"):
        one.write_percent = number(text.rpartition("/")[2].rstrip(")"))
    elif text.startswith("performing "):
        one.write_percent = 100.0 if "write test" in text else 0.0
    elif text.startswith("using") and ("sequential I/O" in text or "random I/O" in text):
        one.random = text.startswith("using random")
    else:
        _caching(text, one)


def _caching(text: str, one: Setting) -> None:
    """Caches, of a target."""
    if text in ("using O_DIRECT", "using O_SYNC"):
        one.direct, one.through = one.direct or text.endswith("DIRECT"), one.through or text.endswith("SYNC")
    elif text in ("using software cache", "software cache disabled"):
        one.direct = text.endswith("disabled")
    elif text.startswith("local software cache disabled"):
        one.direct = True
    elif "writethrough" in text:
        one.through = text.endswith("on")


def _result(text: str, span: Span, table: str | None) -> str | None:
    """A line of the results. Returns the table that the next lines are of."""
    if text.startswith(("actual test time:", "test time:")):
        span.seconds = number(text.partition(":")[2].strip().removesuffix("s")) or 0.0
    elif text.startswith("thread count:"):
        span.threads = whole(text[13:])
    elif text.startswith(("avg.|", "avg:")):
        span.cpu_percent = number(text.removeprefix("avg.|").removeprefix("avg:").split("|")[0].strip().rstrip("%"))
    elif text in _TABLES:
        return _TABLES[text]
    elif text.startswith("thread |"):
        span.columns = {name.strip(): at for at, name in enumerate(text.split("|"))}
    elif text.startswith("total:") and table and "|" in text:
        _total(text, span, table)
        return None
    elif table == "total" and text[:1].isdigit():
        _row(text, span)
    elif text.count("|") == 3 and (name := _PERCENTILES.get(text.split("|", maxsplit=1)[0].strip())):
        for kind, value in zip(KINDS, text.split("|")[1:], strict=True):
            if (found := number(value)) is not None:
                span.latency_ms.setdefault(kind, {})[name] = found
    return table


def _total(text: str, span: Span, table: str) -> None:
    cells = ["total", *text.removeprefix("total:").split("|")]
    mean = span.columns.get("AvgLat", span.columns.get("AvgLat(ms)"))
    value = number(cells[mean]) if mean is not None and mean < len(cells) else None
    moved, ops = whole(cells[1]), whole(cells[2]) if len(cells) > 2 else None
    if moved is not None and ops is not None:
        mib = number(cells[3]) if len(cells) > 3 and span.columns.get("MiB/s") == 3 else None
        span.parts[table] = Part(moved, ops, value, mib * MIB if mib and mib >= LEAST_MIB_PER_S else None)


def _row(text: str, span: Span) -> None:
    """A thread and target of `Total IO`."""
    cells = text.split("|")
    values = [whole(cell) for cell in cells[:3]]
    if None in values or len(values) < 3:
        return
    duration = round(span.seconds * 1e9)
    worker: dict[str, Any] = {"start_ns": 0, "end_ns": duration, "duration_ns": duration}
    span.workers.append({"worker": values[0], "bytes": values[1], "ops": values[2], **worker})
    file = _FILE.match(cells[-1].strip())
    if file and (size := size_bytes(file[2])):
        span.file_bytes.append(size)
        span.rounded |= "." in file[2]
