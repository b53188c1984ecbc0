"""What delegations and leases would save, from counts whose answer is known."""

from typing import Any

import pytest

from naslab.explain.caching import Saved, caching


def _cell(kinds: dict[str, tuple[int, int]], **more: Any) -> dict[str, Any]:
    return {
        "id": 1, "workload": "", "file_bytes": 1 << 20, "workers": 1, "block": 0, "durability": "none",
        "protocol_events": {}, "kinds": {kind: {"ops": ops, "bytes": size} for kind, (ops, size) in kinds.items()},
        **more,
    }  # fmt: skip


def _run(*cells: dict[str, Any], protocol: str = "nfs", facts: dict[str, Any] | None = None, **more: Any) -> Any:
    return {
        "target": {"url": "x", "protocol": protocol}, "cells": list(cells),
        "environment": {"target": facts or {"dialect": "4.1"}}, **more,
    }  # fmt: skip


def test_data_that_are_read_twice_are_read_once_by_a_client_that_may_cache_them() -> None:
    first = _cell({"read": (16, 1 << 20)})
    found = caching(_run(first))
    assert found is not None and (found.calls, found.reading, found.writing) == (16, Saved(), Saved())
    again = caching(_run(first, _cell({"read": (48, 3 << 20)}, id=2)))
    assert again is not None and again.reading == Saved(reads=48), "the same files"
    apart = caching(_run(first, _cell({"read": (16, 1 << 20)}, id=2, block=1)))
    assert apart is not None and apart.reading == Saved()


@pytest.mark.parametrize(("durability", "saved"), [("none", 12), ("each", 0)])
def test_data_that_are_written_twice_need_the_right_to_write(durability: str, saved: int) -> None:
    found = caching(_run(_cell({"write": (16, 4 << 20)}, durability=durability)))
    assert found is not None and (found.reading, found.writing) == (Saved(), Saved(writes=saved))


def test_a_trees_files_are_opened_once_and_their_attributes_never_asked_for() -> None:
    tree = {"files": 10, "mean_bytes": 4096}
    cells = [
        _cell({"create": (10, 0), "write": (10, 40960), "close": (10, 0)}, workload="tree"),
        _cell({"stat": (10, 0)}, workload="tree", id=2),
        _cell({"open": (10, 0), "close": (10, 0)}, workload="tree", id=3),
    ]
    found = caching(_run(*cells, tree=tree))
    assert found is not None and found.writing == Saved()
    assert found.reading == Saved(opens=10, closes=10, lookups=10), "they were made, and opened then"
    cells[2]["cache_state"] = "cold"
    found = caching(_run(*cells, tree=tree))
    assert found is not None and found.reading == Saved(lookups=10), "over a new connection nothing is known"
    cells[1]["op"] = "stat_dir"
    found = caching(_run(*cells, tree=tree))
    assert found is not None and found.reading == Saved(), "rights to files are none to folders"


def test_an_applications_files_are_those_that_it_prepared_and_made() -> None:
    app = {"cells": [1], "files_prepared": 2, "files_made": 0, "prepared_bytes": 1 << 20, "written_bytes": 0}
    cell = _cell({"open": (6, 0), "close": (6, 0), "read": (40, 4 << 20), "stat": (5, 0)})
    found = caching(_run(cell, apps={"results": [app]}))
    assert found is not None and found.reading == Saved(opens=4, closes=4, lookups=5, reads=30)


def test_what_is_not_known_saves_nothing() -> None:
    # Opens of nobody knows how many files; attributes of files that were never opened.
    found = caching(_run(_cell({"open": (9, 0), "close": (9, 0)}, file_bytes=None), _cell({"stat": (9, 0)}, id=2)))
    assert found is not None and found.reading == Saved()


@pytest.mark.parametrize(
    ("protocol", "facts", "events", "told"),
    [
        ("nfs", {"dialect": "3"}, {}, "NFS 3 has no delegations"),
        ("nfs", {"dialect": "4.1"}, {}, "this run asked for no delegations: naslab caches nothing"),
        ("nfs", {"dialect": "4.0"}, {"delegation_returned": 3}, "and gave back 3 that came all the same"),
        ("smb", {"leases": "none"}, {}, "this run asked for no leases"),
        (
            "smb", {"leases": "read, write and handle", "leases_asked": 9, "leases_granted": 8},
            {"lease_break": 1, "oplock_break": 1},
            "leases (read, write and handle): the server gave 8 of 9, and took 2 of them back; naslab used none",
        ),
        ("smb", {"leases": "read and handle"}, {}, "(read and handle): how many it got is not known; naslab used none"),
    ],
)  # fmt: skip
def test_what_the_server_gave_is_told(protocol: str, facts: dict[str, Any], events: Any, told: str) -> None:
    found = caching(_run(_cell({"read": (64, 4 << 20)}, protocol_events=events), protocol=protocol, facts=facts))
    assert found is not None and told in found.sentences()[0]
    name = "leases" if protocol == "smb" else "delegations"
    whose = " of NFS 4" if facts.get("dialect") == "3" else ""
    assert found.sentences()[1] == f"of its 64 calls a client with {name}{whose} would have saved about 48 (75 %)"
    right = "to read and keep handles" if protocol == "smb" else "to read"
    assert found.sentences()[2] == f"{name} {right}: 48 (48 reads of data read before)"
    assert found.document()["reading"]["reads"] == 48 and found.document()["sentences"] == found.sentences()


def test_where_nothing_would_be_saved_that_is_told() -> None:
    found = caching(_run(_cell({"read": (16, 1 << 20)})))
    assert found is not None and "would have saved none of its 16 calls" in found.sentences()[1]


def test_targets_without_such_rights_and_runs_without_counts_have_none() -> None:
    cell = _cell({"read": (64, 4 << 20)})
    assert caching(_run(cell, protocol="local")) is None and caching(_run(cell, protocol="sim")) is None
    assert caching(_run(cell, source={"tool": "fio"})) is None
    assert caching(_run()) is None and caching(_run({**cell, "workload": "probe"})) is None


def test_what_the_right_to_write_adds_is_told_apart() -> None:
    run = _run(_cell({"write": (16, 4 << 20)}), _cell({"read": (32, 2 << 20)}, id=2))
    found = caching(run)
    assert found is not None and found.sentences()[2:] == [
        "delegations to read: 16 (16 reads of data read before)",
        "delegations to write: 12 more (12 writes of data written again)",
    ]
    found = caching(_run(_cell({"write": (16, 4 << 20)})))
    assert found is not None and found.sentences()[2] == "delegations to write: 12 (12 writes of data written again)"
