"""The agent for Windows, under Wine: servers measured as from Linux, and the tests of what it is made of."""

from __future__ import annotations

import dataclasses
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agent_tools import SIM, by_agent, by_python, check_parts, digits, specification
from cli_tools import need
from lab_tools import need_system, own_folders
from naslab import lab
from naslab.lab.opening import open_target

ROOT = Path(__file__).parents[2]
Made = Callable[[str], tuple[Path, ...]]
pytestmark = [pytest.mark.timeout(1800), pytest.mark.usefixtures("own_folders")]  # the first test builds
__all__ = ["own_folders"]
LINKER = "x86_64-w64-mingw32-gcc"
TARGET = "x86_64-pc-windows-gnu"


@pytest.fixture(scope="module")
def wine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """What runs a program of Windows, with a disk of its own, and what Wine lacks; the environment is set for it."""
    known = ("/usr/lib/wine/wine64", shutil.which("wine64") or "")
    found = next((Path(path) for path in known if os.access(path, os.X_OK)), None)
    need(found, "Wine (apt install wine64)")
    need(shutil.which(LINKER), f"{LINKER} (apt install gcc-mingw-w64-x86-64-posix)")
    assert found is not None
    place = tmp_path_factory.mktemp("wine")
    source, library = Path(__file__).with_name("bcryptprimitives.c"), place / "bcryptprimitives.dll"
    subprocess.run([LINKER, "-shared", "-o", library, source, "-ladvapi32"], check=True)
    os.environ |= {"WINEPREFIX": str(place / "prefix"), "WINEDEBUG": "-all", "WINEPATH": str(place)}
    (place / "prefix").mkdir()
    # Wine's services start with its first program and end some seconds after the last: one stays for all tests, since a
    # program that starts while they end loses them. They keep what it says open, so it says nothing.
    silent = subprocess.DEVNULL
    with subprocess.Popen([found, "cmd"], stdin=subprocess.PIPE, stdout=silent, stderr=silent) as stays:
        subprocess.run([found, "cmd", "/c", "exit"], check=True, stdout=silent, stderr=silent)  # the disk is made
        yield found
        stays.communicate(b"exit\r\n")


@pytest.fixture
def agent(made: Made, wine: Path) -> list[str | Path]:
    """The program."""
    (path,) = (each for each in made("agent") if each.suffix == ".exe")
    return [wine, path]


def test_a_simulated_server_has_the_same_digits_as_on_linux(agent: list[str | Path]) -> None:
    spec = specification(SIM)
    assert digits(by_agent(agent, spec)[1]) == digits(by_python(spec)[1])


def test_an_nfs_server_is_measured(agent: list[str | Path]) -> None:
    with lab.running("demo") as server:
        target = open_target(server.facts["targets"]["data"])
        spec = dataclasses.replace(specification("null:"), target=target.engine_spec())
        end, cells = by_agent(agent, spec)
    assert (end["status"], end["left_behind"]) == ("complete", [])
    assert cells[1]["verified"] == {"blocks": 1024, "bad": 0, "first_bad": None}
    assert cells[1]["wire"]["received_bytes"] > 4 << 20


@pytest.mark.parametrize("query", ["", "version=3", "encrypt=on", "connections=2"])
def test_a_real_server_is_measured(agent: list[str | Path], query: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "ganesha" if query.startswith("version") else "samba"
    need_system(name)
    with lab.running(name, fast=name == "samba") as server:
        url = server.facts["targets"]["data"]
        url += ("&" if "?" in url else "?") + query if query else ""
        target = open_target(url, Path(server.credentials) if server.credentials else None)
        if target.password is not None:
            monkeypatch.setenv("NASLAB_PASSWORD", target.password.reveal())
        text = dataclasses.replace(specification("null:"), target=target.stored_spec())
        end, cells = by_agent([*server.inside(), *agent], text)
    assert (end["status"], end["left_behind"]) == ("complete", [])
    assert cells[1]["verified"]["bad"] == 0
    assert all(cell["status"] == "complete" and cell["errors"] == 0 for cell in cells)
    assert sum(cell["cpu_user_ns"] + cell["cpu_system_ns"] for cell in cells) > 0, "counted in hundredths of a second"


@pytest.mark.parametrize(
    ("words", "change", "told"),
    [
        ([], {"target": {"protocol": "local", "options": {"root": "C:\\"}}}, "target: folders are measured on Linux"),
        (["--password-fd", "3"], {}, "--password-fd 3: Windows hands no descriptors on"),
        (["no-such.json"], {}, "no-such.json"),
    ],
)  # fmt: skip
def test_what_windows_lacks_is_said(
    agent: list[str | Path], words: list[str], change: dict[str, object], told: str
) -> None:
    text = dataclasses.replace(specification(SIM), **change).to_json()  # type: ignore[arg-type]
    done = subprocess.run([*agent, "run", *words], input=text.encode(), capture_output=True, check=False)
    assert done.returncode == 2 and done.stdout == b""
    assert f"naslab-agent: {told}" in done.stderr.decode()


def test_the_tests_of_its_parts_pass(wine: Path) -> None:
    check_parts(TARGET, LINKER, wine)
