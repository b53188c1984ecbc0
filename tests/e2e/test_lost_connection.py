"""A connection that the server, or something on the way, ends in the middle of a `run` costs one cell, not the run."""

from __future__ import annotations

import pytest

from cli_tools import Cli
from faults import relay
from lab_tools import own_folders
from naslab import lab

pytestmark = [pytest.mark.lab, pytest.mark.usefixtures("own_folders")]
__all__ = ["own_folders"]
MB = 1_000_000
AFTER_BYTES = 40 * MB
"""Beyond what probing a target reads, and far below what a ladder reads."""


def test_a_server_that_was_silent_once_costs_one_cell(cli: Cli) -> None:
    """A Samba whose disk thrashed gave no answer for 30 s: 97 s of measurements ended with exit code 1."""
    with lab.running("demo") as server, relay(server.port) as silent:
        target = server.url.replace(f":{server.port}/", f":{silent.port}/")
        silent.hold_after(AFTER_BYTES)
        done = cli("run", target, "--budget", "25s", "--timeout", "2s", "--json", prefix=server.inside())
    document = done.sound().json()
    lost = [one for one in document["warnings"] if one["kind"] == "connection_lost"]
    assert done.code == 0 and document["status"] == "complete", done.err
    assert len(lost) == 1 and "no operation ended for 2 s" in lost[0]["message"], lost
    assert [cell["id"] for cell in document["cells"] if cell["status"] == "failed"] == [lost[0]["cell"]]
    assert [cell["id"] for cell in document["cells"] if cell["id"] > lost[0]["cell"]], "it went on"


@pytest.mark.parametrize(("times", "whole"), [(1, True), (6, False)])
def test_a_lost_connection_ends_one_cell(times: int, whole: bool, cli: Cli) -> None:
    with lab.running("demo") as server, relay(server.port) as broken:
        target = server.url.replace(f":{server.port}/", f":{broken.port}/")
        broken.close_every(AFTER_BYTES, times)
        done = cli("run", target, "--budget", "25s", "--json", prefix=server.inside())
    document = done.sound().json()
    lost = [one for one in document["warnings"] if one["kind"] == "connection_lost"]
    failed = [cell["id"] for cell in document["cells"] if cell["status"] == "failed"]
    assert broken.closings_left < times, "the relay broke nothing"
    if not whole:  # so many are no accident
        assert document["status"] == "failed" and done.code == 1 and len(lost) <= 3
        return
    assert done.code == 0 and document["status"] == "complete", done.err
    assert [one["cell"] for one in lost] == failed and len(failed) == 1
    assert "continued over a new connection" in lost[0]["message"]
    assert [cell["id"] for cell in document["cells"] if cell["id"] > failed[0]], "it went on"
    limits = document["verdict"]["limits"]
    assert limits and all(limit["confidence"] < 0.9 for limit in limits)
