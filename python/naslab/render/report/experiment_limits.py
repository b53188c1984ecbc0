"""What was planted in an experiment's systems, and what other tools measured of it."""

from __future__ import annotations

from collections.abc import Sequence

from naslab.lab.calibrate.finding import MISSES, amount
from naslab.render.report import page
from naslab.render.report.labels import esc, tight
from naslab.results.parts.experiment import ExperimentCalibration
from naslab.units import percent_text

_MARKS = {"holds": ("✓", "complete"), MISSES: ("✕", "failed"), "not measured": ("–", "unknown")}


def calibrations_table(calibrations: Sequence[ExperimentCalibration]) -> str:
    """Each system's limits, planted and measured; empty without systems from parts."""
    rows = []
    for one in calibrations:
        for at, limit in enumerate(one.limits):
            mark, kind = _MARKS[limit.verdict]
            verdict = f'<span class="status {kind}"><span aria-hidden="true">{mark}</span> {esc(limit.verdict)}</span>'
            off = "" if limit.deviation is None else f" ({percent_text(limit.deviation, 1, signed=True)})"
            measured = amount(limit.measured, limit.unit) + off
            with_tool = f"{measured}, {limit.tool}" if limit.tool else measured
            rows.append([
                esc(one.system) if at == 0 else "", esc(limit.name), esc(amount(limit.planted, limit.unit)),
                esc(tight(with_tool)), verdict,
            ])  # fmt: skip
    if not rows:
        return ""
    dates = sorted(one.calibrated_at for one in calibrations if one.calibrated_at)
    when = f" Measured from {dates[0]} to {dates[-1]}." if dates else " None was measured: naslab lab run --calibrate."
    lead = (
        f"A part more than 5 % off its planted limit misses it; of several disks or directions, the worst counts.{when}"
    )
    table = page._table("Planted and measured limits", ["System", "Limit", "Planted", "Measured", "Verdict"], rows)
    head = f'<h2>Planted and measured limits</h2><p class="lead">{esc(lead)}</p>'
    return f'<section id="calibrations">{head}{table}</section>'
