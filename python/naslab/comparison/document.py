"""A comparison as data: what `naslab compare --json` prints beside the runs (docs/concepts/comparison.md)."""

from __future__ import annotations

import math
from typing import Any

from naslab.analysis.ratios import Judged
from naslab.comparison import why
from naslab.comparison.judgement import Comparison, Row
from naslab.results.measurements import UNITS


def of(comparison: Comparison) -> dict[str, Any]:
    """The comparison as JSON values; an interval without an end has null there."""
    return {
        "baseline": comparison.names[0],
        "compared": comparison.names[1],
        "verdict": comparison.verdict,
        "paired": comparison.paired,
        "repeats": list(comparison.repeats),
        "control": comparison.control,
        "overall": None if comparison.overall is None else _judged(comparison.overall),
        "by_op": {op: _judged(found) for op, found in comparison.by_op.items()},
        "measurements": [_row(row) for row in comparison.rows],
        "doubts": [{"kind": doubt.kind, "message": doubt.message} for doubt in comparison.doubts],
        **({} if comparison.why is None else {"why": why.document(comparison.why, comparison.names)}),
    }


def _row(row: Row) -> dict[str, Any]:
    return {
        **row.key.fields(),
        "measure": row.key.measure,
        "unit": UNITS[row.key.measure],
        "baseline": row.one,
        "compared": row.other,
        **_judged(row.judged),
    }


def _judged(judged: Judged) -> dict[str, Any]:
    ratio = judged.ratio
    return {
        "ratio": ratio.value,
        "ci95": [ratio.low, _finite(ratio.high)],
        "n": [ratio.other_n, ratio.n],
        "method": ratio.method,
        "margin": ratio.margin,
        "verdict": judged.verdict,
        "different": judged.different,
        "p": judged.p,
        "p_different": judged.p_different,
        "minimum_detectable_effect": _finite(ratio.mde),
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
