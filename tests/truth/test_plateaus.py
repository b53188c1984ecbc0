"""What limits a system of the lab is known; naslab's plateau has to show it: one table of systems, each measured.

Systems are measured a few at a time: none of them needs a whole processor. What misses is measured once more, alone.
While a virtual machine's host has taken a processor away, no part of a system carries anything: a plateau may fall
short by as much, and never lie above its limit.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

import plateau_systems as plateaus
from cli_tools import Cli, need
from lab_tools import Stolen, own_folders
from naslab import lab
from naslab.lab import backends, limits
from naslab.lab.calibrate import Calibration, calibrate
from naslab.lab.native import groups
from naslab.lab.server import Server
from plateau_systems import Load, System

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300), pytest.mark.usefixtures("own_folders")]
__all__ = ["own_folders"]


CALIBRATE = os.environ.get("NASLAB_TRUTH_CALIBRATE") == "1"
"""Each limit is also measured with fio or iperf3 for a second, which is told and not judged; it takes as long again."""
_COLUMNS = (15, 48, 36, 13, 8, 10, 8, 15, 6)
HEAD = ("system", "limiting part", "load", "limit", "planted", "calibrated", "plateau", "off by", "stolen")


@dataclass(frozen=True)
class Row:
    """One load's line of the table; bytes per second, or bytes of a knee.

    calibrated: what an independent tool says, of a knee the kernel's counters; None where nothing else measured it.
    stolen: time that this machine's host took from its processors meanwhile, as a share of one processor's.
    """

    system: System
    load: Load
    planted: float
    calibrated: float | None
    plateau: float
    stolen: float = 0.0

    @property
    def truth(self) -> float:
        """What the plateau is held against: the plan, or of a memory what the server left of it."""
        return self.calibrated or 0.0 if self.load.figure == "knee" else self.planted

    @property
    def off(self) -> float:
        """As a share."""
        return self.plateau / self.truth - 1

    @property
    def holds(self) -> bool:
        """Whether it is within the load's tolerance, and below it by no more than what was stolen besides."""
        stolen = 0.0 if self.load.figure == "knee" else self.stolen
        return -(self.load.tolerance + stolen) <= self.off <= self.load.tolerance

    def __str__(self) -> str:
        off, stolen = f"{self.off:+.1%} of {self.load.tolerance:.0%}", f"{self.stolen:.1%}"
        rates = ["" if each is None else f"{each / 1e6:.4g}" for each in (self.planted, self.calibrated, self.plateau)]
        return line([self.system.name, self.system.part, self.load.says, self.load.limit, *rates, off, stolen])


def line(texts: Sequence[str]) -> str:
    """Of the table."""
    return "| " + " | ".join(text.ljust(width) for text, width in zip(texts, _COLUMNS, strict=True)) + " |"


def measure(cli: Cli, server: Server, load: Load) -> tuple[float, float]:
    """The plateau that the real command tells, in the place from where the target can be reached; what was stolen."""
    target, known = server.url, list[object]()
    if server.facts.get("mount"):
        target = server.facts["mount"]
    else:
        target = server.url if load.at == "server" else str(server.data)
        known += ["--store", cli.folder / f"{server.name}.sqlite"]  # several are measured at once
        known += ["--credentials", server.credentials] if load.at == "server" and server.credentials else []
    with Stolen() as stolen:
        done = cli(*load.command, target, *load.words, *known, "--json", "--quiet", prefix=server.inside(), timeout=120)
    return plateaus.measured(done.ok().json(), load), stolen.share


class Left(threading.Thread):
    """What the server's memory has left for files, by the kernel's counters, looked at while a load runs.

    Of a guest it is looked at in the end: its kernel's server keeps nothing for a client.
    """

    def __init__(self, system: System, server: Server) -> None:
        super().__init__(daemon=True)
        self._server, self._end, self._seen = server, threading.Event(), list[int]()
        self._ram_bytes = system.definition().server.ram_bytes or 0
        self._guest = "guests" in server.facts
        found = [] if self._guest else groups.find(server.folder.name, self._ram_bytes, None, False)
        self._folder = found[0].folder if found else Path()

    def run(self) -> None:
        while not self._guest and not self._end.wait(0.1):
            rows = dict(row.split() for row in (self._folder / "memory.stat").read_text().splitlines())
            version1 = (self._folder / "memory.usage_in_bytes").exists()
            used = int((self._folder / ("memory.usage_in_bytes" if version1 else "memory.current")).read_text())
            self._seen.append(self._ram_bytes - used + int(rows["cache" if version1 else "file"]))

    def stop(self) -> float:
        """The median over the second half of the load, in which the search closes in; bytes."""
        self._end.set()
        self.join()
        if not self._guest:
            return statistics.median(self._seen[len(self._seen) // 2 :])
        words = [*self._server.inside(0), "cat", "/proc/meminfo"]
        done = subprocess.run(words, check=True, capture_output=True, text=True)
        rows = dict(row.split(":") for row in done.stdout.splitlines())
        return float(rows["MemAvailable"].split()[0]) * 1024


def rows_of(cli: Cli, system: System, loads: Sequence[Load]) -> list[Row]:
    """Builds a system, and measures some of its loads."""
    file = cli.folder / f"{system.name}.toml"
    file.write_text(system.toml, encoding="utf-8")
    with lab.running(str(file)) as server:
        rows = []
        for load in loads:
            left = Left(system, server) if load.figure == "knee" else None
            if left is not None:
                left.start()
            found, stolen = measure(cli, server, load)
            known = None if left is None else left.stop()
            rows.append(Row(system, load, plateaus.planted(system, load), known, found, stolen))
        if not CALIBRATE:
            return rows
        said = calibrate(server, scratch=True, runs=1, seconds=1.0, through=False)
        return [row if row.calibrated else replace(row, calibrated=calibrated(row, said)) for row in rows]


def calibrated(row: Row, known: Calibration) -> float | None:
    """What the independent tool measured, as payload; None where it could not."""
    found = known.measured(row.load.limit)
    (limit,) = [each for each in limits.planted(row.system.definition()) if each.name == row.load.limit]
    if not found:
        return None
    return row.planted * (limit.value / found if limit.unit == limits.NS else found / limit.value)


def check(cli: Cli, systems: Sequence[System], at_once: int) -> list[Row]:
    """All rows of some systems; those that missed at first, beside others, are measured again alone."""
    with ThreadPoolExecutor(at_once) as pool:
        made = list(pool.map(lambda each: rows_of(cli, each, each.loads), systems))
    print(f"\n{line(HEAD)}")
    rows = []
    for found in made:
        missed = [row.load for row in found if not row.holds]
        again = rows_of(cli, found[0].system, missed) if missed else []
        for row in found:
            print(row)
            rows.append(next((each for each in again if each.load is row.load), row))
            if rows[-1] is not row:
                print(rows[-1], "again, alone")
    return rows


def need_systems(systems: Sequence[System]) -> None:
    """Skips, or fails where the lab is required, when this machine cannot build one of them."""
    for each in systems:
        said = backends.answers(each.definition())
        need(any(answer.builds for answer in said), f"{each.name}: {said}")


@pytest.mark.parametrize(
    ("systems", "at_once"),
    [(plateaus.LINKS, 3), (plateaus.DISKS, 3), (plateaus.GUESTS, 2), (plateaus.KNEES, 1)],
    ids=["links", "disks", "guests", "knees"],
)
def test_the_plateau_is_what_the_limiting_part_carries(systems: Sequence[System], at_once: int, cli: Cli) -> None:
    need_systems(systems)
    missed = [row for row in check(cli, systems, at_once) if not row.holds]
    assert not missed, "\n".join(map(str, missed))


def test_the_systems_differ() -> None:
    made = plateaus.SYSTEMS
    assert len({each.name for each in made}) == len({each.text for each in made}) == len(made) >= 24
