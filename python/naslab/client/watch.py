"""What else this machine did while a run was measured: other programs, other traffic, its clocks.

`Watch` takes samples at the ends of cells, seldom enough to cost less than a hundredth of a processor, and judges
at the end. It only looks at this machine: what is told of it are findings, as `naslab.analysis.findings` has them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from naslab.analysis.findings import Finding, cells_words
from naslab.client import clocks
from naslab.client.procs import Foreign, foreign_share, foreign_ticks, interface_bytes
from naslab.units import duration_text, percent_text, rate_text

LEAST_STRETCH_NS = 500_000_000
"""Ticks are 10 ms: a shorter stretch says too little."""
COST_SHARE = 0.01
CLOCKS_EVERY_NS = 1_000_000_000
FOREIGN_CPU, STOLEN = 0.15, 0.05
LEAST_SHARE = 0.05
"""Of the time that was watched, so much must be disturbed before the run is called so."""
FOREIGN_TRAFFIC, LEAST_FOREIGN_BYTES_PER_S = 0.05, 200_000.0
LEAST_TRAFFIC_NS = 800_000_000
_SEGMENT_SHARE, _MESSAGE_BYTES = 0.06, 200
"""Headers of frames, and acknowledgements the other way, as a share of the bytes and by operation: upper bounds."""


@dataclass(frozen=True)
class Stretch:
    """A time with the cells measured in it; shares of all processors, 0 to 1."""

    cells: tuple[int, ...]
    took_ns: int
    foreign: float
    stolen: float


@dataclass(frozen=True)
class Traffic:
    """Beside a cell: bytes per second on its interface that cannot be ours, and what was ours."""

    cell: int
    foreign_bytes_per_s: float
    ours_bytes_per_s: float


@dataclass
class Watch:
    """Watches this machine while cells are measured.

    ours: process ids whose trees belong to the measurement beside this process's own (the lab's servers). judges_cpu:
    False where a server that is not known runs on this machine, too. interface: whose traffic is looked at; None: none.
    """

    ours: Callable[[], Iterable[int]] = tuple
    judges_cpu: bool = True
    interface: str | None = None
    stretches: list[Stretch] = field(default_factory=list)
    traffic: list[Traffic] = field(default_factory=list)
    _moments: list[clocks.Moment] = field(default_factory=list)
    _open: tuple[int, Foreign | None] | None = None
    _cells: list[int] = field(default_factory=list)
    _spacing_ns: int = LEAST_STRETCH_NS
    _first: tuple[int, int, tuple[int, int]] | None = None
    _last: tuple[int, int, tuple[int, int]] | None = None

    def before(self) -> None:
        """A cell is about to be measured."""
        if not self._moments:
            self._moments.append(clocks.now())
        if self._open is None:
            self._open = self._sample()
        self._first = self._last = None

    def progress(self, event: Mapping[str, Any]) -> None:
        """The engine's event of a cell under way: bytes moved by then, and what the interface counted."""
        if self.interface is None or not event["bytes"]:
            return
        counted = interface_bytes(self.interface)
        if counted is None:
            return
        self._last = (time.monotonic_ns(), event["bytes"], counted)
        self._first = self._first or self._last

    def after(self, cell: Mapping[str, Any]) -> None:
        """A cell ended."""
        if not self._moments or time.monotonic_ns() - self._moments[-1].monotonic_ns > CLOCKS_EVERY_NS:
            self._moments.append(clocks.now())
        self._cells.append(cell["id"])
        self._judge_traffic(cell)
        if self._open is None:
            self._open = self._sample()
        elif time.monotonic_ns() - self._open[0] >= self._spacing_ns:
            self._end_stretch()

    def _sample(self) -> tuple[int, Foreign | None]:
        """(monotonic clock, ticks of others); takes care that looking costs little."""
        if not self.judges_cpu:
            return time.monotonic_ns(), None
        begun = time.thread_time_ns()
        found = foreign_ticks(self.ours())
        cost = time.thread_time_ns() - begun
        self._spacing_ns = max(LEAST_STRETCH_NS, round(cost / COST_SHARE))
        return time.monotonic_ns(), found

    def _end_stretch(self) -> None:
        assert self._open is not None
        (begun, before), self._open = self._open, self._sample()
        ended, after = self._open
        share = foreign_share(before, after)
        if share is not None and before is not None and after is not None:
            stolen = (after.steal - before.steal) / (after.total - before.total)
            self.stretches.append(Stretch(tuple(self._cells), ended - begun, share, stolen))
        self._cells = []

    def _judge_traffic(self, cell: Mapping[str, Any]) -> None:
        first, last = self._first, self._last
        self._first = self._last = None
        if first is None or last is None or last[0] - first[0] < LEAST_TRAFFIC_NS or not cell["bytes"]:
            return
        found = foreign_bytes(cell, last[1] - first[1], [b - a for a, b in zip(first[2], last[2], strict=True)])
        if found is not None:
            seconds = (last[0] - first[0]) / 1e9
            self.traffic.append(Traffic(cell["id"], found[0] / seconds, found[1] / seconds))

    def summary(self) -> dict[str, Any]:
        """What was seen, for the environment of the document; shares of all processors."""
        found = clocks.trouble(self._moments)
        total = sum(s.took_ns for s in self.stretches)
        mean = sum(s.foreign * s.took_ns for s in self.stretches) / total if total else None
        return {
            "watched_ns": total,
            "foreign_cpu_fraction": mean,
            "foreign_cpu_fraction_max": max((s.foreign for s in self.stretches), default=None),
            "stolen_cpu_fraction_max": max((s.stolen for s in self.stretches), default=None),
            "foreign_bytes_per_s_max": max((t.foreign_bytes_per_s for t in self.traffic), default=None),
            "wall_clock_step_ns": found.step_ns,
            "asleep_ns": found.asleep_ns,
            "clock_rate_off": found.rate_off,
        }

    def findings(self) -> list[Finding]:
        """What disturbed the run. Takes a last look where a stretch is long enough."""
        self._moments.append(clocks.now())
        if self._open is not None and self._cells and time.monotonic_ns() - self._open[0] >= LEAST_STRETCH_NS:
            self._end_stretch()
        return [*self._cpu(), *self._steal(), *self._network(), *clock_findings(clocks.trouble(self._moments))]

    def _cpu(self) -> list[Finding]:
        return self._loaded(
            lambda s: s.foreign, FOREIGN_CPU,
            "other programs used up to {share} of this client's processors while {cells} measured: end them and "
            "measure again",
        )  # fmt: skip

    def _steal(self) -> list[Finding]:
        return self._loaded(
            lambda s: s.stolen, STOLEN,
            "this client is a virtual machine whose host took up to {share} of its processor time while "
            "{cells} measured: other machines on that host slow it down",
        )  # fmt: skip

    def _loaded(self, share_of: Callable[[Stretch], float], limit: float, words: str) -> list[Finding]:
        disturbed = self._disturbed(share_of, limit)
        if not disturbed:
            return []
        share, cells = max(map(share_of, disturbed)), [cell for s in disturbed for cell in s.cells]
        text = words.format(share=percent_text(share), cells=cells_words(cells))
        return [Finding("other_load", text, None, share, "fraction", limit, tuple(cells))]

    def _disturbed(self, share: Callable[[Stretch], float], limit: float) -> list[Stretch]:
        found = [s for s in self.stretches if share(s) > limit]
        total = sum(s.took_ns for s in self.stretches)
        return found if sum(s.took_ns for s in found) > LEAST_SHARE * total else []

    def _network(self) -> list[Finding]:
        found = [
            t
            for t in self.traffic
            if t.foreign_bytes_per_s > max(FOREIGN_TRAFFIC * t.ours_bytes_per_s, LEAST_FOREIGN_BYTES_PER_S)
        ]
        if not found:
            return []
        worst = max(found, key=lambda t: t.foreign_bytes_per_s)
        cells = [t.cell for t in found]
        text = (
            f"{self.interface} carried up to {rate_text(worst.foreign_bytes_per_s)} of other traffic beside "
            f"{rate_text(worst.ours_bytes_per_s)} of this run while {cells_words(cells)} measured: others use the link"
        )
        limit = max(FOREIGN_TRAFFIC * worst.ours_bytes_per_s, LEAST_FOREIGN_BYTES_PER_S)
        return [Finding("other_load", text, None, worst.foreign_bytes_per_s, "bytes_per_s", limit, tuple(cells))]


def foreign_bytes(cell: Mapping[str, Any], moved: int, counted: list[int]) -> tuple[float, float] | None:
    """(bytes that cannot be ours, bytes that are) of what an interface sent and received while `moved` were.

    counted: sent, received. What is ours is known from the cell's bytes on the wire by byte of data; frames,
    acknowledgements and small messages are allowed for at their most, and so are the operations in flight at the end,
    which are on the wire before they count as moved. None where the wire was not counted.
    """
    sent, received = cell.get("wire_sent_bytes"), cell.get("wire_received_bytes")
    if sent is None or received is None or not moved:
        return None
    share = moved / cell["bytes"]
    ours = [sent * share, received * share]
    messages = cell["ops"] * share * _MESSAGE_BYTES
    flying = cell["workers"] * cell["queue_depth"] / cell["ops"]
    most = [wire * (share + flying) + _SEGMENT_SHARE * sum(ours) + messages for wire in (sent, received)]
    foreign = sum(max(seen - bound, 0.0) for seen, bound in zip(counted, most, strict=True))
    return foreign, sum(ours)


def clock_findings(found: clocks.Trouble) -> list[Finding]:
    """What is told of the clocks; nothing where they held."""
    told = []
    if found.step_ns:
        way = "forward" if found.step_ns > 0 else "back"
        text = (
            f"the wall clock was set {way} by {duration_text(abs(found.step_ns))} during the run: times of day are "
            "wrong by that much, durations are not"
        )
        told.append(Finding("clock", text, None, float(found.step_ns), "ns", float(clocks.STEP_NS)))
    if found.asleep_ns:
        text = f"this machine slept {duration_text(found.asleep_ns)} during the run: the cell of that time is wrong"
        told.append(Finding("clock", text, None, float(found.asleep_ns), "ns", float(clocks.STEP_NS)))
    if found.rate_off:
        off = percent_text(found.rate_off, 2, signed=True)
        text = (
            f"the clock ran {off} off the hardware clock during the run: rates are wrong by as much; wait until the "
            "time daemon has caught up"
        )
        told.append(Finding("clock", text, None, found.rate_off, "fraction", clocks.RATE_OFF))
    return told


def watch_for(document: Mapping[str, Any], ours: Callable[[], Iterable[int]] | None) -> Watch | None:
    """The watch over a run; None for a simulated target, whose time is not this machine's.

    ours: trees of servers on this machine that are known, None where none are. A server on this machine that is not
    known, a file system in a program of its own, or a target that says nothing of it leave processors unjudged.
    """
    protocol = document["target"]["protocol"]
    if protocol == "sim":
        return None
    route = document["environment"].get("route") or {}
    filesystem = str((document["environment"].get("target") or {}).get("filesystem") or "")
    known = not route.get("loopback") and not filesystem.startswith("fuse") if ours is None else True
    own_client = protocol in ("smb", "nfs") and route.get("interface") and not route.get("loopback")
    return Watch(ours or tuple, known and os.name == "posix", route["interface"] if own_client else None)
