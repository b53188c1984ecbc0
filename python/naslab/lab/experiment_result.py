"""What an experiment came to, as one plain document: numbers for the charts, published ones, claims with verdicts.

The report is made from this document alone; the runs themselves stay in the store, by their ids.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from naslab import __version__
from naslab.analysis import surface
from naslab.analysis.claims import VERDICTS, Contrast, Looks, Measured, Outcome, identical, judge
from naslab.analysis.intervals import LEVEL
from naslab.analysis.quantities import Quantity, Sample, of_blocks, surfaces_of
from naslab.lab.experiment import Chart, Experiment, Published, System
from naslab.lab.experiment_cost import costs
from naslab.toml.tables import UNITS, Table, where_of

SCHEMA = 1


@dataclass(frozen=True)
class Measurements:
    """What a runner brings home. limits: measured by independent tools, by `condition/name` or name. missing: why a
    condition was not measured. notes: what else must be known, one sentence each.
    """

    samples: Sequence[Sample]
    limits: Mapping[str, float] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)
    notes: Sequence[str] = ()
    seed: int = 0
    started_at: str = ""
    finished_at: str = ""
    interrupted: bool = False
    looks: Looks | None = None
    """Of a run that goes on until its claims are decided."""

    def of(self, experiment: Experiment) -> Measured:
        """What claims are judged by: the planted limits, too, where none was measured."""
        return Measured(self.samples, {**_planted(experiment), **self.limits}, self.missing)


def result_of(experiment: Experiment, found: Measurements) -> dict[str, Any]:
    """The document of an experiment. Numbers are bytes per second, bytes and nanoseconds."""
    measured = found.of(experiment)
    outcomes = judge(experiment.claims, measured, found.looks)
    return {
        "schema": SCHEMA, "kind": "experiment", "naslab_version": __version__, "name": experiment.name,
        "scale": experiment.scale, "title": experiment.title, "source": dict(experiment.source),
        "about": experiment.about, "margin": experiment.margin, "seed": found.seed, "started_at": found.started_at,
        "finished_at": found.finished_at, "interrupted": found.interrupted,
        "summary": summary(experiment, found, outcomes),
        "conditions": [_condition(experiment, one.id, found) for one in experiment.conditions],
        "tests": [
            {"name": test.name, "what": test.what, "words": " ".join(["naslab", test.command, "TARGET", *test.words])}
            for test in experiment.tests.values()
        ],
        "limits": [{**dataclasses.asdict(one), "measured": measured.limits.get(_key(one.name, one.condition))}
                   for one in experiment.limits],
        "measurements": [
            {"condition": sample.condition, "test": sample.test, "block": sample.block,
             "run_id": sample.document.get("run_id"), "status": sample.document.get("status"),
             "place": sample.place}
            for sample in found.samples
        ],
        "charts": [_chart(chart, experiment, found.samples) for chart in experiment.charts],
        "published": [{**dataclasses.asdict(one), "scaled": one.scaled} for one in experiment.published],
        "speed": experiment.speed, "costs": list(costs(experiment, found.samples)),
        "claims": [_claim(outcome) for outcome in outcomes],
        "notes": list(dict.fromkeys([*found.notes, *_notes(experiment, found.samples)])),
        **({} if found.looks is None else {"sequential": {"looks": list(found.looks.planned), "level": LEVEL}}),
    }  # fmt: skip


def _key(name: str, condition: str) -> str:
    return f"{condition}/{name}" if condition else name


def _planted(experiment: Experiment) -> dict[str, float]:
    return {_key(limit.name, limit.condition): limit.value for limit in experiment.limits}


def summary(experiment: Experiment, found: Measurements, outcomes: Sequence[Outcome]) -> list[str]:
    """How many claims ended how, and over how many repeats, in sentences."""
    counts = {verdict: sum(outcome.verdict == verdict for outcome in outcomes) for verdict in VERDICTS}
    told = ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)
    measured = {sample.condition for sample in found.samples}
    counts_of = [len({sample.block for sample in found.samples if sample.condition == name}) for name in measured]
    least, most = (min(counts_of), max(counts_of)) if counts_of else (0, 0)
    repeats = f"{least} {'repeat' if most == 1 else 'repeats'}" if least == most else f"{least} to {most} repeats"
    missing = [one.id for one in experiment.conditions if one.id not in measured]
    left = f"; not measured: {', '.join(missing)}" if missing else ""
    return [
        f"{len(outcomes)} conclusions of the article: {told or 'none'}.",
        f"{len(measured)} of {len(experiment.conditions)} conditions in {repeats} each{left}.",
    ]


def _condition(experiment: Experiment, name: str, found: Measurements) -> dict[str, Any]:
    condition = experiment.condition(name)
    system: System | None = experiment.systems.get(condition.system)
    places = sorted({sample.place for sample in found.samples if sample.condition == name})
    return {
        "id": name, "what": condition.what, "system": condition.system, "built": system.what if system else "",
        "stands_for": system.stands_for if system else "", "tests": list(condition.tests),
        "options": " ".join(condition.words), "beside": condition.beside_words,
        "place": ", ".join(places), "missing": found.missing.get(name, ""),
    }  # fmt: skip


def _claim(outcome: Outcome) -> dict[str, Any]:
    claim = outcome.claim
    return {
        "id": claim.id, "words": claim.words, "place": claim.place, "verdict": outcome.verdict, "why": outcome.why,
        "p": outcome.p, "repeats_needed": None if outcome.repeats_needed is None else _finite(outcome.repeats_needed),
        "published": claim.published, "stand_in": claim.stand_in,
        "region": None if claim.not_testable else [_finite(end) for end in claim.region],
        "contrasts": [_contrast(one) for one in outcome.contrasts],
    }  # fmt: skip


def _contrast(contrast: Contrast) -> dict[str, Any]:
    told = dataclasses.asdict(contrast)
    return {key: _finite(value) if isinstance(value, float) else value for key, value in told.items()}


def _finite(value: float) -> float | None:
    """JSON has neither infinity nor NaN."""
    return value if math.isfinite(value) else None


# --- charts ----------------------------------------------------------------------------------------------


def _chart(chart: Chart, experiment: Experiment, samples: Sequence[Sample]) -> dict[str, Any]:
    factor = UNITS[chart.unit]
    told: dict[str, Any] = {
        "id": chart.id, "title": chart.title, "kind": chart.kind, "unit": chart.unit, "limits": list(chart.limits),
        "published": list(chart.published),
    }  # fmt: skip
    made = {"line": _lines, "bars": _bars, "surface": _surfaces, "time": _over_time}[chart.kind]
    told["series"] = [
        {"condition": name, **one}
        for name in chart.conditions
        if (one := made(chart, experiment, name, samples, factor)) is not None
    ]
    return told


def quantity(chart: Chart, experiment: Experiment, condition: str, more: Mapping[str, Any] | None = None) -> Quantity:
    """What a chart shows of a condition. more: keys of one group of bars."""
    keys = {**chart.of, **(more or {})}
    test = keys.get("test") or next(iter(experiment.tests))
    where = where_of(Table({key: each for key, each in keys.items() if key != "test"}, "chart", None))
    return Quantity(condition, str(test), str(keys.get("value", "throughput")), where, str(keys.get("take", "mean")))


def _lines(
    chart: Chart, experiment: Experiment, condition: str, samples: Sequence[Sample], factor: float
) -> dict[str, Any] | None:
    """By file size, ascending: the value of each repeat."""
    whole = quantity(chart, experiment, condition)
    found = surfaces_of(whole, samples)
    if found is None:
        return None
    points = []
    for size in found[0]:
        at = dataclasses.replace(whole, where={**whole.where, "file": (size, size)})
        points.append({"size_bytes": size, "values": [value / factor for value in of_blocks(at, samples).values()]})
    return {"points": points}


def _bars(
    chart: Chart, experiment: Experiment, condition: str, samples: Sequence[Sample], factor: float
) -> dict[str, Any] | None:
    points = []
    for label, more in chart.groups or (("", {}),):
        values = of_blocks(quantity(chart, experiment, condition, more), samples)
        points.append({"group": label, "values": [value / factor for value in values.values()]})
    return {"points": points} if any(point["values"] for point in points) else None


def _surfaces(
    chart: Chart, experiment: Experiment, condition: str, samples: Sequence[Sample], factor: float
) -> dict[str, Any] | None:
    """Medians over the repeats, (files, records), None where nothing was measured; roughness of each repeat; dips."""
    found = surfaces_of(quantity(chart, experiment, condition), samples)
    if found is None:
        return None
    files, records, rates = found
    known = np.isfinite(rates).any(axis=0)
    medians = np.full(known.shape, np.nan)
    medians[known] = np.nanmedian(rates[:, known], axis=0)
    rows = [[None if math.isnan(rate) else float(rate) / factor for rate in row] for row in medians.tolist()]
    dips = [dataclasses.asdict(dip) for dip in surface.dips(rates, files, records)]
    rough = [_finite(surface.roughness(each)) for each in rates]
    return {"files": files, "records": records, "rates": rows, "roughness": rough, "dips": dips}


def _over_time(
    chart: Chart, experiment: Experiment, condition: str, samples: Sequence[Sample], factor: float
) -> dict[str, Any] | None:
    """The repeat with the median rate. Its intervals are in the store; the report adds them."""
    whole = dataclasses.replace(quantity(chart, experiment, condition), value="throughput")
    found = of_blocks(whole, samples)
    if not found:
        return None
    block = sorted(found, key=found.__getitem__)[(len(found) - 1) // 2]
    mine = next(s for s in samples if (s.condition, s.test, s.block) == (condition, whole.test, block))
    run_id = mine.document.get("run_id")
    return {"block": block, "repeats": len(found), "run_id": run_id, "times_ns": [], "values": []}


# --- what else is to be known ----------------------------------------------------------------------------


def _notes(experiment: Experiment, samples: Sequence[Sample]) -> Iterator[str]:
    for one, other in identical(samples):
        yield (
            f"{one.condition}, repeat {one.block + 1}, and {other.condition}, repeat {other.block + 1}, of "
            f"{one.test} have identical numbers: one is a copy"
        )
    for sample in samples:
        status = sample.document.get("status")
        if status != "complete":
            yield (
                f"{sample.condition}, repeat {sample.block + 1}, {sample.test} is {status}: only its complete cells "
                "count"
            )
    yield from published_copies(experiment.published)


def published_copies(published: Sequence[Published]) -> Iterator[str]:
    """Columns of published tables that are the same number for number."""
    columns: dict[tuple[str, str], list[float]] = {}
    for one in published:
        if one.column:
            columns.setdefault((one.id.partition(".")[0], one.column), []).append(one.value)
    seen: dict[tuple[str, tuple[float, ...]], str] = {}
    for (table, column), values in columns.items():
        first = seen.setdefault((table, tuple(values)), column)
        if first != column:
            yield f"Published: {first} and {column} have identical numbers; one of them is a copy"
