"""The page: headline, charts, facts, data, in one HTML text. All foreign text goes through `esc`."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import resources
from typing import TYPE_CHECKING, Any

from naslab import __version__
from naslab.comparison.names import short
from naslab.errors import UsageError
from naslab.explain import tell, trust
from naslab.render.report import compare as compare_view
from naslab.render.report import explain as explain_view
from naslab.render.report import table as table_view
from naslab.render.report import testbed, theme, way
from naslab.render.report.apps import section as apps_section
from naslab.render.report.chart_library import plotly_js
from naslab.render.report.drawing import PLAIN, Drawing
from naslab.render.report.durable import section as durable_section
from naslab.render.report.labels import count_label, esc, op_label, percent, plain, tight, value_label
from naslab.render.report.model import Case, Spot, extremes, failed, place, spot, usable, where
from naslab.render.report.payload import pack, pack_json, pack_series
from naslab.render.report.rawdata import read_series
from naslab.render.report.replay import section as replay_section
from naslab.render.report.sustained import section as sustained_section
from naslab.render.report.tree import section as tree_section
from naslab.render.report.views import Chart, Shown, charts, shown
from naslab.render.terminal.facts import fact
from naslab.render.terminal.telling import told_once
from naslab.results.cell_names import test_name
from naslab.results.columns import CELL_COLUMNS, Column
from naslab.results.describe import part_of
from naslab.results.foreign import who_measured
from naslab.results.numbers import is_number
from naslab.results.parts.client import ClientCeiling
from naslab.units import duration_text

if TYPE_CHECKING:
    from naslab.comparison.judgement import Comparison
    from naslab.results.run import Run

_STATUS = {
    "complete": ("✓", "Complete"), "partial": ("!", "Partial: some cells are missing or cut short"),
    "failed": ("✕", "Failed"), "running": ("…", "Still running when the report was created"),
}  # fmt: skip
_COMMAND_TEXT = {
    "run": "Survey of", "sweep": "Sweep of", "apps": "Application workloads on", "sustained": "Sustained load on",
    "burst": "Burst of", "cache speed": "Cached reads of", "cache size": "Server cache of",
    "tree": "Metadata and small files on", "curve": "Latency against load on", "iozone": "IOzone test of",
    "diskspd": "DiskSpd test of", "replay": "Trace replay on", "profile": "Rate by position on", "job": "Job on",
    "durable": "Durability test of", "compare": "Comparison with", "import": "Imported result of",
    "published": "Published result of",
}  # fmt: skip
MAX_LISTED = 12
MAX_TOLD = 20
"""Most warnings of one run on a page."""
PAGE_BUDGET_BYTES = 11_600_000
"""Size of a page above which interval series are summed to coarser ones rather than embedded whole."""
LEAST_SERIES_BYTES = 1_000_000


NO_TABLE: Mapping[str, Any] = {"runs": [], "columns": {"run": []}}
"""A page without a table of cells."""


@dataclass(frozen=True)
class Parts:
    """A page of runs without its frame, for pages that have another. title: plain text. body: HTML.

    charts, runs, about, series: what the page's script unpacks.
    """

    title: str
    body: str
    charts: str
    runs: str
    about: str
    series: str


def page(runs: list[Run], comparisons: Sequence[Comparison] = (), drawing: Drawing = PLAIN) -> str:
    """HTML text of the report. comparisons: of these runs; they come first. drawing: lines and limits asked for.

    Raises UsageError without a run or without the plotly package.
    """
    app, plotly = _asset("app.js"), plotly_js()
    packed = pack(plotly.encode("utf-8"))
    found = parts(runs, comparisons, PAGE_BUDGET_BYTES - len(packed), drawing)
    return _TEMPLATE.format(
        csp=f"default-src 'none'; script-src {_hash(app)} {_hash(plotly)}; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'",
        title=esc(found.title),
        style=_asset("style.css"),
        body=found.body,
        version=esc(__version__),
        about=found.about,
        app=app,
        charts=found.charts,
        runs=found.runs,
        series=found.series,
        plotly=packed,
    )


def parts(
    runs: list[Run],
    comparisons: Sequence[Comparison] = (),
    budget_bytes: int = PAGE_BUDGET_BYTES,
    drawing: Drawing = PLAIN,
) -> Parts:
    """The same without its frame: no style, no script. budget_bytes: of the packed data; longer series are coarser.

    Raises UsageError without a run.
    """
    if not runs:
        raise UsageError("report: name at least one RUN")
    prepared = shown(runs)
    series = [one for run in prepared for cell in run.run.cells if (one := read_series(run.run, run.index, cell))]
    compared = compare_view.charts(comparisons)
    taken = {chart.id for chart in compared}
    drawn = [*compared, *(chart for chart in charts(prepared, series, drawing) if chart.id not in taken)]
    table = table_view.columns(runs)
    packed = {"charts": pack_charts(drawn, CELL_COLUMNS, table), "runs": pack_json(_documents(runs))}
    left = budget_bytes - sum(map(len, packed.values()))
    about, rows = pack_series(series, max(left * 3 // 4, LEAST_SERIES_BYTES))
    body = "\n".join(
        [
            _header(prepared, compare_view.verdicts(comparisons)),
            _navigation(drawn, prepared),
            *(chart_section(chart) for chart in compared),
            compare_view.tables(comparisons),
            *_sections(prepared, drawn[len(compared) :], about),
        ]
    )
    return Parts(title=title_of(prepared), body=body, about=pack_json(about), series=rows, **packed)


def pack_charts(drawn: Sequence[Chart], columns: Sequence[Column] = (), table: Mapping[str, Any] = NO_TABLE) -> str:
    """The block `naslab-charts`: what the page's script draws, the columns of the CSV it offers, the table of cells."""
    return pack_json(
        {
            "charts": [_chart_data(chart) for chart in drawn],
            "dark": theme.DARK,
            "columns": [[column.name, column.path] for column in columns],
            "table": table,
        }
    )


def of_parts(title: str, body: str, drawn: Sequence[Chart], data: Mapping[str, Any]) -> str:
    """A page of a body and charts ready made. data: what the JSON download holds. Raises UsageError as `page`."""
    app, plotly = _asset("app.js"), plotly_js()
    return _TEMPLATE.format(
        csp=f"default-src 'none'; script-src {_hash(app)} {_hash(plotly)}; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'",
        title=esc(title),
        style=_asset("style.css"),
        body=body,
        version=esc(__version__),
        about=pack_json({"factor": 1, "rows": 0, "cells": [], "columns": []}),
        series=pack(b""),
        charts=pack_charts(drawn, table={**NO_TABLE, "runs": [{"id": data.get("run_id"), "name": title}]}),
        # The page's script takes runs with cells; these data have none of their own.
        runs=pack_json({"cells": [], **data}),
        plotly=pack(plotly.encode("utf-8")),
        app=app,
    )


def _asset(name: str) -> str:
    return (resources.files("naslab.render.report") / "assets" / name).read_text(encoding="utf-8")


def _hash(script: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode('utf-8')).digest()).decode('ascii')}'"


def _chart_data(chart: Chart) -> dict[str, Any]:
    return {"id": chart.id, "title": chart.title, "levels": chart.levels, "entries": chart.entries}


def _documents(runs: list[Run]) -> Mapping[str, Any]:
    """What the JSON download holds: the document of one run, or of several as `compare --json` prints them."""
    return runs[0].document if len(runs) == 1 else {"schema": 1, "runs": [run.document for run in runs]}


# --- headline --------------------------------------------------------------------------------------------


def title_of(runs: list[Shown]) -> str:
    """`Survey of smb://nas/share`, or how many runs are compared. A long address loses its middle."""
    if len(runs) > 1:
        return f"{len(runs)} runs compared"
    document = runs[0].run.document
    target = document.get("target") or {}
    command = str(document.get("command") or "run")
    what = _COMMAND_TEXT.get(command, f"{op_label(command)}:")
    return f"{what} {short(str(target.get('url') or target.get('protocol') or 'a target'))}"


def _header(runs: list[Shown], compared: str) -> str:
    """compared: the verdict of a comparison, ready made; it takes the place of each run's own sentences."""
    document = runs[0].run.document
    parts = [f"<h1>{esc(title_of(runs))}</h1>"]
    if len(runs) == 1:
        parts.append(f'<p class="facts">{_status(document)} {_facts_line(document)}</p>')
        if document.get("label"):
            parts.append(f'<p class="label">{esc(document["label"])}</p>')
    else:
        parts.append(_runs_table(runs))
    parts += [_answers(runs), _verdicts(runs), compared or _summary(runs), _validity(runs)]
    return f"<header>{''.join(parts)}</header>"


def _status(document: Mapping[str, Any]) -> str:
    status = str(document.get("status") or "unknown")
    mark, text = _STATUS.get(status, ("?", f"Status {status}"))
    kind = status if status in _STATUS else "unknown"
    broken = (document.get("durable") or {}).get("violations")
    if broken:
        mark, kind, text = "✕", "failed", f"{text}: {count_label(broken, 'guarantee')} broken"
    return f'<span class="status {kind}"><span aria-hidden="true">{mark}</span> {esc(text)}</span>'


def _facts_line(document: Mapping[str, Any]) -> str:
    cells = document.get("cells") or []
    counted = "" if document.get("durable") else count_label(len(cells), "cell")
    facts = [_protocol(document), started_text(document), counted]
    seconds = _span_ns(document)
    if seconds:
        facts.append(f"took {duration_text(seconds)}")
    facts.append(f"run {document.get('run_id', '')}")
    return " · ".join(f"<span>{esc(fact)}</span>" for fact in facts if fact)


def started_text(document: Mapping[str, Any]) -> str:
    """When a run began; nothing where the source of a foreign run does not tell."""
    if document.get("source") and not document.get("start_wall_ns"):
        return ""
    return _when(document.get("started_at"))


def _when(started: Any) -> str:
    """`20 Nov 2026, 18:40 UTC` of an ISO 8601 time; anything else as it is."""
    try:
        moment = datetime.fromisoformat(str(started)).astimezone(UTC)
    except ValueError:
        return str(started or "")
    return f"{moment.day} {moment:%b %Y, %H:%M} UTC"


def _span_ns(document: Mapping[str, Any]) -> int:
    start, end = document.get("start_wall_ns"), document.get("end_wall_ns")
    return max(int(end) - int(start), 0) if start and end else 0


def _protocol(document: Mapping[str, Any]) -> str:
    target = document.get("target") or {}
    words = [
        str(target.get("protocol") or "").upper()
        if target.get("protocol") in ("smb", "nfs")
        else target.get("protocol")
    ]
    words += [target.get("dialect")]
    text = " ".join(str(word) for word in words if word)
    if target.get("sec"):
        text += f", sec={target['sec']}"
    if target.get("signing"):
        text += f", signing {target['signing']}"
    return text + (f", encryption {target['encryption']}" if target.get("encryption") else "")


def _runs_table(runs: list[Shown]) -> str:
    documents: list[tuple[str, Mapping[str, Any]]] = [(run.name, run.run.document) for run in runs]
    rows = [
        [esc(name), _status(found), esc(_protocol(found)), esc(started_text(found)),
         f"{len(found['cells']):,}", esc(found.get("run_id", ""))]
        for name, found in documents
    ]  # fmt: skip
    return _table("The runs", ["Run", "Status", "Protocol", "Started", "Cells", "Id"], rows, numeric={4})


def _answers(runs: list[Shown]) -> str:
    """The answer of each run that keeps one: as at the end of `naslab run`."""
    from naslab.explain import brief, brief_words

    parts = []
    for run in runs:
        found = brief.stored(run.run.document)
        if found is None:
            continue
        head = f"<h2>{esc(run.name)}</h2>" if len(runs) > 1 else ""
        told = brief_words.sections(found)
        parts.append(head + "".join(f"<p>{esc(tight(text))}</p>" for text in told.bottlenecks))
        parts.append(f"<p>{esc(tight(told.normal))}</p>" if told.normal else "")
        if told.actions:
            parts.append(f"<ol>{''.join(f'<li>{esc(tight(text))}</li>' for text in told.actions)}</ol>")
        parts.append(f'<p class="trust">{esc(tight(told.trust))}</p>')
    return f'<section class="answer" aria-label="Answer">{"".join(parts)}</section>' if parts else ""


def _summary(runs: list[Shown]) -> str:
    """The document's own sentences; else the peak of each test, else that nothing was measured."""
    parts = []
    for run in runs:
        claimed = {**run.run.document, "verdict": {"limits": trust.claimed(run.run.document)}}
        verdict = tell.sentences(claimed) if claimed.get("ladder") else []
        sentences = [text for text in _given_summary(run.run.document) if text not in verdict] or _own_summary(run)
        head = f"<h2>{esc(run.name)}</h2>" if len(runs) > 1 else ""
        parts.append(head + "".join(f"<p>{esc(tight(text))}</p>" for text in sentences))
    return f'<section class="summary" aria-label="Summary">{"".join(parts)}</section>'


def _given_summary(document: Mapping[str, Any]) -> list[str]:
    given = document.get("summary") or []
    return [given] if isinstance(given, str) else [str(text) for text in given]


def _own_summary(run: Shown) -> list[str]:
    cells = run.run.cells
    if not cells:
        return ["This run has no cells: nothing was measured."]
    if not run.cases:
        return [
            f"All {count_label(len(cells), 'cell')} failed: nothing was measured."
            if len(cells) > 1
            else "The only cell failed: nothing was measured."
        ]
    sentences = [_peak(run, unit) for unit in ("bytes", "ops") if any(case.unit == unit for case in run.cases)]
    missing = len(failed(run.run))
    if missing:
        sentences.append(f"{count_label(missing, 'cell')} of {len(cells):,} gave no value.")
    return sentences


def _peak(run: Shown, unit: str) -> str:
    """The highest value of the run in one sentence, beside what its link can carry."""
    best = max((case for case in run.cases if case.unit == unit), key=lambda case: extremes(case)[0][1])
    at, value = extremes(best)[0]
    noun = "throughput" if unit == "bytes" else "rate"
    text = f"Highest {noun}: {value_label(value, unit)} ({best.label}, {where(best, at)})"
    if unit == "bytes" and run.ceilings:
        text += (
            f", {percent(value / run.ceilings[0][1])} of what the {run.ceilings[0][0].split(' link')[0]} link can carry"
        )
    return f"{text}."


def _verdicts(runs: list[Shown]) -> str:
    parts = []
    for run in runs:
        document: Mapping[str, Any] = run.run.document
        limits = trust.claimed(document)
        if limits:
            head = f"What limited {esc(run.name)}" if len(runs) > 1 else "What limited it"
            body = _by_class(limits) if document.get("ladder") else f"<ol>{''.join(map(_limit, limits))}</ol>"
            reach = "".join(f"<p>{esc(tight(text))}</p>" for text in tell.reach(document))
            advice = explain_view.advice(document)
            parts.append(f'<section class="verdict"><h2>{head}</h2>{body}{reach}{advice}</section>')
    return "".join(parts)


def _by_class(limits: Sequence[Mapping[str, Any]]) -> str:
    """The first limit of each class; what is behind it is smaller."""
    items = []
    for ranked in tell.by_class(limits).values():
        heads = [op_label(tell.rank_text(ranked, at)) for at in range(len(ranked))]
        behind = "".join(f"<li>{_limit_text(*each)}</li>" for each in zip(ranked[1:], heads[1:], strict=True))
        more = f'<ul class="behind">{behind}</ul>' if behind else ""
        items.append(f"<li>{_limit_text(ranked[0])}{more}</li>")
    return f"<ol>{''.join(items)}</ol>"


def _limit(limit: Mapping[str, Any]) -> str:
    return f"<li>{_limit_text(limit)}</li>"


def _limit_text(limit: Mapping[str, Any], scope: str = "") -> str:
    """`Large reads: the disks, 80 MB/s (95 % interval ...), certain`, with its evidence beneath.

    scope: what stands first; its class where that is empty.
    """
    if not scope and limit.get("applies_to"):
        scope = f"{op_label(tell.class_name(limit))}: "
    head = tell.kind_name(str(limit.get("kind") or "unknown"))
    value, interval = tell.figure_text(limit), tell.interval_text(limit)
    told = f", {value}" if limit.get("value") else ""
    told += f" (95 % interval {interval})" if told and interval else ""
    sure = f", {tell.sure_text(limit['confidence'])}" if isinstance(limit.get("confidence"), int | float) else ""
    why = f'<br><span class="evidence">{esc(tight(str(limit["evidence"])))}</span>' if limit.get("evidence") else ""
    return f"<strong>{esc(scope + head)}</strong>{esc(tight(told + sure))}{why}"


# --- validity --------------------------------------------------------------------------------------------


def _validity(runs: list[Shown]) -> str:
    notes: dict[str, list[str]] = {}
    for run in runs:
        for note in _notes(run):
            notes.setdefault(note, []).append(run.name)
    if not notes:
        return '<p class="validity ok">No warning about the validity of these numbers.</p>'
    items = []
    for note, names in notes.items():
        whose = "" if len(runs) == 1 else "All runs: " if len(names) == len(runs) else f"{', '.join(names)}: "
        items.append(f"<li>{esc(whose + tight(note))}</li>")
    return f'<section class="validity"><h2>Before you use these numbers</h2><ul>{"".join(items)}</ul></section>'


def _notes(run: Shown) -> Iterator[str]:
    """Warnings of the run, then what the cells say, each once with its count."""
    if run.run.document.get("source"):
        yield f"{who_measured(run.run.document['source'])}; {testbed.source_text(run.run.document['source'])}"
    cells = run.run.cells
    told = told_once(run.run.document.get("warnings") or [], cells)
    for _, message, count in told[:MAX_TOLD]:
        text = message[:1].upper() + message[1:]
        yield f"{text} ({count_label(count, 'cell')})" if count > 1 else text
    if len(told) > MAX_TOLD:
        yield f"{count_label(len(told) - MAX_TOLD, 'further kind')} of warnings: see the JSON download."
    said = {w.get("kind") for w in run.run.document.get("warnings") or [] if isinstance(w, Mapping)}
    for kind, text, count in _counted(cells):
        if count and kind not in said:
            yield f"{count_label(count, 'cell')} {text}"


def _counted(cells: Sequence[dict[str, Any]]) -> list[tuple[str, str, int]]:
    verified = [cell.get("verified") or {} for cell in cells]
    proofs = [cell.get("direct_proof") or {} for cell in cells]
    cached = sum(cell.get("regime") == "client_cache" for cell in cells)
    unproven = [bool(proof.get("o_direct")) and not proof.get("proven") for proof in proofs]
    return [
        ("no_value", "gave no value.", sum(not usable(cell) for cell in cells)),
        ("partial", "ended early (partial).", sum(cell.get("status") == "partial" for cell in cells)),
        ("errors", "had failed operations.", sum(bool(cell.get("errors")) and usable(cell) for cell in cells)),
        ("corrupt", "read data that differs from the written data.", sum(bool(found.get("bad")) for found in verified)),
        ("client_cache", "came from the client's cache, not from the server.", cached),
        ("above_link", "are above the rate of the link.", sum(cell.get("regime") == "above_link" for cell in cells)),
        ("not_direct", "requested direct I/O, but it could not be proven.", sum(unproven)),
        ("predicted", "were predicted, not measured.", sum(bool(cell.get("predicted")) for cell in cells)),
    ]  # fmt: skip


# --- sections --------------------------------------------------------------------------------------------


def _navigation(drawn: list[Chart], runs: list[Shown]) -> str:
    links = [(chart.id, chart.title) for chart in drawn]
    if any(failed(run.run) for run in runs):
        links.append(("failures", "Cells without a value"))
    links += [("testbed", "Test bed"), ("environment", "Environment"), ("data", "Data")]
    items = "".join(f'<li><a href="#{name}">{esc(text)}</a></li>' for name, text in links)
    return f'<nav aria-label="On this page"><ul>{items}</ul></nav>'


def _sections(runs: list[Shown], drawn: list[Chart], series: dict[str, Any]) -> Iterator[str]:
    yield way.section(_documents_by_name(runs))
    # Applications and trees have tables of their own, and no one file and record size; a curve is told by its chart.
    with_tests = [run for run in runs if run.cases]
    if any(not any(map(run.run.document.get, ("apps", "tree", "curve"))) for run in with_tests):
        yield _by_test(with_tests)
    yield from (chart_section(chart) for chart in drawn)
    yield explain_view.section(_documents_by_name(runs))
    yield durable_section([(run.name, run.run) for run in runs])
    yield apps_section([(run.name, run.run) for run in runs])
    yield tree_section([(run.name, run.run) for run in runs])
    yield replay_section([(run.name, run.run) for run in runs])
    yield sustained_section([(run.name, run.run) for run in runs])
    if any(failed(run.run) for run in runs):
        yield _failures(runs)
    yield testbed.section(_documents_by_name(runs))
    yield _environment(runs)
    yield _data(runs, series)


def _documents_by_name(runs: list[Shown]) -> list[tuple[str, Mapping[str, Any]]]:
    return [(run.name, run.run.document) for run in runs]


def _by_test(runs: list[Shown]) -> str:
    if len(runs) > 1:
        heads, rows = ["Highest of each test", *(run.name for run in runs)], _side_by_side(runs)
    else:
        heads, rows = ["Test", "Cells", "Highest", "Lowest"], [_test_row(case) for case in runs[0].cases]
        if all(len(case.spots) == 1 for case in runs[0].cases):
            heads, rows = ["Test", "Cells", "Result"], [row[:-1] for row in rows]
    numeric = {1} if len(runs) == 1 else set()
    return f'<section id="results"><h2>Results by test</h2>{_table("Results by test", heads, rows, numeric)}</section>'


def _side_by_side(runs: list[Shown]) -> list[list[str]]:
    """One row per test, one column per run, with the highest median of each."""
    found = [{case.label: case for case in run.cases} for run in runs]
    labels = dict.fromkeys(label for cases in found for label in cases)
    return [
        [esc(label), *(_highest(cases[label]) if label in cases else "" for cases in found)]
        for label in labels
    ]  # fmt: skip


def _highest(case: Case) -> str:
    return _value_cell(extremes(case)[0], case)


def _test_row(case: Case) -> list[str]:
    high, low = extremes(case)
    lowest = _value_cell(low, case) if len(case.spots) > 1 else ""
    return [esc(case.label), f"{len(case.cells):,}", _value_cell(high, case), lowest]


def _value_cell(found: tuple[Spot, float], case: Case) -> str:
    at, value = found
    text = value_label(value, case.unit)
    return f'<strong>{esc(tight(text))}</strong> <span class="where">{esc(tight(where(case, at)))}</span>'


def chart_section(chart: Chart) -> str:
    """The place of a chart, with its words."""
    caption = chart.entries[0]["caption"]
    note = f'<p class="note">{esc(chart.note)}</p>' if chart.note else ""
    return (
        f'<section id="{chart.id}" class="figure" data-chart="{chart.id}"><h2>{esc(chart.title)}</h2>'
        f'<p class="lead">{esc(chart.lead)}</p><div class="controls"></div>'
        f'<div class="plot" id="plot-{chart.id}" role="figure" aria-label="{esc(chart.title)}. {esc(caption)}"></div>'
        f'<p class="caption" id="caption-{chart.id}" aria-live="polite">{esc(caption)}</p>{note}</section>'
    )


def _failures(runs: list[Shown]) -> str:
    rows = []
    for run in runs:
        for cell in failed(run.run)[:25]:
            why = cell.get("first_error") or cell.get("stop_reason") or "no operation finished"
            name = test_name(cell)
            rows.append([*([esc(run.name)] if len(runs) > 1 else []), esc(name), esc(place(spot(cell))), esc(why)])
    total = sum(len(failed(run.run)) for run in runs)
    more = f"<p>{len(rows):,} of {total:,} are listed.</p>" if total > len(rows) else ""
    table = _table("Cells without a value", [*(["Run"] if len(runs) > 1 else []), "Test", "Cell", "Reason"], rows)
    return f'<section id="failures"><h2>Cells without a value</h2>{table}{more}</section>'


def _environment(runs: list[Shown]) -> str:
    parts = []
    for run in runs:
        document: Mapping[str, Any] = run.run.document
        head = f"<h3>{esc(run.name)}</h3>" if len(runs) > 1 else ""
        about = {key: document[key] for key in _RUN_KEYS if _is_told(document, key)}
        groups = [
            ("Run", {**about, **_labels(document)}),
            ("Target", document.get("target") or {}),
            ("Environment", document.get("environment") or {}),
            ("The client's own ceiling", _ceiling(document)),
        ]  # fmt: skip
        note = "".join(
            f'<p class="usernote">{esc(document[key])}</p>' for key in ("note", "notes") if document.get(key)
        )
        parts.append(
            head + note + '<div class="pair">' + "".join(_fact_table(*group) for group in groups if group[1]) + "</div>"
        )
    return f'<section id="environment"><h2>Environment</h2>{"".join(parts)}</section>'


_RUN_KEYS = ("run_id", "command", "argv", "label", "started_at", "finished_at", "seed", "naslab_version")


def _is_told(document: Mapping[str, Any], key: str) -> bool:
    """Whether a fact is known; the documents of foreign runs hold zeros for when and with which seed."""
    if document.get("source") and (key == "seed" or (key.endswith("ed_at") and not document.get("start_wall_ns"))):
        return False
    return document.get(key) is not None


def _labels(document: Mapping[str, Any]) -> dict[str, Any]:
    labels = document.get("labels") or {}
    return dict(labels) if isinstance(labels, Mapping) else {"labels": labels}


def _ceiling(document: Mapping[str, Any]) -> dict[str, str]:
    """What the client can do without any server, where that was measured."""
    from naslab.analysis.client_table import rows

    found = part_of(document, "client_ceiling", ClientCeiling)
    told = rows(found, (document.get("environment") or {}).get("route")) if found else []
    return {name: f"{rate} ({under})" if under else rate for name, rate, under in told}


def _fact_table(title: str, facts: Mapping[str, Any]) -> str:
    rows = [[esc(key), esc(text)] for key, text in _flat(facts)]
    return _table(title, ["Fact", "Value"], rows, facts=True)


def _flat(facts: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """(name, text) of every leaf of nested facts."""
    for key, value in facts.items():
        name = f"{prefix}{str(key).replace('_', ' ')}"
        if isinstance(value, Mapping):
            yield from _flat(value, f"{name}, ")
        elif isinstance(value, list) and value and all(isinstance(item, Mapping) for item in value):
            for number, item in enumerate(value[:MAX_LISTED], 1):
                yield from _flat(item, f"{name} {number}, ")
        elif key == "argv" and isinstance(value, list):
            yield "command line", " ".join(str(word) for word in value)
        elif isinstance(value, str) and value.startswith("{"):
            yield from _flat(_settings(value), f"{name}, ")
        else:
            yield _with_unit(name, value)


def _settings(text: str) -> Mapping[str, Any]:
    """The settings of a simulated server, written as JSON, that differ from none; text that is no JSON as it is."""
    try:
        found = json.loads(text)
    except ValueError:
        return {"text": text}
    return {name: value for name, value in found.items() if value} if isinstance(found, dict) else {"text": text}


def _with_unit(name: str, value: Any) -> tuple[str, str]:
    label, text = fact(name, value)
    return label, text if is_number(value) or isinstance(value, bool) else plain(value)


def _data(runs: list[Shown], series: dict[str, Any]) -> str:
    buttons = ['<button type="button" data-download="csv">Cells (CSV)</button>',
               '<button type="button" data-download="json">Run document (JSON)</button>']  # fmt: skip
    note = ""
    if series["rows"]:
        buttons.append('<button type="button" data-download="series">Interval series (CSV)</button>')
        if series["factor"] > 1:
            note = (
                f'<p class="note">The series of this report are long: the download sums {series["factor"]} '
                "neighbouring intervals into one. `naslab export` gives every one.</p>"
            )
    lead, hidden = "Every cell as measured. Choose a heading to sort.", ""
    if not any(run.run.cells for run in runs):
        lead, hidden = "No cell was measured; the run document has all results.", " hidden"
        del buttons[0]
    return (
        f'<section id="data"><h2>Data</h2><p class="lead">{lead}</p>'
        f'<div class="controls downloads" role="group" aria-label="Downloads">{"".join(buttons)}</div>{note}'
        f'<div class="scroll"{hidden}><table id="cells"></table></div>'
        f'<div class="pager" id="pager"{hidden}></div></section>'
    )


def download_section(lead: str, button: str) -> str:
    """The data of a page `of_parts`: the JSON to download; a table of cells has none."""
    return (
        f'<section id="data"><h2>Data</h2><p class="lead">{esc(lead)}</p><div class="controls downloads">'
        f'<button type="button" data-download="json">{esc(button)}</button></div>'
        '<div hidden><table id="cells"></table><div id="pager"></div></div></section>'
    )


def _table(
    caption: str,
    heads: list[str],
    rows: list[list[str]],
    numeric: set[int] | None = None,
    facts: bool = False,
) -> str:
    """A small table. rows: HTML that is escaped already. numeric: columns set to the right.

    facts: the caption is shown, the first column holds the names; else caption is for screen readers alone.
    """
    numeric = numeric or set()
    mark = dict.fromkeys(numeric, ' class="num"')
    head = "".join(f'<th scope="col"{mark.get(i, "")}>{esc(text)}</th>' for i, text in enumerate(heads))
    body = "".join(
        "<tr>" + "".join(
            f'<th scope="row">{text}</th>' if facts and i == 0 else f"<td{mark.get(i, '')}>{text}</td>"
            for i, text in enumerate(row)
        ) + "</tr>"
        for row in rows
    )  # fmt: skip
    hidden = "" if facts else ' class="hidden"'
    head_class = ' class="hidden"' if facts else ""
    return (
        f'<div class="scroll"><table><caption{hidden}>{esc(caption)}</caption>'
        f"<thead{head_class}><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


_TEMPLATE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{csp}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<meta name="generator" content="naslab {version}">
<title>{title}</title>
<link rel="icon" href="data:,">
<style>
{style}</style>
</head>
<body>
<a class="skip" href="#content">Skip to the results</a>
<main id="content">
{body}
</main>
<noscript><p class="noscript">Charts, table and downloads need JavaScript; nothing is loaded.</p></noscript>
<footer>naslab {version}. Rates in MB/s (10<sup>6</sup> bytes), sizes in powers of 1024. Charts: Plotly.js, MIT licence.
This file holds all its data and loads nothing.</footer>
<script type="text/plain" id="naslab-charts">{charts}</script>
<script type="text/plain" id="naslab-runs">{runs}</script>
<script type="text/plain" id="naslab-series-about">{about}</script>
<script type="text/plain" id="naslab-series">{series}</script>
<script type="text/plain" id="naslab-plotly">{plotly}</script>
<script>{app}</script>
</body>
</html>
"""
