"""What `naslab explain` knows of a stored run: its verdict, what the verdict rests on, and what to do next."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from naslab.explain import any_run, brief_words, tell, trust
from naslab.explain.advice import advice
from naslab.explain.brief import IMPOSSIBLE, Brief, brief_of, stored
from naslab.explain.caching import caching
from naslab.explain.conclusion import conclude
from naslab.explain.evidence import Evidence, memory_gap
from naslab.explain.fitted import model_version
from naslab.explain.inference import RUNS
from naslab.explain.limits import Verdict
from naslab.explain.outcome import question

Document = Mapping[str, Any]


@dataclass(frozen=True)
class Said:
    """What an earlier version said when it measured. by: its version. at: the run's end, as the document has it."""

    by: str
    at: str
    limits: list[dict[str, Any]]

    def sentences(self) -> list[str]:
        """The verdict of then, a sentence for each limit."""
        return tell.sentences({"verdict": {"limits": self.limits}})

    def differs(self, limits: Sequence[Mapping[str, Any]]) -> bool:
        """Whether another limit is named first of any kind of I/O, or one that was open is decided, or no longer is."""
        return _first(self.limits) != _first(limits)


@dataclass(frozen=True)
class Answer:
    """basis: a ladder, or what the cells alone say. limits, open, advice: as in the run document, with no more
    probability than the run's conditions leave. brief: the whole in ten lines.

    next_commands: (command, what it would bring), the cheapest first. said: where today's model judged anew.
    """

    document: Document
    basis: Literal["ladder", "cells"]
    limits: list[dict[str, Any]]
    open: list[dict[str, Any]]
    advice: list[str]
    next_commands: list[tuple[str, str]]
    brief: Brief
    said: Said | None = None

    def part(self) -> dict[str, Any]:
        """For `--json`."""
        return {
            "basis": self.basis, "sentences": self.sentences(), "open": self.open, "advice": self.advice,
            "next": [{"command": command, "brings": brings} for command, brings in self.next_commands],
            "model": model_version(), "said": dataclasses.asdict(self.said) if self.said else None,
            "caching": None if (found := caching(self.document)) is None else found.document(),
        }  # fmt: skip

    def cached(self) -> list[str]:
        """What delegations or leases would have saved, where the target's protocol has them."""
        found = caching(self.document)
        return [] if found is None else found.sentences()

    def sentences(self) -> list[str]:
        """The verdict, a sentence for each limit."""
        told = tell.sentences({"verdict": {"limits": self.limits}, "ladder": self.document.get("ladder")})
        return told or ["This run does not show what limits the target."]


def concluded(document: Document) -> dict[str, Any]:
    """What the end of `naslab run` adds to its document: the verdict by the run's conditions, and the answer.

    document: with its status and its warnings.
    """
    limits, ladder = (document.get("verdict") or {}).get("limits") or [], document.get("ladder")
    if ladder is None:
        return {"answer": brief_words.document_of(_of_cells(document).brief)}
    brief = brief_of(document, limits, ladder["open"])
    return {"verdict": {"limits": trust.claimed(document)}, "answer": brief_words.document_of(brief)}


def answer(document: Document) -> Answer:
    """Explains a run by today's model: from its ladder, else from its cells.

    The same model gives the same data the same answer, so what is stored is taken where this very version made it.
    """
    ladder = document.get("ladder")
    limits = list((document.get("verdict") or {}).get("limits") or [])
    if ladder is None and not limits:
        return _of_cells(document)
    today = None if limits and _is_todays(ladder) else _judged(document, ladder)
    if today is None or ladder is None:
        open_, told = (list(ladder["open"]), list(ladder.get("advice") or [])) if ladder else ([], [])
        brief = stored(document) or brief_of(document, limits, open_)
        return Answer(document, "ladder", trust.claimed(document), open_, told, _next(document, open_), brief)
    verdict, told = today
    open_ = [question(each, _url(document)) for each in verdict.open]
    said = Said(_version(document, ladder), str(document.get("finished_at") or ""), limits) if limits else None
    limits = [limit.document() for limit in verdict.limits]
    brief = brief_of(document, limits, open_)
    limits = trust.lowered(limits, trust.doubts(document))
    return Answer(document, "ladder", limits, open_, told, _next(document, open_), brief, said)


def _is_todays(ladder: Mapping[str, Any] | None) -> bool:
    return ladder is None or (ladder.get("model") or {}).get("version") == model_version()


def _version(document: Document, ladder: Mapping[str, Any]) -> str:
    """What judged the run when it was measured."""
    return str((ladder.get("model") or {}).get("version") or document.get("naslab_version") or "an earlier version")


def _judged(document: Document, ladder: Mapping[str, Any] | None) -> tuple[Verdict, list[str]] | None:
    """(verdict, advice) of today's model on what was measured; None of a ladder without points, or impossible ones."""
    if ladder is None or not any(step.get("points") for step in ladder["steps"]):
        return None
    try:
        evidence = Evidence.from_document(ladder)
        evidence.memory_bytes = memory_gap(evidence)
        verdict = conclude(evidence, 1 if trust.ended_early(document) else RUNS)
        return verdict, advice(evidence, verdict)
    except IMPOSSIBLE:
        return None


def _first(limits: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], tuple[str, bool]]:
    """Of each kind of I/O the first limit, and whether it is decided."""
    ranked = tell.by_class(limits)
    return {
        where: (str(of[0]["kind"]), float(of[0].get("confidence") or 0.0) >= tell.DECIDED)
        for where, of in ranked.items()
    }


def _of_cells(document: Document) -> Answer:
    """What the cells say: the model has an explanation, and no experiment tested it."""
    try:
        found = any_run.verdict(document)
    except IMPOSSIBLE:
        found = Verdict()
    limits = [limit.document() for limit in found.limits]
    open_ = [question(each, _url(document)) for each in found.open]
    brief = brief_of(document, limits, open_, predict=False)
    limits = trust.lowered(limits, trust.doubts(document))
    return Answer(document, "cells", limits, open_, any_run.advice(document), [_ladder_command(document)], brief)


def _next(document: Document, open_: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Experiments for what is open, the cheapest first; a longer ladder where its time ran out."""
    ready = sorted((found for found in open_ if found.get("command")), key=lambda found: found.get("costs_ns") or 0)
    commands = {str(found["command"]): f"{found['experiment']}: {_either(found)}" for found in ready}
    ladder = document.get("ladder")
    if ladder and ladder["stopped"] in ("budget", "slow"):
        minutes = max(2 * int(document_budget_ns(document)) // 60_000_000_000, 5)
        commands[f"naslab run {_target(document)} --budget {minutes}m"] = "the steps that did not fit into the budget"
    return list(commands.items())


def document_budget_ns(document: Document) -> int:
    """Of the whole run: the ladder gets a part of it."""
    return int(document["ladder"]["budget_ns"] / 0.6)


def _either(found: Mapping[str, Any]) -> str:
    return " or ".join(map(tell.kind_name, found["between"]))


def _ladder_command(document: Document) -> tuple[str, str]:
    return f"naslab run {_target(document)}", "the ladder: limits with evidence, in five minutes"


def _target(document: Document) -> str:
    return shlex.quote(_url(document))


def _url(document: Document) -> str:
    return str(document["target"].get("url") or "TARGET")
