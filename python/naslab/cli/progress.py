"""Progress on stderr: a live line on a terminal, plain lines elsewhere. Never on stdout."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from naslab.cli.time_left import TimeLeft
from naslab.execution.execute import Hooks
from naslab.results.cell_names import op_words
from naslab.spec import CellSpec
from naslab.text import screen as terminal
from naslab.text.printable import guard_again, printable, raw
from naslab.units import duration_text, rate_text, size_text

PLAIN_INTERVAL_S = 10.0
"""From one line of a log to the next at least."""
TYPICAL_STEPS = 15
"""Of `naslab run`: how many there are follows from what each shows."""
BAR_COLUMNS, REFRESHES_PER_S = 10, 4
SPARKS = "▁▂▃▄▅▆▇█"
SPARK_COLUMNS = 24
"""Columns of the picture of a rate over time: as many as fit beside the rest of the line."""
TIMED_WORK_PER_S = 1e9
"""What a second of a timed cell weighs beside cells counted in bytes; only the bar's evenness hangs on it."""


def describe(cell: CellSpec) -> str:
    """One cell in a few words: `read, 64m file, 4k records`."""
    name = f"{cell.workload} " if cell.workload else ""
    name += op_words(cell.op)
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
    """Shows how far a run is. Use as a context manager and give `hooks` to the execution.

    budget_ns: what the run may take. planned: `cells` are all its cells; else more follow from what these show.
    """

    def __init__(
        self, cells: Sequence[CellSpec], quiet: bool = False, budget_ns: int | None = None, planned: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self._cells: dict[int, CellSpec] = {}
        self._total = 0.0
        self._done = 0.0
        self._part = 0.0
        self._ended: set[int] = set()
        self._quiet = quiet
        self._clock = clock
        self._started = clock()
        self._printed = self._started
        self._live: Any = None
        self._left = TimeLeft(budget_ns / 1e9 if budget_ns else None, planned)
        self._step: tuple[int, str] | None = None
        self._steps = TYPICAL_STEPS
        self._about = ""
        self._rates: list[float] = []
        self._rates_of: int | None = None
        self.add(cells)

    def add(self, cells: Sequence[CellSpec]) -> None:
        """More cells were planned: how many follow is then not known."""
        if self._cells and cells:
            self._left.planned = False
        self._cells.update({cell.id: cell for cell in cells})
        self._total += sum(_work(cell) for cell in cells)

    def drop(self, cells: Sequence[CellSpec]) -> None:
        """Those of these cells that were not measured will not be."""
        gone = [self._cells.pop(cell.id) for cell in cells if cell.id not in self._ended]
        self._total -= sum(_work(cell) for cell in gone)

    def step(self, name: str, last: bool = False) -> None:
        """A step begins; nothing where it is the one under way. last: none follows."""
        number = self._step[0] if self._step else 0
        if self._step and self._step[1] == name:
            return
        self._step = (number + 1, name)
        self._steps = number + 1 if last else max(self._steps, number + 2)
        self._about = ""
        self._show("")

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
        from rich.live import Live

        console = terminal.console_class()(file=raw(sys.stderr))
        self._live = Live(
            console=console, transient=True, refresh_per_second=REFRESHES_PER_S,
            get_renderable=lambda: self._picture_of(console.width),
        )  # fmt: skip
        self._live.start()
        guard_again()  # rich took the streams, and gives them back when it stops

    def _picture_of(self, width: int) -> Any:
        """A bar and the line, in one row of the terminal."""
        from rich.text import Text

        marks = round(BAR_COLUMNS * self._left.share(self._elapsed(), self._share()))
        full, empty = ("█", "·") if terminal.has_blocks() else ("#", ".")
        bar = full * marks + empty * (BAR_COLUMNS - marks)
        text = Text(f"{bar} {printable(self.line(), one_line=True)}", no_wrap=True, overflow="ellipsis")
        text.truncate(max(width - 1, 1), overflow="ellipsis")
        return text

    def _before(self, cell_id: int) -> None:
        self._part = 0.0
        self._show(self._told(cell_id, None))

    def _progress(self, event: dict[str, Any]) -> None:
        cell = self._cells[event["cell"]]
        part = event["elapsed_ns"] / 1e9 * TIMED_WORK_PER_S if cell.duration_ns else event["bytes"]
        self._part = min(float(part), _work(cell))
        self._show(self._told(cell.id, event["bytes_per_s"]) + self._picture(cell, event))

    def _picture(self, cell: CellSpec, event: dict[str, Any]) -> str:
        """The rate so far of a cell that runs for a time, and how much of that time is gone."""
        if not cell.duration_ns or self._step:
            return ""
        if self._rates_of != cell.id:
            self._rates, self._rates_of = [], cell.id
        self._rates.append(event["bytes_per_s"])
        whole = duration_text(cell.duration_ns + cell.warmup_ns)
        slow = f", p99 {duration_text(event['p99_ns'])}" if event.get("p99_ns") else ""
        return f"{slow} {sparkline(self._rates)} {duration_text(event['elapsed_ns'])} of {whole}"

    def _cell(self, cell: dict[str, Any]) -> None:
        self._done += _work(self._cells[cell["id"]])
        self._part = 0.0
        self._ended.add(cell["id"])
        self._show(self._told(cell["id"], cell.get("throughput_bytes_per_s")))

    def _told(self, cell_id: int, rate: float | None) -> str:
        """The cell under way, where there are no steps; its rate."""
        shown = "" if self._step else describe(self._cells[cell_id])
        return shown + (f"{': ' if shown else ''}{rate_text(rate)}" if rate else "")

    def _show(self, about: str) -> None:
        self._about = about
        if self._live is not None or self._quiet or self._clock() - self._printed < PLAIN_INTERVAL_S:
            return
        self._printed = self._clock()
        print(f"naslab: {self.line()}", file=sys.stderr, flush=True)

    def line(self) -> str:
        """`0:42 of 5:00, at most 4 min 50 s left; step 7 of about 15: working set of 2 GiB, 112 MB/s`."""
        elapsed = self._elapsed()
        gone = _clock_text(elapsed)
        if self._left.budget_s is not None:
            gone += f" of {_clock_text(self._left.budget_s)}"
        if self._step:
            number, name = self._step
            of = f"of about {self._steps}" if self._steps > number else f"of {number}"
            what = f"step {number} {of}: {name}{f', {self._about}' if self._about else ''}"
        else:
            what = f"cell {min(len(self._ended) + 1, len(self._cells))} of {len(self._cells)}: {self._about}"
        left = self._left.text(elapsed, self._share())
        return f"{gone}, {f'{left}; ' if left else ''}{what}"

    def _elapsed(self) -> float:
        return self._clock() - self._started

    def _share(self) -> float:
        """Of the work that is planned so far."""
        return (self._done + self._part) / self._total if self._total else 0.0


def _clock_text(seconds: float) -> str:
    """`0:42`, `5:00`, `1:05:00`."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}" if minutes >= 60 else f"{minutes}:{rest:02}"


def _work(cell: CellSpec) -> float:
    """Work of a cell in bytes; a timed cell counts as TIMED_WORK_PER_S for each second."""
    if cell.duration_ns:
        return (cell.duration_ns + cell.warmup_ns) / 1e9 * TIMED_WORK_PER_S
    return float(cell.planned_bytes())
