"""The measuring commands on the simulator, the null target and folders."""

from __future__ import annotations

import json
import os
import zlib
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import naslab
import shares
from cli_tools import SIM, Cli, populate, snapshot
from naslab.results.schema import json_schema

LOCAL_OPS = ["write", "rewrite", "read", "reread", "random_read", "random_write"]
SMALL = ("--file-size", "64k", "--record", "4k,64k")


def valid(document: Any) -> Any:
    """The document, if it is one."""
    jsonschema.Draft202012Validator(json_schema(strict=True)).validate(document)
    return document


@pytest.mark.parametrize("target", [SIM, "null:", "folder"])
def test_sweep(target: str, cli: Cli) -> None:
    where = str(cli.target) if target == "folder" else target
    before = populate(cli.target)
    done = cli("sweep", where, *SMALL, "--json").ok()
    document = valid(done.json())
    assert done.out.count("\n") == 1 and done.err == ""
    assert document["status"] == "complete" and document["command"] == "sweep" and document["summary"]
    assert [(c["op"], c["record_bytes"]) for c in document["cells"]] == [
        (op, record) for record in (4096, 65536) for op in LOCAL_OPS
    ]
    assert all(c["bytes"] == 65536 and c["errors"] == 0 and c["status"] == "complete" for c in document["cells"])
    assert snapshot(cli.target) == before
    assert cli("show", "last", "--json").ok().json() == document


@pytest.mark.lab
def test_run_fits_a_slow_server(cli: Cli) -> None:
    """8 MB/s: two minutes at most, on the server's clock; sizes and words that mean something."""
    document = valid(cli("run", "sim:?link_bytes_per_s=8MB&latency_ns=200us", "--budget", "2m", "--json").ok().json())
    spent = sum(c["end_ns"] - c["start_ns"] + (c["flush_ns"] or 0) for c in document["cells"])
    assert document["status"] == "complete" and 5e9 < spent < 120e9
    assert {c["workload"] for c in document["cells"]} == {"ladder", "probe", None, "sustained"}
    assert len({c["id"] for c in document["cells"]}) == len(document["cells"])
    summary = " ".join(document["summary"])
    assert (
        "written at 7.99 MB/s, 7.99 MB/s including the flush" in summary
        and "Random read of 4 KiB at queue depth 1: 1,403 IOPS" in summary
    )


def test_without_a_sweep_the_run_ends_with_the_verdict(cli: Cli) -> None:
    """A disk of 60 MB/s behind 256 MiB: the set grows until it shows, and no byte of it is read twice for that."""
    server = "link_bytes_per_s=125MB&server_cache_bytes=256m&disk_read_bytes_per_s=60MB&disk_write_bytes_per_s=90MB"
    document = valid(cli("run", f"sim:?latency_ns=200us&{server}", "--no-sweep", "--json").ok().json())
    assert {c["workload"] for c in document["cells"]} == {"ladder"} and document["ladder"]["stopped"] != "budget"
    first = next(x for x in document["verdict"]["limits"] if x["applies_to"] == {"op": "read", "size": "large"})
    assert first["kind"] == "disk" and first["value"] == pytest.approx(60e6, rel=0.05)
    steps = {step["name"]: step["points"] for step in document["ladder"]["steps"]}
    moved = {cell["id"]: cell["bytes"] for cell in document["cells"]}
    looks = [p for p in steps["set"] if p["op"] == "read"]
    largest = max(p["set_bytes"] for p in looks)
    assert 256 << 20 < largest <= 1 << 30 and sum(moved[p["cell"]] for p in looks) <= largest
    written = sum(moved[p["cell"]] for p in steps["set"] if p["op"] == "write")
    assert written == largest


@pytest.mark.lab
def test_a_reader_and_a_writer_go_on_as_long_as_each_other(cli: Cli) -> None:
    """Writes that are only promised are few on slow disks: the reader beside them must not be cut to as many."""
    server = "link_bytes_per_s=125MB&server_cache_bytes=16g&disk_read_bytes_per_s=60MB&disk_write_bytes_per_s=40MB"
    document = cli("run", f"sim:?latency_ns=500us&{server}", "--budget", "2m", "--json").ok().json()
    mixed = [cell for cell in document["cells"] if cell["op"] == "mixed"]
    assert mixed
    for cell in mixed:
        ends = [worker["end_ns"] - cell["start_ns"] for worker in cell["workers_detail"]]
        assert (
            min(ends) > 0.75 * max(ends) and cell["workers_detail"][0]["bytes"] > 2 * cell["workers_detail"][1]["bytes"]
        )
    reads = [each for each in document["verdict"]["limits"] if each["applies_to"] == {"op": "read", "size": "large"}]
    # Memory held every set there was time for: the verdict is the link's, and tells how far it reaches.
    assert reads[0]["kind"] == "link" and "server_cache" not in {each["kind"] for each in reads}
    assert any(text.startswith("No working set above ") for text in document["summary"])


@pytest.mark.lab
def test_the_set_outgrows_the_memory_in_the_time_there_is(cli: Cli) -> None:
    """400 MiB of memory before a disk of 200 requests a second, of which small cached reads show nothing."""
    server = "link_bytes_per_s=60MB&latency_ns=500us&server_cache_bytes=400m&disk_iops=200"
    disks = "disk_read_bytes_per_s=500MB&disk_write_bytes_per_s=500MB"
    document = cli("run", f"sim:?{server}&{disks}", "--budget", "2m", "--no-sweep", "--json").ok().json()
    set_bytes = max(cell["file_bytes"] for cell in document["cells"] if cell["workload"] == "ladder")
    assert 400 << 20 < set_bytes <= 2 << 30 and set_bytes % (1 << 20) == 0
    assert document["ladder"]["spent_ns"] < 120e9
    small = [each for each in document["verdict"]["limits"] if each["applies_to"] == {"op": "read", "size": "small"}]
    assert [each["kind"] for each in small] == ["disk_iops"] and small[0]["confidence"] >= 0.85


@pytest.mark.parametrize(
    "server",
    shares.first(
        2,
        [
            "link_bytes_per_s=50kB&latency_ns=200ms",
            "link_bytes_per_s=1GB&capacity_bytes=300k",
            "disk_write_bytes_per_s=1MB&write_back_bytes=1g&server_cache_bytes=1g&link_bytes_per_s=100MB",
            "latency_ns=10us&disk_iops=60",
        ],
        pytest.mark.lab,
    ),
)
def test_run_fits_two_minutes_anywhere(server: str, cli: Cli) -> None:
    document = cli("run", f"sim:?{server}", "--budget", "2m", "--json").ok().json()
    spent = sum(c["end_ns"] - c["start_ns"] + (c["flush_ns"] or 0) for c in document["cells"])
    assert document["status"] == "complete" and spent < 120e9


@pytest.mark.lab
def test_run_keeps_to_its_limits(cli: Cli) -> None:
    document = cli("run", SIM, "--max-bytes", "16m", "--json").ok().json()
    assert 1 << 20 < sum(c["bytes"] + c["warmup_bytes"] for c in document["cells"]) <= 16 << 20
    short = cli("run", SIM, "--budget", "20s", "--repeat", "2", "--json").ok().json()
    assert sum(c["end_ns"] - c["start_ns"] for c in short["cells"]) < 40e9
    assert {c["block"] for c in short["cells"]} == {0, 1}


def test_run_options_reach_the_cells(cli: Cli) -> None:
    words = ("--workers", 2, "--durability", "each", "--verify", "--budget", "2s", "--max-bytes", "64m")
    document = valid(cli("run", cli.target, *words, "--json").ok().json())
    others = [c for c in document["cells"] if c["workload"] != "ladder"]  # which varies them itself
    assert others and all(c["workers"] == 2 and c["durability"] == "each" for c in others)
    assert all(c["sync"] == "all" for c in document["cells"] if "write" in c["op"])
    assert all(c["verified"]["blocks"] and not c["verified"]["bad"] for c in document["cells"] if "read" in c["op"])
    assert list(cli.target.iterdir()) == []


def test_run_on_a_folder_as_people_see_it(cli: Cli) -> None:
    before = populate(cli.target)
    done = cli("run", cli.target, "--budget", "3s", "-o", "page.html", "--label", "ram=1g", "--note", "new disk")
    done.ok()
    assert "Report: " in done.out and "Trust: " in done.out and len(done.out.splitlines()) <= 10
    assert (cli.folder / "page.html").read_text().lstrip().lower().startswith("<!doctype html")
    stored = cli.runs()[0]
    assert stored["labels"] == {"ram": "1g"} and stored["note"] == "new disk" and stored["command"] == "run"
    assert stored["argv"][0] == "run" and snapshot(cli.target) == before


def test_same_seed_same_result(cli: Cli) -> None:
    def essence(seed: int) -> list[Any]:
        target = f"{SIM}&jitter=0.3&disk_seek_ns=2ms"
        kept = ("id", "op", "start_ns", "end_ns", "window_ns", "duration_ns", "ops", "bytes", "latency_ns", "flush_ns")
        cells = cli.sweep(target, "--repeat", 2, "--seed", seed)["cells"]
        return [[cell[name] for name in (*kept, "file_bytes", "record_bytes")] for cell in cells]

    assert essence(7) == essence(7) != essence(8)


def test_repeat_makes_blocks_in_random_order(cli: Cli) -> None:
    words = ("--file-size", "64k..256k", "--record", "4k,64k", "--tests", "write,read", "--repeat", 3, "--json")
    cells = cli("sweep", SIM, *words).ok().json()["cells"]
    orders = []
    for block in range(3):
        rows = [(c["file_bytes"], c["record_bytes"]) for c in cells if c["block"] == block]
        assert rows[::2] == rows[1::2], "a row's tests stay together"
        orders.append(rows[::2])
    assert sorted(orders[0]) == sorted(orders[1]) == sorted(orders[2]) and len(set(map(tuple, orders))) > 1
    assert [c["block"] for c in cells] == sorted(c["block"] for c in cells)
    assert "median of 3" in cli("show").ok().out


def test_workers_and_depth(cli: Cli) -> None:
    for words in (("--workers", 2), ("--depth", 8)):
        document = cli.sweep(f"{cli.target}?engine=uring" if "--depth" in words else cli.target, *words)
        assert all(c["status"] == "complete" for c in document["cells"])
        assert {(c["workers"], c["queue_depth"]) for c in document["cells"]} == {(2, 1) if 2 in words else (1, 8)}
        assert all(c["bytes"] == c["file_bytes"] * c["workers"] for c in document["cells"])
    one = cli.sweep(SIM, "--tests", "random_read")["cells"][1]
    deep = cli.sweep(SIM, "--tests", "random_read", "--depth", 16)["cells"][1]
    assert deep["record_bytes"] == 4096 and deep["iops"] > 5 * one["iops"]


def test_durability(cli: Cli) -> None:
    found = {}
    for durability in ("none", "end", "each"):
        cells = cli.sweep(cli.target, "--tests", "write", "--durability", durability)["cells"]
        found[durability] = cells[0]
        assert cells[0]["durability"] == durability
    assert found["none"]["flush_ns"] is None and found["none"]["durable_bytes_per_s"] is None
    assert found["end"]["flush_ns"] > 0 and found["end"]["sync"] == "none"
    assert found["each"]["sync"] == "all" and found["each"]["durable_bytes_per_s"] > 0


def test_direct_is_proven_or_refused(cli: Cli) -> None:
    done = cli("sweep", cli.target, *SMALL, "--direct", "--json").sound()
    if done.code == 2:
        assert "--direct" in done.err
        pytest.skip("this file system has no direct I/O")
    cells = done.json()["cells"]
    assert all(c["direct"] and c["direct_proof"]["o_direct"] and c["cache_state"] == "cold" for c in cells)
    by_name = cli("sweep", f"{cli.target}?direct=1", *SMALL, "--json").ok().json()
    assert all(c["direct"] for c in by_name["cells"]) and by_name["target"]["url"].endswith("?direct=1")


def test_cold_reads_are_labelled(cli: Cli) -> None:
    cells = cli.sweep(cli.target, "--cold")["cells"]
    assert {(c["op"], c["cache_state"]) for c in cells} == {
        (op, "cold" if "read" in op else "warm") for op in LOCAL_OPS
    }


def test_data(cli: Cli) -> None:
    honest = cli.sweep(cli.target, "--tests", "write")["cells"][0]["data_measured"]
    assert honest["compress_ratio_zlib"] < 1.02 and honest["dedupe_ratio"] < 1.01
    words = ("--tests", "write", "--compress", 3, "--dedupe", 2)
    mixed = cli.sweep(cli.target, *words)["cells"][0]["data_measured"]
    assert 2.4 < mixed["compress_ratio_zlib"] < 8 and 1.7 < mixed["dedupe_ratio"] < 2.3


def test_verify(cli: Cli) -> None:
    cells = cli.sweep(cli.target, "--verify", "--repeat", 2)["cells"]
    checked = [c for c in cells if c["verified"]]
    assert {c["op"] for c in checked} == {"read", "reread", "random_read"}
    assert all(c["verified"]["bad"] == 0 and c["verified"]["blocks"] > 0 for c in checked)


def test_verify_finds_corruption(cli: Cli) -> None:
    faults = json.dumps([{"op": "read", "kind": "corrupt", "at_op": 3}])
    done = cli("sweep", f"{SIM}&store_data=true&faults={faults}", *SMALL, "--verify", "--json").sound()
    document = valid(done.json())
    assert done.code == 1 and document["status"] == "failed"
    bad = [c for c in document["cells"] if (c["verified"] or {}).get("bad")]
    assert len(bad) == 1 and bad[0]["warnings"][0]["kind"] == "corrupt"
    assert "the run failed" in done.err and "differ from the written data" in done.err


FAULTS = {
    "error": ({"op": "write", "kind": "error", "errno": 5, "at_op": 3}, "1 x io (errno 5, Input/output error)"),
    "enospc": ({"op": "write", "kind": "enospc", "at_op": 20}, "no_space"),
    "disconnect": ({"kind": "disconnect", "at_op": 30, "scope": "all"}, "1 x disconnected"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_failing_server(name: str, cli: Cli) -> None:
    """What was measured is kept, the failure is told, the exit code is 1."""
    fault, word = FAULTS[name]
    done = cli("sweep", f"{SIM}&faults={json.dumps([fault])}", *SMALL, "--timeout", "2s", "--json").sound()
    document = valid(done.json())
    assert done.code == 1 and document["status"] == "failed", done
    assert len(done.err.splitlines()) == 1 and "the run failed" in done.err and word in done.err, done.err
    assert "os error" not in done.err and document["cells"]
    assert cli("show", "last", "--json").ok().json() == document


def test_space_runs_out_in_the_middle(cli: Cli) -> None:
    """The pre-check is content; the server then has no room after all."""
    target = f"{SIM}&capacity_bytes=200k"
    done = cli("sweep", target, "--file-size", "128k", "--record", "4k", "--workers", 1, "--json").ok()
    assert done.json()["status"] == "complete"
    fault = json.dumps([{"op": "write", "kind": "enospc", "at_op": 5}])
    done = cli("sweep", f"{target}&faults={fault}", "--file-size", "128k", "--record", "4k").sound()
    assert done.code == 1 and "no_space" in done.err and "failed" in done.out
    assert f"--resume {cli.runs()[0]['run_id']}" in done.err


def test_plan_measures_and_writes_nothing(cli: Cli) -> None:
    before = snapshot(cli.folder)
    done = cli("sweep", cli.target, "--plan", "--repeat", 2).ok()
    assert "cells move" in done.out and "1 GbE" in done.out and "free" in done.out
    plan = cli("sweep", cli.target, *SMALL, "--tests", "write,read", "--plan", "--json").ok().json()
    assert [(c["op"], c["record_bytes"]) for c in plan["cells"]] == [
        ("write", 4096), ("read", 4096), ("write", 65536), ("read", 65536)
    ]  # fmt: skip
    assert plan["bytes"] == 4 * 65536 and plan["space_bytes"] == 65536 and plan["space_needed_bytes"] == 78643
    assert snapshot(cli.folder) == before and not cli.store.exists()


def test_budget_ends_a_sweep_between_rows_and_resume_completes_it(cli: Cli) -> None:
    slow = "sim:?link_bytes_per_s=1MB&latency_ns=1ms"
    words = ("--file-size", "64k", "--record", "4k..64k", "--tests", "write,read")
    done = cli("sweep", slow, *words, "--budget", "300ms", "--json").ok()
    cut = valid(done.json())
    assert cut["status"] == "partial" and {w["kind"] for w in cut["warnings"]} >= {"budget"}
    assert 2 <= len(cut["cells"]) < 10 and len(cut["cells"]) % 2 == 0
    left = cli("sweep", "--resume", "last", "--plan", "--json").ok().json()["cells"]
    assert len(left) + len(cut["cells"]) == 10
    whole = valid(cli("sweep", "--resume", "last", "--json").ok().json())
    assert whole["run_id"] == cut["run_id"] and whole["status"] == "complete"
    assert sorted(c["id"] for c in whole["cells"]) == list(range(10))
    assert {w["kind"] for w in whole["warnings"]} >= {"budget", "resumed"}


def test_quiet_says_nothing(cli: Cli) -> None:
    done = cli("sweep", "null:", *SMALL, "--quiet").ok()
    assert done.out == done.err == ""
    assert cli("mkfile", cli.target / "x", "--size", "1k", "--quiet").ok().out == ""


def test_added_tests_are_told(cli: Cli) -> None:
    document = cli.sweep(SIM, "--tests", "random-read,READ")
    assert list(dict.fromkeys(c["op"] for c in document["cells"])) == ["write", "read", "random_read"]
    told = [w["kind"] for w in document["warnings"]]
    assert [kind for kind in told if kind not in ("client_busy", "other_load")] == ["prerequisite"]


@pytest.mark.parametrize("group", ["all", "stdio", "positioned"])
def test_groups_of_tests(group: str, cli: Cli) -> None:
    document = valid(cli("sweep", cli.target, *SMALL, "--tests", group, "--json").ok().json())
    assert all(c["status"] == "complete" and c["bytes"] for c in document["cells"])


@pytest.mark.parametrize("size", [1, 63, 64, 65, 1000, 4096, 1048575, 1048577, 3 << 20])
def test_mkfile(size: int, cli: Cli) -> None:
    path = cli.target / "new file"
    document = cli("mkfile", path, "--size", size, "--json").ok().json()
    data = path.read_bytes()
    assert len(data) == size == document["bytes"]
    assert list(cli.target.iterdir()) == [path] and not cli.store.exists()
    if size >= 4096:
        assert len(zlib.compress(data)) > 0.98 * size
        assert len({data[i : i + 4096] for i in range(0, size, 4096)}) == -(-size // 4096)
        assert data[:8] == data[4096:4104] or size < 4104, "every block carries the tag"


def test_mkfile_sparse_and_seed(cli: Cli) -> None:
    cli("mkfile", cli.target / "holes", "--size", "100m", "--sparse").ok()
    holes = (cli.target / "holes").stat()
    assert holes.st_size == 100 << 20 and holes.st_blocks * 512 < 1 << 20
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        cli("mkfile", cli.target / name, "--size", "300kB", "--seed", seed).ok()
    a, b, c = ((cli.target / name).read_bytes() for name in "abc")
    assert len(a) == 300_000 and a[200:4000] == b[200:4000] != c[200:4000]


def test_runs_show_export_load_report(cli: Cli) -> None:
    first = cli.sweep(SIM, "--label", "name=old", "--label", "ram=1g")
    second = cli.sweep("null:", "--note", "floor")
    listed = cli("runs").ok().out
    assert first["run_id"] in listed and second["run_id"] in listed and "old" in listed
    assert [r["run_id"] for r in cli("runs", "--target", "null", "--json").ok().json()["runs"]] == [second["run_id"]]
    assert [r["run_id"] for r in cli("runs", "--label", "OLD", "--json").ok().json()["runs"]] == [first["run_id"]]
    assert [r["run_id"] for r in cli("runs", "--limit", 1, "--json").ok().json()["runs"]] == [second["run_id"]]
    assert "random read: MB/s" in cli("show", first["run_id"]).ok().out
    for ending in ("json", "csv", "xlsx"):
        cli("export", first["run_id"], "-o", f"x.{ending}").ok()
        again = cli("export", first["run_id"], "-o", f"x.{ending}")
        assert again.code == 2 and "--force" in again.err
        cli("export", first["run_id"], "-o", f"x.{ending}", "--force").ok()
    loaded = naslab.load(str(cli.folder / "x.json"))
    assert loaded.document == first and len(loaded.table()) == len(first["cells"])
    assert loaded.quantiles(loaded.cells[0], [0.5])[0] > 200_000
    assert len((cli.folder / "x.csv").read_text().splitlines()) == 1 + len(first["cells"])
    cli("report", "last", first["run_id"], "./x.json", "-o", "two.html").ok()
    assert os.stat(cli.folder / "two.html").st_size > 100_000
    assert cli("show", "./x.json").ok().out == cli("show", first["run_id"]).ok().out


def test_relative_target_is_kept_absolute(cli: Cli) -> None:
    words = ("sweep", "./target?engine=posix", *SMALL, "--json")
    document = cli(*words).ok().json()
    assert document["target"]["url"] == f"{cli.target}?engine=posix"
    assert cli("sweep", "../target", *SMALL, "--json", cwd=cli.target).ok().json()["target"]["url"] == str(cli.target)


def test_sim_from_a_file(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "nas.toml").write_text("latency_ns = 1_000_000\nseed = 3\n")
    cells = cli.sweep("sim:nas.toml?op_overhead_ns=0", "--tests", "write")["cells"]
    assert all(abs(c["latency_ns"]["min"] - 1_000_000) < 1000 for c in cells)
