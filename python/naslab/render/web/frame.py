"""The frame of every page of the library: head, navigation, the blocks a page's script unpacks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from naslab import __version__
from naslab.render.report.page import Parts, chart_section, pack_charts
from naslab.render.report.payload import pack, pack_json
from naslab.render.report.views import Chart
from naslab.render.web.assets import assets
from naslab.render.web.html import Html, join, tag
from naslab.render.web.links import Links

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'self'"
)
"""What a page may load: its own files only, no script text in the page, no evaluated strings."""
SECTIONS = (("", "Runs"), ("overlay", "Overlay"), ("rank", "Ranking"), ("compare", "Compare"))


@dataclass(frozen=True)
class Page:
    """title: plain text. body: markup. parts: of the report, whose charts the page holds; scripts: assets by plain
    name. here: the section it belongs to."""

    title: str
    body: Html
    parts: Parts | None = None
    scripts: Sequence[str] = ()
    here: str | None = None


def render(page: Page, links: Links) -> str:
    """The page as HTML text."""
    meta = [
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=POLICY),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("meta", name="generator", content=f"naslab {__version__}"),
        tag("title", f"{page.title} - naslab"),
        tag("link", rel="icon", href="data:,"),
        *(
            tag("link", rel="stylesheet", href=links.asset(assets()[name].name))
            for name in ("style.css", "library.css")
        ),
    ]
    scripts = [tag("script", src=links.asset(assets()[name].name), defer=True) for name in _scripts(page)]
    body = [
        tag("a", "Skip to the results", class_="skip", href="#content"),
        _bar(page, links),
        tag("main", page.body, id="content"),
        tag("footer", f"naslab {__version__}. Rates in MB/s (10", tag("sup", "6"), " bytes), sizes in powers of 1024. "
            "Charts: Plotly.js, MIT licence. No external content is loaded."),
        *_blocks(page, links),
    ]  # fmt: skip
    return f'<!doctype html>\n<html lang="en">\n{tag("head", *meta, *scripts)}\n{tag("body", *body)}\n</html>\n'


def _scripts(page: Page) -> list[str]:
    return [*(["app.js"] if page.parts else []), *page.scripts]


def _bar(page: Page, links: Links) -> Html:
    items = [
        tag("li", tag("a", words, href=links.page(name), aria_current="page" if page.here == name else None))
        for name, words in SECTIONS
    ]
    return tag(
        "nav", tag("span", "naslab library", class_="name"), tag("ul", *items), class_="bar", aria_label="Library"
    )


def _blocks(page: Page, links: Links) -> list[Html]:
    """The data of the charts, as the report's own page has them; Plotly by address instead of inside."""
    if page.parts is None:
        return []
    held = {"charts": page.parts.charts, "runs": page.parts.runs, "series-about": page.parts.about,
            "series": page.parts.series}  # fmt: skip
    blocks = [tag("script", Html(data), type="text/plain", id=f"naslab-{name}") for name, data in held.items()]
    plotly = tag("script", type="text/plain", id="naslab-plotly", data_src=links.asset(assets()["plotly.js"].name))
    return [*blocks, plotly]


def of_charts(title: str, drawn: Sequence[Chart]) -> Parts:
    """Parts of a page that has charts and no runs of its own; its body is left to the page."""
    about = {"factor": 1, "rows": 0, "cells": [], "columns": []}
    return Parts(title, "", pack_charts(drawn), pack_json({"cells": []}), pack_json(about), pack(b""))


def sections(drawn: Sequence[Chart]) -> Html:
    """The places of the charts, and the empty table the report's script wants."""
    made = join(Html(chart_section(chart)) for chart in drawn)
    empty = tag("div", tag("table", id="cells"), tag("div", id="pager"), hidden=True)
    return join([made, empty])
