"""The picture of `naslab profile`: rate against the position in the file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from naslab.analysis.position import sentences
from naslab.render.report import theme
from naslab.render.report.axes import base_layout, numbers, plain_axis
from naslab.render.report.figures import Figure, Trace
from naslab.render.report.labels import plot_text
from naslab.results.describe import part_of
from naslab.results.parts.profile import ProfileDocument
from naslab.units import rate_text

if TYPE_CHECKING:
    from naslab.render.report.views import Chart, Shown

UNITS = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"))
"""Of positions: the largest that a file holds four times."""


def fill(chart: Chart, runs: Sequence[Shown]) -> None:
    """Adds one figure with all runs that hold a profile."""
    every = [(run.name, part_of(run.run.document, "profile", ProfileDocument)) for run in runs]
    found = [(name, profile) for name, profile in every if profile and profile.zones]
    if found:
        words = [f"{name}: " * (len(found) > 1) + " ".join(sentences(profile)) for name, profile in found]
        chart.add(["Profile"], by_position(found), " ".join(words))


def by_position(profiles: Sequence[tuple[str, ProfileDocument]]) -> Figure:
    """Rate of each zone (MB/s) against its offset, linear axes from zero; of one profile also its average."""
    longest = max(profile.file_bytes for _, profile in profiles)
    factor, unit = next((one for one in UNITS if longest >= 4 * one[0]), UNITS[-1])
    traces: list[Trace] = []
    for index, (name, profile) in enumerate(profiles):
        colour = theme.run_colour(index) if len(profiles) > 1 else theme.ACCENT
        traces.append(
            {
                "type": "scatter",
                "mode": "lines+markers" if len(profile.zones) <= 120 else "lines",
                "name": plot_text(name) if len(profiles) > 1 else "Each zone",
                "x": numbers(zone.offset_bytes / factor for zone in profile.zones),
                "y": numbers(zone.bytes_per_s / 1e6 for zone in profile.zones),
                "line": {"color": colour, "width": 2},
                "marker": {"color": colour, "size": 5},
                "hovertemplate": f"<b>%{{y:,.4~g}} MB/s</b><br>at %{{x:,.4~g}} {unit}<extra></extra>",
            }
        )
    if len(profiles) == 1:
        traces.append(_average(profiles[0][1], factor))
    layout = base_layout(
        xaxis=plain_axis(f"Position ({unit})", rangemode="tozero", tickformat=",.6~g"),
        yaxis=plain_axis("Sequential read (MB/s)", rangemode="tozero", tickformat=",.6~g"),
        showlegend=True,
    )
    return {"data": traces, "layout": layout}


def _average(profile: ProfileDocument, factor: int) -> Trace:
    """A level line over all that was read: the harmonic mean of the zones' rates."""
    zones, rate = profile.zones, profile.mean_bytes_per_s or 0.0
    return {
        "type": "scatter",
        "mode": "lines",
        "name": f"Average {rate_text(rate)}",
        "x": numbers(at / factor for at in (zones[0].offset_bytes, zones[-1].offset_bytes + zones[-1].bytes)),
        "y": numbers([rate / 1e6] * 2),
        "line": {"color": theme.MUTED, "width": 1.5, "dash": "dash"},
        "hovertemplate": f"average {rate_text(rate)}<extra></extra>",
    }
