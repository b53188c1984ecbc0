"""Experiments carried out over simulated servers of known limits, and over benches that fail."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from claim_truth import cell
from fake_bench import Fake
from naslab.cli.experiment import _given
from naslab.errors import TargetError, UsageError
from naslab.execution.waits import termination_as_interrupt
from naslab.lab import experiment
from naslab.lab.bench import AddressBench, Bench, bring_up_addresses
from naslab.lab.experiment import System
from naslab.lab.experiment_bench import ServerBench
from naslab.lab.experiment_result import published_copies
from naslab.lab.experiment_state import read_state
from naslab.lab.experiment_tune import search
from naslab.lab.run_experiment import run_experiment
from naslab.lab.server import Server
from naslab.render.report.experiment import charts, ours, published_table, render, section
from naslab.results.describe import typed
from naslab.results.foreign import foreign_cell, foreign_document
from naslab.results.parts.experiment import ExperimentDocument

SIM = Path(__file__).parents[1] / "sim_experiment.toml"
Document = dict[str, Any]


@pytest.fixture(scope="module")
def loaded() -> experiment.Experiment:
    return experiment.load(str(SIM))


@pytest.fixture(scope="module")
def given() -> Document:
    cells = [cell(80e6 + at, 32 << 20, 1 << 20) for at in range(2)]
    return {"command": "sweep", "run_id": "given", "status": "complete", "cells": cells}


@pytest.fixture(scope="module")
def result(loaded: experiment.Experiment, given: Document, tmp_path_factory: pytest.TempPathFactory) -> Document:
    store = tmp_path_factory.mktemp("experiment") / "store.sqlite"
    documents = [{**given, "cells": [{**one, "throughput_bytes_per_s": 8e7 + 9 * at} for one in given["cells"]]}
                 for at in range(4)]  # fmt: skip
    return run_experiment(loaded, bring_up_addresses(store), seed=7, given={"elsewhere": documents})


@pytest.mark.lab
def test_claims_known_right_and_wrong_end_so(result: Document) -> None:
    expected = {"true": "reproduced", "false": "contradicted", "no": "undecided", "not": "not testable here",
                "other": "not testable here", "never": "not testable here"}  # fmt: skip
    told = {claim["id"]: (claim["verdict"], claim["why"]) for claim in result["claims"]}
    assert {name: verdict for name, (verdict, _) in told.items()} == {
        name: expected[name.partition("-")[0]] for name in told
    }, told
    assert "only systems with a target" in told["not-built"][1]
    assert "elsewhere" in told["other-place"][1] and "boundary" in told["other-place"][1]


@pytest.mark.lab
def test_the_result_is_one_plain_document(result: Document) -> None:
    assert json.loads(json.dumps(result, allow_nan=False)) == result
    assert result["kind"] == "experiment" and result["scale"] == "scaled" and result["seed"] == 7
    assert {(m["condition"], m["block"]) for m in result["measurements"]} == {
        (name, block) for name in ("slow", "fast", "slow-again", "elsewhere") for block in range(4)
    }
    assert all(m["run_id"] for m in result["measurements"])
    assert result["summary"][0] == (
        "15 conclusions of the article: 7 reproduced, 4 contradicted, 1 undecided, 3 not testable here."
    )
    assert result["summary"][1] == "4 of 5 conditions in 4 repeats each; not measured: parts."


@pytest.mark.lab
def test_measured_rates_are_the_planted_ones(result: Document) -> None:
    claim = next(claim for claim in result["claims"] if claim["id"] == "true-limit")
    assert claim["contrasts"][0]["value"] == pytest.approx(1, abs=0.03)
    chart = next(chart for chart in result["charts"] if chart["id"] == "bars")
    fast = next(series for series in chart["series"] if series["condition"] == "fast")
    assert fast["points"][0]["group"] == "write"
    assert fast["points"][0]["values"] == pytest.approx([75] * 4, rel=0.05)


@pytest.mark.lab
def test_blocks_are_measured_in_orders_of_their_own(result: Document) -> None:
    mine = [m for m in result["measurements"] if m["condition"] != "elsewhere"]
    orders = {tuple(m["condition"] for m in mine if m["block"] == block) for block in range(4)}
    assert len(orders) > 1


@pytest.mark.lab
def test_copies_are_told(result: Document) -> None:
    assert "Published: run 1 and run 2 have identical numbers; one of them is a copy" in result["notes"]
    runs = experiment.load("raid5-naspt").published
    assert list(published_copies(runs)) == ["Published: run 1 and run 2 have identical numbers; one of them is a copy"]


# --- the report --------------------------------------------------------------------------------------------


@pytest.mark.lab
def test_charts_show_every_condition_and_what_was_published(result: Document) -> None:
    drawn = {chart.id: chart for chart in charts(typed(result, ExperimentDocument))}
    assert list(drawn) == ["claims-chart", "chart-write", "chart-bars", "chart-surface"]
    lines = drawn["chart-write"].entries[0]["figure"]
    names = {trace["name"] for trace in lines["data"]}
    assert {"slow", "fast", "slow-again", "slow, published"} <= names
    point = next(trace for trace in lines["data"] if trace["name"] == "slow, published")
    assert (point["x"], point["y"]) == ([32 << 20], [48])
    names_of_lines = [shape["label"]["text"] for shape in lines["layout"]["shapes"] if "label" in shape]
    assert names_of_lines == ["disk of 50 MB/s"], "no line for memory"
    diamonds = next(t for t in drawn["chart-bars"].entries[0]["figure"]["data"] if t["name"] == "fast, published")
    assert diamonds["x"] == [72] and diamonds["offsetgroup"] == "fast"
    paths = [entry["path"] for entry in drawn["chart-surface"].entries]
    assert ["Heat map", "slow"] in paths and ["Difference", "fast over slow"] in paths and ["3D", "fast"] in paths


@pytest.mark.lab
def test_the_difference_of_surfaces_is_theirs(result: Document) -> None:
    surface = next(chart for chart in result["charts"] if chart["id"] == "surface")
    slow, fast = (next(s for s in surface["series"] if s["condition"] == name) for name in ("slow", "fast"))
    drawn = next(chart for chart in charts(typed(result, ExperimentDocument)) if chart.id == "chart-surface")
    figure = next(e["figure"] for e in drawn.entries if e["path"] == ["Difference", "fast over slow"])
    text = figure["data"][0]["text"][-1][-1]
    assert text == f"{(fast['rates'][-1][-1] / slow['rates'][-1][-1] - 1) * 100:+.0f} %"


@pytest.mark.lab
def test_ratios_of_claims_lie_beside_the_published_ones(result: Document) -> None:
    figure = charts(typed(result, ExperimentDocument))[0].entries[0]["figure"]
    by_name = {trace["name"]: trace for trace in figure["data"]}
    assert "true-more" in by_name["reproduced"]["y"] and "false-more" in by_name["contradicted"]["y"]
    assert by_name["published"]["x"] == [1.5] and by_name["published"]["y"] == ["true-more"]
    assert "no-dips" not in by_name.get("undecided", {"y": []})["y"], "it has no interval"


@pytest.mark.lab
def test_published_numbers_have_ours_beside_them(result: Document) -> None:
    document = typed(result, ExperimentDocument)
    by_id = {one.id: one for one in document.published}
    assert float(ours(document, by_id["slow-write"]).split()[0]) == pytest.approx(50, rel=0.05)
    assert float(ours(document, by_id["fast-write"]).split()[0]) == pytest.approx(75, rel=0.05)
    assert ours(document, by_id["table.one.run 1"]) == "-"


@pytest.mark.lab
def test_published_rates_are_drawn_as_fast_as_the_systems_are(result: Document) -> None:
    """Systems twice as fast as the article's: its rates twice as high in pictures, and both in the table."""
    faster = {**result, "speed": 2.0}
    drawn = {chart.id: chart for chart in charts(typed(faster, ExperimentDocument))}
    point = next(t for t in drawn["chart-write"].entries[0]["figure"]["data"] if t["name"] == "slow, published")
    diamonds = next(t for t in drawn["chart-bars"].entries[0]["figure"]["data"] if t["name"] == "fast, published")
    assert (point["y"], diamonds["x"]) == ([96], [144])
    told = "diamonds are the article's numbers times 2, as these systems are 2 times as fast."
    assert told in drawn["chart-write"].lead and "48\u00a0MB/s; times 2: 96" in published_table(
        typed(faster, ExperimentDocument)
    )
    assert "times 2" not in published_table(typed(result, ExperimentDocument))


@pytest.mark.lab
def test_the_page_is_whole_and_foreign_text_stays_text(result: Document) -> None:
    hostile = json.loads(json.dumps(result))
    hostile["title"] = hostile["claims"][0]["words"] = hostile["notes"][0] = "<script>alert(1)</script>"
    hostile["conditions"][0]["missing"] = '"><img src=x>'
    text = render(hostile)
    assert "<script>alert" not in text and "<img src=x" not in text and text.rstrip().endswith("</html>")
    body = section(typed(result, ExperimentDocument))
    assert body.count('class="status complete"') == 7 and body.count('class="status failed"') == 4
    for part in ("reproduced", "contradicted", "undecided", "not testable here", "it is an opinion", "Represents"):
        assert part in body


def test_an_experiment_without_any_sample_has_a_report(loaded: experiment.Experiment) -> None:
    def nothing(system: System, seed: int) -> Bench:
        raise UsageError(f"{system.name} needs root")

    found = run_experiment(loaded, nothing)
    assert {claim["verdict"] for claim in found["claims"]} == {"not testable here"}
    assert len([note for note in found["notes"] if "needs root" in note]) == 4, "each condition is tried once"
    assert charts(typed(found, ExperimentDocument)) == [] and "needs root" in render(found)


# --- benches that fail -------------------------------------------------------------------------------------


ONE = """
title = "One"
about = "One condition."
[systems.s]
target = "sim:"
[limits]
disk = { what = "disk", value = "50MB/s" }
[tests.t]
what = "t"
command = "sweep"
options = "--tests write"
[[condition]]
id = "c"
what = "c"
system = "s"
options = "--cold"
beside = ["sustained --size 1m --write 50", "tree"]
[[claim]]
id = "l"
words = "w"
kind = "limit"
of = { condition = "c", op = "write" }
limit = "disk"
range = [1.5, 1.8]
"""


def test_what_a_bench_is_asked_and_its_measured_limits_count() -> None:
    log: list[str] = []
    found = run_experiment(experiment.parse(ONE, "f", "n"), lambda system, seed: Fake(log), repeats=3)
    assert log[:6] == [
        "beside sustained --size 1m --write 50", "beside tree", "measure sweep --tests write --cold",
        "end sustained --size 1m --write 50", "end tree", "close",
    ]  # fmt: skip
    assert found["claims"][0]["verdict"] == "reproduced", "100 over the 60 that were measured, not the 50 planted"


def test_other_load_runs_at_the_client_that_is_named() -> None:
    log: list[str] = []
    found = experiment.parse(ONE, "f", "n")
    second = replace(found, conditions=tuple(replace(one, beside_client=2) for one in found.conditions))
    done = run_experiment(second, lambda system, seed: Fake(log), repeats=1)
    assert log[:2] == ["beside sustained --size 1m --write 50 at client 2", "beside tree at client 2"]
    assert done["conditions"][0]["beside"][1] == "tree, at client 2"


def test_a_server_is_reached_from_each_clients_network() -> None:
    facts = {"backend": "native", "inside": {"net": "/n/1", "nets": ["/n/1", "/n/2"]}}
    bench = ServerBench(cast(Server, SimpleNamespace(facts=facts, url="smb://x/data", credentials=None)), 0, None)
    assert bench.command(["sweep"])[:3] == ["nsenter", "--net=/n/1", "--"]
    assert bench.command(["sweep"], 2)[:3] == ["nsenter", "--net=/n/2", "--"]
    bench.server.facts["inside"] = {}
    assert bench.prefix_at(1) == ()


def test_a_lost_repeat_is_told_and_the_bench_closed() -> None:
    log: list[str] = []
    found = run_experiment(experiment.parse(ONE, "f", "n"), lambda system, seed: Fake(log, [1]), repeats=4)
    assert log.count("close") == 4
    assert found["notes"] == ["c, repeat 2, failed: the server went away"]
    assert [m["block"] for m in found["measurements"]] == [0, 2, 3]


def test_a_test_that_was_cut_short_is_told() -> None:
    class Cut(Fake):
        def measure(self, words: Sequence[str], client: str = "") -> Document:
            return {**super().measure(words), "status": "partial"}

    found = run_experiment(experiment.parse(ONE, "f", "n"), lambda system, seed: Cut([]), repeats=1)
    assert found["notes"] == ["c, repeat 1, t is partial: only its complete cells count"]


def test_enough_is_enough_after_a_block() -> None:
    found = run_experiment(experiment.parse(ONE, "f", "n"), lambda system, seed: Fake([]), enough=lambda: True)
    assert len(found["measurements"]) == 1 and "ended after 1 repeat:" in found["notes"][0]
    assert found["claims"][0]["verdict"] == "too few repeats"


def test_an_interruption_keeps_what_was_measured() -> None:
    def bring_up(system: System, seed: int) -> Bench:
        if seed == 3:
            raise KeyboardInterrupt
        return Fake([])

    found = run_experiment(experiment.parse(ONE, "f", "n"), bring_up, repeats=9)
    assert len(found["measurements"]) == 3 and "interrupted" in found["notes"][0]


def test_given_results_of_unknown_conditions_are_refused(loaded: experiment.Experiment) -> None:
    with pytest.raises(UsageError, match="no condition 'nobody'"):
        run_experiment(loaded, bring_up_addresses(), given={"nobody": []})


def test_a_command_that_fails_says_why() -> None:
    with pytest.raises(TargetError, match=r"naslab sweep: .*--tests"):
        AddressBench("null:").measure(["sweep", "--tests", "sing"])
    with pytest.raises(UsageError, match="nobody here can cut the power"):
        AddressBench("null:").measure(["durable"])


def test_nothing_works_beside_a_simulated_server() -> None:
    with pytest.raises(UsageError, match="one command's own"), AddressBench("sim:").beside([["tree"]]):
        pass


def test_work_beside_lasts_as_long_as_the_test(tmp_path: Path) -> None:
    folder = tmp_path / "target"
    folder.mkdir()
    bench = AddressBench(str(folder), store=tmp_path / "store.sqlite")
    with bench.beside([["sustained", "--size", "1m", "--write", "100", "--rate", "20iops", "--duration", "1h"]]):
        found = bench.measure(["sweep", "--file-size", "64k", "--record", "64k", "--tests", "write"])
    assert found["status"] == "complete"
    assert list(folder.iterdir()) == [], "it cleaned up when it was ended"


@pytest.mark.lab
def test_work_that_ends_by_itself_is_an_error(tmp_path: Path) -> None:
    bench = AddressBench(str(tmp_path), store=tmp_path / "store.sqlite")
    words = ["sweep", "--file-size", "64k", "--record", "64k", "--tests", "sing"]
    with pytest.raises(TargetError, match="ended before the test did"), bench.beside([words]):
        bench.measure(["sustained", "--size", "1m", "--block", "64k", "--write", "100", "--duration", "3s"])


# --- systems that stay up, tests that make ready, a share of a processor -----------------------------------


def test_kept_systems_are_built_once_and_taken_down_at_the_end() -> None:
    log: list[str] = []
    seeds = []

    class Kept(Fake):
        def measure(self, words: Sequence[str], client: str = "") -> Document:
            seeds.append(self.seed)
            return super().measure(words)

    def bring_up(system: System, seed: int) -> Bench:
        log.append("up")
        return Kept(log)

    found = run_experiment(experiment.parse(ONE, "f", "n"), bring_up, repeats=3, keep=True, seed=5)
    assert log.count("up") == log.count("close") == 1 and log[-1] == "close"
    assert len(found["measurements"]) == 3 and seeds == [5, 6, 7]
    assert "s were built once for all repeats" in found["notes"][0]


def test_a_kept_system_that_failed_is_built_anew() -> None:
    log: list[str] = []

    def bring_up(system: System, seed: int) -> Bench:
        log.append("up")
        return Fake(log, [1])

    found = run_experiment(experiment.parse(ONE, "f", "n"), bring_up, repeats=3, keep=True)
    assert log.count("up") == log.count("close") == 2
    assert [m["block"] for m in found["measurements"]] == [0, 2]


PARTS = """
[systems.s]
what = "s"
disks = [{ count = 1, size = "64MiB", burst = { rate = "50MB/s", base = "10MB/s", size = "64MiB" } }]
server = { kind = "samba", cpu = "40%" }
"""


def test_a_native_system_is_built_anew_for_each_repeat() -> None:
    log: list[str] = []

    def bring_up(system: System, seed: int) -> Bench:
        log.append("up")
        return Fake(log)

    words = ONE.replace('[systems.s]\ntarget = "sim:"\n', PARTS)
    run_experiment(experiment.parse(words, "f", "n"), bring_up, repeats=3, keep=True)
    assert log.count("up") == log.count("close") == 3


def test_systems_that_memory_cannot_hold_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    log: list[str] = []

    def bring_up(system: System, seed: int) -> Bench:
        log.append("up")
        return Fake(log)

    monkeypatch.setattr("naslab.lab.experiment_pool.free_bytes", lambda: 128 << 20)
    whole = PARTS.replace(', burst = { rate = "50MB/s", base = "10MB/s", size = "64MiB" }', "")
    words = ONE.replace('[systems.s]\ntarget = "sim:"\n', whole.replace("samba", "knfsd"))
    found = run_experiment(experiment.parse(words, "f", "n"), bring_up, repeats=2, keep=True)
    assert log.count("up") == 2 and "together they need 0.3 GB of memory" in found["notes"][0]


def test_what_makes_ready_is_not_measured_and_cold_empties_before() -> None:
    log: list[str] = []
    words = ONE.replace('command = "sweep"', 'command = "sweep"\ncold = true').replace(
        'system = "s"', 'system = "s"\ntests = ["first", "t"]'
    )
    words = words.replace("of = {", 'of = { test = "t",')
    words += '[tests.first]\nwhat = "f"\ncommand = "apps"\noptions = "--step prepare"\nmeasures = false\n'
    found = run_experiment(experiment.parse(words, "f", "n"), lambda system, seed: Fake(log), repeats=1)
    assert [line.split()[0] for line in log][:5] == ["prepare", "beside", "beside", "empty", "measure"]
    assert [m["test"] for m in found["measurements"]] == ["t"]


TUNE = '[tune]\nsystem = "s"\ntest = "t"\nof = { op = "write" }\nvalue = "30MB/s"\n'


def test_a_share_is_found_and_planted() -> None:
    """A server whose rate is 80 MB/s of a whole processor, less a tenth."""
    shares: list[float] = []

    class Slow(Fake):
        share = 1.0

        def set_cpu(self, share: float) -> None:
            self.share = share
            shares.append(share)

        def measure(self, words: Sequence[str], client: str = "") -> Document:
            return {**super().measure(words), "cells": [cell((self.share - 0.1) * 8e7, 32 << 20)]}

    words = (ONE + TUNE).replace('[systems.s]\ntarget = "sim:"\n', PARTS)
    found = run_experiment(experiment.parse(words, "f", "n"), lambda system, seed: Slow([]), repeats=2)
    assert shares[0] == 0.4 and shares[-1] == pytest.approx(0.475, rel=0.03) == shares[-2]
    assert "and 30.0 were wanted" in found["notes"][0]


def test_a_share_that_cannot_be_found_ends_at_the_whole_processor() -> None:
    found = search(0.4, 100e6, lambda share: share * 50e6)
    assert (found.share, found.rate) == (1.0, 50e6) and "50.0 MB/s, and 100.0 were wanted" in found.words()


def test_tune_needs_a_server_with_a_share() -> None:
    with pytest.raises(UsageError, match=r"tune\.system = 's': its server has no CPU limit"):
        experiment.parse(ONE + TUNE, "f", "n")


def test_a_client_is_chosen_only_in_guests() -> None:
    words = ONE.replace('system = "s"', 'system = "s"\nclient = "own"')
    with pytest.raises(UsageError, match="only where a guest's kernel is the client"):
        experiment.parse(words, "f", "n")


def test_quick_is_a_scale_of_its_own_where_it_is_named() -> None:
    words = "repeats = [3, 4]\n" + ONE.replace("--tests write", "--tests write --file-size {n}")
    words += '[values]\nn = ["1m", "2m", "4m"]\n'
    found = [experiment.parse(words, "f", "n", scale) for scale in experiment.SCALES]
    assert [one.tests["t"].words[-1] for one in found] == ["1m", "2m", "4m"]
    assert [one.repeats for one in found] == [3, 3, 4]


def test_a_condition_can_have_fewer_repeats_unless_they_are_asked_for() -> None:
    words = ONE.replace('system = "s"', 'system = "s"\nrepeats = [1, 2, 3]')
    found = experiment.parse(words, "f", "n", "quick")
    for asked, blocks in ((None, 1), (3, 3)):
        told = run_experiment(found, lambda system, seed: Fake([]), repeats=asked)
        assert len(told["measurements"]) == blocks
        assert f"in {blocks} repeat{'s' if blocks > 1 else ''} each" in told["summary"][1]


def test_an_interruption_while_a_child_is_started_ends_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It arrived inside of Popen: the child went on, and what it wrote stayed on the target."""
    made: list[subprocess.Popen[str]] = []

    class Slow(subprocess.Popen[str]):
        def __init__(self, *words: Any, **more: Any) -> None:
            super().__init__([sys.executable, "-c", "import time; time.sleep(60)"], **more)
            made.append(self)
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(subprocess, "Popen", Slow)
    bench = AddressBench(str(tmp_path))
    with termination_as_interrupt():
        with pytest.raises(KeyboardInterrupt):
            bench.prepare(["sweep"])
        with pytest.raises(KeyboardInterrupt), bench.beside([["sweep"]]):
            pass
    assert [child.returncode for child in made] == [-signal.SIGTERM] * 2


def foreign(rate: float, block: int) -> Document:
    """An IOzone result over the sizes of nfs-servers at its smallest scale."""
    sizes = [(128 << 10, 4 << 10), (512 << 10, 64 << 10), (2 << 20, 4 << 10), (2 << 20, 1 << 20), (16 << 20, 1 << 20)]
    cells = [
        foreign_cell(number, op, rate * (1 + 0.01 * (block % 3)), file_bytes=file, record_bytes=record)
        for number, (op, (file, record)) in enumerate(
            ((op, size) for op in ("write", "read", "random_read", "random_write") for size in sizes), 1
        )
    ]
    source = {"kind": "imported", "tool": "iozone", "format": "iozone-text"}
    return dict(foreign_document(f"import-{rate:.0f}-{block}", source, cells))


def test_claims_are_tested_on_what_a_stand_in_stood_for_once_it_is_given() -> None:
    loaded = experiment.load("nfs-servers", "quick")
    given = {
        "kernel": [foreign(100e6, at) for at in range(5)], "windows": [foreign(70e6, at + 1) for at in range(5)],
    }  # fmt: skip
    found = run_experiment(loaded, bring_up_addresses(), repeats=1, given=given)
    claims = {claim["id"]: claim for claim in found["claims"]}
    for name in ("kernel-faster-overall", "random-writes-of-small-records", "random-reads-top-speed"):
        assert claims[name]["verdict"] == "reproduced" and not claims[name]["stand_in"], claims[name]
    assert claims["reads-equal"]["verdict"] == "contradicted"
    assert claims["kernel-faster-overall"]["contrasts"][0]["value"] == pytest.approx(100 / 70, rel=0.03)
    alone = run_experiment(loaded, bring_up_addresses(), repeats=1, given={"kernel": given["kernel"]})
    told = next(claim for claim in alone["claims"] if claim["id"] == "kernel-faster-overall")
    assert told["verdict"] == "not testable here" and "Ganesha" in told["stand_in"]


def test_results_of_other_places_are_given_again_after_an_interruption(tmp_path: Path) -> None:
    loaded = experiment.load("nfs-servers", "quick")
    given = {name: [foreign(rate, at) for at in range(4)] for name, rate in (("kernel", 9e7), ("windows", 7e7))}
    kept = tmp_path / "state.json"
    kept.write_text(json.dumps(run_experiment(loaded, bring_up_addresses(), repeats=1, given=given)))

    def never(run_id: str) -> Document:
        raise AssertionError(f"{run_id} is in no store")

    before = read_state(kept, loaded, 0, never)
    assert before is not None and not before.samples
    again = run_experiment(loaded, bring_up_addresses(), repeats=1, given=given, before=before)
    assert len(again["measurements"]) == 2 * 2 * 4


@pytest.mark.parametrize("name", ["iozone_auto.xls", "iozone_auto.xlsx", "iozone_auto.txt"])
def test_a_condition_measured_elsewhere_may_be_a_file_of_iozones(name: str) -> None:
    path = Path(__file__).parents[1] / "samples" / name
    found = _given([f"windows={path}"], None)["windows"]
    assert len(found) == 1 and found[0]["source"]["tool"] == "iozone"
    assert {"write", "read", "random_read", "random_write"} <= {cell["op"] for cell in found[0]["cells"]}
