"""The published performance model of Amazon FSx for Windows File Server, to set a measured run beside it.

A read or write passes the network, and what is not in the server's memory passes the disks; those are held
back by the server's own limit and by the volume's, the smaller one counting, for baseline and burst each.
Figures: Amazon FSx for Windows File Server user guide, chapter "Performance", as of July 2020 and of October
2022. The guide writes MB/s; they are read as 10^6 bytes a second here, as its network figures are. The bucket
of hard-disk volumes is given in the guide's binary units (1 TiB, filled at 12 MiB/s and drained at 80 MiB/s for each
TiB of volume), so its times come out as the guide has them; the two readings differ by 4.9 %.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from naslab.errors import UsageError

Storage = Literal["ssd", "hdd"]
MB = 10**6
MIB = 1 << 20
GIB = 1 << 30
TIB = 1 << 40
YEARS = (2020, 2022)
DISK_BURST_NS_PER_DAY = 30 * 60 * 10**9
"""How long the server's own disk burst lasts in a day, from full."""
HDD_MOST_BYTES_PER_S = 1000 * MB
_SSD_MB_PER_S, _SSD_IOPS = 750, 3000
_HDD_MB_PER_S, _HDD_IOPS = (12, 80), (12, 80)
_SMALLEST_GIB = {"ssd": 32, "hdd": 2000}
_LARGEST_TIB = 64


@dataclass(frozen=True)
class _Tier:
    """One row of the guide: MB/s as (baseline, burst), memory in GB by year, IOPS of 2022 as (baseline, burst)."""

    network: tuple[int, int]
    disk: tuple[int, int]
    ram_gb: dict[int, float]
    iops: tuple[int, int] | None


_TIERS: dict[int, _Tier] = {
    8: _Tier((8, 600), (8, 260), {2020: 0.5}, None),
    16: _Tier((16, 600), (16, 260), {2020: 1}, None),
    32: _Tier((32, 600), (32, 260), {2020: 2, 2022: 4}, (2_000, 12_000)),
    64: _Tier((64, 600), (64, 350), {2020: 4, 2022: 8}, (4_000, 16_000)),
    128: _Tier((150, 1250), (128, 600), {2020: 8, 2022: 8}, (6_000, 20_000)),
    256: _Tier((300, 1250), (256, 600), {2020: 16, 2022: 16}, (10_000, 20_000)),
    512: _Tier((600, 1250), (512, 512), {2020: 32, 2022: 32}, (20_000, 20_000)),
    1024: _Tier((1500, 1500), (1024, 1024), {2020: 64, 2022: 72}, (40_000, 40_000)),
    2048: _Tier((3125, 3125), (2048, 2048), {2020: 128, 2022: 144}, (80_000, 80_000)),
}
"""A row without a burst has its baseline twice."""


@dataclass(frozen=True)
class Rates:
    """Baseline and burst rate, bytes/s; equal where there is no burst."""

    baseline_bytes_per_s: int
    burst_bytes_per_s: int


@dataclass(frozen=True)
class VolumeBucket:
    """A hard-disk volume's burst credit. empty_ns: from full at the volume's burst; refill_ns: from empty, idle."""

    size_bytes: int
    fill_bytes_per_s: int
    drain_bytes_per_s: int

    @property
    def empty_ns(self) -> int:
        """Time a full bucket lasts at the volume's full burst."""
        return self.lasts_ns(self.drain_bytes_per_s) or 0

    @property
    def refill_ns(self) -> int:
        """Time an empty, idle bucket takes to fill."""
        return self.size_bytes * 10**9 // self.fill_bytes_per_s

    def lasts_ns(self, bytes_per_s: float) -> int | None:
        """Time a full bucket lasts at a rate, filling while it is used; None when that rate never empties it."""
        drained = bytes_per_s - self.fill_bytes_per_s
        return int(self.size_bytes / drained * 10**9) if drained > 0 else None


@dataclass(frozen=True)
class FsxLimits:
    """What the guide promises one file system.

    network: also the limit of reads from memory. disk: the smaller of server and volume. ram_bytes: memory for
    caching. *_iops: (baseline, burst), of 2022 only. bucket: of hard-disk volumes. burst_lasts_ns: how long
    disk.burst can be held from full, the server's 30 minutes a day and the volume's bucket together; None where
    disk has no burst.
    """

    tier_mb_per_s: int
    storage: Storage
    tib: float
    year: int
    network: Rates
    server_disk: Rates
    volume: Rates
    disk: Rates
    ram_bytes: int
    server_iops: tuple[int, int] | None
    volume_iops: tuple[int, int]
    disk_iops: tuple[int, int] | None
    bucket: VolumeBucket | None
    burst_lasts_ns: int | None


def limits(tier: int, storage: Storage, tib: float, year: int = 2022) -> FsxLimits:
    """The published limits of a file system of `tib` TiB at a throughput capacity of `tier` MB/s.

    Raises UsageError for tiers, kinds of storage, sizes and years the guide does not have.
    Source: the module's first lines.
    """
    row = _row(tier, storage, tib, year)
    network, server = _rates(*row.network), _rates(*row.disk)
    if storage == "ssd":
        volume = _rates(_SSD_MB_PER_S * tib, _SSD_MB_PER_S * tib)
        volume_iops = (int(_SSD_IOPS * tib), int(_SSD_IOPS * tib))
        bucket = None
    else:
        volume = _capped(_rates(_HDD_MB_PER_S[0] * tib, _HDD_MB_PER_S[1] * tib))
        volume_iops = (int(_HDD_IOPS[0] * tib), int(_HDD_IOPS[1] * tib))
        fill, drain = (round(rate * tib * MIB) for rate in _HDD_MB_PER_S)
        bucket = VolumeBucket(round(tib * TIB), fill, drain)
    disk = Rates(
        min(server.baseline_bytes_per_s, volume.baseline_bytes_per_s),
        min(server.burst_bytes_per_s, volume.burst_bytes_per_s),
    )
    iops = row.iops if year == 2022 else None
    disk_iops = None if iops is None else (min(iops[0], volume_iops[0]), min(iops[1], volume_iops[1]))
    return FsxLimits(
        tier, storage, tib, year, network, server, volume, disk, int(row.ram_gb[year] * GIB), iops, volume_iops,
        disk_iops, bucket, _burst_lasts_ns(disk, server, bucket),
    )  # fmt: skip


def tiers(year: int) -> list[int]:
    """Throughput capacities that the guide of a year has, MB/s, rising."""
    return sorted(name for name, row in _TIERS.items() if year in row.ram_gb)


def _row(tier: int, storage: str, tib: float, year: int) -> _Tier:
    if year not in YEARS:
        raise UsageError(f"the guide is known as of {' and '.join(map(str, YEARS))}, not of {year}")
    known = tiers(year)
    if tier not in known:
        raise UsageError(f"no tier of {tier} MB/s in the guide of {year}; it has {', '.join(map(str, known))}")
    if storage not in _SMALLEST_GIB:
        raise UsageError(f"storage is ssd or hdd, not {storage!r}; choose one")
    smallest = _SMALLEST_GIB[storage]
    # 2,000 GiB are sold as 2 TiB: accept what the guide's own example calls it.
    if not smallest / 1024 <= tib <= _LARGEST_TIB:
        raise UsageError(f"{storage} storage has {smallest} GiB to {_LARGEST_TIB} TiB, not {tib} TiB")
    return _TIERS[tier]


def _rates(baseline_mb: float, burst_mb: float) -> Rates:
    return Rates(round(baseline_mb * MB), round(burst_mb * MB))


def _capped(rates: Rates) -> Rates:
    return Rates(
        min(rates.baseline_bytes_per_s, HDD_MOST_BYTES_PER_S), min(rates.burst_bytes_per_s, HDD_MOST_BYTES_PER_S)
    )


def _burst_lasts_ns(disk: Rates, server: Rates, bucket: VolumeBucket | None) -> int | None:
    """How long disk.burst lasts from full: each of the two buckets that is drained by it sets an end."""
    if disk.burst_bytes_per_s <= disk.baseline_bytes_per_s:
        return None
    ends = []
    if server.burst_bytes_per_s > server.baseline_bytes_per_s and disk.burst_bytes_per_s > server.baseline_bytes_per_s:
        credit = (server.burst_bytes_per_s - server.baseline_bytes_per_s) * DISK_BURST_NS_PER_DAY
        ends.append(credit // (disk.burst_bytes_per_s - server.baseline_bytes_per_s))
    lasts = None if bucket is None else bucket.lasts_ns(disk.burst_bytes_per_s)
    if lasts is not None:
        ends.append(lasts)
    return min(ends) if ends else None
