"""Runs without a ladder, explained by the fitted model: simulated servers whose limits are known."""

from __future__ import annotations

from pathlib import Path

import pytest

from naslab.cli.dispatch import run_app
from naslab.explain import any_run, cells
from naslab.explain.answer import answer
from naslab.results import Run
from naslab.results.store import Store

README = "sim:?link_bytes_per_s=125MB&latency_ns=200us&disk_read_bytes_per_s=60MB"
"""No cache: reads come off a disk of 60 MB/s, writes meet the link."""


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A sweep of README's own server."""
    store = tmp_path_factory.mktemp("cells") / "s.db"
    sizes = ["--file-size", "64k,1m,16m", "--record", "4k,64k,1m"]
    assert run_app(["sweep", README, "--repeat", "3", *sizes, "--quiet", "--store", str(store)]) == 0
    return Store(store).load("last")


@pytest.mark.timeout(180)
def test_readmes_own_server_reads_at_its_disks_rate(swept: Run) -> None:
    found = answer(swept.document)
    ranked = {(limit["applies_to"]["op"], limit["applies_to"]["size"]): limit for limit in reversed(found.limits)}
    reads, writes = ranked["read", "large"], ranked["write", "large"]
    assert reads["kind"] == "disk" and reads["value"] == pytest.approx(60e6, rel=0.1)
    assert writes["kind"] == "link" and writes["value"] == pytest.approx(125e6, rel=0.1)
    assert all(limit["confidence"] <= any_run.UNVARIED for limit in found.limits)


def test_no_read_of_it_is_at_the_links_rate(swept: Run) -> None:
    named = {(cell["kinds"].keys() >= {"read"}, cell["record_bytes"]): set() for cell in swept.cells}  # type: ignore[var-annotated]
    for cell in swept.cells:
        named[cell["kinds"].keys() >= {"read"}, cell["record_bytes"]].add(cell["regime"])
    assert named[True, 1 << 20] == {"disk"} and named[False, 1 << 20] == {"link"}
    # Of 302 us of a small read 200 us are the round trip, 68 us the disk.
    assert named[True, 4 << 10] == {"latency"} and named[False, 4 << 10] == {"latency"}
    evidence = next(cell["regime_evidence"] for cell in swept.cells if cell["regime"] == "disk")
    assert "of it for the disks" in evidence and "probability 0." in evidence


def test_a_large_run_is_fitted_by_few_rows(swept: Run) -> None:
    seen = cells.evidence_of(swept.document)
    kept = sum(map(len, cells.merged(seen).points.values()))
    assert kept <= cells.MAX_POINTS < sum(map(len, seen.points.values()))
    few = cells.merged(seen, 8)
    assert {p.op for points in few.points.values() for p in points} == {"read", "write"}


def test_of_one_load_nothing_is_concluded(tmp_path: Path) -> None:
    store = tmp_path / "s.db"
    one = ["--file-size", "1m", "--record", "64k", "--tests", "read"]
    assert run_app(["sweep", README, *one, "--quiet", "--store", str(store)]) == 0
    assert answer(Store(store).load("last").document).limits == []


@pytest.mark.parametrize(
    ("protocol", "facts", "slots"),
    [
        ("smb", {"credits_granted": "512", "connections": "2"}, 1024), ("nfs", {"slots": "64"}, 64), ("nfs", {}, None),
        ("local", {}, None),
    ],
)  # fmt: skip
def test_what_the_server_granted_is_known_of_any_run(
    swept: Run, protocol: str, facts: dict[str, str], slots: int | None
) -> None:
    """So no other number of slots may explain that a rate grows no more with depth, nor in a run without a ladder."""
    target, told = swept.document["target"], swept.document["environment"]
    document = {**swept.document, "target": {**target, "protocol": protocol}, "environment": {**told, "target": facts}}
    assert cells.evidence_of(document, []).slots == slots
