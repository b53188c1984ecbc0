"""Why a rate dropped: simulated buckets, caches and heat, told apart by what a plan brings."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from burst_plans import BUCKETS, OTHERS, carry_out, draw
from naslab.analysis.buckets import fit_bucket
from naslab.analysis.causes import (
    BurstEvidence,
    Reads,
    Retest,
    decide_cause,
    retest_duration_ns,
    retest_idle_ns,
    retest_rate_bytes_per_s,
)
from naslab.errors import UsageError
from series_models import MB, NS_PER_S, series_from

RIGHT = {
    "write-back": ("write_back_cache", 95), "lying write-back": ("write_back_cache", 70), "slc": ("slc_cache", 80),
    "heat": ("thermal_or_drift", 95), "throttle": ("thermal_or_drift", 75), "none": ("none", 95),
}  # fmt: skip


@pytest.mark.lab
@pytest.mark.parametrize("kind", BUCKETS)
def test_buckets_are_named(kind: str) -> None:
    words = [decide_cause(carry_out(draw(seed, kind))).word for seed in range(100)]
    assert words.count("token_bucket") >= 95


@pytest.mark.lab
@pytest.mark.parametrize("kind", OTHERS)
def test_others_are_not_called_buckets(kind: str) -> None:
    """The bar is 95 of 100 not called a bucket; most are called what they are, the rest undecided."""
    words = [decide_cause(carry_out(draw(seed, kind))).word for seed in range(100)]
    assert words.count("token_bucket") <= 1
    name, least = RIGHT[kind]
    assert words.count(name) >= least  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["own bucket", "noisy bucket", "write-back", "slc", "heat", "throttle"])
def test_without_experiments_nothing_is_called_a_bucket(kind: str) -> None:
    """A series that looks like a bucket is not one: after no second run the verdict says so."""
    for seed in range(8):
        evidence = carry_out(draw(seed, kind), reads=False)
        verdict = decide_cause(replace(evidence, retests=(), flush_ns=None))
        assert verdict.word in ("undecided", "thermal_or_drift", "none")
        if verdict.word == "undecided":
            assert "a second run after an idle time" in verdict.missing


def stepped(first_mb: float = 200.0, then_mb: float = 20.0, at: int = 100, bins: int = 400) -> BurstEvidence:
    rates = np.concatenate((np.full(at, first_mb), np.full(bins - at, then_mb)))
    return BurstEvidence("write", series_from(rates))


def with_retests(evidence: BurstEvidence, regained_mb: float, idle_s: int = 300) -> BurstEvidence:
    """Two retests, at 200 and at 40 MB/s, that give regained_mb above 20 MB/s each."""
    retests = []
    for rate in (200.0, 40.0):
        bins = round(regained_mb / (rate - 20))
        rates = np.concatenate((np.full(bins, rate), np.full(60, 20.0)))
        retests.append(Retest(idle_s * NS_PER_S, series_from(rates), limited=rate == 40.0))
    return replace(evidence, retests=tuple(retests))


def test_what_each_probe_says() -> None:
    bucket = replace(with_retests(stepped(), 6000), flush_ns=NS_PER_S // 10)
    verdict = decide_cause(bucket)
    assert verdict.word == "token_bucket"
    assert verdict.missing == ()
    assert verdict.bucket is not None
    assert verdict.bucket.size_bytes.value / MB == pytest.approx(18_000, rel=0.01)
    texts = {finding.probe: finding.text for finding in verdict.findings}
    assert "floor times idle time is 6,000.0 MB" in texts["retest"]
    assert "two different rates" in texts["two rates"]

    held_back = replace(bucket, flush_ns=900 * NS_PER_S)
    assert decide_cause(held_back).word == "write_back_cache"
    assert decide_cause(replace(bucket, flush_ns=None, dirty_bytes=18_000 * MB)).word == "write_back_cache"
    wrong_slope = replace(with_retests(stepped(), 1500), flush_ns=NS_PER_S // 10)
    assert decide_cause(wrong_slope).word == "slc_cache"
    untimed = decide_cause(with_retests(stepped(), 6000))
    assert untimed.word == "undecided"
    assert "a timed flush at the end of the first run" in untimed.missing
    one_rate = decide_cause(replace(bucket, retests=bucket.retests[:1]))
    assert one_rate.word == "undecided"
    assert "a second run, limited to about twice the floor" in one_rate.missing


def read_at(after_mb: float, again_mb: float = 2000.0, whole: bool = True) -> Reads:
    """Reads that are at 500 MB/s when rested."""
    return Reads(after_mb * MB, again_mb * MB, series_from(np.full(20, 500.0)), whole)


def test_reads_stand_in_for_flush_and_second_rate() -> None:
    evidence = with_retests(stepped(), 6000)
    evidence = replace(evidence, retests=evidence.retests[:1])
    at_floor = decide_cause(replace(evidence, reads=read_at(21.0)))
    assert (at_floor.word, at_floor.sharing) == ("token_bucket", "shared")
    free = decide_cause(replace(evidence, reads=read_at(490.0)))
    assert (free.word, free.sharing) == ("undecided", "unknown"), "an SLC cache is not ruled out by reads"
    reading = decide_cause(replace(evidence, op="read"))
    assert (reading.word, reading.sharing) == ("token_bucket", "unknown")


def noisy_floor() -> BurstEvidence:
    """Two retests as a bucket's; a floor that a disk might have, and a flush that says nothing was waiting."""
    found = with_retests(stepped(), 6000)
    noise = np.where(np.arange(400) % 2, 1.06, 0.94)
    rates = found.before.rates_bytes_per_s / MB * np.where(np.arange(400) < 100, 1.0, noise)
    return replace(found, before=series_from(rates), flush_ns=NS_PER_S // 100)


def test_reads_tell_a_bucket_from_a_cache_that_lies_about_its_flush() -> None:
    evidence = noisy_floor()
    without = decide_cause(evidence)
    assert without.word == "undecided" and any("reads of an uncached file" in text for text in without.missing)
    free = decide_cause(replace(evidence, reads=read_at(490.0)))
    assert (free.word, free.sharing) == ("token_bucket", "separate")
    draining = decide_cause(replace(evidence, reads=read_at(70.0)))
    assert draining.word in {"write_back_cache", "undecided"}
    assert any("slowed, but above the floor" in finding.text for finding in draining.findings)
    # What does not wait for the disks, or had no whole rest, says nothing of a cache.
    memory = decide_cause(replace(evidence, reads=read_at(490.0, again_mb=500.0)))
    assert memory.word == "undecided" and any("larger than the server cache" in text for text in memory.missing)
    hasty = decide_cause(replace(evidence, reads=read_at(490.0, whole=False)))
    assert hasty.word == "undecided" and any("as long as a refill" in text for text in hasty.missing)
    # One block in flight alternates with a draining cache's: at the floor, too.
    shallow = replace(read_at(21.0), deep=False)
    assert decide_cause(replace(evidence, reads=shallow)).word == "undecided"
    between = decide_cause(replace(evidence, reads=read_at(380.0)))
    assert between.word == "undecided"
    # An even floor is no proof where reads are slowed.
    even = replace(with_retests(stepped(), 6000), flush_ns=NS_PER_S // 100)
    assert decide_cause(even).word == "token_bucket"
    assert decide_cause(replace(even, reads=read_at(70.0))).word != "token_bucket"


def test_rested_reads_that_run_out_of_credit_are_judged_by_their_start() -> None:
    """A shared bucket of 18 GB: rested reads burst and fall, too."""
    rested = series_from(np.concatenate((np.full(100, 200.0), np.full(2000, 20.0))))
    evidence = replace(noisy_floor(), reads=Reads(20.5 * MB, 20.5 * MB, rested, True))
    verdict = decide_cause(evidence)
    assert (verdict.word, verdict.sharing) == ("token_bucket", "shared")


def test_a_burst_from_the_clients_own_cache_proves_nothing() -> None:
    evidence = replace(with_retests(stepped(), 6000), flush_ns=1)
    little = replace(evidence, wire_bytes=evidence.before.total_bytes // 3)
    verdict = decide_cause(little)
    assert verdict.word == "undecided"
    assert "33 %" in verdict.findings[0].text
    assert decide_cause(replace(evidence, wire_bytes=evidence.before.total_bytes)).word == "token_bucket"


def test_drifts_and_flat_runs() -> None:
    flat = decide_cause(BurstEvidence("read", series_from(np.full(300, 100.0))))
    assert (flat.word, flat.bucket) == ("none", None)
    falling = decide_cause(BurstEvidence("read", series_from(np.linspace(100, 80, 600))))
    assert falling.word == "thermal_or_drift"
    rising = decide_cause(BurstEvidence("read", series_from(np.linspace(50, 100, 600))))
    assert rising.word == "none"
    with pytest.raises(UsageError):
        decide_cause(BurstEvidence("read", series_from(np.ones(0))))


def test_a_recovery_under_load_rules_a_bucket_out() -> None:
    rates = np.concatenate((np.full(100, 200.0), np.full(200, 20.0), np.full(30, 150.0), np.full(200, 20.0)))
    evidence = replace(with_retests(stepped(), 6000), before=series_from(rates), flush_ns=1)
    assert decide_cause(evidence).word != "token_bucket"


def test_what_a_plan_is_told() -> None:
    fit = fit_bucket(stepped().before)
    assert fit is not None
    # 30 bins of 180 MB above the floor are 5,400 MB, which 20 MB/s regain in 270 s.
    idle_ns = retest_idle_ns(fit, NS_PER_S)
    assert idle_ns / NS_PER_S == pytest.approx(270, rel=0.01)
    assert retest_idle_ns(fit, 10 * NS_PER_S) / NS_PER_S == pytest.approx(0.6 * 18_000 / 20, rel=0.01)
    assert retest_rate_bytes_per_s(fit) == pytest.approx(40 * MB, rel=0.01)
    assert retest_duration_ns(fit, idle_ns, NS_PER_S) / NS_PER_S == pytest.approx(30 + 45, rel=0.01)
    assert retest_duration_ns(fit, idle_ns, NS_PER_S, limited=True) / NS_PER_S == pytest.approx(30 + 405, rel=0.01)
    near = fit_bucket(stepped(40.0, 20.0).before)
    assert near is not None
    assert 22 * MB < retest_rate_bytes_per_s(near) < 30 * MB
    stalled = fit_bucket(stepped(40.0, 0.0).before)
    assert stalled is not None
    with pytest.raises(UsageError):
        retest_idle_ns(stalled, NS_PER_S)
