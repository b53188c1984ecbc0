"""`naslab compare check`: a gate for releases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from naslab.cli.compare import UNDECIDED, Request, load_sides, tell_all
from naslab.comparison import junit
from naslab.comparison.judgement import Comparison
from naslab.errors import UsageError
from naslab.text.outputs import JUNIT, check_output, write_output

WORSE = 3
"""Exit code (DESIGN.md section 4)."""


@dataclass(frozen=True)
class Gate:
    """any_measurement: one measurement that is worse closes the gate, not only all together."""

    run: str
    baseline: str
    junit: Path | None
    any_measurement: bool


def run_check(gate: Gate, request: Request) -> int:
    """`naslab compare check`: 0 not worse, 3 worse, 4 undecided. Raises UsageError, UnknownRunError."""
    if not gate.baseline:
        raise UsageError(
            "compare check: --baseline is missing; name the run (or A1,A2) that RUN must not be worse than"
        )
    if gate.junit is not None:
        check_output(gate.junit, "--junit", JUNIT)
    sides, labels = load_sides(request)
    (comparison,) = tell_all(sides, labels, request)
    if gate.junit is not None:
        write_output(junit.of(comparison), gate.junit, "--junit", JUNIT)
    return _code([comparison], gate.any_measurement)


def _code(comparisons: Sequence[Comparison], any_measurement: bool) -> int:
    worse = [each for each in comparisons if each.verdict == "worse" or (any_measurement and _has_worse(each))]
    if worse:
        return WORSE
    return UNDECIDED if any(each.verdict == "undecided" for each in comparisons) else 0


def _has_worse(comparison: Comparison) -> bool:
    return any(row.judged.verdict == "worse" for row in comparison.rows)
