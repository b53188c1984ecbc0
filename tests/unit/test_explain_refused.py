"""Writes that a server refuses: their data cross the network and reach no disk, so a slow disk is no slow link."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from made_evidence import MB, Server, ladder
from naslab.cli.dispatch import run_app
from naslab.explain.rows import rows_of
from naslab.explain.steps import bounds_of
from naslab.explain.verdict import CERTAIN, judge
from naslab.results.store import Store
from naslab.spec import DataSpec

SLOW_DISKS = "sim:?link_bytes_per_s=125MB&latency_ns=100us&server_cache_bytes=256m&disk_write_bytes_per_s=40MB"


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("server", "refused", "kind"),
    [
        (Server(link=1100 * MB, uplink=34 * MB), 33 * MB, "link"),
        (Server(link=1100 * MB, disk_write=34 * MB, disk_read=48 * MB, write_back=False), 700 * MB, "disk"),
    ],
    ids=["a slow way", "slow disks"],
)
def test_a_slow_way_to_the_server_and_slow_disks_are_told_apart(server: Server, refused: float, kind: str) -> None:
    """Durable writes of every size are as fast over either."""
    rows = rows_of(ladder(server, noise=0.01, refused_bytes_per_s=refused))
    assert rows is not None
    large = next(each for each in judge(rows) if (each.op, each.size) == ("write", "large"))
    assert large.first.kind == kind and large.first.probability > (0.7 if kind == "link" else CERTAIN)


def test_they_reach_a_simulated_server_at_the_rate_of_its_link(tmp_path: Path) -> None:
    store = tmp_path / "s.db"
    assert run_app(["run", SLOW_DISKS, "--budget", "20s", "--no-sweep", "--quiet", "--store", str(store)]) == 0
    document = Store(store).load("last").document
    reached = document["ladder"]["conditions"]["refused_bytes_per_s"]
    assert reached == pytest.approx((1 << 20) / ((1 << 20) / 125e6 + 100e-6), rel=0.03)
    told = [limit["evidence"] for limit in document["verdict"]["limits"]]
    assert any(
        "writes that the server refused reached it at 123 MB/s, 3.2 times durable ones" in each for each in told
    ), told


@pytest.mark.parametrize(
    ("protocol", "facts", "asked"),
    [
        ("smb", {}, True), ("nfs", {"lease_seconds": 90}, True), ("nfs", {"dialect": "3"}, False), ("sim", {}, True),
        ("local", {}, False), ("null", {}, False),
    ],
)  # fmt: skip
def test_only_servers_that_know_files_open_for_reading_are_asked(
    protocol: str, facts: dict[str, Any], asked: bool
) -> None:
    caps = {"max_depth": 64, "direct": True, "evict": True}
    assert bounds_of(caps, 10**10, 1 << 40, None, DataSpec(), 0, protocol, facts).refuses is asked
