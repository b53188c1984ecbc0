"""The client: by which way a host is reached, what else the machine did, its clocks, what it can do at most."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from naslab.cli.ceiling import lines
from naslab.client import ceiling as ceilings
from naslab.client import clocks, kept, procs, route
from naslab.client.watch import Stretch, Traffic, Watch, foreign_bytes, watch_for
from naslab.results.describe import plain
from naslab.results.parts.client import ClientCeiling

GBIT = 10**9


# The way to a host.


def interface(root: Path, name: str, speed: int | None, driver: str | None = None, lower: str | None = None) -> None:
    (root / name).mkdir(parents=True)
    if speed is not None:
        (root / name / "speed").write_text(f"{speed}\n")
    if driver is not None:
        (root / name / "device").mkdir()
        (root / "drivers" / driver).mkdir(parents=True, exist_ok=True)
        (root / name / "device" / "driver").symlink_to(root / "drivers" / driver)
    if lower is not None:
        (root / name / f"lower_{lower}").symlink_to(root / lower)


def test_only_hardware_has_a_speed(tmp_path: Path) -> None:
    interface(tmp_path, "eth0", 1000, "igb")
    interface(tmp_path, "eth1", -1, "igb")
    interface(tmp_path, "eth2", 10000, "vmxnet3")
    interface(tmp_path, "veth0", 10000)
    interface(tmp_path, "eth0.5", 1000, lower="eth0")
    interface(tmp_path, "br0", 10000, lower="eth0")
    (tmp_path / "br0" / "bridge").mkdir()
    interface(tmp_path, "bond0", 2000, lower="eth0")
    (tmp_path / "bond0" / "bonding").mkdir()
    speeds = {name: route.speed_of(name, tmp_path)[0] for name in os.listdir(tmp_path) if name != "drivers"}
    assert speeds == {
        "eth0": GBIT, "eth1": None, "eth2": None, "veth0": None, "eth0.5": GBIT, "br0": None, "bond0": 2 * GBIT,
    }  # fmt: skip


def test_this_machine_is_reached_without_a_link() -> None:
    found = route.route_to("127.0.0.1")
    assert found is not None and found["loopback"] and found["interface"] == "lo"
    assert route.nic_bytes_per_s(["127.0.0.1"]) is None
    assert route.route_to("no-such-host.invalid") is None


# Clocks.


def moment(at_s: float, wall_s: float = 0.0, asleep_s: float = 0.0, bent: float = 0.0) -> clocks.Moment:
    at = round(at_s * 1e9)
    return clocks.Moment(
        at, at + round((wall_s + asleep_s) * 1e9), at + round(asleep_s * 1e9), round(at_s * (1 - bent) * 1e9)
    )


@pytest.mark.parametrize(
    ("last", "step_ns", "asleep_ns"),
    [
        (moment(10), 0, 0), (moment(10, wall_s=0.009), 0, 0), (moment(10, wall_s=-3600), -3600 * 10**9, 0),
        (moment(10, wall_s=0.5), 500_000_000, 0), (moment(10, asleep_s=60), 0, 60 * 10**9),
        (moment(10, wall_s=2, asleep_s=60), 2 * 10**9, 60 * 10**9),
    ],
)  # fmt: skip
def test_clocks_that_were_set_and_machines_that_slept(last: clocks.Moment, step_ns: int, asleep_ns: int) -> None:
    found = clocks.trouble([moment(0), moment(5), last])
    assert (found.step_ns, found.asleep_ns, found.rate_off) == (step_ns, asleep_ns, 0.0)


def test_a_bent_clock_is_told_from_ordinary_correction() -> None:
    assert clocks.trouble([moment(0), moment(100, bent=0.0004)]).rate_off == 0.0
    assert clocks.trouble([moment(0), moment(100, bent=0.01)]).rate_off == pytest.approx(0.01, rel=0.02)


def test_the_clocks_of_this_machine_are_read_together() -> None:
    first = clocks.now()
    assert clocks.trouble([first, clocks.now()]) == clocks.Trouble()


# Other programs.


def stretches(*shares: tuple[float, float], took_ns: int = 10**9) -> Watch:
    watch = Watch()
    watch.stretches = [Stretch((at,), took_ns, *share) for at, share in enumerate(shares)]
    return watch


@pytest.mark.parametrize(
    ("shares", "told"),
    [
        ([(0.05, 0.0)] * 5, []), ([(0.14, 0.04)] * 5, []), ([(0.4, 0.0)], ["40 %"]),
        ([(0.0, 0.3)], ["took up to 30 %"]),
        ([(0.0, 0.0), (0.5, 0.2)], ["50 %", "20 %"]), ([(0.0, 0.0)] * 60 + [(0.9, 0.0)], []),
    ],
)  # fmt: skip
def test_other_programs_are_told_where_they_matter(shares: list[tuple[float, float]], told: list[str]) -> None:
    found = stretches(*shares).findings()
    assert [each.kind for each in found] == ["other_load"] * len(told)
    assert all(word in each.message for word, each in zip(told, found, strict=True))


def test_disturbed_cells_are_named() -> None:
    (found,) = stretches((0.0, 0.0), (0.5, 0.0), (0.6, 0.0)).findings()
    assert "2 cells were" in found.message and found.entry()["cells"] == [1, 2]
    assert found.value == 0.6 and found.limit == 0.15


def test_our_own_processor_time_is_not_foreign() -> None:
    """What this process burns between two moments is not in the difference, whoever else is busy."""
    before, own = procs.foreign_ticks(), os.times()
    if before is None:
        pytest.skip("this system does not say who descends from whom")
    until = time.process_time() + 0.5
    while time.process_time() < until:
        pass
    after, now = procs.foreign_ticks(), os.times()
    assert after is not None
    burnt = (now.user + now.system - own.user - own.system) * os.sysconf("SC_CLK_TCK")
    assert burnt >= 45
    others = after.total - before.total - burnt
    assert after.used - before.used <= others + 5


def test_a_share_of_nothing_is_none() -> None:
    one = procs.Foreign(5, 0, 100)
    assert procs.foreign_share(None, one) is None and procs.foreign_share(one, one) is None
    assert procs.foreign_share(one, procs.Foreign(25, 0, 200)) == 0.2
    assert procs.foreign_share(one, procs.Foreign(3, 0, 200)) == 0.0


# Other traffic.

CELL = {
    "id": 3, "bytes": 100_000_000, "ops": 100, "wire_sent_bytes": 12_000, "wire_received_bytes": 100_009_000,
    "workers": 1, "queue_depth": 1,
}  # fmt: skip


@pytest.mark.parametrize(
    ("sent", "received", "foreign"),
    [
        (30_000, 50_004_500, 0), (2_500_000, 52_500_000, 0),  # bare, and with every header and acknowledgement
        (30_000, 80_000_000, 25_980_000), (40_000_000, 52_500_000, 36_980_000),
    ],
)  # fmt: skip
def test_what_an_interface_carried_beyond_our_own(sent: int, received: int, foreign: int) -> None:
    found = foreign_bytes(CELL, 50_000_000, [sent, received])
    assert found is not None and found[0] == pytest.approx(foreign, rel=0.01, abs=1)
    assert found[1] == pytest.approx(50_010_500)


def test_what_is_in_flight_at_the_end_is_ours() -> None:
    slow = {**CELL, "ops": 4, "queue_depth": 2}
    assert foreign_bytes(slow, 25_000_000, [40_000, 70_000_000]) == (0.0, pytest.approx(25_005_250))


def test_other_traffic_is_told_above_a_share_of_ours() -> None:
    watch = Watch(interface="eth0")
    watch.traffic = [Traffic(0, 4e6, 1e8), Traffic(1, 1e5, 1e5)]
    assert watch.findings() == []
    watch.traffic.append(Traffic(2, 3e7, 1e8))
    (found,) = watch.findings()
    assert "eth0 carried up to 30 MB/s of other traffic" in found.message and found.entry()["cells"] == [2]


def test_progress_is_measured_from_the_first_bytes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = iter([(0, 1_000_000), (10_000, 21_000_000), (20_000, 101_000_000)])
    monkeypatch.setattr("naslab.client.watch.interface_bytes", lambda _: next(counted))
    clock = iter(range(0, 100 * 10**9, 10**9))
    monkeypatch.setattr("naslab.client.watch.time.monotonic_ns", lambda: next(clock))
    watch = Watch(judges_cpu=False, interface="eth0")
    watch.before()
    for moved in (0, 1_000_000, 11_000_000, 51_000_000):
        watch.progress({"bytes": moved})
    watch.after(CELL)
    (found,) = watch.traffic
    assert found.ours_bytes_per_s == pytest.approx(25.005e6, rel=0.001)
    assert found.foreign_bytes_per_s == pytest.approx((100e6 - 50.0e6 * 1.06 - 1e6) / 2, rel=0.001)


# Who is watched.


def watched(protocol: str, ours: Any = None, **environment: Any) -> Watch | None:
    return watch_for({"target": {"protocol": protocol}, "environment": environment}, ours)


def test_what_is_judged_depends_on_where_the_server_is() -> None:
    there = {"interface": "eth0", "loopback": False}
    here = {"interface": "lo", "loopback": True}
    assert watched("sim") is None
    far = watched("smb", route=there)
    assert far is not None and far.judges_cpu and far.interface == "eth0"
    near = watched("nfs", route=here)
    assert near is not None and not near.judges_cpu and near.interface is None
    lab = watched("nfs", ours=lambda: [1], route=here)
    assert lab is not None and lab.judges_cpu
    fuse = watched("local", target={"filesystem": "fuse.ntfs"})
    assert fuse is not None and not fuse.judges_cpu
    disk = watched("local", target={"filesystem": "ext4"})
    assert disk is not None and disk.judges_cpu and disk.interface is None


# The ceiling.


@pytest.fixture(scope="module")
def measured() -> ClientCeiling:
    return ceilings.measure(0.4)


def test_every_figure_is_measured(measured: ClientCeiling) -> None:
    found = plain(measured)
    memory = found["memory"]
    rates = [rate for part in ("one", "all") for rate in memory[part].values()]
    rates += [each["ops_per_s"] for each in found["null"]] + [memory["latency_ns"]]
    rates += [each["encrypt_bytes_per_s"] for each in found["aes"]]
    rates += [found["zlib"][name] for name in ("deflate_bytes_per_s", "inflate_bytes_per_s")]
    rates += [found["loopback"][name] for name in ("send_bytes_per_s", "receive_bytes_per_s", "round_trip_ns")]
    assert len(rates) >= 15 and all(rate > 0 for rate in rates)
    assert {each["record_bytes"] for each in found["null"]} == {4096, 1 << 20}
    assert found["zlib"]["ratio"] > 2


def test_the_table_names_the_articles_figures(measured: ClientCeiling) -> None:
    text = "\n".join(lines(measured))
    for name in ("memory copy", "memory read", "memory write", "memory latency", "zlib packing", "aes-128-gcm"):
        assert name in text
    assert "--again" not in text and "--again" in "\n".join(lines(measured, fresh=False))
    busy, calm = (replace(measured, foreign_cpu_fraction=share) for share in (0.5, 0.1))
    assert "too low" in "\n".join(lines(busy)) and "too low" not in "\n".join(lines(calm))


@pytest.mark.parametrize(
    "change", [{"boot": "other"}, {"naslab_version": "0.0"}, {"host": "x"}, {"measured_wall_ns": 1}, {"null": []}]
)
def test_only_a_recent_measurement_of_this_boot_counts(
    change: dict[str, Any], measured: ClientCeiling, tmp_path: Path
) -> None:
    store = tmp_path / "runs.sqlite"
    assert kept.recent(store) is None
    kept.keep(store, measured)
    assert kept.recent(store) == measured
    kept.keep(store, replace(measured, **change))
    assert kept.recent(store) is None


def test_a_kept_measurement_is_used_and_a_disturbed_one_not_kept(
    measured: ClientCeiling, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tmp_path / "runs.sqlite"
    told: list[str] = []
    monkeypatch.setattr(kept, "measure", lambda seconds: replace(measured, foreign_cpu_fraction=0.9))
    assert kept.ceiling_for(store, 1.0, told.append)[1] and len(told) == 1 and kept.recent(store) is None
    monkeypatch.setattr(kept, "measure", lambda seconds: replace(measured, foreign_cpu_fraction=0.0))
    assert kept.ceiling_for(store)[1] and not kept.ceiling_for(store)[1]
