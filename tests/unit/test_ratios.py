"""Ratios of targets: what they call different, how often wrongly, and how small a difference they could have seen."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from naslab.analysis import families, ratios
from naslab.analysis.ratios import Floats, Judged, Ratio
from naslab.errors import UsageError

CASES = 400
Compare = Callable[[Floats, Floats, float], Ratio]


def side(random: np.random.Generator, n: int, spread: float, disturbed: float) -> Floats:
    """Repeats of a target; some lose up to a quarter to something else."""
    hit = random.random(n) < disturbed
    loss = np.where(hit, np.log(1 - 0.25 * random.random(n)), 0.0)
    return np.exp(random.normal(0, spread, n) + loss)


def campaign(
    compare: Compare, n: int, spread: float, disturbed: float, effect: float = 0.0, drift: float = 0.0
) -> tuple[list[Judged], float]:
    """Verdicts of many comparisons of a target `1 + effect` times as fast, and the median detectable effect."""
    random = np.random.default_rng([n, round(1000 * spread), round(100 * disturbed)])
    course = np.exp(np.linspace(0, drift, n))
    judged = []
    for _ in range(CASES):
        mine = side(random, n, spread, disturbed) * (1 + effect) * course
        ratio = compare(mine, side(random, n, spread, disturbed) * course, ratios.RATE_MARGIN)
        judged += ratios.judge([ratio], higher=True)
    return judged, float(np.median([found.ratio.mde for found in judged]))


def share(judged: list[Judged], word: str) -> float:
    """How many have this verdict, or are different."""
    return float(np.mean([found.different if word == "different" else found.verdict == word for found in judged]))


@pytest.mark.parametrize("compare", [ratios.paired, ratios.unpaired])
@pytest.mark.parametrize(("n", "spread", "disturbed"), [(5, 0.03, 0.1), (8, 0.1, 0.0), (10, 0.06, 0.1), (12, 0.1, 0.1)])
def test_a_target_beside_itself_is_rarely_different(compare: Compare, n: int, spread: float, disturbed: float) -> None:
    judged, _ = campaign(compare, n, spread, disturbed)
    # 5 % of the cases with three standard errors of such a count
    assert share(judged, "different") <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / CASES)
    assert share(judged, "better") + share(judged, "worse") <= 0.02


def test_a_drift_that_both_share_cancels_in_pairs() -> None:
    judged, _ = campaign(ratios.paired, 10, 0.03, 0.0, drift=-0.5)
    assert share(judged, "different") <= 0.08


@pytest.mark.parametrize("compare", [ratios.paired, ratios.unpaired])
def test_a_real_difference_is_found(compare: Compare) -> None:
    assert share(campaign(compare, 10, 0.03, 0.0, effect=-0.05)[0], "different") >= 0.8
    assert share(campaign(compare, 10, 0.03, 0.0, effect=-0.10)[0], "worse") >= 0.8
    assert share(campaign(compare, 10, 0.03, 0.0, effect=0.12)[0], "better") >= 0.8


@pytest.mark.parametrize("compare", [ratios.paired, ratios.unpaired])
@pytest.mark.parametrize(("n", "spread", "disturbed"), [(6, 0.05, 0.0), (10, 0.06, 0.1), (14, 0.1, 0.1)])
def test_the_detectable_effect_is_right_within_a_fifth(
    compare: Compare, n: int, spread: float, disturbed: float
) -> None:
    _, mde = campaign(compare, n, spread, disturbed)
    assert share(campaign(compare, n, spread, disturbed, effect=mde * 1.2)[0], "different") >= 0.78
    assert share(campaign(compare, n, spread, disturbed, effect=mde / 1.2)[0], "different") <= 0.8


@pytest.mark.parametrize("compare", [ratios.paired, ratios.unpaired])
@pytest.mark.parametrize("n", [5, 10])
def test_equivalence_is_rarely_claimed_of_a_difference(compare: Compare, n: int) -> None:
    judged, _ = campaign(compare, n, 0.02, 0.0, effect=0.0501)
    assert share(judged, "equivalent") <= 0.05
    assert share(campaign(compare, 12, 0.02, 0.0)[0], "equivalent") >= 0.8


@pytest.mark.parametrize("n", [5, 10, 11])
def test_p_values_are_those_of_the_exact_tests(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ratios, "LEAST_SPREAD", 0.0)
    random = np.random.default_rng(n)
    one, other = np.exp(random.normal(0.02, 0.03, n)), np.exp(random.normal(0, 0.03, n))
    mine = ratios.paired(one, other, 0.05)
    logs = np.log(one) - np.log(other)
    theirs = stats.wilcoxon(logs, method="exact").pvalue if n >= 10 else stats.ttest_1samp(logs, 0).pvalue
    assert mine.p_different == pytest.approx(theirs)
    apart = ratios.unpaired(one, other, 0.05)
    ranks = stats.mannwhitneyu(one, other, method="exact").pvalue
    expected = ranks if n >= 8 else stats.ttest_ind(np.log(one), np.log(other), equal_var=False).pvalue
    assert apart.p_different == pytest.approx(expected)


def test_interval_and_p_agree() -> None:
    random = np.random.default_rng(3)
    for n in (5, 10, 15):
        for _ in range(100):
            one, other = side(random, n, 0.05, 0.1), side(random, n, 0.05, 0.1)
            for found in (ratios.paired(one, other, 0.05), ratios.unpaired(one, other, 0.05)):
                assert (found.p_different <= 0.05) == (found.low > 1 or found.high < 1)
                assert (found.p_within <= 0.025) == (found.low > 1 / 1.05 and found.high < 1.05)
                assert found.low <= found.value <= found.high


def test_the_other_way_round_is_the_inverse() -> None:
    random = np.random.default_rng(4)
    one, other = side(random, 10, 0.05, 0.0), side(random, 10, 0.05, 0.0)
    for compare in (ratios.paired, ratios.unpaired):
        there, back = compare(one, other, 0.05), compare(other, one, 0.05)
        assert (1 / back.value, 1 / back.high) == pytest.approx((there.value, there.low))
        assert (back.p_less, back.p_different) == pytest.approx((there.p_more, there.p_different))


def test_repeats_that_agree_entirely_prove_no_tiny_difference() -> None:
    same = np.full(12, 100e6)
    for compare in (ratios.paired, ratios.unpaired):
        assert compare(same * 1.0002, same, 0.05).p_different > 0.05
        assert compare(same * 1.01, same, 0.05).p_different <= 0.05
        assert ratios.judge([compare(same, same, 0.05)], higher=True)[0].verdict == "equivalent"


def test_too_few_repeats_have_no_verdict() -> None:
    three = np.array([100.0, 101.0, 99.0])
    judged = ratios.judge([ratios.paired(three * 2, three, 0.05)], higher=True)[0]
    assert judged.verdict is None and not judged.different
    single = ratios.unpaired(three[:1], three, 0.05)
    assert single.value == pytest.approx(1.0, abs=0.01) and math.isinf(single.high) and single.p_different == 1.0


def test_latency_is_better_when_less() -> None:
    ten = np.exp(np.random.default_rng(1).normal(0, 0.02, 10))
    judged = ratios.judge([ratios.paired(ten * 0.5, ten, ratios.LATENCY_MARGIN)], higher=False)[0]
    assert judged.verdict == "better"


def test_one_of_many_cells_is_not_different_by_chance() -> None:
    random = np.random.default_rng(7)
    wrong = {"holm": 0, "fdr": 0}
    for _ in range(100):
        cells = [ratios.paired(side(random, 8, 0.05, 0.0), side(random, 8, 0.05, 0.0), 0.05) for _ in range(20)]
        wrong["holm"] += any(found.different for found in ratios.judge(cells, higher=True))
        wrong["fdr"] += any(found.different for found in ratios.judge(cells, higher=True, control="fdr"))
    assert max(wrong.values()) <= 11


def test_a_surface_keeps_its_real_differences() -> None:
    random = np.random.default_rng(8)
    cells = [
        ratios.paired(side(random, 10, 0.03, 0.0) * (0.8 if at < 60 else 1.0), side(random, 10, 0.03, 0.0), 0.05)
        for at in range(120)
    ]
    judged = ratios.judge(cells, higher=True, control="fdr")
    assert sum(found.verdict == "worse" for found in judged[:60]) >= 55
    assert sum(found.different for found in judged[60:]) <= 6


def test_values_that_make_no_ratio_are_refused() -> None:
    one = np.array([1.0, 2.0])
    for mine, other in ((one, one[:1]), (one[:0], one[:0]), (np.array([0.0, 1.0]), one)):
        with pytest.raises(UsageError):
            ratios.paired(mine, other, 0.05)


def test_adjusted_p_values_are_the_definitions() -> None:
    assert families.holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert families.benjamini_hochberg([0.01, 0.04, 0.03, 0.5]) == pytest.approx([0.04, 0.16 / 3, 0.16 / 3, 0.5])
    for adjust in (families.holm, families.benjamini_hochberg):
        assert adjust([]) == []
        ps = np.random.default_rng(2).random(30).tolist()
        expected = stats.false_discovery_control(ps) if adjust is families.benjamini_hochberg else None
        assert expected is None or adjust(ps) == pytest.approx(expected.tolist())
