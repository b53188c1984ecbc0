"""Does `naslab run` name the limit that was planted? Every system of `planted_systems`, judged by the command alone.

A single limit: in every class in which it is the limit, it has to be named first. Two close ones: both named, or the
result undecided; one of them alone with certainty, or another one, is a miss. On no list: `unknown` first.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from truth.asking import BUDGET, TOGETHER, Answer, run_command, toml_of
from truth.planted_ceilings import Class
from truth.planted_systems import Planted, System, draw

RIGHT, UNDECIDED, FIGURES = 0.95, 0.20, 0.95
"""Least share of single limits named first; most undecided; least share of figures within their bars."""
CERTAIN = 0.7
"""From this confidence on a limit is a statement; below it is a guess among others."""
NOTHING = "(none)"
_KEPT = ("kind", "applies_to", "confidence", "value", "ci95")
Limits = Sequence[Mapping[str, Any]]
Outcome = dict[str, Any]


@dataclass(frozen=True)
class Judged:
    """One system's outcome. named: the first kind of each class. figures: (what, planted, found or None, within)."""

    system: System
    answer: Answer
    outcome: str
    named: Mapping[Class, str]
    undecided: bool
    figures: Sequence[tuple[Planted, float | None]] = field(default_factory=tuple)

    @property
    def right(self) -> bool:
        """Whether it counts as a hit."""
        return self.outcome in ("right", "both", "undecided")

    def row(self) -> dict[str, Any]:
        """For the JSON document."""
        limits = (self.answer.document or {}).get("verdict", {}).get("limits", [])
        return {
            "system": self.system.name, "group": self.system.group, "planted": list(self.system.kinds),
            "what": self.system.what, "options": dict(self.system.options), "outcome": self.outcome,
            "named": {" ".join(where): kind for where, kind in self.named.items()}, "undecided": self.undecided,
            "limits": [{name: found[name] for name in _KEPT} for found in limits],
            "figures": [
                {"name": p.name, "planted": p.value, "found": found, "within": p.within, "holds": holds(p, found)}
                for p, found in self.figures
            ],
            "cpu_s": round(self.answer.cpu_s, 2), "wall_s": round(self.answer.wall_s, 2), "error": self.answer.error,
            "spent_virtual_s": spent_s(self.answer),
        }  # fmt: skip


# Running.


def spent_s(answer: Answer) -> float | None:
    """Seconds of the server's own time that the ladder took."""
    spent = ((answer.document or {}).get("ladder") or {}).get("spent_ns")
    return None if spent is None else round(spent / 1e9, 1)


def ask(system: System, folder: Path) -> Answer:
    """`naslab run` on a system. The file's name tells nothing, and the ladder never reads the configuration."""
    path = folder / f"{system.name}.toml"
    path.write_text(toml_of(system.options))
    return run_command(f"sim:{path}", BUDGET, folder / f"{system.name}.sqlite")


# Judging.


def judge(system: System, answer: Answer) -> Judged:
    """Holds an answer against what was planted."""
    document = answer.document or {}
    limits = (document.get("verdict") or {}).get("limits") or []
    if not limits:
        return Judged(system, answer, "failed" if answer.error else "no verdict", {}, False)
    named = {where: first_of(limits, where) for where in system.classes}
    undecided = any(is_undecided(document, limits, where) for where in system.classes)
    if system.group == "pair":
        outcome = _pair_outcome(system, document, limits)
    else:
        outcome = "right" if all(kind == system.kinds[0] for kind in named.values()) else "wrong"
    figures = [(p, figure(document, limits, system, p)) for p in system.figures] if outcome == "right" else []
    return Judged(system, answer, outcome, named, undecided, figures)


def of_class(limits: Limits, where: Class) -> list[Mapping[str, Any]]:
    """The limits of one class, in their order."""
    return [found for found in limits if (found["applies_to"]["op"], found["applies_to"]["size"]) == where]


def first_of(limits: Limits, where: Class) -> str:
    """The kind that is named first."""
    found = of_class(limits, where)
    return str(found[0]["kind"]) if found else NOTHING


def is_undecided(document: Mapping[str, Any], limits: Limits, where: Class) -> bool:
    """Whether a class was left open: no limit is certain, or a question is."""
    found = of_class(limits, where)
    questions = (document.get("ladder") or {}).get("open") or []
    applies = {"op": where[0], "size": where[1]}
    asked = any(question.get("applies_to") == applies for question in questions)
    return not found or asked or float(found[0]["confidence"]) < CERTAIN


def _pair_outcome(system: System, document: Mapping[str, Any], limits: Limits) -> str:
    where = system.classes[0]
    named = {str(found["kind"]) for found in of_class(limits, where)}
    if set(system.kinds) <= named:
        return "both"
    if is_undecided(document, limits, where):
        return "undecided"
    return "one of two" if first_of(limits, where) in system.kinds else "wrong"


def figure(document: Mapping[str, Any], limits: Limits, system: System, planted: Planted) -> float | None:
    """What the document says of a planted figure; None where it says nothing."""
    if planted.name == "value":
        found = [each for each in of_class(limits, system.classes[0]) if each["kind"] == system.kinds[0]]
        return float(found[0]["value"]) if found else None
    ladder = document.get("ladder") or {}
    model = ladder.get("model") or {}
    places = (model, model.get("burst") or {}, (ladder.get("conditions") or {}).get("burst") or {})
    for place in places:
        value = place.get(planted.name)
        value = value.get("value") if isinstance(value, Mapping) else value
        if value is not None:
            return float(value)
    return None


def holds(planted: Planted, found: float | None) -> bool:
    """Whether a figure lies within its bar."""
    return found is not None and abs(found / planted.value - 1) <= planted.within


# All of it.


def measure(systems: Sequence[System], told: Callable[[Judged], None] = lambda _: None) -> list[Judged]:
    """All systems, some at a time; their figures are in virtual time, so they do not disturb each other."""
    with tempfile.TemporaryDirectory(prefix="naslab-truth-") as name, ThreadPoolExecutor(TOGETHER) as pool:

        def one(system: System) -> Judged:
            judged = judge(system, ask(system, Path(name)))
            told(judged)
            return judged

        return list(pool.map(one, systems))


def matrix(judged: Iterable[Judged]) -> dict[str, Counter[str]]:
    """What was planted against what was named first, each class of each system with one limit a count."""
    table: dict[str, Counter[str]] = {}
    for each in judged:
        if each.system.group != "pair":
            row = table.setdefault(each.system.kinds[0], Counter())
            row.update(each.named.get(where, NOTHING) for where in each.system.classes)
    return table


def shares(judged: Sequence[Judged]) -> dict[str, tuple[int, int]]:
    """(hits, of) of each demand."""
    by_group = {group: [j for j in judged if j.system.group == group] for group in ("single", "pair", "unlisted")}
    found = {group: (sum(j.right for j in each), len(each)) for group, each in by_group.items()}
    known = by_group["single"] + by_group["pair"]
    found["undecided"] = (sum(j.undecided for j in known), len(known))
    figures = [holds(p, value) for j in judged for p, value in j.figures]
    found["figures"] = (sum(figures), len(figures))
    return found


def demands(judged: Sequence[Judged]) -> list[tuple[str, bool, str]]:
    """Each demand: its name, whether it is met, and in words."""
    rate = {name: (hits / of if of else 1.0, hits, of) for name, (hits, of) in shares(judged).items()}

    def line(name: str, words: str, met: bool, bar: str) -> tuple[str, bool, str]:
        _, hits, of = rate[name]
        return name, met, f"{words}: {hits} of {of} ({bar})"

    return [
        line("single", "one limit, named first", rate["single"][0] >= RIGHT, "at least 95 %"),
        line("pair", "two close limits, both named or undecided", rate["pair"][0] >= 1.0, "all"),
        line("unlisted", "on no list, ends as unknown", rate["unlisted"][0] >= 1.0, "all"),
        line("undecided", "undecided", rate["undecided"][0] <= UNDECIDED, "at most 20 %"),
        line("figures", "figures within their bars", rate["figures"][0] >= FIGURES, "at least 95 %"),
    ]


def figures(seed: int, part: int | None = None, told: Callable[[Judged], None] = lambda _: None) -> Outcome:
    """The table of all systems of a seed, or of `part` of them spread over all; ok: every demand is met."""
    systems = draw(seed)
    if part:
        systems = systems[:: max(len(systems) // part, 1)][:part]
    judged = measure(systems, told)
    met = demands(judged)
    return {
        "rows": [j.row() for j in judged], "ok": all(ok for _, ok, _ in met),
        "summary": [f"{'ok  ' if ok else 'MISS'} {words}" for _, ok, words in met],
        "matrix": {kind: dict(row) for kind, row in matrix(judged).items()},
    }  # fmt: skip
