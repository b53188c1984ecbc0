"""`files_of` against the file system itself: random operations on a random tree, carried out again elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from naslab.errors import TraceError
from naslab.trace import Header, Operation, Trace, TraceWriter, files_of
from naslab.trace.fileset import FileSet
from trace_actor import Actor, start
from trace_reenact import reenact, tree


@pytest.mark.parametrize("first", range(0, 400, 50))
def test_what_is_needed_is_enough_and_all_of_it_was_there(first: int, tmp_path: Path) -> None:
    """Prepared as `files_of` says, every operation succeeds again and leaves nothing else; none of it is made up."""
    for seed in range(first, first + 50):
        here, again, made = tmp_path / f"{seed}", tmp_path / f"{seed}-again", tmp_path / "x.trace"
        here.mkdir()
        again.mkdir()
        start(here, seed)
        before = tree(here)
        with TraceWriter(made, Header(source="naslab")) as writer:
            actor = Actor(here, seed, writer)
            for _ in range(60):
                actor.step()
            for handle in sorted(actor.open):
                actor.on_handle("close", handle)
        for fact in files_of(Trace(made)):
            assert fact.path in before, (seed, fact)
            if fact.folder or fact.need_bytes or fact.known_bytes is not None:
                assert (before[fact.path] is None) == fact.folder, (seed, fact)
            assert fact.folder or fact.size_bytes <= (before[fact.path] or 0), (seed, fact)
        try:
            reenact(made, again)
        except (OSError, AssertionError) as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        left, copy = tree(here), tree(again)
        assert set(copy) <= set(left), seed
        for name, size in copy.items():
            # What is only renamed may have been a file or a folder: no operation tells.
            assert (size or 0) <= (left[name] or 0), (seed, name)


def operation(op: str, path: str, to: str | None = None) -> Operation:
    return Operation(start_ns=0, stream=0, op=op, path=path, to_path=to)  # type: ignore[arg-type]


def test_folders_that_are_linked_into_themselves() -> None:
    """No server does that, but a trace may say so: each thing is met once, and it ends."""
    files = FileSet()
    for each in (operation("link", "a", "b"), operation("stat", "b/x"), operation("rename", "a", "b/c")):
        files.add(each)
    assert [fact.path for fact in files.needed()] == ["a", "a/x"]
    assert files.shape().folders == 1
    doubled = FileSet()
    doubled.add(operation("stat", "d0/file"))
    for depth in range(60):
        doubled.add(operation("mkdir", f"d{depth + 1}"))
        for name in "xy":
            doubled.add(operation("link", f"d{depth}", f"d{depth + 1}/{name}"))
    assert [fact.path for fact in doubled.needed()] == ["d0", "d0/file"]
    assert doubled.shape().folders == 61


def test_names_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("naslab.trace.fileset.MAX_NAMES", 5)
    files = FileSet()
    for name in range(5):
        files.add(operation("stat", f"{name}"))
    for _ in range(3):
        files.add(operation("stat", "3"))
    with pytest.raises(TraceError, match="names more than 5 files and folders"):
        files.add(operation("stat", "5"))
