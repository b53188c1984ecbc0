"""What became of a target over its stored runs: a course for each kind of test, and the runs where it changed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from naslab.analysis import history, ratios
from naslab.analysis.history import Step
from naslab.analysis.ratios import Ratio
from naslab.comparison.judgement import MARGINS, RATES
from naslab.results.measurements import Document, Key, Side

ALIKE = ("protocol", "dialect", "sec", "xprtsec", "signing", "encryption")
"""Of the target: runs that differ in these are not one course."""
LEAST_SHARE = 0.5
"""A measurement belongs to a course when so many of its runs have it."""
LISTED = 6


@dataclass(frozen=True)
class Moved:
    """A measurement at a step: its ratio, after over before."""

    key: Key
    ratio: Ratio


@dataclass(frozen=True)
class Change:
    """A step: the first run of the new stretch. before, after: how many runs. moved: the measurements that moved
    most, furthest first."""

    step: Step
    run_id: str
    before: int
    after: int
    moved: Sequence[Moved]


@dataclass(frozen=True)
class Course:
    """Runs of one command against one target under the same conditions, oldest first.

    index: of each run, the geometric mean over its rates, each over its median of all runs. last: ratio of the last
    run to those since the last step, when it stands out.
    """

    command: str
    target: Document
    runs: Sequence[Document]
    index: NDArray[np.float64]
    changes: Sequence[Change]
    last: float | None


def courses(documents: Sequence[Document]) -> list[Course]:
    """The courses among these runs; longest first. Failed runs, and runs without a rate, are left out."""
    groups: dict[tuple[Any, ...], list[Document]] = {}
    for document in sorted(documents, key=lambda each: int(each["start_wall_ns"])):
        if document["status"] in ("complete", "partial"):
            target = document["target"]
            alike = tuple(target.get(name) for name in ALIKE)
            groups.setdefault((document["command"], target["url"], *alike), []).append(document)
    found = [course for group in groups.values() if (course := _course(group))]
    return sorted(found, key=lambda course: -len(course.runs))


def _course(group: Sequence[Document]) -> Course | None:
    values = [_medians(document) for document in group]
    kept = [at for at, each in enumerate(values) if each]
    runs, values = [group[at] for at in kept], [values[at] for at in kept]
    counts: dict[Key, int] = {}
    for each in values:
        for key in each:
            counts[key] = counts.get(key, 0) + 1
    keys = [key for key, count in counts.items() if count >= max(2, LEAST_SHARE * len(runs))]
    usual = {key: float(np.median([each[key] for each in values if key in each])) for key in keys}
    told = [[math.log(each[key] / usual[key]) for key in keys if key in each] for each in values]
    kept = [at for at, logs in enumerate(told) if logs]
    if not kept:
        return None
    logs = np.array([float(np.mean(told[at])) for at in kept])
    runs, values = [runs[at] for at in kept], [values[at] for at in kept]
    steps = history.find_steps(logs)
    edges = [0, *(step.at for step in steps), len(runs)]
    changes = [
        Change(step, runs[step.at]["run_id"], step.at - edges[i], edges[i + 2] - step.at,
               _moved(keys, values[edges[i] : step.at], values[step.at : edges[i + 2]]))
        for i, step in enumerate(steps)
    ]  # fmt: skip
    last = history.last_stands_out(logs, edges[-2])
    return Course(runs[0]["command"], runs[0]["target"], runs, np.exp(logs), changes, last)


def _medians(document: Document) -> dict[Key, float]:
    """The rate of each measurement, the median of its repeats."""
    side = Side.of([document])
    return {key: float(np.median(list(by.values()))) for key, by in side.values.items() if key.measure in RATES}


def _moved(keys: Sequence[Key], before: Sequence[dict[Key, float]], after: Sequence[dict[Key, float]]) -> list[Moved]:
    found = []
    for key in keys:
        old = np.array([each[key] for each in before if key in each])
        new = np.array([each[key] for each in after if key in each])
        if len(old) and len(new):
            found.append(Moved(key, ratios.unpaired(new, old, MARGINS[key.measure])))
    far = [moved for moved in found if moved.ratio.p_different <= history.LEVEL]
    return sorted(far, key=lambda moved: -abs(math.log(moved.ratio.value)))[:LISTED]


def as_document(course: Course) -> dict[str, Any]:
    """The course as JSON values."""
    return {
        "command": course.command,
        "target": dict(course.target),
        "runs": [
            {"run_id": run["run_id"], "started_at": run["started_at"], "index": float(index)}
            for run, index in zip(course.runs, course.index, strict=True)
        ],
        "changes": [
            {
                "run_id": change.run_id,
                "ratio": change.step.ratio,
                "p": change.step.p,
                "runs_before": change.before,
                "runs_after": change.after,
                "moved": [
                    {**moved.key.fields(), "measure": moved.key.measure, "ratio": moved.ratio.value,
                     "ci95": [moved.ratio.low, moved.ratio.high if math.isfinite(moved.ratio.high) else None]}
                    for moved in change.moved
                ],
            }
            for change in course.changes
        ],
        "last_run_ratio": course.last,
    }  # fmt: skip
