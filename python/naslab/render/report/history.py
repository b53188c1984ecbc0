"""The report of a target's history: the course of its runs with their change points, and a table of them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

from naslab.comparison.history import Course, as_document
from naslab.comparison.history_words import apart, change_lines
from naslab.render.report import page, theme, write_text
from naslab.render.report.axes import base_layout, number, numbers, plain_axis, rate_axis
from naslab.render.report.figures import Figure
from naslab.render.report.labels import esc, plot_text, text_table, tight
from naslab.render.report.views import Chart


def write(courses: Sequence[Course], path: Path) -> Path:
    """Writes the page, whole or not at all, and returns the path. Raises UsageError."""
    return write_text(render(courses), path)


def render(courses: Sequence[Course]) -> str:
    """The page as HTML text. Raises UsageError without the plotly package."""
    chart = Chart("course", "Course", "The rates of each run, relative to their median over all runs; a line for each "
                  "stretch without a change.", ["Target and command"])  # fmt: skip
    for course in courses:
        chart.add([_title(course)], course_figure(course), _words(course))
    title = f"History of {courses[0].target['url']}"
    body = "\n".join([f"<header><h1>{esc(title)}</h1>{''.join(map(_verdict, courses))}</header>",
                      page.chart_section(chart), *map(_table, courses),
                      page.download_section("Every number of this page.", "History (JSON)")])  # fmt: skip
    data = {"schema": 1, "run_id": "history", "courses": [as_document(course) for course in courses]}
    return page.of_parts(title, body, [chart], data)


def course_figure(course: Course) -> Figure:
    """Index against time, stretches as levels, changes as marks."""
    times = [run["started_at"] for run in course.runs]
    names = [f"{run['run_id']} {plot_text(run.get('label') or '')}" for run in course.runs]
    dots = {
        "type": "scatter", "mode": "markers", "name": "run", "x": times, "y": numbers(course.index.tolist()),
        "text": names, "marker": {"color": theme.run_colour(0), "size": 8},
        "hovertemplate": "<b>%{y:.3f}</b><br>%{text}<br>%{x}<extra></extra>",
    }  # fmt: skip
    edges = [0, *(change.step.at for change in course.changes), len(course.runs)]
    levels = []
    for before, after in itertools.pairwise(edges):
        middle = sorted(course.index[before:after].tolist())[(after - before) // 2]
        levels.append({
            "type": "scatter", "mode": "lines", "name": "stretch", "showlegend": before == 0,
            "x": [times[before], times[after - 1]], "y": [number(middle)] * 2,
            "line": {"color": theme.run_colour(1), "width": 3}, "hoverinfo": "skip",
        })  # fmt: skip
    layout = base_layout(
        xaxis=plain_axis("Start of the run", type="date"), yaxis=rate_axis([*course.index.tolist(), 1.0], "Index"),
        height=420, showlegend=True,
    )  # fmt: skip
    return {"data": [*levels, dots], "layout": layout}


def _words(course: Course) -> str:
    return " ".join(_sentences(course))


def _sentences(course: Course) -> list[str]:
    """One for each change, and for a last run that stands out."""
    told = [tight(change_lines(course, change)[0].strip()) + "." for change in course.changes]
    if course.last is not None:
        told.append(f"The last run stands out: {apart(course.last)} than those before.")
    return told or [f"{len(course.runs)} runs, no change detected."]


def _verdict(course: Course) -> str:
    items = "".join(f"<li>{esc(sentence)}</li>" for sentence in _sentences(course))
    return f'<section class="verdict"><h2>{esc(_title(course))}</h2><ul>{items}</ul></section>'


def _title(course: Course) -> str:
    return f"{course.target['url']}, {course.command}"


def _table(course: Course) -> str:
    starts = {change.run_id: apart(change.step.ratio) for change in course.changes}
    rows = [
        [run["run_id"], run["started_at"][:16].replace("T", " "), str(run.get("label") or ""), f"{index:.3f}",
         starts.get(run["run_id"], "")]
        for run, index in zip(course.runs, course.index, strict=True)
    ]  # fmt: skip
    table = text_table(_title(course), ["Run", "Started (UTC)", "Label", "Index", "Changed"], rows)
    return f"<section><h2>Runs</h2>{table}</section>"
