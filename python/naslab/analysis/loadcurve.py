"""The curve of a run: its steps, capacity and knee from the stored cells, as fields and as sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from naslab.analysis import curvecompare as beside
from naslab.analysis import knee as knees
from naslab.results.cell import loaded_ns
from naslab.results.describe import part_of
from naslab.results.histogram import Histogram, merge
from naslab.results.parts.cell import Latency
from naslab.results.parts.curve import (
    CurveComparison,
    CurveDocument,
    CurveLoadRatio,
    CurveRatio,
    CurveStep,
    ProbeDocument,
    StopReason,
)
from naslab.units import count_text, duration_text, percent_text, rate_text, size_label

if TYPE_CHECKING:
    from naslab.results.run import Run

FULL = 0.9
"""Share of the operations allowed in flight from which on the bound is what limits."""
UNCHANGED = 1.5
"""... if the service time is still within this factor of its low-load value: no queue at the server."""

VAGUE = 2.0
"""A knee whose interval is wider than this factor is called vague."""


def load_cells(run: Run) -> dict[float, list[dict[str, Any]]]:
    """Cells of each load, ascending."""
    found: dict[float, list[dict[str, Any]]] = {}
    for cell in run.cells:
        if cell["workload"] == "curve" and cell["offered_per_s"] and cell["duration_ns"]:
            found.setdefault(cell["offered_per_s"], []).append(cell)
    return dict(sorted(found.items()))


def step_of(run: Run, cells: Sequence[Mapping[str, Any]]) -> tuple[knees.Step, CurveStep]:
    """One load as numbers for the analysis and as the document has it. Raises StoreError."""
    offered = float(cells[0]["offered_per_s"])
    duration_ns = sum(cell["duration_ns"] for cell in cells)
    ops, moved = sum(cell["ops"] for cell in cells), sum(cell["bytes"] for cell in cells)
    achieved = ops * 1e9 / duration_ns
    missed = sum(cell["missed_starts"] for cell in cells)
    parts = [_histogram(run, cell, "response") for cell in cells if cell["ops"]]
    response = _summary(parts)
    service = _summary([_histogram(run, cell, "latency") for cell in cells if cell["ops"]])
    waiting = max((response.p50 or 0) - (service.p50 or 0), 0)
    late = missed / max(offered * duration_ns / 1e9, 1.0)
    part_ns = duration_ns // len(cells)
    saturated = knees.is_saturated(offered, achieved, late, waiting, part_ns)
    rates = [_rates(run, cell) for cell in cells]
    part_rates = np.array([cell["ops"] * 1e9 / cell["duration_ns"] for cell in cells])
    intervals = np.concatenate(rates) if rates else np.empty(0)
    step = knees.Step(offered, achieved, saturated, parts, intervals, part_rates)
    return step, CurveStep(
        offered_per_s=offered, achieved_per_s=achieved, achieved_bytes_per_s=moved * 1e9 / duration_ns,
        saturated=saturated, ops=ops, missed_starts=missed, errors=sum(cell["errors"] for cell in cells),
        response_ns=response, service_ns=service, cells=[cell["id"] for cell in cells],
    )  # fmt: skip


def _histogram(run: Run, cell: Mapping[str, Any], clock: str) -> Histogram:
    names = [n for n in run.blob_names(cell) if n.startswith(f"{clock}:") and not n.endswith(":flush")]
    return merge(run.histogram_of(cell, name) for name in names)


def _summary(found: Sequence[Histogram]) -> Latency:
    return Latency(**(merge(found).summary() if found else dict.fromkeys(Latency.__struct_fields__)))


def _rates(run: Run, cell: Mapping[str, Any]) -> Any:
    """Operations per second of each whole interval of a cell's load."""
    series = run.series(cell)
    whole = min(cell["duration_ns"], loaded_ns(cell)) // cell["interval_ns"]
    return (series["read_ops"] + series["write_ops"])[:whole] * (1e9 / cell["interval_ns"])


def steps_of(run: Run) -> list[tuple[knees.Step, CurveStep]]:
    """All loads, ascending, as `step_of`. Raises StoreError."""
    return [step_of(run, cells) for cells in load_cells(run).values()]


def curve_of(run: Run, settings: Mapping[str, Any], stop_reason: StopReason) -> CurveDocument:
    """The document's `curve`. settings: its fields that come from the options. Raises StoreError."""
    pairs = steps_of(run)
    steps, fields = [step for step, _ in pairs], [found for _, found in pairs]
    seed = int(run.document["seed"])
    most = knees.capacity(steps, seed)
    bend = knees.knee(steps, most.value, seed) if most else None
    told = [found.response_ns.p99 for found in fields if found.response_ns.p99]
    loads = np.array([found.offered_per_s for found in fields if found.response_ns.p99])
    low = knees.low_load(loads, np.array(told, np.float64), most.value) if most and told else None
    return CurveDocument(
        **settings, stop_reason=stop_reason, saturated=any(step.saturated for step in steps),
        probe_alone=_probe(run, 0), probe_full=_probe(run, 1), steps=fields,
        capacity_per_s=most.value if most else None, capacity_ci95_per_s=[most.low, most.high] if most else None,
        capacity_bytes_per_s=most.value * settings["block_bytes"] if most else None,
        depth_limited=_depth_limited(fields, settings["queue_depth"] * settings["workers"]),
        knee_per_s=bend.value if bend else None, knee_ci95_per_s=[bend.low, bend.high] if bend else None,
        knee_method=knees.KNEE_METHOD, low_load_p99_ns=None if low is None else round(low), compared=None,
    )  # fmt: skip


def _probe(run: Run, at: int) -> ProbeDocument | None:
    """Rate and median latency of a closed loop."""
    found = [cell for cell in run.cells if cell["workload"] == "probe"][at : at + 1]
    return ProbeDocument(found[0]["iops"], found[0]["latency_ns"]["p50"]) if found else None


def _depth_limited(fields: Sequence[CurveStep], allowed: int) -> bool:
    """Whether the bound on operations in flight was full while each took no longer than at low load.

    Operations in flight = rate x mean service time (Little 1961).
    """
    first = fields[0].service_ns.mean if fields else None
    saturated = [(step, mean) for step in fields if step.saturated and (mean := step.service_ns.mean)]
    if not saturated or not first or fields[0].saturated:
        return False
    last, mean = saturated[0]
    in_flight = last.achieved_per_s * mean / 1e9
    return bool(in_flight >= FULL * allowed and mean <= UNCHANGED * first)


SAME = {
    "arrivals": "arrivals", "block_bytes": "block", "write_fraction": "share of writes", "random": "random offsets",
    "file_bytes": "size", "workers": "workers", "queue_depth": "depth", "step_ns": "step duration",
}  # fmt: skip
"""Settings that two curves should share, and what people call them."""


def compare(run: Run, curve: CurveDocument, other: Run) -> CurveComparison:
    """The document's `compared`: this run's curve over the curve of another run. Raises StoreError."""
    mine, theirs = ([step for step, _ in steps_of(one)] for one in (run, other))
    found = beside.compare(mine, theirs, int(run.document["seed"]))
    others = part_of(other.document, "curve", CurveDocument)
    return CurveComparison(
        run_id=other.run_id, unit="batch",
        differs=[name for name in SAME if getattr(curve, name) != getattr(others, name, None)],
        autocorrelation=found.autocorrelation[0], other_autocorrelation=found.autocorrelation[1],
        capacity=CurveRatio(**_ratio(found.capacity)) if found.capacity else None,
        knee=CurveRatio(**_ratio(found.knee)) if found.knee else None,
        p99=[
            CurveLoadRatio(
                load_per_s=one.load_per_s, p99_ns=round(one.p99_ns), other_p99_ns=round(one.other_p99_ns),
                **_ratio(one.ratio),
            )
            for one in found.loads
        ],
    )  # fmt: skip


def _ratio(found: beside.Ratio) -> dict[str, Any]:
    return {
        "ratio": found.value, "ci95": [found.low, found.high], "batches": found.n, "other_batches": found.other_n,
        "margin": found.margin, "p_value": found.p, "minimum_detectable": found.mde, "verdict": found.verdict,
    }  # fmt: skip


# --- words -----------------------------------------------------------------------------------------------


def sentences(curve: CurveDocument) -> list[str]:
    """The curve in a few sentences, without what another run's says."""
    if not curve.capacity_per_s:
        return ["No offered load was reached: the curve shows nothing."]
    return [_capacity_words(curve, curve.capacity_per_s), _knee_words(curve, curve.capacity_per_s), *_notes(curve)]


def _per_s(value: float) -> str:
    return f"{count_text(value)}/s"


def _capacity_words(curve: CurveDocument, capacity_per_s: float) -> str:
    low, high = curve.capacity_ci95_per_s or (capacity_per_s, capacity_per_s)
    rate = f"{_per_s(capacity_per_s)} ({rate_text(curve.capacity_bytes_per_s or 0)})"
    within = f"95 % interval {_per_s(low)} to {_per_s(high)}"
    block = size_label(curve.block_bytes)
    if curve.saturated:
        return f"Capacity: {rate} of {block}, {within}."
    return f"Not saturated: {rate} of {block} were reached, and no higher load was offered; {within}."


def _knee_words(curve: CurveDocument, capacity_per_s: float) -> str:
    low_p99, knee_per_s = duration_text(curve.low_load_p99_ns or 0), curve.knee_per_s
    if knee_per_s is None:
        return f"No knee: p99 of the response time stays below twice its {low_p99} at low load."
    low, high = curve.knee_ci95_per_s or (knee_per_s, knee_per_s)
    if min(low, knee_per_s) >= capacity_per_s:
        return (
            f"No knee below the capacity: p99 of the response time reaches twice its {low_p99} at low load only there."
        )
    return (
        f"Knee: {_per_s(knee_per_s)}, {percent_text(knee_per_s / capacity_per_s)} of the capacity, 95 % interval "
        f"{_per_s(low)} to {_per_s(high)}; there p99 of the response time is twice its {low_p99} at low load."
    )


def _notes(curve: CurveDocument) -> list[str]:
    found = []
    if (ends := curve.knee_ci95_per_s) and ends[1] > VAGUE * ends[0]:
        found.append("The knee is uncertain: p99 varied as much between parts of a step; use a longer --step-duration.")
    if curve.depth_limited:
        bound = curve.queue_depth * curve.workers
        found.append(
            f"The capacity is that of the {bound} allowed outstanding operations: all were in use, while none took "
            "longer than at low load. Raise --depth or --workers to measure the target's own capacity."
        )
    options = {"budget": "--budget", "max_bytes": "--max-bytes"}
    if curve.stop_reason in options:
        found.append(f"{options[curve.stop_reason]} ended the curve early; a larger one narrows it further.")
    return found


def compared_sentences(curve: CurveDocument) -> list[str]:
    """The curve beside the other run in a few sentences; none without one."""
    compared = curve.compared
    if not compared:
        return []
    found = [
        _rate_words("Capacity", compared.capacity, compared.run_id, "one of the curves was not saturated"),
        _rate_words("Knee", compared.knee, compared.run_id, "one of the curves has none"),
        *_p99_words(compared.p99),
        "These intervals are over the parts of each load within the two runs; they do not cover how much runs "
        "differ from one another.",
    ]
    if compared.differs:
        names = ", ".join(SAME[name] for name in compared.differs)
        found.append(f"The two curves were measured with different settings: {names}.")
    return found


def _rate_words(what: str, found: CurveRatio | None, run_id: str, why_not: str) -> str:
    if found is None:
        return f"{what}: not compared with run {run_id}, as {why_not}."
    low, high = found.ci95
    text = f"{what}: {found.ratio:.3g} times that of run {run_id}, 95 % interval {low:.3g} to {high:.3g}: "
    if found.verdict is None:
        return f"{text}no verdict, because there are fewer than {beside.LEAST_BATCHES} parts."
    if found.verdict in ("better", "worse"):
        return f"{text}{found.verdict}."
    within = f" within {percent_text(found.margin)}" if found.verdict == "equivalent" else ""
    return f"{text}{found.verdict}{within}; {_least_words(found.minimum_detectable)}."


def _least_words(share: float) -> str:
    """What a comparison without a difference could have found."""
    least = f"{percent_text(share)} or more" if share <= 1 else f"a factor of {min(1 + share, 100):.2g} or more"
    return f"only a difference of {least} would have been detected"


def _p99_words(loads: Sequence[CurveLoadRatio]) -> list[str]:
    """How many loads have which verdict, with the range of their ratios."""
    if not loads:
        return ["p99 is not compared: no load was offered to both and reached by both."]
    parts = []
    for verdict in ("better", "worse", "equivalent", "undecided", None):
        those = [one for one in loads if one.verdict == verdict]
        if not those:
            continue
        low, high = (f"{end(one.ratio for one in those):.3g}" for end in (min, max))
        text = f"{verdict or 'no verdict'} at {len(those)} ({low}{f' to {high}' if high != low else ''} times as long"
        if verdict in ("equivalent", "undecided"):
            least = float(np.median([one.minimum_detectable for one in those]))
            text += f"; in the median {_least_words(least)}"
        parts.append(text + ")")
    span = f"{_per_s(loads[0].load_per_s)} to {_per_s(loads[-1].load_per_s)}"
    return [f"p99 at {len(loads)} equal loads ({span}, Holm over them): {', '.join(parts)}."]
