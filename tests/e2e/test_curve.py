"""`naslab curve` on simulated servers whose capacity and queue are known, and on a folder."""

from __future__ import annotations

from typing import Any

import jsonschema
import numpy as np
import pytest

from cli_tools import SIM, Cli, need, populate, snapshot
from naslab.lab import systems
from naslab.results.schema import json_schema

QUICK = ("--random", "--size", "16m", "--step-duration", "2s")
LINK_PER_S = 125e6 / 4096
SERVICE_NS = 1e9 / LINK_PER_S
BASE_NS = 233_768
"""Time of one 4 KiB read of SIM without a queue: overhead, round trip, link."""


def curve_of(cli: Cli, *words: object) -> Any:
    document = cli("curve", *words, "--json").ok().json()
    jsonschema.Draft202012Validator(json_schema(strict=True)).validate(document)
    assert document["status"] == "complete" and document["summary"]
    return document


def p99_of_queue(load: float, arrivals: int = 400_000) -> float:
    """p99 of the response time of one server with constant service and random arrivals (Lindley 1952), ns."""
    gaps = np.random.default_rng(5).exponential(1e9 / load, arrivals)
    steps = np.concatenate(([0.0], np.cumsum(SERVICE_NS - gaps)))
    waits = steps - np.minimum.accumulate(steps)
    return float(BASE_NS + np.quantile(waits[1000:], 0.99))


@pytest.mark.lab
def test_planted_capacity_and_knee(cli: Cli) -> None:
    """The link's rate within 1 %, and the knee where the queue of that link has it, within 6 %."""
    document = curve_of(cli, SIM, *QUICK, "--arrivals", "poisson", "--step-duration", "5s")
    curve = document["curve"]
    assert curve["stop_reason"] == "saturated" and curve["saturated"] and not curve["depth_limited"]
    assert curve["capacity_per_s"] == pytest.approx(LINK_PER_S, rel=0.01)
    loads = np.linspace(0.5, 0.98, 25) * LINK_PER_S
    p99 = np.array([p99_of_queue(load) for load in loads])
    expected = float(np.interp(2 * curve["low_load_p99_ns"], np.maximum.accumulate(p99), loads))
    assert curve["knee_per_s"] == pytest.approx(expected, rel=0.06)
    low, high = curve["knee_ci95_per_s"]
    assert low <= curve["knee_per_s"] <= high
    steps = curve["steps"]
    assert steps == sorted(steps, key=lambda step: step["offered_per_s"])
    for step in steps:
        if step["offered_per_s"] < 0.9 * LINK_PER_S:
            assert not step["saturated"]
            assert step["response_ns"]["p99"] == pytest.approx(p99_of_queue(step["offered_per_s"]), rel=0.1)
    assert curve_of(cli, SIM, *QUICK, "--step-duration", "5s", "--arrivals", "poisson")["curve"] == curve


def test_even_arrivals_queue_only_at_the_capacity(cli: Cli) -> None:
    curve = curve_of(cli, SIM, *QUICK)["curve"]
    assert curve["capacity_per_s"] == pytest.approx(LINK_PER_S, rel=0.01)
    assert 0.95 * LINK_PER_S < curve["knee_per_s"] <= 1.01 * LINK_PER_S
    assert curve["low_load_p99_ns"] == pytest.approx(BASE_NS, rel=0.002)


@pytest.mark.lab
def test_disk_and_depth(cli: Cli) -> None:
    disk = curve_of(cli, "sim:?disk_iops=2000&latency_ns=200us", *QUICK)["curve"]
    assert disk["capacity_per_s"] == pytest.approx(2000, rel=0.02) and not disk["depth_limited"]
    bound = curve_of(cli, "sim:?latency_ns=1ms", *QUICK, "--depth", "4", "--workers", "2")
    assert bound["curve"]["capacity_per_s"] == pytest.approx(8 / 1.001e-3, rel=0.02)
    assert bound["curve"]["depth_limited"] and "Raise --depth" in " ".join(bound["summary"])


@pytest.mark.lab
def test_comparison_words_and_report(cli: Cli) -> None:
    """A link of half the rate beside the first; show, report and the stored document have it."""
    first = curve_of(cli, SIM, *QUICK)
    half = SIM.replace("125MB", "62.5MB")
    second = curve_of(cli, half, *QUICK, "--compare", first["run_id"], "-o", "one.html")
    compared = second["curve"]["compared"]
    assert compared["run_id"] == first["run_id"] and compared["differs"] == [] and compared["unit"] == "batch"
    assert compared["capacity"]["ratio"] == pytest.approx(0.5, rel=0.02)
    assert compared["capacity"]["verdict"] == compared["knee"]["verdict"] == "worse"
    offered = {step["offered_per_s"] for step in first["curve"]["steps"]}
    assert compared["p99"] and all(one["load_per_s"] in offered for one in compared["p99"])
    assert all(one["ratio"] >= 0.99 and one["verdict"] != "better" for one in compared["p99"])
    shown = cli("show", "last").ok().out
    assert "offered/s" in shown and "saturated" in shown and "Knee:" in shown
    cli("report", first["run_id"], "last", "-o", "two.html").ok()
    for name in ("one.html", "two.html"):
        page = (cli.folder / name).read_text()
        assert "Latency against offered load" in page and "Capacity: " in page
    refused = cli("curve", SIM, "--compare", cli.sweep(SIM)["run_id"])
    assert refused.code == 2 and "--compare" in refused.err and "no curve" in refused.err


FIFTH_SLOWER = "sim:?link_bytes_per_s=104166667&latency_ns=240us&op_overhead_ns=1200"


@pytest.mark.lab
@pytest.mark.parametrize(("target", "capacity"), [(SIM, "equivalent"), (FIFTH_SLOWER, "worse")])
def test_an_equal_and_a_slower_server_beside_the_first(target: str, capacity: str, cli: Cli) -> None:
    """The same server with other arrivals, and one that takes a fifth longer for everything."""
    poisson = (*QUICK, "--arrivals", "poisson", "--step-duration", "4s")
    first = curve_of(cli, SIM, *poisson)
    second = curve_of(cli, target, *poisson, "--seed", "7", "--compare", "last")
    compared = second["curve"]["compared"]
    assert compared["capacity"]["verdict"] == capacity
    verdicts = [one["verdict"] for one in compared["p99"]]
    assert len(verdicts) >= 6 and len(first["curve"]["steps"]) >= len(verdicts)
    words = " ".join(second["summary"])
    if capacity == "worse":
        assert compared["capacity"]["ratio"] == pytest.approx(1 / 1.2, rel=0.02)
        assert compared["knee"]["verdict"] == "worse"
        assert verdicts.count("worse") >= 0.8 * len(verdicts) and "better" not in verdicts, compared["p99"]
        assert "worse at" in words
    else:
        assert not {"better", "worse"} & {*verdicts, compared["knee"]["verdict"]}, compared
        assert verdicts.count("equivalent") >= 0.5 * len(verdicts) and "would have been detected" in words


@pytest.mark.lab
def test_limits_end_a_curve(cli: Cli) -> None:
    short = curve_of(cli, SIM, *QUICK, "--budget", "6s")
    assert short["curve"]["stop_reason"] == "budget" and "--budget ended the curve" in " ".join(short["summary"])
    capped = curve_of(cli, SIM, *QUICK, "--max-rate", "3000", "--start", "1k")["curve"]
    assert capped["stop_reason"] == "max_rate" and not capped["saturated"] and capped["knee_per_s"] is None
    assert capped["steps"][0]["offered_per_s"] == 1000 and capped["steps"][-1]["offered_per_s"] == 3000
    moved = curve_of(cli, SIM, *QUICK, "--max-bytes", "400m")
    assert moved["curve"]["stop_reason"] == "max_bytes"
    much = curve_of(cli, SIM, *QUICK, "--start", "100k")["curve"]
    assert much["capacity_per_s"] == pytest.approx(LINK_PER_S, rel=0.01) and not much["steps"][0]["saturated"]


@pytest.mark.lab
def test_writes_into_a_folder_leave_nothing(cli: Cli) -> None:
    before = populate(cli.target)
    words = ("--size", "4m", "--block", "64k", "--write", "50", "--max-rate", "60", "--start", "30")
    document = curve_of(cli, cli.target, *words, "--step-duration", "0.5s")
    kinds = {kind for cell in document["cells"] if cell["workload"] == "curve" for kind in cell["kinds"]}
    assert {"read", "write"} <= kinds and document["curve"]["write_fraction"] == 0.5
    assert snapshot(cli.target) == before


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--arrivals", "even"), "--arrivals"), (("--block", "0"), "--block"), (("--size", "1k"), "--size"),
        (("--write", "101"), "--write"), (("--factor", "1"), "--factor"), (("--start", "x"), "--start"),
        (("--max-rate", "0"), "--max-rate"), (("--step-duration", "1ms"), "--step-duration"),
        (("--compare", "nosuchrun"), "nosuchrun"), (("--durability", "x"), "--durability"),
        (("--max-bytes", "1m"), "--max-bytes"),
    ],
)  # fmt: skip
def test_bad_options(words: tuple[str, ...], says: str, cli: Cli) -> None:
    before = populate(cli.target)
    done = cli("curve", cli.target, *words).sound()
    assert done.code == 2 and says in done.err and done.out == "" and done.err.count("\n") == 1
    assert snapshot(cli.target) == before and cli.runs() == []


@pytest.mark.lab
def test_a_real_server(cli: Cli) -> None:
    """NFS-Ganesha at depth 2: the files are written once, every byte crosses the wire, and it saturates."""
    missing = systems.missing_packages(systems.system("ganesha"))
    need(not missing, f"ganesha: {' '.join(missing)}")
    words = ("--random", "--size", "4m", "--step-duration", "0.5s", "--depth", "2", "--factor", "2")
    document = curve_of(cli, "lab:ganesha", *words, "--arrivals", "poisson", "--budget", "40s")
    curve, cells = document["curve"], document["cells"]
    # How its capacity compares with the closed loop's is a matter of what else the machine does.
    assert curve["saturated"] and curve["capacity_per_s"] > 0 and curve["probe_full"]["iops"] > 0
    assert [cell["workload"] for cell in cells].count("fill") == 1
    loads = [cell for cell in cells if cell["workload"] == "curve"]
    assert all(cell["errors"] == 0 and cell["wire_bytes"] >= cell["bytes"] for cell in loads)
    assert all(step["response_ns"]["p99"] >= step["service_ns"]["p50"] for step in curve["steps"])
    assert "left_behind" not in {warning["kind"] for warning in document["warnings"]}
