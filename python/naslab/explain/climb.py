"""Climbs the ladder: a short fixed opening, then the experiment that tells most by second, until none tells more.

What the server is too slow for is left out. Which experiments there are is in `menu.py`, what each is expected to tell
in `plan.py`.
"""

from __future__ import annotations

import dataclasses
import math
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from naslab.analysis.series import NS_PER_S, RateSeries
from naslab.analysis.sustained import series_of_cell
from naslab.client.procs import others_cores
from naslab.explain import security, steps
from naslab.explain.conclusion import conclude, is_stopped
from naslab.explain.evidence import GROWS, LEVEL, Evidence, memory_rate
from naslab.explain.fitted import posterior_of
from naslab.explain.inference import RUNS, Posterior, infer, updated
from naslab.explain.menu import Experiment, confirmations, menu
from naslab.explain.plan import best_of, likeliest
from naslab.explain.points import Figure, Point, point_of, ratio
from naslab.explain.rows import Rows, rows_of
from naslab.explain.steps import LARGE_RECORD, MIDDLE_RECORD, SMALL_RECORD, Bounds, Load, load_cell
from naslab.explain.verdict import WIRE_FRACTION
from naslab.spec import CellSpec, WalkSpec

if TYPE_CHECKING:
    from naslab.cli.common import Budget
    from naslab.cli.progress import Progress
    from naslab.execution.execute import Execution

LEAST_OPS = 60
"""Operations that a timed cell should see, where its share of the budget allows."""
MIXED_OPS = 600
DEPTH_SHARE = 0.3
"""Of the budget, what the depths of one record size may take."""
LONG_NS, PROPORTIONAL, ALIKE = 20_000_000, 0.9, 1.1
"""A request of so much takes long; a rate that grows with the depth to this share does not yet level off; the slowest
percent of requests takes so many times the usual time where all take as long."""
FILE_SHARE, DEBT_SHARE = 0.1, 0.03
"""Of the budget: for writing small files, and for what unstable writes leave to be written."""
CELL_SHARE = 0.02
"""Longest a timed cell may take, as a share of the budget."""
MOST_SET_BYTES, MOST_SET_DEPTH = 64 << 30, 64
LARGER, SET_SHARE = 1.25, 0.8
"""A set that grows by less tells nothing new; share of the time left that its writing may take."""
NOISY, LONGER, MOST_LONGER = 0.3, 3, 4
"""A rate known to no better than this share is measured again, so many times as long; so often in all."""
DOUBTFUL = 1.6
"""A deeper queue whose rate may be so many times as high is not known to bring no more."""
QUICK_SHARE = 0.02
"""A load that takes less of the budget is quick: one with more requests outstanding may follow."""
FULL, BESIDE_OPS, MOST_NS = 0.5, 12, 1 << 62
"""A writer below this share of its highest rate waits for what was promised before; operations beside a reader."""
QUICK_RUNS, QUICK_PARTICLES = 1, 220
"""Of the sampler, between two experiments; before the last word it runs as often as for a verdict."""
BEFORE_S = 0.5
"""How long other programs are watched before the first load: a hundred ticks of two processors."""
MARGIN = 0.9
"""Share of the time left that an experiment may be expected to take."""


def _is_level(rate: Figure, best: Figure) -> bool:
    """Whether a deeper queue brought no more, and the two are known well enough to say so."""
    found = ratio(rate, best)
    return found.value < LEVEL and found.high < DOUBTFUL


def _only_waits(before: Point | None, found: Point) -> bool:
    """Whether each request of a deeper queue took as long as before, and so long that not every depth can be tried."""
    if before is None or found.mean_ns < LONG_NS:
        return False
    return found.rate.value * before.depth >= PROPORTIONAL * before.rate.value * found.depth


@dataclass
class Climb:
    """One ladder under way."""

    execution: Execution
    progress: Progress
    bounds: Bounds
    budget: Budget
    evidence: Evidence
    bypass: bool = False
    stopped: str = "interrupted"
    """Why it ended; until something else is known, an exception did it."""
    _files: int = 1
    _longer: int = 0
    read_bytes: int = 0
    """Bytes at the head of the set's file that were read; what follows was written once and never read."""
    reread_bytes: int = 0
    """Bytes at the head of the set's file that were read once more."""
    done: set[str] = field(default_factory=set)
    """Experiments that were made."""
    _belief: tuple[Rows, Posterior] | None = None
    _durable: float = 1.0
    """Bytes a second at which small files became durable: what unstable writes leave behind takes that long."""

    # How a step is measured.

    def going(self, share: float = 1.0) -> bool:
        """Whether a further step may begin."""
        if self.execution.status != "complete":
            self.stopped = "interrupted" if self.execution.status == "partial" else "failed"
            return False
        if self.budget.spent(share):
            if share >= 1.0:
                self.stopped = "budget"
            return False
        return True

    def stage(self, step: str, cells: Sequence[CellSpec]) -> list[Point]:
        """Measures cells of a step; their points, those of failed ones left out.

        Cells that want more connections than the server takes are left out, too.
        """
        most = self.execution.connections
        cells = [cell for cell in cells if most is None or cell.workers <= most]
        kept = self.evidence.points.setdefault(step, [])
        if not cells:
            return []
        first = 1 + max((cell["id"] for cell in self.execution.cells), default=-1)
        # Another order each time: places that were just read would come from memory.
        planned = [
            dataclasses.replace(
                cell, id=first + at, seed=cell.seed + first + at if cell.pattern == "random" else cell.seed
            )
            for at, cell in enumerate(cells)
        ]
        self.progress.add(planned)
        self.progress.step(steps.title_of(step, planned))
        self.execution.stage(planned)
        run = self.execution.store.load(self.execution.run_id)
        by_id = {cell["id"]: cell for cell in run.cells}
        found = [
            point_of(run, by_id[spec.id], spec)
            for spec in planned
            if spec.id in by_id and by_id[spec.id]["status"] != "failed" and by_id[spec.id]["bytes"]
        ]
        pauses = {spec.id for spec in planned if spec.burst_gap_ns}  # they have no rate
        kept.extend(p for p in found if p.cell not in pauses)
        return found

    def load(self, step: str, wanted: Load, longer: int = 1) -> Point | None:
        """One timed load, long enough for its operations; longer: so many times that."""
        cell = self.cell_of(wanted, longer)
        found = self.stage(step, [cell])
        if found and cell.walk is not None and wanted.set_bytes:
            self._went_on(cell.walk.base_bytes, self.moved_bytes(found[0].cell))
        return found[0] if found else None

    def _went_on(self, base_bytes: int, moved_bytes: int) -> None:
        """A part of the set was read that nobody had touched for longest."""
        if base_bytes == self.read_bytes:
            self.read_bytes += moved_bytes
        else:
            self.reread_bytes = base_bytes + moved_bytes

    def _untouched_bytes(self, set_bytes: int, duration_ns: int) -> int:
        """Where the part of the set begins that nobody has touched for longest, for a read of that duration.

        The newer half was written after all that was read of smaller sets: a server with room for it still holds it.
        """
        passes = self.evidence.passes
        rate = passes[-1].rate.value if passes else memory_rate(self.evidence) or 0.0
        if self.read_bytes + rate * duration_ns / NS_PER_S <= set_bytes // 2:
            return self.read_bytes
        return self.reread_bytes % set_bytes

    def cell_of(self, wanted: Load, longer: int = 1) -> CellSpec:
        """The cell of a load, long enough for its operations."""
        wanted = dataclasses.replace(wanted, bypass=self.bypass)
        duration_ns = longer * self.length_ns(wanted)
        record = wanted.record_bytes
        promised = self._most_promised(record) if wanted.write_share and wanted.durability != "each" else None
        if promised and wanted.beside:
            # Bytes would be shared out among reader and writer, and who is through first leaves the other alone.
            duration_ns = min(duration_ns, int(promised / self._writer_rate() * NS_PER_S), self._quick_ns(record))
        cell = load_cell(dataclasses.replace(wanted, duration_ns=duration_ns), self.bounds)
        if promised and not wanted.beside:
            cell.stop_bytes = min(promised, cell.stop_bytes or promised)
        if wanted.set_bytes and not wanted.random and not wanted.write_share and cell.workers == 1:
            # What was read before may lie in memory, whatever the size of the set.
            base = self._untouched_bytes(wanted.set_bytes, duration_ns)
            cell.walk = WalkSpec("sequential", record, base_bytes=base, len_bytes=wanted.set_bytes - base)
        return cell

    def _most_promised(self, record: int) -> int:
        """Bytes to write at most that are only promised: what the server then has to write takes as long as now."""
        most = int(DEBT_SHARE * self.budget.limit_ns / NS_PER_S * self._durable_rate(record))
        return max(most, min(LEAST_OPS * record, steps.SMALL_BYTES))

    def _writer_rate(self) -> float:
        """Bytes a second that the last writer wrote alone: beside a reader it writes no faster."""
        alone = [p for p in self.evidence.step("duplex") if p.op == "write"]
        return max(alone[-1].rate.value if alone else 0.0, self._durable)

    def _quick_ns(self, record: int) -> int:
        """How long a writer beside a reader goes on as fast as the server promises; its own rate would hide what both
        share. Half of the time that the last writer alone had, or what enough operations take.
        """
        alone = [p for p in self.evidence.step("duplex") if p.op == "write"]
        series = self.series(alone[-1]) if alone else None
        rates = series.rates_bytes_per_s if series else np.zeros(0)
        if series is None or not len(rates) or rates.mean() >= FULL * rates.max():
            return MOST_NS
        slow = np.flatnonzero(rates < FULL * rates.max())
        quick_ns = max(int(slow[0]), 1) * series.bin_ns
        return int(max(quick_ns / 2, BESIDE_OPS * record / rates.max() * NS_PER_S))

    def _known(self, step: str, load: Load) -> Point | None:
        """A timed load; once more and longer where the first try's interval is too wide to compare with anything.

        Few requests of one long time each are known by that time.
        """
        found = self.load(step, load)
        if found is None or found.rate.high - found.rate.value <= NOISY * found.rate.value:
            return found
        if found.mean_ns >= LONG_NS and found.p99_ns <= ALIKE * found.p50_ns:
            return found
        if self._longer >= MOST_LONGER or not self.going():
            return found
        self._longer += 1
        again = self.load(step, load, LONGER)
        if again is not None:
            self.evidence.points[step].remove(found)
            self.evidence.aside.append(found)
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
        if not load.write_share and not beyond:
            each = min(each, load.record_bytes / self._durable * NS_PER_S)  # reads are no slower than durable writes
        # Random loads beyond memory mix hits and misses: their rate takes more operations to know.
        ops = MIXED_OPS if beyond and load.random else 3 * LEAST_OPS if load.durability == "each" else LEAST_OPS
        wanted = int(ops * each)
        return int(min(max(self.bounds.cell_ns, wanted), max(self.budget.limit_ns * CELL_SHARE, self.bounds.cell_ns)))

    # The ladder.

    def climb(self) -> None:
        """The opening, then experiments as long as they tell something and the budget goes."""
        if not self._prepare():
            return
        for step in (
            self.null_call, self.round_trip, self.client_cache, self.depth, self.small_depth, self.more_clients,
            self.first_writes, self.refused_writes,
        ):  # fmt: skip
            if not self.going():
                return
            step()
        self.explore()
        security.compare_ways(self)

    def explore(self) -> None:
        """The experiment that tells most by second, again and again; where none does, what confirms; then once more.

        The last look is by as many runs of the sampler as a verdict: one alone may have missed an explanation.
        """
        confirmed = False
        while self.going():
            chosen = self._next(whole=False)
            if chosen is None and not confirmed:
                confirmed = True
                for each in confirmations(self, self._believed_kinds()):
                    if self.going():
                        self._make(each)
                continue
            chosen = chosen or self._next(whole=True)
            if chosen is None:
                self.stopped = "open" if conclude(self.evidence).open else "certain"
                return
            self._make(chosen)

    def _make(self, experiment: Experiment) -> None:
        self.done.add(experiment.key)
        experiment.run()

    def _next(self, whole: bool) -> Experiment | None:
        """The most telling experiment; None where none is worth its time. whole: by a posterior as for a verdict."""
        rows = rows_of(self.evidence)
        if rows is None or self.evidence.protocol == "null":
            return None
        left_s = MARGIN * (self.budget.limit_ns - self.spent_ns()) / NS_PER_S
        return best_of(menu(self), posterior_of(rows, RUNS) if whole else self._believed(rows), rows, left_s)

    def _believed(self, rows: Rows) -> Posterior:
        """A posterior that is good enough to choose the next experiment by."""
        before = self._belief
        found = updated(before[1], before[0], rows) if before else infer(rows, QUICK_RUNS, QUICK_PARTICLES)
        self._belief = (rows, found)
        return found

    def _believed_kinds(self) -> set[str]:
        """The likeliest limit of each kind of I/O."""
        return set(likeliest(self._belief[1], self._belief[0])) if self._belief else set()

    def is_strange(self) -> bool:
        """Stops make every later comparison one of chance."""
        return is_stopped(self.evidence)

    def _prepare(self) -> bool:
        """The first small file; False where it would take too much of the budget."""
        look, *larger = steps.first_cells(self.bounds)
        self._write("first", look)
        for cell in larger:
            # Each is four times the one before: a long way makes a small file look slower than a large one is.
            if not self.going():
                return False
            if not self.affords(cell.file_bytes, FILE_SHARE):
                self.stopped = "slow"
                return False
            self._write("first", cell)
        return self.going()

    def has_files(self, count: int) -> bool:
        """Writes small files until there are so many; False where that takes too long."""
        missing = steps.small_files()[self._files : count]
        if missing and not self.affords(len(missing) * steps.SMALL_BYTES, FILE_SHARE):
            return False
        if missing:
            self._write("files", steps.small_cell(self.bounds, missing))
            most = self.execution.connections
            for name in missing if most is not None and most < len(missing) else ():
                if self.going():
                    self._write("files", steps.small_cell(self.bounds, [name]))
            self._files = count
        return self.going()

    def _write(self, step: str, cell: CellSpec) -> None:
        """Writes files; says no more than how fast that became durable."""
        for point in self.stage(step, [cell]):
            self._durable = point.durable or point.rate.value
        self.evidence.aside += self.evidence.points.pop(step)

    def affords(self, moved_bytes: float, share: float) -> bool:
        """Whether writing so much, until it is durable, takes at most this share of the budget."""
        return moved_bytes / max(self._durable, 1.0) * NS_PER_S <= share * self.budget.limit_ns

    def write_s(self, moved_bytes: int) -> float:
        """Seconds to write so much, until it is durable."""
        return moved_bytes / max(self._durable, 1.0)

    def null_call(self) -> None:
        """Calls that move no data; before them, what other programs do to this client's processors anyway."""
        if not self.evidence.simulated and self.execution.target.clients is None:
            self.evidence.before_cores = others_cores(BEFORE_S)
        self._null_calls(steps.NULL_CALLS)
        known = self.evidence.null_ns
        if known and steps.NULL_CALLS * known["mean"] < steps.NULL_NS and self.going():
            self._null_calls(min(int(steps.NULL_NS / known["mean"]), steps.MOST_NULL_CALLS))

    def _null_calls(self, count: int) -> None:
        with tempfile.TemporaryDirectory(prefix="naslab-") as folder:
            self.stage("null", [steps.null_cell(Path(folder), self.bounds, count)])
        cell = next(cell for cell in reversed(self.execution.cells) if cell["op"] == "stat")
        latency = (cell["kinds"].get("stat") or {}).get("latency_ns")
        if latency and latency["p50"]:
            self.evidence.null_ns = {name: latency[name] for name in ("p50", "p99", "mean")}

    def refused_writes(self) -> None:
        """Does the way to the server carry more than its disks take? Only a server can refuse what came over a network,
        and NFS 3 knows no file that is open for reading alone."""
        if not self.bounds.refuses or not self.evidence.null_ns:
            return
        with tempfile.TemporaryDirectory(prefix="naslab-") as folder:
            self.stage("refused", [steps.refused_cell(Path(folder), self.bounds, self._durable)])
        cell = self.execution.cells[-1]
        found = cell["kinds"].get("write") if cell["status"] == "complete" else None
        if found and found["ops"] and not found["bytes"]:
            self.evidence.refused_bytes_per_s = steps.LARGE_RECORD / found["latency_ns"]["mean"] * NS_PER_S

    def round_trip(self) -> None:
        """One small read at a time."""
        self.load("round_trip", Load(SMALL_RECORD, random=True))

    def client_cache(self) -> None:
        """Do bytes cross the wire? If not, later steps go bypassing the client's cache, where the target can."""
        found = self.load("client_cache", Load())
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
        depth, level, begun_ns = min(first, self.bounds.most_depth), 0, self.spent_ns()
        best: Figure | None = None
        last: Point | None = None
        while self.going() and level < 2 and self.spent_ns() - begun_ns < DEPTH_SHARE * self.budget.limit_ns:
            found = self._known(step, Load(record, depth, **more))
            if found is None:
                return
            level = level + 1 if best and _is_level(found.rate, best) else 0
            best = found.rate if best is None or found.rate.value > best.value else best
            if depth >= self.bounds.most_depth:
                return
            depth = min(depth * (factor**2 if _only_waits(last, found) else factor), self.bounds.most_depth)
            last = found

    def busy_depth(self, record: int) -> int:
        """A depth that is enough, with some to spare."""
        large = record >= MIDDLE_RECORD
        curve = self.evidence.curve("depth", LARGE_RECORD) if large else self.evidence.curve("small_depth", record)
        if not curve:
            return min(8, self.bounds.most_depth)
        top = max(p.rate.value for p in curve)
        enough = next(p for p in curve if p.rate.value >= top / LEVEL)
        return min(2 * enough.depth * (enough.workers if self.bounds.lanes else 1), self.bounds.most_depth)

    def connections(self, record: int) -> None:
        """More connections, each with a file of its own; on one file too where that made a difference."""
        if not self.has_files(steps.MOST_WORKERS):
            return
        one = self.evidence.large if record == LARGE_RECORD else self.evidence.small
        best, workers, depth, random = one, 2, self.busy_depth(record), record == SMALL_RECORD
        while one and workers <= steps.MOST_WORKERS and self.going():
            found = self.load("connections", Load(record, depth, workers, random=random))
            if found is None or (best and ratio(found.rate, best.rate).value < LEVEL):
                break
            best, workers = found, workers * 2
        if best and one and ratio(best.rate, one.rate).value >= GROWS and self.going():
            self.load("same_file", Load(record, depth, best.workers, same_file=True, random=random))

    def more_clients(self) -> None:
        """Large reads by one client, by two, four and so on, where there are several: is it theirs, what limits?"""
        clients = self.execution.target.clients
        most, at = clients.count if clients is not None else 1, 1
        while most > 1 and at < 2 * most and self.going():
            self.load("clients", Load(LARGE_RECORD, self.busy_depth(LARGE_RECORD), clients=min(at, most)))
            at *= 2

    def first_writes(self) -> None:
        """Large writes until they are durable, and small ones each by itself: what the write classes are judged by.

        As many are outstanding as keep reads busy. What limits reads need not limit writes, so more small ones follow,
        as long as that is quick and brings more.
        """
        large = Load(LARGE_RECORD, self.busy_depth(LARGE_RECORD), write_share=1.0, durability="end", flush=True)
        if self.going():
            self.load("writes", large)
        depth, last = self.busy_depth(SMALL_RECORD), None
        while self.going():
            found = self.load("writes", Load(SMALL_RECORD, depth, write_share=1.0, random=True, durability="each"))
            grew = found is not None and (last is None or ratio(found.rate, last).value >= GROWS)
            if found is None or not grew or depth == self.bounds.most_depth:
                return
            if found.end_ns - found.start_ns > QUICK_SHARE * self.budget.limit_ns:
                return
            depth, last = min(4 * depth, self.bounds.most_depth), found.rate

    # The working set.

    @property
    def set_bytes(self) -> int:
        """Size of the set's file; 0 before it is there."""
        return max((p.set_bytes for p in self.evidence.step("set")), default=0)

    def set_depth(self) -> int:
        """Requests outstanding in passes over the set."""
        return min(max(self.busy_depth(LARGE_RECORD), 4), MOST_SET_DEPTH, self.bounds.most_depth)

    def next_set_bytes(self) -> int | None:
        """Twice as large, or as large as there is room and time for; None where that is hardly larger than it is."""
        limits = (self.most_set_bytes(), self.set_bytes + self.affordable_bytes())
        wanted = min(2 * self.set_bytes or steps.FIRST_SET_BYTES, *limits) // LARGE_RECORD * LARGE_RECORD
        return wanted if wanted >= max(LARGER * self.set_bytes, LARGE_RECORD) else None

    def affordable_bytes(self) -> int:
        """How much more may be written in the time that is left, with some for reading it."""
        left_s = max(self.budget.limit_ns - self.spent_ns(), 0) / NS_PER_S
        return int(SET_SHARE * left_s * self._durable)

    def most_set_bytes(self) -> int:
        """As large as the set may become."""
        room = self.bounds.room_bytes - steps.MOST_WORKERS * steps.SMALL_BYTES
        return min(room, MOST_SET_BYTES, *([8 * self.bounds.most_bytes] if self.bounds.most_bytes else []))

    def growth_cells(self, to_bytes: int) -> list[CellSpec]:
        """Writes the set's file on to a size, and reads a part of its head that was never read before.

        What was written longest ago leaves a memory first, so a short look tells whether it holds the whole set.
        """
        return [self._append_cell(to_bytes), self.look_cell(to_bytes)]

    def _append_cell(self, to_bytes: int) -> CellSpec:
        written = [p.rate.value for p in self.evidence.appends] or [memory_rate(self.evidence) or 1e7]
        return steps.append_cell(self.set_bytes, to_bytes, self.set_depth(), self.bounds, written[-1])

    def look_cell(self, set_bytes: int, seconds: float | None = None) -> CellSpec:
        """Reads what follows the part of the set's head that was read; for so long at most."""
        passes = self.evidence.passes
        rate = passes[-1].rate.value if passes else memory_rate(self.evidence) or 1e7
        length_ns = 2 * self.bounds.cell_ns if seconds is None else int(seconds * NS_PER_S)
        wanted = int(max(memory_rate(self.evidence) or 0.0, rate) * length_ns / NS_PER_S)
        unread = set_bytes - self.read_bytes
        # Of the older half; where that was read already, of the older half of what was not.
        room = unread if seconds is not None else max(set_bytes // 2 - self.read_bytes, min(wanted, unread // 2))
        length = max(min(wanted, room) // LARGE_RECORD, 1) * LARGE_RECORD
        cell = steps.pass_cell(
            set_bytes, self.set_depth(), self.bypass, self.bounds, rate, (self.read_bytes, length)
        )  # fmt: skip
        cell.duration_ns = 2 * length_ns
        return cell

    def grow(self, to_bytes: int) -> None:
        """A larger working set."""
        self.stage("set", self.growth_cells(to_bytes)[:1])
        self.look(to_bytes)

    def look(self, set_bytes: int, seconds: float | None = None) -> None:
        """Reads a part of the set that was never read."""
        cell = self.look_cell(set_bytes, seconds)
        for point in self.stage("set", [cell]):
            self.read_bytes += self.moved_bytes(point.cell)

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
