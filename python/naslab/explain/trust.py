"""How far a run is to be trusted: its conditions as doubts, what they leave of a probability, and the sentence.

Every command that says what limits a target (`run`, `explain`, `show`, `report`, `whatif`, `compare --why`) asks here,
so that the same run is called the same everywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from naslab.explain import tell
from naslab.results.numbers import is_number
from naslab.units import percent_text

Document = Mapping[str, Any]

CERTAIN = 0.9
"""A limit of a smaller probability is called probable."""
WHOLE, SHORT, SHAKEN, DISTURBED, DISTURBED_TWICE = 1.0, 0.95, 0.89, 0.85, 0.7
"""Highest probability of a limit: without a doubt; where steps were left out; with a slight doubt; with a grave one;
with several grave ones. Of statements beside other programs 72 of 73 were right on real systems: their load is counted
in the likelihood, too."""
UNVARIED = 0.8
"""The same where no experiment set one limit against another."""
MIN_LOADS = 3
"""Fewer timed loads of an operation are too few: each may be the odd one."""
GRAVE_LOAD, GRAVE_STEAL = 0.25, 0.1
"""Share of the client's processors that others used, or its host took, from which on a doubt is grave."""
GRAVE_CELLS = 0.1
"""Share of the cells in which something went wrong, from which on a doubt is grave."""
TELLING = 2
"""Doubts that are named in a sentence."""
OPERATIONS = ("read", "write")
OWN = frozenset(("client_cache",))
"""Limits that were counted in bytes: no condition makes them less sure."""
SHOWN: Mapping[str, str] = {"client_throttled": "client_cpu", "client_stall": "client_cpu"}
"""Conditions that are themselves evidence of a limit, which they make no less sure."""


@dataclass(frozen=True)
class Doubt:
    """One condition. most: the highest probability that it leaves. text: a clause. ops: operations that it is about."""

    kind: str
    most: float
    text: str
    ops: tuple[str, ...] = OPERATIONS

    def document(self) -> dict[str, Any]:
        """As in the run's answer."""
        return {"kind": self.kind, "most": self.most, "text": self.text, "ops": list(self.ops)}


def doubts(document: Document, limits: Sequence[Mapping[str, Any]] | None = None) -> list[Doubt]:
    """What makes a run doubtful, the gravest first. limits: of today's verdict; None: those of the document."""
    if limits is None:
        limits = (document.get("verdict") or {}).get("limits") or []
    found = [
        *_ended(document), *_loaded(document), *_client(document), *_failed(document), *_few(document), *_open(limits),
    ]  # fmt: skip
    return sorted(found, key=lambda doubt: doubt.most)


def was_interrupted(document: Document) -> bool:
    """Whether the run was cut short by its user, or by what ended its process."""
    return document.get("status") == "partial" and "interrupted" in _kinds(document)


def ended_early(document: Document) -> bool:
    """Whether the run did not finish: interrupted, failed, or killed. One that its budget ended did."""
    status = document.get("status")
    spent = status == "partial" and "budget" in _kinds(document)
    return was_interrupted(document) or (status in ("partial", "failed", "running") and not spent)


def most(found: Iterable[Doubt], op: str = "", limit: str = "") -> float:
    """The highest probability that doubts leave a limit. op: read or write; empty for both. limit: its kind."""
    mine = [
        doubt.most for doubt in found if (op in doubt.ops or not op) and not (limit and SHOWN.get(doubt.kind) == limit)
    ]
    grave = sum(each <= DISTURBED for each in mine)
    return min(mine, default=WHOLE) if grave < 2 else DISTURBED_TWICE


def lowered(limits: Sequence[Mapping[str, Any]], found: Sequence[Doubt]) -> list[dict[str, Any]]:
    """Limits of a document with no more probability than the doubts leave."""

    def one(limit: Mapping[str, Any]) -> dict[str, Any]:
        share = limit.get("confidence")
        kind = str(limit.get("kind") or "")
        if not is_number(share) or kind in OWN:
            return dict(limit)
        op = str((limit.get("applies_to") or {}).get("op") or "")
        return {**limit, "confidence": min(share, most(found, op, kind))}

    return [one(limit) for limit in limits]


def claimed(document: Document) -> list[dict[str, Any]]:
    """The limits of a run's verdict with what its conditions leave of their probability."""
    limits = (document.get("verdict") or {}).get("limits") or []
    return lowered(limits, doubts(document)) if limits and not document.get("source") else [*limits]


def level(found: Sequence[Doubt]) -> str:
    """`high`, `fair` or `low`."""
    left = most(found)
    return "high" if left >= CERTAIN else "fair" if left > DISTURBED else "low"


def sentence(found: Sequence[Doubt]) -> str:
    """`Trust: low; the run was interrupted.`"""
    return words(level(found), [doubt.text for doubt in found])


def words(how: str, texts: Sequence[str], telling: int = TELLING) -> str:
    """The same from a level and what speaks against the run. telling: doubts that are named at most."""
    if not texts:
        return "Trust: high. Nothing disturbed the run; repeat it before you spend money."
    more = f" (and {len(texts) - telling} more)" if len(texts) > telling else ""
    return f"Trust: {how}{', but ' if how == 'high' else '; '}{' and '.join(texts[:telling])}{more}."


def named(found: Sequence[Doubt], name: str) -> str:
    """The same of one of several runs; empty without a doubt."""
    return f"{name}: {sentence(found)}" if found else ""


# Doubts.


def _kinds(document: Document) -> set[str]:
    """Kinds of the warnings of a run, or of a cell."""
    return {str(each.get("kind")) for each in document.get("warnings") or [] if isinstance(each, Mapping)}


def _ended(document: Document) -> Iterator[Doubt]:
    if was_interrupted(document):
        yield Doubt("interrupted", DISTURBED, "the run was interrupted")
    elif document.get("status") == "failed":
        yield Doubt("failed", DISTURBED, "the run failed before its end")
    elif ended_early(document):
        yield Doubt("unfinished", DISTURBED, "the run did not finish")
    if (document.get("ladder") or {}).get("stopped") in ("budget", "slow"):
        yield Doubt("budget", SHORT, "the budget was too short for all steps")
    if not document.get("ladder"):
        yield Doubt("unvaried", UNVARIED, "the loads of this run do not separate the limits")


def _loaded(document: Document) -> Iterator[Doubt]:
    """Others on this client, on its host or on its link."""
    environment = document.get("environment") or {}
    if "other_load" in _kinds(document):
        yield from _others(environment.get("during") or {})
    if "client_busy" in _kinds(document):
        load = (environment.get("client") or {}).get("load_1min")
        shown = f", at a load of {load:.1f}" if is_number(load) else ""
        yield Doubt("client_busy", SHAKEN, f"this client was busy when the run began{shown}")


def _others(during: Mapping[str, Any]) -> Iterator[Doubt]:
    """The figures behind a warning of other load: each that is above its own limit; the largest where none is."""
    from naslab.client.watch import FOREIGN_CPU, STOLEN

    foreign, stolen = (during.get(f"{name}_cpu_fraction_max") for name in ("foreign", "stolen"))
    known = False
    if is_number(foreign) and foreign > FOREIGN_CPU:
        known, grave = True, foreign > GRAVE_LOAD
        text = f"other programs used up to {percent_text(foreign)} of this client's CPU"
        yield Doubt("other_load", SHAKEN if grave else SHORT, text)
    if is_number(stolen) and stolen > STOLEN:
        known, grave = True, stolen > GRAVE_STEAL
        text = f"the host of this virtual client took up to {percent_text(stolen)} of its CPU"
        yield Doubt("stolen", DISTURBED if grave else SHAKEN, text)
    if not known:
        yield Doubt("other_traffic", DISTURBED, "other programs used this client or its link during the run")


def _client(document: Document) -> Iterator[Doubt]:
    """What held the client up while it measured the ladder, or the cells where there is none."""
    texts = {
        "client_throttled": "a quota throttled this client's CPU",
        "client_stall": "this client stalled during the run",
        "clock_step": "this client's clock was set during the run",
        "clock": "this client's clock was wrong",
    }  # fmt: skip
    cells = document.get("cells") or []
    for kind, text in texts.items():
        count = sum(1 for cell in cells if kind in _kinds(cell))
        if count or kind in _kinds(document):
            grave = not count or count >= GRAVE_CELLS * len(cells)
            yield Doubt(kind, DISTURBED if grave else SHAKEN, text)


def _failed(document: Document) -> Iterator[Doubt]:
    cells = document.get("cells") or []
    failed = sum(1 for cell in cells if cell.get("errors"))
    if failed:
        most = DISTURBED if failed >= GRAVE_CELLS * len(cells) else SHAKEN
        yield Doubt("errors", most, f"operations failed in {failed} of {len(cells)} cells")


def _open(limits: Sequence[Mapping[str, Any]]) -> Iterator[Doubt]:
    """A kind of I/O whose limit is not decided: its probabilities say so themselves."""
    open_ = [
        tell.class_name(of[0]) for of in tell.by_class(limits).values()
        if float(of[0].get("confidence") or 0.0) < tell.DECIDED
    ]  # fmt: skip
    if open_:
        yield Doubt("open", SHAKEN, f"what limits {tell.joined(open_)} is not decided", ())


def _few(document: Document) -> Iterator[Doubt]:
    """Operations of which too few loads were timed to set one against another."""
    ladder = document.get("ladder")
    if not ladder:
        return
    counts = dict.fromkeys(OPERATIONS, 0)
    for step in ladder.get("steps") or []:
        for point in step.get("points") or []:
            if point.get("op") in counts:
                counts[point["op"]] += 1
    for op, count in counts.items():
        if 0 < count < MIN_LOADS:
            times = "once" if count == 1 else f"{count} times"
            yield Doubt("few", DISTURBED, f"{op}s were measured only {times}", (op,))
