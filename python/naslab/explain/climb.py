"""Climbs the ladder: one step after another, each planned from what the ones before have shown.

What the server is too slow for is left out, and the climb ends where nothing is open any more.
"""

from __future__ import annotations

import dataclasses
import math
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from naslab.analysis.series import NS_PER_S, RateSeries
from naslab.analysis.sustained import series_of_cell
from naslab.explain import history, security, steps
from naslab.explain.conclusion import conclude, is_stopped
from naslab.explain.evidence import GROWS, LEVEL, Evidence, beyond_rate, memory_gap, memory_rate
from naslab.explain.points import Figure, Point, point_of, ratio
from naslab.explain.steps import LARGE_RECORD, MIDDLE_RECORD, SMALL_RECORD, Bounds, Load, load_cell
from naslab.explain.verdict import WIRE_FRACTION
from naslab.spec import CellSpec

if TYPE_CHECKING:
    from naslab.cli.common import Budget
    from naslab.cli.progress import Progress
    from naslab.execute import Execution

SET_SHARE = 0.6
"""Of the ladder's budget: no larger set is begun after this."""
LEAST_OPS = 60
"""Operations that a timed cell should see, where its share of the budget allows."""
MIXED_OPS = 600
FILE_SHARE, DEBT_SHARE = 0.1, 0.03
"""Of the budget: for writing small files, and for what unstable writes leave to be written."""
CELL_SHARE = 0.02
"""Longest a timed cell may take, as a share of the budget."""
UNCACHED = 0.8
"""A pass below this share of the fastest one is one that memory did not serve."""
NEVER_CACHED, LEAST_SLOW = 0.5, 4
"""So many passes below this share of the reads from memory show that memory holds none of these sets."""
APART = 0.85
"""Sets read at more than this share of the rate from memory: where they begin to be slower is not looked for."""
SETTLED = 0.1
"""Two passes over growing sets within this share of each other: the rate beyond memory is known."""
PASS_NS, PASS_SHARE = 6 * NS_PER_S, 0.05
"""The last pass takes this long, or this share of the budget, where there is room."""
MOST_SET_BYTES = 64 << 30
LEAST_GROWTH = 1.25
"""A set that is not at least so many times the one before is not worth its time, unless there is room for no more."""
NOISY, LONGER, MOST_LONGER = 0.3, 3, 4
"""A rate known to no better than this share is measured again, so many times as long; so often in all."""


@dataclass
class Climb:
    """One ladder under way."""

    execution: Execution
    progress: Progress
    bounds: Bounds
    budget: Budget
    evidence: Evidence
    bypass: bool = False
    stopped: str = "certain"
    _files: int = 1
    _longer: int = 0
    _durable: float = 1.0
    """Bytes a second at which small files became durable: what unstable writes leave behind takes that long."""

    # How a step is measured.

    def going(self, share: float = 1.0) -> bool:
        """Whether a further step may begin."""
        if self.execution.status != "complete":
            self.stopped = "failed"
            return False
        if self.budget.spent(share):
            if share >= 1.0:
                self.stopped = "budget"
            return False
        return True

    def stage(self, step: str, cells: Sequence[CellSpec]) -> list[Point]:
        """Measures cells of a step; their points, those of failed ones left out."""
        first = 1 + max((cell["id"] for cell in self.execution.cells), default=-1)
        # Another order each time: places that were just read would come from memory.
        planned = [
            dataclasses.replace(
                cell, id=first + at, seed=cell.seed + first + at if cell.pattern == "random" else cell.seed
            )
            for at, cell in enumerate(cells)
        ]
        self.progress.add(planned)
        self.execution.stage(planned)
        run = self.execution.store.load(self.execution.run_id)
        by_id = {cell["id"]: cell for cell in run.cells}
        found = [
            point_of(run, by_id[spec.id], spec)
            for spec in planned
            if spec.id in by_id and by_id[spec.id]["status"] != "failed" and by_id[spec.id]["bytes"]
        ]
        self.evidence.points.setdefault(step, []).extend(found)
        return found

    def load(
        self, step: str, record: int = LARGE_RECORD, depth: int = 1, longer: int = 1, **more: Any
    ) -> Point | None:  # fmt: skip
        """One timed load, long enough for its operations; longer: so many times that."""
        wanted = Load(record, depth, bypass=self.bypass, **more)
        duration_ns = longer * self.length_ns(wanted)
        promised = self._most_promised(record) if wanted.write_share and wanted.durability != "each" else None
        if promised and wanted.beside:
            # Bytes would be shared out among reader and writer, and who is through first leaves the other alone.
            duration_ns = min(duration_ns, int(promised / self._writer_rate() * NS_PER_S))
        cell = load_cell(dataclasses.replace(wanted, duration_ns=duration_ns), self.bounds)
        if promised and not wanted.beside:
            cell.stop_bytes = min(promised, cell.stop_bytes or promised)
        found = self.stage(step, [cell])
        return found[0] if found else None

    def _most_promised(self, record: int) -> int:
        """Bytes to write at most that are only promised: what the server then has to write takes as long as now."""
        most = int(DEBT_SHARE * self.budget.limit_ns / NS_PER_S * self._durable_rate(record))
        return max(most, min(LEAST_OPS * record, steps.SMALL_BYTES))

    def _writer_rate(self) -> float:
        """Bytes a second that the last writer wrote alone: beside a reader it writes no faster."""
        alone = [p for p in self.evidence.step("duplex") if p.op == "write"]
        return max(alone[-1].rate.value if alone else 0.0, self._durable)

    def _known(self, step: str, record: int, depth: int, **more: Any) -> Point | None:
        """A timed load; once more and longer where the first try's interval is too wide to compare with anything."""
        found = self.load(step, record, depth, **more)
        if found is None or found.rate.high - found.rate.value <= NOISY * found.rate.value:
            return found
        if self._longer >= MOST_LONGER or not self.going():
            return found
        self._longer += 1
        again = self.load(step, record, depth, longer=LONGER, **more)
        if again is not None:
            self.evidence.points[step].remove(found)
        return again or found

    def _durable_rate(self, record: int) -> float:
        """Bytes a second at which such writes become durable, by what was seen of them."""
        each = self.evidence.durable_writes(record)
        return each[-1].rate.value if each else self._durable

    def length_ns(self, load: Load) -> int:
        """How long a cell should be: its usual length, or enough operations by what is known of their time."""
        known = [p for p in self.evidence.step(*self.evidence.points) if p.op != "mixed" and p.mean_ns > 0]
        beyond = load.set_bytes is not None
        like = [p for p in known if (p.set_bytes > steps.SMALL_BYTES) == beyond] or known
        if not like:
            return self.bounds.cell_ns
        near = min(like, key=lambda p: abs(math.log(p.record_bytes / load.record_bytes)) + 0.1 * (p.op == "write"))
        each = near.mean_ns / max(near.depth, 1) * max(load.record_bytes / near.record_bytes, 1)
        # Random loads beyond memory mix hits and misses: their rate takes more operations to know.
        ops = MIXED_OPS if beyond and load.random else 3 * LEAST_OPS if load.durability == "each" else LEAST_OPS
        wanted = int(ops * each)
        return int(min(max(self.bounds.cell_ns, wanted), max(self.budget.limit_ns * CELL_SHARE, self.bounds.cell_ns)))

    # The ladder.

    def climb(self) -> None:
        """All steps, as far as they are needed and the budget goes."""
        if not self._prepare():
            return
        for step in (
            self.null_call, self.round_trip, self.client_cache, self.depth, self.small_depth, self.connections,
            self.more_clients, self.record, self.duplex, self.writes, self.working_set, self.beyond, self.again,
            self.long, self.rest,
        ):  # fmt: skip
            if not self.going():
                return
            step()
        self.settle()
        security.compare_ways(self)

    def _prepare(self) -> bool:
        """The first small file; False where it would take too much of the budget."""
        look, *larger = steps.first_cells(self.bounds)
        self._write("first", look)
        for cell in larger:
            # Each is four times the one before: a long way makes a small file look slower than a large one is.
            if not self.going() or not self.affords(cell.file_bytes, FILE_SHARE):
                self.stopped = "slow" if self.stopped == "certain" else self.stopped
                return False
            self._write("first", cell)
        return self.going()

    def _has_files(self, count: int) -> bool:
        """Writes small files until there are so many; False where that takes too long."""
        missing = steps.small_files()[self._files : count]
        if missing and not self.affords(len(missing) * steps.SMALL_BYTES, FILE_SHARE):
            return False
        if missing:
            self._write("files", steps.small_cell(self.bounds, missing))
            self._files = count
        return self.going()

    def _write(self, step: str, cell: CellSpec) -> None:
        """Writes files; says no more than how fast that became durable."""
        for point in self.stage(step, [cell]):
            self._durable = point.durable or point.rate.value
        del self.evidence.points[step]

    def affords(self, moved_bytes: float, share: float) -> bool:
        """Whether writing so much, until it is durable, takes at most this share of the budget."""
        return moved_bytes / max(self._durable, 1.0) * NS_PER_S <= share * self.budget.limit_ns

    def null_call(self) -> None:
        """Calls that move no data."""
        with tempfile.TemporaryDirectory(prefix="naslab-") as folder:
            self.stage("null", [steps.null_cell(Path(folder), self.bounds)])
        cell = next(cell for cell in reversed(self.execution.cells) if cell["op"] == "stat")
        latency = (cell["kinds"].get("stat") or {}).get("latency_ns")
        if latency and latency["p50"]:
            self.evidence.null_ns = {name: latency[name] for name in ("p50", "p99", "mean")}

    def round_trip(self) -> None:
        """One small read at a time."""
        self.load("round_trip", SMALL_RECORD, random=True)

    def client_cache(self) -> None:
        """Do bytes cross the wire? If not, later steps go past the client's cache, where the target can."""
        found = self.load("client_cache")
        if found and found.crossed is not None and found.crossed < WIRE_FRACTION and self.bounds.can_bypass:
            self.bypass = True
            self.evidence.points["buffered_round_trip"] = self.evidence.points["round_trip"]
            self.evidence.points["round_trip"] = []
            if self.going():
                self.round_trip()

    def depth(self) -> None:
        """1 MiB reads with more and more in flight, until it is level."""
        self._deepen("depth", LARGE_RECORD, 1, 2, random=False)

    def small_depth(self) -> None:
        """4 KiB reads the same way, in steps of four."""
        self._deepen("small_depth", SMALL_RECORD, 4, 4, random=True)

    def _deepen(self, step: str, record: int, first: int, factor: int, **more: Any) -> None:
        depth, level = min(first, self.bounds.most_depth), 0
        best: Figure | None = None
        while self.going() and level < 2:
            found = self._known(step, record, depth, **more)
            if found is None:
                return
            level = level + 1 if best and ratio(found.rate, best).value < LEVEL else 0
            best = found.rate if best is None or found.rate.value > best.value else best
            if depth >= self.bounds.most_depth:
                return
            depth = min(depth * factor, self.bounds.most_depth)

    def busy_depth(self, record: int) -> int:
        """A depth that is enough, with some to spare."""
        large = record >= MIDDLE_RECORD
        curve = self.evidence.curve("depth", LARGE_RECORD) if large else self.evidence.curve("small_depth", record)
        if not curve:
            return min(8, self.bounds.most_depth)
        top = max(p.rate.value for p in curve)
        enough = next(p for p in curve if p.rate.value >= top / LEVEL)
        return min(2 * enough.depth * (enough.workers if self.bounds.lanes else 1), self.bounds.most_depth)

    def connections(self) -> None:
        """More connections, each with a file of its own; on one file too where that made a difference."""
        if self.bounds.lanes or not self._has_files(steps.MOST_WORKERS):
            return
        for record in (LARGE_RECORD, SMALL_RECORD):
            one = self.evidence.large if record == LARGE_RECORD else self.evidence.small
            best, workers, depth, random = one, 2, self.busy_depth(record), record == SMALL_RECORD
            while one and workers <= steps.MOST_WORKERS and self.going():
                found = self.load("connections", record, depth, workers=workers, random=random)
                if found is None or (best and ratio(found.rate, best.rate).value < LEVEL):
                    break
                best, workers = found, workers * 2
            if best and one and ratio(best.rate, one.rate).value >= GROWS and self.going():
                self.load("same_file", record, depth, workers=best.workers, same_file=True, random=random)

    def more_clients(self) -> None:
        """Large reads by one client, by two, four and so on, where there are several: is it theirs, what limits?"""
        clients = self.execution.target.clients
        most, at = clients.count if clients is not None else 1, 1
        while most > 1 and at < 2 * most and self.going():
            self.load("clients", LARGE_RECORD, self.busy_depth(LARGE_RECORD), clients=min(at, most))
            at *= 2

    def record(self) -> None:
        """64 KiB reads, deep enough for the round trip."""
        depth = min(max(4 * self.busy_depth(MIDDLE_RECORD), self.busy_depth(SMALL_RECORD)), self.bounds.most_depth)
        self.load("record", MIDDLE_RECORD, depth, random=True)
        if self.going():
            self.load("order", SMALL_RECORD, self.busy_depth(SMALL_RECORD))

    def duplex(self) -> None:
        """A reader beside a writer: does what one moves take from the other?"""
        depth = self.busy_depth(LARGE_RECORD)
        self.load("duplex", LARGE_RECORD, depth, write_share=1.0)
        if self.going() and self._has_files(2):
            self.load("duplex", LARGE_RECORD, depth, write_share=0.5, beside=True)

    def writes(self) -> None:
        """Promised and durable writes, large and small, one at a time and many."""
        deep, small = self.busy_depth(LARGE_RECORD), self.busy_depth(SMALL_RECORD)
        for record, depth, durability in (
            (LARGE_RECORD, 1, "none"), (LARGE_RECORD, 1, "each"), (MIDDLE_RECORD, 1, "none"),
            (MIDDLE_RECORD, 1, "each"), (LARGE_RECORD, deep, "end"),
            (LARGE_RECORD, deep, "each"), (SMALL_RECORD, 1, "each"), (SMALL_RECORD, small, "each"),
            (SMALL_RECORD, small, "end"),
        ):  # fmt: skip
            if not self.going():
                return
            # Of the middle size only the time of one is wanted: credit is not spent on it.
            most = 4 * steps.SMALL_BYTES if record == MIDDLE_RECORD else None
            self.load(
                "writes", record, depth, write_share=1.0, random=record == SMALL_RECORD, durability=durability,
                flush=durability == "end", most_bytes=most,
            )  # fmt: skip

    def working_set(self) -> None:
        """Sets that double, until one is not served from memory and the rate beyond is known."""
        size, last = 0, steps.FIRST_SET_BYTES
        depth = min(max(self.busy_depth(LARGE_RECORD), 4), 32, self.bounds.most_depth)
        if not self.affords(last, SET_SHARE / 2):
            return
        while self.going(SET_SHARE) and last <= self._most_set():
            rate = memory_rate(self.evidence) or 1e7
            written = [p.rate.value for p in self.evidence.appends] or [rate]
            self.stage("set", [
                steps.append_cell(size, last, depth, self.bounds, written[-1]),
                steps.pass_cell(last, depth, self.bypass, self.bounds, rate),
            ])  # fmt: skip
            following = self._next_set(last)
            if self._beyond_is_known() or following is None:
                break
            size, last = last, following
        self._find_knee(depth)

    def _most_set(self) -> int:
        room = self.bounds.room_bytes - steps.MOST_WORKERS * steps.SMALL_BYTES
        return min(room, MOST_SET_BYTES, *([8 * self.bounds.most_bytes] if self.bounds.most_bytes else []))

    def _next_set(self, size: int) -> int | None:
        """Twice as large, or as large as there is room for; None where that takes too long to write and to read.

        Where memory holds all so far, the largest that the time left is enough for: any further set may outgrow it.
        """
        passes, appends = self.evidence.passes, self.evidence.appends
        if not passes or not appends:
            return None
        written = min(p.durable or p.rate.value for p in appends[-2:])
        left_s = (self.budget.limit_ns * SET_SHARE - self.spent_ns()) / NS_PER_S
        fits = (left_s + size / written) / (1 / written + 1 / passes[-1].rate.value)
        wanted = min(2 * size, self._most_set())
        if fits < wanted and beyond_rate(self.evidence):
            return None
        following = int(min(wanted, fits)) // LARGE_RECORD * LARGE_RECORD
        return following if following >= min(LEAST_GROWTH * size, wanted) and following > size else None

    def spent_ns(self) -> int:
        """Time of the cells so far, on the target's clock."""
        return sum(cell["end_ns"] - cell["start_ns"] + (cell["flush_ns"] or 0) for cell in self.execution.cells)

    def series(self, point: Point) -> RateSeries:
        """The interval series of a point's cell."""
        run = self.execution.store.load(self.execution.run_id)
        return series_of_cell(run, run.cell(point.cell))

    def moved_bytes(self, cell_id: int) -> int:
        """Bytes that a cell moved."""
        return next(int(cell["bytes"]) for cell in self.execution.cells if cell["id"] == cell_id)

    def _beyond_is_known(self) -> bool:
        """Whether the last two sets were beyond memory, as fast as each other, and the last took long enough.

        A disk whose rate is held gives its bytes in slices of a tenth of a second; a short pass counts few of them.
        """
        memory, passes = memory_rate(self.evidence) or 0.0, self.evidence.passes
        top = max((p.rate.value for p in passes), default=0.0)
        fallen = sum(p.rate.value < UNCACHED * top for p in passes)
        slow = sum(p.rate.value < NEVER_CACHED * memory for p in passes)
        if fallen < 2 and slow < LEAST_SLOW:
            return False
        if passes[-1].end_ns - passes[-1].start_ns < min(PASS_NS, PASS_SHARE * self.budget.limit_ns):
            return False
        return abs(passes[-1].rate.value / passes[-2].rate.value - 1) < SETTLED

    def _find_knee(self, depth: int) -> None:
        """Halves the gap between the largest set in memory and the smallest beyond, while time is left."""
        while (gap := memory_gap(self.evidence)) is not None and gap[1] is not None and self.going(SET_SHARE):
            low, high = gap[0], gap[1]
            beyond, memory = beyond_rate(self.evidence), memory_rate(self.evidence)
            if high <= 1.1 * low or not beyond or not memory or beyond.rate.value > APART * memory:
                return
            middle = int(math.sqrt(low * high)) // LARGE_RECORD * LARGE_RECORD
            rate = memory_rate(self.evidence) or 1e7
            slow = min(p.rate.value for p in self.evidence.passes)
            left_ns = self.budget.limit_ns * SET_SHARE - self.spent_ns()
            if not low < middle < high or 2 * middle / slow * NS_PER_S > left_ns:
                return
            cells = [steps.pass_cell(middle, depth, self.bypass, self.bounds, rate)] * 2
            before = len(self.evidence.points["set"])
            self.stage("set", cells)
            found = self.evidence.points["set"]
            # The first pass brings the set in; it says nothing of whether the set fits.
            self.evidence.points.setdefault("set_taken_in", []).extend(found[before : len(found) - 1])
            del found[before : len(found) - 1]

    def beyond(self) -> None:
        """Small and random reads, and durable small writes, over the largest set."""
        passes = self.evidence.passes
        if not passes:
            return
        size, deep = passes[-1].set_bytes, self.busy_depth(SMALL_RECORD)
        loads: tuple[tuple[int, int, float, bool], ...] = (
            (LARGE_RECORD, 1, 0.0, False), (SMALL_RECORD, 1, 0.0, True), (SMALL_RECORD, min(deep, 32), 0.0, True),
            (MIDDLE_RECORD, min(deep, 32), 0.0, True), (LARGE_RECORD, self.busy_depth(LARGE_RECORD), 0.0, True),
            (SMALL_RECORD, min(deep, 32), 1.0, True),
        )  # fmt: skip
        for record, depth, share, random in loads:
            if not self.going():
                return
            self.load(
                "beyond", record, depth, set_bytes=size, random=random, write_share=share,
                durability="each" if share else "none",
            )  # fmt: skip

    def again(self) -> None:
        """The first reads and writes once more: a rate that fell with the bytes moved was credit."""
        depth = self.busy_depth(LARGE_RECORD)
        self.load("again", LARGE_RECORD, depth)
        if self.going():
            self.load("again", LARGE_RECORD, depth, write_share=1.0)

    def long(self) -> None:
        """A run long enough to leave a burst, where nothing has shown one and time is left."""
        if not self._is_strange():
            history.long_run(self)

    def rest(self) -> None:
        """Reads after a rest: credit comes back, a disk does not become faster."""
        if not self._is_strange():
            history.after_a_rest(self)

    def _is_strange(self) -> bool:
        """Stops make every later comparison one of chance."""
        return is_stopped(self.evidence)

    def settle(self) -> None:
        """Experiments for what is still open, each once, three times as long as usual."""
        further = {"duplex": self.duplex}
        while self.going():
            questions = conclude(self.evidence, runs=1).open
            name = next((question.step for question in questions if question.step in further), None)
            if name is None:
                self.stopped = "open" if questions else "certain"
                return
            usual = self.bounds
            self.bounds = dataclasses.replace(usual, cell_ns=3 * usual.cell_ns)
            further.pop(name)()
            self.bounds = usual
