"""Axes, ticks and the common layout of the figures."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from naslab.render.report import theme
from naslab.render.report.labels import time_label
from naslab.units import size_label

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"


def number(value: float) -> float:
    """A value with six significant digits, enough for any picture."""
    return float(f"{value:.6g}")


def numbers(values: Iterable[float]) -> list[float]:
    """`number` of each."""
    return [number(value) for value in values]


def scaled(value: float, unit: str) -> float:
    """Stored bytes per second as MB/s; operations per second as they are."""
    return number(value / 1e6 if unit == "bytes" else value)


def log_ticks(low: float, high: float) -> list[float]:
    """Ticks of a logarithmic axis that shows [low, high], from one below to one above where they are 1-2-5.

    Within a factor of three: even steps. Over more than three decades: whole decades.
    """
    low, high = max(low, 1e-12), max(high, low, 1e-12)
    if high < 3 * low:
        step = (
            10.0 ** math.floor(math.log10(high - low)) if high > 1.001 * low else 10.0 ** math.floor(math.log10(high))
        )
        step *= next(factor for factor in (0.5, 1, 2, 5) if (high - low) / (factor * step) <= 6)
        first = math.floor(low / step)
        ticks = [number(index * step) for index in range(first, math.ceil(high / step) + 1) if index > 0]
        return ticks if len(ticks) > 1 else [number(low)]
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    steps: tuple[int, ...] = (1, 2, 5) if last - first <= 3 else (1,)
    if high < 12 * low:
        steps = (1, 2, 3, 5, 7)
    ticks = [number(step * 10.0**decade) for decade in range(first, last + 1) for step in steps]
    return [tick for tick in ticks if low / 2.6 <= tick <= high * 2.6] if len(steps) > 1 else ticks


def base_layout(**more: Any) -> dict[str, Any]:
    """What all figures share; `more` replaces whole keys."""
    base: dict[str, Any] = {
        "font": {"family": FONT, "size": 13, "color": theme.INK},
        "paper_bgcolor": theme.SURFACE,
        "plot_bgcolor": theme.SURFACE,
        "margin": {"l": 70, "r": 24, "t": 16, "b": 56},
        "hovermode": "closest",
        "hoverlabel": {"bgcolor": theme.SURFACE, "bordercolor": theme.MUTED, "font": {"color": theme.INK}},
        "legend": {"title": {"font": {"size": 12}}, "font": {"size": 12}, "itemsizing": "constant"},
    }
    return {**base, **more}


def legend_above(layout: dict[str, Any], y: float = 1.02, **more: Any) -> None:
    """Puts the legend above the picture: beside it, it would take half of a phone. y: of its lower edge."""
    layout["legend"] = {**layout["legend"], "orientation": "h", "x": 0, "y": y, "yanchor": "bottom", **more}


def plain_axis(title: str, **more: Any) -> dict[str, Any]:
    """A linear axis in the report's style."""
    return {
        "title": {"text": title, "standoff": 10, "font": {"size": 13}},
        "gridcolor": theme.GRID,
        "linecolor": theme.MUTED,
        "zeroline": False,
        "showline": False,
        "tickcolor": theme.MUTED,
        "automargin": True,
        **more,
    }


def size_axis(title: str, sizes: Sequence[int]) -> dict[str, Any]:
    """Logarithmic axis of sizes with every size (or every other, ...) as a tick in binary units."""
    step = -(-len(sizes) // 14)
    ticks = sizes[::step]
    pad = 0.15 if len(sizes) > 1 else 0.5
    span = [math.log10(max(sizes[0], 1)) - pad, math.log10(max(sizes[-1], 1)) + pad]
    return plain_axis(
        title, type="log", tickvals=list(ticks), ticktext=[size_label(size) for size in ticks], range=span, minor={}
    )


def rate_axis(values: Sequence[float], title: str) -> dict[str, Any]:
    """Logarithmic axis of rates, drawn values inside, 1-2-5 ticks."""
    known = [value for value in values if value > 0] or [1.0]
    low, high = min(known), max(known)
    span = math.log10(high / low)
    pad = max(0.06 * span, 0.12)
    # Of values that are close together the ticks go as far as the axis does, so that they do not crowd.
    ticks = log_ticks(low, high) if span > pad else log_ticks(low * 10**-pad, high * 10**pad)
    return plain_axis(
        title,
        type="log",
        tickvals=ticks,
        ticktext=[f"{tick:,.10g}" for tick in ticks],
        range=[math.log10(low) - pad, math.log10(high) + pad],
    )


def time_axis(values_ms: Sequence[float], title: str) -> dict[str, Any]:
    """Logarithmic axis of milliseconds, ticks in the unit that suits each."""
    axis = rate_axis(values_ms, title)
    axis["ticktext"] = [time_label(round(tick * 1e6)) for tick in axis["tickvals"]]
    return axis
