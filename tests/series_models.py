"""Seeded throughput series with a known cause: the truth that the analysis of series is tested against.

Servers are simulated tick by tick (tokens, dirty bytes, free fast cells are counters that are filled and
emptied), never by the closed forms that the analysis uses.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from naslab.analysis.series import RateSeries

NS_PER_S = 1_000_000_000
MB = 1_000_000


def ar1(rng: np.random.Generator, count: int, rho: float, cv: float) -> NDArray[np.float64]:
    """Stationary first-order autoregressive noise of standard deviation cv."""
    start = rng.standard_normal()
    steps = rng.standard_normal(count) * math.sqrt(1 - rho * rho)
    out = np.empty(count)
    level = float(start)
    for at in range(count):
        level = rho * level + float(steps[at])
        out[at] = level
    return cv * out


def series_from(mb_per_s: NDArray[np.float64], bin_ns: int = NS_PER_S, ops_per_bin: int = 1000) -> RateSeries:
    """A series of these rates, megabytes (10^6) a second."""
    moved = np.rint(np.maximum(mb_per_s, 0.0) * MB * (bin_ns / NS_PER_S)).astype(np.int64)
    return RateSeries(moved, np.full(len(moved), ops_per_bin, np.int64), bin_ns)


class Capacity:
    """What the way to the server carries bin after bin: mean mb_per_s with autoregressive noise."""

    def __init__(self, rng: np.random.Generator, mb_per_s: float, cv: float, rho: float) -> None:
        self.rng, self.mean, self.cv, self.rho = rng, mb_per_s, cv, rho
        self.level = float(rng.standard_normal())

    def next(self) -> float:
        """MB/s of the next bin."""
        self.level = self.rho * self.level + math.sqrt(1 - self.rho**2) * float(self.rng.standard_normal())
        return max(0.02, 1 + self.cv * self.level) * self.mean


class TokenServer:
    """Credit of size_mb, refill_mb_s always earned, never above size_mb. Every byte costs credit."""

    def __init__(self, size_mb: float, refill_mb_s: float) -> None:
        self.size, self.refill, self.credit = size_mb, refill_mb_s, size_mb

    def bin(self, wanted_mb: float, seconds: float, ticks: int = 8) -> float:
        """MB moved in a bin in which wanted_mb came."""
        moved, earned = 0.0, self.refill * seconds / ticks
        for _ in range(ticks):
            # What a tick earns can be spent in it; what is not spent is kept as far as there is room.
            now = min(wanted_mb / ticks, self.credit + earned)
            self.credit = min(self.size, self.credit + earned - now)
            moved += now
        return moved

    def idle(self, seconds: float) -> None:
        """Nothing comes for a while."""
        self.credit = min(self.size, self.credit + self.refill * seconds)


def token_run(
    server: TokenServer, way: Capacity, bins: int, bin_s: float, seen_cv: float = 0.0, everywhere: bool = False
) -> RateSeries:
    """A run of so many bins.

    seen_cv: noise of what is seen where the credit is spent (everywhere: in the burst too), beyond that of the way.
    """
    moved = np.empty(bins)
    held = np.zeros(bins, bool)
    for at in range(bins):
        wanted = way.next() * bin_s
        moved[at] = server.bin(wanted, bin_s)
        held[at] = moved[at] < 0.999 * wanted
    if seen_cv:
        noise = np.maximum(0.02, 1 + ar1(way.rng, bins, way.rho, seen_cv))
        moved = np.where(held | everywhere, moved * noise, moved)
    return series_from(moved / bin_s, round(bin_s * NS_PER_S))


class CacheServer:
    """Write-back memory of size_mb in front of disks. lies: a flush is answered at once."""

    def __init__(self, size_mb: float, disks: Capacity, lies: bool = False) -> None:
        self.size, self.disks, self.lies, self.dirty = size_mb, disks, lies, 0.0

    def bin(self, wanted_mb: float, seconds: float) -> float:
        """MB accepted in a bin in which wanted_mb came."""
        self.dirty = max(0.0, self.dirty - self.disks.next() * seconds)
        now = min(wanted_mb, self.size - self.dirty)
        self.dirty += now
        return now

    def idle(self, seconds: float) -> None:
        """The disks go on writing."""
        self.dirty = max(0.0, self.dirty - self.disks.mean * seconds)

    def flush(self) -> float:
        """Seconds it takes."""
        if self.lies:
            return 0.02
        seconds = self.dirty / self.disks.mean
        self.dirty = 0.0
        return 0.02 + seconds


class SlcServer:
    """Fast cells for size_mb; full, writing goes at the slow cells' rate. Idle, fold_mb_s of them come free."""

    def __init__(self, size_mb: float, slow: Capacity, fold_mb_s: float) -> None:
        self.size, self.slow, self.fold, self.free = size_mb, slow, fold_mb_s, size_mb

    def bin(self, wanted_mb: float, seconds: float) -> float:
        """MB written in a bin in which wanted_mb came."""
        fast = min(wanted_mb, self.free)
        self.free -= fast
        left = 1 - fast / wanted_mb if wanted_mb else 0.0
        return fast + min(wanted_mb - fast, self.slow.next() * seconds * left)

    def idle(self, seconds: float) -> None:
        """Fast cells are emptied."""
        self.free = min(self.size, self.free + self.fold * seconds)


class HeatServer:
    """Full speed when cool; under load the speed nears `floor` exponentially, idle it comes back."""

    def __init__(self, way: Capacity, floor: float, warm_s: float, cool_s: float) -> None:
        self.way, self.floor, self.warm_s, self.cool_s, self.heat = way, floor, warm_s, cool_s, 0.0

    def bin(self, wanted_mb: float, seconds: float) -> float:
        """MB moved in a bin in which wanted_mb came."""
        self.heat += (1 - self.heat) * (1 - math.exp(-seconds / self.warm_s))
        speed = self.way.next() * (1 - (1 - self.floor) * self.heat)
        return min(wanted_mb, speed * seconds)

    def idle(self, seconds: float) -> None:
        """It cools."""
        self.heat *= math.exp(-seconds / self.cool_s)


class ThrottleServer:
    """Full speed for warm_s of load, then `floor` of it in one step; idle, cool_s bring all of it back."""

    def __init__(self, way: Capacity, floor: float, warm_s: float, cool_s: float) -> None:
        self.way, self.floor, self.warm_s, self.cool_s, self.heat = way, floor, warm_s, cool_s, 0.0

    def bin(self, wanted_mb: float, seconds: float) -> float:
        """MB moved in a bin in which wanted_mb came."""
        speed = self.way.next() * (1 if self.heat < 1 else self.floor)
        self.heat = min(1.0, self.heat + seconds / self.warm_s)
        return min(wanted_mb, speed * seconds)

    def idle(self, seconds: float) -> None:
        """It cools."""
        self.heat = max(0.0, self.heat - seconds / self.cool_s)
