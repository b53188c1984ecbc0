"""tools/run-tests: what failed runs once more, and only what fails twice, or in another way, fails the whole."""

from __future__ import annotations

import importlib.machinery
import importlib.util
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
RUST_ONCE = """
import sys
from pathlib import Path

seen = Path("rust.seen")
first = not seen.exists()
seen.touch()
sys.exit(101 if first else 0)
"""


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The script as a module, with a folder of tests of its own and a program in the place of cargo."""
    loader = importlib.machinery.SourceFileLoader("run_tests", str(SCRIPT))
    spec = importlib.util.spec_from_loader("run_tests", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module, "CACHES", tmp_path / "caches", raising=False)
    monkeypatch.setattr(module, "PYTEST", (sys.executable, "-m", "pytest", "-q"))
    monkeypatch.setattr(module, "RUST", (sys.executable, "cargo.py"))
    return module


def outcome(tool: Any, *names: str, rust: bool = False) -> bool:
    """Whether all is well in the end, of test files of these names."""
    failures = tool.Failures()
    if rust:
        tool.run(tool.RUST, failures)
    if names:
        tool.run((*tool.PYTEST, *names), failures)
    return not tool.again(failures)


def test_what_fails_once_is_named_and_passes(tool: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "test_once.py").write_text(ONCE)
    (tmp_path / "cargo.py").write_text(RUST_ONCE)
    assert outcome(tool, "test_once.py", rust=True)
    said = capfd.readouterr().out
    told = said.partition("passed only when run again")[2]
    assert "test_once.py::test_it" in told and "the Rust tests" in told


def test_what_fails_twice_fails_the_whole(tool: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "test_once.py").write_text(ONCE)
    (tmp_path / "test_always.py").write_text("def test_it():\n    assert False\n")
    assert not outcome(tool, "test_once.py", "test_always.py")
    told = capfd.readouterr().out.partition("passed only when run again")[2]
    assert "test_once.py::test_it" in told and "test_always" not in told


def test_what_cannot_be_run_is_not_tried_again(tool: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "test_broken.py").write_text("def test_it(:\n")
    assert not outcome(tool, "test_broken.py")
    (tmp_path / "cargo.py").write_text("raise SystemExit(2)\n")
    assert not outcome(tool, rust=True)
    assert "run once more" not in capfd.readouterr().out


def test_many_failures_are_no_noise(tool: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    body = "import pytest\n\n@pytest.mark.parametrize('n', range({}))\ndef test_it(n):\n    assert False\n"
    (tmp_path / "test_many.py").write_text(body.format(tool.AGAIN + 1))
    assert not outcome(tool, "test_many.py")
    assert "run once more" not in capfd.readouterr().out
