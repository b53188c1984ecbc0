"""Completion by real shells, and what they are told."""

from __future__ import annotations

import os
import pty
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cli_tools import HANG_S, Cli, need
from naslab.cli.completing import FILES, FOLDERS, SCRIPTS, candidates
from naslab.cli.lookup import shown

SETUP = {
    "bash": ("bash", "--norc", "--noprofile", "-i"),
    "zsh": ("zsh", "-f", "-i"),
    "fish": ("fish", "--no-config"),
}


def words(*typed: str) -> list[str]:
    return [word for word, _ in candidates(list(typed))]


def test_commands_and_parts() -> None:
    assert words("sw") == ["sweep"] and {"help", "version", "lab"} <= set(words(""))
    assert set(words("")) - {"help", "version"} == {command.name.split()[0] for command in shown()}
    assert words("lab", "u") == ["up"] and words("help", "reference", "") == ["client", "net", "fsx"]
    assert words("compare", "c") == ["check", FILES], "a run's file may begin like a part"
    assert not {"check", "ceiling", "net", "site"} & set(words("")), "old names are not offered"


def test_options_and_their_values(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NASLAB_STORE", str(cli.store))
    assert words("sweep", "--rec") == ["--record"] and "--report" not in words("sweep", "--re")
    assert "--record" not in words("sweep", "--record", "4k", "--rec"), "one that is given is not offered again"
    assert "--label" in words("sweep", "--label", "a=b", "--la"), "but where it may be repeated"
    assert words("sweep", "--durability", "e") == ["end", "each"]
    assert words("sweep", "--durability=e") == ["--durability=end", "--durability=each"]
    assert words("report", "-o", "x") == [FILES] and words("export", "--site", "") == [FOLDERS]
    assert words("sweep", "--note", "") == [] and words("completion", "") == ["bash", "zsh", "fish"]
    assert words("iozone", "-a", "") == [FILES]


def test_runs_and_targets(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NASLAB_STORE", str(cli.store))
    assert words("show", "") == ["last"] and not cli.store.exists(), "asking makes no store"
    run = cli.sweep("sim:")["run_id"]
    assert words("show", "") == ["last", run] and words("show", run[:9]) == [run]
    assert words("compare", run, run[:9]) == [run] and words("compare", "check", "last", "--baseline", "l") == ["last"]
    assert words("run", "si")[0] == "sim:" and FOLDERS in words("run", "")
    assert "lab:raid5" in words("run", "lab:ra") and words("whatif", "last", "x") == []
    cli.store.write_bytes(b"no store")
    assert words("show", "") == ["last"]


def test_an_unknown_shell_is_refused(cli: Cli) -> None:
    done = cli("completion", "tcsh")
    assert (done.code, done.out) == (2, "") and "tcsh" in done.err and "bash, zsh, fish" in done.err


class Terminal:
    """A shell at a terminal, whose completion is the script's."""

    def __init__(self, shell: str, folder: Path) -> None:
        (folder / "script").write_text(SCRIPTS[shell])
        (folder / "bin").mkdir()
        program = folder / "bin" / "naslab"
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m naslab "$@"\n')
        program.chmod(0o755)
        env = {"PATH": f"{program.parent}:{os.environ['PATH']}", "HOME": str(folder), "TERM": "dumb", "PS1": "> ",
               "NASLAB_STORE": str(folder / "store.sqlite"), "LC_ALL": "C.UTF-8"}  # fmt: skip
        own, theirs = pty.openpty()
        self.own = own
        self.child = subprocess.Popen(
            SETUP[shell], stdin=theirs, stdout=theirs, stderr=theirs, env=env, cwd=folder, start_new_session=True
        )
        os.close(theirs)
        ready = "autoload -U compinit; compinit -u -D; " if shell == "zsh" else ""
        self.type(f"{ready}. ./script; echo re''ady\n")
        self.until("ready")

    def type(self, text: str) -> None:
        os.write(self.own, text.encode())

    def until(self, wanted: str) -> str:
        """What was printed until it holds the text."""
        printed, end = "", time.monotonic() + HANG_S
        while wanted not in printed and time.monotonic() < end:
            if select.select([self.own], [], [], 1)[0]:
                printed += os.read(self.own, 65536).decode("utf-8", "replace")
        assert wanted in printed, printed
        return printed

    def close(self) -> None:
        self.child.kill()
        self.child.wait()
        os.close(self.own)


SHELLS = ["bash", pytest.param("zsh", marks=pytest.mark.lab)]


@pytest.mark.parametrize("shell", SHELLS)
def test_tab_in_a_real_shell(shell: str, tmp_path: Path) -> None:
    if shell != "bash":
        need(shutil.which(shell), shell)
    (tmp_path / "results.txt").write_text("x")
    terminal = Terminal(shell, tmp_path)
    try:
        for typed, completed in (
            ("naslab swee", "eep"),
            ("naslab compare rer", "run"),
            ("naslab sweep --file-s", "size"),
            ("naslab sweep sim: --durability=no", "none"),
            ("naslab run lab:gane", "esha"),
            ("naslab audit resul", ".txt"),
        ):
            terminal.type(f"{typed}\t")
            terminal.until(completed)
            terminal.type("\x15")
    finally:
        terminal.close()


@pytest.mark.lab
def test_fish_completes(tmp_path: Path) -> None:
    need(shutil.which("fish"), "fish")
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "naslab").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m naslab "$@"\n')
    (programs / "naslab").chmod(0o755)
    (tmp_path / "script").write_text(SCRIPTS["fish"])
    (tmp_path / "results.txt").write_text("x")
    for typed, completed in (
        ("naslab swee", "sweep"), ("naslab compare rer", "rerun"), ("naslab sweep --file-s", "--file-size"),
        ("naslab sweep sim: --durability no", "none"), ("naslab run lab:gane", "lab:ganesha"),
        ("naslab audit resul", "results.txt"), ("naslab ", "doctor"),
    ):  # fmt: skip
        env = {"PATH": f"{programs}:{os.environ['PATH']}", "HOME": str(tmp_path), "LC_ALL": "C.UTF-8"}
        done = subprocess.run(
            ["fish", "--no-config", "-c", f"source script; complete -C '{typed}'"], cwd=tmp_path, env=env,
            capture_output=True, text=True, timeout=HANG_S, check=True,
        )  # fmt: skip
        assert completed in [line.partition("\t")[0] for line in done.stdout.splitlines()], (typed, done)
