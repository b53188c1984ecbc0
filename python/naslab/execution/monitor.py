"""What the server does meanwhile (`--monitor ssh://host`): its processors, memory, disks and network, once a second.

Only stock tools are used: a shell on the server prints files of /proc (proc(5)) until the connection closes. That costs
it a few milliseconds of a processor each second. Samples carry this machine's time of their arrival.
"""

from __future__ import annotations

import contextlib
import itertools
import re
import subprocess
import threading
import time
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from naslab.errors import TargetError, UsageError

EVERY_S = 1
FIRST_S = 20.0
"""The first sample must be here by then."""
SECTOR_BYTES = 512
"""Of /proc/diskstats, whatever the disk's own (Documentation/admin-guide/iostats.rst)."""
_END = "=naslab="
_LOOP = (
    "while head -n 1 /proc/stat && grep -E '^(MemTotal|MemAvailable|Cached|Dirty|Writeback):' /proc/meminfo && "
    f"cat /proc/diskstats /proc/net/dev && echo {_END}; do sleep {EVERY_S}; done"
)
_PARTITION = re.compile(r"^(loop|ram|zram|sr|fd|dm-|md)\d|^(sd|vd|xvd|hd)[a-z]+\d+$|^(nvme\d+n\d+|mmcblk\d+)p\d+$")


@dataclass
class Sample:
    """Counters of one moment. at_ns: CLOCK_MONOTONIC here. disks: read and written bytes, busy ms; nets: received and
    sent bytes."""

    at_ns: int
    busy: int
    total: int
    memory: dict[str, int]
    disks: dict[str, tuple[int, int, int]]
    nets: dict[str, tuple[int, int]]


def parse(lines: list[str], at_ns: int) -> Sample:
    """A sample from what the loop prints for it. Raises ValueError for what is none."""
    ticks = [int(each) for each in lines[0].split()[1:9]]
    idle = ticks[3] + ticks[4]
    memory, disks, nets = {}, {}, {}
    for line in lines[1:]:
        words = line.split()
        if line[0].isalpha() and line.endswith("kB"):
            memory[words[0].rstrip(":")] = int(words[1]) * 1024
        elif len(words) >= 14 and words[0].isdigit():
            if not _PARTITION.match(words[2]):
                disks[words[2]] = (int(words[5]) * SECTOR_BYTES, int(words[9]) * SECTOR_BYTES, int(words[12]))
        elif ":" in line and "|" not in line:
            name, _, rest = line.partition(":")
            if name.strip() != "lo":
                numbers = rest.split()
                nets[name.strip()] = (int(numbers[0]), int(numbers[8]))
    return Sample(at_ns, sum(ticks) - idle, sum(ticks), memory, disks, nets)


@dataclass
class Monitor:
    """Watches one server while runs go on. url: ssh://user@host:port."""

    url: str
    samples: list[Sample] = field(default_factory=list, init=False, repr=False)
    _process: subprocess.Popen[str] | None = field(default=None, init=False, repr=False)
    _thread: threading.Thread | None = field(default=None, init=False, repr=False)
    _first: threading.Event = field(default_factory=threading.Event, init=False, repr=False)

    def command(self) -> list[str]:
        """The ssh that is begun. Raises UsageError for another kind of address."""
        parts = urlsplit(self.url)
        if parts.scheme != "ssh" or not parts.hostname or parts.path not in ("", "/") or parts.password:
            raise UsageError(f"--monitor {self.url}: write ssh://host or ssh://user@host:port")
        if parts.hostname.startswith("-"):
            raise UsageError(f"--monitor {self.url}: a host name cannot begin with -")
        where = f"{parts.username}@{parts.hostname}" if parts.username else parts.hostname
        port = ["-p", str(parts.port)] if parts.port else []
        return ["ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", *port, where, _LOOP]

    def start(self) -> None:
        """Begins, and waits for the first sample. Raises UsageError, TargetError."""
        if self._process is not None:
            return
        try:
            self._process = subprocess.Popen(
                self.command(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                start_new_session=True,
            )  # fmt: skip
        except FileNotFoundError as error:
            raise UsageError("--monitor: ssh is not installed; install an ssh client") from error
        self._thread = threading.Thread(target=self._read, name="naslab-monitor", daemon=True)
        self._thread.start()
        self._first.wait(FIRST_S)
        if not self.samples:
            raise TargetError(f"--monitor {self.url}: {self._why()}", "disconnected", before_run=True)

    def _why(self) -> str:
        process = self._process
        if process is None or process.poll() is None:
            self.close()
            return f"no sample within {FIRST_S:.0f} s"
        told = process.stderr.read().strip() if process.stderr else ""
        if "/proc" in told:
            return f"the server has no /proc as Linux has it ({told.splitlines()[0]}); it cannot be monitored"
        return told or "ssh ended without a message; does `ssh` log in without a password?"

    def _read(self) -> None:
        assert self._process is not None and self._process.stdout is not None
        lines: list[str] = []
        for line in self._process.stdout:
            if line.strip() != _END:
                lines.append(line.rstrip("\n"))
                continue
            with contextlib.suppress(ValueError, IndexError):  # a line was cut; the next sample is whole
                self.samples.append(parse(lines, time.monotonic_ns()))
            lines = []
            self._first.set()
        self._first.set()

    def part(self, begin_ns: int) -> dict[str, Any]:
        """What a run keeps of the time since `begin_ns` of CLOCK_MONOTONIC: rates between samples."""
        samples = list(self.samples)
        kept = [each for each in samples if each.at_ns >= begin_ns - 2 * EVERY_S * 10**9]
        rows = [_between(before, after, begin_ns) for before, after in itertools.pairwise(kept)]
        ended = self._process is not None and self._process.poll() is not None
        return {"url": self.url, "memory_bytes": kept[0].memory.get("MemTotal") if kept else None,
                "ended_early": ended, "samples": rows}  # fmt: skip

    def close(self) -> None:
        """Ends the connection, upon which the loop on the server ends."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(10)
            if self._thread is not None:
                self._thread.join(5)
            for stream in (self._process.stdout, self._process.stderr):
                if stream is not None:
                    stream.close()
            self._process = None


def _between(before: Sample, after: Sample, begin_ns: int) -> dict[str, Any]:
    seconds = max((after.at_ns - before.at_ns) / 1e9, 1e-3)
    memory = after.memory

    def rate(old: int, new: int) -> float:
        return max(new - old, 0) / seconds

    disks = {
        name: {
            "read_bytes_per_s": rate(before.disks[name][0], now[0]),
            "write_bytes_per_s": rate(before.disks[name][1], now[1]),
            "busy_fraction": min(rate(before.disks[name][2], now[2]) / 1000, 1.0),
        }
        for name, now in after.disks.items()
        if name in before.disks and now != (0, 0, 0)
    }
    nets = {
        name: {"received_bytes_per_s": rate(before.nets[name][0], now[0]),
               "sent_bytes_per_s": rate(before.nets[name][1], now[1])}
        for name, now in after.nets.items()
        if name in before.nets and now != (0, 0)
    }  # fmt: skip
    ticks = after.total - before.total
    return {
        "at_ns": after.at_ns - begin_ns,
        "cpu_fraction": (after.busy - before.busy) / ticks if ticks > 0 else 0.0,
        "memory_used_bytes": memory.get("MemTotal", 0) - memory.get("MemAvailable", 0),
        "cached_bytes": memory.get("Cached", 0),
        "dirty_bytes": memory.get("Dirty", 0) + memory.get("Writeback", 0),
        "disks": disks,
        "nets": nets,
    }
