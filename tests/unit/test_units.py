"""Sizes and durations as written by people: right, or a UsageError that names the option."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from naslab.errors import UsageError
from naslab.units import (
    MAX_SIZE_BYTES,
    amount_text,
    duration_text,
    parse_duration,
    parse_size,
    parse_size_list,
    rate_text,
    size_label,
    size_text,
    three_digits,
)

FACTORS = {
    "": 1, "b": 1, "B": 1, "k": 1 << 10, "K": 1 << 10, "KiB": 1 << 10, "kB": 1000, "KB": 1000, "m": 1 << 20,
    "MiB": 1 << 20, "MB": 10**6, "g": 1 << 30, "GiB": 1 << 30, "GB": 10**9, "t": 1 << 40, "TB": 10**12,
    "p": 1 << 50, "PB": 10**15,
}  # fmt: skip
NASTY = st.one_of(st.text(), st.text("0123456789.kmgtpib,-+ e"), st.from_regex(r"\d{1,40}(\.\d{1,40})?[kmgtp]?[iB]*"))


@given(st.integers(0, 10**12), st.sampled_from(sorted(FACTORS)), st.sampled_from(["", " "]))
def test_whole_sizes(number: int, suffix: str, space: str) -> None:
    value = number * FACTORS[suffix]
    if value <= MAX_SIZE_BYTES:
        assert parse_size(f"{number}{space}{suffix}") == value


@given(st.integers(0, 10**6), st.integers(0, 999), st.sampled_from(sorted(FACTORS)))
def test_fractions_are_exact_or_refused(whole: int, thousandths: int, suffix: str) -> None:
    value = (whole + Fraction(thousandths, 1000)) * FACTORS[suffix]
    text = f"{whole}.{thousandths:03}{suffix}"
    if value > MAX_SIZE_BYTES:
        return
    if value.denominator == 1:
        assert parse_size(text) == value
    else:
        with pytest.raises(UsageError, match="--x"):
            parse_size(text, "--x")


@given(NASTY)
def test_nothing_but_usage_errors(text: str) -> None:
    for parse in (parse_size, parse_size_list, parse_duration):
        try:
            found = parse(text, "--option")
        except UsageError as error:
            assert "--option" in str(error) and error.exit_code == 2
            continue
        values = found if isinstance(found, list) else [found]
        assert values and all(isinstance(v, int) and 0 <= v <= MAX_SIZE_BYTES for v in values)


@given(st.integers(1, 1 << 40), st.integers(0, 20))
def test_ranges_double(low: int, doublings: int) -> None:
    high = low << doublings
    assert parse_size_list(f"{low}..{high}") == [low << i for i in range(doublings + 1)]
    assert parse_size_list(f"{low}..{high + low - 1}") == [low << i for i in range(doublings + 1)]
    if doublings:
        with pytest.raises(UsageError, match="empty"):
            parse_size_list(f"{high}..{low}")


@given(st.lists(st.integers(1, 1 << 50), min_size=1, max_size=20))
def test_lists_are_sorted_and_unique(sizes: list[int]) -> None:
    assert parse_size_list(",".join(map(size_text, sizes))) == sorted(set(sizes))


@given(st.integers(0, MAX_SIZE_BYTES))
def test_size_text_is_exact(size: int) -> None:
    assert parse_size(size_text(size)) == size


DURATIONS = [
    ("5m", 300 * 10**9), ("30s", 30 * 10**9), ("200us", 200_000), ("1.5h", 5400 * 10**9), ("2", 2 * 10**9),
    ("7ns", 7), ("3ms", 3_000_000), ("1min", 60 * 10**9), ("0", 0),
]  # fmt: skip


@pytest.mark.parametrize(("text", "value"), DURATIONS)
def test_durations(text: str, value: int) -> None:
    assert parse_duration(text) == value


def test_three_digits() -> None:
    texts = {0: "0", 32: "32", 31.97: "32.0", 99.97: "100", 999.7: "1,000", 29438: "29,400", 0.005771: "0.00577"}
    assert {value: three_digits(value) for value in texts} == texts
    assert three_digits(float("nan")) == three_digits(float("inf")) == "-"
    # Never as many digits as 1000 us, nor in the notation of 1e+03.
    assert [duration_text(v) for v in (999.7, 999_960, 999.97e6, 59.96e9)] == ["1.00 µs", "1.00 ms", "1.00 s", "1 min"]


def test_unlimited_is_no_number() -> None:
    assert [size_label(v) for v in (1 << 60, (1 << 63) - 4096)] == ["unlimited"] * 2 and amount_text(
        1 << 63
    ) == "unlimited"
    assert size_label((1 << 60) - 1) == "1,048,576 TiB"


def test_texts() -> None:
    assert [rate_text(v) for v in (None, 0.0, 1.234e6, 123.4e6, 12345e6)] == [
        "-", "0 MB/s", "1.23 MB/s", "123 MB/s", "12.3 GB/s",
    ]  # fmt: skip
    assert [amount_text(v) for v in (999, 1500, 1.5e6, 2e9, 3e12)] == ["999 B", "1.50 kB", "1.50 MB", "2 GB", "3 TB"]
    assert [duration_text(v) for v in (5, 1500, 2.5e6, 12e9, 200e9, 7300e9)] == [
        "5 ns", "1.50 µs", "2.50 ms", "12 s", "3 min 20 s", "2 h 1 min",
    ]  # fmt: skip
