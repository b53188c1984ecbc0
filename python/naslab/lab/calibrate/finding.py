"""The result of calibration: each planted limit beside what an independent tool measured, and whether it holds."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from naslab.lab.limits import BITS_PER_S, BYTES, BYTES_PER_S, NS, PER_S, SHARE
from naslab.units import amount_text, duration_text, percent_text, rate_text

SCHEMA = 1
ALLOWANCE = 0.05
"""How far a part may be off before the system says so."""
HOLDS, MISSES, UNMEASURED = "holds", "misses", "not measured"


@dataclass(frozen=True)
class Finding:
    """One limit at one place.

    name: `part.key`, as `naslab.lab.limits.planted` has it. at: which disk, or which direction. planted, runs: in
    `unit`; planted is None where nothing was. ceiling: the planted value is what may not be exceeded, since what
    measures goes through other parts, too. tool, command: what measured, without secrets. note: what else must be
    known; where nothing was measured, why. allowance: share that the measured value may be off.
    """

    name: str
    planted: float | None
    unit: str
    runs: tuple[float, ...] = ()
    at: str = ""
    tool: str = ""
    command: str = ""
    note: str = ""
    ceiling: bool = False
    allowance: float = ALLOWANCE

    @property
    def measured(self) -> float | None:
        """The median of the runs; None without any."""
        return statistics.median(self.runs) if self.runs else None

    @property
    def spread(self) -> float | None:
        """From the lowest run to the highest, as a share of the median; None with fewer than two."""
        if len(self.runs) < 2 or not self.measured:
            return None
        return (max(self.runs) - min(self.runs)) / self.measured

    @property
    def deviation(self) -> float | None:
        """The measured value over the planted one, less 1; None where one of them is missing."""
        return None if self.measured is None or not self.planted else self.measured / self.planted - 1

    @property
    def verdict(self) -> str:
        """HOLDS, MISSES or UNMEASURED; empty where nothing was planted."""
        if self.measured is None:
            return UNMEASURED
        if self.planted is None:
            return ""
        off = self.deviation if self.deviation is not None else math.inf
        return HOLDS if (off if self.ceiling else abs(off)) <= self.allowance else MISSES

    def as_dict(self) -> dict[str, Any]:
        """JSON types."""
        part, _, key = self.name.rpartition(".")
        derived = {each: getattr(self, each) for each in ("measured", "spread", "deviation", "verdict")}
        return {"part": part, "key": key, **dataclasses.asdict(self), "runs": list(self.runs), **derived}


@dataclass(frozen=True)
class Calibration:
    """All that was found of one system.

    key: of what it was made of (naslab.lab.calibrate.records). measured_at: ISO 8601, UTC.
    """

    system: str
    backend: str
    key: str
    measured_at: str
    findings: tuple[Finding, ...]

    @property
    def misses(self) -> list[Finding]:
        """Parts that are further off than they may be."""
        return [each for each in self.findings if each.verdict == MISSES]

    @property
    def holds(self) -> bool:
        """Whether no part that was measured misses."""
        return not self.misses

    def measured(self, name: str, at: str = "") -> float | None:
        """What was measured of a limit: of several places the median. at: the beginning of the place's name."""
        values = [
            each.measured
            for each in self.findings
            if each.name == name and each.at.startswith(at) and each.measured is not None
        ]
        return statistics.median(values) if values else None

    def as_dict(self) -> dict[str, Any]:
        """JSON types."""
        return {
            "schema": SCHEMA, "kind": "calibration", "name": self.system, "backend": self.backend, "key": self.key,
            "measured_at": self.measured_at, "holds": self.holds, "summary": self.summary(),
            "findings": [each.as_dict() for each in self.findings],
        }  # fmt: skip

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Calibration:
        """What `as_dict` made. Raises KeyError, TypeError."""
        names = [each.name for each in dataclasses.fields(Finding)]
        rows: list[dict[str, Any]] = [{name: each[name] for name in names} for each in data["findings"]]
        found = tuple(Finding(**{**row, "runs": tuple(row["runs"])}) for row in rows)
        return cls(data["name"], data["backend"], data["key"], data["measured_at"], found)

    def summary(self) -> str:
        """One sentence, or two."""
        judged = [each for each in self.findings if each.planted is not None]
        if not judged:
            return f"{self.system} has no planted limits."
        counts = {
            verdict: [each for each in judged if each.verdict == verdict] for verdict in (HOLDS, MISSES, UNMEASURED)
        }
        words = ", ".join(f"{len(found)} {verdict}" for verdict, found in counts.items() if found)
        missed = "; ".join(
            f"{placed(each)} {percent_text(each.deviation or 0.0, 1, signed=True)}" for each in counts[MISSES]
        )
        return f"{self.system}: of {len(judged)} limits {words}." + (
            f" Outside the tolerance: {missed}." if missed else ""
        )


def placed(finding: Finding) -> str:
    """A limit and where it was measured."""
    return f"{finding.name} ({finding.at})" if finding.at else finding.name


def amount(value: float | None, unit: str) -> str:
    """A value in its unit, for people; `-` without one."""
    if value is None:
        return "-"
    if unit == SHARE:
        return f"{value:.4g}" if value >= 1 else f"{percent_text(value, 2)}"
    if unit == BITS_PER_S:
        scale, word = (1e9, "Gbit/s") if value >= 1e9 else (1e6, "Mbit/s")
        return f"{value / scale:.4g} {word}"
    if unit == BYTES:
        return amount_text(value) if value >= 10_000 else f"{value:.0f} B"
    if unit == PER_S:
        return f"{value:,.0f} /s"
    return rate_text(value) if unit == BYTES_PER_S else duration_text(value) if unit == NS else f"{value:g}"


def table(findings: Sequence[Finding]) -> list[str]:
    """Lines for a terminal: planted, measured, deviation, spread, verdict, then notes."""
    heads = ("limit", "planted", "measured", "off", "spread", "verdict")
    rows = [heads, *(_row(each) for each in findings)]
    widths = [max(len(row[at]) for row in rows) for at in range(len(heads))]
    lines = []
    for row, finding in zip(rows, [None, *findings], strict=True):
        left, *rest = (text.ljust(width) if at in (0, 5) else text.rjust(width)
                       for at, (text, width) in enumerate(zip(row, widths, strict=True)))  # fmt: skip
        lines.append("  ".join((left, *rest)).rstrip())
        if finding is not None and finding.note:
            lines.append(f"    {finding.note}")
    return lines


def _row(finding: Finding) -> tuple[str, ...]:
    planted = amount(finding.planted, finding.unit)
    return (
        placed(finding), f"<= {planted}" if finding.ceiling and finding.planted else planted,
        amount(finding.measured, finding.unit), _percent(finding.deviation, "+.1%"), _percent(finding.spread, ".1%"),
        finding.verdict.upper() if finding.verdict == MISSES else finding.verdict,
    )  # fmt: skip


def _percent(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form).replace("%", " %")
