"""`naslab tree` on real servers."""

from __future__ import annotations

import pytest

from cli_tools import Cli, need
from naslab.lab import systems

SMALL = ("--files", "30", "--fan-out", "3", "--workers", "2", "--sizes", "lognormal", "--json")


@pytest.mark.lab
@pytest.mark.parametrize("target", ["samba", "ganesha"])
def test_a_server(target: str, cli: Cli) -> None:
    """All phases, without an error, in trees of their own and in one for both workers."""
    missing = systems.missing_packages(systems.system(target))
    need(not missing, f"{target}: {' '.join(missing)}")
    document = cli("tree", f"lab:{target}", *SMALL, "--shared").ok().json()
    rows = {row["op"]: row for row in document["tree"]["phases"]}
    assert len(rows) == 8 and all(row["ops_per_s"] > 0 and row["latency_ns_p50"] > 0 for row in rows.values())
    assert all(cell["errors"] == 0 for cell in document["cells"])
    assert rows["stat"]["count"] == 30 and rows["mkdir"]["count"] == rows["readdir"]["count"] == 13


def test_what_is_printed(cli: Cli) -> None:
    done = cli("tree", cli.target, *SMALL[:-1]).ok()
    assert "open_close" in done.out and "2 workers in a tree each" in done.out
    refused = cli("tree", cli.target, "--files", "0").sound()
    assert refused.code == 2 and "--files" in refused.err and list(cli.target.iterdir()) == []
