"""The profile of a run: rate by position, burst and access time from its cells, as fields and as sentences."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from naslab.results.describe import typed
from naslab.results.parts.cell import Latency
from naslab.results.parts.profile import ProfileDocument, Zone
from naslab.units import duration_text, rate_text, size_label

if TYPE_CHECKING:
    from naslab.commands.plans.profile import ProfileOptions

BURST, RANDOM, ZONE = "burst", "random access", "zone"
"""Workload names of the cells."""
EVEN = 1.1
"""Head and tail of a file within this factor are called the same."""


def profile_of(cells: Sequence[Mapping[str, Any]], options: ProfileOptions) -> ProfileDocument:
    """The document's `profile`. cells: of the document; at least one zone."""
    found = [cell for cell in cells if cell["workload"] == ZONE and cell["duration_ns"] and cell["bytes"]]
    zones = [
        Zone(cell["block"] * options.zone_bytes, cell["bytes"], cell["throughput_bytes_per_s"], cell["id"])
        for cell in sorted(found, key=lambda cell: cell["block"])
    ]
    rates = [zone.bytes_per_s for zone in zones]
    burst = next((cell for cell in cells if cell["workload"] == BURST and cell["bytes"]), None)
    random = next((cell for cell in cells if cell["workload"] == RANDOM and cell["ops"]), None)
    tenth = max(len(rates) // 10, 1)
    return ProfileDocument(
        file_bytes=options.size_bytes, existing=not options.fill, direct=options.direct,
        block_bytes=options.block_bytes, queue_depth=options.depth, zone_bytes=options.zone_bytes,
        zones_planned=options.zones, zones=zones,
        mean_bytes_per_s=statistics.harmonic_mean(rates) if rates else None,
        slowest_bytes_per_s=min(rates, default=None), fastest_bytes_per_s=max(rates, default=None),
        head_bytes_per_s=statistics.median(rates[:tenth]) if rates else None,
        tail_bytes_per_s=statistics.median(rates[-tenth:]) if rates else None,
        burst_bytes_per_s=burst["throughput_bytes_per_s"] if burst else None,
        access_ns=typed(random["latency_ns"], Latency) if random else None,
    )  # fmt: skip


def sentences(profile: ProfileDocument) -> list[str]:
    """The profile in a few sentences."""
    found = []
    if profile.zones:
        ends = f"{rate_text(profile.slowest_bytes_per_s)} to {rate_text(profile.fastest_bytes_per_s)}"
        found.append(
            f"Sequential reads of {size_label(profile.file_bytes)} in {len(profile.zones)} zones: "
            f"{rate_text(profile.mean_bytes_per_s)} on average, {ends}; {_shape(profile)}."
        )
    if profile.burst_bytes_per_s:
        found.append(f"Burst: {rate_text(profile.burst_bytes_per_s)}, re-reading one small zone.")
    access = profile.access_ns
    if access and access.p50 and access.mean and access.p99:
        found.append(
            f"Random access: {duration_text(access.mean)} on average, median {duration_text(access.p50)}, "
            f"p99 {duration_text(access.p99)}."
        )
    if not profile.existing:
        found.append("The file was written just before: a server with more memory than the file answers from it.")
    return found


def _shape(profile: ProfileDocument) -> str:
    head, tail = profile.head_bytes_per_s or 0.0, profile.tail_bytes_per_s or 0.0
    if max(head, tail) <= EVEN * min(head, tail):
        return "head and tail alike"
    return f"{rate_text(head)} at the head, {rate_text(tail)} at the tail"
