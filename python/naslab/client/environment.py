"""What the client is: recorded with every run, so that results can be judged later."""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path
from typing import Any

from naslab.client.limit import cpu_limit_cores, quota_cores, usable_cores


def describe_client() -> dict[str, Any]:
    """CPU, memory, kernel, network interfaces (name, MTU, speed in bit/s), load; what a control
    group leaves of the processors. Missing facts are None."""
    return {
        "host": platform.node(),
        "system": f"{platform.system()} {platform.release()}",
        "machine": platform.machine(),
        "cpu": _cpu_model(),
        "cpus": os.cpu_count(),
        "cpus_usable": usable_cores(),
        "cpu_quota_cores": quota_cores(),
        "cpu_limit_cores": cpu_limit_cores(),
        "memory_bytes": _memory("MemTotal"),
        "memory_available_bytes": _memory("MemAvailable"),
        "load_1min": os.getloadavg()[0],
        "python": platform.python_version(),
        "interfaces": _interfaces(),
    }


def _read(path: str | Path) -> str | None:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return None


def _cpu_model() -> str | None:
    match = re.search(r"^model name\s*:\s*(.+)$", _read("/proc/cpuinfo") or "", re.MULTILINE)
    return match.group(1) if match else platform.processor() or None


def _memory(name: str) -> int | None:
    match = re.search(rf"^{name}:\s+(\d+) kB$", _read("/proc/meminfo") or "", re.MULTILINE)
    return int(match.group(1)) * 1024 if match else None


def _interfaces() -> list[dict[str, Any]]:
    root = Path("/sys/class/net")
    if not root.is_dir():
        return []
    return [_interface(path) for path in sorted(root.iterdir()) if _read(path / "operstate") != "down"]


def _interface(path: Path) -> dict[str, Any]:
    speed, mtu = _read(path / "speed"), _read(path / "mtu")
    known = speed is not None and speed.isdigit()
    return {
        "name": path.name,
        "mtu_bytes": int(mtu) if mtu and mtu.isdigit() else None,
        "speed_bits_per_s": int(speed) * 10**6 if known and speed else None,
    }
