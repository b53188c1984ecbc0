"""No output of any command replaces a file of others, and every option that names a file is known to be one or not."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from cli_tools import SIM, Cli, Done, snapshot
from naslab.cli.build import all_parsers

SMALL = ("--quiet", "--budget", "1s", "--max-bytes", "1g")
TRACE = '{"naslab_trace":1,"source":"test"}\n'
WRITERS: dict[str, tuple[str, ...]] = {
    **{f"{each} --live": (each, SIM, "--live", "FILE") for each in (
        "run", "sweep", "sustained", "burst", "curve", "profile", "tree", "apps")},
    "cache speed --live": ("cache", "speed", SIM, "--live", "FILE"),
    "cache size --live": ("cache", "size", SIM, "--live", "FILE"),
    "burst --output": ("burst", SIM, "-o", "FILE"),
    "cache speed --output": ("cache", "speed", SIM, "-o", "FILE"),
    "cache size --output": ("cache", "size", SIM, "-o", "FILE"),
    "job --live": ("job", SIM, "copy-in", "--live", "FILE"),
    "replay --live": ("replay", SIM, "a.trace", "--live", "FILE"),
    "security --live": ("security", "smb://ann@127.0.0.1:1/data", "--live", "FILE"),
    "security --output": ("security", "smb://ann@127.0.0.1:1/data", "-o", "FILE"),
    "durable --live": ("durable", "TARGET", "--cut", "ask", "--live", "FILE"),
    "compare --live": ("compare", "--run", SIM, SIM, "--live", "FILE"),
    "compare rerun --live": ("compare", "rerun", "last", SIM, "--live", "FILE"),
    "lab run --live": ("lab", "run", "fast-nas", "--live", "FILE"),
    "reference net --live": ("reference", "net", "127.0.0.1:9", "--live", "FILE"),
    "run --output": ("run", SIM, "-o", "FILE"),
    "sweep --output": ("sweep", SIM, "-o", "FILE"),
    "sustained --output": ("sustained", SIM, "-o", "FILE"),
    "curve --output": ("curve", SIM, "-o", "FILE"),
    "profile --output": ("profile", SIM, "-o", "FILE"),
    "apps --output": ("apps", SIM, "-o", "FILE"),
    "apps --csv": ("apps", SIM, "--csv", "FILE"),
    "replay --output": ("replay", SIM, "a.trace", "-o", "FILE"),
    "job --output": ("job", SIM, "copy-in", "-o", "FILE"),
    "tree --output": ("tree", SIM, "-o", "FILE"),
    "durable --output": ("durable", "TARGET", "--cut", "manual", "-o", "FILE"),
    "durable --journal": ("durable", "lab:demo", "--cut", "lab", "--journal", "FILE"),
    "compare rerun --output": ("compare", "rerun", "last", SIM, "-o", "FILE"),
    "report --output": ("report", "last", "-o", "FILE"),
    "explain --output": ("explain", "last", "-o", "FILE"),
    "compare --output": ("compare", "last", "last", "-o", "FILE"),
    "compare check --output": ("compare", "check", "last", "--baseline", "last", "-o", "FILE"),
    "compare check --junit": ("compare", "check", "last", "--baseline", "last", "--junit", "FILE"),
    "compare history --output": ("compare", "history", "sim", "-o", "FILE"),
    "site --output": ("site", "-o", "FILE"),
    "lab run --state": ("lab", "run", "fast-nas", "--state", "FILE"),
    "lab run --output": ("lab", "run", "fast-nas", "-o", "FILE"),
    "trace record --output": ("trace", "record", "-o", "FILE", "--", "true"),
    "trace convert --output": ("trace", "convert", "a.fio", "-o", "FILE"),
    "trace show --output": ("trace", "show", "a.trace", "-o", "FILE.html"),
    "trace show --emit-app": ("trace", "show", "a.trace", "--emit-app", "FILE.toml"),
    "mkfile PATH": ("mkfile", "FILE", "--size", "4k"),
    "iozone -b": ("iozone", "-Rab", "FILE.xls", "-f", "made"),
    "iozone -b .xlsx": ("iozone", "-Rab", "FILE.xlsx", "-f", "made"),
    "iozone -Q": ("iozone", "-Q", "-i", "0", "-s", "64k", "-f", "made"),
    "iozone -+z": ("iozone", "-+z", "-t", "1", "-i", "0", "-s", "64k", "-r", "4k", "-F", "made"),
    **{f"export --output {each}": ("export", "last", "-o", f"FILE.{each}") for each in (
        "json", "csv", "xlsx", "parquet", "series.csv", "series.parquet", "prom", "om", "fio.json")},
}  # fmt: skip
"""Each output that a command line can name, with what precedes it. FILE is a file of somebody's."""
FIXED = {"iozone -Q": "wol.dat", "iozone -+z": "Iozone_histogram_child_0.txt"}
"""Files that IOzone names by itself, in the folder where it is."""
READ_ONLY = {
    "--agent", "--credentials", "--hosts", "--scheduler", "--ssh-key", "--remote-python", "--app", "--source",
    "--root", "--cwd", "--check", "--import", "--share", "--options", "reference fsx --trace",
}  # fmt: skip
"""Options with a file or folder that is only read."""
OWN_RULES = {
    "--store": "test_cli_bad_input and test_store: what is no store is left untouched",
    "job --to": "test_job: the folder must be new",
    "export --site": "test_web: a folder that naslab did not write is refused",
    "lab up --folder": "the folder that is served, not an output",
}


def test_every_option_that_names_a_file_is_known_here() -> None:
    """A new option with FILE or the like fails here until it is read only, an output that is tried, or has a rule."""
    unknown = []
    for name, command in all_parsers().items():
        for parameter in command.params:
            words = (parameter.metavar or "").upper()
            option = max(parameter.opts, key=len)
            if parameter.param_type_name != "option" or not any(
                each in words for each in ("FILE", "DIR", "FOLDER", "PATH", "JOURNAL", "HTML", "OUT")
            ):
                continue
            known = {option, f"{name} {option}"} & {*READ_ONLY, *OWN_RULES}
            if not known and not any(each.startswith(f"{name} {option}") for each in WRITERS):
                unknown.append(f"{name} {option} {parameter.metavar}")
    assert unknown == []


def test_every_output_has_force() -> None:
    forced = {name for name, command in all_parsers().items() for each in command.params if each.opts == ["--force"]}
    outputs = {each.rpartition(" --")[0] for each in WRITERS if " --" in each}
    assert outputs - forced == {"site"}, "a folder of others is never replaced"


OWN_PROCESS = ("run --output", "sweep --live", "export --output csv", "iozone -b", "mkfile PATH")
"""Outputs that the installed program is asked for; the others its entry point in this process."""


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a store of one run."""
    cli = Cli(tmp_path_factory.mktemp("measured"))
    cli("sweep", SIM, "--file-size", "64k", "--record", "64k", "--tests", "write,read", "--quiet").ok()
    return cli.folder


@pytest.fixture
def filled(cli: Cli, measured: Path) -> Cli:
    """A copy of it."""
    shutil.copytree(measured, cli.folder, dirs_exist_ok=True)
    return cli


def prepared(cli: Cli, name: str, content: bytes) -> tuple[Path, list[str]]:
    words = WRITERS[name]
    ending = next((word for word in words if word.startswith("FILE")), "").removeprefix("FILE")
    file = cli.folder / FIXED.get(name, f"notes{ending}")
    file.write_bytes(content)
    (cli.folder / "a.fio").write_text("fio version 2 iolog\n/x add\n/x open\n/x write 0 4096\n/x close\n")
    return file, [str(file) if word.startswith("FILE") else str(cli.target) if word == "TARGET" else word
                  for word in words]  # fmt: skip


@pytest.mark.parametrize("name", WRITERS)
def test_a_file_of_somebody_stays(name: str, filled: Cli, here: Callable[..., Done]) -> None:
    file, words = prepared(filled, name, b"kept for years\n")
    before, runs = snapshot(filled.folder), filled.runs()
    done = (filled if name in OWN_PROCESS else here)(*words).sound()
    assert done.code == 2, done
    assert len(done.err.strip().splitlines()) == 1 and str(file.name) in done.err, done.err
    assert file.read_bytes() == b"kept for years\n"
    after = snapshot(filled.folder)
    assert {name for name in before.keys() ^ after.keys() if not name.startswith("store.sqlite")} == set()
    assert filled.runs() == runs, "it is refused before anything is measured"
    if name not in ("site --output", "mkfile PATH", "durable --journal"):
        assert "--force" in done.err


@pytest.mark.parametrize(
    ("words", "again"),
    [
        (("report", "last", "-o", "FILE"), True),
        (("explain", "last", "-o", "FILE"), True),
        (("sweep", SIM, "--file-size", "64k", "--record", "64k", "--quiet", "-o", "FILE"), True),
        (("export", "last", "-o", "FILE.csv"), False),
        (("export", "last", "-o", "FILE.xlsx"), False),
        (("trace", "convert", "a.fio", "-o", "FILE.trace"), False),
        (("iozone", "-b", "FILE.xlsx", "-i", "0", "-s", "64k", "-r", "4k", "-f", "made"), True),
        (("iozone", "-b", "FILE.xls", "-i", "0", "-s", "64k", "-r", "4k", "-f", "made"), True),
    ],
)
def test_force_replaces_and_naslab_s_own_is_known_again(words: tuple[str, ...], again: bool, filled: Cli) -> None:
    """again: its own kind is replaced without --force, too."""
    (filled.folder / "a.fio").write_text("fio version 2 iolog\n/x add\n/x open\n/x write 0 4096\n/x close\n")
    file = filled.folder / ("out" + next(word for word in words if word.startswith("FILE")).removeprefix("FILE"))
    line = [str(file) if word.startswith("FILE") else word for word in words]
    file.write_bytes(b"kept for years\n")
    assert filled(*line).code == 2
    filled(*line, "--force").ok()
    first = file.read_bytes()
    assert first != b"kept for years\n"
    done = filled(*line)
    assert (done.code == 0) is again, done
    if not again:
        assert file.read_bytes() == first and "--force" in done.err


def test_devices_are_written_to_and_stay(filled: Cli) -> None:
    for words in (("report", "last", "-o"), ("sweep", SIM, "--file-size", "64k", "--quiet", "--report"),
                  ("export", "last", "--format", "csv", "-o")):  # fmt: skip
        filled(*words, "/dev/null").ok()
        assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_standard_output_is_refused_by_name(filled: Cli) -> None:
    for words in (("report", "last"), ("explain", "last"), ("sweep", SIM), ("export", "last")):
        done = filled(*words, "-o", "-").sound()
        assert done.code == 2 and "name" in done.err, done
    assert not (filled.folder / "-").exists()
