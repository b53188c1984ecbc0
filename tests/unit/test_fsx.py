"""The published FSx model: the guide's own example, the article's system, buckets, refusals."""

from __future__ import annotations

import pytest

from naslab.analysis.fsx import FsxLimits, Rates, limits
from naslab.errors import UsageError

MB = 1_000_000
S = 1_000_000_000


def in_mb(rates: Rates) -> tuple[float, float]:
    return rates.baseline_bytes_per_s / MB, rates.burst_bytes_per_s / MB


def shown(found: FsxLimits) -> dict[str, tuple[float, float]]:
    return {name: in_mb(getattr(found, name)) for name in ("network", "server_disk", "volume", "disk")}


def test_the_guides_example() -> None:
    """2 TiB of hard disk at 32 MB/s: network 32/600, disk 24/160."""
    for year in (2020, 2022):
        found = shown(limits(32, "hdd", 2, year))
        assert found["network"] == (32, 600)
        assert found["disk"] == (24, 160)
        assert found["server_disk"] == (32, 260)


def test_the_articles_system() -> None:
    found = limits(32, "hdd", 5, 2020)
    assert shown(found) == {
        "network": (32, 600), "server_disk": (32, 260), "volume": (60, 400), "disk": (32, 260),
    }  # fmt: skip
    assert found.ram_bytes == 2 << 30
    assert limits(32, "hdd", 5, 2022).ram_bytes == 4 << 30
    # The measured peak of 400 MB/s is the volume's own burst.
    assert found.volume.burst_bytes_per_s == 400 * MB


@pytest.mark.parametrize("tib", [2, 5, 10])
def test_the_bucket_empties_in_hours_and_fills_in_a_day(tib: int) -> None:
    bucket = limits(32, "hdd", tib).bucket
    assert bucket is not None
    assert bucket.empty_ns / S == pytest.approx(15_420, abs=1)
    assert bucket.refill_ns / S / 3600 == pytest.approx(24.3, abs=0.05)
    assert bucket.size_bytes == tib << 40
    assert bucket.lasts_ns(bucket.fill_bytes_per_s) is None


def test_how_long_a_burst_lasts() -> None:
    """The server's credit is half an hour at its own burst; a slower volume stretches it."""
    assert limits(32, "ssd", 5).burst_lasts_ns == 1800 * S
    slower = limits(32, "hdd", 2).burst_lasts_ns
    assert slower == (260 - 32) * 1800 * S // (160 - 32)
    assert limits(1024, "ssd", 10).burst_lasts_ns is None
    bucket = limits(2048, "hdd", 5)
    assert bucket.bucket is not None
    assert bucket.burst_lasts_ns == bucket.bucket.lasts_ns(400 * MB)
    assert bucket.burst_lasts_ns is not None
    assert bucket.burst_lasts_ns > 4 * 3600 * S


@pytest.mark.parametrize(
    ("tier", "network", "disk", "iops"),
    [
        (64, (64, 600), (64, 350), (4_000, 16_000)),
        (128, (150, 1250), (128, 600), (6_000, 20_000)),
        (256, (300, 1250), (256, 600), (10_000, 20_000)),
        (512, (600, 1250), (512, 512), (20_000, 20_000)),
        (1024, (1500, 1500), (1024, 1024), (40_000, 40_000)),
        (2048, (3125, 3125), (2048, 2048), (80_000, 80_000)),
    ],
)
def test_tiers_on_large_flash(
    tier: int, network: tuple[int, int], disk: tuple[int, int], iops: tuple[int, int]
) -> None:
    found = limits(tier, "ssd", 60)
    assert in_mb(found.network) == network
    assert in_mb(found.disk) == disk
    assert found.disk_iops == iops


def test_small_volumes_hold_back_a_large_server() -> None:
    ssd = limits(2048, "ssd", 1)
    assert in_mb(ssd.disk) == (750, 750)
    assert ssd.disk_iops == (3000, 3000)
    hdd = limits(512, "hdd", 50)
    assert in_mb(hdd.volume) == (600, 1000)
    assert hdd.volume_iops == (600, 4000)
    assert in_mb(limits(2048, "hdd", 64).disk) == (768, 1000)


def test_the_small_tiers_are_of_2020_and_iops_of_2022() -> None:
    assert in_mb(limits(8, "hdd", 2, 2020).disk) == (8, 160)
    assert limits(16, "ssd", 1, 2020).disk_iops is None
    assert limits(16, "ssd", 1, 2020).ram_bytes == 1 << 30


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: limits(8, "hdd", 2, 2022),
        lambda: limits(48, "hdd", 2),
        lambda: limits(32, "tape", 2),  # type: ignore[arg-type]
        lambda: limits(32, "hdd", 1.5),
        lambda: limits(32, "ssd", 0.01),
        lambda: limits(32, "ssd", 65),
        lambda: limits(32, "hdd", 2, 2024),
        lambda: limits(32, "hdd", float("nan")),
    ],
)
def test_refusals(wrong: object) -> None:
    with pytest.raises(UsageError):
        wrong()  # type: ignore[operator]


def test_the_smallest_hard_disk_volume_is_accepted() -> None:
    assert limits(32, "hdd", 2000 / 1024).storage == "hdd"
