"""`naslab export --site`: the library of chosen runs as files, the same pages with relative links, nothing behind them.

The folder is written beside its place and takes it when whole. A folder that is there is replaced only where every
file in it was written by `naslab export --site`, which its list of files tells.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from naslab import __version__
from naslab.errors import StoreError, UsageError
from naslab.exchange.export import export
from naslab.exchange.references import load
from naslab.render.report.labels import count_label
from naslab.render.report.views import shown
from naslab.render.web import comparepage, overlay, rankpage
from naslab.render.web.assets import assets
from naslab.render.web.frame import Page, of_charts, render, sections
from naslab.render.web.html import checkbox, join, tag
from naslab.render.web.links import Links, folder_of
from naslab.render.web.listing import chooser, search_form
from naslab.render.web.runpage import DOWNLOADS, run_page
from naslab.results.store import Store
from naslab.results.store.library import FACETS, Library, Listed, Wanted

if TYPE_CHECKING:
    from naslab.results.run import Run

MANIFEST = "naslab-site.json"
"""Written last: what naslab wrote. A folder without it is not ours."""


@dataclass(frozen=True)
class Chosen:
    """runs: by name; none: the newest `limit` whose target contains this text."""

    runs: Sequence[str] = ()
    target: str = ""
    limit: int = 50


def write_site(store: Store, chosen: Chosen, output: Path) -> Path:
    """Writes the folder, whole or not at all, and returns it. store: what it gives is published, redacted or not.

    Raises UsageError for a folder with files of others and where nothing is chosen, UnknownRunError, StoreError.
    """
    output = output.resolve()
    _refuse(output)
    runs = runs_of(store, chosen)
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix=f".{output.name}.", suffix=".part", dir=output.parent))
    except OSError as error:
        raise UsageError(f"--site {output}: it cannot be written: {error.strerror or error}") from error
    try:
        with tempfile.TemporaryDirectory(prefix="naslab-site-") as folder, Store(Path(folder) / "site.sqlite") as own:
            for run in runs:
                own.save(run.document, {cell["id"]: _blobs(run, cell["id"]) for cell in run.cells})
            _Site(Library(own), made).write()
        made.chmod(0o755)
        _refuse(output)  # what came meanwhile is not ours
        if output.exists():
            shutil.rmtree(output)
        made.replace(output)
    except OSError as error:
        raise StoreError(f"--site {output} cannot be written: {error}") from error
    finally:
        shutil.rmtree(made, ignore_errors=True)
    return output


def _blobs(run: Run, cell: int) -> dict[str, bytes]:
    return {name: run.blob(cell, name) for name in run.blob_names(cell)}


def runs_of(store: Store, chosen: Chosen) -> list[Run]:
    """The runs chosen. Raises UsageError, UnknownRunError."""
    if chosen.runs:
        found = [load(store, name) for name in chosen.runs]
    else:
        newest = store.list_runs(chosen.limit, None, chosen.target or None)
        found = [store.load_id(run.run_id) for run in newest]
    runs = {run.run_id: run for run in found if run.document["status"] != "running"}
    if not runs:
        raise UsageError("--site: no finished run is chosen; list them with: naslab runs")
    return list(runs.values())


def _refuse(output: Path) -> None:
    """Raises UsageError where the folder holds anything that naslab did not write."""
    if not output.exists():
        return
    if not output.is_dir():
        raise UsageError(f"--site {output} is a file; name a folder")
    there = {str(path.relative_to(output)) for path in output.rglob("*") if path.is_symlink() or not path.is_dir()}
    if not there:
        return
    try:
        written = set(json.loads((output / MANIFEST).read_text(encoding="utf-8"))["files"])
    except (OSError, ValueError, KeyError, TypeError):
        raise UsageError(f"--site {output}: the folder is not empty and naslab did not make it; name another") from None
    if others := sorted(there - written - {MANIFEST}):
        raise UsageError(f"--site {output}: naslab did not write {others[0]}; move it, or name another folder")


class _Site:
    """One folder while it is written."""

    def __init__(self, library: Library, folder: Path) -> None:
        self.library = library
        self.rows = library.page(Wanted(), 0, -1)[0]
        self.folder = folder
        self.files: list[str] = []

    def write(self) -> None:
        for asset in assets().values():
            self._save(f"static/{asset.name}", asset.data)
        newest = self._newest()
        self._page("", index_page(self.library, self.rows, Links(0, files=True)))
        self._page("overlay", overlay_page(newest, Links(1, files=True)))
        self._page("rank", rank_page(self.library, Links(1, files=True)))
        self._compare(newest[: comparepage.MOST_SIDES])
        for row in self.rows:
            self._run(self.library.store.load_id(row.run_id))
        about = {"naslab_version": __version__, "files": sorted(self.files)}
        (self.folder / MANIFEST).write_text(json.dumps(about, indent=1), encoding="utf-8")

    def _newest(self) -> list[Run]:
        """The newest run of each device that has the test most runs have, as many as an overlay shows."""
        tests = self.library.facets()["test"]
        found = self.library.devices(tests[0][0] if tests else "", overlay.MOST_RUNS)
        return [self.library.store.load_id(device.newest) for device in found]

    def _compare(self, runs: Sequence[Run]) -> None:
        """A page for each baseline, the oldest at first, and their list."""
        ordered = sorted(runs, key=lambda run: int(run.document.get("start_wall_ns") or 0))
        names = comparepage.labels([[run] for run in ordered])
        links = Links(1, files=True)
        items = []
        for run, name in zip(ordered, names, strict=True) if len(ordered) > 1 else ():
            sides = [[run], *([other] for other in ordered if other is not run)]
            self._page(f"compare/{folder_of(run.run_id)}", comparepage.compared(sides, Links(2, files=True)))
            items.append(tag("li", tag("a", f"against {name}", href=f"{folder_of(run.run_id)}/index.html")))
        words = "The newest run of each device, compared with the baseline."
        lead = words if items else "There is only one device; a comparison needs two."
        body = join([tag("h1", "Compare"), tag("p", lead, class_="lead"), tag("ul", *items, class_="runs")])
        self._page("compare", Page("Compare", body, scripts=["library.js"], here="compare"), links)

    def _run(self, run: Run) -> None:
        folder = f"run/{folder_of(run.run_id)}"
        self._page(folder, run_page(run, Links(2, files=True)))
        for kind in DOWNLOADS:
            export(run, self.folder / folder / f"run.{kind}", kind)
            self.files.append(f"{folder}/run.{kind}")

    def _page(self, folder: str, page: Page, links: Links | None = None) -> None:
        links = links or Links(len(folder.split("/")) if folder else 0, files=True)
        self._save(f"{folder}/index.html" if folder else "index.html", render(page, links).encode("utf-8", "replace"))

    def _save(self, name: str, data: bytes) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        self.files.append(name)


def index_page(library: Library, rows: Sequence[Listed], links: Links) -> Page:
    """The list of a site: every run; the page's script searches and pages it."""
    tests = library.tests_of([row.seq for row in rows])
    marks = {row.run_id: _marks(row, tests.get(row.seq, [])) for row in rows}
    body = join(
        [
            tag("h1", "Runs"),
            search_form(Wanted(), library.facets(), links),
            tag("h2", count_label(len(rows), "run"), id="found", aria_live="polite"),
            chooser(rows, links, marks),
            tag("nav", class_="pager", id="pages", aria_label="Pages of runs"),
        ]
    )
    return Page("Runs", body, scripts=["library.js"], here="")


def _marks(row: Listed, tests: Sequence[str]) -> dict[str, str]:
    """What the script finds a row by."""
    words = [row.run_id, row.device, row.label or "", row.target, row.command, row.protocol, row.origin, *tests]
    facets = {f"data_{name}": str(getattr(row, name)) for name in FACETS}
    return {**facets, "data_test": "\n".join(tests), "data_words": " ".join(words).lower()}


def overlay_page(runs: Sequence[Run], links: Links) -> Page:
    """The newest run of each device; boxes show and hide them."""
    named = shown(list(runs))
    drawn = overlay.charts(named, list(overlay.METRICS))
    boxes = [checkbox(one.name, "shown", one.name, True) for one in named]
    form = tag("form", tag("fieldset", tag("legend", "Shown"), tag("div", *boxes, class_="boxes tall")),
               class_="choose", data_shown=True)  # fmt: skip
    body = join([tag("h1", "Overlay"), form, overlay.listed(named, links), sections(drawn)])
    return Page("Overlay", body, of_charts("Overlay", drawn), here="overlay", scripts=["library.js"])


def rank_page(library: Library, links: Links) -> Page:
    """Every test, by rate, each device's repeats together."""
    tests = [test for test, _ in library.facets()["test"]]
    devices = [device.name for device in library.devices(limit=rankpage.MOST_DEVICES)]
    of_device = library.runs_of(devices, tests, rankpage.MOST_RUNS)
    found = [one for one in rankpage.ranked(library, of_device, tests, "rate") if one.found.standings]
    return rankpage.shown_page(found, [tag("h1", "Ranking")], links)
