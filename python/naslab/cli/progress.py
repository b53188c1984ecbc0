"""Progress on stderr: a live bar on a terminal, plain lines elsewhere. Never on stdout."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from naslab import terminal
from naslab.execute import Hooks
from naslab.printable import guard_again, printable, raw
from naslab.spec import CellSpec
from naslab.units import duration_text, rate_text, size_text

PLAIN_INTERVAL_S = 5.0
SPARKS = "▁▂▃▄▅▆▇█"
SPARK_COLUMNS = 24
"""Columns of the picture of a rate over time: as many as fit beside the rest of the line."""
TIMED_WORK_PER_S = 1e9
"""What a second of a timed cell weighs beside cells counted in bytes; only the bar's evenness hangs on it."""


def describe(cell: CellSpec) -> str:
    """One cell in a few words: `read, 64m file, 4k records`."""
    name = f"{cell.workload} " if cell.workload else ""
    name += cell.op.replace("_", " ")
    words = f"{name}, {size_text(cell.file_bytes)} file, {size_text(cell.record_bytes)} records"
    if cell.queue_depth > 1:
        words += f", depth {cell.queue_depth}"
    return words + (f", {cell.workers} workers" if cell.workers > 1 else "")


def sparkline(rates: Sequence[float], columns: int = SPARK_COLUMNS) -> str:
    """Rates in order as blocks between 0 and the highest; neighbours are averaged where there are too many."""
    if not rates or max(rates) <= 0:
        return ""
    width = min(columns, len(rates))
    edges = [at * len(rates) // width for at in range(width + 1)]
    means = [sum(rates[a:b]) / (b - a) for a, b in pairwise(edges)]
    top = max(means)
    return "".join(SPARKS[min(int(mean / top * len(SPARKS)), len(SPARKS) - 1)] for mean in means)


class Progress:
    """Shows how far a plan is. Use as a context manager and give `hooks` to the execution."""

    def __init__(self, cells: Sequence[CellSpec], quiet: bool = False) -> None:
        self._cells: dict[int, CellSpec] = {}
        self._total = 0.0
        self._done = 0.0
        self._ended: set[int] = set()
        self._quiet = quiet
        self._started = time.monotonic()
        self._said = self._started
        self._live: Any = None
        self._task: Any = None
        self._rates: list[float] = []
        self._rates_of: int | None = None
        self.add(cells)

    def add(self, cells: Sequence[CellSpec]) -> None:
        """More cells were planned."""
        self._cells.update({cell.id: cell for cell in cells})
        self._total += sum(_work(cell) for cell in cells)
        if self._live is not None:
            self._live.update(self._task, total=self._total)

    def drop(self, cells: Sequence[CellSpec]) -> None:
        """Those of these cells that were not measured will not be."""
        gone = [self._cells.pop(cell.id) for cell in cells if cell.id not in self._ended]
        self._total -= sum(_work(cell) for cell in gone)

    @property
    def hooks(self) -> Hooks:
        """What the execution calls."""
        return Hooks(before_cell=self._before, progress=self._progress, on_cell=self._cell)

    def __enter__(self) -> Progress:
        if not self._quiet and sys.stderr.isatty():
            self._start_live()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def _start_live(self) -> None:
        from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Live

        columns = (
            TextColumn("{task.percentage:>3.0f}%"), BarColumn(), TextColumn("{task.description}", markup=False),
            TextColumn("left"), TimeRemainingColumn(),
        )  # fmt: skip
        console = terminal.console_class()(file=raw(sys.stderr))
        self._live = Live(*columns, console=console, transient=True)
        self._task = self._live.add_task("starting", total=self._total)
        self._live.start()
        guard_again()  # rich took the streams, and gives them back when it stops

    def _before(self, cell_id: int) -> None:
        self._show(cell_id, 0.0, None)

    def _progress(self, event: dict[str, Any]) -> None:
        cell = self._cells[event["cell"]]
        part = event["elapsed_ns"] / 1e9 * TIMED_WORK_PER_S if cell.duration_ns else event["bytes"]
        self._show(cell.id, min(float(part), _work(cell)), event["bytes_per_s"], self._picture(cell, event))

    def _picture(self, cell: CellSpec, event: dict[str, Any]) -> str:
        """The rate so far of a cell that runs for a time, and how much of that time is gone."""
        if not cell.duration_ns:
            return ""
        if self._rates_of != cell.id:
            self._rates, self._rates_of = [], cell.id
        self._rates.append(event["bytes_per_s"])
        whole = duration_text(cell.duration_ns + cell.warmup_ns)
        slow = f", p99 {duration_text(event['p99_ns'])}" if event.get("p99_ns") else ""
        return f"{slow} {sparkline(self._rates)} {duration_text(event['elapsed_ns'])} of {whole}"

    def _cell(self, cell: dict[str, Any]) -> None:
        self._done += _work(self._cells[cell["id"]])
        self._ended.add(cell["id"])
        self._show(cell["id"], 0.0, cell.get("throughput_bytes_per_s"))

    def _show(self, cell_id: int, part: float, rate: float | None, picture: str = "") -> None:
        text = describe(self._cells[cell_id]) + (f": {rate_text(rate)}" if rate else "") + picture
        if self._live is not None:
            self._live.update(self._task, completed=self._done + part, description=printable(text, one_line=True))
        elif not self._quiet and time.monotonic() - self._said >= PLAIN_INTERVAL_S:
            self._said = time.monotonic()
            print(self._line(text, part), file=sys.stderr, flush=True)

    def _line(self, text: str, part: float) -> str:
        elapsed = time.monotonic() - self._started
        share = (self._done + part) / self._total if self._total else 0.0
        left = f", about {duration_text(elapsed * (1 - share) / share * 1e9)} left" if share > 0.01 else ""
        return f"naslab: {len(self._ended)} of {len(self._cells)} cells, {share:.0%}{left}: {text}"


def _work(cell: CellSpec) -> float:
    """Work of a cell in bytes; a timed cell counts as TIMED_WORK_PER_S for each second."""
    if cell.duration_ns:
        return (cell.duration_ns + cell.warmup_ns) / 1e9 * TIMED_WORK_PER_S
    return float(cell.planned_bytes())
