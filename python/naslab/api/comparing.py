"""`naslab.compare`: whether two runs, or two groups of repeats, differ."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from dataclasses import dataclass

from naslab.api.html import comparison_html
from naslab.api.listing import load
from naslab.comparison import judgement
from naslab.comparison import why as whys
from naslab.errors import UsageError
from naslab.results.run import Run


@dataclass(frozen=True)
class Comparison(judgement.Comparison):
    """A comparison that shows itself in notebooks."""

    def _repr_html_(self) -> str:
        return comparison_html(self)


def compare(
    baseline: Run | str | Sequence[Run | str],
    other: Run | str | Sequence[Run | str],
    *,
    margin: float = 5.0,
    why: bool = False,
    names: tuple[str, str] | None = None,
    store: str | os.PathLike[str] | None = None,
) -> Comparison:
    """The second side against the first, as `naslab compare` judges it.

    baseline, other: a run, a name that `naslab.load` takes, or several of them, which are repeats of one target.
    margin: percent of a rate below which a difference does not matter, 0.1 to 100. why: also name the step of the
    ladder at which two `naslab run` part. names: what to call the sides. store: for runs given by name.

    Returns a `Comparison`: its `verdict` is better, worse, equivalent or undecided, `sentence` says it in words, and
    `rows` holds each measurement that both sides share. Raises UsageError for a run on both sides or a margin out of
    range, StoreError.

        found = naslab.compare(before, after)
        found.verdict, found.ratio, found.interval
    """
    from naslab.cli.compare import labels_of

    if not 0.1 <= margin <= 100:
        raise UsageError(f"margin={margin:g}: give a percentage from 0.1 to 100")
    sides = [_runs(side, store) for side in (baseline, other)]
    ids = [run.run_id for side in sides for run in side]
    if twice := next((each for each in ids if ids.count(each) > 1), None):
        raise UsageError(f"compare: run {twice} is named twice; a run cannot be compared with itself")
    labels = names or (str((found := labels_of(sides))[0]), str(found[1]))
    one, two = ([run.document for run in side] for side in sides)
    judged = judgement.compare(one, two, (labels[0], labels[1]), margin / 100)
    mine = Comparison(**{field.name: getattr(judged, field.name) for field in dataclasses.fields(judged)})
    return dataclasses.replace(mine, why=whys.why(one, two, mine.names)) if why else mine


def _runs(side: Run | str | Sequence[Run | str], store: str | os.PathLike[str] | None) -> list[Run]:
    """Raises UsageError for no run."""
    several: Sequence[Run | str] = [side] if isinstance(side, Run | str) else side
    if not several:
        raise UsageError("compare: give at least one run on each side")
    return [each if isinstance(each, Run) else load(each, store) for each in several]
