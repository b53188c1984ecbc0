"""The report room: one self-contained HTML file from stored runs. It never measures.

`write` saves the page, `render` gives its text. Pictures are Plotly's, bundled from its package; the page
needs no network and asks for none.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from naslab.report.drawing import PLAIN, Drawing

if TYPE_CHECKING:
    from naslab.results.run import Run

__all__ = ["Drawing", "render", "write"]


def render(runs: list[Run], drawing: Drawing = PLAIN) -> str:
    """The report of one run, or of several side by side, as HTML text. drawing: reference lines, limits of axes.

    Raises UsageError without a run, or when the `plotly` package is not installed.
    """
    from naslab.report.page import page

    return page(runs, drawing=drawing)


def write(runs: list[Run], path: str | os.PathLike[str], drawing: Drawing = PLAIN) -> Path:
    """Write the report to `path`, whole or not at all, and return the path. An existing file is replaced.

    Raises UsageError as `render` does, and when the file cannot be written there.
    """
    return write_text(render(runs, drawing), Path(path))


def write_text(text: str, target: Path) -> Path:
    """The same for a page that is rendered already."""
    from naslab.errors import UsageError

    temporary = None
    try:
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=target.parent, suffix=".tmp", delete=False) as file:
            temporary = Path(file.name)
            file.write(text)
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)
        temporary.replace(target)
    except OSError as error:
        if temporary is not None:
            temporary.unlink(missing_ok=True)
        raise UsageError(f"-o {target}: the report cannot be written there: {error.strerror or error}") from error
    return target
