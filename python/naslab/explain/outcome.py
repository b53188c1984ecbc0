"""What a ladder leaves with the run: its steps and figures, the verdict, advice, the fitted model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from naslab.explain import fitted
from naslab.explain.advice import advice
from naslab.explain.conclusion import conclude
from naslab.explain.evidence import Evidence, memory_gap
from naslab.explain.experiment import experiment
from naslab.explain.inference import RUNS
from naslab.explain.limits import Question, Verdict
from naslab.explain.points import Point
from naslab.explain.says import says
from naslab.explain.steps import STEP_NAMES
from naslab.units import size_label

if TYPE_CHECKING:
    from naslab.explain.climb import Climb


def parts(climb: Climb) -> dict[str, Any]:
    """`ladder` and `verdict` of the run's document."""
    climb.evidence.memory_bytes = memory_gap(climb.evidence)
    whole = climb.execution.status == "complete"
    verdict = conclude(climb.evidence, RUNS if whole else 1)
    ladder = {
        "steps": [
            {**step_part(name, found), "says": says(name, climb.evidence)}
            for name, found in climb.evidence.points.items()
            if found
        ],
        "aside": [point.document() for point in climb.evidence.aside],
        "conditions": climb.evidence.document(),
        "open": [question(found, climb.execution.document["target"]["url"]) for found in verdict.open],
        "advice": advice(climb.evidence, verdict),
        "model": fitted.document_of(climb.evidence, RUNS if whole else 1),
        "spent_ns": climb.spent_ns(),
        "budget_ns": climb.budget.limit_ns,
        "stopped": "failed" if climb.execution.status == "failed" else climb.stopped,
    }
    return {"ladder": ladder, "verdict": {"limits": [limit.document() for limit in verdict.limits]}}


def step_part(name: str, points: Sequence[Point]) -> dict[str, Any]:
    """One step: its points whole, and their rates under names that people read."""
    return {
        "name": name, "title": STEP_NAMES.get(name, name), "cells": [p.cell for p in points],
        "points": [p.document() for p in points], "figures": {key: value for p in points for key, value in figures(p)},
    }  # fmt: skip


def figures(point: Point) -> list[tuple[str, dict[str, Any]]]:
    """A point's rate, and its time per request where one was in flight."""
    name = label(point)
    found = [(name, point.rate.document())]
    if point.depth * point.workers == 1 and point.p50_ns:
        time = {"value": point.p50_ns, "unit": "ns", "ci95": [point.p50_ns, point.p50_ns]}
        found.append((f"{name}: time of one", time))
    return found


def label(point: Point) -> str:
    """`random read 4 KiB, depth 32, 2 connections`."""
    word = f"{'random ' if point.random else ''}{point.op}"
    more = [f"depth {point.depth}"]
    if point.workers > 1:
        more.append(f"{point.workers} connections" + (" on one file" if point.files == 1 else ""))
    if point.durability == "each":
        more.append("each durable")
    if point.set_bytes > 4 << 20:
        more.append(f"set of {size_label(point.set_bytes)}")
    return f"{word} {size_label(point.record_bytes)}, {', '.join(more)}"


def question(found: Question, url: str) -> dict[str, Any]:
    """An open question, with what would settle it. url: the target's."""
    return {
        "applies_to": {"op": found.op, "size": found.size}, "between": list(found.between), "why": found.why,
        **experiment(found.step, found.size, url),
    }  # fmt: skip


def verdict_of(ladder: Mapping[str, Any]) -> Verdict:
    """The verdict from a stored ladder, by today's model."""
    return conclude(Evidence.from_document(ladder))
