"""One run's permanent page: the report's, in the library's frame, with what can be done next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from naslab.render.report.page import parts
from naslab.render.web.frame import Page
from naslab.render.web.html import Html, join, tag
from naslab.render.web.links import Links

if TYPE_CHECKING:
    from naslab.results.run import Run

BUDGET_BYTES = 4_000_000
"""Of packed data in a page; longer interval series are summed to coarser ones, the JSON download has all."""
DOWNLOADS = ("json", "csv", "xlsx")


def run_page(run: Run, links: Links) -> Page:
    """The page of a run that is stored."""
    found = parts([run], budget_bytes=BUDGET_BYTES)
    return Page(found.title, join([_next(run, links), Html(found.body)]), found)


def _next(run: Run, links: Links) -> Html:
    """Downloads whole, and where else this run can be shown."""
    here = links.run(run.run_id).removesuffix("index.html")
    items = [tag("a", f"Download {kind.upper()}", href=f"{here}run.{kind}", download=True) for kind in DOWNLOADS]
    if not links.files:
        items.append(tag("a", "Overlay with others", href=links.page("overlay", run=run.run_id)))
        items.append(tag("a", "Compare with another", href=links.page("compare", run=run.run_id)))
        if run.document["status"] == "running":
            items.insert(0, tag("a", "Watch it being measured", href=links.live(run.run_id)))
    return tag("p", join(items, " · "), class_="next")
