"""What tests of the lab share: who is left, and what is."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cli_tools import need
from naslab.client import process
from naslab.client.procs import machine_ticks
from naslab.errors import UsageError
from naslab.lab import loops, systems, throttle
from naslab.lab.server import Server

HOLD = """
import sys, time, naslab.lab
with naslab.lab.running(sys.argv[1], **dict(each.split("=") for each in sys.argv[2:])) as server:
    print(server.guardian.pid, server.folder, *server.pids, flush=True)
    time.sleep(100)
"""


@pytest.fixture
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Private folders and records lie in the test's folder; at its end nothing of a server is left."""
    base = tmp_path / "t"
    base.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(base))
    monkeypatch.setenv("TMPDIR", str(base))
    monkeypatch.setattr("tempfile.tempdir", str(base))
    before = left_over()  # of programs that ended with force before this test: no fault of it
    yield
    wait_for(lambda: left_over() <= before)
    assert left_processes(base) == []
    assert [path.name for path in base.glob("naslab-lab-*")] == []
    assert mounts_below(base) == []


class Stolen:
    """Time that the host of this machine took from its processors within a block: `share` of one processor's.

    Meanwhile no part of a system carries anything; a rate may fall short of its limit by as much.
    """

    share = 0.0

    def __enter__(self) -> Stolen:
        self._before = machine_ticks()
        return self

    def __exit__(self, *_: object) -> None:
        before, after = self._before, machine_ticks()
        if before and after and after.total > before.total:
            self.share = (os.cpu_count() or 1) * (after.steal - before.steal) / (after.total - before.total)


def mounts_below(folder: Path) -> list[str]:
    """Mounts whose line names the folder; those of tests beside this one come and go."""
    return [line for line in Path("/proc/mounts").read_text().splitlines() if str(folder) in line]


def left_over() -> set[str]:
    """Devices, limits and control groups of the lab that nobody uses."""
    return lab_devices() | {*limited(lab_devices(bound=True))} | {str(path) for path in left_groups()}


def lab_devices(bound: bool = False) -> set[str]:
    """Loop devices with a number of the lab's that nobody holds any more, or those in use.

    Devices in use may be those of a lab beside this one.
    """
    found = {path.name: path for path in Path("/sys/block").glob("loop*")}
    mine = {name: path for name, path in found.items() if int(name[4:]) in loops.MINORS}
    return {name for name, path in mine.items() if (path / "loop" / "backing_file").exists() is bound}


def limited(but_for: set[str]) -> list[str]:
    """Lines of the throttle's files that limit a device of the lab, but for those that are there."""
    found = []
    for path in Path("/sys/fs/cgroup").glob("*/blkio.throttle.*_bps_device"):
        for line in (text_of(path) or "").splitlines():
            major, _, minor = line.split()[0].partition(":")
            if major == "7" and int(minor) in loops.MINORS and f"loop{minor}" not in but_for:
                found.append(line)
    return found


def left_groups() -> list[Path]:
    """Control groups of the lab that no process is in; those of a lab beside this one are in use."""
    found = Path("/sys/fs/cgroup").glob("**/naslab-lab-*")
    return [path for path in found if text_of(path / "cgroup.procs") == ""]


def text_of(path: Path) -> str | None:
    """What a file of the kernel's says; None of one that has gone: a lab beside this one ends when it likes."""
    try:
        return path.read_text()
    except OSError:
        return None


def left_processes(folder: Path) -> list[str]:
    """Command lines of living processes that name the folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(folder) in words and process.find(int(path.parent.name)) is not None:
            found.append(words)
    return found


def born_there(folder: Path) -> bool:
    """Whether a living process was started with the folder as its TMPDIR."""
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            words = path.read_bytes()
        except OSError:
            continue
        if f"TMPDIR={folder}".encode() in words.split(b"\0") and process.find(int(path.parent.name)) is not None:
            return True
    return False


def need_system(name: str) -> None:
    """Skips, or fails where the lab is required, when this machine cannot run the system."""
    missing = systems.missing_packages(systems.system(name))
    need(not missing, f"{name}: {' '.join(missing)}")
    if name in ("ganesha", "burst-disk", "burst-link", "two-links", "two-links-nfs"):
        need(os.geteuid() == 0, "root")
    if name == "burst-disk":
        try:
            loops.check()
            throttle.find("", "")
        except UsageError as error:
            need(False, str(error))


def need_parts(name: str) -> None:
    """Skips, or fails where the lab is required, when this machine cannot build the system."""
    said = systems.said_of(systems.system(name))
    need(any(each.builds for each in said), f"{name}: {'; '.join(each.why_not for each in said)}")


def inside(server: Server, script: str) -> str:
    """What a shell says where the server's disks are mounted."""
    done = subprocess.run([*server.inside(), "sh", "-ec", script], check=True, capture_output=True, text=True)
    return done.stdout


def hold(name: str) -> tuple[subprocess.Popen[str], process.Process, Path, list[process.Process]]:
    """A process that holds a server: itself, the guardian, the private folder, the server's processes."""
    holder = subprocess.Popen([sys.executable, "-c", HOLD, name], env={**os.environ}, text=True, stdout=subprocess.PIPE)
    assert holder.stdout is not None
    guardian, folder, *pids = holder.stdout.readline().split()
    found = [process.find(int(pid)) for pid in (guardian, *pids)]
    living = [each for each in found if each is not None]
    assert len(living) > 1 and living[0].pid == int(guardian), "some of the server's live for one connection only"
    return holder, living[0], Path(folder), living[1:]


def wait_for(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60  # a busy machine takes its time to end a guest
    while not condition():
        assert time.monotonic() < deadline, "a server is left"
        time.sleep(0.01)
