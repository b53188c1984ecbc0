"""Tables of commands whose results are points: loads of a curve, zones of a profile."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from naslab.units import count_text, duration_text, size_label

CURVE_HEADER = ("offered/s", "carried/s", "MB/s", "p50", "p99", "p99.9", "late", "errors", "note")
_PERCENTILES = ("p50", "p99", "p99_9")
PROFILE_HEADER = ("position", "MB/s")
MAX_ROWS = 20


def curve_rows(curve: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """The loads as texts, in the columns of CURVE_HEADER."""
    for step in curve["steps"]:
        response = step["response_ns"]
        yield (
            count_text(step["offered_per_s"]), count_text(step["achieved_per_s"]),
            count_text(step["achieved_bytes_per_s"] / 1e6), *(_time(response[name]) for name in _PERCENTILES),
            f"{step['missed_starts']:,}", f"{step['errors']:,}", "saturated" if step["saturated"] else "",
        )  # fmt: skip


def _time(value_ns: int | None) -> str:
    return "-" if value_ns is None else duration_text(value_ns)


def profile_rows(profile: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Position and rate of at most MAX_ROWS zones, evenly spread, as texts in the columns of PROFILE_HEADER."""
    zones = profile["zones"]
    step = -(-len(zones) // MAX_ROWS) or 1
    for zone in zones[::step]:
        yield size_label(zone["offset_bytes"]), f"{zone['bytes_per_s'] / 1e6:,.4g}"
