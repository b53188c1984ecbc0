"""`naslab compare history`: the run where a target changed."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path

from naslab.comparison.history import as_document, courses
from naslab.comparison.history_words import text_of
from naslab.errors import UsageError
from naslab.exchange.redact import store_for
from naslab.text.outputs import HTML, check_output


@dataclass(frozen=True)
class Request:
    """target, label: text that the target's name and the labels contain. command: of the runs; empty: all. redact:
    nothing that is told names anybody."""

    target: str
    label: str
    command: str
    output: Path | None
    store: Path | None
    as_json: bool
    redact: bool = False


def run_history(request: Request) -> int:
    """Prints each course of the target's runs. Raises UsageError when there is no run of it."""
    if request.output is not None:
        check_output(request.output, "-o", HTML)
    store = store_for(request.store, request.redact)
    listed = store.list_runs(label=request.label or None, target=request.target)
    documents = [store.load(run.run_id).document for run in listed if request.command in ("", run.command)]
    found = courses(documents)
    if not found:
        raise UsageError(
            f"compare history {request.target!r}: no two stored runs of it measured the same; `naslab runs` lists all"
        )
    if request.as_json:
        json.dump({"schema": 1, "courses": [as_document(course) for course in found]}, sys.stdout)
        print()
    else:
        print("\n\n".join(text_of(course) for course in found))
    if request.output is not None:
        from naslab.render.report import history as page

        print(f"Report: {page.write(found, request.output).resolve()}", file=sys.stderr)
    return 0
