"""`naslab show` and `naslab runs`: a run, and the list of runs, as text for a terminal."""

from __future__ import annotations

import io
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from naslab.analysis import regimes_words
from naslab.explain import tell, trust
from naslab.render.terminal import pictures
from naslab.render.terminal.facts import fact
from naslab.render.terminal.tables import CommandTable, command_tables
from naslab.render.terminal.telling import told_once
from naslab.results.addresses import address_line
from naslab.results.cell_names import op_words, stage_words
from naslab.results.describe import part_of, typed
from naslab.results.foreign import who_measured
from naslab.results.numbers import is_number
from naslab.results.outages import outage_sentences
from naslab.results.parts.security import Security
from naslab.results.parts.split import ClientSplit
from naslab.text import screen as terminal
from naslab.text.printable import colours_of, printable
from naslab.text.screen import plain_table
from naslab.units import duration_text, size_text, three_digits

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import RenderableType

    from naslab.results.run import Run
    from naslab.results.store import RunSummary

_STATUS_STYLE = {"complete": "green", "partial": "yellow", "running": "cyan", "failed": "red"}
MIN_WIDTH = 40
_LEFT = ("application", "caches", "job", "limit", "metadata", "mode", "note", "operation")
"""Columns of words in tables of commands."""
_SECTIONS = {"target": "server"}
"""Names of the environment's sections, where `show` has another line of that name."""


def show_run(run: Run, width: int | None = None, color: bool | None = None) -> str:
    """The run in brief: target, when, environment, throughput by size or cell by cell, limits, warnings.

    width: columns; None takes the terminal's. color: None colours a terminal unless NO_COLOR is set.
    """
    columns = columns_of(width)
    parts: list[RenderableType] = [*_answer(run), *_header(run), ""]
    grids = run.sweep_ops()
    for op in grids:
        parts += [*_matrix(run, op, columns), ""]
    parts += pictures.heat_maps(run, grids, columns)
    rest = [
        cell for cell in run.cells
        if (cell.get("workload") or cell["op"] not in grids) and not (run.document.get("ladder") and _is_step(cell))
    ]  # fmt: skip
    rest = [cell for cell in rest if cell.get("workload") != "sample"]  # parts of files, read for a prediction
    if tables := command_tables(run.document):
        parts += _drawn(tables)
    elif (run.document.get("client_split") or {}).get("cells"):
        from naslab.comparison import split

        parts += [split.table(typed(run.document["client_split"], ClientSplit)), ""]
    elif run.document.get("security"):
        from naslab.comparison import security_words

        parts += security_words.tables(typed(run.document["security"], Security))
    elif rest:
        parts += [_cell_table(rest, columns), ""]
    parts += pictures.sparklines(run, grids, columns)
    if not run.cells and not run.document.get("durable"):
        parts += ["No cell was measured.", ""]
    parts += [*_clients(run), *_percentiles(run), *_ladder_table(run), *_limits(run), *_regimes(run), *_warnings(run)]
    return render(parts, columns, color)


def answer_text(document: Mapping[str, Any], report: Path | None = None, color: bool | None = None) -> str:
    """The answer of a run that has just ended, in at most ten lines. report: where it was written."""
    from rich.text import Text

    from naslab.explain import brief, brief_words

    found = brief.stored(document)
    lines = brief_words.lines(found, brief_words.ending(str(document["run_id"]), report)) if found else []
    return render([Text(line) for line in lines], brief_words.WIDTH, color)


def _answer(run: Run) -> list[RenderableType]:
    """The answer that is kept with a run; nothing for a run without one."""
    from rich.text import Text

    if not run.document.get("answer"):
        return []
    from naslab.explain import brief, brief_words

    found = brief.stored(run.document)
    return [*(Text(_plain(line)) for line in brief_words.lines(found)), ""] if found else []


def _is_step(cell: Mapping[str, Any]) -> bool:
    """Whether a cell is of the ladder, which has a table of its own."""
    return cell.get("workload") == "ladder"


def _ladder_table(run: Run) -> list[RenderableType]:
    """The ladder's steps; nothing for a run without one."""
    from rich.text import Text

    from naslab.explain import ladder_table
    from naslab.results.parts.ladder import Ladder

    ladder = part_of(run.document, "ladder", Ladder)
    if not ladder:
        return []
    table = plain_table(ladder_table.HEADER[:3])
    for row in ladder_table.rows(ladder):
        table.add_row(*(Text(_plain(text)) for text in row[:3]))
    return [Text("Steps of the ladder", style="bold"), table, Text(ladder_table.ended(run.document)), ""]


def list_runs_text(runs: Sequence[RunSummary], width: int | None = None, color: bool | None = None) -> str:
    """One line a run, newest first. width, color: as for `show_run`."""
    from rich.text import Text

    if not runs:
        return "No runs are stored yet; measure one with: naslab run TARGET\n"
    columns = columns_of(width)
    header = ["run", "started (UTC)", "command", "target", "label", "cells", "status"]
    if not any(run.label for run in runs):
        header.remove("label")
    table = plain_table(header, right=("cells",), optional=("cells", "label", "started (UTC)", "command"))
    for column in table.columns:
        column.no_wrap = column.header in ("run", "started (UTC)", "command", "status")
    for run in runs:
        texts = {
            "run": run.run_id, "started (UTC)": run.started_at[:16].replace("T", " "), "command": run.command,
            "target": in_middle(_plain(run.target), columns // 3), "label": in_middle(_plain(run.label or ""), 16),
            "cells": f"{run.cells:,}", "status": run.status,
        }  # fmt: skip
        row = {name: Text(_plain(text)) for name, text in texts.items()}
        row["status"].stylize(_STATUS_STYLE.get(run.status, ""))
        table.add_row(*(row[name] for name in header))
    return render([table], columns, color)


def in_middle(text: str, most: int) -> str:
    """A name of at most so many letters: its beginning and its end, which differ most often, around `…`."""
    return text if len(text) <= most else f"{text[: (most - 1) // 2]}…{text[-(most // 2) :]}"


def columns_of(width: int | None) -> int:
    """Columns to write in: the given ones, or the terminal's, at least MIN_WIDTH."""
    return max(MIN_WIDTH, width if width is not None else shutil.get_terminal_size((100, 24)).columns)


def folded(sentence: str) -> str:
    """A sentence in lines of the terminal's width, broken between words; one line where no terminal shows it."""
    text = sentence if terminal.has_blocks() else terminal.in_ascii(sentence)
    return textwrap.fill(text, columns_of(None), break_on_hyphens=False) if sys.stdout.isatty() else text


def render(parts: Iterable[RenderableType], width: int, color: bool | None) -> str:
    """The parts as text of so many columns, wide tables in several.

    color: None colours a terminal, unless NO_COLOR or FORCE_COLOR says otherwise. Without a UTF-8 locale the text is
    ASCII, but for what people wrote.
    """
    from rich.text import Text

    if color is None:
        color = terminal.has_colour()
    console = terminal.console_class()(
        file=io.StringIO(), width=width, force_terminal=color, no_color=not color, highlight=False, markup=False,
        color_system="standard" if color else None, legacy_windows=False,
    )  # fmt: skip
    with console.capture() as captured:
        for part in parts:
            for shown in _fitted(part, width):
                if isinstance(shown, Text) and any(len(word) > width for word in shown.plain.split()):
                    console.print(_kept_whole(shown, width), no_wrap=True, overflow="ignore", crop=False)
                else:
                    console.print(shown)
    lines = [line.rstrip() for line in captured.get().splitlines()]
    text = "\n".join(lines).rstrip() + "\n"
    return colours_of(text if terminal.has_blocks() else terminal.in_ascii(text))


def _kept_whole(text: Any, width: int) -> Any:
    """The text in lines of so many columns, with its words that are longer, as addresses, in one piece."""
    from rich.text import Text

    lines = text.plain.split("\n")
    if not text.no_wrap:
        lines = [textwrap.fill(line, width, break_long_words=False, break_on_hyphens=False) for line in lines]
    return Text("\n".join(lines), style=text.style)


def _fitted(part: RenderableType, width: int) -> Sequence[RenderableType]:
    """A table with names of columns in parts that fit; anything else as it is."""
    from rich.table import Table

    if isinstance(part, Table) and part.show_header and part.columns:
        return terminal.fitted(part, width)
    return [part]


def _plain(text: str) -> str:
    """One line, without characters a terminal would obey."""
    return printable(text, one_line=True)


def _header(run: Run) -> list[RenderableType]:
    from rich.table import Table
    from rich.text import Text

    document = run.document
    top = Text.assemble(
        ("Run ", "bold"), (run.run_id, "bold"), f"  {document['command']}  ",
        (document["status"], _STATUS_STYLE.get(document["status"], "")),
    )  # fmt: skip
    table = Table.grid(padding=(0, 2))
    told = not document.get("source")
    rows = [("Target", _target(document["target"], told) or "not reported"), ("When", _when(document))]
    if addresses := address_line(document):
        rows.insert(1, ("Addresses", addresses))
    if outages := outage_sentences(document):
        rows.append(("Outages", "; ".join(outages)))
    if source := document.get("source"):
        rows.append(("Source", source_text(source)))
    if document.get("label"):
        rows.insert(0, ("Label", document["label"] or ""))
    rows += [(name.capitalize(), text) for name, text in _environment(document.get("environment") or {})]
    for name, text in rows:
        table.add_row(Text(name, style="dim"), Text(_plain(text)))
    return [top, table]


def source_text(source: Mapping[str, Any]) -> str:
    """Where a run is from that naslab did not measure, in a line."""
    tool = " ".join(str(source[name]) for name in ("tool", "tool_version") if source.get(name))
    found = [str(source[name]) for name in ("title", "place", "file", "url") if source.get(name)]
    return f"{source['kind']}: {', '.join([tool, *found])}; {who_measured(source)}"


def _target(target: Mapping[str, Any], told: bool) -> str:
    """told: whether None means that there is none, and not that nothing is known."""
    parts = [str(target.get("url", ""))]
    protocol = " ".join(str(target[k]) for k in ("protocol", "dialect") if target.get(k))
    if protocol:
        parts.append(protocol)
    if target.get("protocol") in ("smb", "nfs"):
        words = {"signing": "signed", "encryption": "encrypted"}
        known = {name: f"{word} {target[name]}" for name, word in words.items() if target.get(name)}
        silent = [name for name in words if name not in known]
        if told:
            parts += [known.get(name, f"not {word}") for name, word in words.items()]
        else:
            parts += [*known.values(), *([f"{' and '.join(silent)} not reported"] if silent else [])]
    said = ("url", "protocol", "dialect", "signing", "encryption", "addresses", "address_use")
    return ", ".join(parts + _pairs({k: v for k, v in target.items() if k not in said}))


def _when(document: Mapping[str, Any]) -> str:
    source = document.get("source")
    if source and not document["start_wall_ns"]:
        return f"not reported; the article is of {source['date']}" if source.get("date") else "not reported"
    text = str(document.get("started_at", "")).replace("T", " ").replace("Z", " UTC")
    if source and "start_wall_ns" in source["unknown"]:
        return f"{text}, when the file was written; its contents have no time"
    if source and "time zone" in source["unknown"]:
        text = text.replace(" UTC", ", in an unknown time zone")
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
    """`memory 16 GiB`, `nic 1 Gbit/s`: scalars with their units; what is nested, unknown or zero is left out."""
    found = []
    for name, value in values.items():
        if value is None or isinstance(value, Mapping | list | tuple) or str(value).startswith(("{", "[")):
            continue
        if is_number(value) and not value and name != "seed":
            continue  # counters that counted nothing, caches that are none
        label, text = fact(name, value)
        found.append(label if text == "yes" else f"{label} {text}")
    return found


def _number(value: float) -> str:
    """Three significant digits, grouped thousands; `-` for none."""
    return three_digits(value)


def _matrix(run: Run, op: str, width: int) -> list[RenderableType]:
    """Throughput of one operation, file size by record size; split into several tables where it is too wide."""
    from rich.text import Text

    files, records, matrix = run.grid(op)
    predicted = run.grid(op, "predicted")[2]
    repeats = len({cell["block"] for cell in run.cells if cell["op"] == op and not cell.get("workload")})
    note = ", ~ predicted" if (predicted > 0).any() else ""
    values = [
        [("~" if mark > 0 else "") + _number(value) for value, mark in zip(row, marks, strict=True)]
        for row, marks in zip(matrix / 1e6, predicted, strict=True)
    ]
    heads = [size_text(size) for size in records.tolist()]
    cell = max([len(text) for row in values for text in row] + [len(head) for head in heads], default=1) + 2
    per_table = max(1, (width - 14) // cell)
    title = f"{op_words(op)}: MB/s, file size by record size" + (f", median of {repeats}" if repeats > 1 else "") + note
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


def _cell_table(cells: Sequence[Mapping[str, Any]], width: int) -> RenderableType:
    """A row a cell; a narrow terminal gets the columns that matter most."""
    from rich.text import Text

    rows = [dict(zip(_CELL_HEADER, _cell_texts(cell), strict=True)) for cell in cells]
    header = _fitting(rows, width)
    table = plain_table(header, right=[name for name in header if name not in ("workload", "op", "note")])
    for row in rows:
        table.add_row(*(Text(row[name]) for name in header))
    return table  # type: ignore[no-any-return]


def _drawn(tables: Sequence[CommandTable]) -> list[RenderableType]:
    """Tables of a command, numbers to the right; of applications the repeats and more go where it is narrow."""
    from rich.text import Text

    parts: list[RenderableType] = []
    for found in tables:
        repeats = [name for name in found.header if name.startswith("run ")]
        right = [name for name in found.header if name not in _LEFT]
        shown = plain_table(found.header, right, [*repeats[::-1], "issued", "publ.", "% seq.", "largest"])
        if found.header[0] == "application":
            shown.columns[0].no_wrap = True
        for row in found.rows:
            shown.add_row(*map(Text, row))
        parts += [shown, ""]
    return parts


def _cell_texts(cell: Mapping[str, Any]) -> tuple[str, ...]:
    latency = cell["latency_ns"]
    texts = (
        stage_words(cell.get("workload")), op_words(cell["op"]), _file_text(cell),
        _told(cell["record_bytes"], size_text), _told(cell["queue_depth"]), _told(cell["workers"]),
        _number(cell["throughput_bytes_per_s"] / 1e6), _told(cell["iops"], _number),
        _latency(latency["p50"]), _latency(latency["p99"]),
        _told(cell["cpu_fraction"], lambda share: f"{100 * share:.0f}"), _told(cell["errors"]), _note(cell),
    )  # fmt: skip
    return tuple(map(_plain, texts))


def _file_text(cell: Mapping[str, Any]) -> str:
    """The file's size; of a published mean over sizes the smallest and the largest."""
    ends = cell.get("covers_file_bytes")
    return f"{size_text(ends[0])}-{size_text(ends[1])}" if ends else _told(cell["file_bytes"], size_text)


def _told(value: Any, text: Callable[[Any], str] = str) -> str:
    """The value's text; - where the source of a run does not tell it."""
    return "-" if value is None else text(value)


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
    parts += [cell["regime"]] if cell.get("regime") not in (None, "unknown") else []
    parts += ["predicted"] if cell.get("predicted") else []
    return ", ".join(parts + [found["kind"] for found in cell.get("warnings", [])])


def _clients(run: Run) -> list[RenderableType]:
    """A row a client, of the cell that they measured together for longest."""
    from rich.text import Text

    from naslab.analysis.many import HEADER, rows

    title, table = rows(run.document)
    if not table:
        return []
    shown = plain_table(HEADER, right=HEADER[1:-1])
    for row in table:
        shown.add_row(*(Text(_plain(text)) for text in row))
    return [Text(_plain(title), style="bold"), shown, ""]


def _percentiles(run: Run) -> list[RenderableType]:
    """Latency to nine nines of each sustained load; - where too few operations were done, no row where in all."""
    if not (run.document.get("sustained") or {}).get("regimes"):
        return []
    from rich.text import Text

    from naslab.analysis.sustained import percentile_rows, regime_name
    from naslab.results.parts.sustained import Sustained

    # One column a load: more than a few would not fit.
    regimes = typed(run.document["sustained"], Sustained).regimes[:4]
    names = [regime_name(run, found) for found in regimes]
    table = plain_table(("latency", *names), right=names)
    for label, texts in percentile_rows(regimes):
        table.add_row(Text(label), *map(Text, texts))
    return [table, ""]


def _regimes(run: Run) -> list[RenderableType]:
    """A line for each regime of the cells, with the evidence of one of them."""
    from rich.text import Text

    told = regimes_words.lines(run.cells)
    return [Text("Regimes", style="bold"), *(Text(_plain(line)) for line in told), ""] if told else []


def _limits(run: Run) -> list[RenderableType]:
    """A row a limit, by class; then the evidence, each once."""
    from rich.text import Text

    limits = trust.claimed(run.document)
    if not limits:
        return []
    table = plain_table(tell.HEADER, right=tell.HEADER[2:4], optional=tell.HEADER[3:4])
    for row in tell.rows(limits):
        table.add_row(*(Text(_plain(text)) for text in row))
    told: dict[str, list[str]] = {}
    for ranked in tell.by_class(limits).values():
        for limit in ranked:
            told.setdefault(str(limit.get("evidence") or ""), []).append(tell.class_name(limit))
    lines = [
        Text(_plain(f"{tell.joined(list(dict.fromkeys(who)))}: {why}"))
        for why, who in told.items()
        if why
    ]  # fmt: skip
    return [Text("Limits", style="bold"), table, *lines, ""]


def _warnings(run: Run) -> list[RenderableType]:
    """Warnings of the run, then of cells, those of one kind told once."""
    from rich.text import Text

    lines = []
    for kind, message, cells in told_once(run.document["warnings"], run.cells):
        several = f" ({cells} cells)" if cells > 1 else ""
        lines.append(Text.assemble(("Warning ", "yellow"), f"{kind}: {_plain(message)}{several}"))
    return list(lines)
