"""Commands that read the store; none of them measures."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from naslab.errors import UsageError
from naslab.exchange.references import load
from naslab.text.outputs import HTML, check_output

if TYPE_CHECKING:
    from naslab.render.report.drawing import Drawing


def _print_json(value: Any) -> int:
    json.dump(value, sys.stdout)
    print()
    return 0


def list_runs(label: str, target: str, limit: int, store: Path | None, as_json: bool, redact: bool = False) -> int:
    """`naslab runs`."""
    from naslab.exchange.redact import store_for
    from naslab.render.terminal.show import list_runs_text

    opened = store_for(store, redact)
    found = opened.list_runs(limit, label or None, target or None)
    if as_json:
        return _print_json({"schema": 1, "runs": [opened.load(run.run_id).document for run in found]})
    print(list_runs_text(found), end="")
    return 0


def show_one(reference: str, store: Path | None, as_json: bool, redact: bool = False) -> int:
    """`naslab show`."""
    from naslab.exchange.redact import store_for
    from naslab.render.terminal.show import folded, show_run

    run = load(store_for(store, redact), reference)
    if as_json:
        return _print_json(run.document)
    print(show_run(run))
    for sentence in run.document.get("summary") or []:
        print(folded(sentence))
    return 0


def show_spec(reference: str, store: Path | None) -> int:
    """`naslab show --spec`. Raises UsageError for a run without one, UnknownRunError."""
    from naslab.results.store import Store

    kept = Store(store)
    run_id = kept.resolve(reference)
    spec = kept.spec(run_id)
    if spec is None or not spec.get("cells"):
        raise UsageError(f"--spec: {run_id} has no plan, as it was imported; name a run that naslab measured")
    return _print_json(spec)


def write_report(
    references: list[str],
    output: Path,
    store: Path | None,
    drawing: Drawing,
    redact: bool = False,
    one_page: bool = False,
) -> int:
    """`naslab report`. one_page: for print; a file that is no HTML is always that."""
    from naslab.exchange.redact import store_for
    from naslab.render.report import one_page as page
    from naslab.render.report import write

    opened = store_for(store, redact)
    if one_page or output.suffix.lower() in (".svg", ".png"):
        page.check(output)
        path = page.write([load(opened, reference) for reference in references], output, drawing)
    else:
        check_output(output, "-o", HTML)
        path = write([load(opened, reference) for reference in references], output, drawing)
    print(f"Report: {path.resolve()}")
    return 0
