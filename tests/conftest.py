"""Fixtures shared by all tests."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

import cli_tools
from cli_tools import Cli, Done
from naslab.results import Run
from naslab.results.store import Store

GOLDEN = Path(__file__).parent / "golden"

# Of what a shell runs in its background Ctrl-C is ignored, and so it would be of every program that tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config: pytest.Config) -> None:
    """The same examples every time, unless `--hypothesis-seed` draws others, as `make hostile` does for hours.

    They have no time limit: machines are busy, and how long one takes is no property of what it tests.
    """
    drawn = config.getoption("--hypothesis-seed") is not None
    usual = settings.get_profile(settings.get_current_profile_name())
    settings.register_profile("naslab", usual, deadline=None, derandomize=not drawn, database=None)
    settings.load_profile("naslab")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Attacks, the truth and packages take minutes or the machine's quiet: they are the lab's, whatever they need."""
    for item in items:
        if {"hostile", "truth", "packages", "interop"} & set(item.path.parts):
            item.add_marker(pytest.mark.lab)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """`cli_tools.need` asks whose the test is."""
    cli_tools.under_way[:] = [item]


@pytest.fixture(autouse=True)
def what_others_find() -> Iterator[None]:
    """A test that leaves another folder or other settings behind fails itself, not one that comes after it."""
    before = _found()
    yield
    after = _found()
    os.chdir(before[0])
    assert after == before, "left behind: use monkeypatch"


def _found() -> tuple[str, dict[str, str]]:
    """Libraries set variables of their own when they are first imported: naslab's count."""
    return os.getcwd(), {name: value for name, value in os.environ.items() if name.startswith("NASLAB_")}


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    """The real program with a store and a target folder of its own."""
    return Cli(tmp_path)


@pytest.fixture
def here(cli: Cli, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Callable[..., Done]:
    """The command in this process, with the store and the folder of `cli`: no start of a program, which takes longest.

    For what is refused, or read; a file that uses it also has commands of their own process.
    """
    monkeypatch.setenv("NASLAB_STORE", str(cli.store))
    monkeypatch.setenv("COLUMNS", cli.env["COLUMNS"])
    monkeypatch.chdir(cli.folder)

    def call(*words: object) -> Done:
        from naslab.cli import main

        capfd.readouterr()
        code = main(list(map(str, words)))
        said = capfd.readouterr()
        return Done(code, said.out, said.err).sound()

    return call


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """An empty store of its own."""
    return Store(tmp_path / "runs.sqlite")


@pytest.fixture
def parts() -> tuple[dict[str, Any], dict[int, dict[str, bytes]], Any]:
    """(document, blobs, spec) of a small synthetic sweep; see fixtures_run.make_parts."""
    from fixtures_run import make_parts

    return make_parts(ops=("write", "read", "mixed"), file_sizes=(1 << 20, 16 << 20), record_sizes=(4096, 65536))


@pytest.fixture
def run(parts: tuple[dict[str, Any], dict[int, dict[str, bytes]], Any]) -> Run:
    """The same as a Run in memory."""
    from naslab.results.run import MemoryBlobs

    return Run(parts[0], MemoryBlobs(parts[1]))  # type: ignore[arg-type]


@pytest.fixture
def golden() -> Callable[[str, str], None]:
    """Compares text with tests/golden/NAME; NASLAB_UPDATE_GOLDEN=1 writes it instead."""

    def check(name: str, text: str) -> None:
        path = GOLDEN / name
        if os.environ.get("NASLAB_UPDATE_GOLDEN") == "1":
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        expected = path.read_text(encoding="utf-8") if path.exists() else ""
        assert text == expected, f"{path} differs; if that is meant, run again with NASLAB_UPDATE_GOLDEN=1"

    return check


@pytest.fixture(scope="session")
def climbed_run(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """One `naslab run` of a simulated server, with its sweep; for reading only."""
    from naslab.cli import main
    from naslab.results.store import Store

    store = tmp_path_factory.mktemp("climbed") / "s.db"
    assert main(["run", cli_tools.SIM, "--budget", "30s", "--quiet", "--store", str(store)]) == 0
    return Store(store).load("last")
