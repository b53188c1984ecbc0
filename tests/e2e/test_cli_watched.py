"""Options from files and presets, lines for programs that watch, and a word at the end of a command."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from cli_tools import SIM, Cli
from naslab.cli.build import parser_of
from naslab.cli.extras import MEASURING
from naslab.cli.option_files import PRESETS, expand

SMALL = ("sweep", SIM, "--file-size", "64k", "--record", "4k,64k", "--tests", "write,read", "--quiet")


def options_of(path: Path, text: str, *words: str, command: str = "sweep") -> list[str]:
    path.write_text(text)
    return expand(command, parser_of(command).params, ["T", "--options", str(path), *words])


def test_a_file_stands_before_the_command_line(tmp_path: Path) -> None:
    file = tmp_path / "o.toml"
    assert options_of(file, 'depth = 4\nverify = true\nlabel = ["a=1", "b=2"]\n[sweep]\ntests = ["write", "read"]\n'
                            "[tree]\nfiles = 3\n", "--depth", "2") == [
        "--depth=4", "--verify", "--label=a=1", "--label=b=2", "--tests=write,read", "T", "--depth", "2",
    ]  # fmt: skip
    assert options_of(file, "sweep = false", command="run")[0] == "--no-sweep"
    assert options_of(file, "file_size = '4k'")[0] == "--file-size=4k"


def test_the_command_line_wins(cli: Cli) -> None:
    (cli.folder / "o.toml").write_text("depth = 4\nworkers = 2\n")
    cli(*SMALL, "--options", "o.toml", "--depth", "3").ok()
    cell = cli.runs()[0]["cells"][0]
    assert (cell["queue_depth"], cell["workers"]) == (3, 2)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("dept = 4", "unknown key 'dept'; did you mean depth?"), ("[sweep]\nzzz = 1", "unknown key 'zzz'"),
        ("verify = 3", "write true or false"), ("depth = [[1]]", "write a text"), ("= 4", "correct the TOML"),
        ("options = 'x'", "unknown key 'options'"), ("depth = 'deep'", "--depth"),
    ],
)  # fmt: skip
def test_a_wrong_file_is_refused_by_name(text: str, says: str, cli: Cli) -> None:
    (cli.folder / "o.toml").write_text(text)
    done = cli(*SMALL, "--options", "o.toml").sound()
    assert done.code == 2 and says in done.err and len(done.err.splitlines()) == 1, done
    assert cli.runs() == []


def test_every_preset_is_of_options_that_there_are() -> None:
    for name in PRESETS:
        fitting = 0
        for command in MEASURING:
            try:
                words = expand(command, parser_of(command).params, ["T", "--preset", name])
            except Exception as error:
                assert "it is for" in str(error), error
                continue
            fitting += len(words) > 1
        assert fitting >= 2, name


def test_a_preset_is_measured(cli: Cli) -> None:
    cli("tree", SIM, "--preset", "office", "--files", "10", "--depth-of-tree", "0", "--quiet").ok()
    assert cli.runs()[0]["argv"].count("--preset") == 1
    done = cli("sustained", SIM, "--preset", "office").sound()
    assert done.code == 2 and "it is for apps, job, tree" in done.err


def test_live_lines(cli: Cli) -> None:
    cli(*SMALL, "--live", "live.json").ok()
    lines = [json.loads(line) for line in (cli.folder / "live.json").read_text().splitlines()]
    assert all(line["naslab_live"] == 1 and line["time_ns"] > 0 for line in lines)
    run = cli.runs()[0]
    assert lines[0]["event"] == "begun" and lines[0]["command"] == "sweep"
    assert lines[-1]["event"] == "ended" and (lines[-1]["exit_code"], lines[-1]["run_id"]) == (0, run["run_id"])
    ended = {line["cell"]: line for line in lines if line["event"] == "cell_ended"}
    assert {cell["id"]: (cell["bytes"], cell["op"]) for cell in run["cells"]} == {
        cell: (line["bytes"], line["op"]) for cell, line in ended.items()
    }
    cli(*SMALL, "--live", "live.json").ok()  # its own kind is written over
    out = cli(*SMALL, "--live", "-").ok().out
    assert json.loads(out.splitlines()[0])["event"] == "begun"
    assert "--quiet" in cli("sweep", SIM, "--live", "-").err
    assert cli(*SMALL, "--live", "/dev/null").ok().out == "" and stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_a_word_at_the_end(cli: Cli) -> None:
    script = cli.folder / "told"
    told = "$NASLAB_COMMAND $NASLAB_RUN_ID $NASLAB_EXIT_CODE $1 ${NASLAB_PASSWORD:-none}"
    script.write_text(f'#!/bin/sh\necho "{told}" > said\n')
    script.chmod(0o755)
    cli.env["NASLAB_PASSWORD"] = "secret"
    cli(*SMALL, "--notify", f"{script} 'a;b'").ok()
    assert (cli.folder / "said").read_text() == f"sweep {cli.runs()[0]['run_id']} 0 a;b none\n"
    assert cli("sweep", "/no/such", "--notify", str(script)).code == 2
    assert (cli.folder / "said").read_text() == "sweep  2  none\n"
    assert cli(*SMALL, "--notify", "bell").ok().err == "\a"
    done = cli(*SMALL, "--notify", "/no/such/program").ok()
    assert "--notify /no/such/program" in done.err
    assert cli(*SMALL, "--notify", "'").code == 2 and cli(*SMALL, "--notify", "").code in (0, 2)
