"""Help, the reference and progress: complete, and as people last approved them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cli_tools import called
from naslab.cli import options
from naslab.cli.build import all_parsers
from naslab.cli.lookup import shown
from naslab.cli.manpage import man_page
from naslab.cli.progress import Progress, describe
from naslab.cli.reference import reference_page
from naslab.errors import UsageError
from naslab.spec import CellSpec

ROOT = Path(__file__).resolve().parents[2]
Golden = Callable[[str, str], None]
COMMANDS = all_parsers()


def help_of(*words: str) -> str:
    done = called((*words, "--help"), ROOT, {**os.environ, "COLUMNS": "100", "TERM": "dumb"}).ok()
    assert done.err == ""
    return "\n".join(line.rstrip() for line in done.out.splitlines()) + "\n"


def test_root_help_lists_every_command(golden: Golden) -> None:
    text = help_of()
    assert all(f"\n  {command.name} " in text for command in shown() if command.panel)
    golden("cli/naslab.txt", text)


@pytest.mark.parametrize("name", [command.name for command in shown()])
def test_help_lists_every_option(name: str, golden: Golden) -> None:
    text = help_of(*name.split())
    if name not in ("iozone", "diskspd"):
        golden(f"cli/{name.replace(' ', '-')}.txt", text)
    else:
        assert "  -i" in text and f"naslab {name} [OPTIONS]" in text
    for example in next(command for command in shown() if command.name == name).examples:
        assert f"\n  {example.line}\n" in text
    for parameter in COMMANDS[name].params if name in COMMANDS else []:
        assert parameter.help, f"{parameter.name} has no help"
        assert parameter.metavar or parameter.is_flag, f"{parameter.name} has no word for its value"
        if parameter.param_type_name == "option" and not parameter.hidden:
            assert all(option in text for option in COMMANDS[name].shown[parameter.name])


def test_reference_names_every_option() -> None:
    page = reference_page()
    for name, command in COMMANDS.items():
        part = page.split(f"# naslab {name}\n")[1].split("\n## ")[0]
        assert all(
            f"`{parameter.opts[0]}" in part or f"`{parameter.opts[0]}/" in part or parameter.metavar in part
            for parameter in command.params
            if not getattr(parameter, "hidden", False)
        )


def test_man_page_names_every_command_and_option() -> None:
    page = man_page()
    plain = page.replace("\\-", "-").replace("\\&", "")
    for command in shown():
        part = plain.split(f'.SH "NASLAB {command.name.upper()}"\n')[1].split("\n.SH ")[0]
        assert all(example.line in part for example in command.examples)
        parser = COMMANDS.get(command.name)
        for names in parser.shown.values() if parser else ():
            assert parser and (names[0] in part or names[0] in command.old_options), f"{command.name} {names}"
    assert not [line for line in page.split("\n") if line.startswith("'")]


def test_generated_pages_are_fresh() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "make-docs", "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


_OF_FILES = ("--depth", "--durability", "--repeat", "--scale", "--verify")
"""Options that say of files and streams, in `job`, what they say of blocks, workers and workloads elsewhere; `durable`
repeats cuts."""


def test_shared_options_mean_the_same_everywhere() -> None:
    """DESIGN section 4: long forms are fixed; one meaning each."""
    texts: dict[str, set[str]] = {}
    for name, command in COMMANDS.items():
        for parameter in command.params:
            if name in ("job", "durable") and parameter.opts[0] in _OF_FILES:
                continue
            if name.startswith(("lab ", "trace ")):
                continue
            if parameter.param_type_name == "option" and name not in ("runs", "compare history", "whatif", "mcp"):
                texts.setdefault(parameter.opts[0], set()).add(parameter.help)
    several = {option for option, text in texts.items() if len(text) > 1}
    # A sweep takes a list of file sizes, a tree the one of all its files; a sweep makes reads cold by itself, a tree
    # does them a second time; fsx names a run, compare makes them. whatif tells of a server that is not there;
    # audit checks by a link, report draws it; net listens for measurements, serve for browsers. apps make files
    # smaller by a scale, sustained goes up one of clients. mcp allows others to measure, within limits.
    assert several <= {"--force", "--output", "--file-size", "--cold", "--run", "--link", "--listen", "--scale"}
    measuring = {
        "--timeout", "--repeat", "--budget", "--max-bytes", "--seed", "--verify", "--store", "--json", "--quiet",
        "--depth", "--workers", "--durability", "--compress", "--dedupe", "--label", "--note",
    }  # fmt: skip
    for name in ("run", "sweep", "sustained"):
        assert measuring <= {option for parameter in COMMANDS[name].params for option in parameter.opts}


@pytest.mark.parametrize("text", ["x", "=1", " =1", ""])
def test_labels(text: str) -> None:
    assert options.parse_labels(None) == {}
    assert options.parse_labels(["a=1", " b = two=2 "]) == {"a": "1", "b": "two=2"}
    with pytest.raises(UsageError, match="--label"):
        options.parse_labels(["a=1", text])


def cell(cell_id: int = 0, **more: Any) -> CellSpec:
    return CellSpec(
        **{"op": "random_read", "file_bytes": 1 << 20, "record_bytes": 4096, "files": ["a"], **more}, id=cell_id
    )


def event(**more: Any) -> dict[str, Any]:
    return {"cell": 0, "bytes": 1 << 19, "ops": 1, "errors": 0, "elapsed_ns": 10**9, "bytes_per_s": 5e6, **more}


def test_plain_lines_when_not_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    now = 0.0
    with Progress([cell(), cell(1)], clock=lambda: now) as progress:
        hooks = progress.hooks
        assert hooks.before_cell and hooks.progress and hooks.on_cell
        hooks.before_cell(0)
        hooks.progress(event())
        assert capsys.readouterr().err == "", "nothing within the first seconds"
        now = 10.0
        hooks.progress(event())
        hooks.progress(event())
        line = "naslab: 0:10, about 38 s left; cell 1 of 2: random read, 1m file, 4k records: 5 MB/s\n"
        assert capsys.readouterr().err == line, "one line in ten seconds"
        now = 19.9
        hooks.progress(event())
        assert capsys.readouterr().err == ""
        now = 20.0
        hooks.on_cell({"id": 0, "throughput_bytes_per_s": 7e6})
        assert "naslab: 0:20, about 25 s left; cell 2 of 2: " in capsys.readouterr().err
        progress.drop([cell(), cell(1)])
        now = 30.0
        hooks.on_cell({"id": 0, "throughput_bytes_per_s": 7e6})
    assert capsys.readouterr().out == ""


def test_quiet_progress_says_nothing(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("naslab.cli.progress.PLAIN_INTERVAL_S", 0.0)
    with Progress([cell()], quiet=True) as progress:
        assert progress.hooks.progress
        progress.hooks.progress(event())
    captured = capsys.readouterr()
    assert captured.out == captured.err == ""


def test_cells_in_words() -> None:
    assert describe(cell()) == "random read, 1m file, 4k records"
    more = cell(workload="sustained", queue_depth=8, workers=2)
    assert describe(more) == "sustained random read, 1m file, 4k records, depth 8, 2 workers"
