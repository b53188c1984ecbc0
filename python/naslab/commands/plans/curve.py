"""Loads of a curve: a look at what a closed loop reaches, then rising open loops, then more where it bends.

A load is offered in PARTS cells of equal length, so that its spread is known. The files are written once, before
the closed loops; loads of one stage are planned together and the stage is cut short when one of them saturates
the target.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from naslab.commands.plans.sweep import worker_files
from naslab.errors import UsageError
from naslab.spec import CellSpec, DataSpec, Durability, PaceSpec, WalkSpec, operation_name

SECOND_NS = 1_000_000_000
FILE_NAME = "naslab.curve"
FILL_RECORD_BYTES, FILL_DEPTH = 1 << 20, 8
PARTS = 8
INTERVALS_PER_PART = 10
PROBE_NS = SECOND_NS
MIN_STEP_NS = SECOND_NS // 2
FIRST_SHARE = 1 / 16
"""The first load, as a share of what the closed loop reached."""
BEYOND = 4.0
"""A ladder goes up to so many times what the closed loop reached, or the last load."""
MAX_STEPS = 60
NEAR = 1.08
"""Neighbouring loads around capacity and knee are at most this factor apart."""
MOST_BETWEEN = 4
LEAST_RATE = 1e-3
MAX_RATE = 1e8


@dataclass
class CurveOptions:
    """What to offer. Sizes in bytes, times in nanoseconds, rates in operations per second over all workers.

    write_pct: share of operations that write, 0 to 100. depth: most operations in flight per worker.
    start_per_s: first load, None: from the closed loop. most_per_s: no load above, None: until saturated.
    rates_per_s: loads to begin with instead of a ladder of its own, ascending: those of a curve to compare with.
    """

    size_bytes: int
    block_bytes: int
    arrivals: Literal["constant", "poisson"] = "constant"
    write_pct: float = 0.0
    random: bool = False
    depth: int = 32
    workers: int = 1
    step_ns: int = 5 * SECOND_NS
    start_per_s: float | None = None
    factor: float = 1.4
    most_per_s: float | None = None
    durability: Durability = "end"
    direct: bool = False
    seed: int = 0
    data: DataSpec = field(default_factory=DataSpec)
    rates_per_s: Sequence[float] = ()

    @property
    def op(self) -> str:
        """Name of the operation."""
        return operation_name(self.write_pct, self.random)

    @property
    def files(self) -> list[str]:
        """A file for each worker."""
        return worker_files(FILE_NAME, self.workers)

    @property
    def part_ns(self) -> int:
        """Length of one part of a load."""
        return self.step_ns // PARTS


@dataclass(frozen=True)
class Seen:
    """What the next loads depend on. p99_ns: of the response time; None without an operation."""

    offered_per_s: float
    achieved_per_s: float
    saturated: bool
    p99_ns: float | None


def check(options: CurveOptions) -> None:
    """Raises UsageError naming the option, the value and the next step."""
    if options.block_bytes < 1:
        raise UsageError("--block 0: an operation moves at least 1 byte, e.g. --block 4k")
    if options.size_bytes < options.block_bytes:
        raise UsageError(f"--size {options.size_bytes}: smaller than --block {options.block_bytes}; give a larger file")
    if options.arrivals not in ("constant", "poisson"):
        raise UsageError(f"--arrivals {options.arrivals!r}: use constant or poisson")
    if options.step_ns < MIN_STEP_NS:
        raise UsageError(f"--step-duration: {options.step_ns / SECOND_NS:g} s is too short; give at least 0.5s")
    first, most = options.start_per_s, options.most_per_s
    if first is not None and most is not None and first > most:
        raise UsageError(f"--start {first:g}: above --max-rate {most:g}; give a lower one")


def parse_rate(text: str, option: str) -> float | None:
    """Operations per second from `500`, `2k` or `2kiops`; None for no text. Raises UsageError."""
    if not text:
        return None
    number = text.strip().lower().removesuffix("iops").removesuffix("/s").strip()
    factor = {"k": 1e3, "m": 1e6}.get(number[-1:], 1.0)
    try:
        found = float(number[:-1] if factor > 1 else number) * factor
    except ValueError:
        found = math.nan
    if not LEAST_RATE <= found <= MAX_RATE:
        raise UsageError(f"{option} {text!r}: write operations per second, e.g. 500, 20k or 1.5m")
    return found


def fill_cell(options: CurveOptions) -> CellSpec:
    """Writes the files whole."""
    record = min(FILL_RECORD_BYTES, options.size_bytes)
    return _cell(
        options, "write", "fill", record, write_fraction=1.0, create="if_missing", remove_before=True,
        queue_depth=min(options.depth, FILL_DEPTH), flush="all", sync="none", cache_state="warm",
    )  # fmt: skip


def probe_cells(options: CurveOptions) -> list[CellSpec]:
    """Closed loops: one operation at a time of one worker, then as many as an open loop may have in flight."""
    alone = _load_cell(options, "probe", workers=1, files=options.files[:1], queue_depth=1, duration_ns=PROBE_NS)
    full = _load_cell(options, "probe", duration_ns=PROBE_NS)
    return [fill_cell(options), alone, full]


def ladder(options: CurveOptions, reached_per_s: float, seen: Sequence[Seen]) -> list[float]:
    """Rising loads: from the first, or on from the highest offered, until far beyond what was reached."""
    given = [rate for rate in options.rates_per_s if _wanted(options, rate)]
    if given and not seen:
        return given[:MAX_STEPS]
    if seen:
        rate = max(one.offered_per_s for one in seen) * options.factor
        end = rate * BEYOND
    else:
        rate = options.start_per_s or first_rate(options, reached_per_s)
        end = max(reached_per_s, rate) * BEYOND
    if options.most_per_s is not None:
        end = options.most_per_s
    room = MAX_STEPS - len(seen)
    rates: list[float] = []
    while rate <= end and len(rates) < room:
        rates.append(rate)
        rate *= options.factor
    offered = max([one.offered_per_s for one in seen] + rates, default=0.0)
    if options.most_per_s is not None and offered < end * 0.999 and len(rates) < room:
        rates.append(end)
    return rates


def _wanted(options: CurveOptions, rate: float) -> bool:
    """Whether --start and --max-rate leave this load in."""
    return (options.start_per_s or 0.0) <= rate <= (options.most_per_s or MAX_RATE)


def first_rate(options: CurveOptions, reached_per_s: float) -> float:
    """A small share of the closed loop's rate, but at least 20 operations in a part where that is not half of it."""
    least = min(20 * SECOND_NS / options.part_ns, reached_per_s / 2)
    return max(reached_per_s * FIRST_SHARE, least, LEAST_RATE)


def lower(options: CurveOptions, seen: Sequence[Seen]) -> list[float]:
    """Falling loads, when even the first one was too much."""
    rate = min(one.offered_per_s for one in seen)
    return [rate / options.factor**step for step in (8, 6, 4, 3, 2, 1)]


def between(seen: Sequence[Seen], knee_per_s: float | None) -> list[float]:
    """Loads that narrow the gaps around the capacity and the knee; empty where they are narrow."""
    ordered = sorted(seen, key=lambda one: one.offered_per_s)
    carried = max(one.achieved_per_s for one in ordered)
    saturated = next((one.offered_per_s for one in ordered if one.saturated), None)
    rates: list[float] = []
    if saturated is not None:
        below = [one.offered_per_s for one in ordered if one.offered_per_s < saturated]
        # Beyond what is carried every load is too much: the gap to look into ends there.
        rates += _spread(below[-1], min(saturated, carried * 1.02)) if below else []
    if knee_per_s is not None:
        offered = [one.offered_per_s for one in ordered]
        left, right = [x for x in offered if x <= knee_per_s], [x for x in offered if x > knee_per_s]
        rates += _spread(left[-1], right[0]) if left and right else []
    return _apart(sorted(rates), [one.offered_per_s for one in ordered])


def _spread(low: float, high: float) -> list[float]:
    """Rates within, at equal ratios of at most NEAR, MOST_BETWEEN of them at most."""
    if high <= low * NEAR:
        return []
    count = min(math.ceil(math.log(high / low) / math.log(NEAR)) - 1, MOST_BETWEEN)
    return [low * (high / low) ** ((i + 1) / (count + 1)) for i in range(count)]


def _apart(rates: Sequence[float], known: Sequence[float]) -> list[float]:
    """Those that no other is within 2 % of."""
    kept: list[float] = []
    for rate in rates:
        if all(abs(rate / other - 1) > 0.02 for other in [*known, *kept]):
            kept.append(rate)
    return kept


def step_cells(options: CurveOptions, rates: Sequence[float], first_step: int) -> list[CellSpec]:
    """PARTS cells of each load. first_step: how many loads there were before, for the seeds."""
    cells: list[CellSpec] = []
    interval_ns = max(options.part_ns // INTERVALS_PER_PART, 1_000_000)
    for at, rate in enumerate(rates, first_step):
        pace = PaceSpec(rate, options.arrivals)
        for part in range(PARTS):
            shared: dict[str, Any] = {"duration_ns": options.part_ns, "pace": pace, "interval_ns": interval_ns}
            cells.append(_load_cell(options, "curve", block=part, seed=options.seed + at * PARTS + part, **shared))
    return cells


def numbered(cells: Sequence[CellSpec], first: int) -> list[CellSpec]:
    """The cells with ids from `first` on."""
    return [dataclasses.replace(cell, id=first + i) for i, cell in enumerate(cells)]


def _load_cell(options: CurveOptions, workload: str, **more: Any) -> CellSpec:
    block = options.block_bytes
    walk = (
        WalkSpec("random", align_bytes=block, len_bytes=options.size_bytes // block * block)
        if options.random
        else WalkSpec("sequential", stride_bytes=block)
    )
    writes = options.write_pct > 0
    return _cell(
        options, options.op, workload, block, write_fraction=options.write_pct / 100, walk=walk,
        sync="all" if writes and options.durability == "each" else "none",
        flush="all" if writes and options.durability != "none" else "none", **more,
    )  # fmt: skip


def _cell(options: CurveOptions, op: str, workload: str, record_bytes: int, **more: Any) -> CellSpec:
    cell: dict[str, Any] = {
        "workers": options.workers, "queue_depth": options.depth, "seed": options.seed, "direct": options.direct,
        "data": options.data, "durability": options.durability, "interval_ns": SECOND_NS // 10,
        "files": options.files, "workload": workload, **more,
    }  # fmt: skip
    return CellSpec(op=op, file_bytes=options.size_bytes, record_bytes=record_bytes, **cell)
