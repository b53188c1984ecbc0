"""Why targets differ: the first step of the ladder at which they part (`naslab compare --why`).

Each step of the ladder adds one resource to what the steps before used, so that the first step where two targets are
not alike names the resource in which they differ; what comes after follows from it. With at least four runs on either
side a step is judged by the statistics between runs (`analysis.ratios`). With fewer there are only the intervals
within a run, which say nothing about other days: a step that parts by them is an indication, and is called one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from msgspec.structs import replace

from naslab.analysis import ratios
from naslab.analysis.ratios import LATENCY_MARGIN, LEAST_REPEATS, RATE_MARGIN
from naslab.comparison import stations
from naslab.comparison.names import short
from naslab.comparison.stations import Part
from naslab.errors import UsageError
from naslab.explain import trust
from naslab.explain.steps import STEP_NAMES
from naslab.results.describe import typed
from naslab.results.measurements import Document
from naslab.results.parts.ladder import LadderFigure, LadderStep
from naslab.units import count_text, duration_text, rate_text, size_label

Judgement = Literal["agree", "part", "open"]
_LEFT_OUT = ("client_cache", "again", "rest")
"""Steps that ask about the client, or repeat earlier ones: no resource of the target is added there."""
_CURVES = {
    "depth": "large reads at the best queue depth",
    "small_depth": "small reads at the best queue depth",
}
"""Steps whose highest rate is what they say: where they level off."""
WITHIN = 2
"""So many margins by intervals within runs, which know nothing of what changes from run to run: of 12 pairs of runs of
one simulated server 2 parted somewhere at one margin, none at two (docs/concepts/comparison.md)."""
_TIME = ": time of one"
_DEPTH = re.compile(r", depth (\d+)")
_SET = re.compile(r", set of [^,]+")


@dataclass(frozen=True)
class Compared:
    """One figure of a step on both sides. one, other: means of the runs. low, high: 95 % interval of other / one,
    within the runs where `between` is False. unit: bytes_per_s, iops, ns, ..."""

    what: str
    unit: str
    one: float
    other: float
    low: float
    high: float
    between: bool
    judgement: Judgement

    @property
    def ratio(self) -> float:
        """The second side over the first."""
        return self.other / self.one

    def amounts(self) -> tuple[str, str]:
        """Both values with their unit."""
        return _amount(self.one, self.unit), _amount(self.other, self.unit)


@dataclass(frozen=True)
class Step:
    """A step that both sides climbed. figures: those that both have; at least one."""

    name: str
    figures: Sequence[Compared]

    @property
    def judgement(self) -> Judgement:
        """part: one of its figures does; agree: all do."""
        found = {figure.judgement for figure in self.figures}
        return "part" if "part" in found else "open" if "open" in found else "agree"

    @property
    def telling(self) -> Compared:
        """The figure that says most: of those that part the furthest, else the first."""
        parted = [figure for figure in self.figures if figure.judgement == "part"]
        return max(parted, key=lambda each: abs(math.log(each.ratio))) if parted else self.figures[0]


@dataclass(frozen=True)
class Why:
    """All steps that both sides have, in the ladder's order. runs: of either side. parts: of the fitted models."""

    steps: Sequence[Step]
    runs: tuple[int, int]
    parts: Sequence[Part] = ()
    doubts: Sequence[str] = ()
    """How far a side is to be trusted, in the words of `explain.trust`, where something speaks against it."""

    @property
    def differing(self) -> list[Part]:
        """Parts of the server that differ by more than the intervals within runs."""
        return [part for part in self.parts if part.differs(WITHIN * RATE_MARGIN)]

    @property
    def parting(self) -> Step | None:
        """The first step at which they part."""
        return next((step for step in self.steps if step.judgement == "part"), None)


def why(one: Sequence[Document], other: Sequence[Document], names: tuple[str, str]) -> Why:
    """The second side against the first. Raises UsageError where a side has no run with a ladder."""
    sides = [[found for document in side if (found := _ladder(document))] for side in (one, other)]
    for side, documents, name in zip(sides, (one, other), names, strict=True):
        if not side:
            ran = ", ".join(dict.fromkeys(str(document.get("command")) for document in documents))
            raise UsageError(
                f"--why: {name} ({ran}) has no ladder to compare; measure both targets with: naslab run TARGET"
            )
    steps = []
    for step in _order(sides):
        figures = _compare([[run[step] for run in side if step in run] for side in sides])
        if figures:
            steps.append(Step(step, figures))
    fitted = [[run for run in side if _ladder(run)] for side in (one, other)]
    doubts = [
        told
        for documents, name in zip((one, other), names, strict=True)
        if (told := trust.named(_worst(documents), short(name)))
    ]
    return Why(steps, (len(sides[0]), len(sides[1])), stations.compared(fitted[0], fitted[1]), doubts)


def _worst(documents: Sequence[Document]) -> list[trust.Doubt]:
    """The doubts of the run of a side that is trusted least."""
    return min((trust.doubts(document) for document in documents if _ladder(document)), key=trust.most, default=[])


Figures = dict[str, LadderFigure]
"""Of one step of one run: a figure by what it is, alike on all targets."""


def _ladder(document: Document) -> dict[str, Figures]:
    """The figures of each step; empty for a run without a ladder."""
    steps = [typed(step, LadderStep) for step in (document.get("ladder") or {}).get("steps") or []]
    return {step.name: found for step in steps if (found := _figures(step))}


def _order(sides: Sequence[Sequence[Mapping[str, Figures]]]) -> Iterator[str]:
    """Steps that both sides have, in the ladder's order."""
    both = [{name for run in side for name in run} for side in sides]
    known = dict.fromkeys([*STEP_NAMES, *(name for side in sides for run in side for name in run)])
    return (name for name in known if name in both[0] and name in both[1] and name not in _LEFT_OUT)


def _figures(step: LadderStep) -> Figures:
    """What a step says, under names that do not tell how far this run had to go."""
    name, stored = step.name, step.figures
    usable = {label: figure for label, figure in stored.items() if figure.value > 0}
    if name in _CURVES:
        rates = [figure for figure in usable.values() if figure.unit != "ns"]
        return {_CURVES[name]: max(rates, key=lambda figure: figure.value)} if rates else {}
    found: Figures = {}
    for label, figure in usable.items():
        timed = label.endswith(_TIME)
        bare = label.removesuffix(_TIME)
        if timed != (f"{bare}{_TIME}" in usable):
            continue  # one at a time: the time says it, the rate is the same once more
        what = _plain(bare, name)
        best = _with_interval(figure, usable.get(bare)) if timed else figure
        if what not in found or best.value > found[what].value:
            found[what] = best
    return found


def _plain(label: str, step: str) -> str:
    """`random read 64 KiB, depth 32` and `..., depth 64` are one figure: at the best queue depth. So are working
    sets beyond any server cache; the sweep over working sets keeps its sizes."""
    text = _DEPTH.sub(lambda match: ", one at a time" if match[1] == "1" else ", at the best queue depth", label)
    if step == "set":
        return text.replace(", set of ", ", working set ")
    return _SET.sub(", beyond the server cache" if step == "beyond" else "", text)


def _with_interval(time: LadderFigure, rate: LadderFigure | None) -> LadderFigure:
    """A time without an interval takes that of the rate, whose inverse it is."""
    low, high = time.ci95
    if rate is None or high > low:
        return time
    product = time.value * rate.value
    return replace(time, ci95=[product / rate.ci95[1], product / max(rate.ci95[0], 1e-9)])


def _compare(sides: Sequence[Sequence[Figures]]) -> list[Compared]:
    """The figures that all runs of both sides have."""
    runs = [figures for side in sides for figures in side]
    shared = [what for what in runs[0] if all(what in figures for figures in runs)] if all(sides) else []
    values = [[np.array([run[what].value for run in side]) for side in sides] for what in shared]
    between = min(map(len, sides), default=0) >= LEAST_REPEATS
    if between:
        margins = [_margin(runs[0][what].unit) for what in shared]
        found = [ratios.unpaired(other, one, margin) for (one, other), margin in zip(values, margins, strict=True)]
        words: dict[str | None, Judgement] = {"equivalent": "agree", "better": "part", "worse": "part"}
        judged = [(each.ratio.low, each.ratio.high, words.get(each.verdict, "open"))
                  for each in ratios.judge(found, higher=True)]  # fmt: skip
    else:
        judged = [_within(what, sides) for what in shared]
    return [
        Compared(what, runs[0][what].unit, float(one.mean()), float(other.mean()), low, high, between, verdict)
        for what, (one, other), (low, high, verdict) in zip(shared, values, judged, strict=True)
    ]


def _within(what: str, sides: Sequence[Sequence[Figures]]) -> tuple[float, float, Judgement]:
    """Low and high of the ratio by the intervals within the runs, the widest of each side, and what they say."""
    ends = [(min(run[what].ci95[0] for run in side), max(run[what].ci95[1] for run in side)) for side in sides]
    (one_low, one_high), (other_low, other_high) = ends
    low, high = other_low / one_high, other_high / one_low if one_low > 0 else math.inf
    margin = WITHIN * _margin(sides[0][0][what].unit)
    if low > 1 + margin or high < 1 / (1 + margin):
        return low, high, "part"
    return low, high, "agree" if low >= 1 / (1 + margin) and high <= 1 + margin else "open"


def _margin(unit: str) -> float:
    return LATENCY_MARGIN if unit == "ns" else RATE_MARGIN


def sentences(found: Why, names: tuple[str, str]) -> list[str]:
    """Where they part, what agrees before, what is open, and what the answer is worth."""
    if not found.steps:
        return ["The two runs have no step of the ladder in common: repeat both with a larger --budget."]
    step = found.parting
    before = found.steps[: found.steps.index(step)] if step else found.steps
    told = [_parting(step, names) if step else "They differ at no step of the ladder."]
    if found.differing:
        told.append(stations.sentence(found.differing, _amount))
    agreeing = [each for each in before if each.judgement == "agree"]
    if before and len(agreeing) == len(before):
        told.append(f"All earlier steps agree: {_list(before)}." if step else f"All steps agree: {_list(before)}.")
    elif agreeing:
        told.append(f"These agree: {_list(agreeing)}.")
    if unclear := [each for each in before if each.judgement == "open"]:
        told.append(f"Undecided, because their intervals are too wide: {_list(unclear)}.")
    if not _is_certain(found):
        told.append(
            f"This is an indication, from intervals within {'a run' if found.runs == (1, 1) else 'runs'}; for "
            "certainty measure "
            f"{LEAST_REPEATS} runs of each target and give A1,A2,A3,A4 B1,B2,B3,B4."
        )
    return [*told, *found.doubts]


def _is_certain(found: Why) -> bool:
    return all(figure.between for step in found.steps for figure in step.figures)


def _parting(step: Step, names: tuple[str, str]) -> str:
    figure = step.telling
    one, other = figure.amounts()
    what = figure.what if step.name in _CURVES else f"{_title(step.name)}: {figure.what}"
    said = f"{what}: {one} on {short(names[0])}, {other} on {short(names[1])}"
    return f"They first differ at {said} ({figure.ratio:.2f} times, 95 % {figure.low:.2f} to {figure.high:.2f})."


def _title(step: str) -> str:
    return STEP_NAMES.get(step, step.replace("_", " "))


def _list(steps: Sequence[Step]) -> str:
    told = []
    for step in steps:
        one, other = step.telling.amounts()
        told.append(f"{_title(step.name)} ({one} and {other})")
    return ", ".join(told)


def _amount(value: float, unit: str) -> str:
    if unit == "bytes_per_s":
        return rate_text(value)
    if unit == "ns":
        return duration_text(int(value))
    return size_label(int(value)) if unit == "bytes" else f"{count_text(value)}{'/s' if unit == 'iops' else ''}"


def document(found: Why, names: tuple[str, str]) -> dict[str, Any]:
    """As JSON values (docs/concepts/comparison.md)."""
    step = found.parting
    return {
        "step": step.name if step else None,
        "certain": _is_certain(found) and bool(found.steps),
        "runs": list(found.runs),
        "says": sentences(found, names),
        "steps": [
            {"name": each.name, "judgement": each.judgement, "figures": [_figure(figure) for figure in each.figures]}
            for each in found.steps
        ],
        "parts": [stations.document(part, WITHIN * RATE_MARGIN) for part in found.parts],
    }


def _figure(figure: Compared) -> dict[str, Any]:
    return {
        "what": figure.what, "unit": figure.unit, "baseline": figure.one, "compared": figure.other,
        "ratio": figure.ratio, "ci95": [figure.low, figure.high if math.isfinite(figure.high) else None],
        "between_runs": figure.between, "judgement": figure.judgement,
    }  # fmt: skip
