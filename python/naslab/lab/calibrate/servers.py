"""The server's share of CPU time and its memory: what the kernel enforces, what a program in the same group gets."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from pathlib import Path

from naslab.client import process
from naslab.errors import TargetError
from naslab.lab.calibrate.probe import Probe
from naslab.lab.guest.house import GROUP
from naslab.lab.native import groups

_BURN_S = 2.0
_OVER = 1.25
"""A file is so much larger than the memory that it shall not fit in."""

_BURN = """
import json, os, sys, time
groups, seconds, count = sys.argv[1].split(","), float(sys.argv[2]), int(sys.argv[3])
reader, writer = os.pipe()
children = []
for _ in range(count):
    if (child := os.fork()) == 0:
        for group in groups:
            open(group + "/cgroup.procs", "w").write("0")
        warm = time.monotonic() + 0.2
        while time.monotonic() < warm:
            pass
        used, begin = time.process_time(), time.monotonic()
        while time.monotonic() - begin < seconds:
            pass
        share = (time.process_time() - used) / (time.monotonic() - begin)
        os.write(writer, (json.dumps(share) + chr(10)).encode())
        os._exit(0)
    children.append(child)
os.close(writer)
for child in children:
    os.waitpid(child, 0)
print(json.dumps(sum(json.loads(row) for row in os.fdopen(reader).read().split())))
"""
_FILL = """
import os, sys
groups, path, size = sys.argv[1].split(","), sys.argv[2], int(sys.argv[3])
with open(path, "wb") as file:
    file.truncate(size)
for group in filter(None, groups):
    open(group + "/cgroup.procs", "w").write("0")
with open(path, "rb", buffering=0) as file:
    while file.read(1 << 20):
        pass
"""


def measure_server(probe: Probe) -> None:
    """Memory and CPU share, where they are planted."""
    if "server.ram" in probe.planted:
        (_guest_ram if probe.in_guest else _ram)(probe)
    if "server.cpu" in probe.planted:
        _cpu(probe)


def _groups(probe: Probe) -> list[groups.Group]:
    """The native server's control groups, memory's first."""
    assert probe.definition is not None
    server = probe.definition.server
    return groups.find(probe.server.folder.name, server.ram_bytes, server.cpu, False)


def _cpu(probe: Probe) -> None:
    limit = probe.planted["server.cpu"].value
    folders = [GROUP] if probe.in_guest else [str(each.folder) for each in _groups(probe) if _has(each, "cpu.")]
    # Handed out a millisecond or more at a time: a small share needs longer to show.
    seconds = max(_BURN_S, 0.1 / limit)
    count = max(1, round(limit + 0.5))
    words = [sys.executable, "-c", _BURN, ",".join(folders), f"{seconds:g}", str(count)]
    told = ["python3", "-c", "(a loop in the server's control group)", f"{seconds:g}", str(count)]
    note = "the server's own use, which is part of the share, is left out"

    def measure() -> list[float]:
        return [float(json.loads(probe.run(words, 0, seconds * 4)))]

    probe.add("server.cpu", "", "a busy loop in the server's group", told, measure, note=note)


def _has(group: groups.Group, prefix: str) -> bool:
    return any(name.startswith(prefix) for name, _ in group.settings)


def _ram(probe: Probe) -> None:
    """What the kernel charges the group with once more was read than fits: its own bound, reached."""
    group = next(each for each in _groups(probe) if _has(each, "memory."))
    limit = probe.planted["server.ram"]
    version1 = (group.folder / "memory.usage_in_bytes").exists()
    bound = group.folder / ("memory.limit_in_bytes" if version1 else "memory.max")
    usage = group.folder / ("memory.usage_in_bytes" if version1 else "memory.current")
    words = ["cat", str(bound)]
    enforced = int(bound.read_text(encoding="ascii"))
    note = f"the kernel's bound is {enforced:,} bytes"
    if not probe.devices or (probe.definition is not None and probe.definition.filesystem.type in ("ntfs",)):
        probe.add(
            "server.ram", "", "control group", words, lambda: [enforced], note=f"{note}; not tried: no disk of its own"
        )
        return
    size = int(limit.value * _OVER)
    path = Path(_cached_folder(probe), "naslab-calibrate-hole")
    fill = [sys.executable, "-c", _FILL, str(group.folder), str(path), str(size)]
    told = ["python3", "-c", "(reads a file that is larger, in the server's control group)", str(size)]

    def measure() -> list[float]:
        try:
            probe.run(fill, 0, 10.0)
            return [int(usage.read_text(encoding="ascii"))]
        finally:
            probe.run(["rm", "-f", str(path)], 0, check=False)

    probe.add("server.ram", "", "memory in use", told, measure, note=f"{note}; the amount it kept when more was read")


def _cached_folder(probe: Probe) -> str:
    """A folder below which the page cache is: that of a pool is its disks'."""
    assert probe.definition is not None
    if probe.definition.volume.level in ("pool", "duplicated"):
        return f"{probe.server.folder}/disk1"
    return probe.data


def _guest_ram(probe: Probe) -> None:
    """A guest's memory is a file of the host's that takes what the guest ever used: it is made to use all of it."""
    limit, found = probe.planted["server.ram"].value, probe.definition
    if not probe.devices or found is None or found.filesystem.type == "fat":
        probe.skip("server.ram", "its volume accepts no file with a hole, which is needed to fill the memory")
        return
    hole, size = f"{probe.file}-hole", int(limit * _OVER)
    fill = [sys.executable, "-c", _FILL, "", hole, str(size)]
    told = ["python3", "-c", "(reads a file that is larger, in the guest)", str(size)]

    def measure() -> list[float]:
        try:
            probe.run(fill, 0, 20.0)
            return [float(_taken_bytes(probe))]
        finally:
            probe.run(["rm", "-f", hole], 0, check=False)

    probe.add(
        "server.ram",
        "",
        "memory in use",
        told,
        measure,
        note="its kernel's own included; the amount it used on the host",
    )


def _taken_bytes(probe: Probe) -> int:
    """What the memory of the server's guest takes on the host. Raises TargetError."""
    home = Path(probe.server.facts["guests"]["server"])
    for each in process.descendants(probe.server.guardian.pid):
        with contextlib.suppress(OSError):
            # A guest's kernel changes the words of its command line: they may have become one.
            if f"init={home}/init".encode() in Path(f"/proc/{each.pid}/cmdline").read_bytes():
                files = [file for file in Path(f"/proc/{each.pid}/fd").iterdir() if _is_memory(file)]
                if files:
                    return max(512 * file.stat().st_blocks for file in files) + _kernel_bytes(each.pid)
    raise TargetError("cannot identify the guest's memory among the host's files")


def _kernel_bytes(pid: int) -> int:
    """The guest's kernel itself, which is part of its memory and lies in its program instead of that file."""
    total = 0
    for row in Path(f"/proc/{pid}/maps").read_text(encoding="utf-8").splitlines():
        if row.endswith("/linux.uml"):
            begin, end = (int(each, 16) for each in row.split()[0].split("-"))
            total += end - begin
    return total


def _is_memory(file: Path) -> bool:
    """Whether a descriptor is of a guest's memory: a file that has lost its name, in TMPDIR or /dev/shm.

    Its disks are others, made by memfd_create(2).
    """
    name = os.readlink(file)
    return name.endswith(" (deleted)") and not name.startswith("/memfd:")
