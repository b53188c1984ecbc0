"""Runs and cells as programs and notebooks have them: with a verdict, and with HTML of their own."""

from __future__ import annotations

from typing import ClassVar

from naslab.api.html import cell_html, run_html
from naslab.api.verdicts import Explanation, Verdict
from naslab.results import cell as cells
from naslab.results import run as stored


class Cell(cells.Cell):
    """A cell that shows itself in notebooks."""

    def _repr_html_(self) -> str:
        return cell_html(self)


class Run(stored.Run):
    """A run that knows what limits its target, and shows itself in notebooks."""

    cell_type: ClassVar[type[cells.Cell]] = Cell

    @classmethod
    def of(cls, run: stored.Run) -> Run:
        """The same run; its document and its raw data are not copied."""
        return run if isinstance(run, cls) else cls(run.document, run.blobs)

    def verdict(self) -> Verdict:
        """What limits the target, with probabilities, by today's model on what was measured.

        A run of `naslab run` or `naslab.measure` was made to tell limits apart; of any other run it is a first idea.
        """
        return self.explain().verdict

    def explain(self) -> Explanation:
        """The verdict with what to do and how far to trust it, as `naslab explain` tells it."""
        from naslab.explain.answer import answer

        return Explanation.of(answer(self.document))

    def _repr_html_(self) -> str:
        return run_html(self)
