"""`naslab explain RUN`: what limits a target, by a stored run. It measures nothing."""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from naslab.cli import options as o
from naslab.exchange.references import load
from naslab.explain import tell
from naslab.render.report import write
from naslab.text.screen import plain_table

if TYPE_CHECKING:
    from rich.console import RenderableType

    from naslab.explain.answer import Answer

NOT_SURE = "The loads of this run were not chosen to separate the limits: these are guesses."


def explain(
    run: o.RunArg = "last",
    output: Annotated[
        Optional[Path],  # noqa: UP045 - Typer reads this at run time
        typer.Option("--output", "-o", metavar="FILE", help="HTML file to write.", show_default=False),
    ] = None,
    redact: o.RedactOpt = False,
    store: o.StoreOpt = None,
    as_json: o.JsonOpt = False,
) -> int:
    """What limits a target, from a stored run: evidence, open questions, the next experiment, advice."""
    return explain_run(run, output, store, as_json, redact)


def explain_run(reference: str, output: Path | None, store: Path | None, as_json: bool, redact: bool = False) -> int:
    """`naslab explain`. Raises UsageError, UnknownRunError."""
    from naslab.exchange.redact import store_for
    from naslab.explain.answer import answer
    from naslab.text.outputs import HTML, check_output

    loaded = load(store_for(store, redact), reference)
    if output is not None:
        check_output(output, "-o", HTML)
    found = answer(loaded.document)
    if as_json:
        json.dump(document_of(found), sys.stdout)
        print()
    else:
        print(text_of(found), end="")
    if output is not None:
        loaded.document.update(document_of(found))
        written = write([loaded], output)
        print(f"Report: {written.resolve()}", file=sys.stderr)
    return 0


def document_of(found: Answer) -> Mapping[str, Any]:
    """The run document with the verdict and the answer as they are today, and the part `explanation`."""
    from naslab.explain.brief_words import document_of as answer_of

    answer = answer_of(found.brief)
    return {**found.document, "verdict": {"limits": found.limits}, "answer": answer, "explanation": found.part()}


def text_of(found: Answer, width: int | None = None) -> str:
    """The explanation for a terminal."""
    from naslab.render.terminal.show import columns_of, render

    columns = columns_of(width)
    return render(list(_parts(found, columns)), columns, None)


def _parts(found: Answer, columns: int) -> Iterator[RenderableType]:
    from rich.text import Text

    from naslab.explain import brief_words
    from naslab.render.terminal.show import in_middle

    document = found.document
    run = f" (run {document['run_id']})"
    target = in_middle(document["target"].get("url") or "the target", columns - len(f"What limits {run}"))
    yield Text(f"What limits {target}{run}", style="bold")
    yield ""
    for line in brief_words.lines(found.brief):
        yield Text(line)
    yield ""
    if found.said is not None and found.said.differs(found.limits):
        yield Text(f"Verdict of {found.said.by} on {found.said.at[:10]}: {' '.join(found.said.sentences())}")
        yield ""
    if found.basis == "cells" and found.limits:
        yield Text(NOT_SURE)
        yield ""
    if found.limits:
        yield from _limits(found, columns)
    yield from _open(found, columns)
    yield from _listed("What to do", found.advice, columns)
    yield from _listed("Caching on the client", found.cached(), columns)
    yield from _next(found.next_commands, columns)
    if document.get("ladder"):
        yield from _steps(document)


def _limits(found: Answer, columns: int) -> Iterator[RenderableType]:
    """The table of limits, then the reasons, each once."""
    from rich.text import Text

    table = plain_table(tell.HEADER, right=tell.HEADER[2:4], optional=tell.HEADER[3:4])
    for row in tell.rows(found.limits):
        table.add_row(*map(Text, row))
    yield table
    yield ""
    told: dict[str, list[str]] = {}
    for ranked in tell.by_class(found.limits).values():
        for limit in ranked:
            told.setdefault(str(limit.get("evidence") or ""), []).append(tell.class_name(limit))
    reasons = [f"{tell.joined(list(dict.fromkeys(who)))}: {why}" for why, who in told.items()]
    yield from _listed("Evidence", reasons, columns)


def _open(found: Answer, columns: int) -> Iterator[RenderableType]:

    yield from _listed(
        "Still open",
        [
            f"{tell.class_name(each)}: {' or '.join(map(tell.kind_name, each['between']))}; {each['why']}"
            for each in found.open
        ],
        columns,
    )


def _listed(head: str, lines: list[str], columns: int) -> Iterator[RenderableType]:
    """A heading, and a paragraph for each line; nothing without lines."""
    from rich.text import Text

    if not lines:
        return
    yield Text(head, style="bold")
    for line in dict.fromkeys(lines):
        yield Text("\n".join(_folded(line, columns, "  - ")), no_wrap=True)
    yield ""


def _next(commands: list[tuple[str, str]], columns: int) -> Iterator[RenderableType]:
    """Commands that a shell takes as they are printed (a backslash ends a line that goes on), and what they bring."""
    from rich.text import Text

    if not commands:
        return
    yield Text("Next", style="bold")
    for command, brings in dict.fromkeys(commands):
        yield Text(" \\\n".join(_folded(command, columns - len(" \\"), "  - ")), no_wrap=True)
        yield Text("\n".join(_folded(brings, columns, "    ")), no_wrap=True)
    yield ""


def _folded(text: str, columns: int, first: str) -> list[str]:
    """Lines of so many columns, broken between words; a longer word stays whole. first: before the first line."""
    return textwrap.wrap(
        text, columns, initial_indent=first, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False
    )


def _steps(document: Mapping[str, Any]) -> Iterator[RenderableType]:
    """The ladder: step, cells, best figure, what it says."""
    from rich.text import Text

    from naslab.explain import ladder_table
    from naslab.results.describe import typed
    from naslab.results.parts.ladder import Ladder

    yield Text("The ladder", style="bold")
    table = plain_table(ladder_table.HEADER)
    for row in ladder_table.rows(typed(document["ladder"], Ladder)):
        table.add_row(*map(Text, row))
    yield table
    yield Text(ladder_table.ended(document))
