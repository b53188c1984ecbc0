"""Whole measurements over every subject: each byte tagged and checked, the folder gone afterwards."""

from __future__ import annotations

from typing import Any

import pytest
from subjects import Subject

from naslab import _engine
from naslab.commands.plans.sweep import SweepOptions, plan_cells
from naslab.execution.execute import execute, probe
from naslab.results.store import Store
from naslab.spec import RunSpec
from naslab.targets import Target

OPS = ["write", "rewrite", "read", "reread", "random_read", "random_write", "backward_read", "stride_read"]


@pytest.mark.parametrize(("depth", "workers"), [(1, 1), (8, 2)])
def test_a_verified_sweep(target: Target, subject: Subject, store: Store, depth: int, workers: int) -> None:
    options = SweepOptions(
        file_sizes=[1 << 20], records=[4096, 1 << 18], ops=OPS, workers=workers,
        queue_depth=min(depth, subject.depth), verify=True,
    )  # fmt: skip
    caps = probe(target, [])["caps"]
    spec = RunSpec({}, plan_cells(options, caps), command="sweep", folder="", seed=7)
    run = execute(spec, target=target, store=store)
    assert run.document["status"] == "complete", run.document["warnings"]
    for cell in run.document["cells"]:
        assert (cell["errors"], cell["status"]) == (0, "complete"), cell["first_error"]
        if "read" in cell["op"]:
            assert (cell["verified"]["bad"], cell["verified"]["blocks"] > 0) == (0, True)
        assert cell["bytes"] == workers * (1 << 20)
        wire(cell, target)
    assert not [name for name, _ in left(target) if name.startswith("naslab-")]
    found: dict[str, Any] = run.document["target"]
    for name, value in subject.expect:
        if name in ("dialect", "signing", "encryption"):
            assert found[name] == (None if value == "none" else value)


def wire(cell: dict[str, Any], target: Target) -> None:
    """Every byte claimed went over the wire."""
    if target.protocol not in ("smb", "nfs"):
        return
    field = "wire_received_bytes" if "read" in cell["op"] else "wire_sent_bytes"
    assert cell[field] >= cell["bytes"], cell["op"]


def left(target: Target) -> list[tuple[str, bool]]:
    if target.protocol == "sim":
        return []
    session = _engine.Session(target.engine_json(), 1)
    try:
        return session.readdir("")
    finally:
        session.end()
