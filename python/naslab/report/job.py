"""The picture of `naslab job`: where the time of the streams went, job by job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from naslab.report import theme
from naslab.report.axes import base_layout, numbers, plain_axis
from naslab.report.figures import Figure, Trace

if TYPE_CHECKING:
    from naslab.report.views import Chart, Shown

Job = Mapping[str, Any]

SIDES = (
    ("source", "Source"), ("target", "Target"), ("local", "This machine's files"), ("cpu", "Between requests (CPU)"),
)  # fmt: skip


def fill(chart: Chart, runs: Sequence[Shown]) -> None:
    """Adds one figure for each run of jobs."""
    from naslab.jobs.outcome import sentences

    for run in runs:
        job: Any = run.run.document.get("job")
        if job and job["steps"]:
            chart.add([run.name], shares(job), " ".join(sentences(job)))


def shares(job: Job) -> Figure:
    """Stacked horizontal bars: percent of the streams' time at each side, a bar for each job in order."""
    steps = job["steps"]
    labels = [_label(step, number) for number, step in enumerate(steps)]
    traces: list[Trace] = [
        {
            "type": "bar", "orientation": "h", "name": name, "marker": {"color": theme.run_colour(index)},
            "x": numbers(100 * step["shares"][side] for step in steps), "y": labels,
            "hovertemplate": f"<b>%{{x:.3~g}} %</b><br>%{{y}}: {name}<extra></extra>",
        }
        for index, (side, name) in enumerate(SIDES)
        if any(step["shares"][side] > 0 for step in steps)
    ]  # fmt: skip
    layout = base_layout(
        barmode="stack", bargap=0.35, height=max(220, 110 + 34 * len(steps)), showlegend=True,
        xaxis=plain_axis("Share of the streams' time (%)", range=[0, 100]),
        yaxis=plain_axis("", type="category", categoryorder="array", categoryarray=labels[::-1], ticklabelstandoff=6),
    )  # fmt: skip
    layout["margin"]["l"] = 190
    return {"data": traces, "layout": layout}


def _label(step: Mapping[str, Any], number: int) -> str:
    """Names the job; unlike all others of the run."""
    again = f", repeat {step['repeat'] + 1}" if step["repeat"] else ""
    return f"{number + 1}. {step['job']}{again}" + (" (prepares)" if step["prepares"] else "")
