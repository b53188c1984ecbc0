"""Loads of known arithmetic against the file systems of the guide: which carries them, and when the others give up."""

from __future__ import annotations

import numpy as np
import pytest

from naslab.analysis import fsx, fsx_advice
from naslab.analysis.fsx_advice import Load, Prices, chosen, next_smaller, options, shortfall
from naslab.errors import UsageError

MB, GIB = 1e6, float(1 << 30)


def load(
    seconds: int, read: float = 0, written: float = 0, again: float = 0, ops: float = 0, set_bytes: float = 1e12,
    stored: float = 0,
) -> Load:  # fmt: skip
    """A steady one, rates by second."""
    rates = [np.full(seconds, rate) for rate in (read, again, written, ops)]
    return Load(rates[0], rates[1], rates[2], rates[3], set_bytes, stored)


def test_a_load_at_the_baseline_goes_on_for_ever() -> None:
    limits = fsx.limits(32, "hdd", 5)
    assert shortfall(load(86_400, written=32 * MB), limits) is None
    found = shortfall(load(110_000, written=33 * MB), limits)
    # Credit of (600 - 32) MB/s for three minutes at the network, spent at 1 MB/s; that of the disks lasts longer.
    assert found is not None and (found.what, found.at_s) == ("network", 568 * 180)


def test_the_servers_disks_burst_for_half_an_hour() -> None:
    """128 MB/s: 600 by the disks, 150 to 1,250 by the network; an SSD volume of 1 TiB does 750."""
    limits = fsx.limits(128, "ssd", 1)
    found = shortfall(load(4000, written=600 * MB), limits)
    assert found is not None and found.what == "network"
    quiet = fsx_advice._spent("disks", np.full(4000, 600 * MB), limits.server_disk, (600 - 128) * MB * 1800)
    assert quiet is not None and quiet.at_s == 1800 and quiet.allowed == 128 * MB


def test_a_volume_of_hard_disks_lasts_as_the_guide_says() -> None:
    """1 TiB for each TiB, filled at 12 MiB/s and drained at 80: 15,420 s, at any size."""
    volume = fsx.limits(2048, "hdd", 4).bucket
    assert volume is not None
    rates = fsx.Rates(volume.fill_bytes_per_s, volume.drain_bytes_per_s)
    found = fsx_advice._spent("volume", np.full(20_000, float(volume.drain_bytes_per_s)), rates, volume.size_bytes)
    assert found is not None and found.at_s == (1 << 20) // 68
    whole = shortfall(load(20_000, written=4 * 80 * (1 << 20)), fsx.limits(2048, "hdd", 4))
    assert whole is not None and (whole.what, whole.at_s) == ("volume", (1 << 20) // 68)


def test_rest_gives_credit_back_and_never_more_than_full() -> None:
    rates, size = fsx.Rates(10, 100), 900.0
    burst, rest = np.full(10, 100.0), np.zeros(90)
    once = np.concatenate([burst, rest])
    assert fsx_advice._spent("x", np.tile(once, 50), rates, size) is None
    short = np.concatenate([burst, rest[:80]])
    assert fsx_advice._spent("x", np.tile(short, 50), rates, size) is not None
    # A long rest before it adds nothing to a full bucket.
    late = fsx_advice._spent("x", np.concatenate([np.zeros(1000), np.full(30, 100.0)]), rates, size)
    assert late is not None and late.at_s == 1010


def test_memory_answers_what_was_read_before_if_all_of_it_fits() -> None:
    """300 MB/s read again and again: 4 GiB of memory at 32 MB/s hold 3 GiB, not 5."""
    limits = fsx.limits(32, "hdd", 5)
    small = load(60, read=300 * MB, again=300 * MB, set_bytes=3 * GIB)
    large = load(60, read=300 * MB, again=300 * MB, set_bytes=5 * GIB)
    assert shortfall(small, limits) is None
    found = shortfall(large, limits)
    assert found is not None and (found.what, found.allowed) == ("server's disk throughput", 260 * MB)


def test_operations_count_where_the_guide_has_them() -> None:
    found = shortfall(load(10, read=50 * MB, ops=12_207), fsx.limits(32, "ssd", 8))
    assert found is not None and (found.what, found.unit) == ("server's disk operations", "operations/s")
    assert shortfall(load(10, read=50 * MB, ops=12_207), fsx.limits(32, "ssd", 8, 2020)) is None


def test_the_smallest_that_carries_the_load_is_chosen_with_the_reason_against_the_next_smaller() -> None:
    found = list(options(load(7200, written=100 * MB, stored=1.5 * fsx.TIB)))
    best, second = chosen(found)
    assert best is not None and (best.tier_mb_per_s, best.storage, best.month) == (128, "hdd", None)
    assert best.tib == 2.0, "160 MB/s of burst for hours carry 100 MB/s"
    assert second is not None and (second.tier_mb_per_s, second.storage) == (128, "ssd")
    smaller = next_smaller(found, best)
    assert smaller is not None and smaller.tier_mb_per_s == 64 and smaller.shortfall is not None
    assert smaller.shortfall.what == "network"


def test_a_day_of_it_needs_a_larger_volume() -> None:
    """4 TiB of hard disks earn 50 MB/s: a day of 100 MB/s spends 4.29 of their 4.40 TB of credit; 3 TiB lack 2 TB."""
    found = list(options(load(86_400, written=100 * MB), storage="hdd"))
    best, _ = chosen(found)
    assert best is not None and (best.tier_mb_per_s, best.tib) == (128, 4.0)


def test_prices_decide_between_what_fits() -> None:
    prices = Prices(hdd_gib=0.025, ssd_gib=0.23, mb_per_s=4.5)
    assert prices.month(32, "hdd", 5) == pytest.approx(272)
    best, second = chosen(list(options(load(600, written=20 * MB), prices=prices)))
    assert best is not None and second is not None
    assert (best.tier_mb_per_s, best.storage, best.tib) == (32, "ssd", 1 / 32), "32 GiB of SSD cost less than 2 TiB"
    assert best.month == pytest.approx(151.36) and (second.month or 0) > 151.36


def test_the_articles_price_is_near_these_prices() -> None:
    """0.371 USD an hour for 32 MB/s and 5,120 GiB: 270.8 a month, 0.4 % below what these unit prices come to."""
    month = Prices(0.025, 0.23, 4.5).month(32, "hdd", 5)
    assert month == pytest.approx(0.371 * 730, rel=0.005) and month > 0.371 * 730


def test_what_fits_nowhere_is_said() -> None:
    assert chosen(list(options(load(60, written=5000 * MB))))[0] is None
    with pytest.raises(UsageError, match="70 TiB of data fit on no file system of 64 TiB"):
        list(options(load(60, stored=70 * fsx.TIB)))
    with pytest.raises(UsageError, match="storage is ssd or hdd"):
        list(options(load(60), storage="tape", tib=2.0))
