"""What this machine brings to a measurement."""

from __future__ import annotations

import importlib.util
import json
import os
import resource
import shutil
import tempfile
from pathlib import Path

from naslab import __version__, _engine
from naslab.client.environment import describe_client
from naslab.commands.doctor.advice import Advice
from naslab.errors import NaslabError
from naslab.results.describe import Part, typed
from naslab.results.parts.environment import EnvironmentClient
from naslab.units import amount_text, rate_text

SYSCTLS = (
    "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem", "net.core.rmem_max", "net.core.wmem_max", "net.core.somaxconn",
    "net.ipv4.tcp_congestion_control", "net.ipv4.tcp_mtu_probing", "kernel.io_uring_disabled",
)  # fmt: skip
PROGRAMS = (
    ("smbd", "samba", "private SMB servers (lab:samba)"),
    ("smbclient", "smbclient", "comparison with another SMB client"),
    ("ganesha.nfsd", "nfs-ganesha nfs-ganesha-vfs", "private NFS servers (lab:ganesha)"),
    ("rpcbind", "rpcbind", "private NFSv3 servers"),
    ("mount.cifs", "cifs-utils", "mounted SMB shares"),
    ("mount.nfs", "nfs-common", "mounted NFS exports"),
    ("tshark", "tshark", "recording network traffic"),
    ("strace", "strace", "recording a program's file operations"),
    ("fio", "fio", "comparison with fio"),
    ("iozone", "iozone3", "comparison with IOzone"),
)
"""Optional programs: name, Debian package, what for."""
_SMALL_WINDOW_BYTES = 4 << 20
_FEW_DESCRIPTORS = 1024
_LITTLE_MEMORY_BYTES = 1 << 30


class IoUring(Part):
    """reason: why it cannot be used."""

    available: bool
    reason: str | None


class FileLimit(Part):
    """Files that a process may have open; None: any number."""

    soft: int | None
    hard: int | None


class Program(Part):
    """An optional program. path: None where it is not installed."""

    name: str
    path: str | None
    package: str
    used_for: str


class Machine(EnvironmentClient, kw_only=True):
    """Facts of this machine. Missing facts are None."""

    naslab_version: str
    engine_version: str
    io_uring: IoUring
    clock_source: str | None
    cpu_governor: str | None
    open_files_limit: FileLimit
    sysctls: dict[str, str | None]
    keyring: bool
    programs: list[Program]


def describe_machine() -> Machine:
    """Looks at this machine."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    uring, why = _io_uring()
    found = {
        "naslab_version": __version__,
        "engine_version": _engine.__version__,
        **describe_client(),
        "io_uring": {"available": uring, "reason": why},
        "clock_source": _first_line("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        "cpu_governor": _first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "open_files_limit": {"soft": _limit(soft), "hard": _limit(hard)},
        "sysctls": {name: _first_line("/proc/sys/" + name.replace(".", "/")) for name in SYSCTLS},
        "keyring": importlib.util.find_spec("keyring") is not None,
        "programs": [
            {"name": name, "path": _find(name), "package": package, "used_for": used_for}
            for name, package, used_for in PROGRAMS
        ],
    }
    return typed(found, Machine)


def _io_uring() -> tuple[bool, str | None]:
    """Whether the engine can use io_uring here, tried on the folder for temporary files."""
    options = {"root": tempfile.gettempdir(), "engine": "uring"}
    try:
        _engine.probe(json.dumps({"protocol": "local", "options": options}), 2)
    except NaslabError as error:
        return False, str(error)
    return True, None


def _first_line(path: str) -> str | None:
    try:
        return " ".join(Path(path).read_text(encoding="ascii", errors="replace").split("\n")[0].split())
    except OSError:
        return None


def _limit(value: int) -> int | None:
    return None if value == resource.RLIM_INFINITY else value


def _find(name: str) -> str | None:
    return shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin:/usr/local/sbin")


def machine_advice(machine: Machine) -> list[Advice]:
    """What on this machine stands in the way of good measurements."""
    found = [
        _window(machine, "net.ipv4.tcp_rmem", "receive"),
        _window(machine, "net.ipv4.tcp_wmem", "send"),
        _uring_advice(machine),
        _clock_advice(machine.clock_source),
        _descriptors(machine.open_files_limit.soft),
        _memory(machine.memory_available_bytes or None),
        _load(machine),
        _quota(machine),
    ]
    if machine.cpu_governor == "powersave":
        message = "the CPU frequency governor is powersave, which can raise latency and make it uneven: use performance"
        found.append(Advice("hint", "governor", message))
    return [one for one in found if one is not None]


def _window(machine: Machine, name: str, what: str) -> Advice | None:
    parts = (machine.sysctls.get(name) or "").split()
    if len(parts) != 3 or not parts[2].isdigit() or int(parts[2]) >= _SMALL_WINDOW_BYTES:
        return None
    most = int(parts[2])
    return Advice(
        "hint",
        "tcp_window",
        f"{name} limits a connection's {what} buffer to {amount_text(most)}: at a round-trip time of 5 ms that is at "
        f"most {rate_text(most / 0.005)} per connection; raise its third number for distant or fast servers",
    )


def _uring_advice(machine: Machine) -> Advice | None:
    if machine.io_uring.available:
        return None
    reason = machine.io_uring.reason
    return Advice(
        "hint", "io_uring", f"local folders cannot use a queue depth above 1 here ({reason}); smb:// and nfs:// do"
    )


def _clock_advice(source: str | None) -> Advice | None:
    if source in (None, "tsc", "kvm-clock", "arch_sys_counter", "hyperv_clocksource_tsc_page"):
        return None
    return Advice("warning", "clock", f"the kernel's clock source is {source}, which is slow to read; tsc is faster")


def _descriptors(soft: int | None) -> Advice | None:
    if soft is None or soft >= _FEW_DESCRIPTORS:
        return None
    return Advice(
        "warning", "open_files", f"only {soft} files may be open at a time: raise the limit with ulimit -n 4096"
    )


def _memory(free_bytes: int | None) -> Advice | None:
    if free_bytes is None or free_bytes >= _LITTLE_MEMORY_BYTES:
        return None
    return Advice("warning", "memory", f"only {amount_text(free_bytes)} of memory is available; end other programs")


def _quota(machine: Machine) -> Advice | None:
    quota, cpus = machine.cpu_quota_cores, machine.cpus_usable or 1
    if not quota or quota >= cpus:
        return None
    message = (
        f"a control group lets naslab use {quota:g} of {cpus} processors and stops it for the rest of each period: "
        "raise its quota (cpu.max, cpu.cfs_quota_us; docker --cpus), or run naslab outside that group"
    )
    return Advice("warning", "cpu_quota", message)


def _load(machine: Machine) -> Advice | None:
    load, cpus = machine.load_1min or 0.0, machine.cpus_usable or 1
    if load <= cpus * 0.7:
        return None
    return Advice("warning", "load", f"other programs keep {load:.1f} of {cpus} CPUs busy; results will vary")
