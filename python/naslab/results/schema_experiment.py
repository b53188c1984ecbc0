"""The document of an experiment (`naslab lab run EXPERIMENT --json`): its parts, its JSON schema and its page."""

from __future__ import annotations

import json
from typing import Any

from naslab.results import schema_maker
from naslab.results.parts.experiment import (
    SCHEMA,
    ExperimentCalibration,
    ExperimentChart,
    ExperimentClaim,
    ExperimentCondition,
    ExperimentContrast,
    ExperimentCost,
    ExperimentDip,
    ExperimentDocument,
    ExperimentLimit,
    ExperimentMeasurement,
    ExperimentPoint,
    ExperimentPublished,
    ExperimentSequential,
    ExperimentSeries,
    ExperimentTest,
)
from naslab.results.parts.lab import PlantedDocument
from naslab.results.schema_maker import Tables

TABLES: Tables = {
    "experiment": ExperimentDocument,
    "sequential": ExperimentSequential,
    "condition": ExperimentCondition,
    "test": ExperimentTest,
    "limit": ExperimentLimit,
    "measurement": ExperimentMeasurement,
    "chart": ExperimentChart,
    "series": ExperimentSeries,
    "point": ExperimentPoint,
    "dip": ExperimentDip,
    "published": ExperimentPublished,
    "cost": ExperimentCost,
    "claim": ExperimentClaim,
    "contrast": ExperimentContrast,
    "calibration": ExperimentCalibration,
    "planted": PlantedDocument,
}


def json_schema(strict: bool = False) -> dict[str, Any]:
    """JSON schema (draft 2020-12) of the document. strict: fields not described here are refused, for tests."""
    return schema_maker.json_schema(TABLES, SCHEMA, strict)


def page() -> str:
    """The reference page."""
    lines = [
        "# The document of an experiment", "",
        "<!-- Made by tools/make-docs; edit naslab/results/parts/experiment.py instead. -->", "",
        f"What `naslab lab run EXPERIMENT --json` prints; schema {SCHEMA}, as JSON schema in",
        "[experiment.schema.json](experiment.schema.json). Its report is made from it alone. Readers must allow fields "
        "they do not", "know; a field that changes its meaning raises `schema`.",
    ]  # fmt: skip
    for part in TABLES.values():
        lines += schema_maker.table_lines(part, TABLES)
    return "\n".join(lines) + "\n"


def files() -> dict[str, str]:
    """The generated files by name."""
    schema = json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"
    return {"experiment.schema.json": schema, "experiment-document.md": page()}
