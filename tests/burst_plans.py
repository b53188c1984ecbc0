"""Carries a burst plan out on the simulated servers of series_models: first run, flush, reads, two retests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from naslab.analysis.buckets import fit_bucket
from naslab.analysis.causes import (
    READ_DEPTH,
    BurstEvidence,
    Reads,
    Retest,
    retest_duration_ns,
    retest_idle_ns,
    retest_rate_bytes_per_s,
)
from naslab.analysis.series import RateSeries
from series_models import (
    MB,
    NS_PER_S,
    CacheServer,
    Capacity,
    HeatServer,
    SlcServer,
    ThrottleServer,
    TokenServer,
    ar1,
    series_from,
)

READ_MB_S = 500.0


class Server(Protocol):
    """What a plan needs of a server."""

    def bin(self, wanted_mb: float, seconds: float) -> float:
        """MB moved."""

    def idle(self, seconds: float) -> None:
        """Nothing comes."""


@dataclass
class Case:
    """A server with its truth, and how long a first run must be."""

    server: Server
    way: Capacity
    bins: int
    bin_s: float
    op: Literal["read", "write"] = "write"
    size_mb: float = 0.0
    floor_mb_s: float = 0.0
    reads_share: float = 1.0
    seen_cv: float = 0.0


def load(case: Case, bins: int, limit_mb_s: float = float("inf")) -> RateSeries:
    """A run of so many bins, at most at limit_mb_s; seen_cv of noise on the bins that the server held back."""
    noise = ar1(case.way.rng, bins, case.way.rho, case.seen_cv)
    moved = np.empty(bins)
    for at in range(bins):
        wanted = min(case.way.next(), limit_mb_s) * case.bin_s
        moved[at] = case.server.bin(wanted, case.bin_s)
        if moved[at] < 0.999 * wanted:
            moved[at] *= max(0.02, 1 + noise[at])
    return series_from(moved / case.bin_s, round(case.bin_s * NS_PER_S))


def carry_out(case: Case, reads: bool = True, flush: bool = True) -> BurstEvidence:
    """The evidence that a plan brings; without a drop only the first run."""
    before = load(case, case.bins)
    fit = fit_bucket(before)
    if fit is None:
        return BurstEvidence(case.op, before)
    took = case.server.flush() if isinstance(case.server, CacheServer) else 0.02
    flush_s = took if flush and case.op == "write" else None
    found = None
    if reads:
        rested = series_from(np.full(20, READ_MB_S), round(case.bin_s * NS_PER_S))
        found = Reads(_read(case).mean_bytes_per_s(), 4 * READ_MB_S * MB, rested, True)
    retests = []
    for limited in (False, True):
        # Emptied again before each idle time: what the last one left must not count.
        if limited:
            load(case, case.bins // 3)
            if isinstance(case.server, CacheServer):
                case.server.flush()
        idle_ns = retest_idle_ns(fit, before.bin_ns)
        case.server.idle(idle_ns / NS_PER_S)
        limit = retest_rate_bytes_per_s(fit) / MB if limited else float("inf")
        bins = retest_duration_ns(fit, idle_ns, before.bin_ns, limited) // before.bin_ns
        retests.append(Retest(idle_ns, load(case, bins, limit), limited))
    flush_ns = None if flush_s is None else round(flush_s * NS_PER_S)
    return BurstEvidence(case.op, before, tuple(retests), flush_ns, reads=found)


def _read(case: Case) -> RateSeries:
    """Twenty bins of reading at a rested READ_MB_S: from the same credit, or at a share of it.

    Disks that still write what a cache holds do one block of it for every READ_DEPTH blocks read.
    """
    if isinstance(case.server, TokenServer) and case.reads_share == 0:
        moved = [case.server.bin(READ_MB_S * case.bin_s, case.bin_s) / case.bin_s for _ in range(20)]
    elif isinstance(case.server, CacheServer) and case.server.dirty > 0:
        moved = [READ_DEPTH / (READ_DEPTH / READ_MB_S + 1 / case.server.disks.mean)] * 20
    else:
        moved = [READ_MB_S * case.reads_share] * 20
        if isinstance(case.server, TokenServer):
            case.server.idle(20 * case.bin_s)
            load(case, case.bins // 3)
    return series_from(np.array(moved), round(case.bin_s * NS_PER_S))


def draw(seed: int, kind: str) -> Case:
    """A server of one kind: ratio 2 to 20, burst of 10 to 600 bins, noise to 10 %, bins of 0.1, 1 or 10 s."""
    rng = np.random.default_rng(seed)
    ratio = float(np.exp(rng.uniform(np.log(2), np.log(20))))
    burst_bins = int(np.exp(rng.uniform(np.log(10), np.log(600))))
    bin_s = float(rng.choice([0.1, 1.0, 10.0]))
    if burst_bins * bin_s > 1800:
        bin_s = 1.0
    floor = float(np.exp(rng.uniform(np.log(5), np.log(200))))
    cv, rho = float(rng.uniform(0, 0.1)), float(rng.choice([0.0, 0.3, 0.7]))
    way = Capacity(rng, floor * ratio, cv, rho)
    slow = Capacity(rng, floor, float(rng.uniform(0.03, 0.1)), rho)
    bins = max(120, int(2.5 * burst_bins))
    burst_s = burst_bins * bin_s
    size = (floor * ratio - floor) * burst_s
    case = Case(TokenServer(size, floor), way, bins, bin_s, size_mb=size, floor_mb_s=floor)
    if kind == "shared bucket":
        case.reads_share = 0.0
    elif kind == "noisy bucket":
        case.reads_share = 0.0
        case.seen_cv = cv
    elif kind == "bucket, reading":
        case.op = "read"
    elif kind in ("write-back", "lying write-back"):
        case.server = CacheServer(size, slow, kind.startswith("lying"))
    elif kind == "slc":
        fold = floor * float(np.exp(rng.uniform(np.log(0.05), np.log(10))))
        case.server = SlcServer(floor * ratio * burst_s, slow, fold)
    elif kind == "heat":
        warm_s = bins * bin_s * float(rng.uniform(0.1, 0.4))
        case.server = HeatServer(way, 1 / min(ratio, 8), warm_s, warm_s * float(rng.uniform(0.3, 2)))
        case.reads_share = 1 / min(ratio, 8)
    elif kind == "throttle":
        cool_s = burst_s * float(np.exp(rng.uniform(np.log(0.1), np.log(30))))
        case.server = ThrottleServer(way, 1 / ratio, burst_s, cool_s)
        case.reads_share = 1 / ratio
    elif kind == "none":
        case.server = TokenServer(1e15, floor)
    elif kind != "own bucket":
        raise ValueError(kind)
    return case


BUCKETS = ("shared bucket", "noisy bucket", "own bucket", "bucket, reading")
OTHERS = ("write-back", "lying write-back", "slc", "heat", "throttle", "none")
