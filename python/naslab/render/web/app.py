"""The application: addresses to pages. Everything a request may name is looked up in the store or in a fixed table."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from naslab.errors import NaslabError, StoreError, UnknownRunError
from naslab.exchange.export import export
from naslab.exchange.scrape import MEDIA_TYPE
from naslab.render.web.assets import by_full_name
from naslab.render.web.cache import Pages
from naslab.render.web.comparepage import compare_page
from naslab.render.web.frame import Page, render
from naslab.render.web.guard import Guard
from naslab.render.web.html import join, tag
from naslab.render.web.links import Links, folder_of
from naslab.render.web.listing import Query, listing
from naslab.render.web.live import Streams, live_page
from naslab.render.web.metrics import Metrics
from naslab.render.web.overlay import loaded, overlay_page, stored
from naslab.render.web.rankpage import rank_page
from naslab.render.web.runpage import DOWNLOADS, run_page
from naslab.results.store.library import Library

FOREVER = "private, max-age=31536000, immutable"
MEDIA_TYPES = {
    "json": "application/json", "csv": "text/csv; charset=utf-8",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
}  # fmt: skip
Make = Callable[[Library, Query, Links], Page]


def application(
    library: Library, names: Sequence[str] = ("localhost",), token: str | None = None, metrics: Metrics | None = None
) -> ASGIApp:
    """The library over HTTP, guarded. names: hosts it answers to. token: asked of every request where given.

    metrics: of the page /metrics, None for none; a redacted one is the only page, for the others have names.
    """
    served = _Served(library, metrics)
    routes = [
        Route("/", served.of(listing, 0)),
        Route("/overlay/", served.of(overlay_page, 1)),
        Route("/rank/", served.of(rank_page, 1)),
        Route("/compare/", served.of(compare_page, 1)),
        Route("/run/{run}/", served.run),
        Route("/run/{run}/run.{kind}", served.download),
        Route("/live/{run}/", served.live),
        Route("/events/{run}", served.events),
        Route("/static/{name}", served.asset),
    ]
    if metrics is not None:
        page = Route("/metrics", served.metrics)
        routes = [page] if metrics.redacted else [page, *routes]
    handlers = {NaslabError: served.failed, HTTPException: served.failed, Exception: served.broken}
    return Guard(Starlette(routes=routes, exception_handlers=handlers), tuple(names), token)


def query_of(request: Request) -> dict[str, list[str]]:
    """The query of an address: every name with all its values."""
    found: dict[str, list[str]] = {}
    for name, value in request.query_params.multi_items():
        found.setdefault(name, []).append(value)
    return found


class _Served:
    """The handlers. Those that read the store run in threads; one connection serves them one after the other."""

    def __init__(self, library: Library, metrics: Metrics | None = None) -> None:
        self.library = library
        self.scraped = metrics
        self.pages = Pages(library)
        self.streams = Streams()

    def of(self, make: Make, depth: int) -> Callable[[Request], Response]:
        """The handler of a page that a query describes."""

        def handler(request: Request) -> Response:
            links = Links(depth)

            def text() -> str:
                return render(make(self.library, query_of(request), links), links)

            # The list is quick, and tells which runs still live: that is no change of the store.
            return HTMLResponse(text() if make is listing else self.pages.get((make, request.url.query), text))

        return handler

    def run(self, request: Request) -> Response:
        run_id, links = self._id(request), Links(2)
        if run_id != request.path_params["run"]:
            return RedirectResponse(f"../{quote(run_id, safe='')}/", 307)

        def text() -> str:
            return render(run_page(loaded(self.library, run_id), links), links)

        return HTMLResponse(self.pages.get(("run", run_id), text) if self._ended(run_id) else text())

    def _ended(self, run_id: str) -> bool:
        """Whether the run is whole: one being measured changes by what the store does not tell, its process's end."""
        rows = self.library.store.rows("SELECT status != 'running' FROM runs WHERE run_id = ?", (run_id,))
        return rows in ([(1,)], [])

    def live(self, request: Request) -> Response:
        links = Links(2)
        return HTMLResponse(render(live_page(self.library, self._id(request), links), links))

    def download(self, request: Request) -> Response:
        kind = request.path_params["kind"]
        if kind not in DOWNLOADS:
            raise HTTPException(404, f"runs are downloaded as {', '.join(DOWNLOADS)}")
        run_id = self._id(request)

        def made() -> bytes:
            with tempfile.TemporaryDirectory(prefix="naslab-download-") as folder:
                return export(loaded(self.library, run_id), Path(folder) / f"run.{kind}", kind).read_bytes()

        data = self.pages.get(("file", run_id, kind), made) if self._ended(run_id) else made()
        name = f"naslab-{folder_of(run_id)}.{kind}"
        headers = {"Content-Disposition": f'attachment; filename="{name}"'}
        return Response(data, media_type=MEDIA_TYPES[kind], headers=headers)

    def metrics(self, request: Request) -> Response:

        assert self.scraped is not None
        return Response(self.scraped.text(), headers={"Content-Type": MEDIA_TYPE})

    def asset(self, request: Request) -> Response:
        found = by_full_name().get(request.path_params["name"])
        if found is None:
            raise HTTPException(404, "there is no such file")
        headers = {"Cache-Control": FOREVER, "Vary": "Accept-Encoding"}
        if "gzip" in request.headers.get("accept-encoding", ""):
            return Response(found.packed, media_type=found.media_type, headers={**headers, "Content-Encoding": "gzip"})
        return Response(found.data, media_type=found.media_type, headers=headers)

    async def events(self, request: Request) -> Response:

        if self.streams.full:
            raise HTTPException(503, "too many browsers are already watching runs; close one")
        run_id = await run_in_threadpool(self._id, request)
        last = request.headers.get("last-event-id", "0")
        since = int(last[:18]) if last.isascii() and last.isdigit() else 0
        return StreamingResponse(self.streams.follow(self.library.store, run_id, since), media_type="text/event-stream")

    def _id(self, request: Request) -> str:
        return stored(self.library, request.path_params["run"])

    def failed(self, request: Request, error: Exception) -> Response:
        """What was asked for wrongly, or is not there, in words."""
        if isinstance(error, HTTPException):
            status, words = error.status_code, error.detail
        else:
            status = 404 if isinstance(error, UnknownRunError) else 500 if isinstance(error, StoreError) else 400
            words = str(error).replace(str(self.library.store.path), "this library")
        return _error_page(request, status, words)

    def broken(self, request: Request, error: Exception) -> Response:
        """A defect: told without its insides, which the terminal has."""
        return _error_page(request, 500, "this page failed; the terminal of naslab serve shows why")


def _error_page(request: Request, status: int, words: str) -> Response:
    depth = max(request.url.path.count("/") - 1, 0)
    links = Links(min(depth, 8))
    body = join(
        [tag("h1", "This cannot be shown"), tag("p", words[:1000]), tag("p", tag("a", "All runs", href=links.page()))]
    )
    return HTMLResponse(render(Page("Not shown", body, scripts=["library.js"]), links), status)
