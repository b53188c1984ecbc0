"""`naslab whatif` of a run that was really made, and the server with the changed part, measured too."""

from __future__ import annotations

from typing import Any

import pytest

from cli_tools import Cli

SERVER = (
    "sim:?latency_ns=200us&op_overhead_ns=2000&server_op_ns=20us&link_bytes_per_s=250MB&server_cache_bytes=128m"
    "&disk_read_bytes_per_s={}MB&disk_write_bytes_per_s={}MB&write_back_bytes=16m"
)


def large(document: Any, op: str) -> float:
    """The first limit of large reads or writes, in bytes per second."""
    found = [x for x in document["verdict"]["limits"] if x["applies_to"] == {"op": op, "size": "large"}]
    return float(found[0]["value"])


@pytest.mark.lab
@pytest.mark.timeout(400)  # two whole runs are explained, on a busy machine for minutes
def test_a_faster_disk(cli: Cli) -> None:
    cli("run", SERVER.format(60, 40), "--budget", "2m", "--quiet").ok()
    told = cli("whatif", "last", "--disk", "2x", "--json").ok().json()
    after = cli("run", SERVER.format(120, 80), "--budget", "2m", "--quiet", "--json").ok().json()
    said = {
        (p["applies_to"]["op"], p["set_bytes"] > 4 << 20): p
        for p in told["predictions"]
        if p["applies_to"]["size"] == "large"
    }
    assert said["read", True]["then"]["value"] == pytest.approx(large(after, "read"), rel=0.1)
    assert said["write", True]["then"]["value"] == pytest.approx(large(after, "write"), rel=0.1)
    assert said["read", True]["limit_then"] == said["write", True]["limit_then"] == "disk"
    assert said["read", True]["measured"]["value"] == pytest.approx(60e6, rel=0.03)
    faster = cli("whatif", "last", "--link", "10g", "--json").ok().json()["predictions"]
    memory = next(p for p in faster if p["applies_to"]["size"] == "large" and p["set_bytes"] <= 4 << 20)
    # How long what the link hides takes may be known or only bounded; 10 Gbit/s is within it.
    then = memory["then"]
    if memory["known"]:
        assert then["value"] == pytest.approx(1250e6, rel=0.1)
    else:
        assert then["at_least"] <= 1250e6 * 1.1 and then.get("at_most", 1250e6) >= 1250e6 * 0.9
    small = next(p for p in faster if p["applies_to"]["size"] == "small" and p["set_bytes"] <= 4 << 20)
    if small["known"]:
        assert small["then"]["value"] == pytest.approx(50_000, rel=0.1)
    else:
        assert small["then"]["at_least"] <= 50_000 * 1.02
    text = cli("whatif", "last", "--link", "10g").ok().out
    assert "not known" not in text and "the disks" in text
    assert ("between " in text) == (not (memory["known"] and small["known"]))
    refused = cli("whatif", "last").sound()
    assert refused.code == 2 and "no change is given" in refused.err and not refused.out
