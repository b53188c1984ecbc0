"""tools/run-tests: which test is whose; of the lab's only what fails twice, or in another way, fails the whole."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[2] / "tools" / "run-tests"
ONCE = """
from pathlib import Path

def test_it():
    seen = Path(__file__).with_suffix(".seen")
    first = not seen.exists()
    seen.touch()
    assert not first
"""


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The script as a module, with a folder of tests of its own."""
    loader = importlib.machinery.SourceFileLoader("run_tests", str(SCRIPT))
    spec = importlib.util.spec_from_loader("run_tests", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module, "CACHES", tmp_path / "caches", raising=False)
    monkeypatch.setattr(module, "PYTEST", (sys.executable, "-m", "pytest", "-q"))
    return module


def outcome(tool: Any, *names: str) -> bool:
    """Whether all is well in the end, of test files of these names."""
    failures = tool.Failures()
    tool.run((*tool.PYTEST, *names), failures)
    return not tool.again(failures)


def test_what_fails_once_is_named_and_passes(tool: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "test_once.py").write_text(ONCE)
    assert outcome(tool, "test_once.py")
    assert "test_once.py::test_it" in capfd.readouterr().out.partition("passed only when run again")[2]


def test_what_fails_twice_fails_the_whole(tool: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "test_once.py").write_text(ONCE)
    (tmp_path / "test_always.py").write_text("def test_it():\n    assert False\n")
    assert not outcome(tool, "test_once.py", "test_always.py")
    told = capfd.readouterr().out.partition("passed only when run again")[2]
    assert "test_once.py::test_it" in told and "test_always" not in told


def test_what_cannot_be_run_is_not_tried_again(tool: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "test_broken.py").write_text("def test_it(:\n")
    assert not outcome(tool, "test_broken.py")
    assert "run once more" not in capfd.readouterr().out


def test_many_failures_are_no_noise(tool: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    body = "import pytest\n\n@pytest.mark.parametrize('n', range({}))\ndef test_it(n):\n    assert False\n"
    (tmp_path / "test_many.py").write_text(body.format(tool.AGAIN + 1))
    assert not outcome(tool, "test_many.py")
    assert "run once more" not in capfd.readouterr().out


def test_a_file_without_a_marked_test_is_no_failure(tool: Any, tmp_path: Path) -> None:
    (tmp_path / "test_plain.py").write_text("def test_it():\n    pass\n")
    failures = tool.Failures()
    tool.run((*tool.PYTEST, *tool.MARKED, "test_plain.py"), failures)
    assert not failures
    tool.run((*tool.PYTEST, "-k", "absent", "test_plain.py"), failures)
    assert failures.whole


def test_every_test_belongs_to_one_target() -> None:
    """What `make test` leaves out `make test-lab` runs: each file is named to both, but for attacks and the truth."""
    loader = importlib.machinery.SourceFileLoader("run_tests_as_it_is", str(SCRIPT))
    spec = importlib.util.spec_from_loader("run_tests_as_it_is", loader)
    assert spec is not None
    tool = importlib.util.module_from_spec(spec)
    loader.exec_module(tool)
    root = SCRIPT.parents[1] / "tests"
    own, free = tool.lab_pieces(tool.PARTS)

    def named(pieces: list[tuple[str, ...]]) -> list[Path]:
        words = [word for piece in pieces for word in piece if word.startswith("tests/")]
        found = [root.parent / word for word in words]
        return sorted(file for path in found for file in ([path] if path.is_file() else path.glob("test_*.py")))

    parts = {part: sorted((root / part).glob("test_*.py")) for part in ("unit", "e2e", "behaviour", "hostile", "truth")}
    plain = sorted(parts["unit"] + parts["e2e"] + parts["behaviour"])
    assert [path for path in named(tool.quick_pieces()) if path.parent.name != "golden"] == plain
    assert named([*own, *free, tool.alone()]) == sorted(plain + parts["hostile"] + parts["truth"])
    assert all(piece[4:6] == tool.UNMARKED for piece in tool.quick_pieces())
    assert all(piece[4:6] == tool.MARKED for piece in [*own, *free])


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
