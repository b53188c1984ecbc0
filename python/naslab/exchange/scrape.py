"""`naslab serve --metrics`: the newest run of each target as a page that Prometheus reads, text format 0.0.4.

The families of `openmetrics` and, beside them, when each target was measured last, its verdict and its warnings.
Source: Prometheus, "Exposition formats".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from naslab.exchange.openmetrics import family_lines, lines
from naslab.exchange.samples import (
    ALLOWED,
    ENDED,
    LATENCY,
    METRICS,
    PROBABILITY,
    RUN_INFO,
    WARNINGS,
    WARNINGS_BY_KIND,
    Sample,
    conclusions,
)

if TYPE_CHECKING:
    from naslab.results.run import Run

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
OF_TARGETS = (ENDED, PROBABILITY, *(family for family, _ in ALLOWED.values()), WARNINGS, WARNINGS_BY_KIND)
NAMES = (
    *(metric.name for metric in METRICS), LATENCY.name, f"{LATENCY.name}_count", RUN_INFO.name,
    *(family.name for family in OF_TARGETS),
)  # fmt: skip
"""Every name that the page can have."""


def run_lines(run: Run) -> Iterator[str]:
    """What the page has of one run. Raises StoreError."""
    yield from lines([run], False)
    for family, samples in conclusions(run):
        yield from family_lines(family, samples)


def ended_lines(rows: Iterable[tuple[Mapping[str, Any], int]]) -> Iterator[str]:
    """When runs ended: (labels, nanoseconds since 1970)."""
    yield from family_lines(ENDED, (Sample(ENDED.name, dict(labels), wall_ns / 1e9) for labels, wall_ns in rows))


def joined(parts: Iterable[Iterable[str]]) -> str:
    """Texts of several runs as one page: each family once, its samples together."""
    families: dict[str, tuple[list[str], list[str]]] = {}
    head, samples = list[str](), list[str]()
    for part in parts:
        for line in part:
            if line.startswith("# TYPE "):
                head, samples = families.setdefault(line.split()[2], ([], []))
            if not line.startswith("#"):
                samples.append(line)
            elif line not in head:
                head.append(line)
    return "".join(f"{line}\n" for head, samples in families.values() for line in (*head, *samples))
