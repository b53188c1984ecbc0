"""The report room: one self-contained HTML file from stored runs. It never measures.

`write` saves the page, `render` gives its text. Pictures are Plotly's, bundled from its package; the page
needs no network and asks for none.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from naslab.render.report.drawing import PLAIN, Drawing

if TYPE_CHECKING:
    from naslab.comparison.judgement import Comparison
    from naslab.results.run import Run

__all__ = ["Drawing", "render", "write", "write_comparison"]


def render(runs: list[Run], drawing: Drawing = PLAIN) -> str:
    """The report of one run, or of several side by side, as HTML text. drawing: reference lines, limits of axes.

    Raises UsageError without a run, or when the `plotly` package is not installed.
    """
    from naslab.render.report.page import page

    return page(runs, drawing=drawing)


def write(runs: list[Run], path: str | os.PathLike[str], drawing: Drawing = PLAIN) -> Path:
    """Write the report to `path`, whole or not at all, and return the path. An existing report is replaced.

    Raises UsageError as `render` does, and for a file there that is no report of naslab; StoreError when it cannot be
    written.
    """
    return write_text(render(runs, drawing), Path(path))


def write_comparison(sides: Sequence[Sequence[Run]], comparisons: Sequence[Comparison], path: Path) -> Path:
    """The report of all runs with the comparisons first. Raises as `write` does."""
    from naslab.render.report.page import page

    return write_text(page([run for side in sides for run in side], comparisons), path)


def write_text(text: str, target: Path) -> Path:
    """The same for a page that is rendered already."""
    from naslab.text.outputs import HTML, write_output

    return write_output(text, target, "-o", HTML)
