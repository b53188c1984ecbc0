"""What an experiment had measured before it was ended: read from its result, so that it goes on where it was.

The result names the runs, which are in the store. A repeat that was not whole is finished first.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from naslab.analysis.quantities import ELSEWHERE, Sample
from naslab.errors import UnknownRunError, UsageError
from naslab.lab.experiment import Experiment
from naslab.lab.experiment_result import Measurements

Load = Callable[[str], Mapping[str, Any]]
"""The document of a run, by its id. Raises UnknownRunError."""
SAME = ("name", "scale", "seed")
"""What an experiment that goes on has as before."""
WHERE = ("condition", "test", "block", "place", "run_id")
"""Of a measurement: what a sample is made from."""


def read_state(path: Path, experiment: Experiment, seed: int, load: Load) -> Measurements | None:
    """What the result in this file holds; None where there is no file yet. Raises UsageError for another experiment's,
    for what is no result, and where a run is not in the store."""
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--state {path}: it cannot be read: {error}; name another file") from None
    if not text:
        return None
    try:
        found = json.loads(text)
        was = tuple(found[name] for name in SAME)
        measured = [[each[name] for name in WHERE] for each in found["measurements"]]
    except (ValueError, LookupError, TypeError):
        raise UsageError(f"--state {path}: no result of an experiment; name another file") from None
    now = (experiment.name, experiment.scale, seed)
    if was != now:
        told = "; ".join(
            f"{name} {one} there, {two} here" for name, one, two in zip(SAME, was, now, strict=True) if one != two
        )
        raise UsageError(f"--state {path}: it is of another experiment: {told}; name another file")
    try:
        samples = [
            Sample(condition, test, block, place, load(run_id))
            for condition, test, block, place, run_id in measured
            if place != ELSEWHERE  # these are given again
        ]
    except UnknownRunError as error:
        raise UsageError(f"--state {path}: {error}; give the --store that it was measured with") from None
    limits = {
        f"{one['condition']}/{one['name']}" if one["condition"] else one["name"]: float(one["measured"])
        for one in found["limits"] if one.get("measured") is not None
    }  # fmt: skip
    missing = {one["id"]: one["missing"] for one in found["conditions"] if one["missing"]}
    return Measurements(samples, limits, missing, [each for each in found["notes"] if "interrupted" not in each])
