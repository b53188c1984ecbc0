"""Documents and a store of version 0.1, made by that version: they open, show, export, compare and redact as they did.

The commands were given `sim:` as target; the store holds two sweeps and a sustained load.
"""

from __future__ import annotations

import copy
import gzip
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from naslab.cli import main
from naslab.exchange.export import export
from naslab.exchange.json_file import read_json
from naslab.exchange.redact import redact
from naslab.render.terminal.show import show_run
from naslab.results.describe import typed
from naslab.results.parts.run import RunDocument
from naslab.results.run import Run
from naslab.results.shape import fault, leaf_fault
from naslab.results.store import Store

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


def shortened(value: Any) -> Any:
    """A document with two items of each list."""
    if isinstance(value, dict):
        return {key: shortened(each) for key, each in value.items()}
    return [shortened(each) for each in value[:2]] if isinstance(value, list) else value


def places(value: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in a document."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in items:
        yield (*way, key)
        yield from places(each, (*way, key))


@pytest.mark.parametrize("name", NAMES)
def test_what_the_reading_check_accepts_is_of_its_type(name: str) -> None:
    """Readers take documents by their types: one that is accepted must never end in an error there."""
    whole = shortened(json.loads(unpacked(f"{name}.json")))
    draw, accepted = random.Random(name), 0
    for way in draw.sample(sorted(places(whole), key=str), 120):
        for odd in draw.sample([None, 0, 7.0, 2.5, "read", True, [], {}, [1], [1, 2], [None, 1.0], {"a": 1}], 4):
            document = copy.deepcopy(whole)
            there: Any = document
            for step in way[:-1]:
                there = there[step]
            there[way[-1]] = odd
            if leaf_fault(document) is None and fault(document) is None:
                typed(document, RunDocument)
                accepted += 1
    assert accepted > 60


def test_types_describe_all_that_they_hold(store: Store, tmp_path: Path) -> None:
    """Every document is of its types, and nothing is lost on the way through them but facts nobody described."""
    runs = [*(opened(name, tmp_path) for name in NAMES), *(store.load(each.run_id) for each in store.list_runs())]
    for run in runs:
        again = msgspec.to_builtins(typed(run.document, RunDocument))
        lost = list(changed(run.document, again))
        assert [line for line in lost if not line.startswith(("environment.", "target."))] == []
