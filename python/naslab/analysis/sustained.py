"""The `sustained` part of a run document: regimes, steadiness, percentiles, cause, cost; and its sentences.

Made from cells that are in the store already.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from msgspec import UnsetType

from naslab.analysis import cached, workingset
from naslab.analysis.buckets import LEAST_RATIO, BucketFit, Estimate, fit_bucket
from naslab.analysis.causes import CauseVerdict
from naslab.analysis.changepoints import find_changes
from naslab.analysis.cost import Cost, Price, RateCost, cost_of
from naslab.analysis.series import NS_PER_S, RateSeries, series_of
from naslab.analysis.steady import SteadyVerdict, judge
from naslab.results.cell import loaded_ns
from naslab.results.cell_names import load_name, op_words
from naslab.results.describe import typed
from naslab.results.parts.sustained import (
    Bucket,
    BurstDocument,
    CacheModeDocument,
    ChangeDocument,
    CostDocument,
    EstimateDocument,
    FindingDocument,
    RateCostDocument,
    Regimes,
    SegmentDocument,
    Steady,
    Sustained,
)
from naslab.results.run import SERIES_COLUMNS
from naslab.units import amount_text, duration_text, rate_text, size_label

if TYPE_CHECKING:
    from naslab.results.run import Run

Kind = Literal["read", "write", "all"]
PERCENTILES: tuple[tuple[str, float], ...] = (
    ("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99), ("p99_9", 0.999), ("p99_99", 0.9999),
    ("p99_999", 0.99999), ("p99_9999", 0.999999), ("p99_99999", 0.9999999), ("p99_999999", 0.99999999),
    ("p99_9999999", 0.999999999),
)  # fmt: skip
"""Names and quantiles, to nine nines."""
_CACHE_WORDS = {
    "cached": "through this machine's cache", "none": "unbuffered, bypassing this machine's cache",
    "remote": "only the server's cache, not this machine's",
    "mmap": "mapped into memory, through this machine's cache",
}  # fmt: skip
_CAUSE_WORDS = {
    "token_bucket": "a token bucket", "write_back_cache": "a write-back cache", "slc_cache": "an SLC cache",
    "thermal_or_drift": "heat or drift", "none": "none: the rate did not drop", "undecided": "undecided",
}  # fmt: skip
STEADY_WORDS = {
    "steady": "Steady", "warm-up": "Steady after a warm-up", "slowdown": "Steady after a slowdown",
    "drifting": "Not steady", "too short": "Too short to call it steady",
}  # fmt: skip
"""What is said of a run by the word of its verdict."""
_MIXED = {"all": "reads and writes", "read": "reads among writes", "write": "writes among reads"}
_SHARING_WORDS = {"shared": "; reads spend it, too", "separate": "; reads do not spend it", "unknown": ""}


def series_of_cell(run: Run, cell: Mapping[str, Any], kind: Kind = "all", to_the_end: bool = False) -> RateSeries:
    """The cell's interval series as rates; only whole intervals of its load. to_the_end: of its window, in which
    what was outstanding was still answered."""
    table = run.series(cell)
    rows = np.column_stack([table[name] for name in SERIES_COLUMNS]).astype(np.int64)
    return series_of(rows, cell["interval_ns"], kind, cell["window_ns"] if to_the_end else loaded_ns(cell))


def kinds_of(cell: Mapping[str, Any]) -> list[Kind]:
    """`read`, `write`, and `all` when there are both."""
    there: list[Kind] = [kind for kind in ("read", "write") if (cell["kinds"].get(kind) or {}).get("ops")]
    return ["all", *there] if len(there) > 1 else there


def regimes_of(run: Run, cell: Mapping[str, Any]) -> list[Regimes]:
    """One entry for each kind of operation; empty when the cell was too short for a whole interval."""
    found = []
    for kind in kinds_of(cell):
        series = series_of_cell(run, cell, kind)
        if len(series) and series.total_bytes:
            found.append(regime(series, cell["id"], kind, percentiles(run, [cell], kind)))
    return found


def regime(series: RateSeries, cell_id: int, kind: Kind, percentiles_ns: Mapping[str, int | None]) -> Regimes:
    """Peaks, plateaus, changes and steadiness of one series."""
    changes = find_changes(series)
    steady = judge(series, changes)
    fit = fit_bucket(series, changes)
    return Regimes(
        cell=cell_id,
        kind=kind,
        best_second_bytes_per_s=series.best_bytes_per_s(),
        mean_bytes_per_s=series.mean_bytes_per_s(),
        burst_bytes_per_s=fit.plateau_bytes_per_s if fit else None,
        baseline_bytes_per_s=fit.baseline_bytes_per_s.value if fit else steady.mean_bytes_per_s or None,
        dropped_ns=fit.dropped_ns if fit else None,
        segments=[
            SegmentDocument(s.start_ns, s.end_ns, s.mean_bytes_per_s, list(s.ci95_bytes_per_s))
            for s in changes.segments
        ],
        changes=[
            ChangeDocument(p.at_ns, p.earliest_ns, p.latest_ns, p.effect, list(p.effect_ci95)) for p in changes.points
        ],
        steady=_steady(steady),
        percentiles_ns=dict(percentiles_ns),
    )


def percentiles(run: Run, cells: Sequence[Mapping[str, Any]], kind: str) -> dict[str, int | None]:
    """Latencies of the cells together, to nine nines, ns; None where a percentile needs more operations."""
    from naslab.results.histogram import decode, merge

    wanted = ("latency:read", "latency:write") if kind == "all" else (f"latency:{kind}",)
    found = [decode(run.blob(cell, name)) for cell in cells for name in wanted if name in run.blob_names(cell)]
    if not found:
        return {name: None for name, _ in PERCENTILES}
    histogram = merge(found)
    values = histogram.quantiles(q for _, q in PERCENTILES)
    # One operation in 1 / (1 - q) is beyond: with fewer the percentile is only the maximum.
    enough = [histogram.total * (1 - q) >= 1 - 1e-6 for _, q in PERCENTILES]
    return {
        name: int(value) if there else None
        for (name, _), value, there in zip(PERCENTILES, values.tolist(), enough, strict=True)
    }


def _steady(found: SteadyVerdict) -> Steady:
    slope, snia = found.slope, found.snia
    return Steady(
        word=found.word,
        is_steady=found.is_steady,
        reason=found.reason,
        window_ns=list(found.window_ns),
        mean_bytes_per_s=found.mean_bytes_per_s,
        warmup_ns=found.warmup_ns,
        needed_ns=found.needed_ns,
        drift=slope.drift if slope else None,
        drift_ci90=list(slope.drift_ci90) if slope else None,
        snia_steady=snia.steady if snia else None,
        snia_range_share=snia.range_share if snia else None,
        snia_excursion_share=snia.excursion_share if snia else None,
    )


def _estimate(found: Estimate) -> EstimateDocument:
    return EstimateDocument(found.value, [found.low, found.high])


def burst_part(verdict: CauseVerdict, op: str, series: RateSeries) -> BurstDocument:
    """What `burst` found. A floor that may be as high as the burst is no finding yet, whatever the probes say."""
    fit, missing = verdict.bucket, list(verdict.missing)
    vague = fit is not None and fit.baseline_bytes_per_s.high >= fit.burst_bytes_per_s.low
    if vague:
        missing.insert(0, "a longer first run: burst and floor may still be the same rate")
    return BurstDocument(
        op=op,
        cause="undecided" if vague else verdict.word,
        findings=[FindingDocument(f.probe, f.text, list(f.supports), list(f.against)) for f in verdict.findings],
        missing=missing,
        sharing="unknown" if vague else verdict.sharing,
        best_second_bytes_per_s=series.best_bytes_per_s(),
        mean_bytes_per_s=series.mean_bytes_per_s(),
        duration_ns=series.duration_ns,
        bucket=None if verdict.bucket is None else _bucket(verdict.bucket),
    )


def _bucket(fit: BucketFit) -> Bucket:
    precision = fit.precision
    return Bucket(
        dropped_ns=fit.dropped_ns,
        burst_bytes_per_s=_estimate(fit.burst_bytes_per_s),
        baseline_bytes_per_s=_estimate(fit.baseline_bytes_per_s),
        size_bytes=_estimate(fit.size_bytes),
        burst_bytes=fit.burst_bytes,
        precision=precision if np.isfinite(precision) else None,
        floor_cv=fit.floor_cv,
        refill_ns=_refill_ns(fit),
    )


def _refill_ns(fit: BucketFit) -> int | None:
    """From empty to full: the size by the baseline."""
    rate = fit.baseline_bytes_per_s.value
    return round(fit.size_bytes.value / rate * NS_PER_S) if rate > 0 else None


def cost_part(price: Price, sustained: float, burst: float | None) -> CostDocument:
    """Cost per MB/s and per TiB moved. Raises UsageError when a rate is not above 0."""
    cost: Cost = cost_of(price, sustained, burst)
    over_time = None if cost.burst is None else _rate_cost(cost.burst)
    return CostDocument(cost.per_hour, cost.per_month, _rate_cost(cost.sustained), over_time)


def _rate_cost(found: RateCost) -> RateCostDocument:
    return RateCostDocument(found.bytes_per_s, found.per_mb_per_s_month, found.per_tib_moved)


def rates_to_pay_for(part: Sustained) -> tuple[float, float | None]:
    """(sustained, burst) of a run: of `naslab burst` where it found both, else of the last load; burst may be None."""
    if part.burst and (bucket := part.burst.bucket):
        return bucket.baseline_bytes_per_s.value, bucket.burst_bytes_per_s.value
    if part.burst:
        return part.burst.mean_bytes_per_s, None
    loads = [r for r in part.regimes if r.kind == "all"] or part.regimes
    if not loads:
        return 0.0, None
    last = loads[-1]
    floor = last.baseline_bytes_per_s or last.mean_bytes_per_s
    burst = last.burst_bytes_per_s
    return floor, burst if burst and burst > LEAST_RATIO * floor else None


# --- in words --------------------------------------------------------------------------------------------


def sentences(document: Mapping[str, Any]) -> list[str]:
    """The run's summary, the main finding first."""
    part = typed(document["sustained"], Sustained)
    cells = {cell["id"]: cell for cell in document["cells"]}
    out: list[str] = []
    if part.burst:
        out += _burst_words(part.burst)
    if part.cached:
        out.append(cached.words(part.cached))
    if part.working_set:
        out.append(workingset.words(part.working_set))
    for found in part.regimes:
        out.append(_regime_words(found, cells[found.cell]))
    out += _durable_words(list(cells.values()))
    out += _cache_mode_words(part.cache)
    if part.cost:
        out.append(_cost_words(part.cost))
    return out or ["Nothing was measured for a whole interval."]


def _regime_words(found: Regimes, cell: Mapping[str, Any]) -> str:
    kind = _MIXED[found.kind] if cell["op"] == "mixed" else op_words(cell["op"])
    head = f"{kind} of {size_label(cell['record_bytes'])} at queue depth {cell['queue_depth']}"
    steady = found.steady
    snia = {None: "too short for it", True: "steady", False: "not steady"}[steady.snia_steady]
    state = f"{STEADY_WORDS.get(steady.word, steady.word)}: {steady.reason}. SNIA's criterion: {snia}"
    if found.burst_bytes_per_s is None:
        rates = f"{rate_text(found.mean_bytes_per_s)}, best second {rate_text(found.best_second_bytes_per_s)}"
    else:
        rates = (
            f"best second {rate_text(found.best_second_bytes_per_s)}, {rate_text(found.burst_bytes_per_s)} "
            f"for {duration_text(found.dropped_ns or 0)}, then {rate_text(found.baseline_bytes_per_s)}"
        )
    return f"{head}: {rates}. {state}."


def _burst_words(burst: BurstDocument) -> list[str]:
    bucket, cause = burst.bucket, burst.cause
    if not bucket:
        text = f"No burst was detected in {duration_text(burst.duration_ns)} of load: {_CAUSE_WORDS[cause]}"
        return [f"{text}; {rate_text(burst.mean_bytes_per_s)} on average."]
    floor, size = bucket.baseline_bytes_per_s, bucket.size_bytes
    rates = (
        f"{burst.op}s burst at {_with_interval(bucket.burst_bytes_per_s, rate_text)} for "
        f"{duration_text(bucket.dropped_ns)}, then {_with_interval(floor, rate_text)}"
    )
    if cause == "token_bucket":
        refill = f", refilled in {duration_text(bucket.refill_ns)}" if bucket.refill_ns else ""
        reads = _SHARING_WORDS[burst.sharing]
        first = f"A token bucket of {_with_interval(size, amount_text)} limits it: {rates}{refill}{reads}."
    elif cause == "undecided":
        missing = "; missing: " + ", ".join(burst.missing) if burst.missing else ""
        first = f"The cause of the drop is undecided{missing}: {rates}."
    else:
        first = f"The burst came from {_CAUSE_WORDS[cause]}, not from a token bucket: {rates}."
    return [first, *(f"Evidence, {f.probe}: {f.text}." for f in burst.findings)]


def _with_interval(found: EstimateDocument, text: Callable[[float], str]) -> str:
    low, high = found.ci95
    return f"{text(found.value)} ({text(low)} to {text(high)})"


def _durable_words(cells: Sequence[Mapping[str, Any]]) -> list[str]:
    told = [c for c in cells if c["workload"] == "sustained" and c["flush_ns"] is not None]
    if not told:
        return []
    last = told[-1]
    return [
        f"The flush after it took {duration_text(last['flush_ns'])}: "
        f"{rate_text(last['durable_bytes_per_s'])} including the flush."
    ]


def _cache_mode_words(cache: CacheModeDocument | UnsetType) -> list[str]:
    """Of a mode that was asked for."""
    if not cache or not cache.asked:
        return []
    base = cache.mode.removesuffix("write-through").rstrip("+") or "cached"
    sync = "; every write is durable when it is acknowledged" if cache.mode.endswith("write-through") else ""
    return [f"Cache mode {cache.mode}: {_CACHE_WORDS[base]}{sync}."]


def _cost_words(cost: CostDocument) -> str:
    def one(name: str, found: RateCostDocument) -> str:
        return f"{name} {found.per_mb_per_s_month:,.4g} per MB/s and month, {found.per_tib_moved:,.4g} per TiB moved"

    parts = [one("sustained", cost.sustained)] + ([one("burst", cost.burst)] if cost.burst else [])
    return f"Cost at {cost.per_month:,.6g} a month: {'; '.join(parts)}."


def regime_name(run: Run, regime: Regimes) -> str:
    """What a series was of: `1 MiB reads`, `64 KiB reads and writes, queue depth 4: the writes`."""
    cell = next((each for each in run.cells if each["id"] == regime.cell), None)
    part = "all operations" if regime.kind == "all" else f"{regime.kind}s"
    if cell is None:
        return part
    return load_name(cell) if cell["op"] != "mixed" else f"{load_name(cell)}: {part}"


def percentile_rows(regimes: Sequence[Regimes]) -> list[tuple[str, list[str]]]:
    """(percentile, a text for each regime) for tables; `-` where too few operations were done, no row where in all."""
    shown = []
    for name, _ in PERCENTILES:
        values = [found.percentiles_ns.get(name) for found in regimes]
        if all(value is None for value in values):
            continue
        label = "p" + name[1:].replace("_", ".", 1)
        shown.append((label, ["-" if value is None else duration_text(value) for value in values]))
    return shown
