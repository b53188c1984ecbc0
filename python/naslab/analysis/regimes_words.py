"""The regimes of a run's cells as sentences, for summaries, tables and charts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Cell = Mapping[str, Any]
REGIME_WORDS = {
    "link": "at the link's rate",
    "latency": "waiting for round trips",
    "disk": "waiting for the disks",
    "server_cache": "at the rate of the server cache",
    "client_cache": "served by the client's own cache",
    "burst": "on burst credit",
    "baseline": "with burst credit spent",
    "above_link": "above the rate of the link",
    "mixed": "with no single bottleneck",
    "unknown": "unexplained",
}
"""What is said of cells of each regime."""


def sentences(cells: Sequence[Cell]) -> list[str]:
    """One sentence that counts the regimes; where most are unexplained, another that says what would tell.

    Cells whose load was offered at a rate are left out: that rate is no limit.
    """
    cells = [cell for cell in cells if not cell.get("offered_per_s")]
    told = _counts(cells)
    if not told:
        return []
    total, said = len(cells), example(cells, "unknown")
    if told == [("unknown", total)] and said:
        return [f"What limited {'it' if total == 1 else f'these {total} cells'} is not known: {said}."]
    if told[0][1] == total:
        whose = "The cell" if total == 1 else f"All {total} cells"
        out = [f"{whose} {REGIME_WORDS.get(told[0][0], told[0][0])}."]
    else:
        parts = [f"{count} {REGIME_WORDS.get(word, word)}" for word, count in told]
        out = [f"Of {total} cells, {', '.join(parts)}."]
    unknown = next((count for word, count in told if word == "unknown"), 0)
    if 2 * unknown >= total and said:
        out.append(f"Unexplained: {said}.")
    return out


def lines(cells: Sequence[Cell]) -> list[str]:
    """A line for each regime with its count and the evidence of one of its cells; without evidence none."""
    return [f"{word} ({count}): {said}" for word, count in _counts(cells) if (said := example(cells, word))]


def example(cells: Sequence[Cell], word: str) -> str | None:
    """The evidence of the cell of this regime that moved most."""
    of_word = [cell for cell in cells if cell["regime"] == word and cell.get("regime_evidence")]
    return max(of_word, key=lambda cell: cell["bytes"] or 0)["regime_evidence"] if of_word else None


def label(cell: Cell) -> str:
    """`link: evidence`; empty where nothing was named."""
    word, said = cell.get("regime"), cell.get("regime_evidence")
    return f"{word}: {said}" if word and said else str(word or "")


def _counts(cells: Iterable[Cell]) -> list[tuple[str, int]]:
    """Most cells first, the unexplained last."""
    counted = Counter(str(cell["regime"]) for cell in cells if cell.get("regime"))
    return sorted(counted.items(), key=lambda each: (each[0] == "unknown", -each[1], each[0]))
