"""What a verdict is made of: limits with their probabilities, and what is open."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from naslab.explain.ceilings import CLASSES
from naslab.explain.points import Figure

__all__ = ["CLASSES", "Limit", "Question", "Verdict", "Where"]

Where = tuple[str, str]
"""A kind of I/O: operation and size."""


@dataclass(frozen=True)
class Limit:
    """What limits one kind of I/O. confidence: its probability. value: the ceiling it sets.

    modelled: the value follows from the fitted model alone; beside: then what was measured of this kind of I/O.
    """

    kind: str
    op: str
    size: str
    confidence: float
    value: Figure
    evidence: str
    modelled: bool = False
    beside: Figure | None = None

    def document(self) -> dict[str, Any]:
        """As in a run's verdict."""
        measured = {"measured": self.beside.value if self.beside else None} if self.modelled else {}
        return {
            "kind": self.kind, "applies_to": {"op": self.op, "size": self.size},
            "confidence": round(self.confidence, 2), **self.value.document(), **measured, "evidence": self.evidence,
        }  # fmt: skip


@dataclass(frozen=True)
class Question:
    """Two explanations that the evidence does not tell apart. step: of the ladder, that would, measured longer."""

    op: str
    size: str
    between: tuple[str, str]
    step: str
    why: str


@dataclass
class Verdict:
    """Limits by class, the most probable first, and what is open."""

    limits: list[Limit] = field(default_factory=list)
    open: list[Question] = field(default_factory=list)

    def of(self, op: str, size: str) -> list[Limit]:
        """The limits of one kind of I/O."""
        return [limit for limit in self.limits if (limit.op, limit.size) == (op, size)]
