"""The list of runs: searched, narrowed, paged; and what is being measured now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

from naslab.errors import UsageError
from naslab.render.report.labels import count_label, op_label
from naslab.render.web.frame import Page
from naslab.render.web.html import Html, join, select, table, tag
from naslab.render.web.links import Links
from naslab.render.web.live import under_way
from naslab.results.store.library import Library, Listed, Wanted
from naslab.units import rate_text

PAGE_RUNS = 50
MOST_WORDS = 400
"""Characters of a search."""
_NAMES = {"device": "Device", "command": "Command", "protocol": "Protocol", "origin": "Origin", "test": "Test"}
_STATUS = {"complete": "complete", "partial": "partial", "failed": "failed", "running": "running"}
Query = Mapping[str, Sequence[str]]


def wanted_of(query: Query) -> Wanted:
    """What a query asks for; names it does not know are ignored."""
    known = {one.name for one in fields(Wanted)}
    return Wanted(**{name: values[0][:MOST_WORDS] for name, values in query.items() if name in known and values})


def number_of(query: Query, name: str, default: int, most: int) -> int:
    """A number from 1 to `most`. Raises UsageError naming it."""
    given = (query.get(name) or [str(default)])[0]
    if not given.isascii() or not given.isdigit() or not 1 <= int(given[:9]) <= most:
        raise UsageError(f"{name}={given[:40]}: give a whole number from 1 to {most}")
    return int(given)


def listing(library: Library, query: Query, links: Links) -> Page:
    """The page of a query: `page` counts from 1, 50 runs each. Raises UsageError."""
    wanted = wanted_of(query)
    number = number_of(query, "page", 1, 1_000_000)
    rows, total = library.page(wanted, (number - 1) * PAGE_RUNS, PAGE_RUNS)
    pages = max(1, -(-total // PAGE_RUNS))
    live = library.unlisted() if number == 1 else []
    body = join(
        [
            tag("h1", "Runs"),
            search_form(wanted, library.facets(), links),
            _unfinished(library, live, links),
            tag("h2", _found(wanted, total), id="found"),
            chooser(rows, links) if rows else tag("p", _nothing(wanted), class_="lead"),
            _pager(wanted, number, pages, links),
        ]
    )
    return Page("Runs", body, scripts=["library.js"], here="")


def _found(wanted: Wanted, total: int) -> str:
    return count_label(total, "run") + (" found" if wanted != Wanted() else " in this library")


def _nothing(wanted: Wanted) -> str:
    if wanted == Wanted():
        return "No run is stored here yet. Measure one: naslab run TARGET"
    return "No run matches. Remove words or filters, or show all."


def search_form(wanted: Wanted, facets: Mapping[str, Sequence[tuple[str, int]]], links: Links) -> Html:
    """The search and the filters; a filter with nothing to choose from is left out."""
    choices = []
    for name, label in _NAMES.items():
        found = facets.get(name, [])
        chosen = getattr(wanted, name)
        if len(found) > 1 or chosen:
            named = [(value, f"{_value_text(name, value)} ({count:,})") for value, count in found if value]
            if chosen and chosen not in dict(named):
                named.insert(0, (chosen, chosen))
            choices.append(select(label, name, [("", "all"), *named], chosen))
    words = tag(
        "label",
        tag("span", "Search"),
        tag("input", type="search", name="text", value=wanted.text, placeholder="label, target, id, test ...",
            maxlength=MOST_WORDS),
        class_="choice search",
    )  # fmt: skip
    buttons = [tag("button", "Show", type="submit"), tag("a", "Show all", href=links.page(), class_="plainlink")]
    return tag("form", words, *choices, *buttons, method="get", action=links.page(), class_="controls filters",
               role="search", aria_label="Runs", data_filters=True)  # fmt: skip


def _value_text(name: str, value: str) -> str:
    return op_label(value) if name == "test" else value


def _unfinished(library: Library, live: Sequence[Listed], links: Links) -> Html | None:
    """Runs being measured, each with the cell under way, and those whose process ended before they did."""
    if not live:
        return None
    items = []
    for run in live:
        cells = f"{run.command}, {count_label(run.cells, 'cell')} so far"
        if run.status == "running":
            now = under_way(library.store, run.run_id)
            where, words = links.live(run.run_id), "being measured: watch it"
            cells += f"; now {now.words}, {now.facts}" if now.facts else ""
        else:
            where, words = links.run(run.run_id), "its process ended before the run was complete"
        items.append(tag("li", tag("a", run.device, href=where), f", {cells}; {words}"))
    return tag("section", tag("h2", "Not finished"), tag("ul", *items), class_="now", aria_label="Runs not finished")


def chooser(rows: Sequence[Listed], links: Links, marks: Mapping[str, Mapping[str, str]] | None = None) -> Html:
    """The table of runs in a form: those ticked go to the overlay or the comparison. marks: attributes of each row."""
    heads = ["Choose", "Run", "Started", "Command", "Protocol", "Cells", "Highest", "Status"]
    made = table("Runs", heads, [_row(run, links) for run in rows], numeric=(5, 6), id="runs",
                 marks=[marks[run.run_id] for run in rows] if marks else None,
                 class_="plain" if links.files else None)  # fmt: skip
    buttons = [
        tag("button", words, type="submit", formaction=links.page(name))
        for name, words in (("overlay", "Overlay"), ("compare", "Compare, oldest as baseline"))
    ]
    group = tag("div", *buttons, class_="controls", role="group", aria_label="With the runs chosen")
    if links.files:
        return made
    return tag("form", made, group, method="get", action=links.page("overlay"))


def _row(run: Listed, links: Links) -> list[object]:
    box = tag("input", type="checkbox", name="run", value=run.run_id, aria_label=f"Choose {run.device}, {run.run_id}")
    label = tag("span", run.other_name or run.run_id, class_="where")
    name = join([tag("a", run.device, href=links.run(run.run_id)), label])
    status = tag("span", run.status, class_=f"status {_STATUS.get(run.status, 'unknown')}")
    origin = "" if run.origin == "own" else tag("span", run.origin, class_="where")
    best = rate_text(run.best_bytes_per_s) if run.best_bytes_per_s else ""
    day = tag("time", f"{run.started_at[:10]} {run.started_at[11:16]}", datetime=run.started_at)
    return ["" if links.files else box, name, day, join([run.command, origin]), run.protocol, f"{run.cells:,}", best,
            status]  # fmt: skip


@dataclass(frozen=True)
class _Step:
    words: str
    number: int


def _pager(wanted: Wanted, number: int, pages: int, links: Links) -> Html | None:
    if pages < 2:
        return None
    asked = {one.name: getattr(wanted, one.name) for one in fields(Wanted)}
    steps = [_Step("First", 1), _Step("Previous", number - 1), _Step("Next", number + 1), _Step("Last", pages)]
    items = []
    for step in steps:
        if 1 <= step.number <= pages and step.number != number:
            items.append(tag("a", step.words, href=links.page(**asked, page=str(step.number))))
        else:
            items.append(tag("span", step.words, aria_disabled="true"))
    return tag("nav", *items, tag("span", f"page {number:,} of {pages:,}"), class_="pager", aria_label="Pages of runs")
