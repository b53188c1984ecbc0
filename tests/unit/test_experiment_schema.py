"""The document of an experiment is as its schema says, and the schema notices what is not."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from claim_truth import cell
from naslab import load
from naslab.lab import experiment
from naslab.lab.bench import bring_up_addresses
from naslab.lab.calibrate import of_experiment
from naslab.lab.run_experiment import run_experiment
from naslab.render.report.experiment_series import add_series, shown_runs
from naslab.results import schema_experiment
from naslab.results.parts.experiment import ExperimentDocument, ExperimentSeries

pytestmark = pytest.mark.lab

SIM = Path(__file__).parents[1] / "sim_experiment.toml"
STRICT = jsonschema.Draft202012Validator(schema_experiment.json_schema(strict=True))


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A small experiment on simulated servers, with what `naslab lab run` adds."""
    found = experiment.load(str(SIM))
    cells = [cell(80e6, 32 << 20, 1 << 20)]
    given = [{"command": "sweep", "run_id": "given", "status": "complete", "cells": cells}] * 3
    store = tmp_path_factory.mktemp("experiment") / "store.sqlite"
    made = run_experiment(found, bring_up_addresses(store), repeats=3, given={"elsewhere": given})
    of_experiment.record(found, made, [])
    add_series(found, made, {run_id: load(run_id, str(store)) for run_id in shown_runs(made) if run_id != "given"})
    return dict(json.loads(json.dumps(made, allow_nan=False)))


def test_a_document_is_as_its_schema_says(result: dict[str, Any]) -> None:
    STRICT.validate(result)
    for part in ("conditions", "measurements", "charts", "published", "claims"):
        assert result[part], f"{part}: nothing of it was checked"


def test_every_field_of_the_schema_is_one_of_the_document(result: dict[str, Any]) -> None:
    """What may be absent appears somewhere, too; charts of all kinds were checked."""
    assert set(result) == set(ExperimentDocument.__struct_fields__) - {"sequential"}  # test_sequential.py
    assert {chart["kind"] for chart in result["charts"]} == {"line", "bars", "surface", "time"}
    used = {name for chart in result["charts"] for series in chart["series"] for name in series}
    assert used == set(ExperimentSeries.__struct_fields__)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("claims", 0, "verdict"), "true"), (("schema",), 2), (("conditions", 0, "id"), None),
        (("charts", 0, "kind"), "pie"), (("measurements", 0, "block"), "first"), (("unknown",), 1),
    ],
)  # fmt: skip
def test_what_is_wrong_is_noticed(result: dict[str, Any], path: tuple[Any, ...], value: object) -> None:
    damaged = copy.deepcopy(result)
    there: Any = damaged
    for step in path[:-1]:
        there = there[step]
    there[path[-1]] = value
    with pytest.raises(jsonschema.ValidationError):
        STRICT.validate(damaged)
