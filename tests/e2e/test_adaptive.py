"""`naslab sweep --adaptive` as a user runs it, on simulated servers."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest

from cli_tools import Cli
from naslab.render.report import figures
from naslab.render.report.model import cases
from naslab.results import schema
from naslab.results.run import Run

DISK = (
    "sim:?link_bytes_per_s=125MB&latency_ns=200us&server_cache_bytes=3m&disk_read_bytes_per_s=60MB"
    "&disk_write_bytes_per_s=50MB&write_back_bytes=2m&disk_seek_ns=1ms&disk_noise=0.02&link_noise=0.02"
)
GRID = ("--file-size", "64k..8m", "--record", "4k..1m")


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> tuple[Cli, Any, Any]:
    """Documents of the adaptive sweep and of the whole one."""
    cli = Cli(tmp_path_factory.mktemp("adaptive"))
    adaptive = cli("sweep", DISK, *GRID, "--adaptive", "--json", "--report", "page.html").ok().json()
    return cli, adaptive, cli("sweep", DISK, *GRID, "--json").ok().json()


def spot(cell: Any) -> tuple[str, int, int]:
    return cell["op"], cell["file_bytes"], cell["record_bytes"]


@pytest.mark.lab
def test_the_rest_of_the_grid_is_predicted_and_says_so(swept: tuple[Cli, Any, Any]) -> None:
    _, adaptive, whole = swept
    jsonschema.validate(adaptive, schema.json_schema())
    truth = {spot(cell): cell["throughput_bytes_per_s"] for cell in whole["cells"]}
    predicted = [cell for cell in adaptive["cells"] if cell["predicted"]]
    measured = {spot(cell) for cell in adaptive["cells"] if not cell["predicted"] and not cell["workload"]}
    assert measured | {spot(cell) for cell in predicted} == truth.keys()
    assert not measured & {spot(cell) for cell in predicted}
    part = adaptive["adaptive"]
    assert part["full_grid_bytes"] == sum(cell["bytes"] for cell in whole["cells"])
    assert part["moved_bytes"] == sum(cell["bytes"] for cell in adaptive["cells"]) <= 0.1 * part["full_grid_bytes"]
    assert part["predicted_cells"] == len(predicted) > 0.4 * part["grid_cells"] and part["unknown_cells"] == 0
    errors = sorted(abs(cell["throughput_bytes_per_s"] / truth[spot(cell)] - 1) for cell in predicted)
    assert errors[len(errors) // 2] <= 0.05 and errors[int(0.9 * len(errors))] <= 0.15
    for cell in predicted:
        low, high = cell["predicted_ci90_bytes_per_s"]
        assert low < cell["throughput_bytes_per_s"] < high
        assert cell["bytes"] == cell["ops"] == cell["duration_ns"] == 0 and cell["latency_ns"]["p50"] is None
    assert adaptive["summary"][0].startswith("Adaptive: ")


@pytest.mark.lab
def test_readers_tell_predicted_from_measured(swept: tuple[Cli, Any, Any]) -> None:
    cli, adaptive, whole = swept
    run, other = adaptive["run_id"], whole["run_id"]
    text = cli("show", run).ok().out
    assert "~ predicted" in text and "sample" not in text
    page = (cli.folder / "page.html").read_text()
    assert "predicted, not measured" in page
    case = next(case for case in cases(Run(adaptive)) if case.op == "read")
    assert "~" in str(figures.heat(case)["data"][0]["text"])
    assert "in nine of ten cases" in str(figures.slices(case, [])["data"])
    cli("export", run, "-o", "cells.csv").ok()
    rows = (cli.folder / "cells.csv").read_text().lower().count("true")
    assert rows >= adaptive["adaptive"]["predicted_cells"]
    compared = cli("compare", other, run, "--json").sound().json()
    measured = {spot(c) for c in adaptive["cells"] if not c["predicted"] and not c["workload"]}
    rates = [m for m in compared["comparisons"][0]["measurements"] if m["measure"] == "throughput"]
    assert 0 < len(rates) <= len(measured)
    refused = cli("sweep", "--resume", run)
    assert refused.code == 2 and "adaptive" in refused.err


def test_what_cannot_be_is_refused_before_anything_runs(tmp_path: Any) -> None:
    cli = Cli(tmp_path)
    for words, said in (
        ((*GRID, "--max-bytes", "1m"), "--max-bytes 1m"),
        (("--file-size", "64k", "--record", "4k"), "leave out --adaptive"),
    ):
        done = cli("sweep", DISK, "--adaptive", *words)
        assert done.code == 2 and said in done.err, done.err
    assert cli.runs() == []
    plan = cli("sweep", DISK, *GRID, "--adaptive", "--plan").ok().out
    assert "the small files whole" in plan


def test_repeats_budget_and_failures(tmp_path: Any) -> None:
    cli = Cli(tmp_path)
    twice = cli("sweep", DISK, *GRID, "--adaptive", "--repeat", 2, "--tests", "write,read", "--json").ok().json()
    blocks = [cell["block"] for cell in twice["cells"] if not cell["predicted"]]
    assert blocks.count(0) == blocks.count(1) and set(blocks) == {0, 1}
    assert twice["adaptive"]["moved_bytes"] <= 0.1 * twice["adaptive"]["full_grid_bytes"]
    short = cli("sweep", DISK, *GRID, "--adaptive", "--budget", "20ms", "--json").ok().json()
    assert short["status"] == "partial" and {"budget", "unpredicted"} <= {w["kind"] for w in short["warnings"]}
    full = f"{DISK}&capacity_bytes=11m&faults=" + '[{"op":"read","at_op":400}]'
    failed = cli("sweep", full, *GRID, "--adaptive", "--json").sound().json()
    assert [cell for cell in failed["cells"] if cell["errors"]]
    assert any(cell["predicted"] for cell in failed["cells"])
