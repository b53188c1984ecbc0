"""What limits the target of a run, as typed values: `Run.verdict()` and `Run.explain()`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from naslab.explain.answer import Answer

Operation = Literal["read", "write"]
Size = Literal["large", "small"]


@dataclass(frozen=True)
class Limit:
    """What limits one class of I/O.

    kind: `link`, `latency`, `server_cache`, `disk`, `disk_iops`, `burst_credit`, `client_cpu`, `client_nic`,
    `server_cpu`, `client_cache`, `protocol`, `source`, `shared_machine` or `unknown`. op, size: the class, e.g. `read`
    and `large`; empty where the limit names none. value: the rate that it allows, in `unit` (`bytes_per_s`, `iops` or
    `ns`). interval: of 95 % within the run, (low, high) in the same unit. probability: 0 to 1. name: the kind in words.
    """

    kind: str
    op: str
    size: str
    value: float | None
    unit: str | None
    interval: tuple[float, float] | None
    probability: float | None
    evidence: str

    @property
    def name(self) -> str:
        """The kind in words: `the network link`."""
        from naslab.explain import tell

        return tell.kind_name(self.kind)

    @property
    def io(self) -> str:
        """The class in words: `large reads`."""
        from naslab.explain import tell

        return tell.class_name(self.document())

    def document(self) -> dict[str, Any]:
        """As in the run's document."""
        return {
            "kind": self.kind, "applies_to": {"op": self.op, "size": self.size}, "confidence": self.probability,
            "value": self.value, "unit": self.unit, "ci95": list(self.interval) if self.interval else None,
            "evidence": self.evidence,
        }  # fmt: skip

    @classmethod
    def of(cls, limit: Mapping[str, Any]) -> Limit:
        """From the run's document."""
        where, interval = limit.get("applies_to") or {}, limit.get("ci95")
        return cls(
            str(limit["kind"]), str(where.get("op") or ""), str(where.get("size") or ""), limit.get("value"),
            limit.get("unit"), (interval[0], interval[1]) if interval else None, limit.get("confidence"),
            str(limit.get("evidence") or ""),
        )  # fmt: skip


@dataclass(frozen=True)
class Verdict:
    """What limits the target. limits: the most probable of each class first. sentences: the same in words.

    Iterates over its limits, and is false where nothing in the run says what limits the target.
    """

    run_id: str
    target: str
    limits: tuple[Limit, ...]
    sentences: tuple[str, ...]

    def __iter__(self) -> Iterator[Limit]:
        return iter(self.limits)

    def __len__(self) -> int:
        return len(self.limits)

    def of(self, op: Operation, size: Size) -> Limit | None:
        """The most probable limit of a class, e.g. `of("read", "large")`; None where none is named."""
        found = [limit for limit in self.limits if (limit.op, limit.size) == (op, size)]
        return max(found, key=lambda limit: limit.probability or 0.0, default=None)

    def __str__(self) -> str:
        return "\n".join(self.sentences)

    def _repr_html_(self) -> str:
        from naslab.api.html import verdict_html

        return verdict_html(self)


@dataclass(frozen=True)
class Explanation:
    """The verdict with what to do and how far to trust it, as `naslab explain` tells it.

    basis: `ladder` for loads chosen to tell limits apart (`naslab run`), `cells` for any other run, whose verdict is a
    first idea. advice: what to do. trust: what the verdict rests on, what is open, and what makes its numbers doubtful.
    next: (command line, what it would bring), the cheapest first.
    """

    verdict: Verdict
    basis: Literal["ladder", "cells"]
    advice: tuple[str, ...]
    trust: tuple[str, ...]
    next: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, found: Answer) -> Explanation:
        """From what `naslab explain` knows."""
        from naslab.explain.grounds import actions, grounds, sentences

        document = found.document
        verdict = Verdict(
            str(document["run_id"]), str(document["target"].get("url") or ""), tuple(map(Limit.of, found.limits)),
            tuple(sentences(found)),
        )  # fmt: skip
        return cls(verdict, found.basis, tuple(actions(found)), tuple(grounds(found)), tuple(found.next_commands))

    def __str__(self) -> str:
        parts = (
            ("", self.verdict.sentences), ("What to do", self.advice), ("How far to trust it", self.trust),
            ("Next", [f"{command}  ({brings})" for command, brings in self.next]),
        )  # fmt: skip
        told = ["\n".join([*filter(None, [head]), *texts]) for head, texts in parts if texts]
        return "\n\n".join(told)

    def _repr_html_(self) -> str:
        from naslab.api.html import explanation_html

        return explanation_html(self)
