"""`naslab show` and `naslab runs`: a run, and the list of runs, as text for a terminal."""

from __future__ import annotations

import math
import os
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from naslab.units import duration_text, rate_text, size_text

if TYPE_CHECKING:
    from rich.console import RenderableType

    from naslab.results.run import Run
    from naslab.store import RunSummary

_STATUS_STYLE = {"complete": "green", "partial": "yellow", "running": "cyan", "failed": "red"}
MIN_WIDTH = 40
_SECTIONS = {"target": "server"}
"""Names of the environment's sections, where `show` has another line of that name."""
_UNLIMITED_BYTES = 1 << 60
"""Targets without a limit report such space; it tells nothing."""


def show_run(run: Run, width: int | None = None, color: bool | None = None) -> str:
    """The run in brief: target, when, environment, throughput by size or cell by cell, limits, warnings.

    width: columns; None takes the terminal's. color: None colours a terminal unless NO_COLOR is set.
    """
    columns = columns_of(width)
    parts: list[RenderableType] = [*_header(run), ""]
    plain = _without_workloads(run)
    grids = plain.sweep_ops()
    for op in grids:
        parts += [*_matrix(plain, op, columns), ""]
    rest = [cell for cell in run.cells if cell.get("workload") or cell["op"] not in grids]
    if run.document.get("curve"):
        parts += [_curve_table(run.document["curve"]), ""]
    elif run.document.get("profile"):
        parts += [_profile_table(run.document["profile"]), ""]
    elif run.document.get("durable"):
        parts += [*_durable_tables(run.document["durable"]), ""]
    elif (run.document.get("job") or {}).get("steps"):
        parts += [_job_table(run.document["job"]), ""]
    elif run.document.get("replay"):
        parts += [_replay_table(run.document), ""]
    elif (run.document.get("tree") or {}).get("phases"):
        parts += [_tree_table(run.document["tree"]), ""]
    elif run.document.get("apps"):
        parts += [*_apps_tables(run.document["apps"]), ""]
    elif rest:
        parts += [_cell_table(rest, columns), ""]
    if not run.cells and not run.document.get("durable"):
        parts += ["No cell was measured.", ""]
    parts += [*_percentiles(run), *_limits(run), *_warnings(run)]
    return render(parts, columns, color)


def _without_workloads(run: Run) -> Run:
    """The run's sweep alone: cells of a workload are no points of its surface."""
    from naslab.results.run import Run as Runs

    return Runs({**run.document, "cells": [c for c in run.document["cells"] if not c.get("workload")]})


def list_runs_text(runs: Sequence[RunSummary], width: int | None = None, color: bool | None = None) -> str:
    """One line a run, newest first. width, color: as for `show_run`."""
    from rich.text import Text

    if not runs:
        return "No runs are stored yet; measure one with: naslab run TARGET\n"
    columns = columns_of(width)
    header = ("run", "started (UTC)", "command", "target", "label", "cells", "status")
    shown = header if columns >= _NARROW else ("run", "target", "status")
    table = plain_table(shown, right=("cells",))
    for column in (table.columns[0], table.columns[-1]):
        column.no_wrap = True
    for run in runs:
        started = run.started_at[:16].replace("T", " ")
        texts = (run.run_id, started, run.command, run.target, run.label or "", str(run.cells), run.status)
        row = {name: Text(_plain(text)) for name, text in zip(header, texts, strict=True)}
        row["status"].stylize(_STATUS_STYLE.get(run.status, ""))
        table.add_row(*(row[name] for name in shown))
    return render([table], columns, color)


def columns_of(width: int | None) -> int:
    """Columns to write in: the given ones, or the terminal's, at least MIN_WIDTH."""
    return max(MIN_WIDTH, width if width is not None else shutil.get_terminal_size((100, 24)).columns)


def render(parts: Iterable[RenderableType], width: int, color: bool | None) -> str:
    """The parts as text of so many columns. color: None colours a terminal, unless NO_COLOR is set."""
    import io

    from rich.console import Console

    if color is None:
        color = sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    console = Console(
        file=io.StringIO(), width=width, force_terminal=color, no_color=not color, highlight=False, markup=False,
        color_system="standard" if color else None, legacy_windows=False,
    )  # fmt: skip
    with console.capture() as captured:
        for part in parts:
            console.print(part)
    lines = [line.rstrip() for line in captured.get().splitlines()]
    return "\n".join(lines).rstrip() + "\n"


def _plain(text: str) -> str:
    """One line, without characters a terminal would obey."""
    return "".join(c if c.isprintable() else " " for c in text)


def plain_table(header: Iterable[str], right: Iterable[str] = ()) -> Any:
    """An empty table with a line under its header. right: columns set to the right, which never wrap."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for name in header:
        table.add_column(name, justify="right" if name in right else "left", no_wrap=name in right, overflow="fold")
    return table


def _header(run: Run) -> list[RenderableType]:
    from rich.table import Table
    from rich.text import Text

    document = run.document
    top = Text.assemble(
        ("Run ", "bold"), (run.run_id, "bold"), f"  {document['command']}  ",
        (document["status"], _STATUS_STYLE.get(document["status"], "")),
    )  # fmt: skip
    table = Table.grid(padding=(0, 2))
    rows = [("Target", _target(document["target"])), ("When", _when(document))]
    if document.get("label"):
        rows.insert(0, ("Label", document["label"] or ""))
    rows += [(name.capitalize(), text) for name, text in _environment(document.get("environment") or {})]
    for name, text in rows:
        table.add_row(Text(name, style="dim"), Text(_plain(text)))
    return [top, table]


def _target(target: Mapping[str, Any]) -> str:
    parts = [str(target.get("url", ""))]
    protocol = " ".join(str(target[k]) for k in ("protocol", "dialect") if target.get(k))
    if protocol:
        parts.append(protocol)
    if target.get("protocol") in ("smb", "nfs"):
        parts.append(f"signed {target['signing']}" if target.get("signing") else "not signed")
        parts.append(f"encrypted {target['encryption']}" if target.get("encryption") else "not encrypted")
    known = ("url", "protocol", "dialect", "signing", "encryption")
    return ", ".join(parts + _pairs({k: v for k, v in target.items() if k not in known}))


def _when(document: Mapping[str, Any]) -> str:
    text = str(document.get("started_at", "")).replace("T", " ").replace("Z", " UTC")
    if document.get("end_wall_ns"):
        text += f", took {duration_text(document['end_wall_ns'] - document['start_wall_ns'])}"
    return text


def _environment(environment: Mapping[str, Any]) -> list[tuple[str, str]]:
    sections = {k: v for k, v in environment.items() if isinstance(v, Mapping)}
    loose = {k: v for k, v in environment.items() if not isinstance(v, Mapping)}
    found = [(_SECTIONS.get(name, name), ", ".join(_pairs(section))) for name, section in sections.items()]
    found += [("also", ", ".join(_pairs(loose)))] if loose else []
    return [(name, text) for name, text in found if text]


def _pairs(values: Mapping[str, Any]) -> list[str]:
    """`ram 16 GiB`, `nic 1000 Mbit/s`: scalars with their units; what is nested or unknown is left out."""
    found = []
    for name, value in values.items():
        if value is None or isinstance(value, Mapping | list | tuple) or str(value).startswith(("{", "[")):
            continue
        if name.endswith("_bytes") and isinstance(value, int) and value >= _UNLIMITED_BYTES:
            continue
        text, label = str(value), name
        if name.endswith("_bits_per_s"):
            label, text = name.removesuffix("_bits_per_s"), f"{value / 1e6:,.0f} Mbit/s"
        elif name.endswith("_bytes"):
            label, text = name.removesuffix("_bytes"), _gib(value)
        found.append(f"{label.replace('_', ' ')} {text}")
    return found


def _gib(value: float) -> str:
    return f"{_number(value / (1 << 30)).removesuffix('.0')} GiB" if value >= 1 << 30 else size_text(int(value))


def _number(value: float) -> str:
    """Three significant digits, grouped thousands."""
    if math.isnan(value):
        return "-"
    return f"{value:,.{0 if value >= 100 else 1 if value >= 10 else 2 if value >= 1 else 3}f}"


def _matrix(run: Run, op: str, width: int) -> list[RenderableType]:
    """Throughput of one operation, file size by record size; split into several tables where it is too wide."""
    from rich.text import Text

    files, records, matrix = run.grid(op)
    predicted = run.grid(op, "predicted")[2]
    repeats = len({cell["block"] for cell in run.cells if cell["op"] == op})
    note = ", ~ predicted" if (predicted > 0).any() else ""
    values = [
        [("~" if mark > 0 else "") + _number(value) for value, mark in zip(row, marks, strict=True)]
        for row, marks in zip(matrix / 1e6, predicted, strict=True)
    ]
    heads = [size_text(size) for size in records.tolist()]
    cell = max([len(text) for row in values for text in row] + [len(head) for head in heads], default=1) + 2
    per_table = max(1, (width - 14) // cell)
    title = f"{op}: MB/s, file size by record size" + (f", median of {repeats}" if repeats > 1 else "") + note
    parts: list[RenderableType] = [Text(title, style="bold")]
    for first in range(0, len(heads), per_table):
        shown = heads[first : first + per_table]
        table = plain_table(("file", *shown), right=shown)
        for file_bytes, row in zip(files.tolist(), values, strict=True):
            table.add_row(size_text(file_bytes), *map(Text, row[first : first + per_table]))
        parts.append(table)
    return parts


_CELL_HEADER = (
    "workload", "op", "file", "record", "depth", "workers", "MB/s", "IOPS", "p50", "p99", "CPU %", "errors", "note",
)  # fmt: skip
_DROPPED_FIRST = ("CPU %", "workers", "errors", "depth", "IOPS", "p50", "file", "note", "record")
"""Columns that a narrow terminal goes without, one after another."""
_NARROW = 84


def _cell_table(cells: Sequence[Mapping[str, Any]], width: int) -> RenderableType:
    """A row a cell; a narrow terminal gets the columns that matter most."""
    from rich.text import Text

    rows = [dict(zip(_CELL_HEADER, _cell_texts(cell), strict=True)) for cell in cells]
    header = _fitting(rows, width)
    table = plain_table(header, right=[name for name in header if name not in ("workload", "op", "note")])
    for row in rows:
        table.add_row(*(Text(row[name]) for name in header))
    return table  # type: ignore[no-any-return]


def _curve_table(curve: Any) -> RenderableType:
    """A row a load; percentiles are of the response time, from the due time."""
    from rich.text import Text

    from naslab.report.curve import HEADER, rows

    table = plain_table(HEADER, right=[name for name in HEADER if name != "note"])
    for row in rows(curve):
        table.add_row(*map(Text, row))
    return table  # type: ignore[no-any-return]


def _profile_table(profile: Any) -> RenderableType:
    """Some of the zones, by position."""
    from naslab.report.profile import HEADER, rows

    table = plain_table(HEADER, right=HEADER)
    for row in rows(profile):
        table.add_row(*row)
    return table  # type: ignore[no-any-return]


def _apps_tables(apps: Any) -> list[RenderableType]:
    """Each application: repeats side by side, median, interval; then what it did."""
    from naslab.apps.results import FACTS, fact_rows, header, rows

    tables: list[RenderableType] = []
    for names, texts in ((header(apps), rows(apps)), (FACTS, fact_rows(apps))):
        table = plain_table(names, right=names[1:])
        table.columns[0].no_wrap = True
        for row in texts:
            table.add_row(*row)
        tables += [table, ""]
    return tables[:-1]


def _tree_table(tree: Any) -> RenderableType:
    """Rate and latency by kind of operation."""
    from naslab.analysis.metadata import header, rows

    names = header(tree)
    table = plain_table(names, right=[name for name in names[1:] if name != "caches"])
    for row in rows(tree):
        table.add_row(*row)
    return table  # type: ignore[no-any-return]


def _replay_table(document: Any) -> RenderableType:
    """Operations of the trace and of the replay, by kind."""
    from naslab.analysis.replayed import HEADER, rows

    table = plain_table(HEADER, right=HEADER[1:])
    for row in rows(document):
        table.add_row(*row)
    return table  # type: ignore[no-any-return]


def _durable_tables(part: Any) -> list[RenderableType]:
    """A row a durability mode, and a row a kind of metadata."""
    from naslab.durable.words import HEADER, METADATA_HEADER, metadata_rows, rows

    table, metadata = plain_table(HEADER, right=HEADER[1:]), plain_table(METADATA_HEADER, right=METADATA_HEADER[1:])
    for row in rows(part):
        table.add_row(*row)
    for row in metadata_rows(part):
        metadata.add_row(*row)
    return [table, "", metadata]


def _job_table(job: Any) -> RenderableType:
    """A row a job, those that only prepare included."""
    from rich.text import Text

    from naslab.jobs.outcome import HEADER, rows

    table = plain_table(HEADER, right=[name for name in HEADER if name not in ("job", "limit")])
    for row in rows(job):
        table.add_row(*map(Text, row))
    return table  # type: ignore[no-any-return]


def _cell_texts(cell: Mapping[str, Any]) -> tuple[str, ...]:
    latency = cell["latency_ns"]
    texts = (
        cell.get("workload") or "", cell["op"], size_text(cell["file_bytes"]), size_text(cell["record_bytes"]),
        str(cell["queue_depth"]), str(cell["workers"]), _number(cell["throughput_bytes_per_s"] / 1e6),
        _number(cell["iops"]), _latency(latency["p50"]), _latency(latency["p99"]),
        f"{100 * cell['cpu_fraction']:.0f}", str(cell["errors"]), _note(cell),
    )  # fmt: skip
    return tuple(map(_plain, texts))


def _fitting(rows: Sequence[Mapping[str, str]], width: int) -> list[str]:
    """Columns that say something and fit side by side."""
    always = [name for name in _CELL_HEADER if name not in ("workload", "note")]
    header = [name for name in _CELL_HEADER if name in always or any(row[name] for row in rows)]

    def needed() -> int:
        return sum(2 + max(len(name), *(min(len(row[name]), 24) for row in rows)) for name in header)

    for name in _DROPPED_FIRST:
        if needed() > width and name in header:
            header.remove(name)
    return header


def _latency(value_ns: int | None) -> str:
    return "-" if value_ns is None else duration_text(value_ns)


def _note(cell: Mapping[str, Any]) -> str:
    parts = [] if cell["status"] == "complete" else [cell["status"]]
    parts += [cell["regime"]] if cell.get("regime") else []
    parts += ["predicted"] if cell.get("predicted") else []
    return ", ".join(parts + [found["kind"] for found in cell.get("warnings", [])])


def _percentiles(run: Run) -> list[RenderableType]:
    """Latency to nine nines of each sustained load; - where too few operations were done."""
    regimes = run.document["sustained"]["regimes"] if run.document.get("sustained") else []
    if not regimes:
        return []
    from rich.text import Text

    from naslab.analysis.sustained import percentile_rows

    # One column a load: more than a few would not fit.
    names = [f"{found['kind']} (cell {found['cell']})" for found in regimes[:4]]
    table = plain_table(("latency", *names), right=names)
    for label, texts in percentile_rows(regimes[:4]):
        table.add_row(Text(label), *map(Text, texts))
    return [table, ""]


def _limits(run: Run) -> list[RenderableType]:
    from rich.text import Text

    limits = (run.document.get("verdict") or {}).get("limits") or []
    lines = [Text("Limits", style="bold")] if limits else []
    for at, limit in enumerate(limits, 1):
        value = limit.get("value")
        unit = limit.get("unit") or ""
        amount = "" if value is None else f" {rate_text(value) if unit == 'bytes_per_s' else f'{value:,.4g} {unit}'}"
        certain = f" ({100 * limit['confidence']:.0f} % sure)" if "confidence" in limit else ""
        where = ", ".join(str(v) for v in (limit.get("applies_to") or {}).values())
        lines.append(Text(_plain(f"{at}. {limit['kind']}{amount}{certain} {where}: {limit.get('evidence', '')}")))
    return [*lines, ""] if lines else []


def _warnings(run: Run) -> list[RenderableType]:
    """Warnings of the run, then of cells, those of one kind told once."""
    from rich.text import Text

    told: dict[tuple[str, str], int] = {}
    for found in run.document["warnings"]:
        told[(found["kind"], found["message"])] = 0
    for cell in run.cells:
        for found in cell.get("warnings", []):
            known = next((key for key in told if key[0] == found["kind"] and told[key]), None)
            key = known or (found["kind"], found["message"])
            told[key] = told.get(key, 0) + 1
    lines = []
    for (kind, message), cells in told.items():
        several = f" ({cells} cells)" if cells > 1 else ""
        lines.append(Text.assemble(("Warning ", "yellow"), f"{kind}: {_plain(message)}{several}"))
    return list(lines)
