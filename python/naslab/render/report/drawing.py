"""What a reader asks a page to show beside the runs: reference lines, and where axes of rates end."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Drawing:
    """lines: (text, bytes per second) of each reference line, drawn whatever the runs reached.

    y_max_bytes_per_s: rates are drawn up to here; None: as far as there are any.
    """

    lines: tuple[tuple[str, float], ...] = ()
    y_max_bytes_per_s: float | None = None


PLAIN = Drawing()
"""Nothing asked."""
