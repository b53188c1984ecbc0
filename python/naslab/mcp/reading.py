"""The tools that read stored runs. None of them measures, and none opens a file by name."""

from __future__ import annotations

import csv
import dataclasses
import io
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from naslab.api.runs import Run
from naslab.errors import NaslabError, UsageError
from naslab.exchange.references import load
from naslab.results.columns import CELL_COLUMNS, cell_row

if TYPE_CHECKING:
    from naslab.results.store import Store

MAX_ROWS = 1000
"""Rows of one answer; `next_offset` tells where the next begin."""
WIDTH = 100
"""Columns of texts."""
Table = Literal["cells", "series"]
Format = Literal["json", "csv"]


@dataclasses.dataclass(frozen=True)
class Reading:
    """The tools, over one store. path: None takes the user's. redacted: what they give names nobody."""

    path: Path | None
    redacted: bool = False

    def tools(self) -> list[Callable[..., Any]]:
        """All of them."""
        return [self.list_runs, self.show_run, self.explain_run, self.compare_runs, self.export_table]

    def list_runs(self, target: str = "", label: str = "", limit: int = 20) -> dict[str, Any]:
        """Stored runs, newest first: id, command, target, label, status, start and number of cells.

        target, label: only runs whose target or label contains this text. limit: 1 to 1000.
        """
        found = self._store().list_runs(_rows(limit, "limit"), label or None, target or None)
        runs = [
            {"run_id": each.run_id, "command": each.command, "target": each.target, "label": each.label,
             "status": each.status, "started_at": each.started_at, "cells": each.cells}
            for each in found
        ]  # fmt: skip
        return {"runs": runs}

    def show_run(self, run: str = "last") -> str:
        """One run as text: target, conditions, rates, limits and warnings, as `naslab show` prints it.

        run: an id, the beginning of one, `last`, or `published:NAME`.
        """
        from naslab.render.terminal.show import show_run

        return show_run(self._load(run), WIDTH, False)

    def explain_run(self, run: str = "last") -> dict[str, Any]:
        """The verdict of a run: what limits the target, with probabilities, evidence, advice and what to measure next.

        Probabilities are between 0 and 1, rates are bytes per second (bytes_per_s) or operations per second (iops).
        basis: `ladder` (loads chosen to separate the limits) or `cells` (a first estimate). warnings make the numbers
        of the run doubtful: tell them to the user.
        """
        loaded = self._load(run)
        found = loaded.explain()
        return {
            "run_id": loaded.run_id, "target": loaded.document["target"].get("url") or "", "basis": found.basis,
            "verdict": list(found.verdict.sentences),
            "limits": [plain(limit.document()) for limit in found.verdict.limits],
            "advice": list(found.advice), "trust": list(found.trust),
            "next": [{"command": command, "brings": brings} for command, brings in found.next],
            "warnings": [dict(warning) for warning in loaded.document.get("warnings") or []],
        }  # fmt: skip

    def compare_runs(
        self, baseline: str, other: str, margin_percent: float = 5.0, why: bool = False, limit: int = 50
    ) -> dict[str, Any]:
        """Whether a run is faster or slower than a baseline: better, worse, equivalent or undecided, with intervals.

        Intervals are of 95 %. margin_percent: a difference below it does not matter, 0.1 to 100. why: also the first
        step at which the ladders of two `naslab run` differ. limit: rows of `measurements`, 1 to 1000.
        """
        from naslab.api.comparing import compare
        from naslab.comparison import document

        _rows(limit, "limit")
        judged = compare(self._load(baseline), self._load(other), margin=margin_percent, why=why)
        found = plain(document.of(judged))
        rows = found["measurements"]
        return {"sentence": judged.sentence, **found, "measurements": rows[:limit], "measurements_total": len(rows)}

    def export_table(
        self, run: str = "last", table: Table = "cells", format: Format = "json", offset: int = 0, limit: int = 100
    ) -> dict[str, Any]:
        """The numbers of a run as a table. cells: one row for each measurement. series: one row for each interval.

        format json: `columns`, and `rows` as lists in that order. format csv: `csv`, with a line of column names. At
        most `limit` rows (1 to 1000) from `offset`; `next_offset` is null after the last.
        """
        if offset < 0:
            raise UsageError(f"offset={offset}: give 0 or more")
        _rows(limit, "limit")
        columns, rows = _table(self._load(run), table)
        part, end = rows[offset : offset + limit], offset + limit
        head = {"table": table, "rows_total": len(rows), "next_offset": end if end < len(rows) else None}
        if format == "csv":
            return {**head, "csv": _csv(columns, part)}
        return {**head, "columns": list(columns), "rows": plain(part)}

    def _store(self) -> Store:
        from naslab.exchange.redact import store_for

        return store_for(self.path, self.redacted)

    def _load(self, name: str) -> Run:
        """A stored or published run; a file is none. Raises UnknownRunError, StoreError."""
        store = self._store()
        if name.startswith("published:"):
            return Run.of(load(store, name))
        try:
            return Run.of(store.load_id(store.resolve(name[:200])))
        except NaslabError as error:
            raise type(error)(str(error).replace(str(store.path), "this library")) from None


def plain(value: Any) -> Any:
    """A value as JSON has it: what is not finite is null."""
    if isinstance(value, Mapping):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value.item() if hasattr(value, "item") else value


def _rows(count: int, name: str) -> int:
    if not 1 <= count <= MAX_ROWS:
        raise UsageError(f"{name}={count}: give 1 to {MAX_ROWS}")
    return count


def _table(run: Run, table: Table) -> tuple[Sequence[str], list[Sequence[Any]]]:
    """(names of columns, rows)."""
    if table == "series":
        from naslab.exchange.series_table import HEADER, rows

        return HEADER, list(rows([run]))

    return [column.name for column in CELL_COLUMNS], [list(cell_row(run.document, cell)) for cell in run.cells]


def _csv(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    from naslab.exchange.export import csv_value

    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([csv_value(value) for value in plain(row)] for row in rows)
    return file.getvalue()
