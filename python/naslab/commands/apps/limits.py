"""What a definition may ask for: an application is planned in memory, and its scripts have a step for each request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from naslab.errors import UsageError
from naslab.units import amount_text

MOST_BYTES = 16 << 40
MOST_STEPS = 20_000_000
_COUNTS = ("streams", "files", "folders", "requests")


def check(where: str, values: Mapping[str, Any]) -> None:
    """Raises UsageError for a part that asks for more bytes or steps. values: its numbers, scaled."""
    rows = [row for name in ("files", "makes", "reads", "writes") for row in _rows(values.get(name))]
    size = values.get("bytes", 0) + sum(size * count for size, count in rows)
    if size > MOST_BYTES:
        raise UsageError(f"{where}: {amount_text(size)}, at most {amount_text(MOST_BYTES)}; use a smaller --scale")
    steps = sum(count for _, count in rows) + values.get("bytes", 0) // values.get("request", MOST_BYTES)
    steps += sum(values.get(name, 0) for name in _COUNTS if isinstance(values.get(name), int))
    if "looks" in values:
        steps += values["looks"] * values["files"]
    if steps > MOST_STEPS:
        raise UsageError(f"{where}: {steps:,} steps or more, at most {MOST_STEPS:,}; use a smaller --scale")


def _rows(value: Any) -> tuple[tuple[int, int], ...]:
    return value if isinstance(value, tuple) else ()
