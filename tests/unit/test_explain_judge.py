"""Rules of the verdict, on evidence made by hand: what each measured pattern is called, and when it stays open."""

from __future__ import annotations

from dataclasses import replace

import pytest

from made_evidence import GIB, KIB, MB, MIB, beside, evidence, level, point
from naslab.explain.evidence import Evidence, memory_gap
from naslab.explain.judge import Limit, judge
from naslab.explain.points import Figure, Point, Stalls


def first(found: Evidence, op: str = "read", size: str = "large") -> Limit:
    """The strongest limit of a class."""
    return next(limit for limit in judge(found).limits if (limit.op, limit.size) == (op, size))


def kinds(found: Evidence, op: str = "read", size: str = "large") -> list[str]:
    """All that are named for a class."""
    return [limit.kind for limit in judge(found).limits if (limit.op, limit.size) == (op, size)]


def test_a_ceiling_of_its_own_in_each_direction_is_the_link() -> None:
    limit = first(evidence(118 * MB))
    assert (limit.kind, limit.confidence) == ("link", 0.95)
    assert limit.value.low <= 118 * MB <= limit.value.high
    assert first(evidence(118 * MB), "write").kind == "link"


def test_a_ceiling_that_both_directions_share_is_the_servers_memory() -> None:
    assert first(evidence(1100 * MB, share=0.0)).kind == "server_cache"


def test_work_for_each_operation_makes_it_the_processor() -> None:
    slower = [point(record=64 * KIB, rate=700 * MB, depth=32, random=True)]
    assert first(evidence(1100 * MB, share=0.0, record=slower)).kind == "server_cpu"


@pytest.mark.parametrize(("promised", "kinds_"), [(210, ["server_cpu", "disk"]), (500, ["disk"])])
def test_writes_that_queue_nowhere_may_wait_for_the_processor(promised: int, kinds_: list[str]) -> None:
    slower = [point(record=64 * KIB, rate=300 * MB, depth=32, random=True)]
    writes = [point("write", rate=promised * MB, depth=2)]
    sets = [point("write", rate=200 * MB, set_bytes=GIB, durable=200 * MB), point(rate=500 * MB, set_bytes=GIB)]
    duplex = beside(500 * MB, 0.0, promised * MB)
    found = evidence(500 * MB, record=slower, duplex=duplex, writes=writes, set=sets)
    assert first(found).kind == "server_cpu" and kinds(found, "write") == kinds_


def test_a_gain_within_the_noise_is_no_gain() -> None:
    def noisy(p: Point) -> Point:
        wide = Figure(p.iops.value, 0.0, 2.5 * p.iops.value, "iops")
        return replace(p, iops=wide, rate=wide.scaled(4 * KIB, "bytes_per_s"))

    paused = point(record=4 * KIB, rate=290 * 4 * KIB, p50_ns=70_000.0, mean_ns=3.4e6, p99_ns=5e7)
    curve = [point(record=4 * KIB, rate=rate * 4 * KIB, depth=d) for d, rate in ((64, 210), (256, 510))]
    for last, kind in ((curve[1], "unknown"), (noisy(curve[1]), "server_cpu")):
        limit = first(evidence(round_trip=[paused], small_depth=[curve[0], last]), "read", "small")
        assert limit.kind == kind
    assert "rationed" in limit.evidence


def test_writes_too_slow_to_tell_leave_it_open() -> None:
    found = judge(evidence(1100 * MB, duplex=beside(1100 * MB, 1.0, 20 * MB)))
    (question,) = [q for q in found.open if (q.op, q.size) == ("read", "large")]
    assert question.between == ("link", "server_cache")
    assert max(limit.confidence for limit in found.limits if (limit.op, limit.size) == ("read", "large")) < 0.6


def test_the_interfaces_own_rate_is_the_interface() -> None:
    found = replace(evidence(118 * MB), nic_bytes_per_s=125 * MB)
    assert kinds(found)[:2] == ["client_nic", "link"]


@pytest.mark.parametrize(("granted", "kind"), [(None, "latency"), (8, "protocol")])
def test_a_rate_that_still_rises_lacks_requests_in_flight(granted: int | None, kind: str) -> None:
    rising = [point(rate=d * 10 * MB, depth=d) for d in (1, 2, 4, 8)]
    found = replace(evidence(depth=rising), granted_depth=granted, most_depth=8)
    assert first(found).kind == kind


@pytest.mark.parametrize(("cpu", "kind"), [(0.98, "client_cpu"), (0.2, "protocol")])
def test_more_connections_help_a_busy_client_or_a_narrow_protocol(cpu: float, kind: str) -> None:
    one = [replace(p, cpu=cpu) for p in level(200 * MB)]
    many = [point(rate=700 * MB, depth=4, workers=4)]
    same = [point(rate=700 * MB, depth=4, workers=4, files=1)]
    assert first(evidence(200 * MB, depth=one, connections=many, same_file=same)).kind == kind


def test_a_file_that_several_connections_cannot_share_is_on_no_list() -> None:
    many = [point(rate=700 * MB, depth=4, workers=4)]
    same = [point(rate=205 * MB, depth=4, workers=4, files=1)]
    limit = first(evidence(200 * MB, connections=many, same_file=same))
    assert (limit.kind, limit.confidence < 0.95) == ("unknown", True)


def test_a_set_beyond_memory_shows_the_disk() -> None:
    passes = [
        point(rate=rate, set_bytes=size * MIB) for size, rate in ((64, 118 * MB), (128, 118 * MB), (256, 40 * MB))
    ]
    found = evidence(set=[*passes, point("write", rate=30 * MB, set_bytes=256 * MIB, durable=30 * MB)])
    assert (first(found).kind, first(found).value.value) == ("disk", 40 * MB)
    assert first(found, "write").kind == "disk"
    assert memory_gap(found) == (128 * MIB, 256 * MIB)


def test_two_close_ceilings_are_both_named() -> None:
    passes = [
        point(rate=rate, set_bytes=size * MIB) for size, rate in ((64, 118 * MB), (128, 118 * MB), (256, 110 * MB))
    ]
    found = evidence(set=[*passes, point("write", rate=118 * MB, set_bytes=256 * MIB, durable=118 * MB)])
    assert kinds(found) == ["disk", "link"]
    assert first(found).confidence < 0.95


@pytest.mark.parametrize(("one", "other", "kinds_"), [(115, 115, ["link", "disk"]), (115, 117.5, ["link"])])
def test_two_large_sets_tell_together_that_disks_are_a_little_slower(
    one: float, other: float, kinds_: list[str]
) -> None:
    """Neither does alone: its interval reaches what counts as the same."""

    def known(rate: float, within: float, **more: int) -> Point:
        ends = ((1 - within) * rate * MB, (1 + within) * rate * MB)
        return replace(point(rate=rate * MB, **more), rate=Figure(rate * MB, *ends))

    memory = [known(94, 0), *(known(118, 1e-4, depth=depth) for depth in (2, 4, 8))]
    sets = [known(rate, 0.013, set_bytes=size * GIB) for size, rate in ((1, one), (2, other))]
    found = evidence(
        118 * MB, depth=memory, set=[*sets, point("write", rate=118 * MB, set_bytes=2 * GIB, durable=118 * MB)]
    )
    assert kinds(found) == kinds_


def test_disks_are_seen_behind_a_link_though_memory_takes_time_too() -> None:
    """One read is 220 us on its way, 350 on the link, 80 in memory or 325 on disks: these are 7 % faster than the link.

    What the disks add to it is only 245 us.
    """
    top = MIB / 350e-6
    alone = [point(rate=MIB / 650e-6), *(point(rate=top, depth=depth) for depth in (2, 4, 8))]
    beyond = point(rate=MIB / 895e-6, set_bytes=GIB)
    found = evidence(top, depth=alone, beyond=[beyond], round_trip=[point(record=4 * KIB, rate=4 * KIB / 220e-6)])
    disks = found.hidden("read", MIB)
    assert disks is not None and disks.value == pytest.approx(1 / 325e-6)
    assert (disks.low, disks.high) == (pytest.approx(1 / 325e-6), pytest.approx(1 / 245e-6))
    assert kinds(found) == ["link", "disk"] and first(found).confidence < 0.95
    assert kinds(evidence(top, depth=alone, beyond=[replace(beyond, mean_ns=750_000)])) == ["link"]


@pytest.mark.parametrize(
    ("durable", "promised", "kinds_"),
    [(112, 118, ["link", "disk"]), (118, 118, ["link"]), (112, 112, ["link"])],
)
def test_a_disk_close_behind_the_link_shows_in_large_amounts(durable: int, promised: int, kinds_: list[str]) -> None:
    """Writes that are as slow when only promised have a slower way."""
    sets = [
        point("write", rate=promised * MB, set_bytes=size * GIB, durable=durable * MB) for size in (1, 2)
    ] + [point(rate=118 * MB, set_bytes=2 * GIB)]  # fmt: skip
    assert kinds(evidence(118 * MB, set=sets), "write") == kinds_


@pytest.mark.parametrize(
    ("small_each_us", "large_each_us", "kinds_"),
    [(1_000, 9_000, ["link"]), (1_600, 18_000, ["link", "disk"]), (8_600, 25_000, ["link", "disk"])],
)
def test_a_disk_as_fast_as_the_link_shows_in_the_time_of_each_byte(
    small_each_us: float, large_each_us: float, kinds_: list[str]
) -> None:
    """One write crosses the link, then the disk, which may have to seek; promised, it only crosses the link."""
    writes = of_two_sizes(600, small_each_us, 9_000, large_each_us)
    assert kinds(evidence(118 * MB, writes=writes), "write") == kinds_


def of_two_sizes(*times_us: float) -> list[Point]:
    """Small and many; then promised and durable ones of 64 KiB and of 1 MiB that take these times."""
    which = [(record, durability) for record in (64, 1024) for durability in ("none", "each")]
    return [point("write", 4 * KIB, 8 * MB, 16, durability="each")] + [
        point("write", record * KIB, record * KIB / us * 1e6, durability=durability)
        for (record, durability), us in zip(which, times_us, strict=True)
    ]


def test_a_promised_write_s_copy_into_memory_is_no_way_of_durable_ones() -> None:
    """The copy takes 126 us of a large one's 1,004, the link 351; durable, it takes the link's and the disk's time."""
    writes = [*of_two_sizes(563, 579, 1_004, 1_218), point("write", rate=2_990 * MB, depth=8)]
    sets = [point("write", rate=2_990 * MB, set_bytes=GIB, durable=2_990 * MB), point(rate=2_990 * MB, set_bytes=GIB)]
    assert kinds(evidence(2_990 * MB, writes=writes, set=sets), "write") == ["link", "disk"]


def test_noise_between_sets_is_no_disk() -> None:
    rates = (118, 116, 119, 117)
    passes = [point(rate=rate * MB, set_bytes=(64 << at) * MIB) for at, rate in enumerate(rates)]
    assert kinds(evidence(set=[*passes, point("write", rate=118 * MB, set_bytes=GIB, durable=118 * MB)])) == ["link"]


def test_small_reads_beyond_memory_meet_the_disks_operations() -> None:
    slow = [point(record=4 * KIB, rate=150 * 4 * KIB, depth=32, set_bytes=GIB)]
    limit = first(evidence(beyond=slow), "read", "small")
    assert (limit.kind, round(limit.value.value)) == ("disk_iops", 150)


def test_a_pass_too_short_to_tell_makes_no_small_reads_bound_by_bytes() -> None:
    slow = [point(record=4 * KIB, rate=150 * 4 * KIB, depth=32, set_bytes=GIB)]
    unsure = replace(point(set_bytes=GIB), rate=Figure(54 * MB, 0.0, 126 * MB))
    held = point(rate=600 * MB, set_bytes=512 * MIB)
    assert first(evidence(600 * MB, beyond=slow, set=[held, unsure]), "read", "small").kind == "disk_iops"


def test_hits_among_misses_do_not_count_for_the_disk() -> None:
    slow = [point(record=4 * KIB, rate=200 * 4 * KIB, depth=32, set_bytes=GIB, quick=0.25)]
    assert first(evidence(beyond=slow), "read", "small").value.value == pytest.approx(150)


def test_few_bytes_on_the_wire_are_the_clients_cache() -> None:
    found = evidence(client_cache=[point(rate=4000 * MB, crossed=0.0)])
    assert kinds(found)[0] == "client_cache"
    assert "0 B of 4 GB crossed the wire" in first(found).evidence


def test_stops_are_on_no_list() -> None:
    stopping = [replace(p, stalls=Stalls(0.3, 2, 400_000_000, 1_300_000_000)) for p in level(118 * MB)]
    assert first(evidence(depth=stopping)).kind == "unknown"


@pytest.mark.parametrize(("other_ns", "kind"), [(950_000_000, "unknown"), (400_000_000, "link")])
def test_two_stops_of_reads_tell_with_stops_of_writes_that_are_as_long(other_ns: int, kind: str) -> None:
    one = Stalls(0.5, 1, 960_000_000, 0)
    depth = [replace(p, stalls=one if at < 2 else Stalls(0.0, 0, 0, 0)) for at, p in enumerate(level(118 * MB))]
    writes = [replace(point("write", depth=2), stalls=replace(one, length_ns=other_ns))]
    assert first(evidence(depth=depth, writes=writes)).kind == kind
    assert first(evidence(depth=depth)).kind == "link"


def test_reads_that_wait_where_other_calls_do_not_wait_for_disks_unless_memory_was_seen() -> None:
    looks = {"p50": 50_000, "p99": 60_000, "mean": 50_000}
    found = replace(evidence(), null_ns=looks)
    assert first(found, "read", "small").kind == "disk_iops"
    sets = [point(rate=118 * MB, set_bytes=GIB), point(rate=40 * MB, set_bytes=2 * GIB)]
    assert first(replace(evidence(set=sets), null_ns=looks), "read", "small").kind == "server_cpu"


def test_pauses_of_a_rationed_processor_are_no_stops() -> None:
    curve = [replace(point(record=4 * KIB, rate=r * 4 * KIB, depth=d), stalls=Stalls(0.4, 9, 128_000_000, 320_000_000))
             for d, r in ((4, 135), (16, 171), (64, 128), (256, 183))]  # fmt: skip
    looks = {"p50": 60_000, "p99": 70_000, "mean": 60_000}
    for median, slowest, kind in (
        (141_000.0, 90e6, "server_cpu"), (9e6, 90e6, "unknown"),
        (141_000.0, 150_000.0, "unknown"),  # one stop of a second, of many operations
        (141_000.0, 0.99e9, "unknown"),  # of seventy
    ):  # fmt: skip
        trip = point(record=4 * KIB, rate=70 * 4 * KIB, p50_ns=median, p99_ns=slowest, mean_ns=14.3e6)
        found = replace(evidence(round_trip=[trip], small_depth=curve), null_ns=looks)
        assert first(found, "read", "small").kind == kind
    assert (
        first(evidence(round_trip=[replace(trip, p50_ns=141_000.0, p99_ns=90e6)], small_depth=curve[:1])).kind
        == "server_cpu"
    )


@pytest.mark.parametrize(("promised", "kind"), [(1000, "disk"), (44, "unknown")])
def test_a_full_queue_that_stops_writers_is_the_disks(promised: int, kind: str) -> None:
    stops = Stalls(0.6, 10, 134_000_000, 268_000_000)
    sets = [point("write", rate=40 * MB, set_bytes=GIB, durable=40 * MB, stalls=stops), point(rate=400 * MB)]
    writes = [point("write", rate=promised * MB, depth=2)]
    found = evidence(400 * MB, set=sets, writes=writes, duplex=[])
    assert first(found, "write").kind == kind


@pytest.mark.parametrize(
    ("rates", "more", "kinds_"),
    [
        ((2800, 500, 504, 498, 72), [], ["burst_credit", "disk"]),
        ((2800, 500, 504, 498, 490), [], ["disk"]),
        ((2800, 1900, 900, 500, 72), [], ["disk"]),  # a write cache that fills
        ((2800, 500, 504, 498, 72), [point("write", rate=72 * MB)], ["disk"]),  # a long run told: no credit
    ],
)
def test_writes_that_fall_after_many_level_ones_are_left_open(
    rates: tuple[int, ...], more: list[Point], kinds_: list[str]
) -> None:
    sets = [
        point("write", rate=rate * MB, set_bytes=size * GIB, durable=rate * MB)
        for size, rate in zip((1, 2, 4, 8, 16), rates, strict=True)
    ]
    found = evidence(3000 * MB, set=[*sets, point(rate=3000 * MB, set_bytes=16 * GIB)], long=more)
    assert kinds(found, "write") == kinds_
    asked = [question.between for question in judge(found).open if (question.op, question.size) == ("write", "large")]
    assert asked == ([("burst_credit", "disk")] if len(kinds_) > 1 else [])


def test_spent_credit_comes_before_the_ceiling_it_hides() -> None:
    burst = {
        "scope": "link", "applies_to": ["read"], "burst_bytes_per_s": 118e6, "base_bytes_per_s": 20e6,
        "base_ci95": [19e6, 21e6], "size_bytes": 10**9, "shown_by": "it came back", "proved": True,
    }  # fmt: skip
    found = replace(evidence(118 * MB), burst=burst)
    assert (first(found).kind, first(found).value.value) == ("burst_credit", 20e6)


def test_a_stored_ladder_gives_the_same_verdict() -> None:
    found = evidence(118 * MB)
    steps = [{"name": name, "points": [p.document() for p in points]} for name, points in found.points.items()]
    again = Evidence.from_document({"steps": steps, "conditions": found.document()})
    assert judge(again) == judge(found)


@pytest.mark.parametrize(
    ("rates", "cpu", "named"),
    [
        ((118, 236, 460), 0.1, "client_nic"),  # each further client brings its share
        ((118, 236, 460), 4.0, "client_cpu"),
        ((118, 236, 240), 0.1, "link"),  # more bring no more: the limit is what all share
        ((), 0.1, "link"),
    ],
)
def test_clients_that_each_bring_their_share_do_not_reach_the_server(
    rates: tuple[int, ...], cpu: float, named: str
) -> None:
    points = [point(rate=rate * MB, depth=4, clients=1 << at, cpu=cpu) for at, rate in enumerate(rates)]
    found = evidence((rates[-1] if rates else 118) * MB, clients=points)
    found.client_cpus = 4
    limit = first(found)
    assert limit.kind == named
    if named != "link":
        assert limit.value.value == rates[-1] * MB and "use more" in limit.evidence and kinds(found)[1] == "link"


@pytest.mark.parametrize(("sizes", "ends"), [((256, 512), (2_000, 10_000)), ((240, 256), (7_840, 13_580))])
def test_disks_seen_in_one_operation_are_as_sure_as_the_memory_s_size(
    sizes: tuple[int, int], ends: tuple[float, float]
) -> None:
    """A read of 512 MiB takes 50 us longer: half of them 100 us, or a twentieth 500 us, if memory holds next to all."""
    passes = [point(rate=118 * MB, set_bytes=sizes[0] * MIB), point(rate=90 * MB, set_bytes=sizes[1] * MIB)]
    one = point(record=4 * KIB, rate=4 * KIB / 550e-6, set_bytes=512 * MIB)
    many = point(record=4 * KIB, rate=19_800 * 4 * KIB, depth=32, set_bytes=512 * MIB)
    found = evidence(set=[*passes, point(rate=88 * MB, set_bytes=512 * MIB)], beyond=[one, many])
    disks = next(each for each in judge(found).limits if (each.kind, each.size) == ("disk_iops", "small"))
    assert (disks.value.low, disks.value.high) == pytest.approx(ends, rel=0.01)
    assert ("between" in disks.evidence) == (ends[1] > 2 * ends[0])
