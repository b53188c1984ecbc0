"""A running test as it is measured: cells as they are stored and the cell under way, by server-sent events."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

from starlette.concurrency import run_in_threadpool

from naslab.errors import NaslabError, UnknownRunError
from naslab.render.report.labels import count_label, tight, time_label, value_label
from naslab.render.web.assets import assets
from naslab.render.web.frame import Page
from naslab.render.web.html import join, table, tag
from naslab.render.web.links import Links
from naslab.results.cell_names import test_name
from naslab.results.store.library import Library
from naslab.results.store.store import Store, status_now
from naslab.results.store.underway import read_under_way
from naslab.units import amount_text, duration_text, size_label

POLL_S = 1.0
QUIET_POLLS = 15
"""Polls without news after which a comment keeps the connection."""
CELLS_AT_ONCE = 200
MOST_STREAMS = 32
"""Browsers that may follow runs at once."""
SILENT_NS = 5_000_000_000
"""Without a word from the process that measures; a cell under way tells every second."""
HEADS = ("Test", "File", "Record", "Repeat", "Result", "p99", "Status")


@dataclass(frozen=True)
class Now:
    """The cell under way in words and numbers. share: of it that is done, None where that is not known. x: seconds;
    y: MB/s or operations per second, as `unit` says. planned: cells of the run known of so far."""

    words: str
    facts: str
    share: float | None = None
    x: Sequence[float] = ()
    y: Sequence[float] = ()
    unit: str = ""
    planned: int | None = None


@dataclass(frozen=True)
class News:
    """What came since the last look. last: sequence number of the newest cell seen. more: ask again at once."""

    cells: list[dict[str, Any]]
    last: int
    status: str
    more: bool


def news(store: Store, run_id: str, since: int) -> News:
    """Cells of the run stored after the one numbered `since`, oldest first. Raises UnknownRunError, StoreError."""
    found = store.rows("SELECT status, owner FROM runs WHERE run_id = ?", (run_id,))
    if not found:
        raise UnknownRunError(f"run {run_id} is no longer in the store")
    rows = store.rows(
        "SELECT seq, document FROM cells WHERE run_id = ? AND seq > ? ORDER BY seq LIMIT ?",
        (run_id, since, CELLS_AT_ONCE),
    )
    cells = [told(json.loads(text)) for _, text in rows]
    return News(cells, rows[-1][0] if rows else since, status_now(*found[0]), len(rows) == CELLS_AT_ONCE)


def told(cell: Mapping[str, Any]) -> dict[str, Any]:
    """A cell in the words of the live page, under HEADS, with its rate for the picture."""
    rate, ops = cell.get("throughput_bytes_per_s") or 0.0, cell.get("iops") or 0.0
    sizes = [size_label(cell[name]) if cell.get(name) else "" for name in ("file_bytes", "record_bytes")]
    p99 = (cell.get("latency_ns") or {}).get("p99")
    values = [
        test_name(cell), *sizes, str((cell.get("block") or 0) + 1),
        value_label(rate, "bytes") if rate else value_label(ops, "ops"), time_label(p99) if p99 else "",
        str(cell.get("status") or ""),
    ]  # fmt: skip
    return {"id": cell.get("id"), "row": values, "mb_per_s": rate / 1e6, "ops_per_s": ops}


def now_of(state: Mapping[str, Any] | None, now_wall_ns: int) -> Now:
    """What the page says of `naslab.results.store.underway`'s state at this time of the day."""
    cell = (state or {}).get("cell")
    if state is None or not cell:
        return Now("No cell is being measured.", "")
    told, waited_ns = state["told"], max(0, now_wall_ns - state["written_wall_ns"])
    words, planned = cell_words(cell), cell.get("cells_planned")
    if not told or not cell["timed"]:
        gone_ns = max(0, now_wall_ns - cell["began_wall_ns"])
        preparing = f"preparing its files, {clock_text(gone_ns)}" if gone_ns >= 10**9 else "begins"
        return Now(words, f"{clock_text(gone_ns)}; in simulated time" if told else preparing, planned=planned)
    facts = [_gone(cell, told["elapsed_ns"] + min(waited_ns, SILENT_NS))]
    facts.append(f"{amount_text(told['bytes'])} moved" if told["bytes"] else count_label(told["ops"] or 0, "operation"))
    x, y, unit = _rates(state["samples"])
    passed_ns, moved, ops = told["recent"]
    if passed_ns > 0:
        rate = (moved if told["bytes"] else ops) * 1e9 / passed_ns
        facts.append(f"{value_label(rate, 'bytes' if told['bytes'] else 'ops')} now")
    if told.get("p99_ns"):
        facts.append(f"p99 {time_label(told['p99_ns'])}")
    if told.get("errors"):
        facts.append(count_label(told["errors"], "error"))
    if waited_ns > SILENT_NS:
        facts.append(f"no news for {clock_text(waited_ns)}")
    return Now(words, tight(", ".join(facts)), _share(cell, told), x, y, unit, planned)


def cell_words(cell: Mapping[str, Any]) -> str:
    """`Write, 64 MiB file, 1 MiB records, 4 workers`."""
    sizes = (("file_bytes", "file"), ("record_bytes", "records"))
    parts = [test_name(cell), *(f"{size_label(cell[size])} {words}" for size, words in sizes if cell.get(size))]
    if (cell.get("queue_depth") or 1) > 1:
        parts.append(f"depth {cell['queue_depth']}")
    if (cell.get("workers") or 1) > 1:
        parts.append(f"{cell['workers']} workers")
    return ", ".join(parts)


def clock_text(duration_ns: int) -> str:
    """A time that goes on, in whole seconds."""
    return duration_text(duration_ns // 10**9 * 10**9) if duration_ns >= 10**9 else "0 s"


def _gone(cell: Mapping[str, Any], elapsed_ns: int) -> str:
    whole = (cell["duration_ns"] or 0) and cell["duration_ns"] + cell["warmup_ns"]
    return f"{clock_text(min(elapsed_ns, whole))} of {clock_text(whole)}" if whole else clock_text(elapsed_ns)


def _share(cell: Mapping[str, Any], told: Mapping[str, Any]) -> float | None:
    if cell["duration_ns"]:
        return min(1.0, float(told["elapsed_ns"] / (cell["duration_ns"] + cell["warmup_ns"])))
    return min(1.0, float(told["bytes"] / cell["planned_bytes"])) if cell["planned_bytes"] else None


def _rates(samples: Sequence[Sequence[int]]) -> tuple[list[float], list[float], str]:
    """Seconds, and MB/s (operations per second where no bytes move) since the sample before; what they are called."""
    moved = any(sample[1] for sample in samples)
    at, scale = (1, 1e-6) if moved else (2, 1.0)
    found = [(b[0] / 1e9, scale * (b[at] - a[at]) * 1e9 / (b[0] - a[0]))
             for a, b in pairwise([(0, 0, 0), *samples]) if b[0] > a[0]]  # fmt: skip
    unit = "Throughput (MB/s)" if moved else "Operations per second"
    return [round(x, 3) for x, _ in found], [round(y, 3) for _, y in found], unit


class Streams:
    """The open event streams; no more than MOST_STREAMS at once."""

    def __init__(self) -> None:
        self._open = 0

    @property
    def full(self) -> bool:
        """Whether no further one may be opened."""
        return self._open >= MOST_STREAMS

    async def follow(self, store: Store, run_id: str, since: int) -> AsyncIterator[str]:
        """Events `cells` and `now`, then `end` with the status, as an event stream; `id` lets a browser go on."""
        self._open += 1
        try:
            quiet = 0
            last: Now | None = None
            yield "retry: 2000\n\n"
            while True:
                try:
                    found = await run_in_threadpool(news, store, run_id, since)
                except NaslabError:
                    yield _event("end", {"status": "gone"}, since)
                    return
                since = found.last
                if found.cells:
                    yield _event("cells", found.cells, since)
                if found.status == "running" and (now := under_way(store, run_id)) != last:
                    last = now
                    yield _event("now", asdict(now), since)
                if found.status != "running" and not found.more:
                    yield _event("end", {"status": found.status}, since)
                    return
                quiet = 0 if found.cells else quiet + 1
                if quiet >= QUIET_POLLS:
                    quiet = 0
                    yield ": still measuring\n\n"
                if not found.more:
                    await asyncio.sleep(POLL_S)
        finally:
            self._open -= 1


def under_way(store: Store, run_id: str) -> Now:
    """What is under way; a state that another naslab wrote otherwise is none."""
    try:
        return now_of(read_under_way(store.path, run_id), time.time_ns())
    except (KeyError, TypeError, ValueError, IndexError):
        return now_of(None, 0)


def _event(kind: str, data: Any, last: int) -> str:
    return f"id: {last}\nevent: {kind}\ndata: {json.dumps(data, allow_nan=False)}\n\n"


def live_page(library: Library, run_id: str, links: Links) -> Page:
    """The page that follows a run. Raises UnknownRunError."""
    run = library.store.load_id(run_id)
    document = run.document
    target = document.get("target") or {}
    plotly = links.asset(assets()["plotly.js"].name)
    body = join(
        [
            tag("h1", f"{document['command']}: {target.get('url') or 'a target'}"),
            tag("p", tag("span", document["status"], id="status", class_=f"status {document['status']}"), " ",
                tag("span", "", id="count"), class_="facts", role="status"),
            tag("section", tag("h2", "Current cell"), tag("p", "", id="now-words"),
                tag("progress", max="1", id="now-share", aria_label="Of this cell", hidden=True),
                tag("p", "", id="now-facts", class_="note"),
                tag("div", class_="plot small", id="now-plot", role="img", hidden=True,
                    aria_label="Rate within the current cell"), class_="under-way", id="now"),
            tag("h2", "Finished cells"),
            tag("p", "Each cell appears here when it is finished and stored. ",
                tag("a", "The run's page", href=links.run(run.run_id)), " shows everything."),
            tag("p", "No cell is finished yet.", id="none", class_="note"),
            tag("div", class_="plot small", id="live-plot", role="img", data_plotly=plotly, hidden=True,
                aria_label="Throughput of each finished cell"),
            table("Cells, the newest first", HEADS, [], (1, 2, 3, 4, 5), id="live", data_events=f"{links.root}events/"
                  f"{links.run(run.run_id).removeprefix(links.root).removeprefix('run/').removesuffix('/')}"),
        ]
    )  # fmt: skip
    return Page(f"Live: {target.get('url') or run.run_id}", body, scripts=["live.js"])
