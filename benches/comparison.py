"""Interleaved comparison of two measurements, and its table."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

Measure = Callable[[], float]


class Skip(Exception):
    """A peer is not there; the reason is the message."""


@dataclass
class Row:
    """One line of the table. met: bar reached, None when there is no bar or the row was skipped."""

    name: str
    ours: float | None
    peer: float | None
    ratio: float | None
    low95: float | None
    bar: str
    met: bool | None
    note: str = ""

    @staticmethod
    def skipped(name: str, why: str) -> Row:
        """A row that says why nothing was measured."""
        return Row(name, None, None, None, None, "", None, f"skipped: {why}")

    def as_dict(self) -> dict[str, Any]:
        """The row as plain data."""
        return asdict(self)


def interleave(ours: Measure, peer: Measure, rounds: int) -> tuple[list[float], list[float]]:
    """Values of both, one of each a round, the order alternating."""
    mine: list[float] = []
    theirs: list[float] = []
    for at in range(rounds):
        if at % 2 == 0:
            mine.append(ours())
            theirs.append(peer())
        else:
            theirs.append(peer())
            mine.append(ours())
    return mine, theirs


def ratio_row(name: str, mine: list[float], theirs: list[float], at_least: float, higher_is_better: bool = True) -> Row:
    """Median paired ratio against a bar: ours over peer, or peer over ours when lower is better."""
    ratios = [a / b if higher_is_better else b / a for a, b in zip(mine, theirs, strict=True)]
    middle = median(ratios)
    return Row(
        name, median(mine), median(theirs), middle, bootstrap_low(ratios), f">= {at_least:g}x", middle >= at_least
    )


def bootstrap_low(values: list[float], draws: int = 2000) -> float:
    """Lower end of the 95 % percentile-bootstrap interval of the median; seeded."""
    pick = random.Random(1)
    medians = sorted(median(pick.choices(values, k=len(values))) for _ in range(draws))
    return medians[int(0.025 * draws)]


def print_table(rows: list[Row], rounds: int) -> None:
    """The table on stdout."""
    head = f"{'what':<44} {'naslab':>12} {'peer':>12} {'ratio':>7} {'low95':>7}  {'bar':<18} verdict"
    print(f"medians of {rounds} interleaved rounds; ratio: median of the rounds' own ratios\n{head}\n{'-' * len(head)}")
    for row in rows:
        verdict = {True: "met", False: "MISSED", None: "undecided" if row.bar else ""}[row.met]
        cells = [_number(row.ours), _number(row.peer), _ratio(row.ratio), _ratio(row.low95)]
        print(f"{row.name:<44} {cells[0]:>12} {cells[1]:>12} {cells[2]:>7} {cells[3]:>7}  {row.bar:<18} {verdict}")
        if row.note:
            print(f"    {row.note}")


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _ratio(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"
