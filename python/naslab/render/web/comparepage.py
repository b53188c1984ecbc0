"""Stored runs against a baseline: `naslab compare`'s verdict and pictures, and the runs over each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from naslab.comparison.judgement import compare
from naslab.errors import UsageError
from naslab.render.report import compare as view
from naslab.render.report.model import run_label
from naslab.render.report.views import shown
from naslab.render.web.frame import Page, of_charts, sections
from naslab.render.web.html import Html, checkbox, join, tag
from naslab.render.web.links import Links
from naslab.render.web.listing import Query
from naslab.render.web.overlay import charts as overlaid
from naslab.render.web.overlay import loaded, stored
from naslab.results.store.library import Library, Wanted

if TYPE_CHECKING:
    from naslab.results.run import Run

MOST_SIDES = 6
MOST_RUNS = 40


def compare_page(library: Library, query: Query, links: Links) -> Page:
    """Each `run` a side (several of one target with commas), `baseline` or the oldest the first.

    Raises UsageError, UnknownRunError.
    """
    asked = list(dict.fromkeys(query.get("run", ())))
    sides = [[loaded(library, stored(library, name)) for name in names.split(",") if name] for names in asked]
    sides = [side for side in sides if side]
    _check(sides)
    if len(sides) < 2:
        return Page("Compare", join([tag("h1", "Compare"), _choose(library, sides, links)]), scripts=["library.js"],
                    here="compare")  # fmt: skip
    baseline = (query.get("baseline") or [""])[0]
    order = {side[0].run_id: side for side in sorted(sides, key=_start)}
    first = stored(library, baseline) if baseline else next(iter(order))
    if first not in order:
        raise UsageError(f"baseline={baseline[:80]}: it must be one of the runs compared")
    return compared([order.pop(first), *order.values()], links)


def _check(sides: Sequence[Sequence[Run]]) -> None:
    ids = [run.run_id for side in sides for run in side]
    if len(sides) > MOST_SIDES or len(ids) > MOST_RUNS:
        raise UsageError(f"a comparison has at most {MOST_SIDES} sides and {MOST_RUNS} runs; choose fewer")
    if len(set(ids)) < len(ids):
        raise UsageError("a run is named twice; a run cannot be compared with itself")


def _start(side: Sequence[Run]) -> int:
    return int(side[0].document.get("start_wall_ns") or 0)


def compared(sides: Sequence[Sequence[Run]], links: Links) -> Page:
    """The page of these sides, the baseline first."""
    names = labels(sides)
    found = [
        compare([run.document for run in sides[0]], [run.document for run in side], (names[0], name))
        for side, name in zip(sides[1:], names[1:], strict=True)
    ]
    drawn = [*view.charts(found), *overlaid(shown([side[0] for side in sides]), ["rate"])]
    body = join(
        [
            tag("h1", f"{', '.join(names[1:])} against {names[0]}"),
            _sides(sides, names, links),
            Html(view.verdicts(found)),
            sections(drawn),
            Html(view.tables(found)),
        ]
    )
    return Page("Compare", body, of_charts("Compare", drawn), here="compare")


def labels(sides: Sequence[Sequence[Run]]) -> list[str]:
    """A short name of each side, distinct: its first run's."""
    firsts = [side[0] for side in sides]
    return [run_label(run, firsts) for run in firsts]


def _sides(sides: Sequence[Sequence[Run]], names: Sequence[str], links: Links) -> Html:
    items = []
    asked = [",".join(run.run_id for run in side) for side in sides]
    for at, (side, name) in enumerate(zip(sides, names, strict=True)):
        runs = join((tag("a", run.run_id, href=links.run(run.run_id)) for run in side), ", ")
        change = None
        if at and not links.files:
            other = links.page("compare", run=asked, baseline=side[0].run_id)
            change = tag("a", "make it the baseline", href=other)
        items.append(tag("li", name, ": ", runs, " (baseline)" if not at else " ", change))
    return tag("ul", *items, class_="runs")


def _choose(library: Library, sides: Sequence[Sequence[Run]], links: Links) -> Html:
    """What to do where fewer than two runs are chosen: devices to choose from."""
    rows, _ = library.page(Wanted(), 0, 50)
    chosen = {run.run_id for side in sides for run in side}
    boxes = [
        checkbox(
            f"{row.device}, {row.other_name or row.command}, {row.started_at[:16].replace('T', ' ')}",
            "run",
            row.run_id,
            row.run_id in chosen,
        )
        for row in rows
    ]
    extra = [tag("input", type="hidden", name="run", value=one) for one in chosen - {row.run_id for row in rows}]
    lead = (
        "Choose two or more runs; the oldest is the baseline at first. The newest are listed here, all of them in "
        "the list of runs."
    )
    return join(
        [
            tag("p", lead, class_="lead"),
            tag("form", *extra, tag("fieldset", tag("legend", "Runs"), tag("div", *boxes, class_="boxes tall")),
                tag("button", "Compare", type="submit"), method="get", action=links.page("compare"), class_="choose"),
        ]
    )  # fmt: skip
