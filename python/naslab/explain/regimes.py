"""The regime of every cell of a run, each with its evidence: what its rate is a measure of.

    client_cache  answered by this machine's memory      server_cache  moved by the server's memory or processor
    link          at the rate of the link                latency       most of the time is a wait that all sizes have
    disk          waited for the server's disks          above_link    more than the link carries: no measurement
    burst, baseline  before and after a drop of the rate mixed         no one part has most of it
    unknown       nothing here tells; the evidence says what would

What was counted or changed within a cell (bytes on the wire, a rate above the link's, a drop) is told by that cell
alone. All else is the fitted model's answer: the share of the posterior in which a station takes most of a single
request's time, or sets the rate of many.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from naslab.analysis.linkrate import ABOVE_LINK, Link, known_link
from naslab.analysis.regimes_cells import View
from naslab.analysis.regimes_series import SAME_RATE, Drop, drops_of, held_words, is_write_back
from naslab.analysis.validity import cell_regime
from naslab.results.cell_names import load_name, stage_words
from naslab.units import duration_text, percent_text, rate_text

if TYPE_CHECKING:
    from naslab.explain.cell_stations import Answers
    from naslab.results.run import Run

SHARE = 0.5
"""Of what a flush left to write, from which on this machine's memory took the writes."""
SLOWER = 0.08
"""So much is more than noise."""
OF_NIC = 0.85
"""Share of what the client's interface carries, at which a cell without a model is at its rate."""
NULL = "the null target has no server: this is what the client can do itself"


@dataclass(frozen=True, slots=True)
class Regime:
    """word: a naslab.results.parts.cell.Regime. evidence: a sentence without its full stop."""

    word: str
    evidence: str


def regimes_of(run: Run) -> dict[int, Regime]:
    """The regime of every cell by its id."""
    document: Mapping[str, Any] = run.document
    views = [View(cell) for cell in run.cells]
    found: dict[int, Regime] = {}
    for view in views:
        alone = _alone(view, document)
        if alone is not None:
            found[view.id] = alone
    drops = drops_of(run, document, [v for v in views if v.id not in found or found[v.id].word == "disk"])
    rest = [v for v in views if v.id not in found]
    spent = {view.id: drops[view.id] for view in views if view.id in drops and not _in_one_pass(view, drops[view.id])}
    fitted = _answers([v for v in rest if v.id not in spent], document)
    credits = [(v, spent[v.id]) for v in views if v.id in spent and not is_write_back(v, spent[v.id])]
    if none := _no_credit(document):
        credits = []
    for view in views:
        if view.id in spent:
            fallen = _fallen(view, spent[view.id], credits)
            found[view.id] = fallen or _dropped(view, spent[view.id], fitted, none)
    nic = known_link(document)
    for view in rest:
        if view.id not in found:
            found[view.id] = _level(view, credits) or _from_model(view, fitted, nic)
    return found


def _answers(views: Sequence[View], document: Mapping[str, Any]) -> Answers | None:
    """What the fitted model says of these cells; None where there is nothing to fit."""
    if not any(view.plain for view in views):
        return None
    from naslab.explain.cell_stations import answers

    return answers(views, document)


# --- what one cell says by itself ------------------------------------------------------------------------


def _alone(view: View, document: Mapping[str, Any]) -> Regime | None:
    """Counted bytes, a rate above the link's, a cell without a rate; None where it needs the others."""
    cell = view.cell
    if document["target"]["protocol"] == "null":
        return Regime("unknown", NULL)
    if not cell["ops"] and not cell["bytes"]:
        return Regime("unknown", "nothing was measured")
    counted = cell_regime(cell, document)
    if counted is not None and not (counted == "mixed" and _at_the_ends(view)):
        return Regime(counted, _counted_words(cell, document))
    if document["target"]["protocol"] == "local" and view.direction == "write" and not cell["direct"]:
        kept = _kept_by_client(view)
        if kept is not None:
            return kept
    link = known_link(document)
    # Reads and writes at once have the link each way.
    ways = 2 if view.direction == "mixed" else 1
    if link and view.rate > ABOVE_LINK * ways * link.bytes_per_s:
        return Regime("above_link", f"{rate_text(view.rate)}, and {link.says} carries {rate_text(link.bytes_per_s)}")
    return None


def _at_the_ends(view: View) -> bool:
    """Bytes that the wire lacks are no more than what was under way when the window began and ended."""
    wire = view.cell.get("wire_bytes")
    return wire is not None and view.cell["bytes"] - wire <= 2 * view.in_flight * view.record


def _counted_words(cell: Mapping[str, Any], document: Mapping[str, Any]) -> str:
    claimed = cell["bytes"]
    if cell.get("wire_bytes") is not None:
        return f"{percent_text(cell['wire_bytes'] / claimed)} of the bytes crossed the wire"
    if (document["environment"].get("target") or {}).get("filesystem") == "tmpfs":
        return "the file system is this machine's memory (tmpfs)"
    moved = cell["storage_read_bytes"] + (cell["storage_write_bytes"] if "write" in cell["kinds"] else 0)
    return f"the device moved {percent_text(moved / claimed)} of the bytes"


def _kept_by_client(view: View) -> Regime | None:
    """Writes of a local path: what the flush took says whether this machine's memory took them."""
    durable = view.flushed_rate
    if durable is None or view.rate <= 0 or view.durable:
        return None
    share = durable / view.rate
    words = f"acknowledged at {rate_text(view.rate)}, durable at {rate_text(durable)} with the flush"
    if share < SHARE:
        return Regime("client_cache", f"{words}: this machine's memory accepted them")
    return Regime("mixed", words) if share < 1 - SLOWER else None


# --- what its series says --------------------------------------------------------------------------------


def _in_one_pass(view: View, drop: Drop) -> bool:
    """Reads that fell before they had seen the file once: what a cache held of it would look the same."""
    return view.direction == "read" and drop.high * drop.high_ns / 1e9 < view.size


def _no_credit(document: Mapping[str, Any]) -> bool:
    """Whether a ladder looked for credit, to its end, and found none."""
    ladder = document.get("ladder") or {}
    return ladder.get("stopped") == "certain" and not ladder["conditions"].get("burst")


def _dropped(view: View, drop: Drop, fitted: Answers | None, no_credit: bool = False) -> Regime:
    """A cell that crosses a change is named by its longest part. no_credit: the ladder found none here."""
    held = is_write_back(view, drop)
    if held is None and no_credit and view.direction == "write":
        words = f"{drop.words()}: memory filled up; the ladder detected no credit"
        return Regime("disk" if drop.longest == "low" else "mixed", words)
    if held:
        if drop.longest == "low":
            return Regime("disk", f"{drop.words()}; {held_words(view, drop)}")
        if drop.longest == "both":
            return Regime("mixed", f"{drop.words()}: a write-back cache filled up; {held_words(view, drop)}")
        at_link = fitted is not None and fitted.at_link(drop.high)
        return Regime("link" if at_link else "server_cache", f"{drop.words()}; {held_words(view, drop)}")
    if held is None and view.direction == "write":
        words = "without a flush it is unknown whether credit or a write-back cache was used up"
        return Regime("mixed" if drop.longest == "both" else "unknown", f"{drop.words()}; {words}")
    word = {"high": "burst", "low": "baseline", "both": "mixed"}[drop.longest]
    return Regime(word, drop.words() + (f"; {held_words(view, drop)}" if held is False else ""))


Credits = Sequence[tuple[View, Drop]]
"""Cells that fell, but for those whose writes filled a memory."""


def _named(other: View) -> str:
    """Another cell in a sentence: `1 MiB writes (filling the file)`."""
    stage = stage_words(other.cell.get("workload"))
    return load_name(other.cell) + (f" ({stage})" if stage and stage not in load_name(other.cell) else "")


def _fallen(view: View, own: Drop, credits: Credits) -> Regime | None:
    """It fell within moments to the rate to which another had fallen before: its credit was spent already."""
    if own.longest != "low":
        return None
    for other, drop in credits:
        if other.id < view.id and abs(own.low / drop.low - 1) <= SAME_RATE:
            return Regime("baseline", f"{own.words()}, the rate to which {_named(other)} fell before")
    return None


def _level(view: View, credits: Credits) -> Regime | None:
    """At the very rate at which a cell with the same operations began, or to which it fell."""
    if view.paced:
        return None
    for other, drop in credits:
        if other.record != view.record:
            continue
        if view.id > other.id and abs(view.rate / drop.low - 1) <= SAME_RATE:
            return Regime("baseline", f"{rate_text(view.rate)}, the rate to which {_named(other)} fell before")
        same = other.direction == view.direction and view.id < other.id
        if same and abs(view.rate / drop.high - 1) <= SAME_RATE:
            return Regime("burst", f"{rate_text(view.rate)}, the rate from which {_named(other)} fell later")
    return None


# --- what the fitted model says --------------------------------------------------------------------------


def _from_model(view: View, fitted: Answers | None, nic: Link | None) -> Regime:
    if view.paced:
        return _paced(view)
    if view.direction == "none":
        return _call(view, fitted)
    if not view.plain:
        return Regime("unknown", "operations of several sizes or kinds; naslab sweep measures each alone")
    told = fitted.of(view) if fitted is not None else None
    if told is None and nic and view.rate >= OF_NIC * nic.bytes_per_s:
        return Regime("link", f"{rate_text(view.rate)}; {nic.says} carries {rate_text(nic.bytes_per_s)}")
    if told is None:
        return Regime(
            "unknown", f"{rate_text(view.rate)}, but too few other loads show what sets it: another --record, "
            "another --depth or another --file-size helps",
        )  # fmt: skip
    return Regime(*told)


def _paced(view: View) -> Regime:
    """The server waited for requests: for their time, or for a client that was too slow to send them."""
    if not view.held_up:
        return Regime("unknown", "the load was paced, it did not wait for the server: run it without a rate limit")
    kept = f"{view.outstanding:.1f} of {view.in_flight} requests were outstanding on average"
    return Regime("unknown", f"{rate_text(view.rate)}, but {kept}: this client did not keep the server busy")


def _call(view: View, fitted: Answers | None) -> Regime:
    """Calls that move no data, such as metadata's: the round trip of an empty call is their least."""
    each = f"{duration_text(view.op_ns)} per call without data"
    trip = fitted.round_trip_ns if fitted is not None else None
    if view.in_flight == 1 and trip and trip >= SHARE * view.op_ns:
        return Regime("latency", f"queue depth 1, {each}; a call without data takes {duration_text(trip)}")
    return Regime(
        "unknown", f"{each}: the server's work or the network path; the time of a call without data separates them"
    )
