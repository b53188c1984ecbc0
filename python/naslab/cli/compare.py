"""`naslab compare`: stored runs against each other."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from naslab.cli.common import Common
from naslab.cli.interleave import Plan, run_interleaved
from naslab.comparison import document, words
from naslab.comparison import why as whys
from naslab.comparison.judgement import Comparison, compare
from naslab.errors import INTERRUPTED, UsageError
from naslab.exchange.references import load
from naslab.results.cell_names import op_words
from naslab.results.store import Store
from naslab.text.outputs import HTML, check_output

if TYPE_CHECKING:
    from naslab.results.run import Run

UNDECIDED = 4
"""Exit code: no verdict, or an undecided one (DESIGN.md section 4)."""
SHOWN_ROWS = 24


@dataclass(frozen=True)
class Request:
    """What was asked for. runs: each a run, or several of one target with commas between them; the first is the
    baseline. margin_percent: of rates. every_row: all measurements instead of the telling ones. why: name the step of
    the ladder at which they part. redact: nothing that is told names anybody."""

    runs: Sequence[str]
    margin_percent: float
    every_row: bool
    output: Path | None
    store: Path | None
    as_json: bool
    why: bool = False
    redact: bool = False


def compare_stored(request: Request) -> int:
    """`naslab compare RUN RUN...`. Raises UsageError, UnknownRunError."""
    return code_of(tell_all(*load_sides(request), request))


def load_sides(request: Request) -> tuple[list[list[Run]], list[str]]:
    """The runs of each side, and the sides' names. Raises UsageError, UnknownRunError."""
    _check(request)
    store = Store(request.store)
    sides = [[load(store, name) for name in _names(text)] for text in request.runs]
    _distinct(sides)
    return sides, labels_of(sides)


def compare_measured(request: Request, plan: Plan, common: Common) -> int:
    """`naslab compare --run TARGET TARGET...`. Raises what `run_interleaved` does."""
    _check(request)
    if request.why:
        raise UsageError("--why compares the ladders of stored runs (naslab run TARGET); leave out --run and name them")
    runs = run_interleaved(plan, common)
    code = code_of(tell_all([[run] for run in runs], list(plan.targets), request))
    failed = any(run.document["status"] == "failed" for run in runs)
    interrupted = any(found["kind"] == "interrupted" for run in runs for found in run.document["warnings"])
    return INTERRUPTED if interrupted else 1 if failed else code


def _check(request: Request) -> None:
    if len(request.runs) < 2:
        raise UsageError("compare: give at least two runs, the baseline first")
    if not 0.1 <= request.margin_percent <= 100:
        raise UsageError(f"--margin {request.margin_percent:g}: give a percentage from 0.1 to 100")
    if request.output is not None:
        check_output(request.output, "-o", HTML)


def tell_all(sides: Sequence[Sequence[Run]], labels: Sequence[str], request: Request) -> list[Comparison]:
    """Compares the first side with each other one, prints it, and writes the report."""
    if request.redact:
        sides = _redacted(sides)
        labels = labels_of(sides)
    found = [
        compare(
            [run.document for run in sides[0]],
            [run.document for run in side],
            (labels[0], label),
            request.margin_percent / 100,
        )
        for side, label in zip(sides[1:], labels[1:], strict=True)
    ]
    if request.why:
        ours, *others = [[run.document for run in side] for side in sides]
        found = [
            dataclasses.replace(each, why=whys.why(ours, other, each.names))
            for each, other in zip(found, others, strict=True)
        ]
    if request.as_json:
        runs = [run.document for side in sides for run in side]
        json.dump({"schema": 1, "runs": runs, "comparisons": [document.of(each) for each in found]}, sys.stdout)
        print()
    else:
        print("\n".join(text_of(each, request.every_row) for each in found), end="")
    if request.output is not None:
        from naslab.render.report import write_comparison

        print(f"Report: {write_comparison(sides, found, request.output).resolve()}", file=sys.stderr)
    return found


def _redacted(sides: Sequence[Sequence[Run]]) -> list[list[Run]]:
    """The sides without names; the same server has one name in all of them."""
    from naslab.exchange.redact import Names, redact

    names = Names()
    return [[redact(run, names) for run in side] for side in sides]


def code_of(found: Sequence[Comparison]) -> int:
    """0, or 4 when one is undecided."""
    return UNDECIDED if any(each.verdict == "undecided" for each in found) else 0


def text_of(comparison: Comparison, every_row: bool) -> str:
    """The comparison for a terminal: the sentence, what makes it doubtful, then the telling measurements."""
    from naslab.render.terminal.show import columns_of, render

    lines = [words.sentence(comparison)]
    if comparison.why is not None:
        lines += [f"  {said}" for said in whys.sentences(comparison.why, comparison.names)]
    lines += [f"  {said}" for said in comparison.says]
    lines += [f"  note: {doubt.message}" for doubt in comparison.doubts]
    if len(comparison.by_op) > 1:
        lines += [f"  {op_words(op)}: {words.interval(found)} {found.verdict or ''}".rstrip()
                  for op, found in comparison.by_op.items()]  # fmt: skip
    rows = comparison.rows if every_row else words.telling(comparison.rows, SHOWN_ROWS)
    text = "\n".join(lines) + "\n"
    if rows:
        text += "\n" + render([words.table(comparison, rows)], columns_of(None), None)
    if len(rows) < len(comparison.rows):
        text += f"{len(rows)} of {len(comparison.rows)} measurements are shown; --all shows every one\n"
    return text


def _names(text: str) -> list[str]:
    names = [name for name in text.split(",") if name]
    if not names:
        raise UsageError(f"compare {text!r}: name a run: its id, a unique beginning of it, last, or a file")
    return names


def _distinct(sides: Sequence[Sequence[Run]]) -> None:
    """No run on two sides. Raises UsageError."""
    seen: set[str] = set()
    for side in sides:
        for run in side:
            if run.run_id in seen:
                raise UsageError(f"compare: run {run.run_id} is named twice; a run cannot be compared with itself")
            seen.add(run.run_id)


def labels_of(sides: Sequence[Sequence[Run]]) -> list[str]:
    """A short name of each side, distinct: its first run's."""
    from naslab.render.report.model import run_label

    firsts = [side[0] for side in sides]
    return [run_label(run, firsts) for run in firsts]
