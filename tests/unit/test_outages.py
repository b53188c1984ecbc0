"""`--ride-out`: what is refused, and what a run says of the times without a server."""

from typing import Any

import pytest

from cli_tools import Cli
from naslab.cli.ride_out import ride_out_ns, riding_out
from naslab.errors import UsageError
from naslab.render.report import testbed
from naslab.results.document import cell_document
from naslab.results.outages import outage_sentences, outage_warnings, outages_of

S = 10**9


def _outage(worker: int, start_s: float, end_s: float, lost: int = 0, **more: int) -> dict[str, Any]:
    return {
        "worker": worker, "start_ns": int(start_s * S), "end_ns": int(end_s * S), "attempts": 3, "repeated_ops": 4,
        "read_back_writes": 10, "read_back_bytes": 640_000, "lost_writes": lost,
        "first_lost": "f at 0" if lost else None, **more,
    }  # fmt: skip


def test_what_workers_saw_at_one_time_is_one_outage() -> None:
    cells = [
        {"id": 1, "outages": [_outage(1, 10.5, 22), _outage(0, 10, 21), _outage(0, 40, 41.5)]}, {"id": 2},
        {"id": 3, "outages": [_outage(0, 41, 42)]},
    ]  # fmt: skip
    found = outages_of({"cells": cells})
    assert [(each.cell, each.no_service_ns / S, each.workers) for each in found] == [
        (1, 12.0, 2), (1, 1.5, 1), (3, 1.0, 1),
    ]  # fmt: skip
    first, second = outage_sentences({"cells": cells})
    assert first == "there was no service for 12 s, 1.50 s, 1 s, 3 times: the server went away and came back"
    assert second == "the last 40 acknowledged writes (2.56 MB) were read back: all had survived"


def test_files_that_the_server_kept_are_told() -> None:
    cells = [{"id": 1, "outages": [
        _outage(0, 1, 3, kept_files=2, reopened_files=0), _outage(1, 2, 3, kept_files=0, reopened_files=1),
    ]}]  # fmt: skip
    told = outage_sentences({"cells": cells})
    assert told[1] == "2 of 3 open files were kept by the server, 1 opened again by name"
    assert not any("kept" in each for each in outage_sentences({"cells": [{"id": 1, "outages": [_outage(0, 1, 3)]}]}))


def test_calls_that_were_made_again_are_told() -> None:
    cells = [{"id": 1, "outages": [
        _outage(0, 1, 3, repeated_calls=2, calls_done_before=1),
        _outage(1, 2, 3, repeated_calls=1, calls_done_before=0, answers_replayed=1),
    ]}]  # fmt: skip
    (outage,) = outages_of({"cells": cells})
    assert (outage.repeated_calls, outage.answers_replayed, outage.calls_done_before) == (3, 1, 1)
    calls = (
        "calls without an answer that were made again after the outage: 3, of which 1 had been carried out before it"
    )
    assert calls in outage_sentences({"cells": cells})
    cells[0]["outages"] = [_outage(0, 1, 3, repeated_calls=2, calls_done_before=0)]
    assert "calls without an answer that were made again after the outage: 2" in outage_sentences({"cells": cells})


def test_only_the_files_of_older_documents_may_be_missing() -> None:
    one = _outage(0, 1, 3)
    del one["lost_writes"]
    with pytest.raises(KeyError):
        outages_of({"cells": [{"id": 1, "outages": [one]}]})


def test_lost_writes_are_told_and_runs_without_outages_say_nothing() -> None:
    document = {"target": {"url": "smb://nas/data"}, "cells": [{"id": 1, "outages": [_outage(0, 1, 3, lost=2)]}]}
    assert outage_sentences(document)[1].endswith("2 of them were lost")
    assert "2 of them were lost" in testbed.section([("one", document)])
    assert outage_sentences({"cells": [{"id": 1}]}) == []


def test_outages_of_the_engine_are_kept_with_the_cell() -> None:
    spec = {"op": "write", "file_bytes": 1, "record_bytes": 1}
    assert cell_document(spec, {"outages": [_outage(0, 1, 2)]})["outages"] == [_outage(0, 1, 2)]
    assert "outages" not in cell_document(spec, {})
    (told,) = outage_warnings({"id": 4, "outages": [_outage(0, 1, 2), _outage(1, 1.5, 3)]})
    assert told["kind"] == "outage" and told["cell"] == 4 and "away for 2 s within this cell" in told["message"]
    assert outage_warnings({"id": 4}) == []


@pytest.mark.parametrize("text", ["0", "25h", "soon", "-1s"])
def test_times_that_are_none_are_refused(text: str) -> None:
    with riding_out(text), pytest.raises(UsageError, match="--ride-out"):
        ride_out_ns()


def test_the_time_is_that_of_the_command_under_way() -> None:
    with riding_out("90s"):
        assert ride_out_ns() == 90 * S
    assert ride_out_ns() == 0


@pytest.mark.parametrize("target", ["sim:", "null:", "."])
def test_targets_without_a_server_are_refused(target: str, cli: Cli) -> None:
    done = cli("sustained", target, "--duration", "1s", "--ride-out", "10s")
    assert done.code == 2 and "--ride-out" in done.err and "smb:// or nfs://" in done.err
    assert cli.runs() == []
