"""The part of the run document that `naslab curve` makes."""

from typing import Annotated, Literal

from naslab.results.describe import (
    Bytes,
    BytesPerS,
    Count,
    Interval,
    Ns,
    Number,
    Part,
    PerS,
    RunId,
    Sentence,
    Word,
    about,
)
from naslab.results.parts.cell import Latency


class ProbeDocument(Part):
    """Closed loop."""

    iops: Annotated[PerS, about("operations per second")]
    p50_ns: Annotated[Ns | None, about("median latency")]


class CurveStep(Part):
    """Curve step."""

    offered_per_s: Annotated[PerS, about("operations that fell due")]
    achieved_per_s: Annotated[PerS, about("operations that ended")]
    achieved_bytes_per_s: Annotated[BytesPerS, about("bytes moved")]
    saturated: Annotated[bool, about("the offered load exceeds what the target can carry")]
    ops: Annotated[Count, about("operations that ended")]
    missed_starts: Annotated[Count, about("operations that could not start when due")]
    errors: Annotated[Count, about("operations that failed")]
    response_ns: Annotated[Latency, about("from the due time")]
    service_ns: Annotated[Latency, about("from submission")]
    cells: Annotated[list[Count], about("ids of the cells that are its parts")]


Ratio = Annotated[Number, about("this over the other, medians over the parts")]
RatioInterval = Annotated[Interval, about("95 % interval of it, bootstrap over the parts: low, high")]
Batches = Annotated[Count, about("parts of this curve")]
OtherBatches = Annotated[Count, about("parts of the other")]
Margin = Annotated[Number, about("differences up to this share do not matter")]
PValue = Annotated[Number, about("of the verdict, two-sided; above 0.05 it is undecided")]
Detectable = Annotated[Number, about("a true difference of this share would be detected in 80 of 100 cases")]
Judged = Annotated[
    Literal["better", "worse", "equivalent", "undecided"] | None,
    about("this compared with the other; null: fewer than 4 parts"),
]


class CurveRatio(Part):
    """Ratio of two curves."""

    ratio: Ratio
    ci95: RatioInterval
    batches: Batches
    other_batches: OtherBatches
    margin: Margin
    p_value: PValue
    minimum_detectable: Detectable
    verdict: Judged


class CurveLoadRatio(Part):
    """Ratio at an equal load."""

    load_per_s: Annotated[PerS, about("the load")]
    p99_ns: Annotated[Ns, about("of this curve, median over the parts")]
    other_p99_ns: Annotated[Ns, about("of the other")]
    ratio: Ratio
    ci95: RatioInterval
    batches: Batches
    other_batches: OtherBatches
    margin: Margin
    p_value: PValue
    minimum_detectable: Detectable
    verdict: Judged


class CurveComparison(Part):
    """Comparison of curves."""

    run_id: Annotated[RunId, about("the other run")]
    unit: Annotated[Literal["batch"], about("unit of the bootstrap: batch, the parts of the loads within the two runs")]
    differs: Annotated[list[Word], about("names of settings in which the two differ")]
    autocorrelation: Annotated[float, about("lag-1, of p99 from part to part of this curve; it widens intervals")]
    other_autocorrelation: Annotated[float, about("of the other curve")]
    capacity: Annotated[CurveRatio | None, about("capacities; null: not both were saturated")]
    knee: Annotated[CurveRatio | None, about("knees; null: not both have one")]
    p99: Annotated[
        list[CurveLoadRatio], about("p99 of the response time at equal loads that both carried; p_value by Holm")
    ]


StopReason = Literal["saturated", "max_rate", "max_steps", "budget", "max_bytes", "failed", "interrupted"]


class CurveDocument(Part):
    """Curve."""

    arrivals: Annotated[Literal["constant", "poisson"], about("gaps between due times")]
    block_bytes: Annotated[Bytes, about("bytes of one operation")]
    write_fraction: Annotated[Number, about("share of operations that write, 0 to 1")]
    random: Annotated[bool, about("random offsets, or one after another")]
    file_bytes: Annotated[Bytes, about("size of each worker's file")]
    workers: Annotated[Count, about("workers, each with a file of its own")]
    queue_depth: Annotated[Count, about("maximum queue depth per worker")]
    step_ns: Annotated[Ns, about("how long each load is offered, over its parts")]
    factor: Annotated[Number, about("each load of the curve is this many times the previous one")]
    stop_reason: Annotated[StopReason, about("why no further load was offered")]
    saturated: Annotated[bool, about("a load was offered that exceeds what the target can carry")]
    probe_alone: Annotated[ProbeDocument | None, about("closed loop of one worker at depth 1")]
    probe_full: Annotated[ProbeDocument | None, about("closed loop of all workers at queue_depth")]
    steps: Annotated[list[CurveStep], about("the loads, ascending")]
    capacity_per_s: Annotated[PerS | None, about("highest rate carried; a lower bound where not saturated")]
    capacity_ci95_per_s: Annotated[
        Interval | None, about("95 % interval of it, block bootstrap over intervals: low, high", "1/s")
    ]
    capacity_bytes_per_s: Annotated[BytesPerS | None, about("the capacity in bytes")]
    depth_limited: Annotated[bool, about("the allowed queue depth limited the capacity, not the target")]
    knee_per_s: Annotated[PerS | None, about("the load at which latency begins to climb; null: it does not")]
    knee_ci95_per_s: Annotated[
        Interval | None, about("95 % interval of it, bootstrap over the parts of the loads: low, high", "1/s")
    ]
    knee_method: Annotated[Sentence, about("how the knee is defined")]
    low_load_p99_ns: Annotated[Ns | None, about("p99 of the response time at low load")]
    compared: Annotated[CurveComparison | None, about("comparison with the curve of another run (--compare)")]
