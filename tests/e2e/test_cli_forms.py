"""Every form of a target in every command that takes one, or a file: it is measured, or refused by name.

Nothing is measured or written in place of what was named: `naslab iozone -f sim:` once measured the local folder.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import shares
from cli_tools import Cli, Done, snapshot

SMALL = ("--quiet", "--timeout", "3s")
MEASURING: dict[str, tuple[str, ...]] = {
    "run": ("run", "T", "--budget", "1s", "--no-sweep", *SMALL),
    "sweep": ("sweep", "T", "--file-size", "64k", "--record", "64k", "--tests", "write,read", *SMALL),
    "sustained": ("sustained", "T", "--size", "64k", "--block", "64k", "--bytes", "64k", *SMALL),
    "curve": ("curve", "T", "--size", "64k", "--step-duration", "500ms", "--max-rate", "20", "--budget", "2s", *SMALL),
    "profile": ("profile", "T", "--size", "1m", "--zones", "2", "--sample", "64k", "--block", "64k", *SMALL),
    "tree": ("tree", "T", "--files", "2", "--depth-of-tree", "0", *SMALL),
    "apps": ("apps", "T", "--only", "ContentCreation", "--scale", "0.0001", *SMALL),
    "job": ("job", "T", "checksum", "--corpus", "office", "--scale", "0.001", *SMALL),
    "replay": ("replay", "T", "a.trace", *SMALL),
    "durable": ("durable", "T", "--cut", "ask", "--load", "1s", *SMALL),
    "rerun": ("rerun", "last", "T", *SMALL),
    "doctor": ("doctor", "T", "--timeout", "3s"),
    "clean": ("clean", "T", "--timeout", "3s"),
    "iozone -f": ("iozone", "-i", "0", "-s", "64k", "-r", "64k", "-f", "T/file", "--quiet"),
    "iozone -f alone": ("iozone", "-i", "0", "-s", "64k", "-r", "64k", "-f", "T", "--quiet"),
    "iozone -F": ("iozone", "-t", "1", "-i", "0", "-s", "64k", "-r", "64k", "-F", "T/file", "--quiet"),
    "diskspd": ("diskspd", "-d1", "-W0", "-c64K", "-b64K", "--timeout", "3s", "T/file"),
}
LOCAL: dict[str, tuple[str, ...]] = {
    "mkfile": ("mkfile", "T/file", "--size", "4k"),
    "mkfile alone": ("mkfile", "T", "--size", "4k"),
    "job --to": ("job", "sim:", "copy-out", "--to", "T"),
    "job --source": ("job", "sim:", "copy-in", "--source", "T"),
    "--report": ("report", "last", "-o", "T"),
    "sweep --report": ("sweep", "sim:", "--report", "T"),
    "export": ("export", "last", "--format", "csv", "-o", "T"),
    "site": ("site", "-o", "T"),
    "--store": ("runs", "--store", "T"),
    "iozone --store": ("iozone", "-i", "0", "-s", "64k", "-f", "sim:", "--store", "T"),
    "iozone -b": ("iozone", "-i", "0", "-s", "64k", "-f", "sim:", "-b", "T"),
    "diskspd --store": ("diskspd", "-d1", "-c64K", "--store", "T", "sim:"),
    "--journal": ("durable", "lab:demo", "--cut", "lab", "--journal", "T"),
    "trace record --root": ("trace", "record", "--root", "T", "-o", "x.trace", "--", "true"),
    "replay TRACE": ("replay", "sim:", "T"),
    "import": ("import", "T"),
    "apps --app": ("apps", "sim:", "--app", "T"),
    "lab --folder": ("lab", "up", "demo", "--folder", "T"),
    "--credentials": ("sweep", "smb://127.0.0.1:1/x", "--credentials", "T"),
}
"""Files and folders of this machine."""
WRONG: dict[str, str] = {
    "smb:/nas/x": r"smb://nas/x",
    "smb:nas/x": r"smb://nas/x",
    "nfs:/nas/export": r"nfs://nas/export",
    "nas:/export": r"nfs://nas/export",
    r"\nasshare": r"smb://",
    "//nas/share": r"smb://host/share",
    "file:///tmp/x": r"/tmp/x",
    "published:nas4220": r"naslab show published:NAME",
    r"C:\share": r"smb://host/share",
    "smd://nas/x": r"smb://nas/x",
    "cifs://nas/x": r"smb://",
    "http://nas/x": r"smb://",
    "lab:nope": r"demo|lab:nope/file",
    "sim:nope.toml": r"sim:\?field=value",
    "null:x": r"null:",
    "smb://127.0.0.1:1/share": r"check|enable SMB there|give a file",
    "nfs://127.0.0.1:1/export?mountport=1": r"check|enable NFS there|export is missing",
}
"""What is no target, or none that answers, and what its refusal says to type or do."""
WORKING = ("sim:?link_bytes_per_s=125MB&latency_ns=200us&store_data=true", "null:", "lab:demo", "TARGET")


OWN_PROCESS = "nas:/export"
"""The form that goes to the installed program; the others are refused by its entry point in this process."""


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a store of one run, and a trace."""
    cli = Cli(tmp_path_factory.mktemp("prepared"))
    cli("sweep", "sim:", "--file-size", "64k", "--record", "64k", "--tests", "write,read", "--quiet").ok()
    (cli.folder / "a.fio").write_text("fio version 2 iolog\n/x add\n/x open\n/x write 0 4096\n/x close\n")
    cli("trace", "convert", "a.fio", "-o", "a.trace", "--quiet").ok()
    return cli.folder


@pytest.fixture
def filled(cli: Cli, prepared: Path) -> Cli:
    """A copy of it."""
    shutil.copytree(prepared, cli.folder, dirs_exist_ok=True)
    return cli


def stored(cli: Cli) -> list[str]:
    """The protocols of the targets of all stored runs, newest first."""
    return [run["target"]["protocol"] for run in cli.runs()]


def line(words: tuple[str, ...], form: str) -> list[str]:
    """The command with the form in place of T; simulated servers and the null target have no files to name."""
    whole = form.startswith(("sim:", "null:", "published:"))
    path, mark, query = form.partition("?")
    file = form if whole else f"{path}/file{mark}{query}"
    return [{"T": form, "T/file": file}.get(word, word) for word in words]


def untouched(before: dict[str, object], folder: Path) -> None:
    after = snapshot(folder)
    changed = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    assert {name for name in changed if not name.startswith("store.sqlite")} == set()


@pytest.mark.parametrize("name", MEASURING)
def test_what_is_no_target_is_refused_by_name(name: str, filled: Cli, here: Callable[..., Done]) -> None:
    before, runs = snapshot(filled.folder), stored(filled)
    for form, says in WRONG.items():
        done = (filled if form == OWN_PROCESS else here)(*line(MEASURING[name], form)).sound()
        if name == "doctor" and "127.0.0.1" in form:
            assert done.code == 1 and "FIX" in done.out, "a check-up that found something"
            continue
        assert done.code == 2, (form, done)
        lines = [each for each in done.err.strip().splitlines() if "warning:" not in each]
        assert len(lines) == 1 and re.search(says, lines[0]), (form, done.err)
        untouched(before, filled.folder)
    assert stored(filled) == runs


@pytest.mark.parametrize("name", LOCAL)
def test_a_file_of_this_machine_is_no_target(name: str, filled: Cli, here: Callable[..., Done]) -> None:
    before, runs = snapshot(filled.folder), stored(filled)
    forms = [*(form for form in WRONG if form not in (r"\nasshare", "smd://nas/x")), "sim:", "null:", "lab:demo"]
    for form in forms:
        done = (filled if form == OWN_PROCESS else here)(*line(LOCAL[name], form)).sound()
        assert done.code == 2, (form, done)
        lines = [each for each in done.err.strip().splitlines() if "warning:" not in each]
        assert len(lines) == 1 and form.partition(":")[0].lower() in lines[0].lower(), (form, done.err)
        untouched(before, filled.folder)
    assert stored(filled) == runs


LONG = ("profile", "curve", "diskspd", "run", "job")
"""Commands that measure for seconds, on each target."""
LOADING = [name for name in MEASURING if name not in ("doctor", "clean")]


@pytest.mark.parametrize("name", shares.only({*LOADING} - {*LONG}, LOADING, pytest.mark.lab))
def test_what_is_a_target_is_measured_and_nothing_else(name: str, filled: Cli) -> None:
    before = snapshot(filled.folder)
    for form in WORKING:
        if name == "durable":
            continue  # it cuts the power; test_durable
        if name == "iozone -f alone" and form in ("lab:demo", "TARGET"):
            continue
        runs = stored(filled)
        words = [word.replace("TARGET", str(filled.target)) for word in line(MEASURING[name], form)]
        done = filled(*words, coarse=True).sound()
        if done.code == 2:
            assert form.partition("?")[0] in done.err or "null" in done.err or "simulated" in done.err, (form, done)
            assert stored(filled) == runs
        else:
            assert done.code == 0 or (done.code == 4 and name == "rerun"), (form, done)
            protocol = {"sim": "sim", "nul": "null", "lab": "nfs", "TAR": "local"}[form[:3]]
            assert stored(filled)[: -len(runs)] == [protocol], form
        (filled.target / "file").unlink(missing_ok=True)  # DiskSpd keeps its files
        untouched(before, filled.folder)


def test_a_file_with_the_name_of_a_target_is_that_file(cli: Cli) -> None:
    """Who has such a file means it."""
    (cli.folder / "sim:").mkdir()
    cli("iozone", "-i", "0", "-s", "64k", "-r", "64k", "-f", "sim:/file", "--quiet").ok()
    assert cli.runs()[0]["target"]["protocol"] == "local"
