"""`python -m naslab.lab.keeper`: holds one disk with a token bucket, and removes it when its standard input ends.

It makes a loop device on memory with a file system (never mounted here), says so in one line of JSON, and from
then on follows the device's counter and sets its limit. Its standard input is a pipe that the guardian holds: when that
ends, kill -9 included, the limits are lifted so that nobody waits for them, and the device is removed once
the server's namespaces have let go of it.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

from naslab.errors import NaslabError
from naslab.lab import loops, throttle
from naslab.lab.bucket import Credit, Plan

NAME = "naslab-keeper"
"""The process's name, by which it is told from the server's."""
_MKFS = ("mkfs.ext4", "-q", "-F", "-b", "4096", "-m", "0", "-i", "65536",
         "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0")  # fmt: skip
"""Nothing is left to be written later, which would spend credit."""


def words(folder: Path, minor: int, disk_bytes: int, cache_bytes: int, plan: Plan) -> list[str]:
    """The command line of a keeper."""
    disk = {"label": folder.name, "minor": minor, "disk_bytes": disk_bytes, "cache_bytes": cache_bytes}
    plant = [plan.burst_bytes_per_s, plan.base_bytes_per_s, plan.size_bytes]
    return [sys.executable, "-m", "naslab.lab.keeper", json.dumps({**disk, "plan": plant})]


def main() -> int:
    """Entry point."""
    Path("/proc/self/comm").write_text(NAME, encoding="ascii")
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    given = json.loads(sys.argv[1])
    minor, limits = int(given["minor"]), None
    try:
        limits = throttle.find(loops.name(minor), given["label"])
        device = loops.create(minor, given["disk_bytes"], given["label"])
        try:
            subprocess.run([*_MKFS, f"/dev/loop{minor}"], check=True, stdin=subprocess.DEVNULL, capture_output=True)
            _bound_cache(minor, given["cache_bytes"])
            _say({"ready": True})
            _keep(minor, limits, Plan(*given["plan"]))
        finally:
            os.close(device)
    except (OSError, NaslabError, subprocess.CalledProcessError) as error:
        detail = (
            error.stderr.decode(errors="replace").strip() if isinstance(error, subprocess.CalledProcessError) else ""
        )
        _say({"error": f"{error} {detail}".strip()})
        return 1
    finally:
        if limits is not None:
            limits.lift()
        loops.remove(minor)
    return 0


def _bound_cache(minor: int, cache_bytes: int) -> None:
    """At most about so many bytes that the system has not written to the device yet; 0: no bound of its own.

    Without it a server's memory is a write-back cache of gigabytes in front of the disk. Kernels before 6.2
    cannot bound it for one device: theirs stays as it is.
    """
    folder = Path(f"/sys/class/bdi/{loops.name(minor)}")
    if cache_bytes and (folder / "max_bytes").exists():
        (folder / "strict_limit").write_text("1", encoding="ascii")
        (folder / "max_bytes").write_text(str(cache_bytes), encoding="ascii")


def _keep(minor: int, limits: throttle.Throttle, plan: Plan) -> None:
    """The credit loop, until standard input ends. Raises OSError."""
    counter = loops.open_counter(minor)
    credit = Credit(plan, time.monotonic_ns(), loops.moved_bytes(counter))
    limits.limit(credit.limit_bytes_per_s)
    wait_ns = 0
    while not select.select([0], [], [], wait_ns / 1e9)[0]:
        before = credit.limit_bytes_per_s
        wait_ns = credit.step(time.monotonic_ns(), loops.moved_bytes(counter))
        if credit.limit_bytes_per_s != before:
            limits.limit(credit.limit_bytes_per_s)


def _say(words: dict[str, object]) -> None:
    print(json.dumps(words), flush=True)


if __name__ == "__main__":
    sys.exit(main())
