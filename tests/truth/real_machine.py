"""What this machine does without a planted limit: rates and processor time of each class, measured once per session.

The unshaped server is asked by `naslab sustained`, a load of one connection without any verdict; how much processor
time an operation costs the server comes from its control group, the client's from the process's own account.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from truth import real_parts as parts

if TYPE_CHECKING:
    from truth.real_world import World

SECONDS = 3
LOADS = {
    "read large": ("--block", "1m", "--depth", "8"), "write large": ("--block", "1m", "--depth", "8", "--write", "100"),
    "read small": ("--block", "4k", "--depth", "64", "--random"),
    "write small": ("--block", "4k", "--depth", "64", "--random", "--write", "100"),
}  # fmt: skip
Costs = dict[str, dict[str, float]]
"""By class: ops_per_s, client_s and server_s per operation."""


def measure(world: World) -> Costs:
    """The costs of a system that stands."""
    return {where: _one(world, words) for where, words in LOADS.items()}


def _one(world: World, words: tuple[str, ...]) -> dict[str, float]:
    where = parts.url(world.spec, world.host)
    command = [sys.executable, "-m", "naslab", "sustained", where, "--size", "32m", "--duration", f"{SECONDS}s",
               "--json", "--quiet", "--store", str(world.folder / "costs.sqlite"), *words]  # fmt: skip
    before = parts.used_s(world.server)
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=180)
    server_s = parts.used_s(world.server) - before
    cell = json.loads(done.stdout)["cells"][-1]
    operations = max(cell["ops"], 1)
    client_ns = (cell.get("cpu_user_ns") or 0) + (cell.get("cpu_system_ns") or 0)
    return {"ops_per_s": operations / (cell["window_ns"] / 1e9), "client_s": client_ns / 1e9 / operations,
            "server_s": server_s / operations}  # fmt: skip


def check_disk(mount: Path, minor: int, part: Mapping[str, Any]) -> dict[str, float]:
    """Rates of the throttled device by direct reads and durable writes of a second or so, through its file system."""
    found = {}
    size = max(int(min(part.get("read") or 40e6, part.get("write") or 40e6) // (256 << 10) or 1), 4) * (256 << 10)
    path = mount / "check"
    begun = time.monotonic()
    with path.open("wb") as out:
        for _ in range(size // (256 << 10)):
            out.write(os.urandom(256 << 10))
        out.flush()
        os.fsync(out.fileno())
    found["write"] = size / (time.monotonic() - begun)
    parts.run("dd", f"if={path}", "of=/dev/null", "bs=256k", "iflag=direct")
    begun = time.monotonic()
    parts.run("dd", f"if={path}", "of=/dev/null", "bs=256k", "iflag=direct")
    found["read"] = size / (time.monotonic() - begun)
    path.unlink()
    return found
