"""The part of the run document about what was planted in a system of the lab."""

from __future__ import annotations

from naslab.results.fields import field as _f

PLANTED = (
    _f("name", "string", "part and key, e.g. disks.read; docs/reference/lab-systems.md"),
    _f("planted", "number", "the value that was set"),
    _f(
        "unit", "string", "of both values",
        enum=("bytes_per_s", "bits_per_s", "bytes", "per_s", "ns", "share"),
    ),
    _f("measured", "number?", "by another tool; of several places the one furthest off; null: not measured"),
    _f("deviation", "number?", "measured / planted - 1", least=None),
    _f("tool", "string?", "what measured it"),
    _f("verdict", "string", "whether it is as planted, within 5 %", enum=("holds", "misses", "not measured")),
)  # fmt: skip
