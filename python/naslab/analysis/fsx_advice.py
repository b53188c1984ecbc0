"""Which FSx file system would carry a load: the load over time against the limits and buckets of `fsx.py`.

A load is bytes and operations by second. The network carries reads and writes; disks carry writes, and those reads that
memory does not answer: the first read of each byte, and all of them where what is read is larger than memory. Each
limit has a bucket: credit is earned at the baseline and spent by the load, as the guide describes it. Sizes of buckets:
half an hour of burst at the server's disks, the volume's own, both published; a few minutes of burst on the network,
which are counted as `NETWORK_BURST_S`; operations as the disks' bytes. Buckets are full when the load begins.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from naslab.analysis import fsx
from naslab.errors import UsageError

Array = NDArray[np.float64]
NETWORK_BURST_S = 180
"""The guide (2020, 2022) has "a few minutes" for it; its credit is not published."""
DISK_BURST_S = fsx.DISK_BURST_NS_PER_DAY // 10**9
SSD_TIB = (1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
HDD_TIB = (2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 12.0, 16.0, 20.0, 24.0, 32.0, 48.0, 64.0)
"""Sizes that are tried, TiB; each twice the last, or a step that a hard-disk volume's rate follows."""
LONGEST_S = 31 * 86_400


@dataclass(frozen=True)
class Load:
    """What was moved in each second, in order, idle ones included.

    read, again, written: bytes, (seconds,); `again` is the part of `read` that had been read or written before. ops:
    operations, (seconds,). set_bytes: different bytes that were read. stored_bytes: what must fit on the file system.
    """

    read: Array
    again: Array
    written: Array
    ops: Array
    set_bytes: float
    stored_bytes: float

    @property
    def seconds(self) -> int:
        """How long it took."""
        return len(self.read)


@dataclass(frozen=True)
class Shortfall:
    """The first limit that a load meets: `what` it is, when, and what was wanted and allowed there, by second."""

    what: str
    at_s: int
    wanted: float
    allowed: float
    unit: str


@dataclass(frozen=True)
class Option:
    """A file system. month: its cost, None without prices. shortfall: why it does not carry the load, if so."""

    tier_mb_per_s: int
    storage: fsx.Storage
    tib: float
    month: float | None
    shortfall: Shortfall | None = None


@dataclass(frozen=True)
class Prices:
    """For a GiB of each kind of storage and for a MB/s of throughput capacity, a month each."""

    hdd_gib: float
    ssd_gib: float
    mb_per_s: float

    def month(self, tier: int, storage: fsx.Storage, tib: float) -> float:
        """Cost of a file system for a month."""
        return tib * 1024 * (self.hdd_gib if storage == "hdd" else self.ssd_gib) + tier * self.mb_per_s


def shortfall(load: Load, limits: fsx.FsxLimits) -> Shortfall | None:
    """The limit that this file system meets first under the load; None where it carries all of it."""
    missed = load.read - load.again if load.set_bytes <= limits.ram_bytes else load.read
    disks, network = load.written + missed, load.read + load.written
    found = [
        _spent("network", network, limits.network, _size(limits.network, NETWORK_BURST_S)),
        _spent("server's disk throughput", disks, limits.server_disk, _size(limits.server_disk, DISK_BURST_S)),
    ]
    if limits.bucket is not None:
        volume = fsx.Rates(
            limits.bucket.fill_bytes_per_s, min(limits.bucket.drain_bytes_per_s, fsx.HDD_MOST_BYTES_PER_S)
        )
        found.append(_spent("volume", disks, volume, limits.bucket.size_bytes))
    else:
        found.append(_spent("volume", disks, limits.volume, 0))
    if limits.server_iops is not None:
        base, burst = limits.server_iops
        found.append(_spent("server's disk operations", load.ops, fsx.Rates(base, burst),
                            (burst - base) * DISK_BURST_S, "operations/s"))  # fmt: skip
    met = [each for each in found if each is not None]
    return min(met, key=lambda each: each.at_s, default=None)


def _size(rates: fsx.Rates, seconds: int) -> float:
    return float(rates.burst_bytes_per_s - rates.baseline_bytes_per_s) * seconds


def _spent(what: str, wanted: Array, rates: fsx.Rates, size: float, unit: str = "bytes/s") -> Shortfall | None:
    """When a limit with a bucket, full at first, lets a load down.

    The bucket earns the baseline while it is not full, and each second takes at most what it holds and the burst rate.
    """
    base, burst = float(rates.baseline_bytes_per_s), float(rates.burst_bytes_per_s)
    over = np.flatnonzero(wanted > burst)
    end = int(over[0]) if len(over) else len(wanted)
    earned = np.cumsum(base - wanted[:end])
    level = size + earned - np.maximum.accumulate(np.maximum(earned, 0.0))  # what a full bucket earns is lost
    empty = np.flatnonzero(level < 0)
    if len(empty):
        return Shortfall(what, int(empty[0]), float(wanted[empty[0]]), base, unit)
    return Shortfall(what, end, float(wanted[end]), burst, unit) if len(over) else None


def options(
    load: Load, year: int = 2022, storage: str = "", tib: float | None = None, prices: Prices | None = None
) -> Iterator[Option]:
    """Of each kind of storage and each tier the smallest size that carries the load, or the largest that does not.

    storage, tib: only these. Raises UsageError for those that the guide does not have, and for data that fit nowhere.
    """
    both: tuple[fsx.Storage, ...] = ("ssd",) if tib is not None and tib < min(HDD_TIB) else ("hdd", "ssd")
    kinds: tuple[fsx.Storage, ...] = (storage,) if storage else both  # type: ignore[assignment]
    for kind in kinds:
        sizes = [each for each in _sizes(kind, tib) if each * fsx.TIB >= load.stored_bytes]
        if not sizes:
            raise UsageError(
                f"{load.stored_bytes / fsx.TIB:.3g} TiB of data fit on no file system of {tib or 64:g} TiB"
            )
        for tier in fsx.tiers(year):
            made = [(size, shortfall(load, fsx.limits(tier, kind, size, year))) for size in sizes]
            size, why = next(((size, why) for size, why in made if why is None), made[-1])
            yield Option(tier, kind, size, prices.month(tier, kind, size) if prices else None, why)


def _sizes(kind: str, tib: float | None) -> Sequence[float]:
    return [tib] if tib is not None else HDD_TIB if kind == "hdd" else SSD_TIB


def chosen(found: Sequence[Option]) -> tuple[Option | None, Option | None]:
    """(the cheapest that carries the load, the next one); without prices the lowest tier, hard disks before SSDs."""
    fit = [each for each in found if each.shortfall is None]
    fit.sort(key=lambda each: (each.month or 0.0, each.tier_mb_per_s, each.storage, each.tib))
    return (fit[0] if fit else None), (fit[1] if len(fit) > 1 else None)


def next_smaller(found: Sequence[Option], best: Option) -> Option | None:
    """The next lower tier with the same kind of storage, and why it does not carry the load."""
    lower = [each for each in found if each.storage == best.storage and each.tier_mb_per_s < best.tier_mb_per_s]
    return max(lower, key=lambda each: each.tier_mb_per_s, default=None)
