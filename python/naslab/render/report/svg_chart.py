"""A figure of the report as SVG, for print: lines, marks, bars and reference lines on one or two pairs of axes.

Of Plotly's JSON it draws what the report's flat figures use: scatter and horizontal bars, linear, logarithmic and
category axes with domains, shapes with labels, error bars. Heat maps and surfaces are none of it: see `can_draw`.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from naslab.render.report import theme
from naslab.render.report.labels import clean

Figure = Mapping[str, Any]
Trace = Mapping[str, Any]
FONT = "Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif"
_WIDE = 0.58
"""Width of a letter over its size: of the widest of the fonts above, so that no text is longer than it was counted."""
_SIZE = 11.0
MAX_LEGEND = 8
_DASHES = {"dash": "5 3", "dot": "1.5 3", "dashdot": "5 3 1.5 3"}
_PLAIN = str.maketrans({"<": " ", ">": " "})


def can_draw(figure: Figure) -> bool:
    """Whether it consists of what is drawn here."""
    return all(trace["type"] in ("scatter", "bar") for trace in figure["data"])


def text_width(text: str, size: float = _SIZE) -> float:
    """How wide a text is at most."""
    return len(text) * size * _WIDE


def text(x: float, y: float, words: str, **look: Any) -> str:
    """A text element; size, anchor, fill, weight as `look`."""
    style = {"font-size": look.pop("size", _SIZE), "text-anchor": look.pop("anchor", "start"), **look}
    attributes = " ".join(f'{name.replace("_", "-")}="{value}"' for name, value in style.items())
    return f'<text x="{x:.1f}" y="{y:.1f}" {attributes}>{html.escape(clean(words))}</text>'


@dataclass(frozen=True)
class Axis:
    """One axis: where its values lie between `start` and `end` in points of the page."""

    kind: str
    low: float
    high: float
    start: float
    end: float
    ticks: Sequence[tuple[Any, str]]
    title: str
    names: Sequence[str] = ()

    def at(self, value: Any) -> float | None:
        """The place of a value; None for none and for what a logarithm has no place for."""
        number: float | None
        if self.kind == "category":
            number = self.names.index(value) if value in self.names else None
        elif self.kind == "log":
            number = math.log10(value) if value and value > 0 else None
        else:
            number = value
        if number is None or self.high == self.low:
            return None
        return self.start + (number - self.low) / (self.high - self.low) * (self.end - self.start)


def draw(figure: Figure, left: float, top: float, width: float, height: float) -> str:
    """The figure within this box, as SVG elements."""
    layout = figure["layout"]
    traces = [trace for trace in figure["data"] if _is_chosen(trace, figure)]
    legend, legend_height = _legend(traces, left, top, width)
    names = {side: [name for name in layout if name.startswith(f"{side}axis")] for side in "xy"}
    categories = [layout[name] for name in names["y"] if layout[name].get("type") == "category"]
    longest = max((len(_plain(one)) for axis in categories for one in axis.get("categoryarray", ())), default=0)
    margin = min(max(52.0, text_width("x" * min(longest, 30)) + 10), 0.4 * width)
    inner = (left + margin, top + legend_height + 6, left + width - 10, top + height - 40)
    axes = {name: _axis(layout[name], name, traces, inner) for side in "xy" for name in names[side]}
    parts = [legend]
    pairs = sorted({_pair(trace) for trace in traces})
    for pair in pairs:
        x, y = (axes[name] for name in pair)
        # Pictures above one another share the axis of the lowest.
        lowest = max(axes[other].start for one, other in pairs if one == pair[0] or layout[one].get("anchor"))
        parts += _frame(x, y, y.start >= lowest, x.start <= inner[0] + 1)
    for trace in traces:
        x, y = (axes[name] for name in _pair(trace))
        parts += _bars(trace, x, y, traces) if trace["type"] == "bar" else _scatter(trace, x, y)
    x, y = axes["xaxis"], axes["yaxis"]
    for shape in layout.get("shapes") or []:
        parts += _shape(shape, x, y)
    return "\n".join(part for part in parts if part)


def _is_chosen(trace: Trace, figure: Figure) -> bool:
    """Whether it belongs to what a chooser of the figure has first."""
    chosen = figure.get("filter")
    value = (trace.get("meta") or {}).get(chosen["by"]) if chosen else None
    return value is None or str(value) == chosen["options"][0]["value"]  # type: ignore[index]


def _pair(trace: Trace) -> tuple[str, str]:
    return tuple(f"{side}axis{str(trace.get(f'{side}axis') or side)[1:]}" for side in "xy")  # type: ignore[return-value]


def _plain(words: Any) -> str:
    """A label of Plotly, which is HTML, as plain text."""
    return html.unescape(str(words).replace("<br>", " ")).translate(_PLAIN)


def _axis(
    layout: Mapping[str, Any], name: str, traces: Sequence[Trace], inner: tuple[float, float, float, float]
) -> Axis:
    side = name[0]
    low, high = layout.get("domain") or (0, 1)
    if side == "x":
        ends = (inner[0] + low * (inner[2] - inner[0]), inner[0] + high * (inner[2] - inner[0]))
    else:
        ends = (inner[3] - low * (inner[3] - inner[1]), inner[3] - high * (inner[3] - inner[1]))
    title = _plain((layout.get("title") or {}).get("text") or "")
    if layout.get("type") == "category":
        names = list(layout.get("categoryarray") or [])
        if layout.get("autorange") == "reversed":
            names.reverse()
        ticks = [(one, _plain(one)) for one in names]
        return Axis("category", -0.6, len(names) - 0.4, *ends, ticks, title, names)
    values = [
        value
        for trace in traces if _pair(trace)["xy".index(side)] == name
        for value in trace.get(side) or [] if isinstance(value, int | float)
    ]  # fmt: skip
    if layout.get("type") == "log":
        span = layout.get("range") or (math.log10(min(values)) - 0.1, math.log10(max(values)) + 0.1)
        shown = zip(layout.get("tickvals") or [], layout.get("ticktext") or [], strict=False)
        ticks = [(value, str(label)) for value, label in shown if span[0] <= math.log10(value) <= span[1]]
        return Axis("log", span[0], span[1], *ends, _apart(ticks, ends, side), title)
    bottom, peak = layout.get("range") or (min([0.0, *values]), max(values, default=1.0))
    if not layout.get("range"):
        peak *= 1.05 if side == "y" else 1.0
    return Axis("linear", bottom, peak or 1.0, *ends, _linear_ticks(bottom, peak or 1.0), title)


def _linear_ticks(low: float, high: float) -> list[tuple[float, str]]:
    step = 10.0 ** math.floor(math.log10((high - low) or 1.0))
    step *= next(factor for factor in (0.2, 0.5, 1, 2) if (high - low) / (factor * step) <= 6)
    first = math.ceil(low / step - 1e-9)
    return [(at * step, f"{at * step:,.6g}") for at in range(first, math.floor(high / step + 1e-9) + 1)]


def _apart(ticks: list[tuple[Any, str]], ends: tuple[float, float], side: str) -> list[tuple[Any, str]]:
    """Every tick, or every other, ... so that their labels do not touch."""
    room = abs(ends[1] - ends[0])
    needed = max((text_width(label, 10) + 6 for _, label in ticks), default=1.0) if side == "x" else 14.0
    step = max(1, math.ceil(len(ticks) * needed / room))
    return ticks[::step]


def _frame(x: Axis, y: Axis, labelled: bool, first: bool) -> Iterator[str]:
    """Grid, ticks and titles of a pair of axes. labelled: the x axis has its texts here. first: the y axis has."""
    for value, label in x.ticks:
        at = x.at(value)
        yield _line(at, y.start, at, y.end, theme.GRID)
        if labelled:
            yield text(at or 0, y.start + 14, label, size=10, anchor="middle", fill=theme.MUTED)
    for value, label in y.ticks:
        at = y.at(value)
        yield _line(x.start, at, x.end, at, theme.GRID)
        if not first and y.kind == "category":
            continue
        yield text(x.start - 6, (at or 0) + 3.5, label[:34], size=10, anchor="end", fill=theme.MUTED)
    yield _line(x.start, y.start, x.end, y.start, theme.MUTED)
    if x.title and labelled:
        yield text((x.start + x.end) / 2, y.start + 30, x.title, anchor="middle", fill=theme.INK)
    if y.title:
        middle, place = (y.start + y.end) / 2, x.start - 42
        turned = {"transform": f"rotate(-90 {place:.1f} {middle:.1f})"}
        yield text(place, middle, y.title, anchor="middle", fill=theme.INK, **turned)


def _line(x: Any, y: Any, x2: Any, y2: Any, colour: str, width: float = 1, dash: str = "") -> str:
    if None in (x, y, x2, y2):
        return ""
    dashes = f' stroke-dasharray="{dash}"' if dash else ""
    return (
        f'<path d="M{x:.1f} {y:.1f}L{x2:.1f} {y2:.1f}" stroke="{colour}" stroke-width="{width}"{dashes} fill="none"/>'
    )


def _dash(of: Trace) -> str:
    return _DASHES.get(str((of.get("line") or {}).get("dash")), "")


def _colour(trace: Trace) -> str:
    line, marker = trace.get("line") or {}, trace.get("marker") or {}
    found = line.get("color") or marker.get("color") or theme.ACCENT
    return str(found[0] if isinstance(found, list) else found)


def _scatter(trace: Trace, x: Axis, y: Axis) -> Iterator[str]:
    """Area, line, error bars and marks of a trace."""
    places = [(x.at(one), y.at(other)) for one, other in zip(trace.get("x") or [], trace.get("y") or [], strict=False)]
    mode, colour = str(trace.get("mode") or "lines"), _colour(trace)
    line = trace.get("line") or {}
    if trace.get("fill") and trace.get("fillcolor"):
        yield f'<path d="{_path(places, line.get("shape"))}Z" fill="{trace["fillcolor"]}" stroke="none"/>'
    if "lines" in mode and line.get("width", 2):
        dashes = f' stroke-dasharray="{_dash(trace)}"' if _dash(trace) else ""
        yield (
            f'<path d="{_path(places, line.get("shape"))}" stroke="{colour}" stroke-width="{line.get("width", 2)}"'
            f'{dashes} fill="none" stroke-linejoin="round"/>'
        )
    yield from _errors(trace, x, y, colour)
    if "markers" in mode:
        marker = trace.get("marker") or {}
        size, symbols = marker.get("size", 6), marker.get("symbol", "circle")
        for at, place in enumerate(places):
            symbol = symbols[at] if isinstance(symbols, list) else symbols
            radius = (size[at] if isinstance(size, list) else size) / 2
            if None not in place:
                yield _mark(str(symbol), place[0], place[1], radius, colour)  # type: ignore[arg-type]


def _path(places: Sequence[tuple[float | None, float | None]], shape: str | None) -> str:
    """Straight pieces, or steps; a gap where a value is missing."""
    out, before = [], None
    for x, y in places:
        if x is None or y is None:
            before = None
            continue
        corner = f"L{x:.1f} {before:.1f}" if before is not None and shape == "hv" else ""
        out.append(f"{corner}{'M' if before is None else 'L'}{x:.1f} {y:.1f}")
        before = y
    return "".join(out)


def _errors(trace: Trace, x: Axis, y: Axis, colour: str) -> Iterator[str]:
    for side in "xy":
        bars = trace.get(f"error_{side}") or {}
        above = bars.get("array") or []
        below = bars.get("arrayminus") or above
        for one, other, more, less in zip(trace["x"], trace["y"], above, below, strict=False):
            if isinstance(more, int | float) and side == "y":
                yield _line(x.at(one), y.at(other - (less or 0)), x.at(one), y.at(other + more), colour, 1.5)
            elif isinstance(more, int | float):
                yield _line(x.at(one - (less or 0)), y.at(other), x.at(one + more), y.at(other), colour, 1.5)


def _mark(symbol: str, x: float, y: float, r: float, colour: str) -> str:
    fill, stroke = ("#ffffff", colour) if symbol.endswith("-open") else (colour, colour)
    look = f'fill="{fill}" stroke="{stroke}" stroke-width="1"'
    if symbol.startswith("square"):
        return f'<rect x="{x - r:.1f}" y="{y - r:.1f}" width="{2 * r:.1f}" height="{2 * r:.1f}" {look}/>'
    corners = {
        "diamond": ((0, -1.2), (1.2, 0), (0, 1.2), (-1.2, 0)), "triangle-up": ((0, -1.1), (1, 0.8), (-1, 0.8)),
        "triangle-down": ((0, 1.1), (1, -0.8), (-1, -0.8)),
    }.get(symbol.removesuffix("-open"))  # fmt: skip
    if corners:
        points = " ".join(f"{x + r * dx:.1f},{y + r * dy:.1f}" for dx, dy in corners)
        return f'<polygon points="{points}" {look}/>'
    if symbol.startswith("line"):
        return _line(x - r, y, x + r, y, colour, 2)
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{r:.1f}" {look}/>'


def _bars(trace: Trace, x: Axis, y: Axis, traces: Sequence[Trace]) -> Iterator[str]:
    """Horizontal bars, those of several traces beneath one another, each with its value."""
    groups = list(dict.fromkeys(each.get("offsetgroup", each.get("name")) for each in traces if each["type"] == "bar"))
    slot = abs(y.end - y.start) / max(len(y.names) + 0.2, 1)
    thick = min(slot * 0.72 / len(groups), 22.0)
    number = groups.index(trace.get("offsetgroup", trace.get("name")))
    colours = (trace.get("marker") or {}).get("color") or theme.ACCENT
    labels = trace.get("text") or []
    begin = x.start if x.kind == "log" else x.at(max(x.low, 0.0)) or x.start
    for at, (value, name) in enumerate(zip(trace["x"], trace["y"], strict=False)):
        end, middle = x.at(value), y.at(name)
        if end is None or middle is None:
            continue
        top = middle + (number - len(groups) / 2) * thick
        colour = colours[at] if isinstance(colours, list) else colours
        size = f'width="{max(end - begin, 0.5):.1f}" height="{thick - 1:.1f}"'
        yield f'<rect x="{begin:.1f}" y="{top:.1f}" {size} fill="{colour}"/>'
        words = _plain(labels[at]) if isinstance(labels, list) and at < len(labels) else ""
        inside = text_width(words, 10) + 8 < end - begin
        if words:
            place, fill = (begin + 5, "#ffffff") if inside else (end + 8, theme.INK)
            yield text(place, top + thick / 2 + 3, words, size=10, fill=fill)


def _shape(shape: Mapping[str, Any], x: Axis, y: Axis) -> Iterator[str]:
    """A reference line over the whole width or height, or a band."""

    def place(axis: Axis, side: str, key: str) -> float | None:
        if str(shape.get(f"{side}ref", "")) in ("paper", f"{side} domain"):
            return axis.start + float(shape[key]) * (axis.end - axis.start)
        return axis.at(shape.get(key))

    ends = [place(x, "x", "x0"), place(y, "y", "y0"), place(x, "x", "x1"), place(y, "y", "y1")]
    line = shape.get("line") or {}
    if shape.get("type") == "rect" and None not in ends:
        left, top = min(ends[0], ends[2]), min(ends[1], ends[3])  # type: ignore[type-var]
        size = f'width="{abs(ends[2] - ends[0]):.1f}" height="{abs(ends[3] - ends[1]):.1f}"'  # type: ignore[operator]
        yield f'<rect x="{left:.1f}" y="{top:.1f}" {size} fill="{shape.get("fillcolor", theme.GRID)}" stroke="none"/>'
        return
    colour, width = str(line.get("color", theme.RULE)), line.get("width", 1.5)
    if width:
        yield _line(ends[0], ends[1], ends[2], ends[3], colour, width, _dash(shape))
    words = _plain((shape.get("label") or {}).get("text") or "")
    if words and None not in ends:
        yield text(ends[2] or 0, (ends[3] or 0) - 4, words, size=10, anchor="end", fill=colour)


def _legend(traces: Sequence[Trace], left: float, top: float, width: float) -> tuple[str, float]:
    """Names of the traces in lines above the picture, and their height; nothing for a single one."""
    named: dict[str, Trace] = {}
    for trace in traces:
        if trace.get("showlegend") is not False and trace.get("name"):
            named.setdefault(_plain(trace["name"]), trace)
    if len(named) < 2:
        return "", 0.0
    x, y, parts = left + 52, top + 8, []
    for name, trace in list(named.items())[:MAX_LEGEND]:
        shown = name if len(name) <= 40 else f"{name[:39]}…"
        if x + 24 + text_width(shown, 10) > left + width and x > left + 52:
            x, y = left + 52, y + 15
        colour = _colour(trace)
        mode, thick = str(trace.get("mode") or ""), 6 if trace["type"] == "bar" else 2
        parts.append(_line(x, y, x + 18, y, colour, thick, _dash(trace)) if mode != "markers" else "")
        if "markers" in mode:
            symbols = (trace.get("marker") or {}).get("symbol", "circle")
            parts.append(_mark(str(symbols[0] if isinstance(symbols, list) else symbols), x + 9, y, 3, colour))
        parts.append(text(x + 23, y + 3.5, shown, size=10, fill=theme.INK))
        x += 40 + text_width(shown, 10)
    return "\n".join(parts), y - top + 10
