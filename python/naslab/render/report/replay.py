"""The table of `naslab replay` in the report: operations of the trace and of the replay, kind by kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from naslab.analysis.replayed import HEADER, rows
from naslab.render.report.labels import esc, op_label, text_table

if TYPE_CHECKING:
    from naslab.results.run import Run


def section(runs: Sequence[tuple[str, Run]]) -> str:
    """The tables as HTML; empty without a run of a replay that got to its load. runs: (name, run)."""
    parts = []
    for name, run in runs:
        replay = run.document.get("replay")
        if replay and any(cell["workload"] == "replay" for cell in run.cells):
            head = f"<h3>{esc(name)}</h3>" if len(runs) > 1 else ""
            shown = [(op_label(kind), *rest) for kind, *rest in rows(run.document)]
            parts.append(head + text_table("Operations by kind", HEADER, shown))
    if not parts:
        return ""
    lead = "Operations in the trace and operations carried out; latency is that of one call."
    return (
        f'<section id="replay-table"><h2>Operations, kind by kind</h2><p class="lead">{esc(lead)}</p>'
        f"{''.join(parts)}</section>"
    )
