"""fio's JSON: the fields of fio as installed here, the numbers of the run, and fio's own tool reads it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cli_tools import HANG_S
from fixtures_run import make_run
from naslab.errors import UsageError
from naslab.exchange.export import export
from naslab.results import Run
from naslab.results.foreign import foreign_cell, foreign_document

NOT_MEASURED = {
    "ctx", "majf", "minf", "iodepth_level", "iodepth_submit", "iodepth_complete",
    "latency_depth", "latency_target", "latency_percentile", "latency_window",
}  # fmt: skip
"""Fields of a fio job that say what naslab does not measure, or settings it does not have: left out, not zero."""


def small(**more: Any) -> Run:
    options = {"ops": ("write", "read", "mixed"), "file_sizes": (16 << 20,), "record_sizes": (4096,), "blocks": 1}
    return make_run(**{**options, **more})


def exported(run: Run | list[Run], folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(export(run, folder / "x.fio.json", force=True).read_text())
    return found


def test_numbers_are_the_cells(tmp_path: Path) -> None:
    made = small(interval_ns=10**9)
    jobs = exported(made, tmp_path)["jobs"]
    assert [job["naslab"]["cell"] for job in jobs] == [cell["id"] for cell in made.cells]
    for job, cell in zip(jobs, made.cells, strict=True):
        for kind in ("read", "write"):
            part, mine = cell["kinds"].get(kind), job[kind]
            if part is None:
                assert (mine["total_ios"], mine["bw_bytes"], mine["clat_ns"]["N"]) == (0, 0, 0)
                continue
            assert (mine["io_bytes"], mine["total_ios"]) == (part["bytes"], part["ops"])
            assert mine["bw_bytes"] == round(part["bytes"] * 1e9 / cell["duration_ns"])
            assert mine["bw"] == mine["bw_bytes"] // 1024
            assert mine["runtime"] == job["job_runtime"] == round(cell["duration_ns"] / 1e6)
            histogram = made.histogram_of(cell, f"latency:{kind}")
            clat = mine["clat_ns"]
            assert (clat["min"], clat["max"], clat["mean"]) == tuple(
                part["latency_ns"][n] for n in ("min", "max", "mean")
            )
            assert sum(clat["bins"].values()) == clat["N"] == histogram.total
            assert clat["percentile"]["99.000000"] == histogram.quantiles([0.99])[0]
            spread = np.repeat((histogram.lower_ns + histogram.values_ns) / 2, histogram.counts).std()
            assert clat["stddev"] == pytest.approx(spread)
        assert job["sync"]["total_ios"] == cell["kinds"].get("flush", {"ops": 0})["ops"]
        assert job["usr_cpu"] == pytest.approx(100 * cell["cpu_user_ns"] / cell["window_ns"])
        shares = [share for name in ("latency_ns", "latency_us", "latency_ms") for share in job[name].values()]
        assert sum(shares) == pytest.approx(100)


def test_settings_in_fios_words(tmp_path: Path) -> None:
    options = [job["job options"] for job in exported(small(), tmp_path)["jobs"]]
    assert [one["rw"] for one in options] == ["write", "read", "randrw"]
    assert {(one["bs"], one["size"], one["iodepth"], one["numjobs"]) for one in options} == {
        ("4096", str(16 << 20), "1", "1")
    }
    assert options[2]["rwmixwrite"] == "50" and "end_fsync" in options[0] and "end_fsync" not in options[1]
    assert all(isinstance(value, str) for one in options for value in one.values())


def test_samples_of_rate_are_whole_intervals(tmp_path: Path) -> None:
    made = small(ops=("read",), file_sizes=(256 << 20,))
    (job,) = exported(made, tmp_path)["jobs"]
    series = made.series(0)
    whole = series[: int(made.cells[0]["window_ns"] // 10**9)]
    assert 5 < len(whole) == job["read"]["bw_samples"] < len(series)
    assert job["read"]["iops_mean"] == pytest.approx(whole["read_ops"].mean())
    assert job["read"]["bw_dev"] == pytest.approx(whole["read_bytes"].std(ddof=1) / 1024)


def test_an_open_loop_has_both_latencies(tmp_path: Path) -> None:
    made = small(ops=("read",), pace_per_s=100.0)
    (job,) = exported(made, tmp_path)["jobs"]
    kind = made.cells[0]["kinds"]["read"]
    assert job["read"]["clat_ns"]["mean"] == kind["latency_ns"]["mean"]
    assert job["read"]["lat_ns"]["mean"] == kind["response_ns"]["mean"] > kind["latency_ns"]["mean"]
    assert job["job options"]["rate_iops"] == "100"


def test_what_is_not_told_is_left_out(tmp_path: Path) -> None:
    cells = [foreign_cell(0, "read", 60e6), foreign_cell(1, "random_write", 50e6, record_bytes=4096)]
    source = {"kind": "imported", "tool": "iozone", "format": "iozone-text"}
    jobs = exported(Run(foreign_document("20130101-000000-aaaa", source, cells)), tmp_path)["jobs"]
    assert jobs[0]["read"] == {"bw_bytes": 60_000_000, "bw": 58593}
    assert jobs[1]["job options"]["rw"] == "randwrite"
    assert jobs[1]["write"]["iops"] == pytest.approx(50e6 / 4096)
    assert not {"usr_cpu", "job_runtime", "latency_ns"} & set(jobs[0])


def test_metadata_has_no_place_and_that_is_said(tmp_path: Path) -> None:
    made = small(ops=("read", "write"))
    made.cells[0].update(op="create", kinds={"create": made.cells[0]["kinds"]["read"]}, bytes=0)
    told: list[str] = []
    export(made, tmp_path / "x.fio.json", say=told.append)
    assert told == ["1 of 2 cells are left out: fio's JSON has no place for cells without reads and writes"]
    made.document["cells"] = made.document["cells"][:1]
    with pytest.raises(UsageError, match=r"write \.csv"):
        export(made, tmp_path / "y.fio.json")


def test_pandas_reads_the_usual_fields(tmp_path: Path) -> None:
    import pandas

    frame = pandas.json_normalize(exported([small(), small(run_id="b")], tmp_path)["jobs"])
    assert frame["read.clat_ns.percentile.99.000000"].notna().sum() == 4
    assert frame["job options.bs"].unique().tolist() == ["4096"]


def _program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        message = f"{name} is not installed"
        pytest.fail(message) if os.environ.get("NASLAB_LAB_REQUIRED") == "1" else pytest.skip(message)
    return found


def _fields(value: Any, path: str = "") -> dict[str, str]:
    """Dotted names of all fields and the kind of each; of maps by number (bins, percentiles) one name."""
    if not isinstance(value, dict):
        return {path: "text" if isinstance(value, str) else "number"}
    found: dict[str, str] = {}
    for name, item in value.items():
        counted = path.endswith(("bins", "percentile"))
        found |= _fields(item, f"{path}.{'*' if counted else name}".lstrip("."))
    return found


@pytest.mark.lab
def test_the_fields_are_those_of_fio(tmp_path: Path) -> None:
    words = ("--name=a", "--rw=randrw", "--bs=4k", "--size=1m", "--ioengine=null", "--end_fsync=1")
    form = ("--output-format=json+", f"--output={tmp_path / 'fio.json'}")
    subprocess.run([_program("fio"), *words, *form], check=True, capture_output=True, timeout=HANG_S, cwd=tmp_path)
    theirs = json.loads((tmp_path / "fio.json").read_text())
    ours = exported(small(ops=("mixed",), interval_ns=10**8), tmp_path)
    assert set(theirs) - set(ours) == set()
    expected = {
        k: v for k, v in _fields(theirs["jobs"][0]).items() if k.split(".")[0] not in {*NOT_MEASURED, "job options"}
    }
    found = {k: v for k, v in _fields(ours["jobs"][0]).items() if k.split(".")[0] not in {"naslab", "job options"}}
    assert len(expected) > 100
    assert found == expected


@pytest.mark.lab
def test_fios_own_tool_reads_it(tmp_path: Path) -> None:
    program = _program("fio_jsonplus_clat2csv")
    made = small()
    exported(made, tmp_path)
    # The distribution's Python, which has what the tool imports, whatever is active here.
    own = {"cwd": tmp_path, "env": {**os.environ, "PATH": os.defpath, "PYTHONPATH": ""}, "timeout": 60}
    subprocess.run([program, "x.fio.json", "clat.csv"], check=True, capture_output=True, **own)
    checked = subprocess.run(
        [program, "x.fio.json", "clat.csv", "--validate"], check=True, capture_output=True, text=True, **own
    )
    assert checked.stdout.count("validated") == len(made.cells)
    last = (tmp_path / "clat_job1.csv").read_text().splitlines()[-1].split(",")
    assert int(last[5]) == made.cells[1]["ops"], "the cumulative count of reads"
