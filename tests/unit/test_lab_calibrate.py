"""Calibration: what other tools' output says, when a limit holds, and what a result carries of it."""

from __future__ import annotations

import dataclasses
import json
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec import convert

from naslab.client import process
from naslab.errors import TargetError, UsageError
from naslab.lab import calibrate, definition, experiment, server, session
from naslab.lab.backends import Answer
from naslab.lab.calibrate import disks, of_experiment, path, probe, records, tools
from naslab.lab.calibrate.bursts import fit_bucket
from naslab.lab.calibrate.finding import HOLDS, MISSES, UNMEASURED, Calibration, Finding, amount, table
from naslab.lab.calibrate.links import wire_share
from naslab.lab.limits import planted
from naslab.render.report.experiment_limits import calibrations_table
from naslab.results.parts.experiment import ExperimentCalibration

MB = 1_000_000


def fio_document(**job: Any) -> str:
    """What fio prints, with a warning before it."""
    way = {"bw_bytes": 0, "iops": 0.0, "total_ios": 0, "clat_ns": {}}
    read, write = ({**way, **job.pop(each, {})} for each in ("read", "write"))
    whole = {"jobs": [{"jobname": "disk1", "read": read, "write": write, **job}]}
    return "fio: a warning\n" + json.dumps(whole)


def test_fio_is_read() -> None:
    out = fio_document(
        read={
            "bw_bytes": 67 * MB,
            "iops": 1022.3,
            "total_ios": 1000,
            "clat_ns": {"percentile": {"50.000000": 8_400_000}},
        },
        total_err=11,
    )
    (job,) = tools.fio_jobs(out).values()
    assert (job.read_bytes_per_s, job.read_iops, job.read_latency_ns) == (67 * MB, 1022.3, 8.4e6)
    assert (job.requests, job.errors, job.write_bytes_per_s) == (1000, 11, 0)


@pytest.mark.parametrize("out", ["", "fio: no such file", "{}", '{"jobs": [{"jobname": "x"}]}', "{broken"])
def test_what_is_no_result_of_fio_says_so(out: str) -> None:
    with pytest.raises(TargetError, match="fio gave no result"):
        tools.fio_jobs(out)


def test_fio_writes_only_the_half_of_a_device_that_may_be_spoiled() -> None:
    words = tools.fio_words(tools.Work("write"), {"a": tools.raw("/dev/x", True), "b": tools.raw("/dev/y", False)})
    assert words.index("--name=global") < words.index("--name=a") < words.index("--name=b")
    a, b = words[words.index("--name=a") : words.index("--name=b")], words[words.index("--name=b") :]
    assert "--offset=50%" in a and "--readonly" not in a
    assert "--readonly" in b and not any(each.startswith("--allow_mounted_write") for each in b)


def test_a_log_of_fio_becomes_a_sum_of_bytes() -> None:
    rows = tools.fio_series("100, 1000, 0, 0, 0\n200, 500, 0, 0, 0\n")
    assert rows == [(0.0, 0.0), (0.1, pytest.approx(102_400)), (0.2, pytest.approx(153_600))]
    with pytest.raises(TargetError):
        tools.fio_series("100, 1000, 0, 0, 0\n")


def iperf_document(*moved: int) -> str:
    """Tenths of a second."""
    rows = [{"sum": {"end": (at + 1) / 10, "bytes": each}} for at, each in enumerate(moved)]
    return json.dumps({"intervals": rows})


def test_iperf3_is_read_and_divided_into_parts() -> None:
    series = tools.iperf_series(iperf_document(99, 99, 99, 10, 10, 10, 20, 20, 20))
    assert tools.chunks(series, 2, skip_s=0.3) == (pytest.approx(100), pytest.approx(200))
    with pytest.raises(TargetError, match="too short"):
        tools.chunks(series, 8, skip_s=0.3)


@pytest.mark.parametrize(
    ("out", "said"),
    [
        ('{"error": "unable to connect"}', "unable to connect"),
        ("no route", "no route"),
        ('{"intervals": []}', "none|no "),
    ],
)
def test_what_iperf3_says_is_the_reason(out: str, said: str) -> None:
    with pytest.raises(TargetError, match=said):
        tools.iperf_series(out)


def test_smbclient_and_dd_are_read() -> None:
    put = "putting file /tmp/x as \\x (65105.8 kb/s) (average 65105.8 kb/s)\n"
    get = "getting file \\x of size 67108864 as /tmp/y (57389.4 KiloBytes/sec) (average 57389.4 KiloBytes/sec)\n"
    assert tools.smbclient_rate(put, get=False) == pytest.approx(65105.8 * 1024)
    assert tools.smbclient_rate(get, get=True) == pytest.approx(57389.4 * 1024)
    with pytest.raises(TargetError, match="NT_STATUS_DISK_FULL"):
        tools.smbclient_rate("NT_STATUS_DISK_FULL closing remote file", get=False)
    rate = tools.dd_rate("16777216 bytes (17 MB, 16 MiB) copied, 0.268435 s, 62.5 MB/s")
    assert rate == pytest.approx(16777216 / 0.268435)
    with pytest.raises(TargetError, match="No space left"):
        tools.dd_rate("dd: error writing: No space left on device")


@pytest.mark.parametrize(("rate", "base", "size"), [(130, 16, 300), (96, 32, 64), (300, 75, 600)])
def test_a_bucket_is_fitted(rate: int, base: int, size: int) -> None:
    knee_s = size / (rate - base)
    at = np.arange(0, knee_s + 3, 0.1)
    moved = np.where(at < knee_s, rate * at, size + base * at)
    found = fit_bucket(list(zip(at, moved, strict=True)), skip_s=0.3)
    assert found.rate == pytest.approx(rate, rel=0.02)
    assert found.base == pytest.approx(base, rel=0.02) and found.size == pytest.approx(size, rel=0.02)
    with pytest.raises(TargetError, match="too few"):
        fit_bucket([(0.0, 0.0), (1.0, 1.0)])


def finding(planted: float | None, *runs: float, **more: Any) -> Finding:
    """Of a disk's reads."""
    return Finding("disks.read", planted, "bytes_per_s", runs, **more)


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        (finding(100.0, 104.9), HOLDS), (finding(100.0, 95.1), HOLDS), (finding(100.0, 105.1), MISSES),
        (finding(100.0, 94.9), MISSES), (finding(100.0, 90.0, 100.0, 400.0), HOLDS), (finding(100.0, 0.0), MISSES),
        (finding(100.0), UNMEASURED), (finding(None, 5.0), ""),
        (finding(100.0, 20.0, ceiling=True), HOLDS), (finding(100.0, 106.0, ceiling=True), MISSES),
        (finding(0.01, 0.0108, allowance=0.1), HOLDS), (finding(0.01, 0.0112, allowance=0.1), MISSES),
    ],
)  # fmt: skip
def test_a_limit_holds_to_five_percent(found: Finding, verdict: str) -> None:
    assert found.verdict == verdict


def calibration(*found: Finding) -> Calibration:
    """Of a made-up system."""
    return Calibration("made-up", "native", "0", "2026-01-01T00:00:00+00:00", found)


def test_a_calibration_says_what_misses_and_comes_back_from_json() -> None:
    good, bad, none = (
        finding(100.0, 101.0, 103.0, at="disk 1"),
        finding(100.0, 80.0, at="disk 2"),
        finding(100.0, note="why"),
    )
    found = calibration(good, bad, none)
    assert not found.holds and found.misses == [bad] and calibration(good, none).holds
    assert found.measured("disks.read", "disk 1") == 102.0 and found.measured("volume.read") is None
    assert "1 holds, 1 misses, 1 not measured" in found.summary() and "(disk 2) -20.0 %" in found.summary()
    assert Calibration.from_dict(json.loads(json.dumps(found.as_dict()))) == found
    lines = table(found.findings)
    assert "MISSES" in lines[2] and lines[-1].strip() == "why"
    assert "no planted limits" in calibration().summary()


def test_a_result_carries_the_place_that_is_furthest_off() -> None:
    found = calibration(
        finding(100.0, 102.0, at="disk 1"), finding(100.0, 90.0, at="disk 2"), finding(100.0, at="disk 3")
    )
    told = records.limit("disks.read", 100.0, "bytes_per_s", found)
    assert (told["measured"], told["verdict"], told["deviation"]) == (90.0, MISSES, pytest.approx(-0.1))
    for none in (None, calibration(), calibration(finding(100.0))):
        told = records.limit("disks.read", 100.0, "bytes_per_s", none)
        assert (told["planted"], told["measured"], told["verdict"]) == (100.0, None, UNMEASURED)


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [(67e6, "bytes_per_s", "67 MB/s"), (2.5e9, "bits_per_s", "2.5 Gbit/s"), (1e8, "bits_per_s", "100 Mbit/s"),
     (1500, "bytes", "1500 B"), (268435456, "bytes", "268 MB"), (8.4e6, "ns", "8.40 ms"), (500, "per_s", "500 /s"),
     (0.011, "share", "1.10 %"), (2.0, "share", "2"), (None, "share", "-")],
)  # fmt: skip
def test_values_are_told_in_their_units(value: float | None, unit: str, text: str) -> None:
    assert amount(value, unit) == text


SYSTEM = """
what = "made up"
[[disks]]
count = {count}
size = "512MiB"
read = "67MB/s"
write = "67MB/s"
[volume]
level = "{level}"
[server]
kind = "samba"
[link]
rate = "{rate}"
"""


@pytest.mark.parametrize(
    ("level", "count", "rate", "read_mb"),
    [("single", 1, "1Gbit/s", 67), ("raid0", 2, "10Gbit/s", 134), ("raid1", 2, "10Gbit/s", 134),
     ("span", 2, "1Gbit/s", 67),
     ("raid5", 4, "1Gbit/s", 125 * wire_share(1500))],
)  # fmt: skip
def test_the_whole_way_is_bounded_by_its_parts(level: str, count: int, rate: str, read_mb: float) -> None:
    found = definition.parse(SYSTEM.format(level=level, count=count, rate=rate), "f", "made-up")
    assert path.ceiling(found, "read") == pytest.approx(read_mb * MB)
    link_bits = {"1Gbit/s": 1e9, "10Gbit/s": 1e10}[rate]
    assert path.ceiling(found, "write") == pytest.approx(link_bits / 8 * wire_share(1500)), "memory takes writes first"
    assert path.ceiling(None, "read") is None


def test_a_missing_tool_is_named_by_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "which", lambda name: None if name == "nfs-cp" else f"/usr/bin/{name}")
    probe.check_tools(["fio", "iperf3"], "x")
    with pytest.raises(UsageError, match="apt install libnfs-utils"):
        probe.check_tools(["fio", "nfs-cp"], "x")


def test_public_names() -> None:
    assert set(calibrate.__all__) >= {"calibrate", "calibrate_system", "Calibration", "Finding", "find", "keep"}


EXPERIMENT = """
title = "Two systems"
about = "For the table of limits."
repeats = [3, 3]
[source]
title = "None"
[systems.one]
what = "a disk of 67 MB/s"
disks = [{ size = "64MiB", read = "67MB/s" }]
server = { kind = "samba" }
[systems.there]
what = "an address"
target = "sim:"
[tests.all]
what = "files"
command = "sweep"
options = "--file-size 1m"
[[condition]]
id = "here"
what = "on parts"
system = "one"
tests = ["all"]
[[condition]]
id = "there"
what = "elsewhere"
system = "there"
tests = ["all"]
[[claim]]
id = "more"
words = "One is faster."
of = { condition = "here", op = "write", file = "1m" }
to = { condition = "there" }
expect = "more"
"""


def test_an_experiment_tells_planted_and_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    file = tmp_path / "two.toml"
    file.write_text(EXPERIMENT)
    whole = experiment.load(str(file), "scaled")
    result: dict[str, Any] = {"notes": ["before"]}
    of_experiment.record(whole, result, ["one was not calibrated: no fio"])
    (one,) = result["calibrations"]
    assert (one["system"], one["conditions"], one["calibrated_at"]) == ("one", ["here"], None)
    assert one["limits"][0]["verdict"] == UNMEASURED and result["notes"] == ["before", "one was not calibrated: no fio"]
    assert "lab run --calibrate" in calibrations_table(convert(result["calibrations"], list[ExperimentCalibration]))

    made = whole.systems["one"].checked
    assert made is not None and whole.systems["one"].parts is not None
    monkeypatch.setattr(of_experiment.backends, "answers", lambda _: [Answer("native")])
    key = records.key_of_parts(whole.systems["one"].parts, {}, planted(made), "native")
    found = Finding("disks.read", 67e6, "bytes_per_s", (50e6,))
    records.keep(Calibration("one", "native", key, "2026-01-01T00:00:00+00:00", (found,)))
    result = {"notes": []}
    of_experiment.record(whole, result, [])
    assert result["notes"] == ["one differs from its limits: disks.read 50 MB/s instead of 67 MB/s (-25.4 %)"]
    told = calibrations_table(convert(result["calibrations"], list[ExperimentCalibration])).replace("\u00a0", " ")
    assert "50 MB/s (-25.4 %)" in told and "misses" in told and "2026-01-01" in told
    assert calibrations_table([]) == ""


class Recorder(probe.Probe):
    """Runs nothing: keeps the commands, and answers fio's with 67 MB/s, 500 requests/s and 8 ms for every job."""

    def run(self, words: Any, client: int = 0, seconds: float = 0.0, check: bool = True) -> str:
        self.commands = [*getattr(self, "commands", []), list(words)]
        names = [each.partition("=")[2] for each in words if each.startswith("--name=") and each != "--name=global"]
        way = {"bw_bytes": 67 * MB, "iops": 500.0, "total_ios": 9, "clat_ns": {"percentile": {"50.000000": 8_000_000}}}
        return json.dumps({"jobs": [{"jobname": name, "read": way, "write": way} for name in names]})


def recorder(folder: Path, *, scratch: bool, level: str = "single", count: int = 1, more: str = "") -> Recorder:
    """Of a running system that is not there."""
    text = SYSTEM.format(level=level, count=count, rate="1Gbit/s").replace("[volume]", f"{more}\n[volume]")
    data, made = tomllib.loads(text), definition.parse(text, "f", "made-up")
    facts = {
        "definition": {"data": data, "file": "f", "chosen": {}}, "limits": [vars(each) for each in planted(made)],
        "disks": [{"device": f"/dev/loop{9000 + at}"} for at in range(count)],
    }  # fmt: skip
    here = server.Server(
        "made-up", "smb://x/data", {}, "", None, folder, folder / "data", 1, None, facts, process.Process(1, 1)
    )
    return Recorder(here, scratch=scratch)


def spoiled(made: Recorder) -> list[str]:
    """Block devices that a command may write to."""
    return [
        each
        for words in made.commands
        if any(word.startswith("--rw=") and word not in ("--rw=read", "--rw=randread") for word in words)
        for each in words
        if each.startswith("--filename=/dev/")
    ]


def test_disks_of_a_system_that_stays_are_not_spoiled(tmp_path: Path) -> None:
    for level, count in (("single", 1), ("raid5", 4)):
        made = recorder(tmp_path, scratch=False, level=level, count=count)
        disks.measure_reads(made)
        disks.measure_writes(made)
        assert not spoiled(made)
        written = [each for each in made.found if each.name == "disks.write"]
        if level == "single":
            assert written[0].measured == 67 * MB
        else:
            assert {each.verdict for each in written} == {UNMEASURED} and "not up" in written[0].note
    made = recorder(tmp_path, scratch=True, level="raid5", count=4)
    disks.measure_writes(made)
    assert len(set(spoiled(made))) == 4 and [each.at for each in made.found] == [f"disk {at}" for at in (1, 2, 3, 4)]


def test_a_served_disk_is_written_before_it_is_read(tmp_path: Path) -> None:
    made = recorder(tmp_path, scratch=True, more='latency = "8ms"')
    assert disks.is_served(made, made.definition.disks[0])  # type: ignore[union-attr]
    disks.measure_reads(made)
    assert not made.found, "nothing is read before"
    disks.measure_writes(made)
    kinds = [next(word for word in words if word.startswith("--rw=")) for words in made.commands]
    assert kinds[0] == "--rw=write" and "--time_based" not in made.commands[0]
    assert {each.name: each.verdict for each in made.found}["disks.latency"] == HOLDS


@pytest.mark.parametrize(
    ("more", "rate", "block"),
    [('size = "64MiB"', 67e6, "64k"), ('iops = 500', 60e6, "256k"), ('latency = "10ms"', 40e6, "256k"),
     ('iops = 20', 60e6, "512k")],
)  # fmt: skip
def test_requests_are_as_large_as_the_other_limits_demand(more: str, rate: float, block: str) -> None:
    text = SYSTEM.format(level="single", count=1, rate="1Gbit/s").replace('size = "512MiB"', more)
    assert disks.stream("read", definition.parse(text, "f", "x").disks[0], rate, 512 << 10).block == block


def test_a_run_of_a_system_that_is_not_as_planted_is_warned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    made = recorder(tmp_path, scratch=True).server
    made = dataclasses.replace(made, targets={"data": "smb://x/data"})
    for measured, warnings in ((66e6, []), (50e6, ["planted_missed"])):
        found = Finding("disks.read", 67e6, "bytes_per_s", (measured,))
        records.keep(Calibration("made-up", "native", records.key_of(made), "2026-01-01T00:00:00+00:00", (found,)))
        target = session._target("lab:made-up", made, "data", "", {})
        assert [kind for kind, _ in target.warnings] == warnings
        assert target.lab is not None and target.lab["planted"][0]["measured"] == measured
