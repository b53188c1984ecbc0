"""The regime of every cell of a run, each with its evidence: what its rate is a measure of.

    client_cache  answered by this machine's memory      server_cache  moved by the server's memory or processor
    link          at the rate of the link                latency       most of the time is a wait that all sizes have
    disk          waited for the server's disks          above_link    more than the link carries: no measurement
    burst, baseline  before and after a drop of the rate mixed         no one part has most of it
    unknown       nothing here tells; the evidence says what would

Evidence comes from the whole run: bytes counted on the wire or the device, the link's known or inferred ceiling, the
least time of like operations (files that the server's memory holds), what grows with the record size, what a flush
finds in memory, changes in the series. A cell alone mostly tells nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from naslab.analysis.linkrate import ABOVE_LINK, known_link
from naslab.analysis.regimes_cells import View
from naslab.analysis.regimes_model import (
    AHEAD,
    OF_CEILING,
    QUEUED,
    SLOWER,
    SMALL_BYTES,
    Curve,
    Model,
    bounded,
    build,
    growth,
)
from naslab.analysis.regimes_series import SAME_RATE, Drop, drops_of, held_words, is_write_back
from naslab.analysis.validity import cell_regime
from naslab.units import duration_text, rate_text, size_label

if TYPE_CHECKING:
    from naslab.results.run import Run

SHARE = 0.5
"""Of the time, or of a part's utilisation: from here it names the cell."""
SHORT = 3
"""A cell of few operations may be slower by three times the noise."""
HELD = 0.85
"""Memory was full at the end of writes when a flush found this share of the most it ever found."""
CLOSE = 0.05
"""How near two parts may be before neither is named."""
NULL = "the null target has no server: this is what the client can do itself"


@dataclass(frozen=True, slots=True)
class Regime:
    """word: one of naslab.results.schema.REGIMES. evidence: a sentence without its full stop."""

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
    model = build([v for v in rest if v.plain and v.id not in spent], document)
    credits = [(v, spent[v.id]) for v in views if v.id in spent and not is_write_back(v, spent[v.id])]
    if none := _no_credit(document):
        credits = []
    for view in views:
        if view.id in spent:
            fallen = _fallen(view, spent[view.id], credits)
            found[view.id] = fallen or _dropped(view, spent[view.id], model, none)
    for view in rest:
        if view.id not in found:
            found[view.id] = _level(view, credits) or _from_model(view, model)
    return found


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
    if link and view.rate > ABOVE_LINK * ways * link["bytes_per_s"]:
        return Regime(
            "above_link", f"{rate_text(view.rate)}, and {link['says']} carries {rate_text(link['bytes_per_s'])}"
        )
    return None


def _at_the_ends(view: View) -> bool:
    """Bytes that the wire lacks are no more than what was under way when the window began and ended."""
    wire = view.cell.get("wire_bytes")
    return wire is not None and view.cell["bytes"] - wire <= 2 * view.in_flight * view.record


def _counted_words(cell: Mapping[str, Any], document: Mapping[str, Any]) -> str:
    claimed = cell["bytes"]
    if cell.get("wire_bytes") is not None:
        return f"{cell['wire_bytes'] / claimed:.0%} of the bytes crossed the wire"
    if (document["environment"].get("target") or {}).get("filesystem") == "tmpfs":
        return "the file system is this machine's memory (tmpfs)"
    moved = cell["storage_read_bytes"] + (cell["storage_write_bytes"] if "write" in cell["kinds"] else 0)
    return f"the device moved {moved / claimed:.0%} of the bytes"


def _kept_by_client(view: View) -> Regime | None:
    """Writes of a local path: what the flush took says whether this machine's memory took them."""
    durable = view.flushed_rate
    if durable is None or view.rate <= 0 or view.durable:
        return None
    share = durable / view.rate
    words = f"acknowledged at {rate_text(view.rate)}, durable at {rate_text(durable)} with the flush"
    if share < SHARE:
        return Regime("client_cache", f"{words}: this machine's memory took them")
    return Regime("mixed", words) if share < 1 - SLOWER else None


# --- what its series says --------------------------------------------------------------------------------


def _in_one_pass(view: View, drop: Drop) -> bool:
    """Reads that fell before they had seen the file once: what a cache held of it would look the same."""
    return view.direction == "read" and drop.high * drop.high_ns / 1e9 < view.size


def _no_credit(document: Mapping[str, Any]) -> bool:
    """Whether a ladder looked for credit, to its end, and found none."""
    ladder = document.get("ladder") or {}
    return ladder.get("stopped") == "certain" and not ladder["conditions"].get("burst")


def _dropped(view: View, drop: Drop, model: Model, no_credit: bool = False) -> Regime:
    """A cell that crosses a change is named by its longest part. no_credit: the ladder found none here."""
    held = is_write_back(view, drop)
    if held is None and no_credit and view.direction == "write":
        words = f"{drop.words()}: memory filled up; the ladder found no credit"
        return Regime("disk" if drop.longest == "low" else "mixed", words)
    if held:
        if drop.longest == "low":
            return Regime("disk", f"{drop.words()}; {held_words(view, drop)}")
        if drop.longest == "both":
            return Regime("mixed", f"{drop.words()}: a write-back cache filled up; {held_words(view, drop)}")
        return Regime(_memory_word(view, model), f"{drop.words()}; {held_words(view, drop)}")
    if held is None and view.direction == "write":
        words = "without a flush nobody knows whether a credit or a write-back cache was spent"
        return Regime("mixed" if drop.longest == "both" else "unknown", f"{drop.words()}; {words}")
    word = {"high": "burst", "low": "baseline", "both": "mixed"}[drop.longest]
    return Regime(word, drop.words() + (f"; {held_words(view, drop)}" if held is False else ""))


def _memory_word(view: View, model: Model) -> str:
    rate = model.link.rate if model.link else None
    return "link" if rate and view.rate >= OF_CEILING * rate else "server_cache"


Credits = Sequence[tuple[View, Drop]]
"""Cells that fell, but for those whose writes filled a memory."""


def _fallen(view: View, own: Drop, credits: Credits) -> Regime | None:
    """It fell within moments to the rate to which another had fallen before: its credit was spent already."""
    if own.longest != "low":
        return None
    for other, drop in credits:
        if other.id < view.id and abs(own.low / drop.low - 1) <= SAME_RATE:
            return Regime("baseline", f"{own.words()}, the rate to which cell {other.id} fell before")
    return None


def _level(view: View, credits: Credits) -> Regime | None:
    """At the very rate at which a cell with the same operations began, or to which it fell."""
    if view.paced:
        return None
    for other, drop in credits:
        if other.record != view.record:
            continue
        if view.id > other.id and abs(view.rate / drop.low - 1) <= SAME_RATE:
            return Regime("baseline", f"{rate_text(view.rate)}, the rate to which cell {other.id} fell before")
        same = other.direction == view.direction and view.id < other.id
        if same and abs(view.rate / drop.high - 1) <= SAME_RATE:
            return Regime("burst", f"{rate_text(view.rate)}, the rate from which cell {other.id} fell later")
    return None


# --- what like cells say ---------------------------------------------------------------------------------


def _from_model(view: View, model: Model) -> Regime:
    if view.paced:
        return Regime("unknown", "the load waited for its own time, not for the server: run it as fast as it goes")
    if view.direction == "none":
        return _call(view, model)
    if not view.plain:
        return _by_ceiling(view, model) or Regime("unknown", "operations of many sizes or kinds: a sweep would tell")
    disk = _disk_share(view, model)
    if disk is not None:
        return disk
    return _network(view, model)


def _call(view: View, model: Model) -> Regime:
    """Calls that move no data, such as metadata's: the round trip of an empty call is their least."""
    each = f"{duration_text(view.op_ns)} a call that moves no data"
    if view.in_flight == 1 and model.round_trip_ns and model.round_trip_ns >= SHARE * view.op_ns:
        return Regime("latency", f"one in flight, {each}; an empty call takes {duration_text(model.round_trip_ns)}")
    return Regime("unknown", f"{each}: the server's work or the way to it; the time of an empty call would tell")


def _by_ceiling(view: View, model: Model) -> Regime | None:
    """Only the rate counts: of mixed loads, scripts and jobs."""
    if model.link is None or view.rate < 0.9 * model.link.rate or view.direction == "mixed":
        return None
    return Regime("link", f"{rate_text(view.rate)}; {model.link.says}")


def _disk_share(view: View, model: Model) -> Regime | None:
    """The disks' part in it; None where other parts name the cell."""
    if view.direction == "write" and not view.durable:
        filled = _filled(view, model)
        if filled is not None:
            return filled
    least = model.common[view.in_flight][view.record]
    more = 1 - least / view.op_ns
    if more <= (SHORT if view.short else 1) * model.slower:
        return None
    earlier = model.first.get(view.same, view.id)
    if earlier < view.id:
        words = (
            f"{duration_text(view.op_ns)} an operation, faster in cell {earlier} before: a spent credit or another load"
        )
        return Regime("unknown", f"{words}; the same for longer, after a rest, would tell")
    reason = _reason(view, model)
    words = f"{duration_text(view.op_ns)} an operation, {duration_text(least)} from memory"
    if reason is None:
        unknown = Regime("unknown", f"{words}: why is open; smaller and larger files, read twice, would tell")
        return None if _in_memory(view, model) else unknown
    return _disk_or_network(view, model, more, f"{words}; {reason}")


def _disk_or_network(view: View, model: Model, more: float, words: str) -> Regime | None:
    """more: share of the time that memory would not have taken; the disks' share, or with many in flight a bound."""
    disk = min(view.in_flight * more, 1.0)
    network = max(((1 - more) * part for part in _parts(view, model).values()), default=0.0)
    if abs(disk - network) <= CLOSE and view.in_flight == 1:
        return Regime("mixed", words)
    if disk > network:
        return Regime("disk" if disk >= SHARE - CLOSE else "mixed", words)
    return None


def _reason(view: View, model: Model) -> str | None:
    """Why it waited for the disks and not for something else; None where nothing says so."""
    if view.direction == "write" and view.durable:
        return "every write was durable"
    if view.direction == "write":
        return "the flush found nothing left in memory" if _nothing_kept(view, model) else None
    served = model.served.get((view.record, view.in_flight), 0)
    if 0 < served < view.size:
        return f"files up to {size_label(served)} were read faster"
    if served == view.size:
        return "the same file was read faster again"
    low, high = model.knee
    if 0 < low < high <= view.size:
        return f"with other records, files up to {size_label(int(low))} were read faster"
    return None


def _nothing_kept(view: View, model: Model) -> bool:
    """Whether the flush took no longer than a few round trips: all was on the disks when it was acknowledged."""
    flush_ns = view.cell.get("flush_ns")
    return flush_ns is not None and flush_ns <= 3 * model.wait_ns + 0.02 * view.cell["acknowledged_ns"]


def _in_memory(view: View, model: Model) -> bool:
    """Slower than others, but as fast as its like ever is, and like a file that every server holds in memory."""
    own = model.own[view.direction, view.direction == "write" and view.durable, view.in_flight][view.record]
    if view.op_ns > (1 + model.slower) * own:
        return False
    if view.direction == "write":
        return view.rate >= AHEAD * (view.flushed_rate or view.rate) and not _nothing_kept(view, model)
    return model.small_bytes <= SMALL_BYTES


def _filled(view: View, model: Model) -> Regime | None:
    """Writes that filled the server's memory: how long it took them, from the rates before and after."""
    key = view.record, view.in_flight, view.scattered
    after = model.disk_write.get(key)
    own = bounded(model.own["write", False, view.in_flight], view.in_flight)
    before = view.in_flight * view.record * 1e9 / own[view.record]
    flushed = view.flushed_rate
    if not after or not flushed or before <= (1 + model.slower) * after or view.rate >= (1 - model.slower / 2) * before:
        return None
    kept = after * (view.cell.get("flush_ns") or 0) / 1e9
    if _nothing_kept(view, model) or kept < HELD * model.held[key]:
        return None
    memory = min(max((view.rate - after) / (before - after), 0.0), 1.0)
    words = (
        f"acknowledged at {rate_text(view.rate)}: memory takes {rate_text(before)}, the disks {rate_text(after)}, "
        f"so memory took them {memory:.0%} of the time"
    )
    # Rates that lie near each other tell little of when one became the other.
    unsure = CLOSE if before >= 1.3 * after else 4 * CLOSE
    if memory <= SHARE - unsure:
        return Regime("disk", words)
    return Regime("mixed", words) if memory < SHARE + unsure else None


def _curve(view: View, model: Model) -> Curve:
    """Least times: of all alike in flight, or of its own kind of operation where that is slower in memory, too."""
    common = model.common[view.in_flight]
    own = model.own[view.direction, view.direction == "write" and view.durable, view.in_flight]
    slower = own[view.record] > (1 + model.slower) * common[view.record]
    return own if slower and _reason(view, model) is None and _in_memory(view, model) else common


def _parts(view: View, model: Model) -> dict[str, float]:
    """Latency's and transfer's part of the least time; with many in flight their utilisation."""
    curve = _curve(view, model)
    grows = growth(curve, view.record)
    if view.in_flight == 1:
        if grows is not None:
            return {"latency": 1 - grows, "transfer": grows}
        return _parts_of_one_size(view, model, curve[view.record])
    least = model.least.get(view.in_flight, {}).get(view.record)
    rates = [rate for (_, of), rate in model.transfer.items() if of == view.in_flight]
    top = max(rates, default=0.0) or (model.link.rate if model.link else 0.0)
    found: dict[str, float] = {}
    if least:
        found["latency"] = min(least / curve[view.record], 1.0)
    if top:
        found["transfer"] = min(view.in_flight * view.record * 1e9 / curve[view.record] / top, 1.0)
    return found


def _parts_of_one_size(view: View, model: Model, op_ns: float) -> dict[str, float]:
    """Without other sizes of record: what is known of the link and the round trip, where that is most of the time."""
    link = view.record / model.link.rate * 1e9 if model.link else 0.0
    found = {"transfer": min(link / op_ns, 1.0), "latency": min((model.round_trip_ns or 0.0) / op_ns, 1.0)}
    return {part: share for part, share in found.items() if share >= SHARE}


def _network(view: View, model: Model) -> Regime:
    """A cell that the disks did not hold up, or where nothing shows that they did."""
    parts = _parts(view, model)
    curve = _curve(view, model)
    if not parts:
        return Regime("unknown", f"{rate_text(view.rate)} with one size of record and no known link: another --record, "
                      "another --depth or the link's rate would tell")  # fmt: skip
    word = max(parts, key=lambda part: parts[part])
    if word == "latency":
        if parts["latency"] < SHARE and view.in_flight == 1:
            return Regime("mixed", "no part has half of the time")
        if view.in_flight > 1 and parts["latency"] < QUEUED:
            return Regime(
                "unknown", "operations queue, for what is open: a sweep over records and file sizes would tell"
            )
        return Regime("latency", _latency_words(view, curve, parts["latency"]))
    if parts["transfer"] < SHARE:
        return Regime(
            "unknown", f"{rate_text(view.rate)} is little of what large operations reach; more --depth would tell"
        )
    return _transfer(view, model, parts["transfer"])


def _latency_words(view: View, curve: Mapping[int, float], share: float) -> str:
    each = f"{duration_text(curve[view.record])} for {size_label(view.record)}"
    if view.in_flight == 1:
        return f"one in flight, {each}, {share:.0%} of it the same for every record size"
    return f"{view.in_flight} in flight, {each}, hardly more than for one alone"


def _transfer(view: View, model: Model, share: float) -> Regime:
    """Most of the time goes with the bytes: through the link, or out of the server's memory?"""
    rates = [rate for (direction, of), rate in model.transfer.items() if of == view.in_flight]
    top = max(rates, default=view.rate)
    link = model.link
    if link is not None and top >= OF_CEILING * link.rate:
        return Regime("link", f"{share:.0%} of the time is transfer at {rate_text(top)}; {link.says}")
    words = f"{share:.0%} of the time is transfer at {rate_text(top)}"
    memory = view.direction == "write" or model.knee[0] >= view.size
    if model.nic is not None and top < OF_CEILING * model.nic and memory:
        return Regime(
            "server_cache", f"{words}, below the {rate_text(model.nic)} of this client's interface; no disk waited for"
        )
    if model.knee[0] >= view.size:
        return Regime(
            "unknown", f"{words}: the link or the server's memory; the link's rate or a mixed load would tell"
        )
    return Regime("unknown", f"{words}: the link, the server's memory or its disks; other file sizes would tell")
