"""The pictures of `naslab job`: where the time of the streams went, and what each job reached, with its repeats."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from naslab.render.report import job_network, theme
from naslab.render.report.axes import base_layout, legend_above, numbers, plain_axis
from naslab.render.report.figures import Figure, Trace
from naslab.results.describe import part_of
from naslab.results.parts.job import JobDocument, JobStep
from naslab.units import count_text, duration_text, rate_text

if TYPE_CHECKING:
    from naslab.render.report.rawdata import Series
    from naslab.render.report.views import Chart, Shown

SIDES = (
    ("source", "Source"), ("target", "Target"), ("local", "This machine's files"), ("cpu", "Client's CPU"),
)  # fmt: skip


@dataclass(frozen=True)
class Quantity:
    """What a step reached, as one colour of bars. scale: from the stored value; text: of a stored value, in words."""

    name: str
    field: str
    scale: float
    unit: str
    text: Callable[[float], str]


VIEWS = (
    ("Read and write", "Throughput (MB/s)", (
        Quantity("Read", "read_bytes_per_s", 1e-6, "MB/s", rate_text),
        Quantity("Write", "write_bytes_per_s", 1e-6, "MB/s", rate_text),
    )),
    ("Files per second", "Files per second", (Quantity("Files", "files_per_s", 1.0, "files/s", count_text),)),
    ("Time", "Time (s)", (Quantity("Time", "wall_ns", 1e-9, "s", duration_text),)),
    ("CPU", "Processors of the client in use", (
        Quantity("CPU", "cpu_fraction", 1.0, "processors", lambda value: f"{value:.2g}"),
    )),
)  # fmt: skip


def fill(chart: Chart, runs: Sequence[Shown], series: Sequence[Series] = ()) -> None:
    """Adds the figures of each run of jobs. series: of all runs, for the network over time."""
    for run in runs:
        job = part_of(run.run.document, "job", JobDocument)
        if not job or not job.steps:
            continue
        chart.add([run.name, "Where the time went"], shares(job), _shares_words(job))
        course = job_network.over_time(run.run, run.index, job.steps, series)
        if course is not None:
            chart.add([run.name, "Network over time"], *course)
        for name, axis, quantities in VIEWS:
            wanted = [one for one in quantities if any(getattr(step, one.field) > 0 for step in job.steps)]
            if wanted:
                chart.add([run.name, name], bars(job, axis, wanted), _bars_words(job, wanted))


def shares(job: JobDocument) -> Figure:
    """Stacked horizontal bars: percent of the streams' time at each side, a bar for each job in order."""
    steps = job.steps
    labels = [_label(step, number) for number, step in enumerate(steps)]
    traces: list[Trace] = [
        {
            "type": "bar", "orientation": "h", "name": name, "marker": {"color": theme.run_colour(index)},
            "x": numbers(100 * getattr(step.shares, side) for step in steps), "y": labels,
            "hovertemplate": f"<b>%{{x:.3~g}} %</b><br>%{{y}}: {name}<extra></extra>",
        }
        for index, (side, name) in enumerate(SIDES)
        if any(getattr(step.shares, side) > 0 for step in steps)
    ]  # fmt: skip
    found = _layout(labels, plain_axis("Share of the streams' time (%)", range=[0, 100]), "stack")
    found["layout"]["legend"]["traceorder"] = "normal"
    return {"data": traces, **found}


def bars(job: JobDocument, axis: str, quantities: Sequence[Quantity]) -> Figure:
    """Horizontal bars, a group for each job: the median of its repeats, and a dot for each where there are several."""
    groups = _groups(job)
    labels = list(groups)
    traces: list[Trace] = []
    # Plotly stacks the bars of a group upwards: the first quantity goes last, to be on top.
    for at, one in reversed([*enumerate(quantities)]):
        colour = theme.run_colour(at)
        values = {label: [getattr(step, one.field) * one.scale for step in steps] for label, steps in groups.items()}
        traces.append({
            "type": "bar", "orientation": "h", "name": one.name, "offsetgroup": one.name, "legendgroup": one.name,
            "x": numbers(statistics.median(values[label]) for label in labels), "y": labels,
            "marker": {"color": colour, "opacity": 0.75},
            "hovertemplate": f"<b>%{{x:,.4~g}} {one.unit}</b><br>%{{y}}: {one.name}<extra></extra>",
        })  # fmt: skip
        dots = [(value, label) for label in labels for value in values[label] if len(values[label]) > 1]
        if dots:
            traces.append({
                "type": "scatter", "mode": "markers", "orientation": "h", "name": f"{one.name}, each repeat",
                "offsetgroup": one.name, "legendgroup": one.name, "showlegend": False,
                "x": numbers(value for value, _ in dots), "y": [label for _, label in dots],
                "marker": {"color": colour, "size": 7, "line": {"color": theme.SURFACE, "width": 1}},
                "hovertemplate": f"%{{x:,.4~g}} {one.unit}<br>%{{y}}: {one.name}, one repeat<extra></extra>",
            })  # fmt: skip
    top = max((value for trace in traces for value in trace["x"]), default=0.0) or 1.0
    found = _layout(labels, plain_axis(axis, range=[0, 1.06 * top]), "group", rows=len(quantities))
    found["layout"]["scattermode"] = "group"
    found["layout"]["legend"]["traceorder"] = "reversed"
    found["layout"]["showlegend"] = len(quantities) > 1
    return {"data": traces, **found}


def _layout(labels: Sequence[str], xaxis: dict[str, Any], mode: str, rows: int = 1) -> Figure:
    """Without data. rows: bars of one label."""
    axis = plain_axis("", type="category", categoryorder="array", categoryarray=labels[::-1], ticklabelstandoff=6)
    layout = base_layout(
        barmode=mode, bargap=0.35, height=max(240, 130 + (22 + 14 * rows) * len(labels)), showlegend=True,
        xaxis=xaxis, yaxis=axis,
    )  # fmt: skip
    layout["margin"] = {**layout["margin"], "l": 60, "t": 44}
    legend_above(layout, y=1)
    return {"layout": layout}


def _groups(job: JobDocument) -> dict[str, list[JobStep]]:
    """The repeats of each job by its name; those that only prepare stand for themselves."""
    groups: dict[str, list[JobStep]] = {}
    for step in job.steps:
        groups.setdefault(step.job + (" (prepares)" if step.prepares else ""), []).append(step)
    return groups


def _label(step: JobStep, number: int) -> str:
    """Names the step; unlike all others of the run."""
    again = f", repeat {step.repeat + 1}" if step.repeat else ""
    return f"{number + 1}. {step.job}{again}" + (" (prepares)" if step.prepares else "")


def _shares_words(job: JobDocument) -> str:
    told = []
    for name, steps in _groups(job).items():
        shares = {side: statistics.median(getattr(step.shares, side) for step in steps) for side, _ in SIDES}
        parts = [f"{label.lower()} {100 * shares[side]:.0f} %" for side, label in SIDES if shares[side] >= 0.005]
        told.append(f"{name}: {', '.join(parts)}")
    return "; ".join(told).replace("client's cpu", "client's CPU") + "."


def _bars_words(job: JobDocument, quantities: Sequence[Quantity]) -> str:
    return "; ".join(f"{name}: {_told(steps, quantities)}" for name, steps in _groups(job).items()) + "."


def _told(steps: Sequence[JobStep], quantities: Sequence[Quantity]) -> str:
    parts = []
    for one in quantities:
        values = sorted(getattr(step, one.field) for step in steps)
        if values[-1] <= 0 and len(quantities) > 1:
            continue
        text = one.text(statistics.median(values))
        name = f"{one.name.lower()} " if len(quantities) > 1 else ""
        ends = f" ({one.text(values[0])} to {one.text(values[-1])})" if len(values) > 1 else ""
        parts.append(f"{name}{text}{ends}")
    return ", ".join(parts) or "nothing moved"
