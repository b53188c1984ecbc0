"""Where several runs of one page differ: the first is the baseline, each other is set against it, spot by spot."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from naslab.render.report import experiment_figures, figures, theme
from naslab.render.report.axes import number, numbers
from naslab.render.report.figures import Figure, Trace
from naslab.render.report.model import Case, place
from naslab.results.parts.experiment import ExperimentSeries

if TYPE_CHECKING:
    from naslab.render.report.views import Chart, Shown

Grid = list[list[float | None]]


def fill(flat: Chart, relief: Chart, runs: Sequence[Shown]) -> None:
    """Adds a heat map and a surface for each test that the first run and another did on at least 2 x 2 same spots."""
    for other in runs[1:]:
        for one, case in _same_tests(runs[0].cases, other.cases):
            files, records, ratios = _ratios(one, case)
            path, words = [other.name, case.label], _words(case, one, runs[0].name, other.name)
            sides = [_series(run.name, each, files, records) for run, each in ((other, case), (runs[0], one))]
            flat.add(path, experiment_figures.difference(*sides), words)
            relief.add(path, ratio_surface(files, records, ratios, _logs(ratios)), words)


def _same_tests(one: Sequence[Case], other: Sequence[Case]) -> Iterator[tuple[Case, Case]]:
    found = {case.label: case for case in one}
    for case in other:
        baseline = found.get(case.label)
        if baseline and baseline.unit == case.unit and all(len(sizes) > 1 for sizes in _common(baseline, case)):
            yield baseline, case


def _common(one: Case, other: Case) -> tuple[list[int], list[int]]:
    """File and record sizes of the spots that both have."""
    both = one.spots.keys() & other.spots.keys()
    return sorted({file for file, _ in both}), sorted({record for _, record in both})


def _ratios(one: Case, other: Case) -> tuple[list[int], list[int], Grid]:
    """(file sizes, record sizes, other over one); rows = record sizes; None where either has no value."""
    files, records = _common(one, other)
    theirs, ours = one.medians(), other.medians()

    def ratio(at: tuple[int, int]) -> float | None:
        return number(ours[at] / theirs[at]) if ours.get(at) and theirs.get(at) else None

    return files, records, [[ratio((file, record)) for file in files] for record in records]


def _series(name: str, case: Case, files: list[int], records: list[int]) -> ExperimentSeries:
    medians = case.medians()
    rates: list[list[float | None]] = [[medians.get((file, record), 0.0) for record in records] for file in files]
    return ExperimentSeries(condition=name, files=files, records=records, rates=rates)


def _logs(ratios: Grid) -> Grid:
    return [[None if ratio is None else number(math.log2(ratio)) for ratio in row] for row in ratios]


def ratio_surface(files: Sequence[int], records: Sequence[int], ratios: Grid, shade: Grid) -> Figure:
    """3D surface of a ratio over record size and file size, from two viewpoints.

    ratios: rows = record sizes, None where there is none. shade: the colour of each spot, log2 of a ratio.
    """
    edge = math.log2(experiment_figures.MOST_RATIO)
    trace: Trace = {
        "type": "surface", "x": numbers(map(math.log2, files)), "y": numbers(map(math.log2, records)), "z": ratios,
        "surfacecolor": shade, "cmin": -edge, "cmax": edge, "colorscale": experiment_figures.DIVERGING,
        "showscale": False, "connectgaps": False,
        "contours": {
            name: {**figures.mesh(sizes), "color": theme.MUTED} for name, sizes in (("x", files), ("y", records))
        },
        "text": figures.spots(files, records), "hovertemplate": "<b>%{z:.3f}</b><br>%{text}<extra></extra>",
        "lighting": {"ambient": 0.75, "diffuse": 0.5, "specular": 0.05, "roughness": 0.9},
    }  # fmt: skip
    height = {"title": {"text": "Ratio"}, "gridcolor": theme.GRID, "color": theme.MUTED, "showbackground": False}
    return figures.relief(trace, files, records, height)


def _words(case: Case, one: Case, baseline: str, name: str) -> str:
    theirs, ours = one.medians(), case.medians()
    ratios = {at: ours[at] / theirs[at] for at in ours if ours[at] and theirs.get(at)}
    high, low = max(ratios, key=ratios.__getitem__), min(ratios, key=ratios.__getitem__)
    middle = statistics.median(ratios.values())
    return (
        f"{case.label}: at the median point {name} has {middle:.2f} of {baseline}; most {ratios[high]:.2f} "
        f"({place(high)}), least {ratios[low]:.2f} ({place(low)}). Equal at {_same(ratios)} of {len(ratios)} points "
        "(within 5 %). Medians only: `naslab compare` shows what exceeds chance."
    )


def _same(ratios: dict[tuple[int, int], float]) -> int:
    return sum(1 / 1.05 <= ratio <= 1.05 for ratio in ratios.values())
