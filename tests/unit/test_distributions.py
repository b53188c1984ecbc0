"""Student's t, the normal quantile and running medians, against SciPy's and against their definition."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.ndimage import median_filter
from scipy.special import ndtr, ndtri, stdtr, stdtrit

import naslab
from naslab.analysis.distributions import normal_below, normal_quantile, running_medians, t_below, t_quantile

FREEDOM = st.one_of(st.integers(1, 40), st.floats(0.5, 1e6))


@given(FREEDOM, st.floats(-1e6, 1e6))
@example(618581.5, -1.0)
def test_t_below_is_scipys(freedom: float, t: float) -> None:
    # SciPy's own is off by 4e-9 for one degree of freedom and t near 0.
    loose = 1e-8 if abs(t) < 1e-3 else 1e-14
    assert t_below(t, freedom) == pytest.approx(float(stdtr(freedom, t)), rel=1e-9, abs=loose)


@given(st.floats(-1e6, 1e6))
def test_one_degree_of_freedom_is_cauchys(t: float) -> None:
    assert t_below(t, 1) == pytest.approx(0.5 + math.atan(t) / math.pi, rel=1e-9)


@given(FREEDOM, st.floats(1e-6, 1 - 1e-6))
@example(618581.5, 0.0085)
def test_t_quantile_is_scipys(freedom: float, share: float) -> None:
    assert t_quantile(share, freedom) == pytest.approx(float(stdtrit(freedom, share)), rel=1e-8, abs=1e-9)


def test_the_values_that_tables_print() -> None:
    # Student's t, two-sided 95 %: 1, 2, 10, 30 degrees of freedom; one-sided 95 %: 5.
    for freedom, printed in ((1, 12.706), (2, 4.303), (10, 2.228), (30, 2.042)):
        assert round(t_quantile(0.975, freedom), 3) == printed
    assert round(t_quantile(0.95, 5), 3) == 2.015
    assert t_below(0, 3) == 0.5 and t_below(math.inf, 3) == 1 and t_below(-math.inf, 3) == 0
    assert math.isnan(t_below(math.nan, 3)) and t_quantile(0, 3) == -math.inf and t_quantile(1, 3) == math.inf


@given(st.floats(1e-12, 1 - 1e-12))
def test_the_normal_quantile_is_scipys(share: float) -> None:
    assert normal_quantile(share) == pytest.approx(float(ndtri(share)), rel=1e-9, abs=1e-12)


@given(st.floats(-37, 37))
def test_the_normal_share_is_scipys(z: float) -> None:
    assert normal_below(z) == pytest.approx(float(ndtr(z)), rel=1e-9, abs=1e-300)


def test_the_normal_quantile_of_nothing_and_all_is_infinite() -> None:
    assert normal_quantile(0) == -math.inf and normal_quantile(1) == math.inf


@given(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=60), st.integers(0, 40))
def test_running_medians_are_scipys(values: list[float], half: int) -> None:
    rates, window = np.array(values), 2 * half + 1
    assert running_medians(rates, window).tolist() == median_filter(rates, size=window, mode="nearest").tolist()


def test_nothing_of_naslab_needs_scipy() -> None:
    files = list(Path(naslab.__path__[0]).rglob("*.py"))
    assert files
    pattern = re.compile(r"^\s*(from|import) scipy", re.MULTILINE)
    assert [path.name for path in files if pattern.search(path.read_text("utf-8"))] == []
