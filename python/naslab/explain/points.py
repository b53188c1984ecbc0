"""What one cell of the ladder says, as numbers with intervals.

An interval here is a within-run one: from means of at least ten batches of the cell's series, with the correlation of
neighbouring batches counted in (long-run variance). It may name a limit, never a difference between targets.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from naslab.analysis.changepoints import batch_mean_ci, noise_of
from naslab.analysis.distributions import t_quantile
from naslab.analysis.series import NS_PER_S, RateSeries
from naslab.analysis.sustained import series_of_cell
from naslab.explain.steps import SMALL_BYTES
from naslab.results.run import Run

LEAST_BATCHES = 10
LEAST_COMPLETIONS = 10
"""Operations that a batch holds at least, where the cell has enough: fewer count the clock, not the server."""
QUICK = (0.1, 0.15, 0.2, 0.25, 0.33)
"""Shares of the mean latency at which quick operations may end."""
SLICES_NS = 250_000_000
"""A batch is so long, where the series has enough: what hands out a rate a tenth of a second at a time (a control
group's limit, a rationed processor) gives some shorter ones all and others nothing."""
HIT = 1.5
"""A batch so many times the usual one had hits among its operations."""
EDGE = 0.1
"""Share of a series at its head that is left out: the pipe fills there."""
STANDING, NOTHING = 0.25, 0.02
"""Bins below the former share of the usual one belong to a stop, where all between its ends are below the latter."""
WAITED = 0.5
"""A request waited for the end of a stop if it took so much of its length."""
LEAST_STALL_NS = 120_000_000
"""Shorter stops are those of a scheduler or a shaper (a processor share is handed out every 100 ms)."""


Latencies = tuple[NDArray[np.float64], NDArray[np.float64]]
"""Of a cell's operations: nanoseconds, and how many took that."""


@dataclass(frozen=True)
class Figure:
    """A value and its 95 % interval within the run. unit: bytes_per_s, iops, ns, bytes, share, cores."""

    value: float
    low: float
    high: float
    unit: str = "bytes_per_s"

    def document(self) -> dict[str, Any]:
        """As it is kept with the run."""
        return {"value": self.value, "unit": self.unit, "ci95": [self.low, self.high]}

    def scaled(self, factor: float, unit: str | None = None) -> Figure:
        """The same times a number."""
        return Figure(self.value * factor, self.low * factor, self.high * factor, unit or self.unit)

    @classmethod
    def exactly(cls, value: float, unit: str) -> Figure:
        """A number that was counted."""
        return cls(value, value, value, unit)


@dataclass(frozen=True)
class Ratio:
    """One figure over another; low and high hold the intervals of both."""

    value: float
    low: float
    high: float


def pooled(figures: Sequence[Figure], weights: Sequence[float] = ()) -> Figure:
    """The mean of figures of one thing, measured apart; weights: such as how long each was measured (all alike)."""
    shares = np.array(weights or [1.0] * len(figures)) / (sum(weights) or len(figures))
    value = float(sum(w * f.value for w, f in zip(shares, figures, strict=True)))
    halves = [w * (f.high - f.low) / 2 for w, f in zip(shares, figures, strict=True)]
    half = float(np.sqrt(sum(h**2 for h in halves)))
    return Figure(value, max(value - half, 0.0), value + half, figures[0].unit)


def ratio(one: Figure, other: Figure) -> Ratio:
    """`one` / `other`. Infinite over 0; at its upper end where `other` may be 0."""
    if other.value <= 0:
        return Ratio(float("inf"), 0.0, float("inf"))
    most = one.high / other.low if other.low > 0 else float("inf")
    return Ratio(one.value / other.value, one.low / other.high, most)


@dataclass(frozen=True)
class Stalls:
    """Times in which nothing moved while it was asked for.

    lost: share of the cell's time. length_ns, every_ns: usual length of one, and from one to the next; 0 with one.
    """

    lost: float
    count: int
    length_ns: int
    every_ns: int


@dataclass(frozen=True)
class Point:
    """One cell. rate, reads, writes in bytes/s; iops; latencies in ns; cpu in cores of the client.

    set_bytes: size of the working set. files: how many. bypass: bypassing the client's cache. crossed: share of
    the bytes that was counted on the wire or, locally, at the disk; None where nobody counts.
    durable: rate until everything was durable, None for reads.
    """

    cell: int
    op: Literal["read", "write", "mixed"]
    random: bool
    record_bytes: int
    depth: int
    workers: int
    files: int
    set_bytes: int
    bypass: bool
    durability: str
    rate: Figure
    iops: Figure
    reads: float
    writes: float
    durable: float | None
    p50_ns: float
    mean_ns: float
    p99_ns: float
    cpu: float
    crossed: float | None
    stalls: Stalls | None
    start_ns: int
    end_ns: int
    quick: float = 0.0
    """Share of the operations that were so much quicker than the mean that something nearer answered them."""
    clients: int = 1
    """How many carried the load out; depth and workers are each one's."""
    cpu_limit: float = 0.0
    """Processors that the client might use, quotas included; 0: not known."""
    throttled: float = 0.0
    """Share of the time in which its control group held it back."""
    steal: float = 0.0
    """Share of all processors' time that the host of a virtual machine took."""
    busiest_worker: float = 0.0
    """Share of a processor that the busiest worker used; 1 where it waits for set times on its processor."""
    others: float = 0.0
    """Processors that anybody else used."""
    waiting: float = 0.0
    """Share of the workers' time in which they waited for a processor."""

    def document(self) -> dict[str, Any]:
        """As it is kept with the run."""
        found = dataclasses.asdict(self)
        found["rate"], found["iops"] = self.rate.document(), self.iops.document()
        return found

    @classmethod
    def from_document(cls, stored: Mapping[str, Any]) -> Point:
        """What `document` kept; fields that only another version knows are left out."""
        known = {each.name for each in dataclasses.fields(cls)}
        figures = {name: _figure(stored[name]) for name in ("rate", "iops")}
        stalls = Stalls(**stored["stalls"]) if stored["stalls"] else None
        kept = {name: value for name, value in stored.items() if name in known}
        return cls(**{**kept, **figures, "stalls": stalls})


def _figure(stored: Mapping[str, Any]) -> Figure:
    return Figure(stored["value"], stored["ci95"][0], stored["ci95"][1], stored["unit"])


def point_of(run: Run, cell: Mapping[str, Any], spec: Any) -> Point:
    """The point of a measured cell. spec: its CellSpec."""
    series = series_of_cell(run, cell)
    quick = _quick(run, cell, float(cell["latency_ns"]["mean"] or 0))
    rate = rate_of(series, cell)
    if (quick or spec.file_bytes > SMALL_BYTES) and spec.pattern != "random" and not spec.writes():
        rate = usual_rate(series) or rate
    kinds = cell["kinds"]
    seconds = max(cell["duration_ns"], 1) / NS_PER_S
    moved = {kind: (kinds.get(kind) or {}).get("bytes", 0) / seconds for kind in ("read", "write")}
    latency = cell["latency_ns"]
    writes = spec.writes()
    op: Literal["read", "write", "mixed"] = "mixed" if cell["op"] == "mixed" else "write" if writes else "read"
    return Point(
        cell=cell["id"], op=op, random=spec.pattern == "random", record_bytes=spec.record_bytes, depth=spec.queue_depth,
        workers=spec.workers, files=len(spec.files), set_bytes=spec.file_bytes, bypass=spec.direct,
        durability=spec.durability, rate=rate, iops=rate.scaled(1 / spec.record_bytes, "iops"),
        reads=moved["read"], writes=moved["write"], durable=cell["durable_bytes_per_s"] if writes else None,
        p50_ns=float(latency["p50"] or 0), mean_ns=float(latency["mean"] or 0), p99_ns=float(latency["p99"] or 0),
        cpu=float(cell["cpu_fraction"]), crossed=_crossed(cell), stalls=_stalls(run, cell, spec),
        start_ns=cell["start_ns"], end_ns=cell["end_ns"], quick=quick,
        clients=(cell.get("clients") or {"count": 1})["count"], **conditions_of(cell),
    )  # fmt: skip


_CONDITIONS = {
    "cpu_limit": "cpu_limit_cores", "throttled": "throttled_fraction", "steal": "steal_fraction",
    "busiest_worker": "busiest_worker_fraction", "others": "others_cores", "waiting": "runnable_wait_fraction",
}  # fmt: skip
"""Fields of a point, and those of a cell's `client` that they come from."""


def conditions_of(cell: Mapping[str, Any]) -> dict[str, float]:
    """What kept the client from its processors; 0 where a cell does not say."""
    client = cell.get("client") or {}
    return {name: float(client.get(field) or 0.0) for name, field in _CONDITIONS.items()}


def rate_of(series: RateSeries, cell: Mapping[str, Any]) -> Figure:
    """Rate of a cell and its interval; by means of batches where the series has enough, else by counting."""
    value = float(cell["throughput_bytes_per_s"])
    ops = max(int(cell["ops"]), 1)
    whole = series.part(min(int(len(series) * EDGE + 1), len(series)), len(series))
    batches = _batches(whole)
    bins = batches if len(batches) >= LEAST_BATCHES else whole
    if len(bins) < LEAST_BATCHES or bins.ops.sum() < 2 * LEAST_BATCHES:
        half = value * min(2.0 / ops + 0.01, 1.0)
        return Figure(value, value - half, value + half)
    rates = bins.rates_bytes_per_s
    low, high = batch_mean_ci(rates, noise_of(rates - np.median(rates)))
    mean, least = float(rates.mean()), 1.0 / max(int(bins.ops.sum()), 1)
    half = max((high - low) / 2 * _less_counting(rates, float(bins.ops.mean())), mean * least)
    return Figure(mean, max(mean - half, 0.0), mean + half)


def _batches(series: RateSeries) -> RateSeries:
    """Bins merged until each holds `LEAST_COMPLETIONS` operations in the mean."""
    if not len(series):
        return series
    return series.merged(max(1, int(np.ceil(LEAST_COMPLETIONS / max(float(series.ops.mean()), 1e-9)))))


def usual_rate(series: RateSeries) -> Figure | None:
    """The rate without the batches that hits made fast: they take next to no time, so most batches are of misses.

    None where the series has too few operations. Value: the slope of the bytes over time by least squares. What hands
    out its bytes in steps would make their number over the time that of the steps that lie in it: 26 steps of a tenth
    of a second were found to be wrong by up to 4 %, their slope by 0.2 %. Interval: of a mean, by the spread of the
    batches that are left (Student's t).
    """
    bins = _batches(series)
    if len(bins) < LEAST_BATCHES:
        return None
    if bins.bin_ns < (wide := min(SLICES_NS, series.duration_ns // LEAST_BATCHES)):
        bins = series.merged(int(wide // series.bin_ns))
    rates = bins.rates_bytes_per_s
    missed = rates <= HIT * np.median(rates)
    rates = rates[missed]
    if not rates.any() or len(rates) < 2:
        return None
    each = int(bins.bin_ns // series.bin_ns)
    value = _slope(series.moved_bytes[: len(bins) * each][np.repeat(missed, each)], series.bin_ns)
    half = t_quantile(0.975, len(rates) - 1) * float(rates.std(ddof=1)) / len(rates) ** 0.5
    return Figure(value, max(value - half, 0.0), value + half)


def _slope(moved_bytes: NDArray[np.int64], bin_ns: int) -> float:
    """Bytes per second of bins: the slope of their sum over time, by least squares."""
    so_far = np.concatenate(([0.0], np.cumsum(moved_bytes, dtype=np.float64)))
    return float(np.polyfit(np.arange(len(so_far)), so_far, 1)[0]) * NS_PER_S / bin_ns


def _less_counting(rates: NDArray[np.float64], ops: float) -> float:
    """Factor on an interval for what counting whole operations adds to each batch but not to their sum.

    An operation that ends just after an edge is missing in one batch and counted in the next: a variance of 1/6
    operation in each batch, and of 1/6 in all of them together.
    """
    variance = float(np.var(rates, ddof=1)) / max(float(rates.mean()), 1.0) ** 2
    if variance <= 0 or ops <= 0:
        return 1.0
    return float(np.sqrt(max(variance - 1 / (6 * ops**2), 0.01 * variance) / variance))


def _is_still(nothing: NDArray[np.bool_]) -> bool:
    """Whether nothing moved between the first and the last bin of a slow stretch, whose ends hold some of the rest.

    Where single requests take longer than a bin, slow ones leave most bins empty, and end in some.
    """
    return bool(nothing.any() and nothing[1:-1].all())


def stalls_of(series: RateSeries, outstanding: int = 1, latencies: Latencies | None = None) -> Stalls | None:
    """Stops in a series whose bins are short enough to show them; None where they are not.

    At the end no request is sent any more, and a single slow one keeps all waiting: a standstill that lasts until then
    is a stop only if most of the `outstanding` requests waited for its end. latencies: (ns, operations); None: unknown.
    """
    if len(series) < 2 * LEAST_BATCHES or series.bin_ns > LEAST_STALL_NS:
        return None
    rates = series.rates_bytes_per_s
    moving = rates[rates > 0]
    usual = float(np.percentile(moving, 75)) if len(moving) else 0.0
    if usual <= 0 or float(np.median(series.ops[rates >= usual / 2])) < 3:
        return None
    standing = rates < STANDING * usual
    last = _at_the_end(standing)
    if last and latencies is not None:
        waited = latencies[1][latencies[0] >= WAITED * last * series.bin_ns].sum()
        until = len(rates) - (last if waited < outstanding / 2 else 0)
        rates, standing = rates[:until], standing[:until]
    lengths, starts = _runs(standing)
    parts = (rates[at : at + length] for at, length in zip(starts, lengths, strict=True))
    still = np.array([_is_still(part < NOTHING * usual) for part in parts], bool)
    stopped = (lengths * series.bin_ns >= LEAST_STALL_NS) & still
    lengths, starts = lengths[stopped], starts[stopped]
    if not len(lengths):
        return Stalls(0.0, 0, 0, 0)
    every = float(np.median(np.diff(starts))) * series.bin_ns if len(starts) > 1 else 0.0
    return Stalls(float(lengths.sum()) / len(rates), len(lengths), int(np.median(lengths) * series.bin_ns), int(every))


def _at_the_end(marks: NDArray[np.bool_]) -> int:
    """Length of the stretch that is true until the end."""
    lengths, starts = _runs(marks)
    return int(lengths[-1]) if len(lengths) and starts[-1] + lengths[-1] == len(marks) else 0


def _stalls(run: Run, cell: Mapping[str, Any], spec: Any) -> Stalls | None:
    """A stop may last beyond the load."""
    series = series_of_cell(run, cell, to_the_end=True)
    return stalls_of(series, spec.queue_depth * spec.workers, _latencies(run, cell))


def _runs(marks: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Lengths and starts of the stretches that are true."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], marks.astype(np.int8), [0]))))
    return (edges[1::2] - edges[::2]).astype(np.int64), edges[::2].astype(np.int64)


def _latencies(run: Run, cell: Mapping[str, Any]) -> Latencies:
    values, counts = run.histogram(cell)
    return np.asarray(values, np.float64), np.asarray(counts, np.float64)


def _quick(run: Run, cell: Mapping[str, Any], mean_ns: float) -> float:
    """Share of operations far below the mean latency, where next to none lie between those and three times as much."""
    if not mean_ns or not cell["ops"] or "write" in cell["kinds"]:
        return 0.0
    values, counts = _latencies(run, cell)
    total = float(counts.sum())
    for edge in QUICK:
        below, next_ = (float(counts[values < times * edge * mean_ns].sum()) for times in (1, 3))
        if below and next_ - below < 0.1 * below:
            return below / total
    return 0.0


def _crossed(cell: Mapping[str, Any]) -> float | None:
    """Share of the bytes seen below the client's cache."""
    if not cell["bytes"]:
        return None
    if cell["wire_bytes"] is not None:
        return float(cell["wire_bytes"] / cell["bytes"])
    read, written = cell["storage_read_bytes"], cell["storage_write_bytes"]
    if read is None or written is None or "write" in cell["kinds"]:
        return None  # a buffered write is counted when pages become dirty
    return float(read / cell["bytes"])
