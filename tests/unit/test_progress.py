"""Progress: what is said of the time that is left, and how often, on a clock that the test moves."""

from __future__ import annotations

import random
import re
from itertools import pairwise

import pytest

from naslab.cli.progress import PLAIN_INTERVAL_S, TYPICAL_STEPS, Progress
from naslab.cli.time_left import GROWS, LAST_S, MOST_SHARE, TimeLeft
from naslab.explain import steps
from naslab.spec import CellSpec

UNITS = {"h": 3600.0, "min": 60.0, "s": 1.0}


class Clock:
    """Time that the test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def left_in(text: str) -> float | None:
    """Seconds of `... at most 4 min 10 s left; ...`; None where nothing is said."""
    match = re.search(r"(?:at most|about|less than) ((?:[\d.]+ (?:h|min|s) ?)+)left", text)
    if match is None:
        assert "left" not in text, text
        return None
    return sum(float(number) * UNITS[unit] for number, unit in re.findall(r"([\d.]+) (h|min|s)", match[1]))


def cell(at: int, **more: object) -> CellSpec:
    return CellSpec("read", 8 << 20, 1 << 20, ["a"], id=at, **more)  # type: ignore[arg-type]


def told(rng: random.Random, budget_s: float | None, capsys: pytest.CaptureFixture[str]) -> list[tuple[float, str]]:
    """(time, line) of a simulated run: steps and cells of any length, some far longer than those before."""
    clock, made = Clock(), 0
    planned = [] if budget_s else [cell(at) for at in range(rng.randint(1, 40))]
    found: list[tuple[float, str]] = []
    with Progress(planned, budget_ns=round(budget_s * 1e9) if budget_s else None, planned=not budget_s,
                  clock=clock) as shown:  # fmt: skip
        hooks = shown.hooks
        assert hooks.before_cell and hooks.progress and hooks.on_cell

        def look() -> None:
            if text := capsys.readouterr().err:
                found.extend((clock.now, line) for line in text.splitlines())

        while made < len(planned) or (budget_s and clock.now - 100 < 1.1 * budget_s):
            if not planned[made:]:
                planned.append(cell(made))
                shown.add(planned[-1:])
                shown.step(rng.choice(["large reads", "working set of 2 GiB", "writes"]))
            one, slow = planned[made], rng.choice([0.01, 0.3, 3.0, 20.0])
            hooks.before_cell(one.id)
            for part in range(rng.randint(0, 5)):
                clock.now += slow * rng.random()
                hooks.progress({"cell": one.id, "bytes": (part + 1) << 20, "elapsed_ns": 1, "bytes_per_s": 1e8})
                look()
            clock.now += slow * rng.random()
            hooks.on_cell({"id": one.id, "throughput_bytes_per_s": 1e8})
            made += 1
            look()
    return found


@pytest.mark.parametrize("seed", range(60))
def test_lines_of_a_log(seed: int, capsys: pytest.CaptureFixture[str]) -> None:
    """Ten seconds apart; time left never grows by more than a tenth, is never 0, and with a budget it holds."""
    rng = random.Random(seed)
    budget = rng.choice([None, 30.0, 300.0, 3600.0])
    lines = told(rng, budget, capsys)
    times = [at for at, _ in lines]
    assert all(later - earlier >= PLAIN_INTERVAL_S for earlier, later in pairwise(times))
    assert not times or times[0] - 100 >= PLAIN_INTERVAL_S
    least: float | None = None
    for at, line in lines:
        assert "%" not in line and "ns left" not in line
        left = left_in(line)
        if left is None:
            continue
        assert left >= LAST_S
        assert least is None or left <= GROWS * least, (least, line)
        least = left if least is None else min(least, left)
        if budget:
            assert at - 100 + left >= budget, "the budget may be used up"
    assert not (budget and budget > 60) or lines


@pytest.mark.parametrize("seed", range(100))
def test_time_left_never_grows_by_more_than_a_tenth(seed: int) -> None:
    rng = random.Random(seed)
    left = TimeLeft(rng.choice([None, 60.0, 600.0]), planned=rng.random() < 0.7)
    elapsed, share, least = 0.0, 0.0, None
    while share < 1:
        elapsed += rng.expovariate(1.0)
        share = min(1.0, share + rng.choice([0.0, 0.001, 0.01, 0.1]))
        found = left.left_s(elapsed, share)
        assert 0 <= left.share(elapsed, share) <= MOST_SHARE
        if found is None:
            continue
        assert found >= LAST_S and (least is None or found <= GROWS * least)
        least = found if least is None else min(least, found)


def test_even_work_is_bounded_from_above() -> None:
    """Work at an even pace: no figure is below what is really left."""
    left = TimeLeft()
    for second in range(3, 100):
        found = left.left_s(second, second / 100)
        assert found is None or (found >= min(100 - second, LAST_S) and found >= 100 - second)
    assert left.text(99, 0.99) == f"less than {LAST_S} s left"


def test_beyond_its_budget_nothing_is_promised() -> None:
    left = TimeLeft(60.0, planned=False)
    assert left.text(0, 0) == "at most 1 min 15 s left"
    assert left.text(50, 0.999) == "at most 23 s left"
    assert left.text(500, 0.5) == "longer than planned"
    assert TimeLeft().text(10, 0) == ""


def test_the_step_under_way(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    progress = Progress([], budget_ns=300 * 10**9, planned=False, clock=clock)
    for at in range(6):
        progress.step(f"step {at}")
    progress.step("working set of 2 GiB")
    progress.step("working set of 2 GiB")
    clock.now += 42
    expected = f"0:42 of 5:00, at most 4 min 45 s left; step 7 of about {TYPICAL_STEPS}: working set of 2 GiB"
    assert progress.line() == expected
    for at in range(20):
        progress.step(f"more {at}")
    assert "step 27 of about 28: more 19" in progress.line()
    progress.step("one large file", last=True)
    assert "step 28 of 28: one large file" in progress.line()
    assert capsys.readouterr().err.count("\n") == 1


def test_steps_have_names_that_people_read() -> None:
    sets = [CellSpec("read", 2 << 30, 1 << 20, ["a"], id=0)]
    assert steps.title_of("set", sets) == "working set of 2 GiB"
    assert steps.title_of("beyond", sets) == "small and random reads of 2 GiB"
    assert all(steps.title_of(name, sets) for name in (*steps.STEP_NAMES, "first", "files"))


@pytest.mark.parametrize("width", [40, 80, 120])
def test_the_live_line_is_one_row(width: int) -> None:
    clock = Clock()
    progress = Progress([], budget_ns=300 * 10**9, planned=False, clock=clock)
    progress.step("small and random reads of 2 GiB and more words than fit into a row of any terminal that people use")
    clock.now += 10_000
    assert progress._picture_of(width).cell_len < width
    assert "longer than planned" in progress.line()
