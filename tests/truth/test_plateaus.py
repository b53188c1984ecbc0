"""What limits a system of the lab is known; naslab's plateau has to show it: one table of systems, each measured.

Systems are measured a few at a time: none of them needs a whole processor. What misses is measured once more, alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest

import plateau_systems as plateaus
from cli_tools import Cli, need
from lab_tools import own_folders
from naslab import lab
from naslab.lab import backends
from naslab.lab.server import Server
from plateau_systems import Load, System

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300), pytest.mark.usefixtures("own_folders")]
__all__ = ["own_folders"]
AT_ONCE = 3


@dataclass(frozen=True)
class Row:
    """One load's line of the table; rates in bytes per second."""

    system: System
    load: Load
    planted: float
    plateau: float

    @property
    def off(self) -> float:
        """Of the plateau from what was planted, as a share."""
        return self.plateau / self.planted - 1

    @property
    def holds(self) -> bool:
        """Whether it is within the load's tolerance."""
        return abs(self.off) <= self.load.tolerance

    def __str__(self) -> str:
        name, part, says = self.system.name, self.system.part, self.load.says
        rates = f"{self.planted / 1e6:7.2f} | {self.plateau / 1e6:7.2f} | {self.off:+6.1%} of {self.load.tolerance:.0%}"
        return f"| {name:15} | {part:48} | {says:36} | {self.load.limit:13} | {rates} |"


def measure(cli: Cli, server: Server, load: Load) -> float:
    """The plateau that the real command tells, in the place from where the target can be reached."""
    target = server.url if load.at == "server" else str(server.data)
    known = ("--credentials", server.credentials) if load.at == "server" and server.credentials else ()
    store = ("--store", cli.folder / f"{server.name}.sqlite")  # several are measured at once
    done = cli("sustained", target, *load.words, *known, *store, "--json", "--quiet", prefix=server.inside())
    return plateaus.measured(done.ok().json(), load)


def rows_of(cli: Cli, system: System, loads: Sequence[Load]) -> list[Row]:
    """Builds a system, and measures some of its loads."""
    file = cli.folder / f"{system.name}.toml"
    file.write_text(system.toml, encoding="utf-8")
    with lab.running(str(file)) as server:
        return [Row(system, load, plateaus.planted(system, load), measure(cli, server, load)) for load in loads]


def check(cli: Cli, systems: Sequence[System]) -> list[Row]:
    """All rows of some systems; those that missed at first, beside others, are measured again alone."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        made = list(pool.map(lambda each: rows_of(cli, each, each.loads), systems))
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


@pytest.mark.parametrize("systems", [plateaus.LINKS, plateaus.DISKS], ids=["links", "disks"])
def test_the_plateau_is_what_the_limiting_part_carries(systems: Sequence[System], cli: Cli) -> None:
    need_systems(systems)
    missed = [row for row in check(cli, systems) if not row.holds]
    assert not missed, "\n".join(map(str, missed))


def test_the_systems_differ() -> None:
    made = plateaus.SYSTEMS
    assert len({each.name for each in made}) == len({each.text for each in made}) == len(made)
