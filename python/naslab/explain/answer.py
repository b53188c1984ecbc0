"""What `naslab explain` knows of a stored run: its verdict, what the verdict rests on, and what to do next."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from naslab.explain import tell

Document = Mapping[str, Any]


@dataclass(frozen=True)
class Answer:
    """basis: a ladder, or what the cells alone say. limits, open, advice: as in the run document.

    next_commands: (command, what it would bring), the cheapest first.
    """

    document: Document
    basis: Literal["ladder", "cells"]
    limits: list[dict[str, Any]]
    open: list[dict[str, Any]]
    advice: list[str]
    next_commands: list[tuple[str, str]]

    def part(self) -> dict[str, Any]:
        """For `--json`."""
        return {
            "basis": self.basis, "sentences": self.sentences(), "open": self.open, "advice": self.advice,
            "next": [{"command": command, "brings": brings} for command, brings in self.next_commands],
        }  # fmt: skip

    def sentences(self) -> list[str]:
        """The verdict, a sentence for each limit."""
        told = tell.sentences({"verdict": {"limits": self.limits}, "ladder": self.document.get("ladder")})
        return told or ["Nothing in this run says what limits the target."]


def answer(document: Document) -> Answer:
    """Explains a run: the stored verdict; that of today's model where a ladder has none; else what its cells say."""
    ladder = document.get("ladder")
    stored = list((document.get("verdict") or {}).get("limits") or [])
    if ladder is None and not stored:
        return _of_cells(document)
    if ladder is not None and not stored:
        stored = _judged(ladder)
    open_ = list(ladder["open"]) if ladder else []
    advice = list(ladder.get("advice") or []) if ladder else []
    return Answer(document, "ladder", stored, open_, advice, _next(document, open_))


def _of_cells(document: Document) -> Answer:
    """What the cells say: the model has an explanation, and no experiment tested it."""
    from naslab.explain import any_run, outcome

    found = any_run.verdict(document)
    url = str(document["target"].get("url") or "TARGET")
    limits = [limit.document() for limit in found.limits]
    open_ = [outcome.question(each, url) for each in found.open]
    return Answer(document, "cells", limits, open_, any_run.advice(document), [_ladder_command(document)])


def _judged(ladder: Mapping[str, Any]) -> list[dict[str, Any]]:
    from naslab.explain.outcome import verdict_of

    return [limit.document() for limit in verdict_of(ladder).limits]


def _next(document: Document, open_: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Experiments for what is open, the cheapest first; a longer ladder where its time ran out."""
    ready = sorted((found for found in open_ if found.get("command")), key=lambda found: found.get("costs_ns") or 0)
    commands = {str(found["command"]): f"{found['experiment']}: {_either(found)}" for found in ready}
    ladder = document.get("ladder")
    if ladder and ladder["stopped"] in ("budget", "slow"):
        minutes = max(2 * int(document_budget_ns(document)) // 60_000_000_000, 5)
        commands[f"naslab run {_target(document)} --budget {minutes}m"] = "the steps that the budget left out"
    return list(commands.items())


def document_budget_ns(document: Document) -> int:
    """Of the whole run: the ladder gets a part of it."""
    return int(document["ladder"]["budget_ns"] / 0.6)


def _either(found: Mapping[str, Any]) -> str:
    return " or ".join(map(tell.kind_name, found["between"]))


def _ladder_command(document: Document) -> tuple[str, str]:
    return f"naslab run {_target(document)}", "the attribution ladder: limits with evidence, in five minutes"


def _target(document: Document) -> str:
    return shlex.quote(str(document["target"].get("url") or "TARGET"))
