"""Trees of folders and files: their shape, sizes, who makes what, and rates on a server that is known."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from naslab.cli.common import Common, Load
from naslab.cli.tree import TreeRequest, run_tree
from naslab.errors import UsageError
from naslab.plans.tree import PHASES, TreeOptions, items, shares
from naslab.results import Run
from naslab.store import Store


def measure(tmp_path: Path, target: str, code: int = 0, **options: Any) -> Run:
    """The run of `naslab tree`."""
    store = tmp_path / "store.sqlite"
    load = Load(options.pop("repeat", 1), workers=options.pop("workers", 1))
    given = {"depth": 2, "fan_out": 3, "files": 40, "file_size": "4k", "sizes": "fixed", "shared": False, **options}
    common = Common("tree", store, False, True, 0, {}, "", "30s", None)
    assert run_tree(TreeRequest(target, load=load, **given), common) == code
    return Store(store).load("last")


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("workers", [1, 3])
def test_every_folder_and_file_belongs_to_one_worker(shared: bool, workers: int) -> None:
    found = shares(TreeOptions(3, 4, 100, 10, workers=workers, shared=shared), "top")
    trees = 1 if shared else workers
    folders = Counter(path for share in found for path in share.folders)
    files = Counter(path for share in found for path, _ in share.files)
    assert set(folders.values()) == set(files.values()) == {1}
    assert len(folders) == trees * (1 + 4 + 16 + 64) and len(files) == trees * 100
    assert items(TreeOptions(3, 4, 100, 10, workers=workers, shared=shared)) == (len(folders), len(files))
    for share in found:
        known = {"top"} if shared else set()
        for path in share.folders:
            known.add(path)
            parent = path.rpartition("/")[0]
            assert parent in known or parent in ("", "top"), "parents first, made by the same worker"
    assert {path.rpartition("/")[0] for path in files} == set(folders), "files in all folders"


def test_sizes() -> None:
    (fixed,) = shares(TreeOptions(0, 1, 50, 4096), "t")
    assert {size for _, size in fixed.files} == {4096}
    options = TreeOptions(0, 1, 20_000, 10_000, lognormal=True, seed=3)
    (spread,) = shares(options, "t")
    sizes = sorted(size for _, size in spread.files)
    assert sum(sizes) / len(sizes) == pytest.approx(10_000, rel=0.1)
    # The median of a lognormal distribution lies exp(sigma^2 / 2) below its mean.
    assert sizes[10_000] == pytest.approx(10_000 / 2.718**1.125, rel=0.05)
    assert shares(options, "t") == [spread], "the same seed, the same files"


def test_rates_of_a_known_server(tmp_path: Path) -> None:
    """1 ms for each call, half more for those on metadata but for opens: a create is an open, a write and a close."""
    run = measure(tmp_path, "sim:?latency_ns=1ms&metadata_ns=500us", repeat=2)
    rows = {row["op"]: row for row in run.document["tree"]["phases"]}
    assert list(rows) == list(PHASES)
    for op, row in rows.items():
        per_file = op not in ("mkdir", "readdir", "rmdir")
        # 13 folders, and one above them that is not listed.
        assert row["count"] == (40 if per_file else 13 if op == "readdir" else 14) and row["repeats"] == 2
        call_ns, item_ns = {"create": (1e6, 3.5e6), "open_close": (1e6, 2.5e6)}.get(op, (1.5e6, 1.5e6))
        for quantile in ("p50", "p99"):
            assert row[f"latency_ns_{quantile}"] == pytest.approx(call_ns, rel=0.01), op
        assert row["ops_per_s"] == pytest.approx(1e9 / item_ns, rel=0.01), op
    (create,) = [cell for cell in run.cells if cell["op"] == "create" and cell["block"] == 0]
    assert create["bytes"] == 40 * 4096 and create["errors"] == 0


@pytest.mark.parametrize("options", [
    {}, {"workers": 3}, {"workers": 3, "shared": True, "sizes": "lognormal"}, {"file_size": "0", "depth": 0},
    {"workers": 2, "shared": True, "fan_out": 1, "files": 1}, {"file_size": "3m", "files": 3, "repeat": 2},
])  # fmt: skip
def test_a_folder_is_left_as_it_was(options: dict[str, Any], tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir()
    run = measure(tmp_path, str(target), **options)
    assert run.document["status"] == "complete"
    assert all(cell["errors"] == 0 for cell in run.cells), [cell["first_error"] for cell in run.cells]
    assert [cell["op"] for cell in run.cells] == list(PHASES) * options.get("repeat", 1)
    assert list(target.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"depth": 20, "fan_out": 10}, "--depth-of-tree 20 --fan-out 10"),
        ({"file_size": "1g"}, "--file-size"),
        ({"file_size": "0", "sizes": "lognormal"}, "--sizes lognormal"),
        ({"sizes": "odd"}, "--sizes 'odd'"),
    ],
)
def test_refused(options: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=words):
        measure(tmp_path, "sim:", **options)
