"""Reference lines on finished figures: link ceilings, what a reader asks for, and where an axis of rates ends."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

from naslab.render.report import theme
from naslab.render.report.axes import log_ticks, number, scaled
from naslab.render.report.drawing import Drawing
from naslab.render.report.labels import count_label, plot_text
from naslab.units import rate_text

Figure = dict[str, Any]

CLOSE = 1.2
"""Two lines of which one is at most so many times the other are close on a logarithmic axis."""
NEAR = 0.05
"""Two lines that are at most this part of the highest one apart are close on a linear axis."""
SAME = 1.002
"""Lines closer than that are one line with both names."""


def rules(levels: Sequence[tuple[str, float]]) -> list[dict[str, Any]]:
    """A dashed horizontal line with its name for each (text, level in units of the y axis), on any kind of axis.

    Of lines that are close the lowest has its name beneath, the highest above, those between at other places.
    """
    ranked = _distinct(levels)
    groups: list[list[tuple[str, float]]] = []
    for text, level in ranked:
        below = groups[-1][-1][1] if groups else -math.inf
        close = level <= CLOSE * below or level - below <= NEAR * ranked[-1][1]
        groups[len(groups) - close :] = [[*(groups[-1] if close else []), (text, level)]]
    placed = [(*each, *where) for group in groups for each, where in zip(group, _places(len(group)), strict=True)]
    return [shape for each in placed for shape in _rule(*each)]


def _distinct(levels: Sequence[tuple[str, float]]) -> list[tuple[str, float]]:
    """By level; names of one level in one."""
    found: list[tuple[str, float]] = []
    for text, level in sorted(levels, key=lambda each: each[1]):
        if found and level <= SAME * found[-1][1]:
            found[-1] = (f"{found[-1][0]}; {text}" if text != found[-1][0] else text, level)
        else:
            found.append((text, level))
    return found


def _places(count: int) -> list[tuple[str, str]]:
    """Where the names of so many lines that are close stand: along the line, and on which side of it."""
    between = [("end", "top"), ("middle", "top"), ("middle", "bottom"), ("end", "bottom")]
    if count == 1:
        return [("start", "bottom")]
    return [("start", "top"), *(between[at % len(between)] for at in range(count - 2)), ("start", "bottom")]


def _rule(text: str, level: float, place: str, side: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The line, under the data, and its name, over them and over the grid."""
    where = {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "yref": "y", "y0": level, "y1": level}
    font = {"color": theme.RULE, "size": 12, "shadow": theme.HALO}
    label = {"text": plot_text(text), "textposition": place, "yanchor": side, "padding": 2, "font": font}
    line = {**where, "layer": "below", "line": {"color": theme.RULE, "width": 1.5, "dash": "dash"}}
    return line, {**where, "layer": "above", "line": {"color": theme.RULE, "width": 0}, "label": label}


def uprights(figure: Figure, levels: Sequence[tuple[str, float]], high: float | None = None) -> None:
    """Adds dashed lines at levels of the x axis, and above the picture their names, in as many rows as keep them apart.

    high: where the axis ends, which begins at zero; None: as its range says, which may be of logarithms.
    """
    layout, narrow = figure["layout"], figure.get("narrow") or {}
    span = (0.0, high) if high is not None else tuple(layout["xaxis"]["range"])
    layout["shapes"] = [*layout.get("shapes", ()), *(_upright(level) for _, level in levels)]
    slim = {**layout, **narrow}
    found = [_names(part, levels, span, px) for part, px in ((layout, AXIS_PX), (slim, SLIM_PX))]
    layout.update(found[0])
    figure["narrow"] = {**narrow, **found[1]}


def _names(
    layout: dict[str, Any], levels: Sequence[tuple[str, float]], span: tuple[float, ...], axis_px: int
) -> dict[str, Any]:
    """Annotations, margin and height of a layout with the names of `levels` above an axis so many pixels long."""
    log = layout["xaxis"].get("type") == "log"
    notes, (begin, end) = [], span
    rows: list[list[tuple[float, float]]] = []
    for text, level in sorted(levels, key=lambda each: -each[1]):
        place = math.log10(level) if log else level
        at, width = axis_px * (place - begin) / (end - begin), LETTER_PX * len(text) + 8
        ends = (at - width, at) if at >= width else (at, at + width)
        free = (row for row, taken in enumerate(rows) if all(ends[1] <= low or ends[0] >= top for low, top in taken))
        row = next(free, len(rows))
        rows[row:] = [[*(rows[row] if row < len(rows) else []), ends], *rows[row + 1 :]]
        notes.append(_above(text, place, "right" if at >= width else "left", row))
    return {
        "annotations": [*layout.get("annotations", ()), *notes],
        "margin": {**layout["margin"], "t": max(layout["margin"]["t"], 22 + ROW_PX * len(rows))},
        "height": layout["height"] + ROW_PX * max(len(rows) - 1, 0),
    }


AXIS_PX, SLIM_PX, LETTER_PX, ROW_PX = 560, 250, 6.2, 15
"""A usual axis, one on a phone, a letter and a row of names."""


def _upright(level: float) -> dict[str, Any]:
    return {
        "type": "line", "xref": "x", "x0": level, "x1": level, "yref": "paper", "y0": 0, "y1": 1, "layer": "below",
        "line": {"color": theme.RULE, "width": 1.5, "dash": "dash"},
    }  # fmt: skip


def _above(text: str, level: float, side: str, row: int) -> dict[str, Any]:
    return {
        "xref": "x", "x": level, "xanchor": side, "yref": "paper", "y": 1, "yanchor": "bottom", "yshift": ROW_PX * row,
        "text": plot_text(text), "showarrow": False, "font": {"color": theme.RULE, "size": 12},
    }  # fmt: skip


def asked(figure: Figure, drawing: Drawing, axis: str = "yaxis") -> Figure:
    """The figure, whose axis holds MB/s, with the lines that were asked for and its end where that was.

    axis: `yaxis`, or `xaxis` of horizontal bars. The axis grows until every line is on it, unless it must end
    before. `scales`, where a figure has them, are treated alike. Changes and returns `figure`.
    """
    if not drawing.lines and drawing.y_max_bytes_per_s is None:
        return figure
    layout = figure["layout"]
    most = None if drawing.y_max_bytes_per_s is None else drawing.y_max_bytes_per_s / 1e6
    levels = [(text, scaled(rate, "bytes")) for text, rate in drawing.lines]
    levels = [(text, level) for text, level in levels if most is None or level <= most]
    top = max((value for trace in figure["data"] for value in _values(trace, axis)), default=1.0)
    for each in (layout[axis], *(scale["yaxis"] for scale in figure.get("scales", ()))):
        _reach(each, [level for _, level in levels], most, top)
    if axis == "yaxis":
        shapes = layout.get("shapes", [])
        known = [(shape["label"]["text"], shape["y0"]) for shape in shapes if _is_rule(shape) and "label" in shape]
        layout["shapes"] = [*(shape for shape in shapes if not _is_rule(shape)), *rules([*known, *levels])]
        return figure
    notes = layout.get("annotations", [])
    named = [note for note in notes if note["font"]["color"] == theme.RULE]
    layout["annotations"] = [note for note in notes if note not in named]
    layout["shapes"] = [shape for shape in layout.get("shapes", []) if shape["line"]["color"] != theme.RULE]
    figure["narrow"] = {name: each for name, each in (figure.get("narrow") or {}).items() if name not in _OF_NAMES}
    uprights(figure, [*((note["text"], note["x"]) for note in named), *levels])
    return figure


_OF_NAMES = ("annotations", "margin", "height")


def _is_rule(shape: dict[str, Any]) -> bool:
    return bool(shape["type"] == "line" and shape["line"]["color"] == theme.RULE and shape["xref"] == "paper")


def _values(trace: dict[str, Any], axis: str) -> list[float]:
    if trace.get(axis, axis[0]) not in (axis[0], f"{axis[0]}1"):
        return []
    return [value for value in trace[axis[0]] if isinstance(value, int | float)]


def _reach(axis: dict[str, Any], levels: Sequence[float], most: float | None, top: float) -> None:
    """Lets an axis of MB/s reach every level, and end at `most`."""
    if axis.get("type") == "log":
        low, high = axis["range"]
        logs = [math.log10(level) for level in levels]
        low, high = min([low, *(each - 0.12 for each in logs)]), max([high, *(each + 0.09 for each in logs)])
        if most is not None:
            high = math.log10(most)
            low = min(low, high - 1)
        ticks = log_ticks(10**low, 10**high)
        axis.update(range=[low, high], tickvals=ticks, ticktext=[f"{tick:,.10g}" for tick in ticks])
        return
    high = (axis.get("range") or (0, 1.08 * top))[1]
    axis["range"] = [0, number(max([high, *(1.1 * level for level in levels)]) if most is None else most)]


def said(figure: Figure, drawing: Drawing, axis: str = "yaxis") -> str:
    """What `asked` did, for the caption: the lines by name, and how many values lie above the axis."""
    words = ""
    if drawing.lines:
        words += f" Lines: {'; '.join(text for text, _ in drawing.lines)}."
    if drawing.y_max_bytes_per_s is not None:
        most = drawing.y_max_bytes_per_s
        solid = [trace for trace in figure["data"] if trace.get("mode") != "lines" or trace.get("fill") is None]
        above = sum(value > most / 1e6 for value in itertools.chain(*(_values(trace, axis) for trace in solid)))
        beyond = f"; {count_label(above, 'value')} above it" if above else ""
        words += f" The axis ends at {rate_text(most)}{beyond}."
    return words
