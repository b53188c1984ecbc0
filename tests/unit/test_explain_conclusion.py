"""The verdict on whole ladders over made servers: which limit is named, with which figure, and what stays open.

The servers of `made_evidence.ladder` follow a textbook's bounds, written a second time there: the model is not asked
about its own predictions.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import pytest

import shares
from made_evidence import GIB, KIB, MB, MIB, SECOND, Server, evidence, ladder, point
from naslab.explain import conclusion, measured, reasons
from naslab.explain.conclusion import conclude
from naslab.explain.evidence import Evidence, memory_gap
from naslab.explain.hypotheses import STATIONS
from naslab.explain.limits import CLASSES, Limit, Question, Verdict
from naslab.explain.points import Figure, Stalls
from naslab.explain.rows import rows_of
from naslab.explain.verdict import Ceiling

pytestmark = pytest.mark.timeout(180)
"""A posterior takes three seconds of a processor."""

FAST: dict[str, Any] = {"link": 3e9, "disk_read": 4e9, "disk_write": 4e9}
SERVERS = {
    "link": Server(), "link down": Server(link=30e6, uplink=600e6), "memory": Server(memory=6e8, **FAST),
    "processor": Server(server_s=6e-4, **FAST), "disk": Server(disk_read=60e6, disk_write=50e6),
    "requests": Server(link=1.2e9, request_s=2e-3, cache=128 * MIB), "way": Server(delay_s=0.2, **FAST),
    "slots": Server(delay_s=2e-3, slots=4, **FAST), "window": Server(window=100e6, **FAST),
    "client": Server(client_s=1.5e-3, **{**FAST, "memory": 2e10}), "lock": Server(lock_s=2e-3, **FAST),
    "pair": Server(link=62e6, disk_read=60e6, disk_write=58e6),
}  # fmt: skip


def made(name: str) -> Evidence:
    """The ladder over a server; rates known to 1 %."""
    return ladder(SERVERS[name], noise=0.01, granted_depth=4 if name == "slots" else None)


@cache
def verdict(name: str) -> Verdict:
    return conclude(made(name))


def first(found: Verdict, op: str = "read", size: str = "large") -> Limit:
    """The most probable limit of a class."""
    return found.of(op, size)[0]


@pytest.mark.parametrize(
    ("name", "kind", "figure"),
    shares.first(2, [
        ("link", "link", 118e6), ("disk", "disk", 60e6), ("link down", "link", 30e6), ("memory", "server_cache", 6e8),
        ("processor", "server_cpu", MIB / 6e-4), ("way", "latency", 256 * MIB / 0.2), ("window", "protocol", 100e6),
        ("client", "client_cpu", MIB / 1.5e-3), ("lock", "unknown", MIB / 2e-3),
    ], pytest.mark.lab),
)  # fmt: skip
def test_large_reads_are_limited_by_the_part_that_was_made_slow(name: str, kind: str, figure: float) -> None:
    limit = first(verdict(name))
    assert (limit.kind, limit.confidence > 0.6) == (kind, True)
    assert limit.value.value == pytest.approx(figure, rel=0.03)
    assert limit.value.low < limit.value.value < limit.value.high


@pytest.mark.parametrize(
    ("name", "op", "size", "kind", "figure"),
    shares.first(2, [
        ("link", "write", "large", "link", 118e6), ("disk", "write", "large", "disk", 50e6),
        ("processor", "read", "small", "server_cpu", 1 / 6e-4), ("requests", "read", "small", "disk_iops", 500.0),
        ("slots", "read", "small", "protocol", 2000.0), ("client", "read", "small", "client_cpu", 1 / 1.5e-3),
    ], pytest.mark.lab),
)  # fmt: skip
def test_other_kinds_of_io_have_limits_of_their_own(name: str, op: str, size: str, kind: str, figure: float) -> None:
    limit = first(verdict(name), op, size)
    assert limit.kind == kind and limit.value.value == pytest.approx(figure, rel=0.1)
    assert limit.value.unit == ("bytes_per_s" if size == "large" else "iops")


def test_writes_beyond_a_link_that_is_shaped_for_reads_alone_are_not_said_to_meet_its_ceiling() -> None:
    found = verdict("link down")
    assert first(found, "write").value.value == pytest.approx(600e6, rel=0.03)
    assert "30 MB/s" not in first(found, "write").evidence.split(";")[0]


def test_two_close_limits_are_open_and_the_question_names_the_step_that_tells() -> None:
    found = conclude(ladder(SERVERS["pair"], noise=0.01, seed=2))
    (asked,) = [q for q in found.open if (q.op, q.size) == ("write", "large")]
    assert set(asked.between) == {"disk", "link"} and asked.step == "set"
    assert all(limit.confidence < 0.9 for limit in found.of("write", "large"))
    assert "62 MB/s" in asked.why or "probability 0." in asked.why


@pytest.mark.lab
def test_probabilities_of_a_class_are_at_most_one() -> None:
    for name in ("link", "pair", "disk"):
        for op, size in CLASSES:
            limits = verdict(name).of(op, size)
            assert sum(limit.confidence for limit in limits) <= 1.0 + 1e-9
            assert [x.confidence for x in limits] == sorted((x.confidence for x in limits), reverse=True)


def test_the_next_limit_and_its_headroom_are_told() -> None:
    assert "the next limit is the network link, at 2 times" in first(verdict("disk")).evidence


def test_no_server_is_behind_the_null_target_and_a_disk_of_this_machine() -> None:
    nothing = conclude(replace(made("client"), protocol="null"), runs=1)
    assert {limit.kind for limit in nothing.limits} == {"client_cpu"} and not nothing.open
    own = conclude(replace(made("disk"), local_disk=True, protocol="local"), runs=1)
    assert {first(own, op, size).kind for op, size in CLASSES} == {"disk", "disk_iops"}
    assert not {limit.kind for limit in own.limits} - conclusion.OWN - {"disk", "disk_iops"}


def test_bytes_that_crossed_no_wire_are_the_client_cache_and_what_is_behind_it_is_listed() -> None:
    found = made("link")
    found.points["client_cache"] = [point(rate=4000 * MB, crossed=0.0)]
    limits = conclude(found, runs=1).of("read", "large")
    assert [limit.kind for limit in limits[:2]] == ["client_cache", "link"]
    assert limits[0].value.value == 4000 * MB and "0 B of 4 GB crossed the wire" in limits[0].evidence


def test_stops_are_on_no_list() -> None:
    found = made("link")
    stops = Stalls(0.3, 2, 400_000_000, 1_300_000_000)
    found.points["depth"] = [replace(p, stalls=stops) for p in found.points["depth"]]
    limit = first(conclude(found, runs=1))
    assert limit.kind == "unknown" and conclusion.is_stopped(found) and not conclusion.is_stopped(made("link"))
    assert "for 400 ms about every 1.30 s" in limit.evidence


def test_stops_of_writes_alone_are_not_sure() -> None:
    """Writes that are made durable together end in bunches: reads go on beside them."""
    found = made("link")
    stops = Stalls(0.4, 9, 300_000_000, 600_000_000)
    found.points["long"] = [
        replace(point(op, depth=8, durability="each" if op == "write" else "none", end_ns=20 * SECOND), stalls=each)
        for op, each in (("read", Stalls(0.0, 0, 0, 0)), ("write", stops))
    ]
    told = conclude(found, runs=1)
    assert first(told, "write", "large").kind == "unknown" and first(told, "write", "large").confidence < 0.9
    assert first(told, "read", "large").kind == first(told, "read", "small").kind == "link"


def test_a_few_long_stops_among_many_short_pauses_are_none() -> None:
    found = made("link")
    pauses = [Stalls(0.4, 35, 200_000_000, 300_000_000), Stalls(0.5, 6, 262_000_000, 375_000_000)]
    found.points["long"] = [replace(point(depth=8, end_ns=20 * SECOND), stalls=each) for each in pauses]
    assert not conclusion.is_stopped(found)


def test_pauses_of_a_rationed_processor_are_no_stops() -> None:
    found = made("link")
    pauses = Stalls(0.4, 9, 128_000_000, 320_000_000)
    found.points["small_depth"] = [replace(p, stalls=pauses) for p in found.points["small_depth"]]
    assert not conclusion.is_stopped(found)


@pytest.mark.parametrize(("cpu", "named"), [(0.1, "client_nic"), (4.0, "client_cpu")])
def test_clients_that_each_bring_their_share_do_not_reach_the_server(cpu: float, named: str) -> None:
    found = made("link")
    found.points["clients"] = [
        point(rate=rate * MB, depth=4, clients=1 << at, cpu=cpu) for at, rate in enumerate((118, 236, 460))
    ]
    limit = first(conclude(found, runs=1))
    assert limit.kind == named and "1: 118 MB/s, 2: 236 MB/s, 4: 460 MB/s" in limit.evidence
    assert limit.value.value == 460 * MB


def test_further_clients_that_bring_nothing_leave_the_limit_to_what_all_share() -> None:
    found = made("link")
    found.points["clients"] = [point(rate=118 * MB, depth=4, clients=1 << at) for at in range(3)]
    assert first(conclude(found, runs=1)).kind == "link"


def test_spent_credit_has_the_rate_that_was_measured_without_it() -> None:
    burst = {
        "scope": "link", "applies_to": ["read"], "burst_bytes_per_s": 118e6, "base_bytes_per_s": 20e6,
        "base_ci95": [19e6, 21e6], "size_bytes": 10**9, "shown_by": "it came back", "proved": True,
    }  # fmt: skip
    found = replace(evidence(118 * MB), burst=burst)
    near = measured.published(found, "burst_credit", ("read", "large"), Figure(21e6, 18e6, 24e6))
    assert (near.figure.value, near.figure.low) == (20e6, 19e6)
    small = measured.published(found, "burst_credit", ("read", "small"), Figure(5_000.0, 4_800.0, 5_200.0, "iops"))
    assert small.figure.value == pytest.approx(20e6 / 4096) and small.figure.unit == "iops"


def test_reads_from_memory_are_no_figure_of_the_disks() -> None:
    """30,000 small reads a second of a small file, and disks that limit a set the memory does not hold.

    Seen on README's server with more memory, whose disks were said to limit at the rate of its link.
    """
    sets = [point(depth=8, set_bytes=(64 << at) * MIB, rate=(118 if at < 4 else 59) * MB) for at in range(5)]
    known = evidence(small_depth=[point(record=4 * KIB, rate=122 * MB, depth=64, random=True)], set=sets)
    of_disks, of_link = (
        measured.published(known, kind, ("read", "small"), Figure(23_000, 15_000, 31_000, "iops"))
        for kind in ("disk_iops", "link")
    )
    assert of_disks.modelled and of_disks.figure.value == 23_000
    assert not of_link.modelled and of_link.figure.value == pytest.approx(122 * MB / 4096)


def test_where_nothing_was_measured_the_posterior_is_published() -> None:
    hidden = Figure(500e6, 400e6, 600e6)
    found = measured.published(evidence(118 * MB), "disk", ("read", "large"), hidden)
    assert (found.figure, found.modelled) == (hidden, True)
    assert found.beside is not None and found.beside.value == pytest.approx(118 * MB)


def test_hits_among_misses_do_not_count_for_the_disk() -> None:
    slow = [point(record=4 * KIB, rate=200 * 4 * KIB, depth=32, set_bytes=GIB, quick=0.25)]
    found = measured.published(evidence(beyond=slow), "disk_iops", ("read", "small"), Figure(152, 140, 160, "iops"))
    assert found.figure.value == pytest.approx(150) and found.missed
    facts = reasons.Facts("disk_iops", "read", "small", found, "", None, evidence(beyond=slow))
    assert "150 operations/s by the disks at queue depth 32, working set 1 GiB" in reasons.reason(facts)


def test_the_largest_set_in_memory_and_the_smallest_beyond() -> None:
    rates = ((64, 118 * MB), (128, 118 * MB), (256, 40 * MB))
    assert memory_gap(evidence(set=[point(rate=r, set_bytes=s * MIB) for s, r in rates])) == (128 * MIB, 256 * MIB)


def test_a_stored_ladder_gives_the_same_verdict() -> None:
    found = made("window")
    steps = [{"name": name, "points": [p.document() for p in points]} for name, points in found.points.items()]
    again = Evidence.from_document({"steps": steps, "conditions": found.document()})
    assert conclude(again) == verdict("window")
    assert max(limit.confidence for limit in conclude(again, runs=1).limits) <= conclusion.ONE_RUN


def test_nothing_measured_is_no_verdict() -> None:
    assert rows_of(Evidence()) is None
    assert conclude(Evidence()) == Verdict()


def a_class(shares: dict[str, float], close: dict[tuple[str, str], float] | None = None) -> conclusion._Class:
    """A class with these probabilities, at 100 operations a second."""
    made_ = {kind: Ceiling(kind, share, (100.0, 90.0, 110.0)) for kind, share in shares.items()}
    return conclusion._Class("read", "large", made_, close or {})


def test_a_class_that_is_not_decided_asks_a_question() -> None:
    asked = conclusion._question(Evidence(), a_class({"link": 0.5, "disk": 0.4}))
    assert isinstance(asked, Question) and (asked.between, asked.step) == (("link", "disk"), "set")
    assert "the network link at 105 MB/s by the model (probability 0.50) and the disks at 105 MB/s" in asked.why
    assert conclusion._question(Evidence(), a_class({"link": 0.8, "disk": 0.2})) is None
    near = conclusion._question(
        evidence(), a_class({"link": 0.8, "disk": 0.1, "server_cpu": 0.1}, {("link", "server_cpu"): 0.4})
    )
    assert near is not None and near.between == ("link", "server_cpu") and "within 10 %" in near.why
    assert conclusion._question(Evidence(), a_class({"client_cache": 0.97, "link": 0.02, "disk": 0.01})) is None


def test_every_kind_has_a_step_that_separates_it() -> None:
    assert conclusion.step_of(("link", "server_cache")) == "duplex"
    assert conclusion.step_of(("disk", "burst_credit")) == "long"
    assert {each.by for each in STATIONS if each.kind not in ("lock", "machine")} <= {*conclusion.SEPARATED_BY.values()}
