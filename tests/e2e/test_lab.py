"""The lab with real servers: what they do, that they end, and that nothing of them is left."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

from cli_tools import HANG_S, Cli, need, wait_until
from lab_tools import HOLD, born_there, hold, left_processes, need_system, own_folders, wait_for
from naslab import lab
from naslab.client import process
from naslab.errors import TargetError
from naslab.lab import systems
from naslab.lab.readiness import answers
from naslab.lab.server import Server

pytestmark = [pytest.mark.lab, pytest.mark.usefixtures("own_folders")]
__all__ = ["own_folders"]
ROOT = Path(__file__).resolve().parents[2]
NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
NAMES = (
    "samba",
    "samba-signed",
    "samba-encrypted",
    "ganesha",
    "demo",
    "burst-disk",
    "burst-link",
    "two-links",
    "two-links-nfs",
)


def tool(program: str) -> str:
    """Where a client program lies."""
    found = shutil.which(program)
    need(found, program)
    return str(found)


def smbclient(server: Server, share: str, commands: str, *options: str, guest: bool = False) -> tuple[int, str]:
    """Exit code of smbclient, and what it said."""
    user = ["-U", "stranger%x"] if guest else ["-A", str(server.credentials)]
    words = [tool("smbclient"), f"//127.0.0.1/{share}", "-p", str(server.port), *user, *options, "-c", commands]
    done = subprocess.run(words, check=False, capture_output=True, text=True, timeout=HANG_S)
    return done.returncode, done.stdout + done.stderr


def nfs_url(server: Server, path: str, version: int = 3) -> str:
    """As libnfs's tools take it."""
    return f"nfs://127.0.0.1/{path}?nfsport={server.port}&mountport={server.mount_port}&version={version}"


def nfs(program: str, *words: str, prefix: tuple[str, ...] = ()) -> tuple[int, str]:
    """Exit code of one of libnfs's tools, and what it said."""
    done = subprocess.run(
        [*prefix, tool(program), *words], check=False, capture_output=True, text=True, timeout=HANG_S, cwd="/"
    )
    return done.returncode, done.stdout + done.stderr


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """8 MiB, twice what fits on `tiny`."""
    path = tmp_path / "large"
    path.write_bytes(os.urandom(8 << 20))
    return path


# what they do


def test_shares_of_samba(large: Path) -> None:
    need_system("samba")
    with lab.running("samba") as server:
        for share in ("data", "secret", "public"):
            assert smbclient(server, share, f"put {large} f; get f /dev/null; rm f; mkdir d; rmdir d")[0] == 0, share
        code, words = smbclient(server, "readonly", f"put {large} f; get file.bin /dev/null")
        assert "ACCESS_DENIED opening remote file" in words and code == 0, words
        assert "tree connect failed: NT_STATUS_ACCESS_DENIED" in smbclient(server, "noaccess", "ls")[1]
        assert smbclient(server, "public", f"put {large} f; rm f", guest=True)[0] == 0
        assert smbclient(server, "data", "ls", guest=True)[0] == 1
        assert "LOGON_FAILURE" in smbclient(server, "data", "ls", "-U", f"{server.user}%wrong")[1]
        if "tiny" in server.targets:
            assert "NT_STATUS_DISK_FULL" in smbclient(server, "tiny", f"put {large} f")[1]


def test_dialects_and_demands_of_samba() -> None:
    need_system("samba")
    with lab.running("samba", min_dialect="2.1", max_dialect="3.0") as server:
        for dialect, works in (("SMB2_02", False), ("SMB2_10", True), ("SMB3_00", True)):
            code, words = smbclient(server, "data", "ls", f"--option=client max protocol={dialect}")
            assert (code == 0) is works, words
        assert smbclient(server, "data", "ls", "--option=client min protocol=SMB3_11")[0] == 1
        assert smbclient(server, "data", "ls", "-m", "NT1", "--option=client min protocol=NT1")[0] == 1
    with lab.running("samba-encrypted") as server:
        assert smbclient(server, "data", "ls")[0] == 0
        assert smbclient(server, "data", "ls", "-m", "SMB2_10")[0] == 1


def test_exports_of_ganesha(large: Path) -> None:
    need_system("ganesha")
    with lab.running("ganesha") as server:
        assert nfs("nfs-cp", str(large), nfs_url(server, "data/f"))[0] == 0
        assert (server.data / "f").read_bytes() == large.read_bytes()
        for version in (3, 4):
            assert "file.bin" in nfs("nfs-ls", nfs_url(server, "readonly", version))[1]
            assert "ROFS" in nfs("nfs-cp", str(large), nfs_url(server, f"readonly/f{version}", version))[1]
            assert "ACCES" in nfs("nfs-cp", str(large), nfs_url(server, f"squash/f{version}", version))[1]
        assert nfs("nfs-cp", str(large), nfs_url(server, "tiny/f"))[0] != 0
        assert "4194304 f" in nfs("nfs-ls", nfs_url(server, "tiny"))[1], "full to its 4 MiB"
        assert nfs("nfs-ls", nfs_url(server, "secure"))[0] == 0
        assert nfs("nfs-ls", nfs_url(server, "readonly"), prefix=NOBODY)[0] == 0
        assert nfs("nfs-ls", nfs_url(server, "secure"), prefix=NOBODY)[0] != 0, "its port is not privileged"


def test_the_embedded_server(large: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    with lab.running("demo", mine) as server:
        assert answers(server.facts) and len(server.pids) == 1
        assert server.pids[0] != os.getpid()
        assert nfs("nfs-cp", str(large), nfs_url(server, "data/f"))[0] == 0
        assert nfs("nfs-ls", nfs_url(server, "data"))[1].split()[-2:] == [str(8 << 20), "f"]
        if os.geteuid() == 0:
            assert nfs("nfs-ls", nfs_url(server, "data"), prefix=NOBODY)[0] != 0, "another user is not served"
    assert (mine / "f").read_bytes() == large.read_bytes(), "a folder of the user stays"


def test_samba_without_root() -> None:
    """Runs as nobody, with the system's Python: one in root's home is not nobody's to run."""
    need_system("samba")
    need(os.geteuid() == 0, "root, to become nobody")
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="naslab-nobody-") as folder:
        Path(folder).chmod(0o777)
        start_as_nobody(Path(folder))
        assert list(Path(folder).glob("naslab-lab-*")) == [] and left_processes(Path(folder)) == []


def start_as_nobody(base: Path) -> None:
    """A Samba of an ordinary user, with all its shares, and its end."""
    script = base / "hold.py"
    script.write_text(
        "import naslab.lab\nwith naslab.lab.running('samba') as s: print(s.url, *s.targets, flush=True); input()"
    )
    python = "/usr/bin/python3"
    env = {
        **os.environ,
        # The system's Python has none of naslab's packages.
        "PYTHONPATH": f"{ROOT / 'python'}:{sysconfig.get_path('platlib')}",
        "PYTHONDONTWRITEBYTECODE": "1",
        "HOME": str(base),
        "TMPDIR": str(base),
    }
    words = [*NOBODY, python]
    tried = [*words, "-c", "import msgspec, naslab; from naslab.lab import running"]
    begun = subprocess.run(tried, check=False, capture_output=True, text=True, env=env, cwd="/")
    if begun.returncode:
        pytest.skip(f"nobody, or another Python than {sys.version_info[:2]}, cannot read this: {begun.stderr[-200:]}")
    with subprocess.Popen(
        [*words, str(script)], env=env, cwd="/", text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout and child.stdin
        url, *shares = child.stdout.readline().split()
        assert url.startswith("smb://nobody@127.0.0.1:") and {"data", "secret", "public"} <= set(shares)
        child.stdin.write("\n")
        child.stdin.close()
        assert child.wait(30) == 0


# that they end


@pytest.mark.parametrize("name", NAMES)
def test_a_killed_controller_takes_its_server_along(name: str) -> None:
    need_system(name)
    holder, guardian, folder, servers = hold(name)
    with holder:
        holder.send_signal(signal.SIGKILL)
    for each in (*servers, guardian):
        assert process.wait_gone(each, 20)
    assert not folder.exists()


@pytest.mark.parametrize("name", NAMES)
def test_a_killed_guardian_takes_its_server_along(name: str) -> None:
    need_system(name)
    holder, guardian, folder, servers = hold(name)
    with holder:
        assert process.send(guardian, signal.SIGKILL)
        for each in (*servers, guardian):
            assert process.wait_gone(each, 20)
        assert folder.exists()
        with lab.running("demo"):
            assert not folder.exists(), "the next one tidies up"
        holder.kill()


@pytest.mark.parametrize("moment_ms", [0, 20, 40, 60, 90, 130, 200, 300])
def test_a_controller_killed_while_it_starts(moment_ms: int, tmp_path: Path) -> None:
    name = "samba" if not systems.missing_packages(systems.system("samba")) else "demo"
    with subprocess.Popen([sys.executable, "-c", HOLD, name], stdout=subprocess.DEVNULL) as holder:
        time.sleep(0.06 + moment_ms / 1000)
        holder.kill()
    base = tmp_path / "t"
    deadline = time.monotonic() + HANG_S
    # A guardian that is still starting has no folder yet and names none: it is known by its environment.
    while (born_there(base) or left_processes(base) or list(base.glob("naslab-lab-*"))) and time.monotonic() < deadline:
        time.sleep(0.01)


# faults


@pytest.mark.parametrize("name", ["ganesha", "demo"])
def test_freeze_thaw_kill_restart(name: str) -> None:
    need_system(name)
    with lab.running(name) as server:
        (server.data / "kept").write_text("x")
        server.freeze()
        assert not answers(server.facts, 0.3)
        server.thaw()
        assert answers(server.facts, 10)
        server.kill()
        assert server.pids == [] and not server.is_up and not answers(server.facts)
        server.restart()
        assert answers(server.facts) and server.is_up and (server.data / "kept").exists()


def test_freeze_thaw_kill_restart_of_samba() -> None:
    need_system("samba")
    with lab.running("samba") as server:
        server.freeze()
        states = {Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] for pid in server.pids}
        assert states == {"T"}
        server.thaw()
        assert smbclient(server, "data", "ls")[0] == 0
        server.kill()
        assert "CONNECTION_REFUSED" in smbclient(server, "data", "ls")[1]
        server.restart()
        assert smbclient(server, "data", "ls")[0] == 0


def test_two_at_a_time() -> None:
    with lab.running("demo") as one, lab.running("demo") as two:
        assert one.port != two.port and one.folder != two.folder
        one.stop()
        assert answers(two.facts) and not answers(one.facts)


def test_a_server_that_cannot_start_says_why() -> None:
    need_system("samba")
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(TargetError, match="samba does not answer: it ended with code"),
        lab.running("samba", config={"smb ports": str(taken.getsockname()[1])}),
    ):
        raise AssertionError("it started")


# the command line


@pytest.mark.parametrize("name", NAMES)
def test_up_show_list_down(name: str, cli: Cli) -> None:
    need_system(name)
    up = cli("lab", "up", name, "--json").ok().json()
    try:
        assert up["name"] == name and up["pids"] and Path(up["folder"]).is_dir()
        assert any(process.find(pid) for pid in up["pids"])
        shown = cli("lab", "show", name, "--json").ok().json()
        assert {**shown, "pids": 0} == {**up, "pids": 0}
        listed = {each["name"]: each["url"] for each in cli("lab", "list", "--json").ok().json()["systems"]}
        assert listed[name] == up["url"] and set(NAMES) < set(listed)
        again = cli("lab", "up", name)
        assert again.code == 2 and f"{name} is up already" in again.err
        check_secrets(up, cli)
    finally:
        down = cli("lab", "down", name, "--json").ok().json()
    assert down["ended"] == [name] and not Path(up["folder"]).exists()
    assert cli("lab", "down", name).code == 2
    assert "nothing was up" in cli("lab", "down").ok().out


def check_secrets(up: dict[str, Any], cli: Cli) -> None:
    """The password is in its file, readable by its owner alone, and in no command line or output."""
    if up["password_file"] is None:
        return
    file = Path(up["password_file"])
    password = file.read_text().partition("password=")[2].strip()
    assert len(password) == 24 and file.stat().st_mode & 0o777 == 0o600
    assert password not in json.dumps(up) + cli("lab", "show", up["name"]).ok().out
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            assert password.encode() not in path.read_bytes()
        except OSError:
            continue


def test_wrong_names_and_folders(cli: Cli, tmp_path: Path) -> None:
    for words, message in (
        (("up", "windows"), "there is no system 'windows'"),
        (("show", "demo"), "demo is not up"),
        (("down", "windows"), "there is no system"),
        (("up", "demo", "--folder", tmp_path / "none"), "is not a folder"),
        (("up", "demo", "--folder", tmp_path, "--fast"), "leave one out"),
    ):
        done = cli("lab", *words).sound()
        assert done.code == 2 and message in done.err and done.out == ""
    assert cli("sweep", "lab:windows").sound().code == 2


def test_down_ends_all(cli: Cli, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "file").write_text("mine")
    names = ["demo", *(["samba"] if not systems.missing_packages(systems.system("samba")) else [])]
    for name in names:
        cli("lab", "up", name, *(["--folder", mine] if name == "demo" else [])).ok()
    assert sorted(cli("lab", "down", "--json").ok().json()["ended"]) == sorted(names)
    assert (mine / "file").read_text() == "mine"


# as targets


def target_cases() -> list[Any]:
    cases = ["samba", "samba?share=secret&dialect=3.0", "samba-signed", "samba-encrypted", "ganesha?version=3",
             "ganesha?version=4.1", "demo", "demo?fast=1", "burst-disk?disk=64m",
             "burst-link?burst=50MB/s&base=9MB/s"]  # fmt: skip
    return [pytest.param(case, id=case) for case in cases]


@pytest.mark.parametrize("case", target_cases())
def test_a_sweep_of_the_lab(case: str, cli: Cli) -> None:
    name = case.partition("?")[0]
    need_system(name)
    document = cli.sweep(f"lab:{case}", "--verify")
    assert document["status"] == "complete" and document["target"]["url"] == f"lab:{case}"
    behind = document["environment"]["lab"]
    assert behind["name"] == name and ("10.77.0.1" if name == "burst-link" else "127.0.0.1") in behind["url"]
    assert not any(cell["errors"] for cell in document["cells"])


def test_a_server_left_up_is_used_and_left(cli: Cli) -> None:
    up = cli("lab", "up", "demo", "--json").ok().json()
    try:
        document = cli.sweep("lab:demo")
        assert document["environment"]["lab"]["url"].partition("?")[0] == up["url"].partition("?")[0]
        assert cli("lab", "show", "demo", "--json").ok().json()["pids"] == up["pids"]
        assert os.listdir(up["data"]) == []
    finally:
        cli("lab", "down").ok()


def test_iozone_on_the_lab(cli: Cli) -> None:
    done = cli("iozone", "-i", "0", "-i", "1", "-s", "256k", "-r", "64k", "-f", "lab:demo/file").ok()
    assert "iozone test complete." in done.out


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_ended_command_ends_its_server(number: signal.Signals, cli: Cli, tmp_path: Path) -> None:
    child = cli.start("sweep", "lab:demo", "--file-size", "64m", "--record", "4k", "--repeat", "50")
    wait_until(lambda: cli.cells_stored() > 0, child, "a cell")
    child.send_signal(number)
    child.communicate(timeout=HANG_S)
    assert child.returncode != 0, "it was ended, and did not end by itself"
    wait_for(lambda: left_processes(tmp_path / "t") == [] and not list((tmp_path / "t").glob("naslab-lab-*")))
