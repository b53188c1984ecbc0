"""The curve of a run: its steps, capacity and knee from the stored cells, in fields and in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from naslab.analysis import knee as knees
from naslab.results.histogram import Histogram, merge
from naslab.units import duration_text, rate_text, size_label

if TYPE_CHECKING:
    from naslab.results.run import Run

COMMON_LOADS = 8
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


def step_of(run: Run, cells: Sequence[Mapping[str, Any]]) -> tuple[knees.Step, dict[str, Any]]:
    """One load as numbers for the analysis and as fields of the document (`curve_step`). Raises StoreError."""
    offered = float(cells[0]["offered_per_s"])
    duration_ns = sum(cell["duration_ns"] for cell in cells)
    ops, moved = sum(cell["ops"] for cell in cells), sum(cell["bytes"] for cell in cells)
    achieved = ops * 1e9 / duration_ns
    missed = sum(cell["missed_starts"] for cell in cells)
    parts = [_histogram(run, cell, "response") for cell in cells if cell["ops"]]
    response = merge(parts).summary() if parts else dict.fromkeys(("min", "mean", "p50", "p90", "p99", "p99_9", "max"))
    service = _service(run, cells)
    waiting = max((response["p50"] or 0) - (service["p50"] or 0), 0)
    late = missed / max(offered * duration_ns / 1e9, 1.0)
    part_ns = duration_ns // len(cells)
    saturated = knees.is_saturated(offered, achieved, late, waiting, part_ns)
    rates = [_rates(run, cell) for cell in cells]
    step = knees.Step(offered, achieved, saturated, parts, np.concatenate(rates) if rates else np.empty(0))
    fields = {
        "offered_per_s": offered, "achieved_per_s": achieved, "achieved_bytes_per_s": moved * 1e9 / duration_ns,
        "saturated": saturated, "ops": ops, "missed_starts": missed, "errors": sum(cell["errors"] for cell in cells),
        "response_ns": response, "service_ns": service, "cells": [cell["id"] for cell in cells],
    }  # fmt: skip
    return step, fields


def _histogram(run: Run, cell: Mapping[str, Any], clock: str) -> Histogram:
    names = [n for n in run.blob_names(cell) if n.startswith(f"{clock}:") and not n.endswith(":flush")]
    return merge(run.histogram_of(cell, name) for name in names)


def _service(run: Run, cells: Sequence[Mapping[str, Any]]) -> dict[str, int | None]:
    found = [_histogram(run, cell, "latency") for cell in cells if cell["ops"]]
    return merge(found).summary() if found else dict.fromkeys(("min", "mean", "p50", "p90", "p99", "p99_9", "max"))


def _rates(run: Run, cell: Mapping[str, Any]) -> Any:
    """Operations per second of each whole interval of a cell."""
    series = run.series(cell)
    whole = int(cell["duration_ns"] // cell["interval_ns"])
    return (series["read_ops"] + series["write_ops"])[:whole] * (1e9 / cell["interval_ns"])


def curve_of(run: Run, settings: Mapping[str, Any], stop_reason: str) -> dict[str, Any]:
    """The document's `curve`. settings: its fields that come from the options. Raises StoreError."""
    pairs = [step_of(run, cells) for cells in load_cells(run).values()]
    steps, fields = [step for step, _ in pairs], [found for _, found in pairs]
    seed = int(run.document["seed"])
    most = knees.capacity(steps, seed)
    bend = knees.knee(steps, most.value, seed) if most else None
    told = [found["response_ns"]["p99"] for found in fields if found["response_ns"]["p99"]]
    loads = np.array([found["offered_per_s"] for found in fields if found["response_ns"]["p99"]])
    low = knees.low_load(loads, np.array(told, np.float64), most.value) if most and told else None
    return {
        **settings, "stop_reason": stop_reason, "saturated": any(step.saturated for step in steps),
        "probe_alone": _probe(run, 0), "probe_full": _probe(run, 1), "steps": fields,
        "capacity_per_s": most.value if most else None,
        "capacity_ci95_per_s": [most.low, most.high] if most else None,
        "capacity_bytes_per_s": _bytes(most, settings), "depth_limited": _depth_limited(fields, settings),
        "knee_per_s": bend.value if bend else None, "knee_ci95_per_s": [bend.low, bend.high] if bend else None,
        "knee_method": knees.KNEE_METHOD, "low_load_p99_ns": None if low is None else round(low), "compared": None,
    }  # fmt: skip


def _bytes(most: knees.Estimate | None, settings: Mapping[str, Any]) -> float | None:
    return None if most is None else most.value * settings["block_bytes"]


def _probe(run: Run, at: int) -> dict[str, Any] | None:
    """Rate and median latency of a closed loop."""
    found = [cell for cell in run.cells if cell["workload"] == "probe"][at : at + 1]
    return {"iops": found[0]["iops"], "p50_ns": found[0]["latency_ns"]["p50"]} if found else None


def _depth_limited(fields: Sequence[Mapping[str, Any]], settings: Mapping[str, Any]) -> bool:
    """Whether the bound on operations in flight was full while each took no longer than at low load.

    Operations in flight = rate x mean service time (Little 1961).
    """
    saturated = [step for step in fields if step["saturated"] and step["service_ns"]["mean"]]
    if not saturated or not fields[0]["service_ns"]["mean"] or fields[0]["saturated"]:
        return False
    last = saturated[0]
    in_flight = last["achieved_per_s"] * last["service_ns"]["mean"] / 1e9
    full = in_flight >= FULL * settings["queue_depth"] * settings["workers"]
    return bool(full and last["service_ns"]["mean"] <= UNCHANGED * fields[0]["service_ns"]["mean"])


def compare(curve: Mapping[str, Any], other: Mapping[str, Any], run_id: str) -> dict[str, Any]:
    """The document's `compared`: this curve over another; ratios above 1 mean that this one has more."""
    mine, theirs = curve["capacity_per_s"], other["capacity_per_s"]
    ratio = mine / theirs if mine and theirs else None
    interval = None
    if ratio:
        (low, high), (their_low, their_high) = curve["capacity_ci95_per_s"], other["capacity_ci95_per_s"]
        interval = [low / their_high, high / their_low]
    knees_of = curve["knee_per_s"], other["knee_per_s"]
    return {
        "run_id": run_id, "capacity_ratio": ratio, "capacity_ratio_range": interval,
        "knee_ratio": knees_of[0] / knees_of[1] if all(knees_of) else None,
        "differs": [name for name in SAME if curve[name] != other[name]], "p99": _p99_ratios(curve, other),
    }  # fmt: skip


SAME = ("arrivals", "block_bytes", "write_fraction", "random", "file_bytes", "workers", "queue_depth", "step_ns")
"""Settings that two curves should share."""


def _p99_ratios(curve: Mapping[str, Any], other: Mapping[str, Any]) -> list[dict[str, Any]]:
    """p99 of both at loads that both carried, interpolated in logarithms."""
    points = [_carried(one) for one in (curve, other)]
    if any(len(loads) < 2 for loads, _ in points):
        return []
    low = max(loads[0] for loads, _ in points)
    high = min(loads[-1] for loads, _ in points)
    if low >= high:
        return []
    found = []
    for load in np.geomspace(low, high, COMMON_LOADS).tolist():
        mine, theirs = (float(np.exp(np.interp(np.log(load), np.log(x), np.log(y)))) for x, y in points)
        found.append({"load_per_s": load, "p99_ns": round(mine), "other_p99_ns": round(theirs), "ratio": mine / theirs})
    return found


def _carried(curve: Mapping[str, Any]) -> tuple[list[float], list[float]]:
    steps = [s for s in curve["steps"] if not s["saturated"] and s["response_ns"]["p99"]]
    return [s["offered_per_s"] for s in steps], [s["response_ns"]["p99"] for s in steps]


# --- words -----------------------------------------------------------------------------------------------


def sentences(curve: Mapping[str, Any]) -> list[str]:
    """The curve in a few sentences."""
    if not curve["capacity_per_s"]:
        return ["No load was carried: nothing can be said about the curve."]
    return [_capacity_words(curve), _knee_words(curve), *_notes(curve), *_compared_words(curve)]


def _per_s(value: float) -> str:
    return f"{value:,.0f}/s" if value >= 100 else f"{value:.3g}/s"


def _capacity_words(curve: Mapping[str, Any]) -> str:
    low, high = curve["capacity_ci95_per_s"]
    rate = f"{_per_s(curve['capacity_per_s'])} ({rate_text(curve['capacity_bytes_per_s'])})"
    within = f"95 % interval {_per_s(low)} to {_per_s(high)}"
    block = size_label(curve["block_bytes"])
    if curve["saturated"]:
        return f"Capacity: {rate} of {block}, {within}."
    return f"Not saturated: {rate} of {block} were carried and the highest load offered was no more; {within}."


def _knee_words(curve: Mapping[str, Any]) -> str:
    low_p99 = duration_text(curve["low_load_p99_ns"])
    if curve["knee_per_s"] is None:
        return f"No knee: p99 of the response time stays below twice its {low_p99} at low load."
    low, high = curve["knee_ci95_per_s"]
    share = curve["knee_per_s"] / curve["capacity_per_s"]
    return (
        f"Knee: {_per_s(curve['knee_per_s'])}, {share:.0%} of the capacity, 95 % interval {_per_s(low)} to "
        f"{_per_s(high)}; there p99 of the response time is twice its {low_p99} at low load."
    )


def _notes(curve: Mapping[str, Any]) -> list[str]:
    found = []
    if curve["knee_per_s"] and curve["knee_ci95_per_s"][1] > VAGUE * curve["knee_ci95_per_s"][0]:
        found.append("The knee is vague: p99 varied as much from part to part; a longer --step-duration tells more.")
    if curve["depth_limited"]:
        bound = curve["queue_depth"] * curve["workers"]
        found.append(
            f"The capacity is that of the {bound} operations allowed in flight, which were all in use while none took "
            "longer than at low load: raise --depth or --workers to see the target's own."
        )
    ends = {"budget": "--budget", "max_bytes": "--max-bytes"}
    if curve["stop_reason"] in ends:
        found.append(f"{ends[curve['stop_reason']]} ended the curve early; a larger one narrows it further.")
    return found


def _compared_words(curve: Mapping[str, Any]) -> list[str]:
    compared = curve["compared"]
    if not compared:
        return []
    found = []
    if compared["capacity_ratio"]:
        low, high = compared["capacity_ratio_range"]
        found.append(
            f"Capacity is {compared['capacity_ratio']:.3g} times that of run {compared['run_id']} "
            f"(range of the two intervals {low:.3g} to {high:.3g})."
        )
    if compared["p99"]:
        ratios = [one["ratio"] for one in compared["p99"]]
        loads = [one["load_per_s"] for one in compared["p99"]]
        found.append(
            f"At loads that both carry ({_per_s(loads[0])} to {_per_s(loads[-1])}) p99 is {min(ratios):.3g} to "
            f"{max(ratios):.3g} times as long, {float(np.median(ratios)):.3g} in the median."
        )
    if compared["differs"]:
        names = ", ".join(name.replace("_", " ").removesuffix(" bytes") for name in compared["differs"])
        found.append(f"The two curves were measured with different settings: {names}.")
    return found
