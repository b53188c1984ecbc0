"""The price of signing and encryption: each combination of `naslab security` beside the baseline, load by load.

Combinations are measured in rounds, so that a round's cells are pairs: ratios have the interval of `analysis.ratios`.
The baseline is the unprotected combination, or the first one that the server allows where it refuses that.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

import numpy as np

from naslab.analysis import ratios
from naslab.analysis.intervals import t_interval
from naslab.commands.plans.security import CONTRASTS, LOADS, WORKLOAD
from naslab.comparison.split import GIB, Cells, Kind, by_kind

Rounds = dict[int, dict[str, float]]
"""Figures of one combination and load by round."""
FIGURES = ("throughput", "latency", "cpu")
"""Bytes per second; mean latency in ns; processor time of this process in ns for each GiB."""
LEAST_ROUNDS = 3
"""No interval from fewer: that of two rounds is 13 times as wide as they differ."""
_MARGINS = {"throughput": ratios.RATE_MARGIN, "latency": ratios.LATENCY_MARGIN, "cpu": ratios.LATENCY_MARGIN}


def price_list(measured: Mapping[str, Cells]) -> tuple[dict[str, list[dict[str, Any]]], list[dict[str, Any]]]:
    """The loads of each combination, and the contrasts between pairs of them, as the run document has them.

    measured: cells by the combination's name, the baseline first.
    """
    loads = dict(zip(measured, priced([*measured.values()]), strict=True))
    contrasts = [
        {"baseline": base, "name": name, "loads": priced([measured[base], measured[name]])[1]}
        for base, name in CONTRASTS
        if base in measured and name in measured
    ]
    return loads, contrasts


def priced(measured: Sequence[Cells]) -> list[list[dict[str, Any]]]:
    """`security_load` parts of each side, with ratios to the first; loads that the first lacks are left out."""
    sides = [_by_load(cells) for cells in measured]
    found: list[list[dict[str, Any]]] = [[] for _ in sides]
    for load in LOADS:
        there = [at for at, side in enumerate(sides) if side.get(load) and sides[0].get(load)]
        figures = {at: {name: _figure(sides[at][load], name) for name in FIGURES} for at in there}
        for name in FIGURES if there else ():
            _compare(name, [(figures[at][name], sides[at][load]) for at in there])
        for at in there:
            op, record, depth = load
            sizes = {"op": op, "record_bytes": record, "queue_depth": depth}
            found[at].append({**sizes, "n": len(sides[at][load]), **figures[at]})
    return found


def _by_load(cells: Cells) -> dict[Kind, Rounds]:
    return {
        load: {block: _figures_of(cell) for block, cell in rounds.items()}
        for load, rounds in by_kind(cells, WORKLOAD).items()
    }


def _figures_of(cell: Mapping[str, Any]) -> dict[str, float]:
    return {
        "throughput": float(cell["throughput_bytes_per_s"]),
        "latency": float(cell["latency_ns"]["mean"] or 0),
        "cpu": (cell["cpu_user_ns"] + cell["cpu_system_ns"]) * GIB / (cell["bytes"] + cell["warmup_bytes"]),
    }


def _values(rounds: Rounds, name: str) -> dict[int, float]:
    """Of the rounds that have a value; a clock too coarse for a cell gives 0."""
    return {block: row[name] for block, row in rounds.items() if row[name] > 0}


def _figure(rounds: Rounds, name: str) -> dict[str, Any]:
    """The median of the rounds and the 95 % interval of their geometric mean."""
    values = list(_values(rounds, name).values())
    ends = t_interval(np.log(np.array(values)))[1:] if len(values) >= LEAST_ROUNDS else None
    interval = [math.exp(end) for end in ends] if ends else None
    value = float(median(values)) if values else None
    return {"value": value, "ci95": interval, "ratio": None, "ratio_ci95": None, "verdict": None}


def _compare(name: str, sides: Sequence[tuple[dict[str, Any], Rounds]]) -> None:
    """Sets each side's ratio to the first one's, and its verdict."""
    base = _values(sides[0][1], name)
    pairs = []
    for figure, rounds in sides[1:]:
        values = _values(rounds, name)
        if shared := sorted(values.keys() & base.keys()):
            one, other = (np.array([side[block] for block in shared]) for side in (values, base))
            pairs.append((figure, ratios.paired(one, other, _MARGINS[name])))
    judged = ratios.judge([ratio for _, ratio in pairs], higher=name == "throughput")
    for (figure, ratio), each in zip(pairs, judged, strict=True):
        ends = [ratio.low, ratio.high] if ratio.n >= LEAST_ROUNDS else None
        figure |= {"ratio": ratio.value, "ratio_ci95": ends, "verdict": each.verdict}
