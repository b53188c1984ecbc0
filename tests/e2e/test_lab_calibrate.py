"""`naslab lab calibrate` of real systems: what was planted is found by other tools, and what does not hold is told.

Allowances are wide (15 %), since other tests run meanwhile; tests/truth has the precise ones.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cli_tools import Cli, Done, need
from lab_tools import own_folders
from naslab.lab import systems
from naslab.lab.backends import which

pytestmark = [pytest.mark.lab, pytest.mark.usefixtures("own_folders"), pytest.mark.timeout(120)]
__all__ = ["own_folders"]
NEAR, BUSY = 0.15, 0.7
"""A busy machine reaches less than a rate allows (a guest 60 of 100 Mbit/s), but never more; a size is what it is."""
SIZES = ("server.ram", "link.mtu")
SMALL = """
what = "One disk of 30 MB/s that claims to write faster than memory does, behind 200 Mbit/s"
[[disks]]
size = "64MiB"
read = "30MB/s"
write = "90GB/s"
[server]
kind = "samba"
ram = "96MiB"
cpu = "50%"
[link]
rate = "200Mbit/s"
mtu = 4000
"""
GUEST = """
what = "A guest with one disk of 30 MB/s, the kernel's NFS server behind 100 Mbit/s with 5 ms"
backend = "uml"
[[disks]]
size = "64MiB"
read = "30MB/s"
write = "20MB/s"
[server]
kind = "knfsd"
ram = "192MiB"
[link]
rate = "100Mbit/s"
latency = "5ms"
"""


def system(folder: Path, name: str, text: str, *tools: str) -> Path:
    """A file that describes a system which can be built and calibrated here; else the test is skipped."""
    file = folder / f"{name}.toml"
    file.write_text(text)
    said = systems.said_of(systems.from_file(file))
    need(any(each.builds for each in said), f"{name}: {'; '.join(each.why_not for each in said)}")
    missing = [each for each in ("fio", *tools) if which(each) is None]
    need(not missing, ", ".join(missing))
    return file


def findings(document: Any) -> dict[str, list[Any]]:
    """By the limit's name."""
    found: dict[str, list[Any]] = {}
    for each in document["findings"]:
        found.setdefault(each["name"], []).append(each)
    return found


def check_planted(document: Any, names: dict[str, float]) -> dict[str, list[Any]]:
    """Each of these limits was planted so, was measured, and is near; nothing else was planted."""
    found = findings(document)
    assert {name for name in found if not name.startswith("path.")} == set(names)
    for name, planted in names.items():
        for each in found[name]:
            assert each["planted"] == planted
            assert each["measured"] is not None, each["note"]
            assert each["deviation"] == pytest.approx(each["measured"] / planted - 1)
            assert -(NEAR if name in SIZES else BUSY) <= each["deviation"] <= NEAR, each
            assert each["tool"] and each["command"], each
    return found


def check_ending(done: Done) -> Any:
    """The exit code says whether a part misses, as the document does."""
    document = done.sound().json()
    assert done.code == (0 if document["holds"] else 1), done.err
    return document


def test_a_native_system_is_as_planted_but_for_one_part_and_later_results_say_so(cli: Cli, tmp_path: Path) -> None:
    file = system(tmp_path, "small", SMALL, "iperf3", "smbclient", "ip")
    document = check_ending(cli("lab", "calibrate", file, "--quick", "--json", "--quiet"))
    wrong = findings(document)["disks.write"][0]
    assert wrong["verdict"] == "misses" and 0 < wrong["measured"] < 45e9, wrong
    assert not document["holds"] and "disks.write -" in document["summary"]
    document["findings"] = [each for each in document["findings"] if each["name"] != "disks.write"]
    found = check_planted(
        document,
        {"disks.read": 30e6, "server.ram": 96 << 20, "server.cpu": 0.5, "link.rate": 200e6, "link.mtu": 4000},
    )  # fmt: skip
    assert {each["at"] for each in found["link.rate"]} == {"to the server", "to the client"}
    for each in found["path.write"] + found["path.read"]:
        assert each["tool"] == "smbclient" and 0 < each["measured"] < 1.2 * 25e6, each
        assert "password" not in each["command"]
    cli("lab", "up", file, "--json").ok()
    try:
        run = cli.sweep("lab:small")
        assert "is up with its own limits" in cli("lab", "calibrate", "small", "--set", "disks.read=1MB/s").err
    finally:
        cli("lab", "down", "small").ok()
    told = {each["name"]: each for each in run["target"]["planted"]}
    assert run["target"]["calibrated_at"] == document["measured_at"]
    assert told["disks.read"]["measured"] == found["disks.read"][0]["measured"]
    assert told["disks.write"]["verdict"] == "misses"
    (warning,) = (each for each in run["warnings"] if each["kind"] == "planted_missed")
    assert "disks.write" in warning["message"]


def test_a_guest_is_as_planted(cli: Cli, tmp_path: Path) -> None:
    file = system(tmp_path, "guest", GUEST, "iperf3", "nfs-cp")
    document = check_ending(cli("lab", "calibrate", file, "--quick", "--json", "--quiet"))
    names = {"disks.read": 30e6, "disks.write": 20e6, "server.ram": 192 << 20, "link.rate": 100e6}
    latency = [each for each in document["findings"] if each["name"] == "link.latency"]
    document["findings"] = [each for each in document["findings"] if each["name"] != "link.latency"]
    found = check_planted(document, names)
    assert latency[0]["measured"] >= 5e6, "packets wait at least so long; a busy guest adds to it"
    assert found["path.read"][0]["tool"] == "nfs-cp" and found["path.read"][0]["measured"] > 0, found["path.read"]


def test_a_missing_tool_is_named_before_anything_is_built(cli: Cli) -> None:
    need(which("smbd"), "smbd")
    done = cli("lab", "calibrate", "no-such-system").sound()
    assert done.code == 2 and "no-such-system" in done.err
    folder = cli.folder / "bin"
    folder.mkdir()
    (folder / "smbd").symlink_to(str(which("smbd")))
    done = cli("lab", "calibrate", "samba", env={**cli.env, "PATH": str(folder)}).sound()
    assert done.code == 2 and "apt install smbclient" in done.err, done.err
