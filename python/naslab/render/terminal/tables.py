"""Tables of commands that have a part of the document of their own: for the terminal and for the one page."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from naslab.results.describe import typed
from naslab.results.parts.tree import TreeDocument
from naslab.units import count_text, duration_text, size_label

if TYPE_CHECKING:
    from naslab.results.parts.curve import CurveDocument
    from naslab.results.parts.profile import ProfileDocument

CURVE_HEADER = ("offered/s", "carried/s", "MB/s", "p50", "p99", "p99.9", "late", "errors", "note")
PROFILE_HEADER = ("position", "MB/s")
MAX_ROWS = 20
Document = Mapping[str, Any]


@dataclass(frozen=True)
class CommandTable:
    """One table. title: on the one page; empty where it is not for that."""

    title: str
    header: Sequence[str]
    rows: Iterable[Sequence[str]]


def command_tables(document: Document) -> list[CommandTable]:
    """Those of the first part that the document has; none where it has no such part."""
    return next((found for name, make in _TABLES.items() if document.get(name) and (found := make(document))), [])


def curve_rows(curve: CurveDocument) -> Iterator[tuple[str, ...]]:
    """The loads as texts, in the columns of CURVE_HEADER; percentiles are of the response time, from the due time."""
    for step in curve.steps:
        response = step.response_ns
        yield (
            count_text(step.offered_per_s), count_text(step.achieved_per_s),
            count_text(step.achieved_bytes_per_s / 1e6),
            _time(response.p50), _time(response.p99), _time(response.p99_9),
            f"{step.missed_starts:,}", f"{step.errors:,}", "saturated" if step.saturated else "",
        )  # fmt: skip


def _time(value_ns: int | None) -> str:
    return "-" if value_ns is None else duration_text(value_ns)


def profile_rows(profile: ProfileDocument) -> Iterator[tuple[str, str]]:
    """Position and rate of at most MAX_ROWS zones, evenly spread, as texts in the columns of PROFILE_HEADER."""
    zones = profile.zones
    step = -(-len(zones) // MAX_ROWS) or 1
    for zone in zones[::step]:
        yield size_label(zone.offset_bytes), f"{zone.bytes_per_s / 1e6:,.4g}"


def _curve(document: Document) -> list[CommandTable]:
    from naslab.results.parts.curve import CurveDocument

    return [CommandTable("Loads", CURVE_HEADER, curve_rows(typed(document["curve"], CurveDocument)))]


def _profile(document: Document) -> list[CommandTable]:
    from naslab.results.parts.profile import ProfileDocument

    return [CommandTable("", PROFILE_HEADER, profile_rows(typed(document["profile"], ProfileDocument)))]


def _durable(document: Document) -> list[CommandTable]:
    from naslab.commands.durable import words
    from naslab.results.parts.durable import Durable

    part = typed(document["durable"], Durable)
    metadata = CommandTable("", words.METADATA_HEADER, words.metadata_rows(part))
    return [CommandTable("", words.HEADER, words.rows(part)), metadata]


def _job(document: Document) -> list[CommandTable]:
    from naslab.commands.jobs import outcome
    from naslab.results.parts.job import JobDocument

    part = typed(document["job"], JobDocument)
    return [CommandTable("Jobs", outcome.HEADER, outcome.rows(part))] if part.steps else []


def _replay(document: Document) -> list[CommandTable]:
    from naslab.analysis import replayed

    return [CommandTable("", replayed.HEADER, replayed.rows(document))]


def _tree(document: Document) -> list[CommandTable]:
    from naslab.analysis import metadata

    part = typed(document["tree"], TreeDocument)
    return [CommandTable("Operations", metadata.header(part), metadata.rows(part))] if part.phases else []


def _apps(document: Document) -> list[CommandTable]:
    from naslab.commands.apps import results
    from naslab.results.parts.apps import Apps

    part = typed(document["apps"], Apps)
    rates = CommandTable("Applications, MB/s", results.header(part), results.rows(part))
    return [rates, CommandTable("", results.FACTS, results.fact_rows(part))]


_TABLES: dict[str, Callable[[Document], list[CommandTable]]] = {
    "curve": _curve, "profile": _profile, "durable": _durable, "job": _job, "replay": _replay, "tree": _tree,
    "apps": _apps,
}  # fmt: skip
