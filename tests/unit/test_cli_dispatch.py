"""Which command a line names: old names, typos, help at every width, and words accepted for each other."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from cli_tools import SIM, Cli
from naslab.cli import build, help_text
from naslab.cli.build import all_parsers, parser_of
from naslab.cli.command_list import COMMANDS, OLD_NAMES
from naslab.cli.dispatch import run_app
from naslab.cli.lookup import choose, shown
from naslab.cli.registry import PANELS, SYNONYMS
from naslab.errors import NaslabError, UsageError

SMALL = ("--file-size", "64k", "--record", "64k", "--tests", "write,read", "--quiet")


def test_nothing_is_declared_twice() -> None:
    names = [command.name for command in COMMANDS]
    assert len(set(names)) == len(names) and not set(OLD_NAMES) & set(names)
    assert all(command.panel in (*PANELS, "") and len(command.brief) <= 61 for command in COMMANDS)
    assert set(OLD_NAMES.values()) <= set(names)


def test_help_needs_neither_typer_nor_a_command() -> None:
    """What makes it quick: `python -X importtime` shows the rest."""
    code = "import sys; from naslab.cli import main; main(['--help']); print(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stderr.split())
    assert not {"typer", "click", "rich", "numpy", "naslab.cli.app", "naslab.cli.build", "naslab._engine"} & loaded
    code = code.replace("'--help'", "'runs', '--help'")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"numpy", "naslab.cli.lab", "naslab.cli.whatif", "naslab._engine"} & set(done.stderr.split())


def test_values_that_need_no_conversion_are_what_typer_makes_of_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """`build._convert_less`: by name, value and type, of every example."""
    monkeypatch.chdir(tmp_path)

    def values(parser: build.NaslabCommand, words: list[str]) -> dict[str, tuple[type, object]]:
        try:
            found = parser.make_context(parser.name, list(words)).params
        except NaslabError as error:  # of a file that the example names
            return {"error": (type(error), str(error))}
        return {key: (type(value), value) for key, value in found.items()}

    lines = [
        (each.name, example.line) for each in shown() for example in each.examples if each.where and not each.own_syntax
    ]
    spared = {name: parser_of(name) for name, _ in lines}
    monkeypatch.setattr(build, "_convert_less", lambda option: None)
    whole = {name: parser_of.__wrapped__(name) for name, _ in lines}
    for name, line in lines:
        words = shlex.split(line.partition(" > ")[0])[1 + len(name.split()) :]
        assert values(spared[name], words) == values(whole[name], words), line


def test_a_command_begins_without_what_only_some_need() -> None:
    """pydantic, of Typer; the lab; threads of linear algebra."""
    code = """import sys; from naslab import cli; sys.argv = ["naslab", "runs", "--json"]
import os, threading
try: cli.entry()
except SystemExit: pass
modules = list(sys.modules)
import numpy
print(len(os.listdir("/proc/self/task")), *modules, file=sys.stderr)"""
    usual = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    done = subprocess.run([sys.executable, "-c", code], env=usual, capture_output=True, text=True, check=True)
    threads, *loaded = done.stderr.split()
    assert not {"pydantic", "naslab.lab.server", "naslab.lab.session"} & set(loaded) and "typer" in loaded
    assert int(threads) == 1


@pytest.mark.parametrize("columns", [40, 59, 60, 80, 120])
def test_help_fits_the_terminal(columns: int) -> None:
    pages = {"": help_text.root_help(columns)}
    pages |= {each.name: help_text.group_help(each, columns) for each in shown() if not each.where}
    pages |= {name: help_text.command_help(parser, columns) for name, parser in all_parsers().items()}
    for name, page in pages.items():
        examples = page.partition("\nExamples:\n")[2].split("\n")
        for line in page.split("\n"):
            # What is typed, and single words that are longer, stay whole.
            whole = line in examples or len(line.split()) <= 2 or line.startswith("  --")
            assert len(line) <= columns or whole, f"{name}: {line}"


@pytest.mark.parametrize(("given", "used"), [("7", 40), ("100", 100), ("1000", 120), ("x", 80), ("0", 80), ("", 80)])
def test_width_is_the_terminals_within_limits(given: str, used: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", given)
    monkeypatch.setattr("os.get_terminal_size", lambda *_: (_ for _ in ()).throw(OSError()))
    assert help_text.width() == used


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["swep"], "no command 'swep'; did you mean sweep?"),
        (["chekc", "x"], "did you mean compare check?"),
        (["lab", "lst"], "no command 'lab lst'; did you mean lab list? See naslab lab --help"),
        (["reference", "cleint"], "did you mean reference client?"),
        (["help", "sustaned"], "did you mean sustained?"),
        (["zzzzzz"], "naslab --help lists them"),
        (["smb://nas/media"], "naslab run smb://nas/media"),
        (["/mnt/nas"], "naslab run /mnt/nas"),
        (["--json", "run"], "naslab COMMAND --json"),
    ],
)
def test_a_typo_is_answered_with_the_next_step(words: list[str], told: str) -> None:
    with pytest.raises(UsageError, match=r"^(no|')") as error:
        run_app(words)
    assert told in str(error.value) and "\n" not in str(error.value)


def test_a_part_that_was_mistyped_is_named(cli: Cli) -> None:
    done = cli("compare", "chekc", "x")
    assert done.code == 2 and "no run 'chekc'" in done.err and "naslab compare check --help" in done.err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("sweep", "--file-sise", "1k"), "sweep has no option --file-sise; did you mean --file-size? See naslab sweep"),
        (("compare", "check", "--basline=x"), "did you mean --baseline?"),
        (("runs", "--zzzz"), "runs has no option --zzzz; see naslab runs --help"),
        (("sustained", "sim:", "--recrod", "1k"), "did you mean --record?"),
    ],
)
def test_an_option_that_was_mistyped(words: tuple[str, ...], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_app(list(words)) == 2
    captured = capsys.readouterr()
    assert told in captured.err and captured.err.count("\n") == 1 and captured.out == ""


def test_help_and_version_in_every_form(capsys: pytest.CaptureFixture[str]) -> None:
    def printed(*words: str) -> str:
        assert run_app(list(words)) == 0
        captured = capsys.readouterr()
        assert captured.err == ""
        return captured.out

    assert printed() == help_text.BEGIN and len([x for x in help_text.BEGIN.splitlines() if x[:2] == "  "]) == 3
    assert printed("-h") == printed("--help") == printed("help")
    assert printed("version") == printed("--version") == printed("-V")
    for name in ("sweep", "compare check", "lab", "lab up", "reference", "trace record"):
        words = name.split()
        assert printed("help", *words) == printed(*words, "-h") == printed(*words, "--help")
    assert "Usage: naslab iozone" in printed("iozone", "--help") and "Examples:" in printed("help", "diskspd")


@pytest.mark.parametrize("old", OLD_NAMES)
def test_an_old_name_is_the_same_command(old: str, capsys: pytest.CaptureFixture[str]) -> None:
    choice = choose([old, "x"])
    assert choice and (choice.command.name, choice.rest, choice.old) == (OLD_NAMES[old], ["x"], old)
    assert run_app([old, "--help"]) == 0
    captured = capsys.readouterr()
    assert f"Usage: naslab {OLD_NAMES[old]} " in captured.out
    assert captured.err == (
        f"naslab: `naslab {old}` is now `naslab {OLD_NAMES[old]}`; the old name goes with the next release\n"
    )


def test_old_spellings_work_with_a_hint(cli: Cli) -> None:
    run = json.loads(cli("sweep", SIM, *SMALL, "--json", "--report", "r.html").ok().out)["run_id"]
    assert (cli.folder / "r.html").exists()
    done = cli("sweep", SIM, *SMALL, "--report=r.html").ok()
    assert done.err.splitlines() == ["naslab: --report is now --output; the old option goes with the next release"]
    done = cli("job", str(cli.target), "copy-in", "--corpus", "sources", "--scale", "0.01", "--in-flight", "2").ok()
    assert "naslab: --in-flight is now --depth; the old option goes with the next release" in done.err.splitlines()
    done = cli("explain", run, "-o", "e.html").ok()
    assert (cli.folder / "e.html").exists() and "use naslab report RUN -o FILE" in done.err.splitlines()[-1]
    done = cli("site", run, "-o", "old").ok()
    assert done.err.splitlines()[-1].startswith("naslab: `naslab site` is now `naslab export --site DIR`")
    assert cli("export", run, "--site", "new").ok().err == ""
    assert {path.name for path in (cli.folder / "old").iterdir()} == {
        path.name for path in (cli.folder / "new").iterdir()
    }
    refused = cli("check", run)
    assert refused.code == 2 and len(refused.err.splitlines()) == 1, "a refusal stays one line"
    assert cli("sweep", SIM, *SMALL, "--note", "x", "--", "--report").code == 2


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("export", "last"), "-o FILE is missing"),
        (("export", "-o", "x.csv"), "RUN is missing"),
        (("export", "last", "-o", "x.csv", "--limit", "2"), "--limit"),
        (("export", "last", "-o", "x.csv", "--site", "new"), "leave -o and --format out"),
        (("export", "--site", "new"), "no finished run"),
    ],
)
def test_exports_that_contradict_themselves(words: tuple[str, ...], told: str, cli: Cli) -> None:
    done = cli(*words)
    assert done.code == 2 and told in done.err and len(done.err.splitlines()) == 1
    assert not (cli.folder / "new").exists() and not (cli.folder / "x.csv").exists()


def test_sizes_are_accepted_for_each_other_in_every_command() -> None:
    pairs = 0
    for name, parser in all_parsers().items():
        spelled = {spelling: option.name for option in parser.params for spelling in option.opts}
        for spelling, other in SYNONYMS.items():
            assert (spelling in spelled) == (other in spelled), name
            pairs += spelling in spelled and spelled[spelling] == spelled[other]
    assert pairs >= 16
    context = parser_of("sustained").make_context("x", ["sim:", "--file-size", "1g", "--record=8k"])
    assert (context.params["size"], context.params["block"]) == ("1g", "8k")
    context = parser_of("sweep").make_context("x", ["sim:", "--size", "1g", "--block", "8k"])
    assert (context.params["file_size"], context.params["record"]) == ("1g", "8k")


def test_output_has_one_spelling() -> None:
    for name, parser in all_parsers().items():
        for option in parser.params:
            if option.param_type_name == "option" and "-o" in option.opts:
                assert parser.shown[str(option.name)] == ["--output", "-o"], name
