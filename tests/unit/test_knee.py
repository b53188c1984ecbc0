"""Capacity, knee and saturation on curves whose answer is known."""

from __future__ import annotations

import numpy as np
import pytest

from naslab.analysis import knee
from naslab.results.histogram import from_values


def slow_isotonic(values: list[float]) -> list[float]:
    """From the definition: max over starts of min over ends of the mean between (Barlow et al. 1972)."""
    n = len(values)
    return [max(min(float(np.mean(values[a : b + 1])) for b in range(at, n)) for a in range(at + 1)) for at in range(n)]


@pytest.mark.parametrize("seed", range(10))
def test_isotonic_is_the_definition(seed: int) -> None:
    values = np.random.default_rng(seed).normal(size=12)
    assert np.allclose(knee.isotonic(values), slow_isotonic(values.tolist()))


def step(load: float, p99_ns: float, achieved: float | None = None, seed: int = 0) -> knee.Step:
    """A load whose response times are exponential with this p99; interval rates with 2 % noise."""
    random = np.random.default_rng(seed)
    achieved = load if achieved is None else achieved
    parts = [from_values(random.exponential(p99_ns / np.log(100), 4000).astype(np.int64)) for _ in range(5)]
    rates = achieved * random.normal(1, 0.02, 50)
    return knee.Step(load, float(rates.mean()), achieved < 0.95 * load, parts, rates, rates.reshape(5, 10).mean(axis=1))


def test_knee_is_where_p99_doubles() -> None:
    """p99 = 1 ms / (1 - load / 1000): doubled at a load of 500 over its value at 0, told by the first steps."""
    loads = np.array([25, 50, 100, 200, 300, 400, 450, 500, 550, 600, 800, 950], float)
    p99 = 1e6 / (1 - loads / 1000)
    low = knee.low_load(loads, p99, 1000)
    expected = 1000 * (1 - 1e6 / (2 * low))
    assert knee.knee_at(loads, p99, 1000) == pytest.approx(expected, rel=0.01)
    steps = [step(load, value, seed=i) for i, (load, value) in enumerate(zip(loads, p99, strict=True))]
    found = knee.knee(steps, 1000, seed=1)
    assert found is not None and found.value == pytest.approx(expected, rel=0.1)
    assert found.low <= found.value <= found.high and found.high / found.low < 1.3


def test_one_disturbed_step_is_no_knee() -> None:
    loads = np.array([10, 20, 40, 60, 80, 100, 120, 140], float)
    p99 = np.array([1e6, 1e6, 3e6, 1e6, 1e6, 1e6, 1e6, 1e6])
    assert knee.knee_at(loads, p99, 400) is None
    assert knee.knee([step(load, 1e6) for load in loads], 400) is None
    assert knee.knee([step(10, 1e6)], 400) is None


def test_a_knee_is_never_beyond_the_capacity() -> None:
    loads, p99 = np.array([10.0, 20.0, 80.0]), np.array([1e6, 1e6, 1.9e6])
    assert knee.knee_at(loads, np.array([1e6, 1e6, 1e9]), 30) is not None
    assert knee.knee_at(np.array([10.0, 20.0, 200.0]), np.array([1e6, 1.9e6, 1e9]), 20.1) == 20.1
    assert knee.knee_at(loads, p99, 80) is None


def test_capacity_is_the_plateau() -> None:
    """The interval holds the planted rate in most of 40 curves; overloads tell together."""
    held = 0
    for seed in range(40):
        steps = [step(500, 1e6, seed=seed), step(1200, 1e8, 1000, seed + 100), step(1500, 1e9, 1000, seed + 200)]
        found = knee.capacity(steps, seed)
        assert found is not None and found.value == pytest.approx(1000, rel=0.015)
        held += found.low <= 1000 <= found.high
    assert held >= 34
    assert knee.capacity([]) is None


def test_capacity_of_a_curve_that_was_not_saturated() -> None:
    found = knee.capacity([step(100, 1e6), step(200, 1e6)])
    assert found is not None and found.value == pytest.approx(200, rel=0.02)


@pytest.mark.parametrize(
    ("offered", "achieved", "late", "waiting_ms", "saturated"),
    [
        (1000, 1000, 0.0, 0, False),
        (1000, 900, 0.99, 50, True),
        (20, 17, 0.0, 0, False),  # few random arrivals
        (1000, 980, 0.98, 11, True),  # the queue grows
        (1000, 1000, 0.98, 5, False),
        (1000, 1000, 0.3, 20, False),  # one stall
    ],
)
def test_saturation(offered: float, achieved: float, late: float, waiting_ms: float, saturated: bool) -> None:
    assert knee.is_saturated(offered, achieved, late, waiting_ms * 1e6, 10**9) is saturated
