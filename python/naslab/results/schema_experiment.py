"""The document of an experiment (`naslab lab run EXPERIMENT --json`) as data, its JSON schema and its page."""

from __future__ import annotations

import json
from typing import Any

from naslab.results.fields import Field, field_row, table_schema
from naslab.results.fields import field as _f
from naslab.results.schema_lab import PLANTED

SCHEMA = 1

EXPERIMENT = (
    _f("schema", "integer", f"version of this document; this naslab writes {SCHEMA}"),
    _f("kind", "string", "distinguishes it from a run document", enum=("experiment",)),
    _f("naslab_version", "string", "version of naslab that measured"),
    _f("name", "string", "of the experiment"),
    _f("scale", "string", "full: the article's own sizes; quick: the smallest", enum=("quick", "scaled", "full")),
    _f("title", "string", "the article's subject"),
    _f("source", "object", "the article: title, author, year and address, as far as they are known"),
    _f("about", "string", "what was built and what differs from the article"),
    _f("margin", "number", "a contrast of less than this share counts as none"),
    _f("seed", "integer", "seed of order, offsets and data", least=None),
    _f("started_at", "string", "start, ISO 8601 in UTC"),
    _f("finished_at", "string", "end, ISO 8601 in UTC"),
    _f("interrupted", "boolean", "it was ended before all repeats were measured"),
    _f("summary", "array", "the result in sentences"),
    _f("conditions", "condition[]", "what was measured, in order"),
    _f("tests", "test[]", "the commands that measured"),
    _f("limits", "limit[]", "limits that the systems have"),
    _f("measurements", "measurement[]", "the runs, by their ids in the store"),
    _f("charts", "chart[]", "what the report draws"),
    _f("published", "published[]", "the article's own numbers"),
    _f("speed", "number", "so many times as fast as the article's systems these are; 1 if left out", required=False),
    _f("costs", "cost[]", "what the servers cost, of tests that were given a price", required=False),
    _f("claims", "claim[]", "the article's conclusions and their verdicts"),
    _f("calibrations", "calibration[]", "systems from parts: planted limits and what other tools measured",
       required=False),
    _f("notes", "array", "what else must be known, one sentence each"),
    _f("sequential", "sequential", "of a run with --until decided", required=False),
)  # fmt: skip

SEQUENTIAL = (
    _f("looks", "array", "numbers of repeats after which all claims are judged"),
    _f("level", "number", "chance of any wrong verdict over all looks and claims"),
)

CONDITION = (
    _f("id", "string", "its name"),
    _f("what", "string", "as text"),
    _f("system", "string", "the system it is measured on; empty: measured elsewhere"),
    _f("built", "string", "what that system is made of"),
    _f("stands_for", "string", "the article's machine that it represents"),
    _f("tests", "array", "names of its tests"),
    _f("options", "string", "what its commands have in addition"),
    _f("beside", "array", "what runs beside its tests"),
    _f("place", "string", "where naslab ran; places are not compared with each other"),
    _f("missing", "string", "why it was not measured; empty: it was"),
)

TEST = (
    _f("name", "string", "its name"),
    _f("what", "string", "as text"),
    _f("words", "string", "the command line"),
)

LIMIT = (
    _f("name", "string", "its name"),
    _f("what", "string", "as text"),
    _f("value", "number", "planted: bytes per second or bytes"),
    _f("condition", "string", "the only condition that has it; empty: all"),
    _f("line", "boolean", "a reference line of the charts"),
    _f("measured", "number?", "by another tool, or the planted value where none did; null: not known"),
)

MEASUREMENT = (
    _f("condition", "string", "id of the condition"),
    _f("test", "string", "name of the test"),
    _f("block", "integer", "which repeat, from 0"),
    _f("run_id", "string?", "the run in the store"),
    _f("status", "string?", "of that run"),
    _f("place", "string", "where naslab ran", required=False),
)

CHART = (
    _f("id", "string", "its name"),
    _f("title", "string", "its title"),
    _f("kind", "string", "how it is drawn", enum=("line", "bars", "surface", "time")),
    _f("unit", "string", "of the values"),
    _f("limits", "array", "names of limits drawn as lines"),
    _f("published", "array", "over time: ids of published numbers drawn as lines", required=False),
    _f("series", "series[]", "one for each condition that was measured"),
)

SERIES = (
    _f("condition", "string", "id of the condition"),
    _f("points", "point[]", "of lines and bars", required=False),
    _f("files", "array", "of surfaces: file sizes in bytes", required=False),
    _f("records", "array", "of surfaces: record sizes in bytes", required=False),
    _f("rates", "array", "of surfaces: rows of medians over the repeats, null where not measured", required=False),
    _f("roughness", "array", "of surfaces: of each repeat", required=False),
    _f("dips", "dip[]", "of surfaces: spots below their neighbours", required=False),
    _f("block", "integer", "over time: the repeat shown, from 0, which has the median rate", required=False),
    _f("repeats", "integer", "over time: how many there are", required=False),
    _f("run_id", "string?", "over time: its run in the store", required=False),
    _f("times_ns", "array", "over time: start of each interval since the first", required=False),
    _f(
        "values",
        "array",
        "over time: rate of each interval in the chart's unit, null between two cells",
        required=False,
    ),
)

POINT = (
    _f("size_bytes", "integer", "of lines: the file size", "bytes", required=False),
    _f("group", "string", "of bars: the group", required=False),
    _f("values", "array", "of each repeat, in the chart's unit"),
)

DIP = (
    _f("file_bytes", "integer", "file size", "bytes"),
    _f("record_bytes", "integer", "record size", "bytes"),
    _f("share", "number", "of its neighbours' median, geometric mean over the repeats"),
    _f("low", "number", "of its 95 % interval"),
    _f("high", "number", "of its 95 % interval"),
)

PUBLISHED = (
    _f("id", "string", "its name"),
    _f("what", "string", "as text"),
    _f("value", "number", "as published", least=None),
    _f("unit", "string", "as published"),
    _f("scaled", "number", "the same in bytes, bytes per second, nanoseconds, or as it is", least=None),
    _f("place", "string", "where in the article"),
    _f("chart", "string", "where it is drawn; empty: nowhere"),
    _f("condition", "string", "beside which condition"),
    _f("group", "string", "in which group of bars"),
    _f("size_bytes", "integer", "at which file size; 0: at none", "bytes"),
    _f("column", "string", "of a table"),
)

COST = (
    _f("condition", "string", "id of the condition"),
    _f("test", "string", "name of the test"),
    _f("name", "string", "which figure; per_tib: of the time that 2^40 bytes take at the sustained or the burst rate",
       enum=("per_hour", "per_month", "sustained_per_tib", "burst_per_tib")),
    _f("values", "array", "of each repeat, in the currency of the price"),
    _f("published", "number?", "the same from the article's price and rates; null: none"),
)  # fmt: skip

CLAIM = (
    _f("id", "string", "its name"),
    _f("words", "string", "the conclusion, in our words"),
    _f("place", "string", "where in the article"),
    _f("verdict", "string", "the verdict",
       enum=("reproduced", "contradicted", "undecided", "too few repeats", "not testable here")),
    _f("why", "string", "one sentence"),
    _f("p", "number?", "of the verdict, adjusted over the experiment; null: none"),
    _f("repeats_needed", "number?", "of an undecided claim: repeats that would decide it in 80 of 100 cases; null: not "
       "known, or no number would", required=False),
    _f("published", "number?", "the same ratio in the article; null: it gives none"),
    _f("stand_in", "string", "the stand-in for a machine that cannot be rebuilt"),
    _f("region", "array?", "ratios that the conclusion states: lowest and highest, null for no bound"),
    _f("contrasts", "contrast[]", "the ratios it was judged by"),
)  # fmt: skip

CONTRAST = (
    _f("words", "string", "what is divided by what"),
    _f("value", "number?", "the ratio; null: none"),
    _f("low", "number?", "of its 95 % interval"),
    _f("high", "number?", "of its 95 % interval"),
    _f("n", "integer", "repeats"),
    _f("detectable", "number?", "a true ratio this factor away from the edge is detected in 80 of 100 cases"),
)

CALIBRATION = (
    _f("system", "string", "its name"),
    _f("built", "string", "what it is made of"),
    _f("conditions", "array", "ids of the conditions measured on it"),
    _f("calibrated_at", "string?", "when; null: never on a system of these parts"),
    _f("limits", "planted[]", "its limits"),
)

TABLES: dict[str, tuple[str, tuple[Field, ...]]] = {
    "experiment": ("Experiment", EXPERIMENT),
    "sequential": ("Looks at the repeats", SEQUENTIAL),
    "condition": ("Condition", CONDITION),
    "test": ("Test", TEST),
    "limit": ("Limit", LIMIT),
    "measurement": ("Measurement", MEASUREMENT),
    "chart": ("Chart", CHART),
    "series": ("Series", SERIES),
    "point": ("Point", POINT),
    "dip": ("Dip", DIP),
    "published": ("Published number", PUBLISHED),
    "cost": ("Cost", COST),
    "claim": ("Claim", CLAIM),
    "contrast": ("Contrast", CONTRAST),
    "calibration": ("Calibration", CALIBRATION),
    "planted": ("Planted limit", PLANTED),
}


def json_schema(strict: bool = False) -> dict[str, Any]:
    """JSON schema (draft 2020-12) of the document. strict: fields not described here are refused, for tests."""
    definitions = {name: table_schema(fields, TABLES, SCHEMA, strict) for name, (_, fields) in TABLES.items()}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:naslab:experiment-document:{SCHEMA}",
        "title": f"naslab experiment document, schema {SCHEMA}",
        **definitions.pop("experiment"),
        "$defs": definitions,
    }


def page() -> str:
    """The reference page."""
    lines = [
        "# The document of an experiment", "",
        "<!-- Made by tools/make-docs; edit naslab/results/schema_experiment.py instead. -->", "",
        f"What `naslab lab run EXPERIMENT --json` prints; schema {SCHEMA}, as JSON schema in",
        "[experiment.schema.json](experiment.schema.json). Its report is made from it alone. Readers must allow fields "
        "they do not", "know; a field that changes its meaning raises `schema`.",
    ]  # fmt: skip
    for title, fields in TABLES.values():
        lines += ["", f"## {title}", "", "| field | type | unit | meaning |", "|---|---|---|---|"]
        lines += [field_row(each, TABLES) for each in fields]
    return "\n".join(lines) + "\n"


def files() -> dict[str, str]:
    """The generated files by name."""
    schema = json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"
    return {"experiment.schema.json": schema, "experiment-document.md": page()}
