"""Trees of folders and files: shape, sizes, who makes and looks at what, rates on a known server, cold passes."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from naslab.analysis.metadata import LOOKS, PHASES, WARM_UP, header, phases, rows, sentences
from naslab.cli.arguments import CommonArguments, TreeArguments
from naslab.cli.tree import run_tree
from naslab.commands.plans.tree import TreeOptions, items, renamed, shares, taken, tree_cells
from naslab.errors import UsageError
from naslab.render.report import theme
from naslab.render.report.tree import fill, section
from naslab.render.report.views import Chart, shown
from naslab.results import Run
from naslab.results.describe import plain
from naslab.results.parts.tree import TreeDocument, TreePhase
from naslab.results.run import MemoryBlobs
from naslab.results.store import Store
from naslab.text.messages import safe_argv


def measure(tmp_path: Path, target: str, code: int = 0, **options: Any) -> Run:
    """The run of `naslab tree`."""
    store = tmp_path / "store.sqlite"
    common = CommonArguments(timeout=options.pop("timeout", "30s"), store=store, quiet=True)
    given = {"fan_out": 3, "files": 40, **options}
    assert run_tree(TreeArguments(target, **given, common=common)) == code
    return Store(store).load("last")


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("workers", [1, 3])
def test_every_folder_and_file_belongs_to_one_worker(shared: bool, workers: int) -> None:
    found = shares(TreeOptions(3, 4, 100, 10, workers=workers, shared=shared), "top")
    trees = 1 if shared else workers
    folders = Counter(path for share in found for path in share.folders)
    files = Counter(path for share in found for path, _ in share.files)
    assert set(folders.values()) == set(files.values()) == {1}
    assert len(folders) == trees * (1 + 4 + 16 + 64) and len(files) == trees * 100
    assert items(TreeOptions(3, 4, 100, 10, workers=workers, shared=shared)) == (len(folders), len(files))
    for share in found:
        known = {"top"} if shared else set()
        for path in share.folders:
            known.add(path)
            parent = path.rpartition("/")[0]
            assert parent in known or parent in ("", "top"), "parents first, made by the same worker"
    assert {path.rpartition("/")[0] for path in files} == set(folders), "files in all folders"


def test_sizes() -> None:
    (fixed,) = shares(TreeOptions(0, 1, 50, 4096), "t")
    assert {size for _, size in fixed.files} == {4096}
    options = TreeOptions(0, 1, 20_000, 10_000, lognormal=True, seed=3)
    (spread,) = shares(options, "t")
    sizes = sorted(size for _, size in spread.files)
    assert sum(sizes) / len(sizes) == pytest.approx(10_000, rel=0.1)
    # The median of a lognormal distribution lies exp(sigma^2 / 2) below its mean.
    assert sizes[10_000] == pytest.approx(10_000 / 2.718**1.125, rel=0.05)
    assert shares(options, "t") == [spread], "the same seed, the same files"


def test_rates_of_a_known_server(tmp_path: Path) -> None:
    """1 ms for each call, half more for those on metadata but for opens: a create is an open, a write and a close."""
    run = measure(tmp_path, "sim:?latency_ns=1ms&metadata_ns=500us", repeat=2)
    rows = {row["op"]: row for row in run.document["tree"]["phases"]}
    assert list(rows) == list(PHASES)
    for op, row in rows.items():
        # 13 folders, and one above them that is not looked at or renamed.
        per_folder = {"mkdir": 14, "rmdir": 14, "stat_dir": 13, "readdir": 13, "rename_dir": 13}
        assert row["count"] == per_folder.get(op, 40) and row["repeats"] == 2 and row["caches"] == "warm"
        item_ns = {"create": 3.5e6, "read": 3.5e6, "open_close": 2.5e6}.get(op, 1.5e6)
        call_ns = 1e6 if op in ("create", "read", "open_close") else 1.5e6
        for quantile in ("p50", "p99"):
            assert row[f"latency_ns_{quantile}"] == pytest.approx(call_ns, rel=0.01), op
        assert row["ops_per_s"] == pytest.approx(1e9 / item_ns, rel=0.01), op
    for op in ("create", "read"):
        (cell,) = [cell for cell in run.cells if cell["op"] == op and cell["block"] == 0]
        assert cell["bytes"] == 40 * 4096 and cell["errors"] == 0


@pytest.mark.parametrize("options", [
    {}, {"workers": 3}, {"workers": 3, "shared": True, "sizes": "lognormal"}, {"file_size": "0", "depth_of_tree": 0},
    {"workers": 2, "shared": True, "fan_out": 1, "files": 1}, {"file_size": "3m", "files": 3, "repeat": 2},
    {"workers": 4, "neighbour": 2, "shuffle": True}, {"workers": 3, "shared": True, "neighbour": 1, "shuffle": True},
    {"depth_of_tree": 0, "shared": True}, {"depth_of_tree": 4, "fan_out": 2, "cold": True, "cold_command": "true"},
])  # fmt: skip
def test_a_folder_is_left_as_it_was(options: dict[str, Any], tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir()
    run = measure(tmp_path, str(target), **options)
    assert run.document["status"] == "complete"
    assert all(cell["errors"] == 0 for cell in run.cells), [cell["first_error"] for cell in run.cells]
    left_out = {"read"} if options.get("file_size") == "0" else set()
    if options.get("depth_of_tree") == 0 and options.get("shared"):
        left_out.add("rename_dir")
    planned = [op for op in PHASES if op not in left_out]
    if options.get("cold"):
        planned[planned.index("rename") : planned.index("rename")] = [*LOOKS, "stat"]
    assert [cell["op"] for cell in run.cells] == planned * options.get("repeat", 1)
    assert list(target.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"depth_of_tree": 20, "fan_out": 10}, "--depth-of-tree 20 --fan-out 10"),
        ({"file_size": "1g"}, "--file-size"),
        ({"file_size": "0", "sizes": "lognormal"}, "--sizes lognormal"),
        ({"sizes": "odd"}, "--sizes 'odd'"),
        ({"neighbour": 1}, "--neighbour 1: with --workers 1 .* more --workers"),
        ({"neighbour": 4, "workers": 2}, "--neighbour 4: with --workers 2 .* give 1 to 1"),
        ({"cold_command": "true"}, "--cold-command: is run before cold passes only; give --cold"),
        ({"cold": True, "cold_command": "  "}, "--cold-command: is empty"),
        ({"cold": True, "cold_command": "true"}, "--cold-command: no command reaches a simulated server"),
        ({"target": "null:", "cold": True, "cold_command": "true"}, "--cold: null: keeps nothing"),
    ],
)
def test_refused(options: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=words):
        measure(tmp_path, options.pop("target", "sim:"), **options)
    assert not (tmp_path / "store.sqlite").exists()


def test_cold_passes_of_a_folder_need_a_command(tmp_path: Path) -> None:
    """Its caches are the kernel's: they do not go with a session."""
    target = tmp_path / "target"
    target.mkdir()
    with pytest.raises(UsageError, match=r"--cold: a new session empties nothing here.*drop_caches"):
        measure(tmp_path, str(target), cold=True)
    assert list(target.iterdir()) == []


@pytest.mark.parametrize(
    ("workers", "neighbour"), [(2, 1), (2, 3), (3, 1), (3, 2), (3, 5), (4, 1), (4, 2), (4, 3), (7, 5)]
)
def test_neighbours_lead_to_others_and_further(workers: int, neighbour: int) -> None:
    options = TreeOptions(1, 2, 10, 0, workers=workers, neighbour=neighbour)
    own = shares(options, "t")
    assert [taken(options, own, op) for op in ("mkdir", "create")] == [own, own]
    before: list[Any] = []
    for op in PHASES[2:]:
        found = taken(options, own, op)
        assert sorted(part.folders for part in found) == sorted(part.folders for part in own), "all, and each once"
        assert all(part != mine for part, mine in zip(found, own, strict=True))
        others = {(at * neighbour) % workers for at in range(workers)} - {0}
        assert len(others) == 1 or found != before, "not what it looked at in the phase before"
        before = found


def test_random_order_is_that_of_looking(tmp_path: Path) -> None:
    options = TreeOptions(1, 5, 50, 0, shuffled=True, seed=1)
    (own,) = shares(options, "t")
    for op in PHASES:
        (part,) = taken(options, [own], op)
        assert (part.files != own.files) == (part.folders != own.folders) == (op in LOOKS)
        assert sorted(part.files) == sorted(own.files) and sorted(part.folders) == sorted(own.folders)
        assert taken(options, [own], op) == [part], "the same seed, the same order"


def test_where_things_are_after_renaming() -> None:
    assert renamed("t/w0/d1/f3", "t") == "t/w0.renamed/d1.renamed/f3.renamed" and renamed("t", "t") == "t"


@pytest.mark.parametrize(("cold", "state"), [("new_connection", "unknown"), ("command", "cold")])
def test_cells_of_cold_passes(cold: Any, state: str, tmp_path: Path) -> None:
    """After all that is warm, before anything changes; the same steps as before. Then all is warm again."""
    cells = tree_cells(TreeOptions(1, 2, 10, 100, cold=cold, repeat=2, shuffled=True), tmp_path)
    assert [cell.id for cell in cells] == list(range(len(cells)))
    block = [cell for cell in cells if cell.block == 0]
    first, again = PHASES.index("rename"), ["stat"] * (cold == "command")
    assert [cell.op for cell in block] == [*PHASES[:first], *LOOKS, *again, *PHASES[first:]]
    assert [cell.op for cell in block if cell.workload == WARM_UP] == again
    assert [cell.op for cell in block if cell.fresh_sessions] == list(LOOKS)
    assert all(cell.cache_state == (state if cell.fresh_sessions else "warm") for cell in block)
    for op in LOOKS:
        warm, later = (cell for cell in block if cell.op == op and cell.workload != WARM_UP)
        assert warm.script == later.script


def test_new_connections_of_a_simulated_server(tmp_path: Path) -> None:
    """It keeps nothing by connection: the same rates, said to be those of a server that was not emptied."""
    run = measure(tmp_path, "sim:?latency_ns=1ms", cold=True, repeat=6, files=20, workers=2)
    again = {row["op"]: row for row in run.document["tree"]["phases"] if row["caches"] == "new_connection"}
    assert list(again) == list(LOOKS)
    for row in again.values():
        assert row["of_warm"] == pytest.approx(1.0) and row["of_warm_ci95"] == pytest.approx([1.0, 1.0])
    (told,) = [w["message"] for w in run.document["warnings"] if w["kind"] == "server_not_cold"]
    assert "the server cache is not emptied" in told
    assert run.document["tree"]["cold"] == "new_connection" and run.document["tree"]["cold_note"] == told


def cell(op: str, state: str, block: int, duration_ns: int, **more: Any) -> dict[str, Any]:
    """A cell of 100 calls."""
    kind = {"ops": 100, "latency_ns": {"p50": 10 * duration_ns, "p99": 20 * duration_ns}}
    return {
        "op": op, "cache_state": state, "block": block, "status": "complete", "duration_ns": duration_ns,
        "kinds": {op: kind}, "workload": "tree", **more,
    }  # fmt: skip


def test_cold_beside_warm() -> None:
    """Each repeat with its own warm pass: a server that slows down in the meantime is no cold cache."""
    cells = [
        cell("stat", state, block, (10 + block) * scale)
        for block in range(6)
        for state, scale in (("warm", 10**6), ("cold", 4 * 10**6))
    ]
    cells += [cell("stat", "cold", 6, 1), cell("stat", "warm", 7, 1, status="failed")]
    cells.append(cell("stat", "warm", 8, 1, workload=WARM_UP))
    warm, cold = phases(cells)
    assert (warm.caches, warm.repeats, cold.caches, cold.repeats) == ("warm", 6, "cold", 7)
    assert cold.of_warm == pytest.approx(0.25) and cold.of_warm_ci95 == pytest.approx([0.25, 0.25])
    assert warm.ops_per_s_ci95 == pytest.approx([100e9 / 15e6, 100e9 / 10e6]), "lowest to highest of six"
    assert warm.of_warm is UNSET
    (few,) = phases(cells[:1])
    assert few.ops_per_s_ci95 is None and few.ops_per_s == pytest.approx(10_000)


def tree_of(cells: list[dict[str, Any]]) -> TreeDocument:
    return TreeDocument(
        depth=1, fan_out=2, workers=1, shared=False, mean_bytes=4096, lognormal=False, folders=3, files=9,
        cold="command", cold_note="N.", phases=phases(cells),
    )  # fmt: skip


def test_the_table_has_the_columns_that_are_needed() -> None:
    cells = [cell("stat", "warm", block, 10**6) for block in range(6)]
    alone = tree_of(cells[:1])
    assert header(alone) == ("operation", "count", "per second", "p50", "p99")
    assert list(rows(alone)) == [("stat", "100", "100,000", "10 ms", "20 ms")]
    both = tree_of([*cells, *(cell("stat", "cold", block, 4 * 10**6) for block in range(6))])
    assert header(both) == ("operation", "caches", "count", "per second", "95 %", "p50", "p99", "of warm", "95 %")
    assert [row[1:3] + row[4:5] + row[-2:] for row in rows(both)] == [
        ("warm", "100", "100,000-100,000", "-", "-"), ("cold", "100", "25,000-25,000", "25 %", "25-25"),
    ]  # fmt: skip
    assert "Of the warm rate, with cold caches: stat 25 % (95 % interval 25-25 %)." in sentences(both)
    phase = TreePhase(op="stat", count=1, repeats=1, ops_per_s=5.0, latency_ns_p50=1000, latency_ns_p99=2000)
    old = replace(alone, phases=[phase])
    assert list(rows(old)) == [("stat", "1", "5", "1 µs", "2 µs")], "a run stored before there were cold passes"


def stored(*states: str, repeats: int = 6) -> Run:
    """A run of two phases, each repeat a tenth slower than the one before; cold passes take four times as long."""
    cells = [
        cell(op, state, block, (10 + block) * 10**5 * (1 if state == "warm" else 4))
        for op in ("stat", "readdir") for state in states for block in range(repeats)
    ]  # fmt: skip
    tree = plain(tree_of(cells))
    document: Any = {"run_id": "r", "target": {"url": "sim:"}, "environment": {}, "cells": [], "tree": tree}
    return Run(document, MemoryBlobs({}))


def chart_of(*runs: Run) -> Chart:
    chart = Chart("tree", "Tree", "", ["Show"])
    fill(chart, shown(list(runs)))
    return chart


def test_the_picture() -> None:
    """Bars warm and cold with each repeat and intervals; latencies beside, below where it is narrow."""
    run = stored("warm", "cold")
    (entry,) = chart_of(run).entries
    figure = entry["figure"]
    bars = {trace["name"]: trace for trace in figure["data"] if trace["type"] == "bar"}
    assert list(bars) == ["cold", "warm"], "upwards: warm on top"
    assert bars["warm"]["y"] == ["Stat", "Readdir"] and figure["layout"]["yaxis"]["categoryarray"] == [
        "Readdir",
        "Stat",
    ]
    for name, factor in (("warm", 1), ("cold", 4)):
        rates = [100e9 / ((10 + block) * 10**5 * factor) for block in range(6)]
        middle = sorted(rates)[2] / 2 + sorted(rates)[3] / 2
        bar = bars[name]
        assert bar["x"] == pytest.approx([middle, middle], rel=1e-5)
        assert bar["error_x"]["array"] == pytest.approx([max(rates) - middle] * 2, rel=1e-4)
        assert bar["error_x"]["arrayminus"] == pytest.approx([middle - min(rates)] * 2, rel=1e-4)
        (dots,) = [trace for trace in figure["data"] if trace["name"] == f"{name}, each repeat"]
        assert dots["x"] == pytest.approx(rates * 2, rel=1e-5) and dots["y"] == ["Stat"] * 6 + ["Readdir"] * 6
        for quantile, times in (("p50", 10), ("p99", 20)):
            (points,) = [trace for trace in figure["data"] if trace["name"] == f"{name}, {quantile}"]
            # The median of 10 to 15 hundred microseconds, so many times.
            assert points["x"] == pytest.approx([times * 1.25 * factor] * 2) and points["xaxis"] == "x2"
        assert bar["marker"]["color"] in theme.DARK and bar["offsetgroup"] == dots["offsetgroup"]
    assert "25 % of the warm rate" in bars["cold"]["customdata"][0]
    wide, narrow = figure["layout"], figure["narrow"]
    assert wide["xaxis"]["domain"][1] < wide["xaxis2"]["domain"][0] and wide["yaxis2"]["domain"] == [0, 1]
    assert narrow["xaxis"]["domain"] == narrow["xaxis2"]["domain"] == [0, 1] and narrow["height"] > wide["height"]
    assert narrow["yaxis2"]["domain"][1] < narrow["yaxis"]["domain"][0]
    assert "25 % (95 % interval 25-25 %)" in entry["caption"].replace("\N{NO-BREAK SPACE}", " ")
    table = section([("one", run)])
    assert table.count("<tr>") == 1 + 4 and "of warm" in table and "Readdir" in table


def test_pictures_of_several_runs() -> None:
    """Those with the same caches beside one another; a run without a tree has none."""
    other = stored("warm", repeats=1)
    chart = chart_of(stored("warm", "cold"), other, Run({**other.document, "tree": None}, MemoryBlobs({})))
    names = [entry["path"][0] for entry in chart.entries]
    assert len(names) == 3 and names[0] == "All runs, warm"
    both = [trace for trace in chart.entries[0]["figure"]["data"] if trace["type"] == "bar"]
    assert len({trace["marker"]["color"] for trace in both}) == 2
    alone = chart.entries[2]["figure"]["data"]
    assert len(alone) == 3 and "error_x" not in alone[0], "of one repeat: no dots and no interval"
    assert section([("none", Run({**other.document, "tree": None}, MemoryBlobs({})))]) == ""


def tree_target(tmp_path: Path) -> Path:
    """An empty folder."""
    target = tmp_path / "target"
    target.mkdir()
    return target


def test_the_command_runs_before_each_cold_pass(tmp_path: Path) -> None:
    """Once for each, when all files are there, and outside of what is measured."""
    target, seen = tree_target(tmp_path), tmp_path / "seen"
    command = f"find {target} -name 'f*' -type f | wc -l >> {seen}"
    run = measure(tmp_path, str(target), cold=True, cold_command=command, repeat=2)
    assert seen.read_text().split() == ["40"] * 2 * len(LOOKS)
    assert [cell["cache_state"] for cell in run.cells].count("cold") == 2 * len(LOOKS)
    assert run.document["tree"]["cold"] == "command" and "was not checked" in run.document["tree"]["cold_note"]


def test_a_command_that_fails_ends_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With what was measured kept, the target tidied, and neither its text nor its words in the store."""
    target, count = tree_target(tmp_path), tmp_path / "count"
    command = f"echo once >> {count}; echo said-Xq7; test $(wc -l < {count}) -lt 3 # canary-Xq7"
    run = measure(tmp_path, str(target), code=1, cold=True, cold_command=command)
    assert run.document["status"] == "failed" and list(target.iterdir()) == []
    cold = [row["op"] for row in run.document["tree"]["phases"] if row["caches"] == "cold"]
    assert cold == list(LOOKS[:2])
    (error,) = [w["message"] for w in run.document["warnings"] if w["kind"] == "error"]
    assert error == "--cold-command: exit status 1; try the command by itself"
    told = capsys.readouterr().err
    assert "--cold-command printed: said-Xq7" in told and "canary" not in told
    kept = b"".join(path.read_bytes() for path in tmp_path.glob("store.sqlite*"))
    assert b"mkdir" in kept and b"Xq7" not in kept


def test_a_command_that_hangs_is_ended_with_what_it_started(tmp_path: Path) -> None:
    target, pids = tree_target(tmp_path), tmp_path / "pids"
    command = f"sleep 600 & echo $! $$ > {pids}; sleep 600"
    run = measure(tmp_path, str(target), code=1, cold=True, cold_command=command, timeout="1s")
    (error,) = [w["message"] for w in run.document["warnings"] if w["kind"] == "error"]
    assert error == "--cold-command: not done after 1 s; raise --timeout"
    for pid in map(int, pids.read_text().split()):
        assert not alive(pid)


def test_what_a_command_leaves_running_is_not_waited_for(tmp_path: Path) -> None:
    """As a server that it starts anew, which keeps its output open."""
    target, pids = tree_target(tmp_path), tmp_path / "pids"
    run = measure(tmp_path, str(target), cold=True, cold_command=f"sleep 600 & echo $! >> {pids}", timeout="20s")
    left = list(map(int, pids.read_text().split()))
    try:
        assert run.document["status"] == "complete" and len(left) == len(LOOKS) and all(map(alive, left))
    finally:
        for pid in left:
            os.kill(pid, 9)


def alive(pid: int) -> bool:
    """Whether a process runs; one that waits to be collected does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except OSError:
        return False


def test_the_command_is_left_out_of_the_command_line() -> None:
    given = ["tree", "smb://ann:pw@nas/x", "--cold-command", "ssh nas secret", "--cold", "--cold-command=secret", "x"]
    kept = ["tree", "smb://ann:***@nas/x", "--cold-command", "***", "--cold", "--cold-command=***", "x"]
    assert safe_argv(given) == kept
    assert safe_argv(["--cold-command", "--cold-command", "--cold"]) == ["--cold-command", "***", "--cold"]
