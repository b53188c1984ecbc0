"""What each client does of a cell."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest

from naslab.errors import UsageError
from naslab.execution.clients.launch import check_scheduler, hosts_of
from naslab.execution.clients.run import one_per_host
from naslab.execution.clients.settings import Host
from naslab.execution.clients.share import cell_spec, run_spec
from naslab.spec import CellSpec, PaceSpec, RunSpec

RUN = RunSpec({}, [], run_id="r", folder="naslab-r", seed=7)


def cell(**more: object) -> CellSpec:
    return CellSpec("write", 64 << 20, 1 << 20, ["naslab.a", "naslab.b"], workers=2, **more)  # type: ignore[arg-type]


def test_data_and_offsets_differ_from_client_to_client() -> None:
    specs = [run_spec(RUN, "own", client) for client in range(3)]
    assert [each.seed == 7 for each in specs] == [True, False, False], "one client does what a run without them does"
    assert len({each.seed for each in specs}) == len({each.run_id for each in specs}) == 3
    assert [each.folder for each in specs] == ["naslab-r-c0", "naslab-r-c1", "naslab-r-c2"]
    assert all(each.together and not each.join_folder for each in specs)
    assert len({cell_spec(cell(), "own", client, 3).seed for client in range(3)}) == 3


def test_rates_are_of_all_together_and_bounds_each_ones_own() -> None:
    part = cell_spec(cell(pace=PaceSpec(300.0), stop_bytes=30 << 20, stop_ops=31), "own", 1, 3)
    assert part.pace is not None and part.pace.rate_per_s == 100.0
    assert (part.stop_bytes, part.stop_ops, part.workers) == (30 << 20, 31, 2)


def test_files_of_one_folder_have_names_of_their_own() -> None:
    assert cell_spec(cell(), "folder", 1, 2).files == ["naslab.a.c1", "naslab.b.c1"]
    assert run_spec(RUN, "folder", 1).folder == "naslab-r" and run_spec(RUN, "folder", 1).join_folder


def test_parts_of_one_file_lie_side_by_side() -> None:
    parts = [cell_spec(cell(remove_before=True, create="new"), "file", client, 4) for client in range(4)]
    regions = [(each.walk.base_bytes, each.walk.len_bytes) for each in parts if each.walk is not None]
    assert regions == [(client * 16 << 20, 16 << 20) for client in range(4)]
    assert [each.stop_bytes for each in parts] == [32 << 20] * 4, "both files of each client's workers"
    assert [(each.remove_before, each.create) for each in parts] == [(True, "new"), *[(False, "if_missing")] * 3]
    anywhere = cell_spec(cell(pattern="random"), "file", 2, 4)
    assert anywhere.walk is None, "random offsets are of the whole file"


@pytest.mark.parametrize(
    ("more", "clients", "words"),
    [({"pattern": "backward"}, 2, "--share file: backward"), ({}, 65, "fewer records")],
)
def test_what_cannot_be_divided_is_refused(more: dict[str, object], clients: int, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        cell_spec(cell(**more), "file", 0, clients)


def test_hosts_are_named_in_a_line_or_a_file(tmp_path: Path) -> None:
    assert hosts_of("a,me@b:2222,[fd00::1]:22") == (Host("a"), Host("b", "me", 2222), Host("fd00::1", None, 22))
    file = tmp_path / "hosts"
    file.write_text("# of the lab\nnas1\n\nroot@nas2 # the old one\n")
    assert hosts_of(str(file)) == (Host("nas1"), Host("nas2", "root"))
    for wrong in ("a b", "a:port", ",", "me@"):
        with pytest.raises(UsageError, match="--hosts"):
            hosts_of(wrong)


def test_one_worker_of_each_host_comes_first() -> None:
    workers = [("w1", "a"), ("w2", "a"), ("w3", "b")]
    assert one_per_host(workers, None, "file") == [("w1", "a"), ("w3", "b")]
    assert one_per_host(workers, 3, "file") == [("w1", "a"), ("w3", "b"), ("w2", "a")]
    with pytest.raises(UsageError, match="--clients 4: --scheduler file has 3 workers"):
        one_per_host(workers, 4, "file")


def test_strangers_are_not_listened_to(tmp_path: Path) -> None:
    """Dask's messages can carry code."""
    file = tmp_path / "scheduler.json"
    for address, well in (
        ("tcp://127.0.0.1:8786", True), ("tcp://[::1]:8786", True), ("tcp://localhost:1", True),
        ("tls://10.0.0.1:8786", True), ("tcp://10.0.0.1:8786", False), ("tcp://nas:8786", False),
    ):  # fmt: skip
        file.write_text(json.dumps({"address": address}))
        for text in (address, str(file)):
            check_scheduler(text, trusted=True)
            with contextlib.nullcontext() if well else pytest.raises(UsageError, match="--trust-network"):
                check_scheduler(text, trusted=False)
    for text in ("{", "{}", "[]"):
        file.write_text(text)
        with pytest.raises(UsageError, match="nor a scheduler file"):
            check_scheduler(str(file), trusted=True)
