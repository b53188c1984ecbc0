"""Options from files and presets, lines for programs that watch, and a word at the end of a command."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from cli_tools import SIM, Cli
from naslab.cli.build import all_parsers, parser_of
from naslab.cli.lookup import shown, table
from naslab.cli.option_files import PRESETS, expand, preset_commands
from naslab.cli.registry import MEASURE

SMALL = ("sweep", SIM, "--file-size", "64k", "--record", "4k,64k", "--tests", "write,read", "--quiet")


def options_of(path: Path, text: str, *words: str, command: str = "sweep") -> list[str]:
    path.write_text(text)
    return expand(table()[command], parser_of(command).params, ["T", "--options", str(path), *words])


def test_a_file_stands_before_the_command_line(tmp_path: Path) -> None:
    file = tmp_path / "o.toml"
    assert options_of(file, 'depth = 4\nverify = true\nlabel = ["a=1", "b=2"]\n[sweep]\ntests = ["write", "read"]\n'
                            "[tree]\nfiles = 3\n", "--depth", "2") == [
        "--depth=4", "--verify", "--label=a=1", "--label=b=2", "--tests=write,read", "T", "--depth", "2",
    ]  # fmt: skip
    assert options_of(file, "sweep = false", command="run")[0] == "--no-sweep"
    assert options_of(file, "file_size = '4k'")[0] == "--file-size=4k"


@pytest.mark.lab
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
        for command in preset_commands():
            try:
                words = expand(table()[command], parser_of(command).params, ["T", "--preset", name])
            except Exception as error:
                assert "it is for" in str(error), error
                continue
            fitting += len(words) > 1
        assert fitting >= 2, name


def test_every_command_takes_options_from_files_and_says_that_it_ended() -> None:
    """None is left out, and the names mean the same everywhere."""
    for name, parser in all_parsers().items():
        options = {spelling for each in parser.params for spelling in each.opts}
        assert {"--options", "--notify"} <= options, name
        assert ("--preset" in options) == (name in preset_commands()), name
        assert ("--live" in options) == (table()[name].measures or table()[name].panel == MEASURE), name
    assert {each.name for each in shown() if each.own_syntax and each.forms} == {"iozone", "diskspd"}


def test_tables_of_commands_of_two_words(tmp_path: Path) -> None:
    file, of = tmp_path / "o.toml", "compare check"
    for text in ("[compare]\nwhy = true\n[compare.check]\nmargin = 3", '["compare check"]\nmargin = 3'):
        assert options_of(file, text, command=of)[0] == "--margin=3"
    assert options_of(file, "[compare]\nwhy = true\n[compare.check]\nmargin = 3", command="compare")[0] == "--why"


def test_the_words_of_another_program_are_its_own(tmp_path: Path) -> None:
    """`trace record PROGRAM ...`: from its name on, nothing is ours."""
    (tmp_path / "o.toml").write_text("root = '/srv'")
    entry, params = table()["trace record"], parser_of("trace record").params
    theirs = ["-o", "t.zst", "tool", "--options", "theirs.toml"]
    assert expand(entry, params, theirs) == theirs
    ours = expand(entry, params, ["--options", str(tmp_path / "o.toml"), *theirs])
    assert ours == ["--root=/srv", *theirs]


def test_commands_that_read(cli: Cli) -> None:
    cli(*SMALL).ok()
    (cli.folder / "o.toml").write_text("[show]\njson = true\n[report]\noutput = 'r.html'\n[export]\noutput = 'r.csv'\n")
    assert cli("show", "last", "--options", "o.toml").ok().json()["run_id"] == cli.runs()[0]["run_id"]
    script = cli.folder / "told"
    script.write_text('#!/bin/sh\necho "$NASLAB_COMMAND $NASLAB_EXIT_CODE" >> said\n')
    script.chmod(0o755)
    cli("report", "last", "--options", "o.toml", "--notify", str(script)).ok()
    assert (cli.folder / "r.html").is_file()
    cli("export", "last", "--options", "o.toml").ok()
    assert (cli.folder / "r.csv").is_file()
    assert cli("compare", "history", "nowhere", "--notify", str(script)).code != 0
    assert cli("compare", "last", "last", "--notify", str(script)).sound().code in (0, 2)
    told = (cli.folder / "said").read_text().splitlines()
    assert told[0] == "report 0" and told[1].startswith("compare history ") and told[2].startswith("compare ")
    done = cli("runs", "--preset", "media").sound()
    assert done.code == 2 and "naslab run TARGET --preset media" in done.err


def test_other_tools_command_lines(cli: Cli) -> None:
    """Their options by their own names; what the line has itself wins, and a wrong key is refused by name."""
    (cli.folder / "o.toml").write_text(
        '[iozone]\ni = [0, 1]\ns = "1m"\nr = "64k"\n"+n" = true\nquiet = true\n'
        '[diskspd]\nc = "1M"\nb = "64K"\nd = 1\nW = 0\nL = true\nw = 50\nquiet = true\n'
    )
    live = ("--options", "o.toml", "--live", "live.json", "--notify", "bell")
    cli("iozone", *live, "-f", SIM, "-s", "512k").ok()
    run = cli.runs()[0]
    assert {cell["file_bytes"] for cell in run["cells"]} == {512 << 10}, "the line wins over the file"
    assert {cell["record_bytes"] for cell in run["cells"]} == {64 << 10}
    lines = [json.loads(line) for line in (cli.folder / "live.json").read_text().splitlines()]
    assert lines[0]["command"] == "iozone"
    assert {line["cell"] for line in lines if line["event"] == "cell_ended"} == {cell["id"] for cell in run["cells"]}
    done = cli("diskspd", *live, "-w0", f"{SIM}#t.dat").ok()
    assert "\a" in done.err
    run = cli.runs()[0]
    assert run["cells"][-1]["op"] == "read" and run["cells"][-1]["record_bytes"] == 64 << 10
    for tool, text, says in (
        ("iozone", "[iozone]\nzz = 1", "unknown key 'zz'"), ("iozone", "[iozone]\na = 3", "write true or false"),
        ("diskspd", "[diskspd]\nstor = 'x'", "did you mean store?"),
    ):  # fmt: skip
        (cli.folder / "o.toml").write_text(text)
        done = cli(tool, "--options", "o.toml").sound()
        assert done.code == 2 and says in done.err, done
    assert cli("iozone", "--live", "-", "-a").code == 2
    assert "--options FILE.toml" in cli("diskspd").ok().out


def test_live_lines_of_commands_that_measure_several_runs(cli: Cli) -> None:
    """Targets in turns: each line says of which run it is."""
    words = ("--file-size", "64k", "--record", "64k", "--tests", "write", "--budget", "1s", "--live", "live.json")
    cli("compare", "--run", SIM, SIM.replace("200us", "400us"), *words, "--quiet").sound()
    lines = [json.loads(line) for line in (cli.folder / "live.json").read_text().splitlines()]
    ended = [line["run_id"] for line in lines if line["event"] == "cell_ended"]
    measured = {run["run_id"]: len(run["cells"]) for run in cli.runs()}
    assert {run: ended.count(run) for run in set(ended)} == measured and len(measured) == 2
    cli(*SMALL).ok()
    cli("compare", "rerun", "last", SIM, "--live", "live.json", "--quiet").sound()
    lines = [json.loads(line) for line in (cli.folder / "live.json").read_text().splitlines()]
    assert lines[0]["command"] == "compare rerun" and any(line["event"] == "cell_ended" for line in lines)


def test_a_preset_is_measured(cli: Cli) -> None:
    cli("tree", SIM, "--preset", "office", "--files", "10", "--depth-of-tree", "0", "--quiet").ok()
    assert cli.runs()[0]["argv"].count("--preset") == 1
    done = cli("sustained", SIM, "--preset", "office").sound()
    assert done.code == 2 and "it is for apps, job, run, tree" in done.err


@pytest.mark.lab
def test_what_limits_the_server_and_what_a_person_does_with_it(cli: Cli) -> None:
    """`run --preset`: the verdict, then the preset's applications, in sizes that fit the time."""
    done = cli("run", SIM, "--preset", "media", "--budget", "30s").ok()
    run = cli.runs()[0]
    apps = {one["name"]: one for one in run["apps"]["results"]}
    assert {"HDVideo_1Play", "FileCopyToNAS"} <= set(apps) and run["apps"]["scale"] < 1
    assert run["ladder"]["steps"] and run["verdict"]["limits"]
    assert not [cell for cell in run["cells"] if cell["workload"] in ("", "sustained")], "no sweep beside them"
    slowest = min(apps.values(), key=lambda one: one["median_bytes_per_s"])
    lines = done.out.splitlines()
    assert len(lines) <= 10 and any(line.startswith(f"Applications: {slowest['name']} ") for line in lines), done.out
    assert "times the rate" in " ".join(lines)
    film = apps["HDVideo_1Play"]
    assert film["needs_bytes_per_s"] < film["median_bytes_per_s"]
    assert "HDVideo_1Play" in cli("show", "last").ok().out
    cli("report", "last", "-o", "r.html").ok()
    assert "HDVideo_1Play" in (cli.folder / "r.html").read_text()
    done = cli("run", SIM, "--apps", "Filecopy", "--budget", "1s").sound()
    assert done.code == 2 and done.err.startswith("naslab: --apps 'Filecopy': no such application; did you mean ")


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
