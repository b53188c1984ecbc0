"""What `import naslab` offers: only that, the very machinery of the command line, typed, and in notebooks."""

from __future__ import annotations

import inspect
import json
import os
import re
import signal
import subprocess
import sys
import textwrap
from datetime import timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, ClassVar

import pytest

import naslab
from cli_tools import HANG_S, SIM, Cli
from docs_pages import blocks
from fixtures_run import make_run
from naslab.api.arguments import command_line
from naslab.results import Run

SMALL: dict[str, Any] = {"kind": "sweep", "file_size": ["64k", 1 << 20], "record": "64k", "tests": ["write", "read"]}
PUBLIC = {
    "Cell", "Comparison", "Error", "Explanation", "Interrupted", "Limit", "Progress", "Run", "RunFailedError",
    "RunSummary", "StoreError", "TargetError", "UsageError", "Verdict", "__version__", "compare", "load", "measure",
    "runs",
}  # fmt: skip


@pytest.fixture
def climbed(climbed_run: Run) -> naslab.Run:
    """A `naslab run`, as `naslab.load` gives it."""
    return naslab.Run.of(climbed_run)


@pytest.fixture(autouse=True)
def own_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No test touches the user's runs."""
    path = tmp_path / "runs.sqlite"
    monkeypatch.setenv("NASLAB_STORE", str(path))
    return path


# what there is


def test_dir_shows_the_interface_and_nothing_else() -> None:
    assert dir(naslab) == sorted(PUBLIC) == sorted(naslab.__all__)
    for name in PUBLIC - {"__version__"}:
        found = getattr(naslab, name)
        assert inspect.getdoc(found), f"{name} has no docstring"
    assert issubclass(naslab.RunFailedError, naslab.Error) and issubclass(naslab.TargetError, naslab.Error)
    assert not issubclass(naslab.Interrupted, Exception), "`except Exception` must not take a Ctrl-C"
    with pytest.raises(AttributeError, match="no attribute 'measur'"):
        naslab.measur  # type: ignore[attr-defined]  # noqa: B018
    assert (Path(naslab.__file__).parent / "py.typed").is_file()


def test_every_argument_and_result_has_a_type() -> None:
    for function in (naslab.measure, naslab.load, naslab.runs, naslab.compare):
        signature = inspect.signature(function)
        assert signature.return_annotation is not inspect.Signature.empty
        assert all(each.annotation is not inspect.Parameter.empty for each in signature.parameters.values())
    for kind in (naslab.Run, naslab.Cell, naslab.Verdict, naslab.Limit, naslab.Explanation, naslab.Comparison):
        for name, member in inspect.getmembers(kind):
            if not name.startswith("_") and callable(member) and member.__qualname__.startswith(kind.__name__):
                assert inspect.getdoc(member), f"{kind.__name__}.{name} has no docstring"


def test_import_loads_nothing_heavy_and_names_stay_what_they_are() -> None:
    """A package of the same name would take the place of a function once any of its modules is imported."""
    code = """
import sys, naslab
heavy = [name for name in ("numpy", "scipy", "rich", "typer", "msgspec", "sqlite3") if name in sys.modules]
ours = [name for name in sys.modules if name.startswith("naslab.")]
assert not heavy and not ours, (heavy, ours)
import naslab.cli.app, naslab.comparison.judgement, naslab.render.report, naslab.explain.answer, naslab.render.web
for name in ("compare", "measure", "load", "runs"):
    assert type(getattr(naslab, name)).__name__ == "function", name
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=HANG_S)


# the command line's own machinery


def told(run: Run) -> list[Any]:
    """Cells without what the clock of this machine gives."""
    taken = ("start_ns", "end_ns", "start_wall_ns", "cpu_user_ns", "cpu_system_ns")
    kept = [{name: value for name, value in cell.items() if name not in taken} for cell in run.cells]
    return [[cell["op"], cell["file_bytes"], cell["bytes"], cell["duration_ns"], cell["latency_ns"]] for cell in kept]


def test_measures_what_the_command_line_measures(cli: Cli, capfd: pytest.CaptureFixture[str]) -> None:
    run = naslab.measure(SIM, **SMALL, seed=3, label={"ram": "4g"}, note="as is")
    assert capfd.readouterr() == ("", "")
    typed = ["sweep", SIM, "--file-size", "64k,1048576", "--record", "64k", "--tests", "write,read"]
    document = cli(*typed, "--seed", "3", "--json").ok().json()
    assert told(run) == told(Run(document))
    assert run.document["argv"] == [*typed, "--label", "ram=4g", "--note", "as is", "--seed", "3"]
    assert run.document["labels"] == {"ram": "4g"} and run.document["note"] == "as is"
    again = naslab.load(run.run_id)
    assert type(run) is naslab.Run is type(again) and again.document == run.document
    assert [each.run_id for each in naslab.runs()] == [run.run_id] and not naslab.runs(label="other")


def test_a_run_may_have_a_store_of_its_own(tmp_path: Path) -> None:
    run = naslab.measure("sim:", **SMALL, store=tmp_path / "other.sqlite")
    assert naslab.runs() == [] and naslab.load("last", tmp_path / "other.sqlite").run_id == run.run_id


def test_progress_is_told_to_a_function(capfd: pytest.CaptureFixture[str]) -> None:
    seen: list[naslab.Progress] = []
    run = naslab.measure(SIM, **SMALL, progress=seen.append)
    assert capfd.readouterr() == ("", "")
    done = [each.cells_done for each in seen]
    assert done == sorted(done) and done[-1] == len(run.cells) == seen[-1].cells_planned
    assert {each.cell for each in seen} == {cell.id for cell in run.cells}
    assert all(each.bytes_per_s is None or each.bytes_per_s > 0 for each in seen)
    assert re.fullmatch(r"4 of 4 cells, \d+ s: read, 1m file, 64k records: [\d.,]+ MB/s", str(seen[-1]))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "walk"}, "kind 'walk': choose run, sweep"),
        ({"kind": "sweep", "file_sise": 1}, "no such option; did you mean file_size"),
        ({"kind": "sweep", "as_json": True}, "no such option"),
        ({"kind": "sweep", "plan": True}, "for the command line only"),
        ({"kind": "sweep", "record": "12q"}, "--record: '12q' is not a size"),
        ({"kind": "sweep", "repeat": 0}, "--repeat: give at least 1"),
        ({"kind": "sweep", "repeat": "x"}, "--repeat: .*whole number"),
        ({"kind": "sweep", "direct": 3}, "--direct is a switch; give True or False"),
        ({"kind": "sweep", "budget": True}, "--budget takes a value"),
        ({"budget": "5 parsecs"}, "--budget: '5 parsecs' is not a duration"),
        ({"max_bytes": -1}, "--max-bytes"),
    ],
)
def test_a_wrong_request_is_refused_in_the_command_lines_words(
    options: dict[str, Any], message: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(naslab.UsageError, match=message):
        naslab.measure("sim:", **options)
    assert capfd.readouterr() == ("", "") and naslab.runs() == []


def test_a_target_that_is_not_there_and_a_run_that_is_not_stored(tmp_path: Path) -> None:
    with pytest.raises(naslab.Error, match="no such folder"):
        naslab.measure(tmp_path / "nowhere", budget=10)
    with pytest.raises(naslab.UsageError, match="no runs are stored"):
        naslab.load("last")


def test_a_failed_run_is_an_error_that_holds_it(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "f.toml").write_text('[[faults]]\nop = "write"\nat_op = 3\nkind = "disconnect"\n')
    with pytest.raises(naslab.RunFailedError, match=r"the run failed: 64 KiB writes") as caught:
        naslab.measure(f"sim:{tmp_path}/f.toml", kind="sweep", file_size="1m", record="64k", tests="write,read")
    assert caught.value.run.document == naslab.load("last").document
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("tree", {"files": 20}), ("job", {"jobs": "copy-in", "scale": 0.0005}), ("burst", {"size": "4m", "budget": 2}),
        ("cache size", {"size": "64m", "budget": 1}), ("curve", {"size": "4m", "step_duration": "500ms", "budget": 1}),
    ],
)  # fmt: skip
def test_kinds_that_do_not_have_every_option(kind: Any, options: dict[str, Any], tmp_path: Path) -> None:
    """`job` and `tree` have no budget: what is not given is not asked of them."""
    run = naslab.measure(tmp_path if kind == "job" else "sim:", kind=kind, **options)
    assert run.document["command"] == kind and run.cells


def test_ctrl_c_keeps_what_was_measured(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "target"
    target.mkdir()

    def stop(moment: naslab.Progress) -> None:
        if moment.bytes_per_s:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(naslab.Interrupted, match="the results so far are stored as run") as caught:
        naslab.measure(target, kind="sustained", size="4m", duration="60s", progress=stop)
    run = caught.value.run
    assert run is not None and run.document["status"] == "partial" and run.run_id in str(caught.value)
    assert naslab.load("last").run_id == run.run_id and os.listdir(target) == []
    assert capfd.readouterr() == ("", "")
    assert naslab.measure("sim:", **SMALL).cells, "and the next measurement is not disturbed"


def test_an_error_of_the_programs_own_ends_the_run(tmp_path: Path) -> None:
    def fail(moment: naslab.Progress) -> None:
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        naslab.measure("sim:", **SMALL, progress=fail)
    assert [each.status for each in naslab.runs()] == ["partial"]


def test_options_become_words() -> None:
    def words(kind: str, **options: Any) -> list[str]:
        return command_line(kind, "sim:", options)

    assert words("sweep", file_size="64k..1m", direct=False, cold=True, budget=None) == [
        "sweep", "sim:", "--file-size", "64k..1m", "--cold",
    ]  # fmt: skip
    assert words("run", sweep=False) == ["run", "sim:", "--no-sweep"] and words("run", sweep=True) == ["run", "sim:"]
    assert words("run", budget=timedelta(minutes=1, milliseconds=5)) == ["run", "sim:", "--budget", "60.005000000s"]
    assert words("run", label={"ram": "4g", "disk": 2}) == ["run", "sim:", "--label", "ram=4g", "--label", "disk=2"]
    assert words("job", jobs=["copy", "zip"], streams=2)[:6] == ["job", "sim:", "copy", "zip", "--streams", "2"]
    assert words("replay", trace=Path("t.jsonl")) == ["replay", "sim:", "t.jsonl"]
    assert command_line("run", "-odd", {"seed": 1}) == ["run", "--seed", "1", "--", "-odd"]


# results


@pytest.mark.lab
def test_a_verdict_is_that_of_explain(climbed: naslab.Run) -> None:
    verdict, limits = climbed.verdict(), climbed.document["verdict"]["limits"]
    assert [each.document() for each in verdict] == limits and len(verdict) == len(limits) > 0
    first = verdict.of("read", "large")
    assert first is not None and 0 < (first.probability or 0) <= 1 and str(verdict)
    assert first.interval is not None and first.interval[0] <= (first.value or 0) <= first.interval[1]
    found = climbed.explain()
    assert found.basis == "ladder" and found.verdict == verdict and found.advice and found.trust
    assert str(found).startswith(str(verdict)) and "What to do" in str(found)
    assert naslab.Run.of(make_run(ops=("read",), file_sizes=(1 << 20,), blocks=1)).explain().basis == "cells"


def test_cells_are_dicts_with_attributes(run: Run) -> None:
    run = naslab.Run.of(run)
    cell = run.cells[0]
    assert isinstance(cell, naslab.Cell) and isinstance(cell, dict) and run.document["cells"][0] is cell
    assert (cell.op, cell.file_bytes, cell.iops) == (cell["op"], cell["file_bytes"], cell["iops"])
    assert cell.latency_ns["p99"] == cell["latency_ns"]["p99"] and cell.workload is None
    assert json.loads(json.dumps(cell)) == cell
    cell["iops"] = None
    assert run.document["cells"][0]["iops"] is None and cell.iops is None


def test_comparison_of_runs_names_and_repeats() -> None:
    fast, slow = (make_run(blocks=5, speed=speed, run_id=f"2026112{n}-184000-x7k2") for n, speed in enumerate((1, 0.7)))
    found = naslab.compare(fast, slow, names=("before", "after"))
    assert type(found) is naslab.Comparison and found.names == ("before", "after")
    assert found.verdict == "worse" and found.ratio is not None and found.ratio < 0.95
    assert found.interval is not None and found.interval[0] < found.ratio < found.interval[1]
    assert found.sentence in str(found) and "slower than before" in found.sentence
    assert naslab.compare(slow, fast).verdict == "better"
    wide = naslab.compare([fast], [slow], margin=60)
    assert wide.verdict == "equivalent"
    stored = naslab.measure("sim:", **SMALL, repeat=4)
    other = naslab.measure("sim:?link_bytes_per_s=20MB", **SMALL, repeat=4)
    assert naslab.compare(stored.run_id, "last").rows == naslab.compare(stored, other).rows
    with pytest.raises(naslab.UsageError, match="named twice"):
        naslab.compare(fast, [slow, fast])
    with pytest.raises(naslab.UsageError, match="at least one run on each side"):
        naslab.compare([], fast)
    with pytest.raises(naslab.UsageError, match="margin=0: give a percentage"):
        naslab.compare(fast, slow, margin=0)


# notebooks


class Checked(HTMLParser):
    """Balanced, and without anything that runs or is fetched."""

    allowed: ClassVar[set[str]] = {"div", "span", "p", "ul", "li", "table", "thead", "tbody", "tr", "th", "td"}

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in self.allowed and all(name == "style" for name, _ in attrs), (tag, attrs)
        assert not any("url(" in (value or "") or "color:#" in (value or "") for _, value in attrs)
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_everything_shows_itself_in_a_notebook(climbed: naslab.Run) -> None:
    shown = climbed._repr_html_()
    assert climbed.run_id in Checked(shown).text and "more cells: run.cells" in shown
    verdict, found = climbed.verdict(), climbed.explain()
    assert all(sentence in Checked(shown).text for sentence in verdict.sentences), "the answer, not the long summary"
    assert all(limit.name in Checked(verdict._repr_html_()).text for limit in verdict)
    assert "How far to trust it" in Checked(found._repr_html_()).text
    assert "random read" in Checked(naslab.Run.of(make_run(ops=("random_read",), blocks=1)).cells[0]._repr_html_()).text
    one, two = (make_run(blocks=5, run_id=f"2026112{n}-184000-x7k2") for n in range(2))
    comparison = naslab.compare(one, two)
    assert "equivalent" in Checked(comparison._repr_html_()).text
    assert max(map(len, (shown, found._repr_html_(), comparison._repr_html_()))) < 20_000


def test_text_of_others_is_escaped() -> None:
    evil = "<script>alert(1)</script>'\"&"
    run = naslab.Run.of(make_run(ops=("read",), file_sizes=(1 << 20,), blocks=1, label=evil, run_id=evil))
    run.document["target"]["url"], run.document["summary"] = evil, [evil]
    run.cells[0].update(op=evil, workload=evil, regime=evil, warnings=[{"message": evil}])
    other = make_run(ops=("read",), file_sizes=(1 << 20,), blocks=1)
    for one in (run, run.cells[0], run.verdict(), run.explain(), naslab.compare(run, other, names=(evil, "b"))):
        shown = one._repr_html_()
        assert "<script" in Checked(shown).text and "<script" not in shown


# what the documents say


def test_the_guide_is_carried_out(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    for block in blocks("docs/guide/python.md"):
        if block.language == "python":
            exec(compile(block.text, str(block), "exec"), names)
    printed = capsys.readouterr().out
    assert "Copying large files" in printed and "is not a size" in printed and "2 of 2" in printed
    assert names["large_reads"].probability > 0 and names["rates"].shape == (2, 1)
    assert names["comparison"].verdict in ("better", "equivalent", "undecided") and names["counts"].sum() > 0


@pytest.mark.parametrize("name", ["measure", "load", "runs", "compare"])
def test_the_example_of_each_docstring_is_carried_out(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = inspect.getdoc(getattr(naslab, name)) or ""
    code = textwrap.dedent("\n".join(line for line in text.splitlines() if line.startswith("    ")))
    assert f"naslab.{name}(" in code
    before = naslab.measure("sim:", **SMALL)
    names = {"naslab": naslab, "before": before, "after": naslab.measure("sim:?link_bytes_per_s=20MB", **SMALL)}
    exec(compile(code, name, "exec"), names)
