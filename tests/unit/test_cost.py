"""Prices: the article's bill, units, refusals."""

from __future__ import annotations

import pytest

from naslab.analysis.cost import HOURS_PER_MONTH, Price, cost_at, cost_of
from naslab.errors import UsageError

MB = 1_000_000


def test_the_articles_bill() -> None:
    """0.742 for two hours; the article says 270.72 a month for 32 MB/s sustained and 287.5 MB/s burst."""
    cost = cost_of(Price(per_hour=0.742 / 2), 32 * MB, 287.5 * MB)
    assert cost.per_month == pytest.approx(270.72, rel=0.001)
    assert cost.sustained.per_mb_per_s_month == pytest.approx(8.46, rel=0.001)
    assert cost.burst is not None
    assert cost.burst.per_mb_per_s_month == pytest.approx(0.942, rel=0.001)
    # 2^40 bytes at 32 MB/s take 9.544 hours.
    assert cost.sustained.per_tib_moved == pytest.approx(9.5444 * 0.371, rel=1e-4)
    assert cost.burst.per_tib_moved == pytest.approx(9.5444 * 0.371 * 32 / 287.5, rel=1e-4)


def test_a_months_price_and_an_hours_are_the_same_thing() -> None:
    by_hour, by_month = Price(per_hour=0.1), Price(per_month=0.1 * HOURS_PER_MONTH)
    assert by_hour.month == pytest.approx(by_month.month) == pytest.approx(73.0)
    hourly, monthly = cost_at(by_hour, 50 * MB), cost_at(by_month, 50 * MB)
    assert hourly.per_tib_moved == pytest.approx(monthly.per_tib_moved)
    assert hourly.per_mb_per_s_month == pytest.approx(73.0 / 50)


def test_prices_add_up() -> None:
    price = Price(per_hour=0.05, per_month=10.0, per_gb_month=0.013, stored_bytes=5_000_000_000_000)
    assert price.month == pytest.approx(36.5 + 10.0 + 65.0)
    assert price.hour == pytest.approx(111.5 / 730)


def test_no_burst_no_burst_cost() -> None:
    assert cost_of(Price(per_month=1.0), 1 * MB).burst is None


@pytest.mark.parametrize(
    "wrong",
    [
        Price,
        lambda: Price(per_hour=-1.0),
        lambda: Price(per_gb_month=0.1),
        lambda: cost_at(Price(per_hour=1.0), 0.0),
        lambda: cost_at(Price(per_hour=1.0), float("nan")),
        lambda: cost_of(Price(per_hour=1.0), 5.0, -3.0),
    ],
)
def test_refusals(wrong: object) -> None:
    with pytest.raises(UsageError):
        wrong()  # type: ignore[operator]
