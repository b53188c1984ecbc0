"""A password on the command line is in nothing that naslab writes or says.

The engine's calls are answered by a simulated server here, so that whole commands run; what they were given is
looked at first: the password must have reached the engine.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from naslab import _engine
from naslab.cli import main
from naslab.targets import credentials

CANARY = "Xq7-canary-Wv2"
NAME = f"smb://ann:{CANARY}@nas/data/dir"
SMALL = ("--file-size", "64k", "--record", "64k")


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Options of every target the engine was asked for; a simulated server answers in their place."""
    given: list[Any] = []
    monkeypatch.setattr(credentials, "_taken", None)

    def simulated(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(text: str, *more: Any) -> Any:
            value = json.loads(text)
            spec = value.get("target", value)
            given.append(dict(spec["options"]))
            spec.update(protocol="sim", options={"link_bytes_per_s": 125_000_000, "latency_ns": 200_000})
            return real(json.dumps(value), *more)

        return call

    for name in ("open_run", "run", "probe", "find_folders", "clean"):
        monkeypatch.setattr(_engine, name, simulated(getattr(_engine, name)))
    return given


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("command", "written"),
    [
        (("sweep", NAME, *SMALL, "--json", "--report", "r.html", "--note", "x"), "sweep"),
        (("sweep", NAME, *SMALL), "sweep"),
        (("run", NAME, "--budget", "1s", "-o", "r.html"), "run"),
        (("iozone", "-i", "0", "-s", "64", "-r", "64", "-b", "x.xls", "-f", NAME + "/f"), "iozone"),
        (("iozone", "-i0", "-s64", "-r64", f"-f{NAME}/f", "--json"), "iozone"),
        (("sweep", NAME, *SMALL, "--plan", "--json"), ""),
        (("clean", NAME), ""),
    ],
)
def test_nothing_shows_it(
    command: tuple[str, ...], written: str, seen: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NASLAB_STORE", str(tmp_path / "store.sqlite"))
    monkeypatch.setattr(sys, "argv", ["naslab", *command])
    assert main(list(command)) == 0, capfd.readouterr().err
    said = capfd.readouterr()
    assert seen and all(options.get("password") == CANARY for options in seen)
    assert CANARY not in said.out + said.err
    for reader in (("show", "last", "--json"), ("show", "last"), ("export", "last", "-o", "e.json")) if written else ():
        assert main(list(reader)) == 0
        said = capfd.readouterr()
        assert CANARY not in said.out + said.err
        assert '"ann' in said.out or "ann@nas" in said.out or reader[0] == "export"
    files = files_of(tmp_path)
    assert bool(files) == bool(written)
    assert [name for name, contents in files.items() if CANARY.encode() in contents] == []


def test_a_warning_is_kept_with_the_run(
    seen: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("NASLAB_STORE", str(tmp_path / "store.sqlite"))
    assert main(["sweep", NAME, *SMALL, "--json", "--timeout", "7s"]) == 0
    document = json.loads(capfd.readouterr().out)
    assert "password_in_name" in {found["kind"] for found in document["warnings"]}
    assert document["target"]["url"] == "smb://ann@nas/data/dir"
    assert {options["timeout_ns"] for options in seen} == {7_000_000_000}


def test_errors_do_not_show_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: Any) -> None:
    """Refused options, and what the engine of this build says of the target."""
    monkeypatch.setattr(credentials, "_taken", None)
    monkeypatch.setenv("NASLAB_STORE", str(tmp_path / "store.sqlite"))
    monkeypatch.setenv("NASLAB_PASSWORD", CANARY)
    wrong = (
        f"smb://ann:{CANARY}/x@127.0.0.1:1/data", f"smb://ann:{CANARY}@127.0.0.1:1/data?sign=x", NAME + "?bogus=1",
        f"smb://127.0.0.1:1/data?password={CANARY}", f"http://ann:{CANARY}@nas/x", f"smb://ann:{CANARY}@127.0.0.1:1/d",
        "smb://ann@127.0.0.1:1/data", f"\\\\ann:{CANARY}@nas\\data",
    )  # fmt: skip
    for text in wrong:
        for command in (["sweep", text, *SMALL], ["doctor", text], ["clean", text], ["iozone", "-f", text + "/f"]):
            assert main(command) in (1, 2)
            said = capfd.readouterr()
            assert CANARY not in said.out + said.err, command
            assert said.err or said.out


def test_resuming_asks_for_the_password_anew(
    seen: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("NASLAB_STORE", str(tmp_path / "store.sqlite"))
    many = ("--file-size", "64k..64m", "--record", "4k", "--repeat", "50")
    assert main(["sweep", NAME, *many, "--budget", "1ms", "--quiet"]) == 0
    monkeypatch.setattr(sys, "stdin", None)
    assert main(["sweep", "--resume", "last", "--budget", "1ms", "--quiet"]) == 2
    assert "NASLAB_PASSWORD" in capfd.readouterr().err
    seen.clear()
    monkeypatch.setenv("NASLAB_PASSWORD", CANARY)
    assert main(["sweep", "--resume", "last", "--budget", "1ms", "--quiet"]) == 0
    assert seen and all(options["password"] == CANARY for options in seen)
    assert [name for name, contents in files_of(tmp_path).items() if CANARY.encode() in contents] == []
