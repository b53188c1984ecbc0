"""What is told of the cell under way: written by the process that measures, read by the library, never in the way."""

from __future__ import annotations

import asyncio
import json
import os
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from fixtures_run import make_parts
from naslab.render.web.live import Streams, now_of
from naslab.results.store import Store
from naslab.results.store.underway import EVERY_NS, MOST_FILE_BYTES, MOST_SAMPLES, UnderWay, path_of, read_under_way
from naslab.spec import CellSpec, RunSpec

CELL = {"id": 3, "op": "random_read", "workload": None, "file_bytes": 64 << 20, "record_bytes": 1 << 20,
        "workers": 4, "queue_depth": 8, "duration_ns": 300 * 10**9, "warmup_ns": 0, "planned_bytes": 64 << 20,
        "timed": True}  # fmt: skip


class Clock:
    """Nanoseconds that pass when told to."""

    def __init__(self) -> None:
        self.ns = 10**9

    def __call__(self) -> int:
        return self.ns


def event(second: float, moved: int, **more: Any) -> dict[str, Any]:
    """A progress event of the engine."""
    return {"cell": 3, "elapsed_ns": int(second * 1e9), "bytes": moved, "ops": moved >> 20, "errors": 0,
            "bytes_per_s": 0.0, "p99_ns": 2_000_000, **more}  # fmt: skip


def written(tmp_path: Path, clock: Clock) -> UnderWay:
    return UnderWay(tmp_path / "runs.sqlite", "r1", clock, clock)


def test_it_is_written_once_a_second_and_gone_at_the_end(tmp_path: Path) -> None:
    clock, store = Clock(), tmp_path / "runs.sqlite"
    under_way = written(tmp_path, clock)
    assert read_under_way(store, "r1") is None
    under_way.before(CELL, 5)
    state = read_under_way(store, "r1")
    assert state is not None and state["cell"]["cells_planned"] == 5 and state["told"] == {}
    for tenth in range(1, 31):
        clock.ns += 100_000_000
        under_way.progress(event(tenth / 10, tenth * 10_000_000))
    state = read_under_way(store, "r1")
    assert state is not None and [sample[0] for sample in state["samples"]] == [10**8, 11 * 10**8, 21 * 10**8]
    assert state["told"]["bytes"] == 210_000_000 and EVERY_NS == 10**9
    under_way.between()
    state = read_under_way(store, "r1")
    assert state is not None and state["cell"] is None
    under_way.close()
    assert list(tmp_path.iterdir()) == []


def test_a_long_cell_keeps_its_whole_course_in_a_small_file(tmp_path: Path) -> None:
    clock = Clock()
    under_way = written(tmp_path, clock)
    under_way.before(CELL, 1)
    for second in range(1, 5001):
        clock.ns += 10**9
        under_way.progress(event(second, second * 10**8))
    state = read_under_way(tmp_path / "runs.sqlite", "r1")
    assert state is not None
    times = [sample[0] for sample in state["samples"]]
    assert MOST_SAMPLES // 2 <= len(times) <= MOST_SAMPLES
    steps = {b - a for a, b in pairwise(times)}
    assert len(steps) == 1 and times[0] < 10**11 and times[-1] > 4900 * 10**9
    assert path_of(tmp_path / "runs.sqlite", "r1").stat().st_size < MOST_FILE_BYTES // 4
    now = now_of(state, clock.ns)
    assert now.y == pytest.approx([100.0] * len(times)) and now.unit == "Throughput (MB/s)"
    clock.ns += 10**9
    under_way.progress(event(5001, 5000 * 10**8))  # stands still: told at once, though it is no sample of the course
    now = now_of(read_under_way(tmp_path / "runs.sqlite", "r1"), clock.ns)
    assert len(now.y) == len(times) and ", 0\xa0MB/s now" in now.facts


def test_what_cannot_be_written_disturbs_nothing(tmp_path: Path) -> None:
    clock = Clock()
    under_way = UnderWay(tmp_path / "nowhere" / "runs.sqlite", "r1", clock, clock)
    under_way.before(CELL, 1)
    clock.ns += EVERY_NS
    under_way.progress(event(1, 1))
    under_way.between()
    under_way.close()
    target = tmp_path / "victim"
    target.write_text("keep")
    path_of(tmp_path / "runs.sqlite", "r1").symlink_to(target)
    under_way = written(tmp_path, clock)
    under_way.before(CELL, 1)
    under_way.close()
    assert target.read_text() == "keep"


def test_what_a_dead_process_left_goes_and_that_of_others_stays(tmp_path: Path) -> None:
    store, clock = tmp_path / "runs.sqlite", Clock()
    dead, alive, foreign = path_of(store, "dead"), path_of(store, "alive"), tmp_path / "runs.sqlite-now-mine.txt"
    under_way = UnderWay(store, "alive", clock, clock)
    under_way.before(CELL, 1)
    state = json.loads(alive.read_text())
    state["owner"]["start_time"] = "0"
    dead.write_text(json.dumps(state))
    foreign.write_text("no line of ours")
    other = written(tmp_path, clock)
    other.before(CELL, 1)
    assert not dead.exists() and alive.exists() and foreign.read_text() == "no line of ours"


def test_the_page_tells_time_rate_and_silence(tmp_path: Path) -> None:
    clock = Clock()
    under_way, store = written(tmp_path, clock), tmp_path / "runs.sqlite"
    assert now_of(None, 0).words == "No cell is being measured."
    under_way.before(CELL, 5)
    assert now_of(read_under_way(store, "r1"), clock.ns).facts == "begins"
    now = now_of(read_under_way(store, "r1"), clock.ns + 12 * 10**9)
    assert (now.words, now.facts) == (
        "Random read, 64 MiB file, 1 MiB records, depth 8, 4 workers", "preparing its files, 12 s",
    )  # fmt: skip
    clock.ns += 75 * 10**9
    under_way.progress(event(75, 7_500_000_000, errors=2))
    now = now_of(read_under_way(store, "r1"), clock.ns)
    assert now.facts.replace("\xa0", " ") == "1 min 15 s of 5 min, 7.50 GB moved, 100 MB/s now, p99 2 ms, 2 errors"
    assert now.share == 0.25 and (now.x, now.y, now.planned) == ([75.0], [100.0], 5)
    assert "no news for 1\xa0min" in now_of(read_under_way(store, "r1"), clock.ns + 60 * 10**9).facts


def test_a_measured_run_tells_its_cells(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The execution's own events reach the file; after the run there is none."""
    from naslab.execution import execute
    from naslab.targets import parse_target

    seen: list[Any] = []
    told = UnderWay.between

    def between(self: UnderWay) -> None:
        seen.append(read_under_way(store.path, self._about["run_id"]))
        told(self)

    monkeypatch.setattr(UnderWay, "between", between)
    about = {"files": ["f"], "file_bytes": 1 << 20, "record_bytes": 65536}
    write = CellSpec(id=0, op="write", write_fraction=1.0, create="new", **about)
    cells = [write, CellSpec(id=1, op="read", create="never", **about)]
    spec = RunSpec({}, cells, folder="")
    run = execute.execute(spec, target=parse_target("sim:"), store=store)
    assert run.document["status"] == "complete", run.document["warnings"]
    assert [state["cell"]["op"] for state in seen] == ["write", "read"]
    assert [(state["cell"]["cells_planned"], state["cell"]["timed"]) for state in seen] == [(2, False)] * 2
    assert [name for name in os.listdir(store.path.parent) if "-now-" in name] == []


def test_the_stream_tells_the_cell_under_way_once_for_each_change(store: Store) -> None:
    document, blobs, _ = make_parts(ops=("read",), file_sizes=(1 << 20,), run_id="r1")
    store.create_run({**document, "cells": [], "warnings": [], "status": "running"})
    under_way = UnderWay(store.path, "r1")
    under_way.before({**CELL, "timed": False}, 1)

    async def events() -> list[str]:
        found = []
        async for text in Streams().follow(store, "r1", 0):
            found.append(text)
            if "event: now" in text:
                cell = document["cells"][0]
                store.add_cell("r1", cell, blobs[cell["id"]])
                store.finish_run("r1", "complete")
        return found

    found = asyncio.run(events())
    kinds = [text.split("event: ")[1].split("\n")[0] for text in found if "event: " in text]
    assert kinds == ["now", "cells", "end"]
    now = json.loads(found[1].split("data: ")[1])
    assert now["words"].startswith("Random read") and now["planned"] == 1
    under_way.close()
