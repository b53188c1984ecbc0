"""What the lab plants, without devices: words, credit, limits of both kinds of control groups, records."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from naslab.errors import UsageError
from naslab.lab import bucket, disk, link, loops, place, systems, throttle
from naslab.lab.bucket import NS_PER_S, Credit, Plan
from naslab.lab.disk import DiskOptions
from naslab.lab.link import LinkOptions

MB = 1_000_000
PLAN = Plan(120 * MB, 24 * MB, 400 * MB)


def test_plans_are_parsed_in_the_units_of_the_command_line() -> None:
    assert DiskOptions().plan() == LinkOptions().plan() == PLAN
    assert Plan.parse("x", "1g", "64k/s", "1m") == Plan(1 << 30, 1 << 16, 1 << 20)
    assert DiskOptions(disk="100000000").disk_bytes() == 95 << 20, "whole MiB"
    assert systems.system("burst-disk").words == ("burst", "base", "size", "disk", "cache")


@pytest.mark.parametrize(
    ("parse", "message"),
    [
        (lambda: Plan.parse("x", "24MB/s", "24MB/s", "1g"), "x: burst='24MB/s' is not above base='24MB/s'"),
        (lambda: Plan.parse("x", "fast", "24MB/s", "1g"), "x: burst: 'fast' is not a size"),
        (lambda: Plan.parse("x", "24MB/s", "1k/s", "1g"), "at least 64KiB/s"),
        (lambda: Plan.parse("x", "24MB/s", "1MB/s", "1k"), "at least 64KiB/s and 1MiB"),
        (lambda: DiskOptions(disk="1m").disk_bytes(), "disk='1m'; give 64m or more"),
        (lambda: LinkOptions(size="4g").plan(), "less than 4 GiB"),
        (lambda: LinkOptions(base="1MB/s").plan(), "less than 250 s at the base rate"),
    ],
)
def test_what_cannot_be_planted_is_named(parse: Callable[[], object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse()


class Drive:
    """A disk that moves what its limit allows, and a slice at once after each change, under a Credit."""

    def __init__(self, plan: Plan, lateness_ns: int = 0) -> None:
        self.credit = Credit(plan, 0, 0)
        self.now_ns, self.moved, self.lateness_ns = 0, 0.0, lateness_ns
        self.wait_ns = 0

    def run(self, seconds: float, demand_bytes_per_s: float = 1e12) -> float:
        """Bytes moved in so much time."""
        until, before = self.now_ns + round(seconds * NS_PER_S), self.moved
        while self.now_ns < until:
            limit = self.credit.limit_bytes_per_s
            took = min(max(self.wait_ns, 1_000_000) + self.lateness_ns, until - self.now_ns)
            self.now_ns += took
            self.moved += min(limit, demand_bytes_per_s) * took / NS_PER_S
            self.wait_ns = self.credit.step(self.now_ns, round(self.moved))
            if self.credit.limit_bytes_per_s < limit:
                self.moved += self.credit.limit_bytes_per_s * bucket.SLICE_NS / NS_PER_S
        return self.moved - before


@pytest.mark.parametrize("lateness_ms", [0, 1, 5])
def test_the_credit_is_spent_to_the_byte_and_comes_back(lateness_ms: int) -> None:
    late = lateness_ms * 1_000_000
    drive = Drive(PLAN, late)
    slack = PLAN.burst_bytes_per_s * (late + 1_000_000) / NS_PER_S
    assert drive.run(3) == pytest.approx(3 * PLAN.burst_bytes_per_s)
    assert drive.run(7) == pytest.approx(PLAN.size_bytes + 10 * PLAN.base_bytes_per_s - 360 * MB, abs=slack)
    assert drive.run(10) == pytest.approx(10 * PLAN.base_bytes_per_s, rel=1e-6), "a floor without swings"
    drive.run(5, 0)
    assert drive.run(5) == pytest.approx(10 * PLAN.base_bytes_per_s, abs=2 * slack), "five seconds' worth came back"
    drive.run(100, 0)
    assert drive.run(10) == pytest.approx(PLAN.size_bytes + 10 * PLAN.base_bytes_per_s, abs=slack), (
        "never more than it holds"
    )


def test_a_slow_load_spends_nothing_and_a_middling_one_less() -> None:
    drive = Drive(PLAN)
    assert drive.run(30, 20 * MB) == pytest.approx(600 * MB)
    assert drive.run(2) == pytest.approx(240 * MB)
    drive = Drive(PLAN)
    assert drive.run(20, 34 * MB) == pytest.approx(680 * MB), "10 MB/s above the base last 40 s"
    drive.run(20, 34 * MB)
    assert drive.run(5) == pytest.approx(5 * PLAN.base_bytes_per_s, rel=0.05)


def test_a_throttle_that_gives_too_much_makes_no_lasting_debt() -> None:
    credit = Credit(PLAN, 0, 0)
    credit.step(NS_PER_S, 10_000 * MB)
    assert credit.limit_bytes_per_s == PLAN.base_bytes_per_s
    credit.step(2 * NS_PER_S, 10_000 * MB)
    assert credit.limit_bytes_per_s == PLAN.burst_bytes_per_s, "a second's credit is there after a second"


def mounts(folder: Path, *lines: str) -> Path:
    path = folder / "mounts"
    path.write_text("".join(f"none {line} 0 0\n" for line in lines))
    return path


def test_limits_by_cgroup_version_1(tmp_path: Path) -> None:
    for name in ("read", "write"):
        (tmp_path / f"blkio.throttle.{name}_bps_device").touch()
    found = throttle.find("7:1000", "mine", mounts(tmp_path, f"{tmp_path} cgroup rw,blkio"))
    assert found.version == 1 and found.join is None
    found.limit(5)
    assert (tmp_path / "blkio.throttle.write_bps_device").read_text() == "7:1000 5"
    found.lift()
    assert (tmp_path / "blkio.throttle.read_bps_device").read_text() == "7:1000 0"


def test_limits_by_cgroup_version_2(tmp_path: Path) -> None:
    where = mounts(tmp_path, f"{tmp_path} cgroup2 rw")
    for has in ("cpu memory", None):
        with pytest.raises(UsageError, match="this machine cannot limit a disk"):
            throttle.find("7:1000", "mine", where)
        (tmp_path / "cgroup.subtree_control").write_text(has or "")
    (tmp_path / "cgroup.subtree_control").write_text("cpu io memory\n")
    found = throttle.find("7:1000", "mine", where)
    throttle.make_group(found)
    assert found.join == tmp_path / "mine" / "cgroup.procs"
    found.limit(5)
    assert (tmp_path / "mine" / "io.max").read_text() == "7:1000 rbps=5 wbps=5"
    found.lift()
    assert (tmp_path / "mine" / "io.max").read_text() == "7:1000 rbps=max wbps=max riops=max wiops=max"
    with pytest.raises(UsageError, match="File exists"):
        throttle.make_group(found)


def test_a_system_without_disks_takes_no_number(tmp_path: Path) -> None:
    """A slow processor alone: its control groups are written down all the same."""
    assert loops.reserve(tmp_path, 0, ["/sys/fs/cgroup/cpu/somewhere"]) == []
    assert "somewhere" in (tmp_path / loops.RECORD).read_text(encoding="ascii")


def test_only_devices_of_the_folder_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    removed: list[int] = []
    monkeypatch.setattr(loops, "remove", lambda minor, seconds: removed.append(minor) or True)
    assert loops.release_recorded(tmp_path), "no record, nothing to do"
    minors = loops.reserve(tmp_path, 3)
    assert len({*minors} & {*loops.MINORS}) == 3
    assert json.loads((tmp_path / loops.RECORD).read_text()) == {"minors": minors, "groups": []}
    assert loops.release_recorded(tmp_path) and removed == minors[::-1], "a device may stand on those before it"
    for record in ('{"minors": [3], "groups": []}', "{", "[]", '{"minors": ["x"], "groups": []}', '{"minors": [5000]}'):
        (tmp_path / loops.RECORD).write_text(record)
        assert loops.release_recorded(tmp_path)
    assert removed == minors[::-1], "the system's own numbers are not ours"
    monkeypatch.setattr(loops, "_is_ours", lambda minor, label: False)
    loops.reserve(tmp_path)
    assert loops.release_recorded(tmp_path) and removed == minors[::-1]


def test_numbers_left_without_a_folder_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(loops, "_control", lambda request, minor: asked.append(minor))
    monkeypatch.setattr(loops, "is_bound", lambda minor: minor == 2000)
    for name in ("loop7", "loop2000", "loop2001", "loop-control"):
        (tmp_path / name).touch()
    assert loops.remove_orphans(tmp_path) == asked == [], "one that is made just now"
    monkeypatch.setattr(loops, "_ORPHAN_S", -1.0)
    assert loops.remove_orphans(tmp_path) == asked == [2001], "neither the system's own nor one in use"
    monkeypatch.setattr(loops, "remove_orphans", lambda: asked.append(-1))
    place.sweep()
    assert asked == [2001, -1], "whoever uses the lab next does so"
    monkeypatch.undo()
    monkeypatch.setattr(loops, "_ORPHAN_S", -1.0)
    monkeypatch.setattr(loops, "_control", lambda request, minor: (_ for _ in ()).throw(OSError(16, "busy")))
    assert loops.remove_orphans(tmp_path) == []


def test_a_group_goes_with_its_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loops, "remove", lambda minor, seconds: True)
    mine, other = tmp_path / "groups" / tmp_path.name, tmp_path / "groups" / "other"
    for group in (mine, other):
        group.mkdir(parents=True)
        loops.reserve(tmp_path, groups=[str(group)])
        assert loops.release_recorded(tmp_path)
    assert not mine.exists() and other.exists()


def test_a_folder_whose_device_is_in_use_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "place"
    folder.mkdir()
    monkeypatch.setattr(loops, "release_recorded", lambda folder: False)
    place.remove(folder)
    assert folder.exists()
    monkeypatch.undo()
    place.remove(folder)
    assert not folder.exists()


def test_who_is_not_root_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    here = place.Place(tmp_path, tmp_path / "data", True)
    with pytest.raises(UsageError, match="only root can make"):
        disk.prepare(here, DiskOptions())
    with pytest.raises(UsageError, match="need root"):
        link.prepare(here, LinkOptions())
