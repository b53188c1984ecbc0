"""The whole way, through the server, by another client: smbclient, nfs-cp, or dd on a kernel's mount.

What was planted bounds it from above; the server and the tool may be slower.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from naslab.lab.calibrate.links import wire_share
from naslab.lab.calibrate.probe import Probe, private_file
from naslab.lab.calibrate.tools import dd_rate, smbclient_rate
from naslab.lab.definition import Definition
from naslab.lab.guest import mounts

_NAME = "naslab-calibrate"
_MIB = 1 << 20
_SMALLEST_MIB, _LARGEST_MIB = 4, 96
_PATIENCE_S = 60.0
_COPIES = {"raid0": 0, "raid5": 0, "raid1": 0, "duplicated": 0, "pool": 1, "span": 1, "jbod": 1, "single": 1}
"""Of how many disks one stream can be read at once; 0: of all."""


def tools(probe: Probe) -> list[str]:
    """The programs that measure it."""
    if probe.server.facts.get("mount"):
        return ["dd"]
    return ["smbclient"] if probe.server.url.startswith("smb:") else ["nfs-cp"]


def ceiling(found: Definition | None, way: str) -> float | None:
    """Bytes per second of file data that the planted limits let through; None where nothing bounds them.

    Writes are bounded by the link alone: the server's memory takes what the disk has not written yet.
    """
    if found is None:
        return None
    bounds: list[float] = []
    share = wire_share(1500 if found.link is None or found.link.mtu is None else found.link.mtu)
    if found.link is not None:
        rates = [found.link.rate_bits_per_s, found.clients.rate_bits_per_s]
        bounds += [each / 8 * share for each in rates if each is not None]
        if found.link.burst is not None:
            bounds.append(found.link.burst.rate_bytes_per_s * share)
    if way == "read" and found.disks:
        disk = found.disks[0]
        rate = disk.burst.rate_bytes_per_s if disk.burst else disk.reads_bytes_per_s
        if rate is not None and all(each == disk for each in found.disks):
            bounds.append(rate * (_COPIES[found.volume.level] or len(found.disks)))
    return min(bounds, default=None)


def measure_path(probe: Probe) -> None:
    """A file put there, and got back from the disks."""
    bounds = {way: ceiling(probe.definition, way) for way in ("write", "read")}
    known = [each for each in bounds.values() if each is not None]
    size_mib = round(min(known, default=_LARGEST_MIB * _MIB) * probe.seconds / _MIB)
    size_mib = min(max(size_mib, _SMALLEST_MIB), _LARGEST_MIB, _room_mib(probe))
    measure = {"dd": _dd, "smbclient": _smbclient, "nfs-cp": _nfs}[tools(probe)[0]]
    with tempfile.TemporaryDirectory(prefix="naslab-calibrate-") as folder:
        ways = measure(probe, Path(folder), size_mib)
        try:
            for way, (words, call) in ways.items():
                repeats = [*range(max(1, probe.runs - 1))]
                probe.add(
                    f"path.{way}", "", words[0], words, lambda call=call, repeats=repeats: [call() for _ in repeats],  # type: ignore[misc]
                    planted=bounds[way], ceiling=True, note=f"{size_mib} MiB, a bound of the parts in between",
                )  # fmt: skip
        finally:
            probe.run(["rm", "-f", probe.file], 0, check=False)


Ways = dict[str, tuple[list[str], Callable[[], float]]]


def _smbclient(probe: Probe, folder: Path, size_mib: int) -> Ways:
    server = probe.server
    local, back = private_file(folder, size_mib * _MIB), folder / "back"
    login = ["-N"] if server.credentials is None else ["-A", str(server.credentials)]
    base = ["smbclient", f"//{server.facts['host']}/data", "-p", str(server.port), *login, "-c"]
    put, get = [*base, f"put {local} {_NAME}"], [*base, f"get {_NAME} {back}"]

    def read() -> float:
        _forget(probe)
        return smbclient_rate(probe.run(get, 1, _PATIENCE_S), get=True)

    return {
        "write": (put, lambda: smbclient_rate(probe.run(put, 1, _PATIENCE_S), get=False)), "read": (get, read),
    }  # fmt: skip


def _nfs(probe: Probe, folder: Path, size_mib: int) -> Ways:
    facts = probe.server.facts
    local, back = private_file(folder, size_mib * _MIB), folder / "back"
    version = "3" if "3" in facts.get("versions", ["3"]) else "4"
    mount = f"&mountport={facts['mount_port']}" if version == "3" and facts.get("mount_port") else ""
    path = facts.get("path") or "/data"
    url = f"nfs://{facts['host']}{path}/{_NAME}?version={version}&nfsport={facts['port']}{mount}"

    def copy(*words: str) -> float:
        back.unlink(missing_ok=True)
        begin = time.monotonic()
        probe.run(["nfs-cp", *words], 1, _PATIENCE_S)
        return size_mib * _MIB / (time.monotonic() - begin)

    def read() -> float:
        _forget(probe)
        return copy(url, str(back))

    return {
        "write": (["nfs-cp", str(local), url], lambda: copy(str(local), url)),
        "read": (["nfs-cp", url, str(back)], read),
    }


def _dd(probe: Probe, _folder: Path, size_mib: int) -> Ways:
    file = f"{mounts.MOUNT}/{_NAME}"
    put = ["dd", "if=/dev/urandom", f"of={file}", "bs=1M", f"count={size_mib}", "conv=fsync"]
    get = ["dd", f"if={file}", "of=/dev/null", "bs=1M"]

    def read() -> float:
        probe.run(["sh", "-c", "echo 3 > /proc/sys/vm/drop_caches"], 1)
        _forget(probe)
        return dd_rate(probe.run(get, 1, _PATIENCE_S))

    return {"write": (put, lambda: dd_rate(probe.run(put, 1, _PATIENCE_S))), "read": (get, read)}


def _forget(probe: Probe) -> None:
    """The server's system writes the file to its disks and forgets what it holds of it."""
    probe.run(["dd", f"of={probe.file}", "oflag=nocache", "conv=notrunc,fdatasync", "count=0", "status=none"], 0, 30)


def _room_mib(probe: Probe) -> int:
    found = probe.definition
    if found is None or not found.disks:
        return _LARGEST_MIB
    return max(1, found.capacity_bytes // 4 // _MIB)
