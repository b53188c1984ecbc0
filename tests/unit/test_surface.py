"""Roughness and dips of surfaces of known shape."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from claim_truth import cell
from naslab.analysis.quantities import Quantity, Sample, cache_knee, of_blocks, read, surfaces_of
from naslab.analysis.surface import dips, roughness

FILES, RECORDS = [1 << step for step in range(18, 28)], [1 << step for step in range(12, 20)]
SHAPE = (len(FILES), len(RECORDS))


def plane(over_files: float = 0.0, over_records: float = 0.0) -> np.ndarray:
    return 1e8 * np.exp(over_files * np.arange(SHAPE[0])[:, None] + over_records * np.arange(SHAPE[1])[None, :])


def noisy(rng: np.random.Generator, shape: np.ndarray, cv: float, count: int = 5) -> np.ndarray:
    return shape * np.exp(cv * rng.standard_normal((count, *SHAPE)))


@given(st.floats(-1, 1), st.floats(-1, 1))
def test_a_plane_is_smooth_however_steep(over_files: float, over_records: float) -> None:
    assert roughness(plane(over_files, over_records)) < 1e-9


@pytest.mark.parametrize("cv", [0.01, 0.05, 0.2])
def test_noise_is_as_rough_as_it_is(cv: float) -> None:
    rng = np.random.default_rng(1)
    found = np.mean([roughness(surface) for surface in noisy(rng, plane(0.1, 0.3), cv, 60)])
    assert found == pytest.approx(cv, rel=0.05)


def test_roughness_leaves_out_what_was_not_measured() -> None:
    surface = noisy(np.random.default_rng(2), plane(), 0.05, 1)[0]
    surface[:2, 4:] = np.nan
    assert roughness(surface) == pytest.approx(0.05, rel=0.3)
    assert np.isnan(roughness(np.full((2, 2), 1e8)))


def test_planted_dips_are_found_and_none_else() -> None:
    rng = np.random.default_rng(3)
    shape = plane(0.05, 0.2)
    for row, column in ((2, 3), (6, 5)):
        shape[row, column] *= 0.5
    found = dips(noisy(rng, shape, 0.03), FILES, RECORDS)
    assert [(dip.file_bytes, dip.record_bytes) for dip in found] == [(FILES[2], RECORDS[3]), (FILES[6], RECORDS[5])]
    assert all(dip.low < dip.share < dip.high < 0.8 and dip.share == pytest.approx(0.5, rel=0.1) for dip in found)


def test_noise_alone_has_hardly_any() -> None:
    rng = np.random.default_rng(4)
    found = sum(len(dips(noisy(rng, plane(0.05, 0.2), 0.05), FILES, RECORDS)) for _ in range(50))
    assert found <= 2, "in 50 surfaces of 80 spots"


def test_a_cliff_a_slope_and_an_edge_are_none() -> None:
    rng = np.random.default_rng(5)
    cliff = plane()
    cliff[5:] *= 0.3
    corner = plane()
    corner[-1, 0] *= 0.3
    for shape in (cliff, plane(-0.5, 0.5), corner):
        assert dips(noisy(rng, shape, 0.02), FILES, RECORDS) == []


def test_a_shallow_dip_and_one_that_is_not_always_there_are_none() -> None:
    rng = np.random.default_rng(6)
    shallow = plane()
    shallow[4, 4] *= 0.85
    assert dips(noisy(rng, shallow, 0.02), FILES, RECORDS) == []
    sometimes = noisy(rng, plane(), 0.02)
    sometimes[0, 4, 4] *= 0.2
    assert dips(sometimes, FILES, RECORDS) == [], "one of five repeats"


def test_spots_side_by_side_are_one_dip() -> None:
    shape = plane()
    shape[4, 3], shape[4, 4] = 0.5e8, 0.3e8
    found = dips(noisy(np.random.default_rng(7), shape, 0.01), FILES, RECORDS)
    assert [(dip.file_bytes, dip.record_bytes) for dip in found] == [(FILES[4], RECORDS[4])]


@pytest.mark.parametrize("count", [0, 1, 2])
def test_too_few_repeats_show_no_dip(count: int) -> None:
    shape = plane()
    shape[4, 4] *= 0.1
    assert dips(noisy(np.random.default_rng(8), shape, 0.01, count), FILES, RECORDS) == []


def test_spots_next_to_gaps_are_looked_at() -> None:
    surfaces = noisy(np.random.default_rng(9), plane(), 0.01)
    surfaces[:, 3, 4] = np.nan
    surfaces[:, 4, 4] *= 0.4
    assert len(dips(surfaces, FILES, RECORDS)) == 1


# --- numbers of documents ----------------------------------------------------------------------------------


def test_a_knee_lies_between_the_sizes_it_lies_between() -> None:
    sizes = [1 << step for step in range(20, 28)]
    rates = [110e6, 112e6, 111e6, 109e6, 61e6, 60e6, 60e6, 59e6]
    found = cache_knee(sizes, rates)
    assert found is not None and sizes[3] < found < sizes[4]


def test_small_files_that_are_slow_do_not_hide_the_knee() -> None:
    sizes = [1 << step for step in range(16, 24)]
    rates = [20e6, 60e6, 110e6, 112e6, 110e6, 60e6, 60e6, 60e6]
    found = cache_knee(sizes, rates)
    assert found is not None and sizes[4] < found < sizes[5]


def test_rising_flat_and_short_curves_have_no_knee() -> None:
    sizes = [1 << step for step in range(16, 24)]
    for rates in (
        [1e6 * at for at in range(1, 9)],
        [100e6, 101e6] * 4,
        [100e6, 95e6, 96e6, 92e6, 90e6, 91e6, 88e6, 87e6],
    ):
        assert cache_knee(sizes, rates) is None
    assert cache_knee(sizes[:2], [100e6, 10e6]) is None


@given(st.integers(1, 6), st.floats(1.5, 20))
def test_a_knee_is_where_it_was_put(at: int, drop: float) -> None:
    sizes = [1 << step for step in range(20, 28)]
    found = cache_knee(sizes, [100e6 if place < at else 100e6 / drop for place in range(8)])
    assert found is not None and sizes[at - 1] <= found <= sizes[at]


DOCUMENT = {
    "cells": [
        cell(10.0, 1 << 20), cell(30.0, 1 << 21), cell(99.0, 1 << 21, op="read"),
        {**cell(1.0), "status": "failed"}, {**cell(2.0), "workload": "fill"},
    ],
    "job": {"steps": [{"job": "zip", "read_bytes_per_s": 5.0}, {"job": "unzip", "read_bytes_per_s": 7.0}]},
    "apps": {"results": [{"name": "PhotoAlbum", "median_bytes_per_s": 4.0}]},
}  # fmt: skip


@pytest.mark.parametrize(
    ("quantity", "value"),
    [
        (Quantity("a", "t", where={"op": "write"}), 20.0),
        (Quantity("a", "t", where={"op": "write"}, take="most"), 30.0),
        (Quantity("a", "t", where={"op": "write"}, take="least"), 10.0),
        (Quantity("a", "t", where={"op": "write", "file": (1 << 21, 1 << 30)}), 30.0),
        (Quantity("a", "t", where={"op": "rewrite"}), None),
        (Quantity("a", "t", "job.steps.unzip.read_bytes_per_s"), 7.0),
        (Quantity("a", "t", "apps.results.PhotoAlbum.median_bytes_per_s"), 4.0),
        (Quantity("a", "t", "apps.results.Other.median_bytes_per_s"), None),
        (Quantity("a", "t", "job.steps.zip.job"), None),
    ],
)  # fmt: skip
def test_numbers_of_a_document(quantity: Quantity, value: float | None) -> None:
    assert read(quantity, DOCUMENT) == value
    sample = Sample("a", "t", 3, "host", DOCUMENT)
    assert of_blocks(quantity, [sample]) == ({} if value is None else {3: value})
    assert of_blocks(quantity, [Sample("b", "t", 3, "host", DOCUMENT)]) == {}


def test_surfaces_of_repeats_with_gaps_are_joined() -> None:
    samples = [
        Sample("a", "t", 0, "host", {"cells": [cell(1.0, 64, 4), cell(2.0, 128, 4)]}),
        Sample("a", "t", 1, "host", {"cells": [cell(3.0, 128, 8)]}),
    ]
    found = surfaces_of(Quantity("a", "t"), samples)
    assert found is not None
    files, records, rates = found
    assert (files, records, rates.shape) == ([64, 128], [4, 8], (2, 2, 2))
    assert rates[0, 1, 0] == 2 and np.isnan(rates[0, 1, 1]) and rates[1, 1, 1] == 3
