"""Servers with other limits that explain the same rates: starts for the sampler, so that none is left to chance.

Two explanations that differ in one part, such as a disk and a link that is as slow, lie far apart for a sampler that
moves in small steps: which of them it finds is luck. So each limit of its particles is exchanged for another part that
is as slow, and that one is made faster.
"""

from __future__ import annotations

import numpy as np

from naslab.explain.ceilings import ceilings
from naslab.explain.hypotheses import AT, HIGH, LOW, NONE_BYTES, Array
from naslab.explain.rows import Rows
from naslab.explain.steps import LARGE_RECORD, SMALL_RECORD

LARGE = ("link", "window", "memory", "disk")
SMALL = ("link", "server_s", "request_s", "seek_s", "fetch", "commit_s", "delay_s")
"""Parts that may limit large and small I/O. The last, a wait, is not what many requests go by: then no part is slow."""
OFTEN, ONE_WAY, UNBUFFERED, COPIES = 0.7, 0.5, 0.4, (0.5, 2.0, 4.0)
"""How often reads, and writes, get other limits; the other direction of a link, or of copying, keeps its rate; a disk
has nothing in front of it; connections whose data are copied in parallel."""
ABOVE, BELOW = (0.3, 3.0), (1.5, 5.0)
"""How far parts that no longer limit lie above the rates, and their times below those of the limit, in logarithms."""
Draw = np.random.Generator


def exchanged(theta: Array, r: Rows, rng: Draw) -> Array:
    """The same particles (particles, dims) with other limits of reads, writes or both."""
    made = theta.copy()
    for op in ("read", "write"):
        mine = np.flatnonzero(rng.random(len(theta)) < OFTEN)
        if len(mine):
            made[mine] = _Exchange(made[mine], r, op, rng).made()
    return np.clip(made, LOW + 1e-6, HIGH - 1e-6)


class _Exchange:
    """Of one direction. large, small: log rates of the limits as they are, in bytes and in operations a second."""

    def __init__(self, theta: Array, r: Rows, op: str, rng: Draw) -> None:
        self.theta, self.read, self.rng, self.here = theta.copy(), op == "read", rng, r.here
        large, small = (np.min(list(ceilings(theta, r, op, size).values()), axis=0) for size in ("large", "small"))
        self.large, self.small = np.log(large * LARGE_RECORD), np.log(small)
        self.by = rng.integers(0, len(LARGE), len(theta))
        self.few = rng.integers(0, len(SMALL), len(theta))

    def made(self) -> Array:
        """The particles with other limits."""
        wire = np.log(np.exp(self.large) * (1 + np.exp(self["header"]) / LARGE_RECORD))
        packets = self.small + np.log(SMALL_RECORD + np.exp(self["header"]))
        self._link(wire, packets)
        self["window"] = self._rate("window", wire, self["window"], packets)
        cold = np.maximum(self["cold"], 0.0) if self.read else 0.0
        self._memory(self.large + cold)
        copies = self.by == LARGE.index("memory")
        self["copy_lanes"] = np.where(copies, np.log(self.rng.choice(COPIES, len(self.by))), self["copy_lanes"])
        disk = "disk_read" if self.read else "disk_write"
        self[disk] = self._rate("disk", self.large, self[disk], self.large)
        self._times(cold)
        self._bare()
        return self.theta

    def __getitem__(self, name: str) -> Array:
        return np.asarray(self.theta[:, AT[name]])

    def __setitem__(self, name: str, values: Array) -> None:
        self.theta[:, AT[name]] = values

    def _away(self, ends: tuple[float, float] = ABOVE) -> Array:
        return np.asarray(ends[0] + (ends[1] - ends[0]) * self.rng.random(len(self.by)))

    def _rate(self, name: str, rate: Array, now: Array, least: Array) -> Array:
        """A part's rate: that of the limit where it is the new one, else no lower than it was, and above what is
        needed."""
        return np.where(self.by == LARGE.index(name), rate, np.maximum(now, np.maximum(rate, least) + self._away()))

    def _link(self, wire: Array, packets: Array) -> None:
        up = self["link"] + self["uplink_ratio"]
        now = self["link"] if self.read else up
        found = self._rate("link", wire, now, packets)
        found = np.where((self.by != 0) & (self.few == 0), np.maximum(packets, wire + 0.05), found)
        if not self.read:
            self["uplink_ratio"] = found - self["link"]
            return
        kept = self.rng.random(len(self.by)) < ONE_WAY
        self["uplink_ratio"] = np.where(kept, up - found, 0.01 * self.rng.standard_normal(len(self.by)))
        self["link"] = found

    def _memory(self, rate: Array) -> None:
        """Copies reads, or writes, at this rate; on one machine the other direction may keep its rate."""
        if not self.here:
            self["memory"] = self._rate("memory", rate, self["memory"], rate)
            return
        writes = self["memory"] + self["copy_ratio"]
        found = self._rate("memory", rate, self["memory"] if self.read else writes, rate)
        kept = (self.by == LARGE.index("memory")) & (self.rng.random(len(self.by)) < ONE_WAY)
        if self.read:
            ratio = np.where(kept, writes - found, self["copy_ratio"])
            self["memory"] = found
        else:
            ratio = np.where(kept, found - self["memory"], self["copy_ratio"])
            self["memory"] = np.where(kept, self["memory"], found - self["copy_ratio"])
        self["copy_ratio"] = ratio

    def _times(self, cold: Array | float) -> None:
        """Of small requests: one part takes all the time, the others less."""
        for at, name in enumerate(SMALL[1:], start=1):
            if name in ("commit_s" if self.read else "fetch", "delay_s"):
                continue
            whole = -self.small - (cold if name == "server_s" else 0.0)
            whole = whole + (self["disk_read"] if name == "fetch" else 0.0)  # bytes instead of seconds
            self[name] = np.where(self.few == at, whole, np.minimum(self[name], whole - self._away(BELOW)))

    def _bare(self) -> None:
        """Disks that limit have, now and then, no memory in front of them that hides it."""
        bare = self.rng.random(len(self.by)) < UNBUFFERED
        disks = self.by == LARGE.index("disk")
        name = "cache" if self.read else "write_back"
        self[name] = np.where(bare & disks, np.log(NONE_BYTES), self[name])
