"""Runs in a guest, whose kernel has what a host may lack: what the native backend plants there, and what holds.

Control groups of version 2, and packets that are delayed. Prints one line of JSON: limits of RAM, CPU and disk as they
were found inside, and how long a byte took there and back. The disk is /dev/ubda, without limits of version 1.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

from naslab.lab import throttle
from naslab.lab.definition import Clients, Link
from naslab.lab.native import groups, net

UNIFIED = Path("/run/unified")
MIB = 1 << 20
RAM_BYTES, CPU, DISK_BYTES_PER_S = 24 * MIB, 0.25, 10_000_000
LATENCY_NS = 5_000_000
ECHO = """import socket
server = socket.create_server(("", 7))
print("ready", flush=True)
link = server.accept()[0]
link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
while data := link.recv(1):
    link.sendall(data)"""
DEVICE, MAJOR_MINOR = "/dev/ubda", "98:0"
BUSY = "import time; a = time.monotonic(); b = time.process_time()\nwhile time.monotonic() < a + 1.5: pass\n" \
    "print((time.process_time() - b) / (time.monotonic() - a))"  # fmt: skip


def mount_unified() -> None:
    """Version 2 in place of version 1, with all controllers handed on by the root group."""
    subprocess.run(["umount", "/sys/fs/cgroup/blkio"], check=True)
    UNIFIED.mkdir()
    subprocess.run(["mount", "-t", "cgroup2", "none", str(UNIFIED)], check=True)
    deadline = time.monotonic() + 20  # a controller of version 1 is given up a moment after its last mount
    while "io" not in (UNIFIED / "cgroup.controllers").read_text().split():
        assert time.monotonic() < deadline, (UNIFIED / "cgroup.controllers").read_text()
        time.sleep(0.05)
    (UNIFIED / "cgroup.subtree_control").write_text("+cpu +memory +io")


def joined(made: list[groups.Group], *command: str) -> str:
    """What a command says that a shell started after it entered the groups."""
    script = "\n".join([*groups.join_lines(made), 'exec "$@"'])
    return subprocess.run(["sh", "-ec", script, "sh", *command], check=True, capture_output=True, text=True).stdout


def written_bytes_per_s(made: list[groups.Group]) -> float:
    """Rate of 16 MiB that go past the cache."""
    words = ["dd", "if=/dev/zero", f"of={DEVICE}", "bs=256k", "count=64", "oflag=direct", "status=none"]
    begin_ns = time.monotonic_ns()
    joined(made, *words)
    return 16 * MIB * 1e9 / (time.monotonic_ns() - begin_ns)


def there_and_back_ns() -> int:
    """The shortest time of a byte over a link with its latency; TCP, answered at once."""
    net.check_delay()
    network = net.build(Link(rate_bits_per_s=10**8, latency_ns=LATENCY_NS), Clients())
    command = ["nsenter", f"--net={network.server}", sys.executable, "-S", "-c", ECHO]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as echo:
        assert echo.stdout and echo.stdout.readline()
        with socket.create_connection((net.SERVER, 7)) as link:
            link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            took = []
            for _ in range(20):
                begin_ns = time.monotonic_ns()
                link.sendall(b"x")
                assert link.recv(1) == b"x"
                took.append(time.monotonic_ns() - begin_ns)
    return min(took)


def main() -> int:
    """Entry point."""
    mount_unified()
    made = groups.find("naslab-lab-x", RAM_BYTES, CPU, disks=True)
    groups.make(made)
    (group,) = made
    found: dict[str, object] = {
        "files": {name: (group.folder / name).read_text().strip() for name, _ in group.settings}
    }
    share = float(joined(made, sys.executable, "-S", "-c", BUSY))
    (group.folder / "cpu.max").write_text("max")  # what follows is about other limits
    holder = os.open(DEVICE, os.O_RDONLY)  # the cache of a device goes with its last user
    joined(made, "dd", f"if={DEVICE}", "of=/dev/null", "bs=1M", "count=100", "status=none")
    held = {name: int((group.folder / f"memory.{name}").read_text()) for name in ("current", "max")}
    os.close(holder)
    limits = throttle.find(MAJOR_MINOR, "naslab-lab-x")
    limits.plant({"rbps": DISK_BYTES_PER_S, "wbps": DISK_BYTES_PER_S})
    limited, free = written_bytes_per_s(made), written_bytes_per_s([])
    limits.lift()
    found |= {
        "cpu": share, "memory": held, "throttle_version": limits.version, "limited": limited, "free": free,
        "lifted": written_bytes_per_s(made), "join": str(limits.join) == str(group.join),
        "there_and_back_ns": there_and_back_ns(),
    }  # fmt: skip
    print(json.dumps(found))
    os.sync()
    return 0


if __name__ == "__main__":
    sys.exit(main())
