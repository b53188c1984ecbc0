"""Documents and a store of version 0.1, made by that version: they open, show, export, compare and redact as they did.

The commands were given `sim:` as target; the store holds two sweeps and a sustained load.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from naslab.cli import main
from naslab.exchange.export import export
from naslab.exchange.json_file import read_json
from naslab.redact import redact
from naslab.render.show import show_run
from naslab.results.run import Run
from naslab.store import Store

OLD = Path(__file__).parents[1] / "golden" / "version_0_1"
NAMES = sorted(path.name.removesuffix(".json.gz") for path in OLD.glob("*.json.gz"))
Golden = Callable[[str, str], None]


def unpacked(name: str) -> bytes:
    return gzip.decompress((OLD / f"{name}.gz").read_bytes())


def opened(name: str, tmp_path: Path) -> Run:
    file = tmp_path / f"{name}.json"
    file.write_bytes(unpacked(file.name))
    return read_json(file)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    (tmp_path / "old.sqlite").write_bytes(unpacked("store.sqlite"))
    return Store(tmp_path / "old.sqlite")


def changed(before: Any, after: Any, where: str = "") -> Iterator[str]:
    """What redaction changed, a line for each place."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in before:
            yield from changed(before[key], after.get(key, "(left out)"), f"{where}.{key}".lstrip("."))
        yield from (f"{where}.{key}: new" for key in sorted(after.keys() - before.keys()))
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for at, (old, new) in enumerate(zip(before, after, strict=True)):
            yield from changed(old, new, f"{where}.{at}")
    elif before != after:
        yield f"{where}: {before!r} -> {after!r}"


def test_every_kind_is_there() -> None:
    assert NAMES == ["apps", "curve", "profile", "run", "sweep_adaptive", "tree"]


@pytest.mark.parametrize("name", NAMES)
def test_a_file_is_read_as_it_was_written(name: str, tmp_path: Path) -> None:
    assert dict(opened(name, tmp_path).document) == json.loads(unpacked(f"{name}.json"))


@pytest.mark.parametrize("name", NAMES)
def test_a_file_says_what_it_said(name: str, tmp_path: Path, golden: Golden) -> None:
    run = opened(name, tmp_path)
    texts = [
        show_run(run, 100, False), export([run], tmp_path / "run.csv").read_text(),
        *changed(run.document, redact(run).document),
    ]  # fmt: skip
    golden(f"version_0_1/{name}.txt", "\n".join(texts) + "\n")


def test_a_store_says_what_it_said(
    store: Store, golden: Golden, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    ids = [each.run_id for each in store.list_runs()]
    for words in (["runs"], *(["show", run_id] for run_id in ids), ["compare", ids[2], ids[1], "--json"]):
        assert main([*words, "--store", str(store.path)]) == (4 if words[0] == "compare" else 0)  # 4: one is slower
    golden("version_0_1/store.txt", capsys.readouterr().out)


def test_types_describe_all_that_they_hold(store: Store, tmp_path: Path) -> None:
    """Every document is of its types, and nothing is lost on the way through them but facts nobody described."""
    import msgspec

    from naslab.results.parts.run import RunDocument

    runs = [*(opened(name, tmp_path) for name in NAMES), *(store.load(each.run_id) for each in store.list_runs())]
    for run in runs:
        typed = msgspec.to_builtins(msgspec.convert(run.document, RunDocument))
        lost = list(changed(run.document, typed))
        assert [line for line in lost if not line.startswith(("environment.", "target."))] == []
