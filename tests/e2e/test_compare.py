"""`naslab compare`: stored runs, and targets measured in turns."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from cli_tools import Cli
from naslab.results.store import Store

SIZES = ("--file-size", "4m,8m", "--record", "64k,1m", "--tests", "write,read")


def server(megabytes: int, noise: float = 0.03) -> str:
    """A simulated server behind a link of so many MB/s."""
    return f"sim:?link_bytes_per_s={megabytes}000000&link_noise={noise}&latency_ns=100000"


def sweep(cli: Cli, target: str, name: str, seed: int, repeat: int = 6) -> str:
    """The id of a new run."""
    words = (*SIZES, "--repeat", repeat, "--seed", seed, "--label", f"name={name}", "--json", "--quiet")
    return str(cli("sweep", target, *words).ok().json()["run_id"])


def test_stored_runs(cli: Cli, tmp_path: Path) -> None:
    old, new = sweep(cli, server(100), "old", 1), sweep(cli, server(70), "new", 2)
    page = tmp_path / "compared.html"
    told = cli("compare", old, new, "-o", page).ok().out
    assert "new is" in told and "slower than old" in told and "write 1 MiB of 8 MiB" in told
    assert "old against" not in told and page.stat().st_size > 1_000_000
    found: Any = cli("compare", old, new, "--json").ok().json()
    assert [run["run_id"] for run in found["runs"]] == [old, new] and found["schema"] == 1
    (comparison,) = found["comparisons"]
    assert comparison["verdict"] == "worse" and not comparison["paired"]
    # Small records wait for the round trip, too: the ratio lies between 0.7 and 1.
    assert 0.7 < comparison["overall"]["ratio"] < 0.9
    large = next(m for m in comparison["measurements"] if m["record_bytes"] == 1 << 20 and m["measure"] == "throughput")
    assert large["ratio"] == pytest.approx(0.7, rel=0.08)


def test_three_sides_and_an_undecided_one(cli: Cli) -> None:
    ids = [
        sweep(cli, server(rate), name, seed, 5) for seed, (name, rate) in enumerate((("a", 100), ("b", 101), ("c", 60)))
    ]
    done = cli("compare", *ids, "--json", "--margin", "0.5")
    assert done.code == 4
    assert [each["verdict"] for each in done.json()["comparisons"]] == ["undecided", "worse"]


def test_targets_measured_in_turns(cli: Cli) -> None:
    words = ("--file-size", "8m", "--record", "1m", "--tests", "write,read", "--json")
    done = cli("compare", "--run", server(100), server(60), *words).ok()
    found = done.json()
    (comparison,) = found["comparisons"]
    assert comparison["verdict"] == "worse" and comparison["paired"] and comparison["repeats"] == [5, 5]
    assert "5 blocks:" in done.err
    first, second = found["runs"]
    assert first["interleaved"]["id"] == second["interleaved"]["id"] and first["interleaved"]["ended"] == "certain"
    starts = sorted(
        (cell["start_wall_ns"], at, cell["block"]) for at, run in enumerate((first, second)) for cell in run["cells"]
    )
    first_of_block = [next(at for _, at, block in starts if block == wanted) for wanted in range(5)]
    assert set(first_of_block) == {0, 1}
    again = cli("compare", first["run_id"], second["run_id"], "--json").ok().json()
    assert again["comparisons"][0]["overall"] == comparison["overall"]


def test_equal_targets_are_equivalent(cli: Cli) -> None:
    words = ("--file-size", "8m", "--record", "1m", "--tests", "write,read", "--json", "--quiet")
    done = cli("compare", "--run", server(100), server(100), *words).ok()
    assert done.json()["comparisons"][0]["verdict"] == "equivalent"


def test_real_folders_in_turns_leave_nothing(cli: Cli, tmp_path: Path) -> None:
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        folder.mkdir()
    done = cli(
        "compare", "--run", *folders, "--file-size", "256k", "--record", "64k", "--tests", "write,read", "--budget",
        "5s", "--json", "--quiet",
    )  # fmt: skip
    assert done.code in (0, 4)
    found = done.json()
    assert found["comparisons"][0]["paired"] and all(run["status"] == "complete" for run in found["runs"])
    assert [list(folder.iterdir()) for folder in folders] == [[], []]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("last",), "at least two runs"),
        (("nosuch", "other"), "nosuch"),
        (("last", "last"), "named twice"),
        (("last", "last", "--margin", "0"), "--margin 0"),
        (("--run", "sim:"), "at least two"),
        (("--run", "sim:", "sim:?nosuch=1"), "nosuch"),
        (("--run", "sim:", "sim:", "--tests", "fly"), "--tests"),
        (("--run", "sim:", "sim:", "--report", "/no/such/folder/x.html"), "-o"),
    ],
)
def test_mistakes_end_with_one_line_and_2(words: tuple[str, ...], said: str, cli: Cli) -> None:
    if words[0] == "last":
        sweep(cli, server(100), "only", 1, 1)
    done = cli("compare", *words)
    assert done.code == 2 and said in done.err and len(done.err.strip().splitlines()) == 1
    stored = cli("runs", "--json").ok().json()["runs"]
    assert len(stored) == (1 if words[0] == "last" else 0)


@pytest.mark.lab
def test_the_gate(cli: Cli, tmp_path: Path) -> None:
    old, same, slow = (sweep(cli, server(rate), name, seed, 8) for seed, (name, rate) in
                       enumerate((("old", 100), ("same", 100), ("slow", 80))))  # fmt: skip
    report = tmp_path / "junit.xml"
    assert "equivalent" in cli("compare", "check", same, "--baseline", old).ok().out
    done = cli("compare", "check", slow, "--baseline", f"{old},{same}", "--junit", report)
    assert done.code == 3 and "slower" in done.out
    suite = ElementTree.parse(report).getroot()
    failed = [case.get("name") for case in suite.iter("testcase") if case.find("failure") is not None]
    assert "overall" in failed and "write 1 MiB of 8 MiB" in failed and suite.get("failures") == str(len(failed))
    assert int(suite.get("tests") or 0) == len(list(suite.iter("testcase")))
    assert cli("compare", "check", sweep(cli, server(100), "once", 9, 1), "--baseline", old).code == 4
    assert cli("compare", "check", slow).code == 2
    assert cli("compare", "check", slow, "--baseline", old, "--junit", tmp_path).code == 2


def test_a_run_again_elsewhere(cli: Cli) -> None:
    first = sweep(cli, server(100), "first", 1, 5)
    done = cli("compare", "rerun", first, server(60), "--json").ok()
    found = done.json()
    assert next(run["run_id"] for run in found["runs"]) == first and found["comparisons"][0]["verdict"] == "worse"
    again = found["runs"][1]
    assert again["rerun_of"] == first and again["seed"] == 1

    def asked(run: Any) -> list[Any]:
        return [[cell[name] for name in ("op", "file_bytes", "record_bytes", "block", "id")] for cell in run["cells"]]

    assert asked(again) == asked(found["runs"][0])


@pytest.mark.lab
def test_cells_planned_on_the_way_are_part_of_the_plan(cli: Cli) -> None:
    survey = cli("run", server(100), "--budget", "20s", "--json", "--quiet").ok().json()
    done = cli("compare", "rerun", survey["run_id"], server(100), "--seed", 5, "--json")
    spec = Store(cli.store).spec(survey["run_id"])
    assert spec is not None
    plain = [cell for cell in spec["cells"] if cell["script"] is None]
    assert done.code == 4 and len(done.json()["runs"][1]["cells"]) == len(plain) >= len(survey["cells"]) - 3
    assert "few_repeats" in [doubt["kind"] for doubt in done.json()["comparisons"][0]["doubts"]]


def test_what_cannot_be_done_again_is_refused(cli: Cli, tmp_path: Path) -> None:
    cli("iozone", "-i", 0, "-s", "64k", "-r", "4k", "-f", tmp_path / "own").ok()
    refused = cli("compare", "rerun", "last", "null:")
    assert refused.code == 2 and "give that line again" in refused.err
    assert cli("compare", "rerun", "nosuch", "null:").code == 2
