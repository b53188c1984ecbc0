"""tools/run-tests: which test is whose; what fails is named, and nothing runs twice."""

from __future__ import annotations

import ast
import functools
import importlib.machinery
import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[2] / "tools" / "run-tests"


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The script as a module, with a folder of tests of its own."""
    loader = importlib.machinery.SourceFileLoader("run_tests", str(SCRIPT))
    spec = importlib.util.spec_from_loader("run_tests", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # pytest begins twice as fast
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module, "CACHES", tmp_path / "caches", raising=False)
    monkeypatch.setattr(module, "PYTEST", (sys.executable, "-m", "pytest", "-q"))
    return module


def failures_of(tool: Any, *names: str) -> Any:
    """What fails in test files of these names."""
    failures = tool.Failures()
    tool.run((*tool.PYTEST, *names), failures)
    return failures


def test_what_fails_is_named_and_nothing_runs_twice(tool: Any, tmp_path: Path) -> None:
    """A test that would pass the second time fails the whole: that it fails now and then is a defect."""
    (tmp_path / "test_once.py").write_text(
        "from pathlib import Path\n\nSEEN = Path(__file__).with_suffix('.seen')\n\n"
        "def test_it():\n    seen = SEEN.exists()\n    SEEN.touch()\n    assert seen\n"
    )
    (tmp_path / "test_fine.py").write_text("def test_it():\n    pass\n")
    failures = failures_of(tool, "test_once.py", "test_fine.py")
    assert failures.tests == ["test_once.py::test_it"] and not failures.whole and failures


def test_what_cannot_be_run_fails_the_whole(tool: Any, tmp_path: Path) -> None:
    (tmp_path / "test_broken.py").write_text("def test_it(:\n")
    failures = failures_of(tool, "test_broken.py")
    assert failures.whole and not failures.tests


def test_a_file_without_a_marked_test_is_no_failure(tool: Any, tmp_path: Path) -> None:
    (tmp_path / "test_plain.py").write_text("def test_it():\n    pass\n")
    failures = tool.Failures()
    tool.run((*tool.PYTEST, *tool.MARKED, "test_plain.py"), failures)
    assert not failures
    tool.run((*tool.PYTEST, "-k", "absent", "test_plain.py"), failures)
    assert failures.whole


@functools.cache
def as_it_is() -> Any:
    """The script, with the tests that there are."""
    loader = importlib.machinery.SourceFileLoader("run_tests_as_it_is", str(SCRIPT))
    spec = importlib.util.spec_from_loader("run_tests_as_it_is", loader)
    assert spec is not None
    tool = importlib.util.module_from_spec(spec)
    loader.exec_module(tool)
    return tool


def test_every_test_belongs_to_one_target() -> None:
    """What `make test` leaves out `make test-lab` runs: each file is named to both where it has tests of both."""
    tool = as_it_is()
    root = SCRIPT.parents[1] / "tests"
    own, free = tool.lab_pieces(tool.NAMED_PARTS)

    def named(pieces: list[tuple[str, ...]]) -> list[Path]:
        words = [word for piece in pieces for word in piece if word.startswith("tests/")]
        found = [root.parent / word for word in words]
        return sorted(file for path in found for file in ([path] if path.is_file() else path.glob("test_*.py")))

    parts = {
        part: sorted((root / part).glob("test_*.py"))
        for part in ("unit", "e2e", "behaviour", "hostile", "truth", "packages", "interop")
    }
    plain = sorted(parts["unit"] + parts["e2e"] + parts["behaviour"])
    assert [path for path in named(tool.quick_pieces()) if path.parent.name != "golden"] == plain
    lab = [path for path in plain if tool.LAB_MARK in path.read_text("utf-8") or path.parent.name == "behaviour"]
    others = {path for part in ("hostile", "truth", "packages", "interop") for path in parts[part]}
    assert named([*own, *free, tool.alone()]) == sorted({*lab, *others})
    assert all(piece[4:6] == tool.UNMARKED for piece in tool.quick_pieces())
    assert all(piece[4:6] == tool.MARKED for piece in [*own, *free])


def test_what_takes_longest_begins_first_and_pieces_are_alike() -> None:
    tool = as_it_is()
    seconds = {"e2e/a": 90, "e2e/b": 30, "unit/c": 30, "unit/d": 20, "unit/e": 20, "golden": 15}
    files = [f"tests/{name}.py" for name in ("e2e/a", "e2e/b", "unit/c", "unit/d", "unit/e", "unit/f")]
    pieces = tool.dealt([*files, "tests/golden"], seconds)
    assert pieces[0] == ["tests/e2e/a.py"]
    assert sorted(name for piece in pieces for name in piece) == sorted([*files, "tests/golden"])
    sums = [sum(seconds.get(name[6:].removesuffix(".py"), tool.OTHER_S) for name in piece) for piece in pieces]
    assert sums == sorted(sums, reverse=True) and max(sums[1:]) - min(sums) <= 20


def kinds_of(path: Path) -> set[str]:
    """Whether a file has tests of `make test` (quick), of `make test-lab` (lab), or both."""
    text, marked = path.read_text("utf-8"), as_it_is().LAB_MARK
    if path.parent.name in ("hostile", "truth", "packages", "interop"):
        return {"lab"}
    if re.search(rf"^pytestmark = .*{marked}\b", text, re.MULTILINE):
        return {"lab"}
    tests = [
        each for each in ast.parse(text).body if isinstance(each, ast.FunctionDef) and each.name.startswith("test_")
    ]
    lab = [each for each in tests if f"pytest.{marked}" in map(ast.unparse, each.decorator_list)]
    some = marked in text or path.parent.name == "behaviour"
    return ({"quick"} if len(lab) < len(tests) else set()) | ({"lab"} if some else set())


def test_the_page_of_promises_names_every_file_where_its_tests_run() -> None:
    page = (SCRIPT.parents[1] / "docs" / "reference" / "tests.md").read_text("utf-8")
    named: dict[str, set[str]] = {}
    for row in (line.split("|") for line in page.splitlines() if line.startswith("| ")):
        for kind, cell in zip(("quick", "lab"), row[2:4], strict=True):
            for name in re.findall(r"`(\w+/test_\w+)`", cell):
                named.setdefault(name, set()).add(kind)
    root = SCRIPT.parents[1] / "tests"
    assert named == {f"{path.parent.name}/{path.stem}": kinds_of(path) for path in root.glob("*/test_*.py")}


def test_times_are_those_of_files_that_there_are() -> None:
    tool = as_it_is()
    for name in {*tool.QUICK_S, *tool.LAB_S}:
        path = tool.ROOT / "tests" / name
        assert path.is_dir() or path.with_suffix(".py").is_file(), name


def test_a_long_step_of_the_set_up_prints_one_line_and_more_only_where_it_fails(tmp_path: Path) -> None:
    log = tmp_path / "new" / "step.log"
    noisy = ["sh", "-c", "echo one; echo two >&2; exit $0"]
    fine, failed = (
        subprocess.run(
            [SCRIPT.with_name("quietly"), log, "building", *noisy, code], capture_output=True, text=True, check=False
        )
        for code in ("0", "3")
    )
    assert (fine.returncode, fine.stdout, fine.stderr) == (0, "", "building ...\n")
    assert failed.returncode == 3 and "one\ntwo\n" in failed.stderr and str(log) in failed.stderr
    assert log.read_text() == "one\ntwo\n"
