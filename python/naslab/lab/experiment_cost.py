"""What an experiment's servers cost, from the prices that its tests were given, beside the article's own numbers.

`[cost]` names the article's: `per_month`, a price, and `sustained` and `burst`, rates. What it costs to move data is
computed from them as `naslab sustained` does it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from naslab.analysis.cost import Price, cost_at
from naslab.analysis.quantities import Quantity, Sample, of_blocks
from naslab.errors import UsageError
from naslab.lab.experiment_parts import RATE_UNITS
from naslab.toml.tables import Table

if TYPE_CHECKING:
    from naslab.lab.experiment import Experiment, Published

FIGURES = {
    "per_hour": "sustained.cost.per_hour",
    "per_month": "sustained.cost.per_month",
    "sustained_per_tib": "sustained.cost.sustained.per_tib_moved",
    "burst_per_tib": "sustained.cost.burst.per_tib_moved",
}
"""Figures of a cost, and where a run's document has them."""
_RATES = {"sustained_per_tib": "sustained", "burst_per_tib": "burst"}
_CURRENCY = "USD"


@dataclass(frozen=True)
class ArticleCost:
    """The article's price and rates. condition: which of ours stands for what they belong to. In USD and bytes/s.

    sustained, burst: None where the article has no such rate.
    """

    condition: str
    per_month: float
    sustained: float | None = None
    burst: float | None = None

    def figures(self) -> dict[str, float]:
        """By name of FIGURES, those that can be had."""
        price = Price(per_month=self.per_month)
        rates = {name: getattr(self, key) for name, key in _RATES.items()}
        moved = {name: cost_at(price, rate).per_tib_moved for name, rate in rates.items() if rate is not None}
        return {"per_hour": price.hour, "per_month": price.month, **moved}


def article_cost(top: Table, conditions: Collection[str], published: Sequence[Published]) -> ArticleCost | None:
    """What `[cost]` says; None where it is left out. Raises UsageError."""
    if "cost" not in top.data:
        return None
    table = Table(top.data["cost"], f"{top.where}cost", ("condition", "per_month", "sustained", "burst"))
    price = _named(table, "per_month", {each.id: each.scaled for each in published if each.unit == _CURRENCY})
    known = {each.id: each.scaled for each in published if each.unit in RATE_UNITS}
    rates = {key: _named(table, key, known) for key in _RATES.values() if key in table.data}
    return ArticleCost(table.word("condition", conditions), price, **rates)


def _named(table: Table, key: str, known: Mapping[str, float]) -> float:
    name = table.text(key)
    if name not in known:
        what = f"no published number in {_CURRENCY}" if key == "per_month" else "no published rate"
        raise UsageError(f"{table.where}.{key} = {name!r}: {what}; use one of {', '.join(known) or '(there is none)'}")
    return known[name]


def costs(experiment: Experiment, samples: Sequence[Sample]) -> Iterator[dict[str, Any]]:
    """Each figure of each condition and test that was given a price: ours of each repeat, and the article's."""
    for condition in experiment.conditions:
        own = experiment.cost is not None and experiment.cost.condition == condition.id
        article = experiment.cost.figures() if experiment.cost is not None and own else {}
        for test in condition.tests:
            for name, path in FIGURES.items():
                values = list(of_blocks(Quantity(condition.id, test, path), samples).values())
                if values:
                    yield {
                        "condition": condition.id, "test": test, "name": name, "values": values,
                        "published": article.get(name),
                    }  # fmt: skip
