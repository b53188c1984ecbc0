"""Facts of unknown shape as people read them: `disk_read_bytes` 381853696 is `disk read`, `364 MiB`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from naslab.results.numbers import is_number
from naslab.units import duration_text, rate_text, size_label, three_digits

_UNITS: Mapping[str, Callable[[Any], str]] = {
    "bits per s": lambda value: f"{three_digits(value / 1e9)} Gbit/s" if value >= 1e9 else f"{value / 1e6:,.3g} Mbit/s",
    "bytes per s": rate_text, "bytes": size_label, "ns": duration_text,
}  # fmt: skip
_UNIT = re.compile(r" (bits per s|bytes per s|bytes|ns)(?= |$)")
_EXACT = ("mtu", "rsize", "wsize")
"""Sizes that are looked up as numbers of bytes, not as amounts."""


def fact(name: str, value: Any) -> tuple[str, str]:
    """A name without its unit, and the value with it. Three significant digits but for whole numbers without a unit.

    Fields that the schema does not describe may hold anything, whatever unit their name ends with.
    """
    words = name.replace("_", " ")
    found = _UNIT.search(words)
    if found and is_number(value) and value >= 0:
        label = words[: found.start()] + words[found.end() :]
        if any(label.rsplit(" ", 1)[-1] == exact for exact in _EXACT):
            return label, f"{value:,} bytes"
        # 0 bytes and 0 ns say the same in every unit; a limit of 0 is none, which its reader knows.
        return label, _UNITS[found.group(1)](value) if value else "0"
    if isinstance(value, bool):
        return words, "yes" if value else "no"
    if isinstance(value, float):
        return words, three_digits(value)
    if isinstance(value, int):
        return words, str(value) if "seed" in words else f"{value:,}"
    return words, str(value)
