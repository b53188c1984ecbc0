"""What latencies, counters and conditions show beside rates: each enters the verdict, and takes or gives certainty."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import shares
from made_evidence import GIB, MB, MIB, Server, evidence, ladder, level, point, theta_of
from naslab.explain.ceilings import ceilings
from naslab.explain.evidence import Evidence, slots_of
from naslab.explain.hypotheses import AT
from naslab.explain.inference import Posterior, infer, noise_of, noisier, residuals, updated
from naslab.explain.points import Point, Stalls
from naslab.explain.rows import LEVEL, Rows, rows_of
from naslab.explain.verdict import CERTAIN, _plausible, judge

READ_LARGE = ("read", "large")
IN_TURNS_NS = {"p50": 80_000, "p99": 60_000_000, "mean": 1_500_000}


def seen(found: Evidence) -> Rows:
    """Its rows."""
    rows = rows_of(found)
    assert rows is not None
    return rows


def null_row(rows: Rows) -> tuple[float, float]:
    """(seconds, standard deviation of their logarithm) of a call that moves nothing."""
    at = rows.step.index("null")
    return float(np.exp(-rows.seen[at])), float(rows.sigma[at])


def test_a_call_without_data_counts_by_its_median_and_by_its_mean_where_time_is_rationed() -> None:
    """A busy host holds up a few calls of a quick server; of a rationed one the long calls are the server's."""
    calm = {"p50": 100_000, "p99": 110_000, "mean": 101_000}
    held_up = {**calm, "p99": 4_000_000, "mean": 300_000}
    assert null_row(seen(dataclasses.replace(evidence(), null_ns=calm))) == pytest.approx((1e-4, 0.05), rel=0.02)
    seconds, sigma = null_row(seen(dataclasses.replace(evidence(), null_ns=held_up)))
    assert seconds == pytest.approx(1e-4) and 0.2 < sigma < 0.4
    assert null_row(seen(dataclasses.replace(evidence(), null_ns=IN_TURNS_NS)))[0] == pytest.approx(1.5e-3)


def in_turns(each: Point) -> Point:
    """A point whose requests are quick, but for some that take nearly all of the time."""
    alone = each.depth * each.workers == 1
    return dataclasses.replace(each, p50_ns=each.mean_ns / 12, p99_ns=9e7) if alone else each


@pytest.mark.lab
def test_requests_in_turns_show_a_rationed_processor_unless_the_client_is_rationed() -> None:
    """A processor whose time is rationed copies slowly, too. A memory or a link makes all requests alike slow."""
    plain = ladder(Server(memory=50 * MB))
    turns = {step: [in_turns(p) for p in points] for step, points in plain.points.items()}
    rationed = dataclasses.replace(plain, points=turns, null_ns=IN_TURNS_NS)
    assert READ_LARGE in seen(rationed).turns and not seen(dataclasses.replace(plain, null_ns=IN_TURNS_NS)).turns
    assert not seen(dataclasses.replace(rationed, null_ns={"p50": 80_000, "p99": 90_000, "mean": 81_000})).turns
    stopped = {
        step: [dataclasses.replace(p, cpu=0.045, cpu_limit=0.05, throttled=0.9) for p in points]
        for step, points in turns.items()
    }
    client = seen(dataclasses.replace(rationed, points=stopped))
    assert not client.turns and READ_LARGE in client.own_limit
    assert first_of(seen(rationed)) == "server_cpu" and first_of(seen(plain)) == "server_cache"


def test_pauses_rarer_than_one_in_a_hundred_are_turns_too() -> None:
    """A server with 6.5 ms of a processor in each tenth of a second answers hundreds of quick calls in between."""
    rare = {"p50": 58_000, "p99": 150_000, "mean": 380_000}
    trip = dataclasses.replace(point(record=4096, random=True, rate=4.5 * MB), p50_ns=6.3e4, mean_ns=9e5, p99_ns=2.1e5)
    deep = [point(record=4096, random=True, depth=16, rate=4.2 * MB)]
    for rate, limited in ((3.2e6, True), (1e6, False)):
        writes = [point("write", record=4096, random=True, depth=2, durability="each", rate=rate)]
        found = evidence(round_trip=[trip], small_depth=deep, writes=writes)
        rows = seen(dataclasses.replace(found, null_ns=rare))
        assert rows.rationed and null_row(rows)[0] == pytest.approx(3.8e-4)
        assert {("read", "small"), READ_LARGE} <= rows.turns and (("write", "small") in rows.turns) == limited
    quick = dataclasses.replace(evidence(round_trip=[trip]), null_ns={**rare, "mean": 60_000})
    assert not seen(quick).turns


def test_two_stops_and_a_request_that_waited_are_a_server_that_stops() -> None:
    """Six seconds of small reads meet two stops of one that stops every three; single requests met others."""
    stops = Stalls(0.32, 2, 960_000_000, 3_120_000_000)
    watched = point(record=4096, random=True, depth=64, rate=12 * MB, stalls=stops, end_ns=6_000_000_000)
    held = dataclasses.replace(point(rate=10 * MB), p50_ns=5.5e7, p99_ns=1e9)
    shown = evidence(depth=[held, *level(19 * MB)[1:]], watch=[watched])
    assert seen(shown).stopped("write", "small") == pytest.approx(0.32)
    once = dataclasses.replace(watched, stalls=dataclasses.replace(stops, count=1))
    assert not seen(evidence(depth=[held, *level(19 * MB)[1:]], watch=[once])).stall
    assert not seen(evidence(depth=level(19 * MB), watch=[watched])).stall


def test_processors_are_crowded_where_the_largest_set_is_read_not_a_cached_file() -> None:
    """Cached reads use all processors beside other programs; reads of a gigabyte wait for the disks, and use none."""
    cached = [point(record=4096, random=True, depth=64, rate=140 * MB, cpu=0.4, others=1.5)]
    disk = [point(record=4096, random=True, depth=8, rate=3 * MB, set_bytes=GIB, cpu=0.01, others=1.02)]
    small = dataclasses.replace(evidence(small_depth=cached), client_cpus=2, before_cores=1.0)
    assert ("read", "small") in seen(small).crowded
    large = dataclasses.replace(evidence(small_depth=cached, beyond=disk), client_cpus=2, before_cores=1.0)
    assert ("read", "small") not in seen(large).crowded


def test_a_lock_that_connections_on_one_file_outran_is_none() -> None:
    """Four connections on one file make 8,000 operations a second; a lock of a millisecond would allow 1,000."""
    shared = [point(record=4096, random=True, depth=16, workers=4, files=1, rate=8000 * 4096)]
    theta = np.concatenate((theta_of(lock_on=0.99, lock_s=1e-3, cache=1e12), theta_of(cache=1e12)))
    half = Posterior(theta, np.array([0.5, 0.5]), np.zeros(2, np.int64), np.zeros(1))
    for steps, least, most in (({"same_file": shared}, 0.0, 0.02), ({}, 0.49, 0.51)):
        rows = seen(evidence(**steps))
        assert least < _plausible(rows, half, residuals(theta, rows)).weight[0] < most


def test_slots_that_a_server_granted_are_known() -> None:
    """No other number of slots may explain that a rate grows no more with depth; of a mount nobody said a number."""
    assert slots_of("smb", {"credits_granted": 8193, "connections": 2}, 1024) == 16_386
    assert slots_of("smb", {}, 1024) is None and slots_of("local", {}, 1024) is None
    assert slots_of("nfs", {"slots": 64}, 64) == 64
    curve = [point(record=4096, random=True, depth=d, rate=min(37 * d, 110) * MB) for d in (1, 4, 16, 64)]
    found = evidence(small_depth=curve, depth=level(900 * MB))
    told = infer(seen(dataclasses.replace(found, slots=8192)))
    assert np.all(told.theta[:, AT["slots"]] > np.log(4000))
    assert np.any(infer(seen(found)).theta[:, AT["slots"]] < np.log(10))


def first_of(rows: Rows) -> str:
    """The likeliest limit of large reads."""
    return next(each.first.kind for each in judge(rows) if (each.op, each.size) == READ_LARGE)


@pytest.mark.parametrize(("stopped", "limits"), [(0.5, False), (0.8, False), (1.0, True)])
def test_a_client_that_is_stopped_all_the_time_had_no_more_of_its_quota(stopped: float, limits: bool) -> None:
    """Of 2.6 % of a processor a real client got 0.72 for small reads of its largest set."""
    used = [
        point(
            record=4096, random=True, depth=32, rate=5 * MB, set_bytes=GIB, cpu=0.019, cpu_limit=0.0263,
            throttled=stopped,
        )
    ]  # fmt: skip
    assert (("read", "small") in seen(evidence(beyond=used)).own_limit) is limits


@pytest.mark.lab
def test_a_client_that_is_stopped_at_its_quota_is_the_limit() -> None:
    """50 MB/s could be a link: the counters say otherwise."""
    plain = ladder(Server(link=50 * MB))
    quota = {
        step: [dataclasses.replace(p, cpu=0.048, cpu_limit=0.05, throttled=0.8) for p in points]
        for step, points in plain.points.items()
    }
    assert first_of(seen(dataclasses.replace(plain, points=quota))) == "client_cpu"
    assert first_of(seen(plain)) == "link"


def test_rows_of_different_levels_are_no_repetition() -> None:
    """Eight like reads of sets weigh like few; the one that no longer fits into a cache is news."""
    at = [point(depth=8, set_bytes=(16 << k) * MIB, rate=125 * MB) for k in range(4)]
    alike = seen(evidence(set=at))
    apart = seen(evidence(set=[*at[:3], dataclasses.replace(at[3], rate=at[3].rate.scaled(0.5), reads=60 * MB)]))
    weight = {name: rows.weight[[s == "set" for s in rows.step]] for name, rows in (("alike", alike), ("apart", apart))}
    assert weight["apart"][3] == 1.0 and np.all(weight["alike"] < 0.4) and np.log(2) > LEVEL


def test_a_machine_that_is_busy_with_others_leaves_nothing_certain() -> None:
    """Two processors, all of them in use: the server may be on this machine, and rates are what others leave."""
    plain = ladder(Server(link=50 * MB, cpus=2))
    busy = {
        step: [dataclasses.replace(p, others=1.9) for p in points] for step, points in plain.points.items()
    }  # fmt: skip
    calm, loaded = seen(plain), seen(dataclasses.replace(plain, points=busy))
    assert loaded.busy and loaded.same_machine and not (calm.busy or calm.same_machine)
    assert all(each.probability < CERTAIN for found in judge(loaded) for each in found.ceilings)


@pytest.mark.parametrize("seed", shares.first(1, [2, 3, 4, 5], pytest.mark.lab))
def test_nothing_is_certain_where_the_same_loads_differ_by_a_third_each_time(seed: int) -> None:
    noisy = seen(ladder(Server(), noise=0.33, seed=seed))
    assert all(each.probability < CERTAIN for found in judge(noisy) for each in found.ceilings)


@pytest.mark.lab
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_rates_that_no_server_explains_are_judged_with_their_noise(seed: int) -> None:
    """Credit explains a part of such noise, for some seeds, and never all of it."""
    noisy = seen(ladder(Server(), noise=0.33, seed=seed))
    calm = seen(ladder(Server(), noise=0.01, seed=seed))
    found, quiet = infer(noisy), infer(calm)
    assert found.noise >= 0.1 and quiet.noise == 0.0
    assert noise_of(found, noisier(noisy, found.noise)) == 0.0
    assert updated(found, noisy, noisy).noise == found.noise


def test_a_bucket_that_nothing_drew_from_is_the_part_that_it_counts() -> None:
    """Disks of 120 MB/s with credit above 60 MB/s, of which no row saw any, are disks of 60 MB/s."""
    rows = seen(evidence(depth=level(118 * MB)))
    bucket = {"bucket_on": 0.9, "burst": 1.5, "lasts_s": 5.0, "base": 60e6, "disk_read": 120e6, "cache": 1.8e5}
    scope = {"disk": 0.9, "link": 0.9 * 1e-3 ** (3 / 7)}  # the first and the fourth of seven
    for where in scope.values():
        drawn = ceilings(theta_of(**{**bucket, "link": 200e6, "scope": where}), rows, *READ_LARGE)
        assert drawn["burst_credit"][0] == pytest.approx(60e6 / MIB)
    never = theta_of(**{**bucket, "burst": 1.3, "lasts_s": 1e-3, "scope": scope["disk"]})
    found = ceilings(never, rows, *READ_LARGE)
    assert found["burst_credit"][0] > 1e9 and found["disk"][0] == pytest.approx(60e6 / MIB, rel=0.02)


@pytest.mark.lab
def test_a_link_of_one_way_is_found_though_the_other_way_has_no_limit() -> None:
    """Reads at 13.5 MB/s, durable writes at 700: disks so uneven, without any cache, are unlikelier."""
    one_way = ladder(Server(link=13.5 * MB, uplink=700 * MB, disk_write=3e9, disk_read=3e9))
    assert first_of(seen(one_way)) == "link"
