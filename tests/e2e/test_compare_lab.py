"""`naslab compare --run` over systems of the lab: each in a network of its own, up beside each other."""

from __future__ import annotations

import pytest

from cli_tools import Cli, need
from lab_tools import own_folders
from naslab.lab import systems

pytestmark = [pytest.mark.lab, pytest.mark.usefixtures("own_folders")]
__all__ = ["own_folders"]
SMALL = "disks.size=64MiB&filesystem.type=ext3&disks.read=400MB/s&disks.write=400MB/s"


def test_two_links_beside_each_other(cli: Cli) -> None:
    """A planted link of half the rate is worse; both systems end with the command."""
    said = systems.said_of(systems.system("single-xfs"))
    need(any(each.builds for each in said), "; ".join(each.why_not for each in said))
    fast, slow = (f"lab:single-xfs?{SMALL}&link.rate={rate}Mbit/s" for rate in (300, 150))
    words = ("--file-size", "2m", "--record", "1m", "--tests", "write,read", "--seed", 1, "--json", "--quiet")
    found = cli("compare", "--run", fast, slow, *words).ok().json()
    (comparison,) = found["comparisons"]
    assert comparison["verdict"] == "worse" and comparison["paired"]
    assert 0.4 < comparison["overall"]["ratio"] < 0.6
    assert [run["target"]["url"] for run in found["runs"]] == [fast, slow]
    planted = [
        next(each["planted"] for each in run["target"]["planted"] if each["name"] == "link.rate")
        for run in found["runs"]
    ]
    assert planted == [300_000_000, 150_000_000]
