"""The whole way, through the server, by another client: smbclient, nfs-cp, or dd on a kernel's mount.

What was planted bounds it from above; the server and the tool may be slower.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from naslab.lab.bucket import SLICE_NS
from naslab.lab.calibrate.finding import ALLOWANCE
from naslab.lab.calibrate.links import wire_share
from naslab.lab.calibrate.probe import Probe, private_file
from naslab.lab.calibrate.tools import dd_rate, smbclient_rate
from naslab.lab.definition import Definition
from naslab.lab.guest import mounts
from naslab.lab.limits import SHARE, Planted

_NAME = "naslab-calibrate"
_MIB = 1 << 20
_SMALLEST_MIB, _LARGEST_MIB = 4, 96
_PATIENCE_S = 60.0
_BOUND = "; a bound by the parts in between"
_SLOW_SHARE, _SLOW_MIB = 0.1, 8
_FULL = Planted("server.cpu", 1.0, SHARE, "")
_COPIES = {"raid0": 0, "raid5": 0, "raid1": 0, "duplicated": 0, "pool": 1, "span": 1, "jbod": 1, "single": 1}
"""Of how many disks one stream can be read at once; 0: of all."""


def tool(kind: str, mounted: bool) -> str:
    """The program that measures it. kind: of server. mounted: by a guest's kernel."""
    if mounted:
        return "dd"
    return "smbclient" if kind in ("samba", "burst") else "nfs-cp"


def ceiling(found: Definition | None, way: str) -> float | None:
    """Bytes per second of file data that the planted limits let through; None where nothing bounds them.

    Writes are bounded by the link alone: the server's memory takes what the disk has not written yet.
    """
    if found is None:
        return None
    bounds: list[float] = []
    share = wire_share(1500 if found.link is None or found.link.mtu is None else found.link.mtu)
    if found.link is not None:
        rates = [found.link.rate_bits_per_s, found.clients.own_bits_per_s[0]]
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
    runs = max(1, probe.runs - 1)
    if probe.planted.get("server.cpu", _FULL).value < _SLOW_SHARE:
        # A login alone takes such a server seconds.
        size_mib, runs = min(size_mib, _SLOW_MIB), 1
    kind = "samba" if probe.server.url.startswith("smb:") else "nfs"
    measure = {"dd": _dd, "smbclient": _smbclient, "nfs-cp": _nfs}[tool(kind, bool(probe.server.facts.get("mount")))]
    with tempfile.TemporaryDirectory(prefix="naslab-calibrate-") as folder:
        ways = measure(probe, Path(folder), size_mib)
        try:
            for way, (words, call) in ways.items():
                probe.add(
                    f"path.{way}", "", words[0], words, lambda call=call: [call() for _ in range(runs)],  # type: ignore[misc]
                    planted=bounds[way], ceiling=True, note=f"{size_mib} MiB{_BOUND if bounds[way] else ''}",
                    allowance=_allowance(bounds[way], size_mib * _MIB),
                )  # fmt: skip
        finally:
            probe.run(["rm", "-f", probe.file], 0, check=False)


def _allowance(bound: float | None, size_bytes: int) -> float:
    """A throttle lets a tenth of a second's worth through at once."""
    return ALLOWANCE + (0.0 if bound is None else SLICE_NS / 1e9 * bound / size_bytes)


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
    facts, at = probe.server.facts, urlsplit(probe.server.url)
    local, back = private_file(folder, size_mib * _MIB), folder / "back"
    version = "3" if "3" in facts.get("versions", ["3"]) else "4"
    mount = f"&mountport={probe.server.mount_port}" if version == "3" and probe.server.mount_port else ""
    url = f"nfs://{at.hostname}{at.path}/{_NAME}?version={version}&nfsport={at.port}{mount}"

    def copy(*words: str) -> float:
        back.unlink(missing_ok=True)
        begin = time.monotonic()
        probe.run(["nfs-cp", *words], 1, _PATIENCE_S)
        return size_mib * _MIB / (time.monotonic() - begin)

    def write() -> float:
        probe.run(["rm", "-f", probe.file], 0)  # nfs-cp takes no file that is there already
        return copy(str(local), url)

    def read() -> float:
        _forget(probe)
        return copy(url, str(back))

    return {
        "write": (["nfs-cp", str(local), url], write),
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
