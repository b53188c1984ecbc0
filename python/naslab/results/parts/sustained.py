"""The part of the run document that `naslab sustained` makes."""

from typing import Annotated, Literal

from msgspec import UNSET, UnsetType

from naslab.results.describe import Bytes, BytesPerS, Count, Interval, Ns, Number, Part, Sentence, Word, about
from naslab.results.parts.cached import Cached, WorkingSet


class SegmentDocument(Part):
    """Segment."""

    start_ns: Annotated[Ns, about("from the start of the series")]
    end_ns: Annotated[Ns, about("from the start of the series")]
    mean_bytes_per_s: Annotated[BytesPerS, about("mean rate")]
    ci95_bytes_per_s: Annotated[Interval, about("95 % interval of the mean: low, high", "bytes/s")]


class ChangeDocument(Part):
    """Change."""

    at_ns: Annotated[Ns, about("from the start of the series")]
    earliest_ns: Annotated[int, about("start of its 95 % interval", "ns")]
    latest_ns: Annotated[Ns, about("end of its 95 % interval")]
    effect: Annotated[float, about("rate after / rate before - 1")]
    effect_ci95: Annotated[Interval, about("95 % interval of the effect: low, high")]


class Steady(Part):
    """Steadiness."""

    word: Annotated[Literal["steady", "drifting", "warm-up", "slowdown", "too short"], about("kind of run")]
    is_steady: Annotated[bool, about("the stretch after the last change has no slope beyond 5 %")]
    reason: Annotated[Sentence, about("why, with numbers")]
    window_ns: Annotated[list[Ns], about("that stretch: start, end")]
    mean_bytes_per_s: Annotated[BytesPerS, about("over it")]
    warmup_ns: Annotated[Ns, about("cut at its head by MSER-5")]
    needed_ns: Annotated[Ns | None, about("how long it should be for a verdict; null: long enough")]
    drift: Annotated[float | None, about("rise of the best line over it / mean; null: too short for one")]
    drift_ci90: Annotated[Interval | None, about("90 % interval of the drift: low, high")]
    snia_steady: Annotated[bool | None, about("SNIA's rule on five rounds: range at most 20 %, rise at most 10 %")]
    snia_range_share: Annotated[float | None, about("its range / mean")]
    snia_excursion_share: Annotated[float | None, about("its rise / mean")]


class Regimes(Part):
    """Regimes."""

    cell: Annotated[Count, about("id of the cell (of the last one, where several make one series)")]
    kind: Annotated[Literal["read", "write", "all"], about("operations in the series")]
    best_second_bytes_per_s: Annotated[BytesPerS, about("highest rate over any second")]
    mean_bytes_per_s: Annotated[BytesPerS, about("over the whole series")]
    burst_bytes_per_s: Annotated[BytesPerS | None, about("plateau before the rate dropped; null: it did not")]
    baseline_bytes_per_s: Annotated[BytesPerS | None, about("after the drop, or of the steady part")]
    dropped_ns: Annotated[Ns | None, about("when it dropped, from the start")]
    segments: Annotated[list[SegmentDocument], about("stretches of one mean rate, in order")]
    changes: Annotated[list[ChangeDocument], about("changes between them")]
    steady: Annotated[Steady, about("whether the end is steady")]
    percentiles_ns: Annotated[
        dict[str, Number | None],
        about("latency by name, p50 to p99_9999999 (nine nines), in ns; null: too few operations to have one"),
    ]


class EstimateDocument(Part):
    """Estimate."""

    value: Annotated[float, about("in the unit of the field")]
    ci95: Annotated[Interval, about("95 % interval: low, high")]


class Bucket(Part, kw_only=True):
    """Bucket."""

    dropped_ns: Annotated[Ns, about("when the burst ended, from the start of the load")]
    burst_bytes_per_s: Annotated[EstimateDocument, about("rate of the burst", "bytes/s")]
    baseline_bytes_per_s: Annotated[EstimateDocument, about("rate after it, and of refilling", "bytes/s")]
    size_bytes: Annotated[EstimateDocument, about("moved above the baseline", "bytes")]
    burst_bytes: Annotated[Bytes, about("all that was moved until it ended")]
    precision: Annotated[Number | None, about("larger relative half-width of baseline and size; null: not known yet")]
    floor_cv: Annotated[
        Number | UnsetType, about("standard deviation of the rate after the drop, as a share of it")
    ] = UNSET
    refill_ns: Annotated[Ns | None, about("size by baseline: time to fill it again")]


class FindingDocument(Part):
    """Finding."""

    probe: Annotated[Word, about("the experiment")]
    text: Annotated[Sentence, about("what came out")]
    supports: Annotated[list[Word], about("causes that it supports")]
    against: Annotated[list[Word], about("causes that it rules out")]


class BurstDocument(Part, kw_only=True):
    """Burst."""

    op: Annotated[Word, about("read or write")]
    cause: Annotated[
        Literal["token_bucket", "write_back_cache", "slc_cache", "thermal_or_drift", "none", "undecided"],
        about("why the rate dropped"),
    ]
    findings: Annotated[list[FindingDocument], about("the evidence")]
    missing: Annotated[list[Sentence], about("experiments that would decide it, as text")]
    sharing: Annotated[
        Literal["shared", "separate", "unknown"],
        about("of a bucket that writes spend: whether reads spend it, too; unknown for all else"),
    ] = "unknown"
    best_second_bytes_per_s: Annotated[BytesPerS, about("highest rate over any second of the first run")]
    mean_bytes_per_s: Annotated[BytesPerS, about("of the first run")]
    duration_ns: Annotated[Ns, about("length of the first run")]
    bucket: Annotated[Bucket | None, about("burst and floor as a token bucket's; null: the rate did not drop")]


class RateCostDocument(Part):
    """Cost at a rate."""

    bytes_per_s: Annotated[BytesPerS, about("the rate")]
    per_mb_per_s_month: Annotated[Number, about("a month's cost per MB/s (10^6)")]
    per_tib_moved: Annotated[Number, about("cost of the time that 2^40 bytes take")]


class CostDocument(Part):
    """Cost."""

    per_hour: Annotated[Number, about("of the server, in the currency given")]
    per_month: Annotated[Number, about("of the server for 730 hours")]
    sustained: Annotated[RateCostDocument, about("at the rate it holds")]
    burst: Annotated[RateCostDocument | None, about("at the burst's rate; null: no burst")]


class CacheModeDocument(Part):
    """Cache mode."""

    mode: Annotated[Word, about("cached, none, remote or mmap; write-through alone, or +write-through behind another")]
    asked: Annotated[bool, about("by --cache; otherwise it follows from the target and the other options")]
    notes: Annotated[list[Sentence], about("what the mode means on this target, in sentences")]


class Sustained(Part, kw_only=True):
    """Sustained."""

    regimes: Annotated[list[Regimes], about("each load's series by kind of operation")]
    burst: Annotated[BurstDocument | None, about("`naslab burst`: the burst and why it ended")]
    cached: Annotated[Cached | None, about("`naslab cache speed`: the rate of the network alone")]
    cost: Annotated[CostDocument | None, about("with a price: what the rates cost")]
    cache: Annotated[CacheModeDocument | UnsetType, about("how files are reached")] = UNSET
    working_set: Annotated[
        WorkingSet | UnsetType | None, about("`naslab cache size`: the largest one that is read from the server cache")
    ] = UNSET
