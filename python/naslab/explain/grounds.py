"""An answer where there is room for more than ten lines: what it rests on, and the evidence of its limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from naslab.explain import brief_words, ladder_table, tell

if TYPE_CHECKING:
    from naslab.explain.answer import Answer


def actions(found: Answer) -> list[str]:
    """What to do, what helps most first."""
    return brief_words.sections(found.brief).actions or found.advice


def sentences(found: Answer) -> list[str]:
    """What limits the target, and whether that is normal."""
    parts = brief_words.sections(found.brief)
    return [*parts.bottlenecks, *([parts.normal] if parts.normal else [])]


def grounds(found: Answer) -> list[str]:
    """How far to trust the answer, what it rests on, what is open in it, and what makes its numbers doubtful."""
    document = found.document
    basis = (
        "The loads were chosen to separate the limits."
        if found.basis == "ladder"
        else "The loads of this run were not chosen to separate the limits: this is a first indication, to be tested."
    )
    open_ = [
        f"Open: {tell.class_name(each)}: {' or '.join(map(tell.kind_name, each['between']))}; {each['why']}"
        for each in found.open
    ]
    doubts = [each["message"] for each in [*(document.get("validity") or []), *(document.get("warnings") or [])]]
    ended = [f"The run ended as {document['status']}."] if document["status"] != "complete" else []
    took = [ladder_table.ended(document)] if document.get("ladder") else []
    first = brief_words.trust_sentence(found.brief)
    return list(dict.fromkeys([first, basis, *took, *ended, *open_, *map(str, doubts)]))


def evidence(limits: Sequence[Mapping[str, Any]]) -> list[str]:
    """A text for each reason, with the classes that it is given for."""
    reasons: dict[str, list[str]] = {}
    for ranked in tell.by_class(limits).values():
        for limit in ranked:
            reasons.setdefault(str(limit.get("evidence") or ""), []).append(tell.class_name(limit))
    return [f"{tell.joined(list(dict.fromkeys(who)))}: {why}" for why, who in reasons.items() if why]
