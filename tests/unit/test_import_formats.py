"""Import of other tools' results: what they say is what runs hold, in the right units."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from cli_tools import HANG_S
from naslab.cli import main
from naslab.comparison.judgement import compare
from naslab.errors import ForeignFileError, UsageError
from naslab.exchange.export import export
from naslab.exchange.importers.build import Asked, import_files, read_file
from naslab.exchange.importers.fio_options import size_bytes
from naslab.results import Run, schema
from naslab.results.histogram import decode
from naslab.results.store import Store

SAMPLES = Path(__file__).parent.parent / "samples"
DISKSPD = Path(__file__).parent.parent / "golden" / "diskspd"
KIB, MIB = 1024, 1 << 20
VALIDATOR = jsonschema.Draft202012Validator(schema.json_schema(strict=True))


def one(name: str, **asked: Any) -> Run:
    """The run in a sample."""
    runs, _ = import_files([SAMPLES / name], Asked(**asked))
    assert len(runs) == 1
    VALIDATOR.validate(runs[0].document)
    return runs[0]


def cell(run: Run, **wanted: Any) -> dict[str, Any]:
    """The cell with these values."""
    found = [c for c in run.cells if all(c[name] == value for name, value in wanted.items())]
    assert len(found) == 1, wanted
    return found[0]


def source(run: Run) -> dict[str, Any]:
    part = run.document["source"]
    assert part is not None
    return part


# IOzone


def test_iozone_table_is_kib_per_second() -> None:
    run = one("iozone_auto.txt")
    assert len(run.cells) == 90  # 15 rows of 6 tests; the 7 columns without numbers make none
    assert cell(run, op="write", file_bytes=64 * KIB, record_bytes=4 * KIB)["throughput_bytes_per_s"] == 1049372 * KIB
    last = cell(run, op="random_write", file_bytes=256 * KIB, record_bytes=64 * KIB)
    assert last["throughput_bytes_per_s"] == 9868433 * KIB
    assert (last["durability"], last["direct"], last["workers"], last["pattern"]) == ("end", False, 1, "permutation")
    assert source(run)["tool_version"] == "3.489"
    assert run.document["started_at"] == "2026-11-22T05:51:02Z"
    assert "latency_ns.p99" in source(run)["unknown"]


def test_iozone_tables_of_r_and_spreadsheet_say_the_same_as_the_columns(tmp_path: Path) -> None:
    text = (SAMPLES / "iozone_auto.txt").read_text()
    tables = tmp_path / "tables.txt"
    tables.write_text(text[text.index("Excel output") :])
    rates = [
        {(c["op"], c["file_bytes"], c["record_bytes"]): c["throughput_bytes_per_s"] for c in run.cells}
        for run in (one("iozone_auto.txt"), *read_file(tables), one("iozone_auto.xls"))
    ]
    assert rates[0] == rates[1] == rates[2]
    assert read_file(tables)[0].cells[0]["durability"] is None  # no banner, so nothing tells


def test_iozone_extensions_and_processor_time() -> None:
    run = one("iozone_cpu_extensions.txt")
    assert {"pwrite", "repwrite", "pread", "repread"} <= set(run.ops())
    line = next(
        x for x in (SAMPLES / "iozone_cpu_extensions.txt").read_text().splitlines() if x[:24].split() == ["64", "4"]
    )
    first = cell(run, op="pread", file_bytes=64 * KIB, record_bytes=4 * KIB)
    assert first["throughput_bytes_per_s"] == int(line[161:169]) * KIB
    assert any(c["cpu_fraction"] for c in run.cells)


def test_iozone_other_units() -> None:
    ops = cell(one("iozone_ops.txt"), op="read")
    assert (ops["iops"], ops["throughput_bytes_per_s"]) == (457127, 457127 * 16 * KIB)
    usec = cell(one("iozone_usec.txt"), op="write")
    assert usec["latency_ns"]["mean"] == 7000
    assert usec["iops"] == pytest.approx(1e6 / 7)


def test_iozone_throughput_mode() -> None:
    run = one("iozone_throughput.txt")
    read = cell(run, op="reread")
    assert read["throughput_bytes_per_s"] == pytest.approx(3109854.62 * KIB)
    assert (read["workers"], read["file_bytes"], read["record_bytes"]) == (2, 512 * KIB, 16 * KIB)
    assert read["durability"] == "end"
    assert [worker["bytes"] for worker in read["workers_detail"]] == [512 * KIB] * 2
    assert {c["op"] for c in run.cells} >= {"mixed", "random_read", "random_write"}
    assert "rates_summed" in [found["kind"] for found in run.document["warnings"]]
    counts = [one(name) for name in ("iozone_counts.txt", "iozone_counts.xls")]
    both = [{(c["op"], c["workers"]): c["throughput_bytes_per_s"] for c in run.cells} for run in counts]
    assert (
        both[0].keys()
        == both[1].keys()
        == {(op, n) for op in ("write", "rewrite", "read", "reread") for n in (1, 2, 3)}
    )
    assert all(both[0][key] == pytest.approx(both[1][key]) for key in both[0])


def test_iozone_old_banner_has_narrower_columns_that_touch() -> None:
    run = one("baseline_1.iozone")
    text = (SAMPLES / "baseline_1.iozone").read_text()
    row = next(line for line in text.splitlines() if line[:24].split() == ["128", "4"])
    assert " " not in row[40:49].strip() and len(row[40:49].strip()) == 8
    found = cell(run, op="read", file_bytes=128 * KIB, record_bytes=4 * KIB)
    assert found["throughput_bytes_per_s"] == int(row[40:49]) * KIB
    assert cell(run, op="freread", file_bytes=64 * KIB, record_bytes=64 * KIB)["durability"] == "end"
    assert source(run)["tool_version"] == "3.327"


def test_indented_and_windows_text_reads_the_same(tmp_path: Path) -> None:
    text = (SAMPLES / "iozone_auto.txt").read_text()
    for name, changed in (
        ("indented.txt", "\n".join("    " + line for line in text.split("\n")).encode()),
        ("windows.txt", text.replace("\n", "\r\n").encode("utf-16")),
    ):
        (tmp_path / name).write_bytes(changed)
        found = read_file(tmp_path / name)[0].cells
        assert [c["throughput_bytes_per_s"] for c in found] == [
            c["throughput_bytes_per_s"] for c in one("iozone_auto.txt").cells
        ]


def test_repeats_of_one_test_become_blocks_and_have_a_verdict(tmp_path: Path) -> None:
    paths = [SAMPLES / f"baseline_{n}.iozone" for n in range(1, 6)]
    runs, _ = import_files(paths, Asked(repeats=True, labels={"name": "ext2"}))
    assert len(runs) == 1
    assert {c["block"] for c in runs[0].cells} == set(range(5))
    assert "spread" not in source(runs[0])["unknown"]
    faster = tmp_path / "set1"
    faster.mkdir()
    for path in paths:
        lines = path.read_text().splitlines()
        doubled = [
            line[:24] + f"{2 * int(line[24:32]):8d}" + line[32:] if line[:16].strip().isdigit() else line
            for line in lines
        ]
        (faster / path.name).write_text("\n".join(doubled))
    other = import_files([faster], Asked(repeats=True, labels={"name": "set1"}))[0][0]
    found = compare([runs[0].document], [other.document], ("ext2", "set1"))
    assert found.by_op["write"].verdict == "better"
    assert found.by_op["write"].ratio.value == pytest.approx(2, rel=0.01)
    assert found.by_op["read"].verdict == "equivalent"


# DiskSpd


def test_diskspd_text_and_xml_agree() -> None:
    text, xml = (read_file(DISKSPD / name)[0] for name in ("mix.txt", "mix.xml"))
    for run in (text, xml):
        found = run.cells[0]
        assert (found["op"], found["bytes"], found["ops"]) == ("mixed", 1048576000, 16000)
        assert found["throughput_bytes_per_s"] == 250 * MIB
        assert (found["record_bytes"], found["queue_depth"], found["workers"]) == (64 * KIB, 8, 4)
        assert (found["durability"], found["direct"], found["write_fraction"]) == ("each", True, 0.3)
        assert found["kinds"]["read"]["ops"] == 11200
        assert run.document["environment"]["client"]["host"] == "client.example"
        assert run.document["target"]["url"] == "f, g"
    assert text.cells[0]["latency_ns"] == xml.cells[0]["latency_ns"]
    assert text.cells[0]["latency_ns"]["mean"] == 5_043_000
    series = xml.series(0)
    assert len(series) == 8 and xml.cells[0]["interval_ns"] == 500_000_000
    reads = [
        int(value)
        for value in re.findall(r'<Bucket SampleMillisecond="\d+" Read="(\d+)"', (DISKSPD / "mix.xml").read_text())
    ]
    assert series["read_ops"].tolist() == [round(per_s / 2) for per_s in reads]
    assert series["read_bytes"].tolist() == [round(per_s / 2) * 64 * KIB for per_s in reads]


def test_diskspd_of_2018() -> None:
    found = read_file(DISKSPD / "read_2_0_21.txt")[0].cells[0]
    assert (found["op"], found["record_bytes"], found["queue_depth"]) == ("random_read", MIB, 32)
    assert found["throughput_bytes_per_s"] == 1000 * MIB


# fio


def test_fio_bandwidth_is_bytes_per_second() -> None:
    run = one("fio_jobs.json")
    jobs = json.loads((SAMPLES / "fio_jobs.json").read_text())["jobs"]
    write = cell(run, op="write")
    assert write["throughput_bytes_per_s"] == jobs[0]["write"]["bw_bytes"] == jobs[0]["write"]["bw"] * KIB
    assert (write["file_bytes"], write["record_bytes"], write["durability"]) == (MIB, 16 * KIB, "end")
    assert write["latency_ns"]["mean"] == round(jobs[0]["write"]["lat_ns"]["mean"])
    assert write["latency_ns"]["p50"] == jobs[0]["write"]["clat_ns"]["percentile"]["50.000000"]
    mixed = cell(run, op="mixed")
    assert mixed["workers"] == 2
    sides = [job[kind] for job in jobs[1:] for kind in ("read", "write")]
    longest_s = max(side["runtime"] for side in sides) / 1e3  # each clone's own rate is by its own time
    assert mixed["throughput_bytes_per_s"] == pytest.approx(sum(side["io_bytes"] for side in sides) / longest_s)
    assert mixed["iops"] == pytest.approx(sum(side["total_ios"] for side in sides) / longest_s)
    assert mixed["throughput_bytes_per_s"] < sum(side["bw_bytes"] for side in sides)
    assert mixed["ops"] == sum(job[k]["total_ios"] for job in jobs[1:] for k in ("read", "write"))
    assert mixed["latency_ns"]["p99"] is None  # percentiles of several cannot be joined without their bins


def test_fio_bins_are_the_histogram() -> None:
    run = one("fio_plus.json")
    assert source(run)["format"] == "fio-json+"
    found = decode(run.blob(0, "latency:read"))
    assert found.total == run.cells[0]["ops"] == 512
    assert math.isclose(float(found.quantiles([0.5])[0]), run.cells[0]["latency_ns"]["p50"], rel_tol=0.02)


def test_fio_json_after_normal_output() -> None:
    assert cell(one("fio_normal_json.txt"), op="write")["record_bytes"] == 64 * KIB


def test_fio_of_old_versions_counts_in_kilobytes_and_microseconds(tmp_path: Path) -> None:
    side = {
        "io_bytes": 1024, "bw": 2000, "iops": 125.0, "runtime": 500, "total_ios": 64,
        "lat": {"min": 10, "max": 90, "mean": 40.0, "stddev": 1.0}, "clat": {"percentile": {"99.000000": 80}},
    }  # fmt: skip
    job = {"jobname": "a", "groupid": 0, "job options": {"rw": "read", "bs": "16k"}, "read": side, "write": {}}
    (tmp_path / "old.json").write_text(json.dumps({"fio version": "fio-2.16", "jobs": [job]}))
    found = read_file(tmp_path / "old.json")[0].cells[0]
    assert found["throughput_bytes_per_s"] == 2000 * KIB
    assert (found["latency_ns"]["mean"], found["latency_ns"]["p99"], found["bytes"]) == (40_000, 80_000, None)


def test_fio_sizes_follow_its_own_rules() -> None:
    assert (size_bytes("4k"), size_bytes("4ki"), size_bytes("4k", "1000"), size_bytes("4ki", "1000")) == (
        4096, 4000, 4000, 4096,
    )  # fmt: skip
    assert (size_bytes("1g"), size_bytes("20%"), size_bytes("4k-16k"), size_bytes("")) == (1 << 30, None, None, None)


def test_fio_logs_of_one_job_are_one_run() -> None:
    runs, _ = import_files(sorted(SAMPLES.glob("fiolg_*.log")), Asked())
    assert len(runs) == 1
    read = cell(runs[0], op="read")
    rows = [line.split(", ") for line in (SAMPLES / "fiolg_bw.1.log").read_text().splitlines()]
    kib = [(int(r[0]), int(r[1])) for r in rows if r[2] == "0"]
    mean = (kib[0][0] * kib[0][1] + (kib[1][0] - kib[0][0]) * kib[1][1]) / kib[1][0]
    assert read["throughput_bytes_per_s"] == pytest.approx(mean * KIB)
    assert read["latency_ns"]["mean"] > 0 and read["latency_ns"]["p99"] is None
    assert len(runs[0].series(read)) == 2
    whole = import_files([SAMPLES / "fioraw_lat.1.log"], Asked())[0][0].cells[0]
    values = sorted(int(line.split(", ")[1]) for line in (SAMPLES / "fioraw_lat.1.log").read_text().splitlines())
    assert (whole["latency_ns"]["min"], whole["latency_ns"]["max"]) == (values[0], values[-1])


# the others


def test_crystaldiskmark_is_decimal_megabytes() -> None:
    run = one("crystaldiskmark_8.txt")
    found = cell(run, op="read", queue_depth=8)
    assert found["throughput_bytes_per_s"] == pytest.approx(117.441e6)
    assert (found["record_bytes"], found["file_bytes"], found["iops"]) == (MIB, 1 << 30, 112)
    assert found["latency_ns"]["mean"] == 71_221_050
    assert cell(run, op="random_write")["workers"] == 16
    assert cell(run, op="mixed")["write_fraction"] == pytest.approx(0.3)
    six = one("crystaldiskmark_6.txt")
    assert cell(six, op="write")["record_bytes"] is None  # not told there
    assert cell(six, op="random_read")["workers"] == 8
    three = one("crystaldiskmark_3.txt")
    assert cell(three, op="random_read", record_bytes=4 * KIB)["queue_depth"] == 32
    assert cell(three, op="read")["throughput_bytes_per_s"] == pytest.approx(46.5e6)


def test_elbencho_last_done() -> None:
    run = one("elbencho.csv")
    write = cell(run, op="write")
    assert write["throughput_bytes_per_s"] == 2941 * MIB
    assert (write["workers"], write["queue_depth"], write["file_bytes"], write["direct"]) == (16, 4, 1 << 28, True)
    assert write["latency_ns"]["mean"] == 9_383_000
    small = cell(run, op="random_read")
    assert small["throughput_bytes_per_s"] == 1001 * 4096  # its 3 MiB/s has lost the decimals
    assert [c["block"] for c in run.cells if c["op"] == "read"] == [0, 1]
    folders = cell(run, op="mkdir")
    assert (folders["iops"], folders["ops"], folders["throughput_bytes_per_s"]) == (1466, 8, 0)
    assert source(run)["tool_version"] == "3.0-26"
    assert run.document["started_at"] == "2026-05-22T14:09:38Z"
    assert [found["message"] for found in run.document["warnings"]] == [
        "phases without a counterpart here: 1 of LISTOBJ"
    ]


def test_naspt_has_its_twelve_tests() -> None:
    run = one("NASPerf-APP.csv", target="a NAS")
    assert len(run.cells) == 12
    assert cell(run, workload="HDVideo_1Play")["throughput_bytes_per_s"] == pytest.approx(63.614e6)
    assert run.document["target"]["url"] == "a NAS"
    assert "whether MB is 10^6 bytes" in source(run)["unknown"]
    assert not run.document["warnings"]


# round trips and refusals


def front_end(folder: Path, arguments: str, *more: str) -> tuple[str, Run]:
    """(output, run) of one of naslab's front ends."""
    store = folder / "store.db"
    command = [sys.executable, "-m", "naslab", *arguments.split(), *more]
    environment = {**os.environ, "NASLAB_STORE": str(store)}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=True, timeout=HANG_S
    )
    return done.stdout, Store(store).load("last")


def imported(folder: Path, text: str) -> Run:
    (folder / "output").write_text(text)
    return read_file(folder / "output")[0]


def test_own_iozone_front_end_comes_back_as_measured(tmp_path: Path) -> None:
    text, own = front_end(tmp_path, "iozone -a -n 64k -g 128k -y 16k -q 64k -i 0 -i 1 -i 2 -f t -b s.xls")
    again = imported(tmp_path, text)
    assert len(again.cells) == len(own.cells) == 36
    for mine, theirs in zip(own.cells, again.cells, strict=True):
        same = ("op", "file_bytes", "record_bytes", "workers", "queue_depth", "durability", "pattern", "access")
        assert [mine[name] for name in same] == [theirs[name] for name in same]
        assert 0 <= mine["throughput_bytes_per_s"] - theirs["throughput_bytes_per_s"] < KIB  # truncated to whole KiB
    assert len(compare([own.document], [again.document], ("own", "again")).rows) == 36
    rates = {(c["op"], c["file_bytes"], c["record_bytes"]): c["throughput_bytes_per_s"] for c in again.cells}
    sheet = read_file(tmp_path / "s.xls")[0]  # BIFF8, which xlrd reads
    assert source(sheet)["format"] == "iozone-biff8"
    assert rates == {(c["op"], c["file_bytes"], c["record_bytes"]): c["throughput_bytes_per_s"] for c in sheet.cells}
    text, own = front_end(tmp_path, "iozone -t 2 -s 128k -r 16k -i 0 -i 1 -F a b")
    again = imported(tmp_path, text)
    assert str(source(again)["tool_version"]).startswith("naslab")
    mine, theirs = ([c["throughput_bytes_per_s"] for c in run.cells] for run in (own, again))
    assert mine == pytest.approx(theirs, rel=1e-5)


def test_own_diskspd_front_end_comes_back_as_measured(tmp_path: Path) -> None:
    target = "sim:?link_bytes_per_s=125MB&latency_ns=200us"
    text, own = front_end(tmp_path, "diskspd -c4M -b64K -r -w30 -d1 -W0 -t2 -o4 -L", target)
    again = imported(tmp_path, text).cells[0]
    mine = own.cells[-1]
    for name in ("op", "bytes", "ops", "record_bytes", "file_bytes", "workers", "queue_depth", "write_fraction"):
        assert again[name] == mine[name], name
    assert again["throughput_bytes_per_s"] == pytest.approx(mine["throughput_bytes_per_s"], rel=1e-4)
    for name in ("min", "mean", "p50", "p99", "max"):
        assert again["latency_ns"][name] == pytest.approx(mine["latency_ns"][name], abs=1000)


@pytest.mark.parametrize("name", ["iozone_auto.xls", "fio_plus.json", "elbencho.csv", "NASPerf-APP.csv"])
def test_export_and_import_again_is_the_same(name: str, tmp_path: Path) -> None:
    run = one(name, labels={"name": "x"}, note="why")
    (again,) = read_file(export(run, tmp_path / "run.json"))
    assert again.document == run.document
    assert [again.blob_names(c) for c in again.cells] == [run.blob_names(c) for c in run.cells]
    assert all(again.blob(c, n) == run.blob(c, n) for c in run.cells for n in run.blob_names(c))


@pytest.mark.parametrize(
    ("data", "looks_like"),
    [
        (b"\xd4\xc3\xb2\xa1" + bytes(40), "a pcap"), (b"PK\x03\x04" + bytes(40), "a zip file, a damaged .xlsx"),
        (b"<!DOCTYPE html><html></html>", "a web page"), (b'{"a": 1}', "JSON, but not from a known benchmark"),
        (b"\x7fELF" + bytes(40), "a program"), (b"hello\n", "other text"), (bytes(100), "binary data"),
        (b"[global]\nrw=read\n", "a job file"), (b"a,b,c,d,e\n1,2,3,4,5\n", "a table"),
    ],
)  # fmt: skip
def test_other_files_are_named(data: bytes, looks_like: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(data)
    with pytest.raises(ForeignFileError, match=f"this looks like {looks_like}.*known formats: .*fio JSON"):
        read_file(tmp_path / "file")


def test_fio_in_words_says_how_to_get_json() -> None:
    with pytest.raises(ForeignFileError, match="--output-format=json"):
        read_file(SAMPLES / "fio_normal.txt")


def test_repeats_are_of_one_tool(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="iozone, fio"):
        import_files([SAMPLES / "iozone_auto.txt", SAMPLES / "fio_jobs.json"], Asked(repeats=True))
    with pytest.raises(ForeignFileError, match="contains no benchmark's output"):
        import_files([tmp_path], Asked())


# the command


def naslab(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "naslab", *arguments]
    environment = {**os.environ, "NASLAB_STORE": str(folder / "store.db")}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=HANG_S)


def test_command_stores_and_lists(tmp_path: Path) -> None:
    done = naslab(
        tmp_path, "import", str(SAMPLES / "elbencho.csv"), str(SAMPLES / "NASPerf-APP.csv"), "--json",
        "--target-name", "NAS-4220", "--label", "name=old review",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["schema"] == 1
    assert [run["source"]["tool"] for run in found["runs"]] == ["elbencho", "naspt"]
    assert {(run["label"], run["target"]["url"]) for run in found["runs"]} == {("old review", "NAS-4220")}
    stored = Store(tmp_path / "store.db")
    assert {run.run_id for run in stored.list_runs()} == {run["run_id"] for run in found["runs"]}
    again = export(stored.load(found["runs"][0]["run_id"]), tmp_path / "again.json")
    assert "Stored already" in naslab(tmp_path, "import", str(again)).stdout


def test_command_stores_nothing_when_one_file_is_another_thing(tmp_path: Path) -> None:
    (tmp_path / "x.pcap").write_bytes(b"\xd4\xc3\xb2\xa1" + bytes(60))
    done = naslab(tmp_path, "import", str(SAMPLES / "elbencho.csv"), str(tmp_path / "x.pcap"))
    assert done.returncode == 2
    assert "x.pcap: this looks like a pcap (packet capture), not a benchmark's output; known formats: " in done.stderr
    assert done.stderr.count("\n") == 1 and not done.stdout
    assert not (tmp_path / "store.db").exists()


def test_a_large_log_of_fio_is_read_as_its_lines_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Large ones are read as a whole: the same numbers, and the same answer for lines that are not of a log."""
    from naslab.exchange.importers import fio_log

    text = "".join(f"{at // 40}, {1000 + at * 7919 % 5000}, {at % 2}, 4096, {at * 4096}\n" for at in range(2000))
    variants = {
        "whole": text, "four": re.sub(r", \d+\n", "\n", text), "offsets": text.replace("1, ", "1, ", 1),
        "seven": text.replace("\n", ", 0, 1\n"), "hex": text.replace(" 4096, 0\n", " 4096, 0x0\n"),
        "cut": text[:-3], "uneven": text.replace("4096, 4096\n", "4096\n", 1),
        "huge": text.replace("1000", "9" * 19, 1),
        "odd": text.replace("\n", "\nx\n", 2), "two in a line": text.replace(" 4096, 0\n", " 4096, 0, 1, 2, 3\n", 1),
    }  # fmt: skip
    for name, data in variants.items():
        path = tmp_path / f"{name}_lat.1.log"
        path.write_text(data)
        found = []
        for large in (1 << 40, 1):
            monkeypatch.setattr(fio_log, "LARGE", large)
            try:
                run = read_file(path)[0]
                found.append((run.cells, [run.blob(c, n) for c in run.cells for n in run.blob_names(c)]))
            except ForeignFileError as error:
                found.append((str(error), []))
        assert found[0] == found[1], name


def test_own_applications_csv_comes_back_as_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NASLAB_STORE", str(tmp_path / "store.sqlite"))
    target = "sim:?link_bytes_per_s=125MB&latency_ns=200us"
    assert main(["apps", target, "--scale", "0.002", "--quiet", "--csv", "NASPerf-APP.csv"]) == 0
    own = Store(tmp_path / "store.sqlite").load("last")
    (again,) = read_file(tmp_path / "NASPerf-APP.csv")
    assert len(again.cells) == 12 and again.document["warnings"] == []
    assert source(again)["tool_version"] == "naslab apps"
    assert "whether MB is 10^6 bytes" not in source(again)["unknown"]
    for cell in again.cells:
        measured = [c["throughput_bytes_per_s"] for c in own.cells if c["workload"] == cell["workload"]]
        assert cell["throughput_bytes_per_s"] == pytest.approx(measured[0], abs=501), "three decimals of MB/s"
