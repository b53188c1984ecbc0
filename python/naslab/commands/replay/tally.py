"""What a replay does of a trace, counted by kind of operation: nothing is left out without a word."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

KINDS = (
    "open", "create", "close", "read", "write", "flush", "stat", "readdir", "mkdir", "rmdir", "remove", "rename",
    "link", "truncate",
)  # fmt: skip


class Tally:
    """Counts of a conversion.

    trace: operations of the trace by kind. planned: steps of the script by kind. skipped: by (kind, reason).
    instead: by (kind of the trace, kind of the step, reason). added: steps that the trace has not, by (kind, reason).
    """

    def __init__(self) -> None:
        self.trace: Counter[str] = Counter()
        self.planned: Counter[str] = Counter()
        self.skipped: Counter[tuple[str, str]] = Counter()
        self.instead: Counter[tuple[str, str, str]] = Counter()
        self.added: Counter[tuple[str, str]] = Counter()

    def expected(self) -> Counter[str]:
        """Steps by kind as they follow from the trace and what is told about it; must be `planned`."""
        expected = Counter(self.trace)
        for (kind, _), count in self.skipped.items():
            expected[kind] -= count
        for (kind, other, _), count in self.instead.items():
            expected[kind] -= count
            expected[other] += count
        for (kind, _), count in self.added.items():
            expected[kind] += count
        return +expected

    def document(self, issued: Mapping[str, int]) -> dict[str, Any]:
        """The counts for the run document. issued: operations that the engine carried out, by kind."""
        expected = self.expected()
        skipped, instead = _sums(self.skipped), _sums(self.instead)
        rows = [
            {
                "kind": kind, "trace": self.trace[kind], "skipped": skipped[kind], "instead": instead[kind],
                "expected": expected[kind], "issued": issued.get(kind, 0),
            }
            for kind in KINDS
            if self.trace[kind] or expected[kind] or issued.get(kind, 0)
        ]  # fmt: skip
        return {
            "operations": rows,
            "equal": all(row["expected"] == row["issued"] for row in rows),
            "skipped": [{"kind": k, "reason": why, "count": n} for (k, why), n in sorted(self.skipped.items())],
            "instead": [
                {"kind": k, "as_kind": other, "reason": why, "count": n}
                for (k, other, why), n in sorted(self.instead.items())
            ],
            "added": [{"kind": k, "reason": why, "count": n} for (k, why), n in sorted(self.added.items())],
        }


def _sums(counts: Counter[Any]) -> Counter[str]:
    """By the first part of the key."""
    found: Counter[str] = Counter()
    for key, count in counts.items():
        found[key[0]] += count
    return found
