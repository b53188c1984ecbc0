"""What naslab-agent wrote becomes a run like any other."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from cli_tools import SIM, Cli
from naslab.errors import ForeignFileError
from naslab.exchange.importers.agent_lines import parse
from naslab.exchange.importers.base import Input
from naslab.results.schema import json_schema

SAMPLE = Path(__file__).parents[1] / "samples" / "agent.jsonl"
LINES = [json.loads(line) for line in SAMPLE.read_text().splitlines()]
SECRET = {"protocol": "smb", "options": {"host": "nas", "share": "media", "user": "ann"}}


def text(lines: list[dict[str, Any]]) -> Input:
    """Lines as a file."""
    return Input("result.jsonl", "".join(json.dumps(line) + "\n" for line in lines).encode())


def test_cells_are_those_that_were_measured() -> None:
    (run,) = parse(Input.of(SAMPLE))
    measured = [line["data"] for line in LINES if line["event"] == "cell"]
    assert [cell["bytes"] for cell in run.cells] == [cell["bytes"] for cell in measured]
    assert [cell["op"] for cell in run.cells] == ["write", "random_read"] and run.document["status"] == "complete"
    assert run.document["command"] == "run" and run.document["seed"] == 7
    _, counts = run.histogram(1)
    assert counts.sum() == run.cells[1]["ops"] == 500
    assert all(cell["latency_ns"]["p99"] and cell["regime"] for cell in run.cells)
    document = {**run.document, "cells": run.cells}
    jsonschema.Draft202012Validator(json_schema(strict=True)).validate(document)


def test_the_same_file_is_the_same_run() -> None:
    one, other = parse(Input.of(SAMPLE))[0], parse(Input.of(SAMPLE))[0]
    assert one.run_id == other.run_id and one.run_id.startswith(one.document["started_at"][:4])


def test_a_file_that_ends_early_is_a_partial_run() -> None:
    """The machine it was written on may have gone down: what was measured counts."""
    whole = text(LINES[:3]).data + b'{"event":"before","da'
    (run,) = parse(Input("result.jsonl", whole))
    assert len(run.cells) == 1 and run.document["status"] == "partial"
    assert [found["kind"] for found in run.document["warnings"]] == ["interrupted"]


LOST = {"kind": "disconnected", "status": 104, "operation": "read", "facts": [],
        "cause": "Connection reset by peer (os error 104)"}  # fmt: skip


def test_what_went_wrong_is_told() -> None:
    end = {**LINES[-1]["data"], "status": "failed", "error": LOST,
           "left_behind": [{"path": "naslab-x", "why": LOST}, {"path": "naslab-x/mine", "why": None}]}  # fmt: skip
    (run,) = parse(text([*LINES[:-1], {"event": "end", "data": end}]))
    assert run.document["status"] == "failed"
    error, left, foreign = run.document["warnings"]
    assert [found["kind"] for found in (error, left, foreign)] == ["error", "left_behind", "left_behind"]
    why = "cannot read: Connection reset by peer; check the server and the network"
    assert error["message"] == why and f"left on the target: naslab-x: {why}; look" in left["message"]
    assert "left on the target: naslab-x/mine; look" in foreign["message"]


def test_a_server_is_named() -> None:
    begin = {**LINES[0]["data"], "spec": {**LINES[0]["data"]["spec"], "target": SECRET}}
    begin["target"] = {**begin["target"], "facts": {"dialect": "3.1.1", "signing": "none"}}
    end = {"event": "end", "data": {**LINES[-1]["data"], "facts": {}}}
    (run,) = parse(text([{"event": "begin", "data": begin}, *LINES[1:-1], end]))
    target = run.document["target"]
    assert (target["url"], target["dialect"], target["signing"]) == ("smb://nas/media", "3.1.1", None)


@pytest.mark.parametrize("lines", [
    LINES[1:], LINES[:1], [{"event": "begin", "data": {"target": {}}}],
    [LINES[0], {**LINES[2], "blobs": ["%%%"]}], [LINES[0], {**LINES[2], "blobs": []}],
    [LINES[0], {"event": "cell", "data": {"id": 9}}, LINES[-1]], [{"event": "begin"}, LINES[-1]],
])  # fmt: skip
def test_what_no_agent_wrote_is_refused(lines: list[dict[str, Any]]) -> None:
    with pytest.raises(ForeignFileError, match="naslab-agent"):
        parse(text(lines))


def test_a_damaged_histogram_is_refused() -> None:
    blobs = [base64.b64encode(b"nothing").decode() for _ in LINES[2]["blobs"]]
    mixed = {**LINES[2]["data"]}
    (run,) = parse(text([LINES[0], {"event": "cell", "data": mixed, "blobs": blobs}, LINES[-1]]))
    assert run.cells[0]["bytes"] == mixed["bytes"], "its numbers are whole; only its percentiles were in the blob"


def test_by_the_command_line(cli: Cli) -> None:
    """From a specification that naslab prints to a run that it shows, compares and exports."""
    cli("sweep", SIM, "--file-size", "1m", "--record", "64k", "--tests", "write,read", "--quiet").ok()
    spec = cli("show", "last", "--spec").ok().json()
    assert [cell["op"] for cell in spec["cells"]] == ["write", "read"] and "password" not in json.dumps(spec)
    name = parse(Input.of(SAMPLE))[0].run_id
    assert name in cli("import", SAMPLE).ok().out
    assert "outstanding requests" in cli("show", name).ok().out
    assert cli("show", name, "--spec").sound().code == 2, "an imported run has no plan"
    assert cli("show", "last", "--spec", "--redact").sound().code == 2
    cli("report", name, "-o", cli.folder / "agent.html").ok()
    assert "Stored already" in cli("import", SAMPLE).ok().out
