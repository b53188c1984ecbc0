"""Network, server cache and disks as a drawing, with the measured rates of each.

Drawn of runs that know more than one of them, or a burst. The drawing is inline SVG in the page's own colours, once
from left to right and once, for phones, from top to bottom.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from naslab.explain import tell
from naslab.render.report.labels import esc, tight
from naslab.results.describe import part_of
from naslab.results.parts.sustained import BurstDocument, Sustained
from naslab.units import amount_text, duration_text, rate_text, size_label

Document = Mapping[str, Any]

NETWORK, MEMORY, DISKS = "Network", "Server cache", "Disks"
STAGES = (NETWORK, MEMORY, DISKS)
_OF_LIMIT = {
    "link": NETWORK, "latency": NETWORK, "client_nic": NETWORK, "server_cache": MEMORY, "disk": DISKS,
    "disk_iops": DISKS, "burst_credit": DISKS,
}  # fmt: skip
_LIMIT_WORDS = {
    "link": "{value}", "latency": "{value} because of the round-trip time",
    "client_nic": "{value}, the client's interface", "server_cache": "{value}", "disk": "{value}",
    "disk_iops": "{value}", "burst_credit": "burst credit: {value}",
}  # fmt: skip
_BOX, _GAP, _LINE, _WRAP = 232, 74, 19, 29
_HEAD = 44


@dataclass
class Stage:
    """One part of the data path. says: what was measured of it. fast, slow: bytes per second it lets through, for the
    arrow; 0 where it is not known; two of them where it bursts."""

    name: str
    says: list[str] = field(default_factory=list)
    fast: float = 0.0
    slow: float = 0.0

    def add(self, text: str, fast: float = 0.0, slow: float = 0.0) -> None:
        """One measured fact, once; its rates count where no other was known before."""
        if text not in self.says:
            self.says.append(text)
        self.fast, self.slow = self.fast or fast, self.slow or slow


def section(runs: Sequence[tuple[str, Document]]) -> str:
    """The drawing of each run that has one, as HTML; empty without any. runs: (name, document)."""
    parts = []
    for name, document in runs:
        found = stages(document)
        if worth_drawing(found):
            head = f"<h3>{esc(name)}</h3>" if len(runs) > 1 else ""
            parts.append(head + figure(found))
    if not parts:
        return ""
    lead = (
        "The measured rates of each part. The width of an arrow is the rate into the part it points to, on a "
        "logarithmic scale: pale with a burst or a cache, dark without."
    )
    head = f'<h2>Network, server cache and disks</h2><p class="lead">{lead}</p>'
    return f'<section id="way">{head}{"".join(parts)}</section>'


def worth_drawing(found: Sequence[Stage]) -> bool:
    """Whether more than one part is known, or one bursts."""
    return sum(bool(stage.says) for stage in found) > 1 or any(stage.fast > 1.05 * stage.slow > 0 for stage in found)


def stages(document: Document) -> list[Stage]:
    """Network, memory and disks with what the run measured of each."""
    found = {name: Stage(name) for name in STAGES}
    part = part_of(document, "sustained", Sustained)
    if part:
        _cached(part, found)
    if part and part.burst:
        _burst(part.burst, found)
    _limits(document, found)
    return [found[name] for name in STAGES]


def _cached(part: Sustained, found: Mapping[str, Stage]) -> None:
    cached, sets = part.cached, part.working_set
    if cached and (network := cached.network_only_bytes_per_s):
        found[NETWORK].add(f"{rate_text(network)}, reads from the server cache", network, network)
        found[DISKS].add(f"{rate_text(cached.cold_bytes_per_s)}, reads outside the caches")
    if sets and sets.knee_bytes:
        rates = sets.memory_bytes_per_s, sets.beyond_bytes_per_s
        found[MEMORY].add(f"holds a working set of {size_label(sets.knee_bytes)}", rates[0])
        found[MEMORY].add(f"{rate_text(rates[0])} from the cache")
        found[DISKS].add(f"{rate_text(rates[1])}, working sets that do not fit", rates[1], rates[1])


def _burst(burst: BurstDocument, found: Mapping[str, Stage]) -> None:
    """Burst and floor at the part that the cause names; the disks where it is not known, and that is said."""
    bucket, cause = burst.bucket, burst.cause
    if not bucket:
        rate = burst.mean_bytes_per_s
        found[DISKS].add(f"{rate_text(rate)} for {duration_text(burst.duration_ns)}, no burst detected", rate, rate)
        return
    fast, slow = bucket.burst_bytes_per_s.value, bucket.baseline_bytes_per_s.value
    lasted = f"{rate_text(fast)} for {duration_text(bucket.dropped_ns)}"
    floor = f"then {rate_text(slow)}"
    if cause == "write_back_cache":
        found[MEMORY].add(f"accepts {amount_text(bucket.burst_bytes)} of writes: {lasted}", fast, slow)
        found[DISKS].add(f"{rate_text(slow)}, once it is full", slow, slow)
        return
    found[DISKS].add(lasted, fast, slow)
    found[DISKS].add(floor)
    if cause == "token_bucket":
        found[DISKS].add(f"credit: {amount_text(bucket.size_bytes.value)} above that rate")
        if bucket.refill_ns:
            found[DISKS].add(f"refilled after {duration_text(bucket.refill_ns)} of rest")
    elif cause == "slc_cache":
        found[DISKS].add(f"fast flash of {amount_text(bucket.burst_bytes)}")
    else:
        found[DISKS].add("slower with time" if cause == "thermal_or_drift" else "cause of the drop undecided")


def _limits(document: Document, found: Mapping[str, Stage]) -> None:
    """The verdict's limits, each at its part."""
    for limit in (document.get("verdict") or {}).get("limits") or []:
        kind, value = str(limit.get("kind")), limit.get("value")
        if kind not in _OF_LIMIT or not value:
            continue
        stage = found[_OF_LIMIT[kind]]
        rate = float(value) if limit.get("unit") == "bytes_per_s" else 0.0
        words = _LIMIT_WORDS[kind].format(value=tell.figure_text(limit))
        whom = f"{tell.class_name(limit)}: " if limit.get("applies_to") else ""
        if len(stage.says) < 6:
            stage.add(f"{whom}{words}", rate, rate)


# --- drawing ---------------------------------------------------------------------------------------------


def figure(found: Sequence[Stage]) -> str:
    """Both drawings and the same in words for screen readers."""
    words = "; ".join(
        f"{stage.name}: {', '.join(stage.says)}" if stage.says else f"{stage.name}: not measured" for stage in found
    )
    return (
        f'<figure class="way" role="img" aria-label="{esc(tight(words))}.">{_drawn(found, upright=False)}'
        f"{_drawn(found, upright=True)}</figure>"
    )


def _drawn(found: Sequence[Stage], upright: bool) -> str:
    """One SVG: the client, then every part with an arrow before it."""
    boxes = [("This client", ["sends and receives"]), *((stage.name, _lines(stage)) for stage in found)]
    heights = [_HEAD + _LINE * len(lines) + 10 for _, lines in boxes]
    height = max(heights)
    parts, at = [], 2.0
    for index, ((name, lines), own) in enumerate(zip(boxes, heights, strict=True)):
        if index:
            parts.append(_arrow(found[index - 1], at, height / 2, upright))
            at += _GAP
        tall, left, top = (own, 2.0, at) if upright else (height, at, 2.0)
        known = index == 0 or bool(found[index - 1].says)
        parts.append(_box(name, lines, (left, top, tall), known))
        at += tall if upright else _BOX
    size = (_BOX + 4, at + 2) if upright else (at + 2, height + 4)
    kind = "upright" if upright else "level"
    return (
        f'<svg class="{kind}" viewBox="0 0 {size[0]:.0f} {size[1]:.0f}" width="{size[0]:.0f}" aria-hidden="true" '
        f'focusable="false">{"".join(parts)}</svg>'
    )


def _lines(stage: Stage) -> list[str]:
    said = stage.says or ["not measured"]
    return [line for text in said for line in textwrap.wrap(text, _WRAP, subsequent_indent="\N{EM SPACE}")]


def _box(name: str, lines: Sequence[str], place: tuple[float, float, float], known: bool) -> str:
    left, top, tall = place
    texts = "".join(
        f'<text x="{left + 14:.0f}" y="{top + _HEAD + _LINE * row + 6:.0f}">{esc(line)}</text>'
        for row, line in enumerate(lines)
    )
    dashed = "" if known else ' stroke-dasharray="5 4"'
    return (
        f'<rect x="{left:.0f}" y="{top:.0f}" width="{_BOX}" height="{tall:.0f}" rx="8"{dashed}/>'
        f'<text class="name" x="{left + 14:.0f}" y="{top + 26:.0f}">{esc(name)}</text>{texts}'
    )


def _arrow(stage: Stage, at: float, middle: float, upright: bool) -> str:
    """From one box to the next: pale as wide as the higher rate, dark as wide as the one that lasts."""
    start, end = at + 6, at + _GAP - 16
    across = _BOX / 2 + 2 if upright else middle + 2

    def line(kind: str, rate: float) -> str:
        a, b = (across, start), (across, end)
        (x1, y1), (x2, y2) = (a, b) if upright else (a[::-1], b[::-1])
        return (
            f'<line class="{kind}" x1="{x1:.0f}" y1="{y1:.0f}" x2="{x2:.0f}" y2="{y2:.0f}" '
            f'stroke-width="{_width(rate):.1f}"/>'
        )

    tip, half = end + 12, 6 + max(_width(stage.fast), _width(stage.slow)) / 2
    corners = [(across - half, end), (across + half, end), (across, tip)]
    points = " ".join(f"{x:.0f},{y:.0f}" if upright else f"{y:.0f},{x:.0f}" for x, y in corners)
    lines = list(_widths(stage, line))
    return "".join(lines) + f'<polygon class="{"fast" if stage.fast > stage.slow else "slow"}" points="{points}"/>'


def _widths(stage: Stage, line: Any) -> Iterator[str]:
    if stage.fast > stage.slow:
        yield line("fast", stage.fast)
    if stage.slow or not stage.fast:
        yield line("slow", stage.slow)


def _width(rate: float) -> float:
    """2 for what is not known, 3 at 1 MB/s and less, 9 more for each tenfold."""
    return 2.0 if rate <= 0 else 3.0 + 9.0 * max(math.log10(rate / 1e6), 0.0)
