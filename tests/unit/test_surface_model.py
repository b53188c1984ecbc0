"""The model of a surface: curves, regimes, writes that fill a memory, and how sure it is."""

from __future__ import annotations

import math

import pytest

from naslab.analysis.surface_model import Curve, Model, Seen, Surface, line_through, sibling

KIB, MIB = 1 << 10, 1 << 20
RECORDS = [4 * KIB << step for step in range(9)]
CALL_NS, LINK_NS, DISK_NS, SEEK_NS = 200_000.0, 8.0, 15.0, 4_000_000.0
"""Of a made-up server: a call's time, of a byte over the link and from the disk, a seek's."""
CACHE, MEMORY = 24 * MIB, 10 * MIB


def read_ns(file_bytes: int, record_bytes: int, seek_ns: float = 0.0) -> float:
    """A read of one record; files above the cache come from the disk as well."""
    missed = seek_ns + DISK_NS * record_bytes if file_bytes > CACHE else 0.0
    return CALL_NS + LINK_NS * record_bytes + missed


def write_ns(file_bytes: int, record_bytes: int) -> float:
    """A write of one record: memory first, then as fast as the disk takes it."""
    own = CALL_NS + LINK_NS * record_bytes
    waits = DISK_NS * record_bytes * (1 - MEMORY / file_bytes)
    return max(own, waits)


def seen(op: str, file_bytes: int, record_bytes: int, part: bool = False) -> Seen:
    ops = max(file_bytes // record_bytes, 1)
    if op == "write":
        time_ns = write_ns(file_bytes, record_bytes) * ops
        return Seen(op, file_bytes, record_bytes, ops, time_ns, max(time_ns, DISK_NS * file_bytes))
    seek = SEEK_NS if op == "random_read" else 0.0
    return Seen(op, file_bytes, record_bytes, ops, read_ns(file_bytes, record_bytes, seek) * ops, None, part)


@pytest.fixture(scope="module")
def model() -> Model:
    """Small files whole, 64 MiB and 16 MiB in one record, parts of the largest in short records."""
    cells = [
        seen(op, size, record)
        for op in ("write", "random_read") for size in (MIB, 2 * MIB) for record in RECORDS if record <= size
    ]  # fmt: skip
    cells += [seen("write", size, MIB) for size in (16 * MIB, 64 * MIB)]
    cells += [seen("random_read", size, 256 * KIB) for size in (16 * MIB, 64 * MIB)]
    cells += [seen("random_read", 64 * MIB, record, part=True) for record in RECORDS[:7]]
    return Model(Surface(cells))


@pytest.mark.parametrize("record", RECORDS)
@pytest.mark.parametrize("size", [8 * MIB, 16 * MIB, 64 * MIB])
def test_the_surface_is_found_again(size: int, record: int, model: Model) -> None:
    for op, truth in (("write", write_ns(size, record)), ("random_read", read_ns(size, record, SEEK_NS))):
        found = model.predict(op, size, record)
        assert found is not None and found.record_ns == pytest.approx(truth, rel=0.03), op
        assert found.low_ns <= found.record_ns <= found.high_ns


def test_a_file_between_two_regimes_is_uncertain(model: Model) -> None:
    sure, unsure = model.predict("random_read", 16 * MIB, MIB), model.predict("random_read", 32 * MIB, MIB)
    assert sure is not None and unsure is not None
    assert unsure.doubts.apart > 0.5 and unsure.high_ns / unsure.low_ns > 3 * sure.high_ns / sure.low_ns
    assert unsure.low_ns <= read_ns(32 * MIB, MIB, SEEK_NS) <= unsure.high_ns


def test_nothing_is_said_beyond_the_largest_file(model: Model) -> None:
    assert model.predict("write", 128 * MIB, MIB) is None
    assert model.predict("stride_read", MIB, MIB) is None


def test_a_sibling_stands_for_an_operation_that_no_large_file_saw(model: Model) -> None:
    cells = [*model.surface.seen, *(
        Seen("rewrite", size, record, 1, 2 * CALL_NS + LINK_NS * record, 0.0)
        for size in (MIB, 2 * MIB) for record in RECORDS if record <= size
    )]  # fmt: skip
    found = Model(Surface(cells)).predict("rewrite", 64 * MIB, MIB)
    assert found is not None and found.record_ns == pytest.approx(write_ns(64 * MIB, MIB), rel=0.03)
    assert sibling("rewrite", ["read", "write"]) == "write" and sibling("random_read", ["read"]) is None


def test_a_partial_mixture_scales_with_what_is_missed() -> None:
    """Half of a file in the cache: between both curves at every record, not by the same factor."""
    cells = [seen("random_read", size, record) for size in (MIB, 2 * MIB) for record in RECORDS if record <= size]
    half = {r: (read_ns(MIB, r) + read_ns(64 * MIB, r, SEEK_NS)) / 2 for r in RECORDS}
    cells += [seen("random_read", 64 * MIB, record, part=True) for record in RECORDS[:7]]
    cells.append(Seen("random_read", 64 * MIB, 256 * KIB, 256, half[256 * KIB] * 256))
    model = Model(Surface(cells))
    for record in RECORDS:
        found = model.predict("random_read", 64 * MIB, record)
        assert found is not None and found.record_ns == pytest.approx(half[record], rel=0.02)


def test_a_line_never_falls_and_noise_is_smoothed_away() -> None:
    assert line_through({1000: 3000.0}) == (0.0, 3.0)
    first, each = line_through({1: 10.0, 1000: 8.0})
    assert first > 0 and each == 0
    truth = {r: CALL_NS + LINK_NS * r for r in RECORDS}
    noisy = {r: t * math.exp(0.02 * (-1) ** at) for at, (r, t) in enumerate(truth.items())}
    smooth = Curve(noisy).smoothed(0.03)
    assert max(abs(smooth.at(r) / t - 1) for r, t in truth.items()) < 0.015
    assert Curve(noisy).smoothed(0.001).at(RECORDS[0]) == pytest.approx(noisy[RECORDS[0]], rel=0.002)
    assert Curve(truth).at(16 * MIB) == pytest.approx(CALL_NS + LINK_NS * 16 * MIB, rel=1e-6)


def test_a_file_of_one_record_beside_smaller_files() -> None:
    """The record is longer than the smaller neighbour: nothing of that one is left to be missed."""
    cells = [seen("read", size, record) for size in (64 * KIB, 256 * KIB) for record in RECORDS if record <= size]
    cells += [seen("read", 64 * MIB, record) for record in (64 * KIB, MIB)]
    found = Model(Surface(cells)).predict("read", 512 * KIB, 512 * KIB)
    assert found is not None and found.low_ns <= read_ns(512 * KIB, 512 * KIB) <= found.high_ns
