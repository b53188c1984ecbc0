"""Plans: every pair of sizes once per block, rows whole, sizes fitted to what was seen."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from naslab.commands.plans import survey
from naslab.commands.plans.sweep import (
    DEFAULT_OPS,
    GROUPS,
    SweepOptions,
    check_caps,
    parse_ops,
    plan_cells,
    remaining,
    rows_of,
    with_prerequisites,
)
from naslab.errors import SpaceError, UsageError
from naslab.execution.execute import _present_bytes, check_space, needed_bytes
from naslab.spec import DATA_OPS, CellSpec, RunSpec
from naslab.targets import folder_target

CAPS: dict[str, Any] = {"stdio": True, "cursor": True, "evict": True}
SIZES = st.lists(st.integers(0, 24).map(lambda n: 1 << n), min_size=1, max_size=6, unique=True).map(sorted)
OPTIONS = st.builds(
    SweepOptions, file_sizes=SIZES, records=SIZES,
    ops=st.lists(st.sampled_from(DATA_OPS[:-1]), min_size=1, unique=True),
    repeat=st.integers(1, 4), workers=st.integers(1, 3), seed=st.integers(0, 99),
    durability=st.sampled_from(["none", "end", "each"]), cold=st.booleans(),
)  # fmt: skip


@given(OPTIONS)
def test_every_pair_once_per_block(options: SweepOptions) -> None:
    pairs = {(f, r) for f in options.file_sizes for r in options.records if r <= f}
    if not pairs:
        with pytest.raises(UsageError, match="--record"):
            plan_cells(options, CAPS)
        return
    cells = plan_cells(options, CAPS)
    RunSpec({}, cells).validate()
    assert [cell.id for cell in cells] == list(range(len(cells)))
    rows = rows_of(cells)
    seen = Counter((row[0].block, row[0].file_bytes, row[0].record_bytes) for row in rows)
    assert seen == Counter((b, f, r) for b in range(options.repeat) for f, r in pairs)
    assert [c for row in rows for c in row] == cells, "a row's cells follow one another"
    assert all([c.op for c in row] == options.ops for row in rows)
    assert [row[0].block for row in rows] == sorted(row[0].block for row in rows)
    assert all(len(c.files) == options.workers for c in cells)
    assert plan_cells(options, CAPS) == cells, "the same seed, the same order"


@given(OPTIONS.filter(lambda o: min(o.records) <= max(o.file_sizes)), st.data())
def test_remaining_rows_are_whole(options: SweepOptions, data: st.DataObject) -> None:
    cells = plan_cells(options, CAPS)
    done = data.draw(st.sets(st.sampled_from([cell.id for cell in cells])))
    left = remaining(cells, done)
    ids = {cell.id for cell in left}
    assert ids | done == {cell.id for cell in cells}
    for row in rows_of(cells):
        inside = {cell.id in ids for cell in row}
        assert len(inside) == 1 and (inside == {False}) == all(cell.id in done for cell in row)
    assert remaining(cells, {cell.id for cell in cells}) == []


def test_names_of_tests() -> None:
    assert parse_ops("default") == list(DEFAULT_OPS)
    assert parse_ops("READ, random-read") == ["read", "random_read"]
    assert parse_ops("all") == [op for op in DATA_OPS if op != "mixed"]
    assert with_prerequisites(["read"])[0] == ["write", "read"]
    for group in ("default", "stdio", "positioned"):
        ops, added = with_prerequisites(parse_ops(group))
        assert (ops, added) == (list(GROUPS[group]), None)


def test_what_the_target_lacks() -> None:
    options = SweepOptions([65536], [4096], ["fwrite"])
    check_caps(options, CAPS)
    for change, caps, word in (
        ({}, {**CAPS, "stdio": False}, "stdio"), ({"direct": True}, CAPS, "--direct"),
        ({"ops": ["read"], "cold": True}, {**CAPS, "evict": False}, "--cold"),
    ):  # fmt: skip
        with pytest.raises(UsageError, match=word):
            check_caps(SweepOptions(**{**vars(options), **change}), caps)  # type: ignore[arg-type]


def test_room_is_asked_for_before() -> None:
    cells = [CellSpec("write", 1000, 10, [name], write_fraction=1.0) for name in ("a", "b", "a")]
    cells.append(CellSpec("write", 5000, 10, ["a"], write_fraction=1.0))
    assert needed_bytes(cells) == 6000
    check_space(cells, {"space": {"free_bytes": 7200}})
    check_space(cells, {"space": None})
    with pytest.raises(SpaceError, match=r"7\.20 kB.*7\.20 kB") as caught:
        check_space(cells, {"space": {"free_bytes": 7199}})
    assert caught.value.exit_code == 2


def test_files_that_are_there_need_room_only_to_grow() -> None:
    cells = [CellSpec("write", 1000, 10, [name], write_fraction=1.0) for name in ("a", "b")]
    assert needed_bytes(cells, {"a": 400, "b": 5000, "c": 9}) == 600
    asked: list[list[str]] = []

    def present(names: list[str]) -> dict[str, int]:
        asked.append(names)
        return {"a": 1000, "b": 900}

    check_space(cells, {"space": {"free_bytes": 2400}}, present)
    assert asked == [], "there is room for all of it"
    check_space(cells, {"space": {"free_bytes": 120}}, present)
    assert asked == [["a", "b"]]
    with pytest.raises(SpaceError, match=r"120 B .1\.2 times the growth of its files.*119 B free"):
        check_space(cells, {"space": {"free_bytes": 119}}, present)


def test_holes_of_a_local_file_are_no_room(tmp_path: Path) -> None:
    (tmp_path / "full").write_bytes(b"x" * 100_000)
    with open(tmp_path / "holes", "wb") as file:
        file.truncate(1 << 20)
    target, spec = folder_target(tmp_path), RunSpec({}, [])
    found = _present_bytes(target, spec, ["full", "holes", "none"])
    assert found["full"] == 100_000 and found["holes"] < 1 << 20 and "none" not in found
    assert _present_bytes(target, RunSpec({}, [], folder="naslab-1"), ["full"]) == {}


SPEEDS = st.builds(survey.Speed, rate_bytes_per_s=st.floats(1e4, 1e11), latency_ns=st.floats(0, 1e9, allow_nan=False))
LIMITS = st.builds(
    survey.Limits, room_bytes=st.integers(64 << 10, 1 << 45), budget_ns=st.integers(10**9, 10**13),
    max_bytes=st.none() | st.integers(survey.MIN_MAX_BYTES, 1 << 40),
)  # fmt: skip


@given(SPEEDS, LIMITS, st.integers(1, 3))
def test_survey_fits_its_limits(speed: survey.Speed, limits: survey.Limits, repeat: int) -> None:
    options = SweepOptions([], [], [], repeat=repeat)
    stages = [
        survey.probe_cells(options, limits),
        survey.large_probe_cells(options, limits, speed),
        survey.sweep_cells(options, limits, speed, CAPS),
        survey.sustained_cells(options, limits, speed, CAPS),
    ]
    for cells in stages:
        assert needed_bytes(cells) <= limits.room_bytes
        for cell in cells:
            cell.validate()
        assert len({cell.id for cell in stages[0]}) == len(stages[0])
    if stages[2][-1].file_bytes > survey.MIN_FILE_BYTES:
        seconds = sum(speed.seconds(c.file_bytes, c.record_bytes) for c in stages[2])
        assert seconds <= limits.budget_ns / 1e9 * survey.SWEEP_SHARE * 1.001
    if limits.max_bytes is not None and repeat == 1:
        moved = sum(c.planned_bytes() for cells in stages for c in cells)
        assert moved <= limits.max_bytes


def test_survey_says_what_it_needs() -> None:
    with pytest.raises(SpaceError, match=r"at least 157 kB free, the target has 1 kB"):
        survey.check_limits(survey.Limits(833), 2, 1000)
    with pytest.raises(UsageError, match="--max-bytes"):
        survey.check_limits(survey.Limits(1 << 40, max_bytes=1 << 20), 1, 1 << 40)


def test_speed_of_probes() -> None:
    def cell(op: str, rate: float, latency: int, workload: str | None = "probe") -> dict[str, Any]:
        return {
            "op": op, "workload": workload, "bytes": 1, "durable_bytes_per_s": rate, "throughput_bytes_per_s": 9e9,
            "latency_ns": {"mean": latency},
        }  # fmt: skip

    cells = [cell("write", 5e6, 1), cell("random_read", 1.0, 70), cell("write", 4e6, 1), cell("write", 1.0, 1, None)]
    assert survey.speed_of(cells) == survey.Speed(4e6, 70)
    assert survey.speed_of([]) == survey.Speed(1e6, 0)
