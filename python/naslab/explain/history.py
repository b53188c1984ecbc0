"""Credit: a rate that depends on what was moved before, not on what is asked for now."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from naslab.analysis.buckets import fit_bucket
from naslab.analysis.series import NS_PER_S
from naslab.analysis.sustained import kinds_of, series_of_cell
from naslab.explain import steps
from naslab.explain.evidence import FALLEN, beyond_rate, memory_rate
from naslab.explain.points import Figure, Point, ratio
from naslab.explain.rows import HEAVY
from naslab.explain.steps import LARGE_RECORD, Load, load_cell
from naslab.spec import CellSpec, WalkSpec
from naslab.units import duration_text, rate_text

if TYPE_CHECKING:
    from naslab.explain.climb import Climb
    from naslab.explain.evidence import Evidence
    from naslab.results.run import Run

RISEN, BUSY_RISEN = 1.2, 2.0
"""A rate so many times that before the rest has come back; of a load that is a processor's, whose rates vary anyway."""
REST_NS = 8 * NS_PER_S
REST_SHARE = 0.04
READ_NS = 3 * NS_PER_S
LEAST_FRESH_BYTES = 16 << 20
SAME, NEAR = 0.05, 0.25
"""Two rates that differ by less are one; a rate of a long run that writes of before went beside, and its level."""
TOLD = 0.5
"""A rate whose interval reaches below this share of it was measured for too short a time to tell anything."""
SPEND = 3
"""Times what came fast after a rest that is read to spend all credit."""
LEFT_SHARE = 0.4
EARNED = 0.5
"""Share of what a rest earns that must be seen again."""
BEYOND = 1.25
"""A rate so many times that of a burst is not limited by it."""
LEAST_BINS = 30
LEAST_OFF = 0.1
"""A smaller share of reads off the disk is the noise of the memory's rate."""
LONG_SHARE = 0.2
LEAST_LONG_NS = 5 * NS_PER_S
SIMULATED_OPS = 2_000_000
"""A simulated long run of more would take the processor for longer than the server: half a million in a second."""
CREDIT_NS = 25 * NS_PER_S
"""Load that is to have spent any credit, a long run included."""
LOADED = 0.5
"""A load at this share of the fastest spends credit."""


def fell(climb: Climb) -> list[str]:
    """What became slower: reads, or writes, that were done first and again, and writes while the set grew."""
    evidence = climb.evidence
    found = ["write"] if _writes_fell(climb) else []
    for op, first in (("read", _first_reads(evidence)), ("write", _first(evidence.step("duplex"), "write"))):
        again = _first(evidence.step("again"), op)
        if first and again and ratio(again.rate, first.rate).high < FALLEN:
            found.append(op)
    return sorted(set(found))


def _first_reads(evidence: Evidence) -> Point | None:
    """The first reads that were done again: at the same depth, where that was measured; else the best."""
    again = _first(evidence.step("again"), "read")
    curve = evidence.curve("depth", LARGE_RECORD)
    like = [p for p in curve if again and p.depth * p.workers == again.depth * again.workers]
    return like[0] if like else evidence.large


def _first(points: list[Point], op: str) -> Point | None:
    return next((p for p in points if p.op == op), None)


def _came_back(climb: Climb) -> bool:
    """Whether a long run of the reads that had fallen went as at first: what slowed them is over, and no credit."""
    evidence = climb.evidence
    first, long = evidence.best(evidence.curve("depth", LARGE_RECORD)), _first(evidence.step("long"), "read")
    if first is None or long is None or long.set_bytes > steps.SMALL_BYTES:
        return False
    return ratio(long.rate, first.rate).low > FALLEN


def _last(points: list[Point]) -> Point | None:
    return points[-1] if points else None


def after_a_rest(climb: Climb) -> None:
    """Rests, then does again what was slow: credit would have come back, and only then it was credit."""
    evidence = climb.evidence
    slow = _slow(climb)
    if slow is None:
        return
    pause = int(min(REST_NS, climb.budget.limit_ns * REST_SHARE))
    climb.stage("rest", [steps.idle_cell(pause, climb.bounds)])
    evidence.points["rest"] = []
    if not climb.going():
        return
    again = _slow_again(climb, slow)
    rested = climb.stage("rest", [again]) if again else []
    fast = _regained(climb, rested[0], slow.rate.value, pause) if rested else None
    known = evidence.burst
    doubtful = fast is not None and _may_be_held(climb, slow, fast)
    if fast is None or again is None or (doubtful and not _comes_with_rests(climb, again, fast, pause)):
        evidence.burst = None  # it fell for good, or not at all: no credit
        return
    early = fast.bytes_per_s
    if known and known["burst_bytes_per_s"] < RISEN * known["base_bytes_per_s"]:
        known = evidence.burst = {**known, "burst_bytes_per_s": early, "burst_ci95": [early, early]}
    if known is None:
        _found(climb, "disk", Figure.exactly(early, "bytes_per_s"), slow.rate, "", ["read"])
        known = evidence.burst
    assert known is not None
    text = f"after {duration_text(pause)} of rest the same {slow.op}s start at {rate_text(early)} again"
    evidence.burst = {**known, "proved": True, "shown_by": text}
    _spread(climb)


def _spread(climb: Climb) -> None:
    """Reads beyond memory at the very rate of spent credit of writes, or at both of its rates: both spend it."""
    evidence, beyond = climb.evidence, beyond_rate(climb.evidence)
    known = evidence.burst
    if known is None or known["scope"] != "disk" or "read" in known["applies_to"] or beyond is None:
        return
    base, burst, both = known["base_bytes_per_s"], known["burst_bytes_per_s"], ["read", "write"]
    levels = any(abs(each.rate.value / burst - 1) < SAME for each in evidence.passes)
    if abs(beyond.rate.value / base - 1) < (NEAR if levels else SAME):
        size = size_bytes(climb, "disk", base, burst, both)
        evidence.burst = {**known, "applies_to": both, "size_bytes": size}


def _slow(climb: Climb) -> Point | None:
    """What is tried again after the rest: what fell, else the reads beyond memory."""
    evidence = climb.evidence
    known = evidence.burst
    if known is None:
        return _beyond_for_long(evidence)
    long = _first(evidence.step("long"), known["spent_by"])
    if long:
        base = Figure(known["base_bytes_per_s"], *known["base_ci95"])
        return dataclasses.replace(long, rate=base)
    if known["scope"] == "link":
        return _first(evidence.step("again"), known["applies_to"][0])
    return beyond_rate(evidence)


def _beyond_for_long(evidence: Evidence) -> Point | None:
    """The reads beyond memory, at the rate of a long run of them where one pass was too short to tell."""
    beyond = beyond_rate(evidence)
    long = _first(evidence.step("long"), "read")
    if beyond is None or long is None or long.set_bytes != beyond.set_bytes:
        return beyond
    return dataclasses.replace(beyond, rate=long.rate) if beyond.rate.low < TOLD * beyond.rate.value else beyond


def _slow_again(climb: Climb, slow: Point) -> CellSpec | None:
    if slow.set_bytes <= steps.SMALL_BYTES or slow.op == "write":
        load = Load(
            LARGE_RECORD, slow.depth, bypass=climb.bypass, duration_ns=READ_NS, write_share=float(slow.op == "write"),
            durability=slow.durability, set_bytes=slow.set_bytes if slow.set_bytes > steps.SMALL_BYTES else None,
        )  # fmt: skip
        return load_cell(load, climb.bounds)
    cell = steps.pass_cell(slow.set_bytes, max(slow.depth, slow.workers), climb.bypass, climb.bounds, slow.rate.value)
    most = int(slow.rate.value * 2 * READ_NS / NS_PER_S) // LARGE_RECORD * LARGE_RECORD
    base, room = _not_held(climb, slow.set_bytes)
    if room < LEAST_FRESH_BYTES:
        return None
    bin_ns = max(READ_NS // steps.BINS, steps.SHORTEST_BIN_NS)
    walk = WalkSpec("sequential", LARGE_RECORD, base_bytes=base, len_bytes=room) if cell.walk is None else cell.walk
    stop = min(room, max(most, LEAST_FRESH_BYTES))
    return dataclasses.replace(cell, stop_bytes=stop, interval_ns=bin_ns, walk=walk)


def _not_held(climb: Climb, set_bytes: int) -> tuple[int, int]:
    """(start, length) of the larger part of the set that no memory holds since the last load went through it.

    Where no end of the memory was seen, it is what follows the last read: that was as slow as what was read before.
    """
    points = [p for p in climb.evidence.step("set", "set_taken_in", "long") if p.set_bytes > steps.SMALL_BYTES]
    last = max(points, key=lambda p: p.cell)
    at = climb.moved_bytes(last.cell) % last.set_bytes or last.set_bytes
    held = climb.evidence.memory_most_bytes
    if last.cell in {p.cell for p in climb.evidence.step("set")}:
        # A short look at the head: what follows it was written, and not read, before the newest bytes.
        start, length = climb.read_bytes, max(set_bytes - held - climb.read_bytes, 0)
    else:
        head, tail = max(at - held, 0), set_bytes - at
        behind = head > tail if held else tail < LEAST_FRESH_BYTES
        start, length = (0, head) if behind else (at, tail)
    return start // LARGE_RECORD * LARGE_RECORD, length // LARGE_RECORD * LARGE_RECORD


@dataclass(frozen=True)
class _Fast:
    """What came fast after a rest: its rate, and how much."""

    bytes_per_s: float
    bytes: int


def _may_be_held(climb: Climb, slow: Point, fast: _Fast) -> bool:
    """Whether a memory may have given what came fast: reads, and no more than it may hold, or nobody knows how much."""
    held = climb.evidence.memory_most_bytes or slow.set_bytes
    return slow.op == "read" and slow.set_bytes > steps.SMALL_BYTES and fast.bytes <= held


def _comes_with_rests(climb: Climb, again: CellSpec, fast: _Fast, pause_ns: int) -> bool:
    """Whether the set's next part is slow without a rest, and the part after that is fast with one.

    None of the three parts was read lately. A memory that happens to hold the first gives nothing of the others, or
    does not wait for the rest.
    """
    if again.walk is None or climb.bounds.lanes or not climb.going():
        return False
    records, before = fast.bytes // LARGE_RECORD, again.walk.base_bytes // LARGE_RECORD
    after = again.file_bytes // LARGE_RECORD - before - records
    at, left = (before + records, after) if after > before else (0, before)
    spending, last = min(SPEND * records, int(left * 0.6)), min(records, int(left * 0.4))
    if min(spending, last) * LARGE_RECORD < LEAST_FRESH_BYTES:
        return False
    cells = [_part(again, at, spending), steps.idle_cell(pause_ns, climb.bounds), _part(again, at + spending, last)]
    found = climb.stage("rest", cells)
    if len(found) < len(cells):
        return False
    without, rested = climb.series(found[0]), climb.series(found[-1])
    tail = without.part(2 * len(without) // 3, len(without)).mean_bytes_per_s()
    return max(tail / fast.bytes_per_s, tail / rested.mean_bytes_per_s()) < FALLEN


def _part(cell: CellSpec, at: int, records: int) -> CellSpec:
    """A cell on so many large records of its file."""
    size = records * LARGE_RECORD
    walk = WalkSpec("sequential", LARGE_RECORD, base_bytes=at * LARGE_RECORD, len_bytes=size)
    return dataclasses.replace(cell, stop_bytes=size, walk=walk)


def _regained(climb: Climb, point: Point, slow: float, pause_ns: int) -> _Fast | None:
    """What came fast after the rest; None where that is less than a rest earns.

    A bucket earns its base rate while nobody asks, so the high rate lasts until that is spent. What happens to be in
    memory is spent much sooner.
    """
    series = climb.series(point)
    if len(series) < 4:
        return None
    if point.op == "write":
        # Durable writes come in gulps, and none are answered by a memory: what was moved beyond the slow rate counts.
        more = (series.mean_bytes_per_s() - slow) * series.duration_ns
        early = series.part(0, len(series) // 4).mean_bytes_per_s()
        spent = min(slow * pause_ns, (early - slow) * series.duration_ns)
        return _Fast(early, int(more)) if more >= EARNED * spent and early >= RISEN * slow else None
    rates = series.rates_bytes_per_s
    early = float(np.median(rates[1 : max(len(rates) // 10, 3)]))
    risen = BUSY_RISEN if climb.evidence.same_machine or point.cpu >= HEAVY else RISEN
    if early <= 0 or early < risen * slow:
        return None
    fast = rates > (early * slow) ** 0.5
    lasted = int(np.argmin(fast)) if not fast.all() else len(rates)
    earned_s = slow * pause_ns / NS_PER_S / (early - slow)
    if lasted * series.bin_ns / NS_PER_S < EARNED * min(earned_s, series.duration_ns / NS_PER_S):
        return None
    return _Fast(early, series.part(0, lasted).total_bytes)


def long_run(climb: Climb) -> None:
    """Loads what is slowest for as long as a fifth of the budget, and looks for a drop that stays.

    First what has fallen already; else reads. When reads fell at the disk, durable writes are tried at once: they may
    have spent the same credit.
    """
    slower = fell(climb)
    for op in ["write"] if slower == ["write"] else ["read", *slower[1:]]:
        if climb.evidence.burst is None and climb.going():
            spent = _long(climb, op)
            known = climb.evidence.burst
            if spent and known:
                _try_other(climb, op)
    if climb.evidence.burst is None and "write" not in slower and _has_time(climb):
        _long(climb, "write")  # credit of writes alone


def _has_time(climb: Climb) -> bool:
    """Whether so much is left that a long run takes no other step's time."""
    return climb.going() and climb.budget.limit_ns - climb.spent_ns() > LEFT_SHARE * climb.budget.limit_ns


def _long(climb: Climb, op: str) -> Point | None:
    """One long run of reads or durable writes."""
    evidence = climb.evidence
    beyond, memory, last = beyond_rate(evidence), evidence.large, _last(evidence.passes)
    small_fell = "read" in fell(climb) and not _came_back(climb)
    point = last if op == "write" else memory if small_fell else beyond or last or memory
    wanted = max(CREDIT_NS - _loaded_ns(evidence, op, point), LEAST_LONG_NS)
    length = int(min(climb.budget.limit_ns * LONG_SHARE, wanted, 0.6 * (climb.budget.limit_ns - climb.spent_ns())))
    if point is not None and evidence.simulated:
        length = min(length, int(SIMULATED_OPS * LARGE_RECORD / point.rate.value * NS_PER_S))
    if point is None or length < min(LEAST_LONG_NS, 20 * climb.bounds.cell_ns):
        return None
    size = point.set_bytes if point.set_bytes > steps.SMALL_BYTES else None
    load = Load(
        LARGE_RECORD, max(point.depth, 1), bypass=climb.bypass, duration_ns=length, set_bytes=size,
        write_share=float(op == "write"), durability="each" if op == "write" else "none",
    )  # fmt: skip
    cell = dataclasses.replace(
        load_cell(load, climb.bounds), interval_ns=min(max(length // 200, steps.SHORTEST_BIN_NS), steps.LONGEST_BIN_NS)
    )
    found = climb.stage("long", [cell])
    if not found:
        return None
    scope = "link" if small_fell or not (beyond or op == "write") else "disk"
    if op == "read":
        rates = [p.rate for p in evidence.passes if p.set_bytes == size] if size else [point.rate]
    else:
        rates = [p.rate for p in evidence.durable_writes(LARGE_RECORD)]
    earlier = max(rates, key=lambda f: f.low, default=point.rate)
    if not _look_for_drop(climb, found[0], scope) and ratio(found[0].rate, earlier).high < FALLEN:
        _found(climb, scope, earlier, found[0].rate, "a long run was slower than the same load before", [op])
    return found[0]


def _loaded_ns(evidence: Evidence, op: str, like: Point | None) -> int:
    """Time of large loads of an operation that were about as fast as the one that is to be made for long."""
    large = [p for p in evidence.step(*evidence.points) if p.op == op and p.record_bytes == LARGE_RECORD]
    if like is None:
        return 0
    cached = like.set_bytes <= steps.SMALL_BYTES
    mine = [p for p in large if op == "write" or (p.set_bytes <= steps.SMALL_BYTES) == cached]
    top = max((p.rate.value for p in mine), default=0.0)
    return sum(p.end_ns - p.start_ns for p in mine if p.rate.value >= LOADED * top)


def _try_other(climb: Climb, spent: str) -> None:
    """Durable writes right after reads that spent credit, or reads beyond memory after writes that did."""
    evidence = climb.evidence
    scope = evidence.burst["scope"] if evidence.burst else "disk"
    size: int | None = None
    before: Point | None
    if scope == "link":
        op = "write" if spent == "read" else "read"
        before = _first(evidence.step("duplex"), "write") if op == "write" else evidence.large
    elif spent == "read":
        op = "write"
        before = _last(evidence.durable_writes(LARGE_RECORD))
    else:
        op, before = "read", beyond_rate(evidence)
        size = before.set_bytes if before else None
    if before is None or not climb.going() or evidence.burst is None or op in evidence.burst["applies_to"]:
        return
    load = Load(
        LARGE_RECORD, before.depth, bypass=climb.bypass, set_bytes=size, write_share=float(op == "write"),
        durability="each" if op == "write" and scope == "disk" else "none", duration_ns=3 * climb.bounds.cell_ns,
    )  # fmt: skip
    now = climb.stage("long", [load_cell(load, climb.bounds)])
    if now and _tail(climb, now[0]) < FALLEN * before.rate.low:
        both = ["read", "write"]
        known = evidence.burst
        size = size_bytes(climb, scope, known["base_bytes_per_s"], known["burst_bytes_per_s"], both)
        evidence.burst = {**evidence.burst, "applies_to": both, "size_bytes": size}


def _tail(climb: Climb, point: Point) -> float:
    """Rate of the last third of a cell: what memory held of its start is then behind it."""
    series = climb.series(point)
    return series.part(2 * len(series) // 3, len(series)).mean_bytes_per_s() if len(series) > 2 else point.rate.value


def _look_for_drop(climb: Climb, point: Point, scope: str) -> bool:
    """Whether there is a drop within the long run, later than what the server's memory may have held of it."""
    series = climb.series(point)
    fit = fit_bucket(series) if len(series) >= LEAST_BINS else None
    held = climb.evidence.memory_most_bytes if scope == "disk" and point.op == "read" else 0
    if fit is None or fit.recovers or fit.burst_bytes <= 1.5 * held:
        return False
    burst, base = fit.burst_bytes_per_s, fit.baseline_bytes_per_s
    _found(
        climb, scope, Figure(burst.value, burst.low, burst.high), Figure(base.value, base.low, base.high),
        f"it fell after {duration_text(fit.dropped_ns)} of a long run and stayed low", [point.op],
    )  # fmt: skip
    return True


def _found(climb: Climb, scope: str, burst: Figure, base: Figure, shown_by: str, ops: list[str]) -> None:
    """Keeps the bucket, with its size from all that was moved since the run began.

    A link whose credit lasts carries no more than its burst rate: where that was exceeded, the bucket is the disk's,
    and what fell beside what spent it tells nothing of it.
    """
    both = sorted({*ops, *fell(climb)})
    beyond = _carried(climb, BEYOND * burst.high)
    if scope == "link" and ops[0] in beyond:
        scope, both = "disk", sorted(ops)
    elif scope == "link":
        both = [op for op in both if op not in beyond]
    climb.evidence.burst = {
        "scope": scope, "applies_to": both, "spent_by": ops[0],
        "burst_bytes_per_s": burst.value, "burst_ci95": [burst.low, burst.high],
        "base_bytes_per_s": base.value, "base_ci95": [base.low, base.high],
        "size_bytes": size_bytes(climb, scope, base.value, burst.value, both), "shown_by": shown_by, "proved": False,
    }  # fmt: skip


def _carried(climb: Climb, rate_bytes_per_s: float) -> set[str]:
    """Operations with a load that surely moved more than this rate."""
    return {p.op for p in climb.evidence.as_it_is() if p.rate.low > rate_bytes_per_s}


def _writes_fell(climb: Climb) -> bool:
    """Whether writes became slower, too, until they were durable."""
    rates = [p.durable for p in climb.evidence.appends if p.durable]
    return len(rates) > 1 and rates[-1] < FALLEN * max(rates[:-1])


def size_bytes(climb: Climb, scope: str, base: float, burst: float, ops: list[str]) -> int | None:
    """Size of a bucket that was full when the run began: the most that any stretch took above the base rate.

    Source: network calculus, an arrival curve's burst (Le Boudec & Thiran 2001, chapter 1). On the link every byte
    counts; at the disk writes and reads beyond memory, and promised writes over and over a small file only once.
    """
    run = climb.execution.store.load(climb.execution.run_id)
    points = {p.cell: p for p in climb.evidence.step(*climb.evidence.points)}
    drained = most = 0.0
    clock: int | None = None
    for cell in run.cells:
        if clock is not None:
            drained = max(drained - base * max(cell["start_ns"] - clock, 0) / NS_PER_S, 0.0)
        point = points.get(cell["id"])
        shares = {"write": 1.0, "read": 1.0}
        if scope == "disk":
            shares = {"write": _reached_disk(climb, cell, point), "read": _off_disk(climb, point, burst)}
        for moved, length_ns in _counted(run, cell, {op: shares[op] for op in ops}):
            drained = max(drained + moved - base * length_ns / NS_PER_S, 0.0)
            most = max(most, drained)
        clock = cell["end_ns"]
    return int(most) or None


def _reached_disk(climb: Climb, cell: dict[str, Any], point: Point | None) -> float:
    """Share of a cell's writes that disks see: a server's memory keeps the last of what is written again and again.

    The simulated server's does not.
    """
    again = point is not None and point.durability != "each" and point.set_bytes <= steps.SMALL_BYTES
    if point is None or not again or climb.evidence.simulated:
        return 1.0
    written = (cell["kinds"].get("write") or {}).get("bytes", 0)
    return min(point.files * point.set_bytes / written, 1.0) if written else 1.0


def _counted(run: Run, cell: dict[str, Any], shares: dict[str, float]) -> list[tuple[float, int]]:
    """(bytes that a bucket saw, length in ns) of the cell's intervals. shares: of each kind's bytes that it sees."""
    kinds = [kind for kind in kinds_of(cell) if kind in shares]
    whole = series_of_cell(run, cell)
    if not len(whole):
        moved = sum(shares[kind] * cell["kinds"][kind]["bytes"] for kind in kinds)
        return [(moved, max(cell["window_ns"], 1))]
    bins = sum((shares[kind] * series_of_cell(run, cell, kind).moved_bytes for kind in kinds), np.zeros(len(whole)))
    return [(float(each), whole.bin_ns) for each in bins]


def _off_disk(climb: Climb, point: Point | None, burst: float) -> float:
    """Share of a load's reads that the disks served, by its rate between theirs and the memory's."""
    memory = memory_rate(climb.evidence) or 0.0
    if point is None or point.set_bytes <= steps.SMALL_BYTES or not 0 < burst < memory:
        return 0.0
    share = (1 / point.rate.value - 1 / memory) / (1 / burst - 1 / memory)
    return min(share, 1.0) * (1 - climb.evidence.held_share(point)) if share > LEAST_OFF else 0.0
