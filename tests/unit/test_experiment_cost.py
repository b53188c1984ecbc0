"""What an experiment's servers cost: ours of each repeat, the article's from its own price and rates, every mistake."""

from __future__ import annotations

import dataclasses
import html
import json
from typing import Any

import jsonschema
import pytest

from naslab.analysis.cost import Price, cost_of
from naslab.analysis.quantities import Sample
from naslab.cli.experiment import _words
from naslab.errors import UsageError
from naslab.lab import experiment
from naslab.lab.experiment_result import Measurements, result_of
from naslab.render.report.experiment import costs_table, ours, render
from naslab.results import schema_experiment
from naslab.results.describe import typed
from naslab.results.parts.experiment import ExperimentDocument

STRICT = jsonschema.Draft202012Validator(schema_experiment.json_schema(strict=True))
TEXT = experiment.built_in()["fsx-32"]
PRICE = Price(per_hour=0.371)


def samples(bursts: list[float | None]) -> list[Sample]:
    """Repeats of the test `burst` of fsx-32, at 30 MB/s once the burst is over."""
    found = []
    for block, burst in enumerate(bursts):
        cost = dataclasses.asdict(cost_of(PRICE, 30e6, burst))
        document = {"run_id": str(block), "status": "complete", "cells": [], "sustained": {"cost": cost}}
        found.append(Sample("tier-32", "burst", block, "host", document))
    return found


def result(bursts: list[float | None]) -> dict[str, Any]:
    made = result_of(experiment.load("fsx-32"), Measurements(samples(bursts)))
    return dict(json.loads(json.dumps(made, allow_nan=False)))


def test_ours_stands_beside_the_articles() -> None:
    found = result([250e6, 200e6, 240e6])
    STRICT.validate(found)
    by_name = {one["name"]: one for one in found["costs"]}
    assert list(by_name) == ["per_hour", "per_month", "sustained_per_tib", "burst_per_tib"]
    hours = 2**40 / 3600
    assert by_name["sustained_per_tib"]["values"] == pytest.approx([0.371 * hours / 30e6] * 3)
    assert by_name["burst_per_tib"]["values"] == pytest.approx([0.371 * hours / rate for rate in (250e6, 200e6, 240e6)])
    assert by_name["per_month"]["published"] == 270.72
    assert by_name["burst_per_tib"]["published"] == pytest.approx(270.72 / 730 * hours / 287.5e6)
    month = next(one for one in typed(found, ExperimentDocument).published if one.id == "cost-month")
    assert ours(typed(found, ExperimentDocument), month) == "270.8 USD"


def test_the_table_and_the_words_tell_both() -> None:
    found = result([250e6, 200e6, 240e6])
    table = html.unescape(costs_table(typed(found, ExperimentDocument))).replace("\u00a0", " ")
    for text in ("A TiB moved at the sustained rate", "3.5395", "3.777", "0.39396", "0.4532 to 0.5666 in 3 repeats"):
        assert text in table, text
    assert 'href="#cost"' in render(found)
    told = "\n".join(_words(found, None))
    assert "Cost of a TiB moved at the burst rate: 0.472, article 0.394" in told
    assert costs_table(typed({**found, "costs": []}, ExperimentDocument)) == "" and 'href="#cost"' not in render(
        {**found, "costs": []}
    )


def test_without_a_burst_or_an_article_there_is_none() -> None:
    found = result([None])
    assert [one["name"] for one in found["costs"]] == ["per_hour", "per_month", "sustained_per_tib"]
    other = dataclasses.replace(experiment.load("fsx-32"), cost=None)
    made = result_of(other, Measurements(samples([250e6])))
    assert {one["published"] for one in made["costs"]} == {None} and "<td>-</td>" in costs_table(
        typed(made, ExperimentDocument)
    )
    assert result_of(other, Measurements([]))["costs"] == []


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('condition = "tier-32"\nper_month', 'condition = "tier"\nper_month', "cost.condition = 'tier': use one of"),
        ('per_month = "cost-month"', 'per_month = "baseline"', "cost.per_month = 'baseline': no published number in"),
        ('per_month = "cost-month"', "", "cost.per_month is missing"),
        ('per_month = "cost-month"', "per_month = 270", "cost.per_month = 270: write a text"),
        ('sustained = "baseline"', 'sustained = "zip-time"', "cost.sustained = 'zip-time': no published rate;"),
        ('burst = "burst"\n', 'burts = "burst"\n', "cost.burts: unknown key; use condition, per_month"),
    ],
)  # fmt: skip
def test_mistakes_are_refused_by_name(old: str, new: str, said: str) -> None:
    assert old in TEXT
    with pytest.raises(UsageError) as caught:
        experiment.parse(TEXT.replace(old, new, 1), "mine.toml", "mine")
    assert said in str(caught.value) and "mine.toml" in str(caught.value)
