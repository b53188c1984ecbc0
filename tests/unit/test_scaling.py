"""Where more clients bring no more."""

from __future__ import annotations

import numpy as np
import pytest

from naslab.analysis.scaling import fit, judge, sentences
from naslab.commands.plans.scale import BLOCKS, parse_scale, scaled
from naslab.commands.plans.sustained import LoadOptions, sustained_cells
from naslab.errors import UsageError

MB = 1e6


def measured(one: float, most: float, counts: tuple[int, ...], noise: float, seed: int) -> dict[int, list[float]]:
    draw = np.random.default_rng(seed)
    return {n: [min(one * n, most) * float(np.exp(draw.normal(0, noise))) for _ in range(4)] for n in counts}


@pytest.mark.parametrize("seed", range(10))
def test_the_planted_limit_is_found(seed: int) -> None:
    draw = np.random.default_rng(seed)
    one, most = float(draw.uniform(20, 40)) * MB, float(draw.uniform(90, 150)) * MB
    found = judge(measured(one, most, (1, 2, 4, 8), 0.01, seed), set())
    assert found.limited_by == "server"
    assert found.limit_bytes_per_s == pytest.approx(most, rel=0.02)
    assert found.knee_clients == pytest.approx(most / one, rel=0.05)
    low, high = found.knee_ci95_clients
    assert low <= found.knee_clients <= high


@pytest.mark.lab
def test_intervals_cover() -> None:
    within = 0
    for seed in range(40):
        found = judge(measured(30 * MB, 110 * MB, (1, 2, 4, 8), 0.02, seed), set())
        low, high = found.limit_ci95_bytes_per_s
        within += low <= 110 * MB <= high
    assert within >= 35


def test_growth_to_the_end_is_no_limit_of_the_server() -> None:
    found = judge(measured(30 * MB, 1000 * MB, (1, 2, 4, 8), 0.01, 1), set())
    assert (found.limited_by, found.limit_bytes_per_s, found.knee_clients) == ("clients", None, None)
    assert found.at_least_bytes_per_s == pytest.approx(240 * MB, rel=0.02)


def test_busy_clients_are_no_proof() -> None:
    rates = measured(30 * MB, 110 * MB, (1, 2, 4, 8), 0.01, 1)
    assert judge(rates, {8}).limited_by == "clients"
    assert judge(rates, {1}).limited_by == "server", "only what is beyond the knee counts"


def test_a_single_client_may_be_all_it_takes() -> None:
    one, most = fit({1: 100 * MB, 2: 100 * MB, 4: 101 * MB})
    assert most == pytest.approx(100.5 * MB, rel=0.01) and one == pytest.approx(most, rel=0.02)


def test_words() -> None:
    found = judge(measured(30 * MB, 110 * MB, (1, 2, 4, 8), 0.005, 1), set())
    text = " ".join(sentences(found))
    assert "8: 110 MB/s" in text and "more clients add nothing: 110 MB/s" in text and "limit of the server" in text


def test_the_plan_mixes_rungs_and_fills_once() -> None:
    cells = scaled(sustained_cells(LoadOptions(1 << 20, 4096)), (1, 2, 4), 1, 5)
    loads = [each for each in cells if each.workload == "sustained"]
    assert [each.id for each in cells] == list(range(len(cells))) and len(cells) == 1 + 3 * BLOCKS
    assert cells[0].workload == "fill" and cells[0].clients is None
    for block in range(BLOCKS):
        assert sorted(each.clients or 0 for each in loads if each.block == block) == [1, 2, 4]
    assert len({tuple(each.clients for each in loads if each.block == block) for block in range(BLOCKS)}) > 1


@pytest.mark.parametrize("text", ["", "1", "2,1", "0,2", "1,1", "a,b", "1,9999"])
def test_other_scales_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--scale"):
        parse_scale(text)
