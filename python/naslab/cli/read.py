"""Commands that read the store; none of them measures."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from naslab.cli.common import check_output
from naslab.store import Store


def _print_json(value: Any) -> int:
    json.dump(value, sys.stdout)
    print()
    return 0


def list_runs(label: str, target: str, limit: int, store: Path | None, as_json: bool) -> int:
    """`naslab runs`."""
    from naslab.show import list_runs_text

    opened = Store(store)
    found = opened.list_runs(limit, label or None, target or None)
    if as_json:
        return _print_json({"schema": 1, "runs": [opened.load(run.run_id).document for run in found]})
    print(list_runs_text(found), end="")
    return 0


def show_one(reference: str, store: Path | None, as_json: bool) -> int:
    """`naslab show`."""
    from naslab.show import show_run

    run = Store(store).load(reference)
    if as_json:
        return _print_json(run.document)
    print(show_run(run))
    for sentence in run.document.get("summary") or []:
        print(sentence)
    return 0


def write_report(references: list[str], output: Path, store: Path | None) -> int:
    """`naslab report`."""
    from naslab.report import write

    opened = Store(store)
    check_output(output, "-o")
    path = write([opened.load(reference) for reference in references], output)
    print(f"Report: {path.resolve()}")
    return 0


def export_run(reference: str, output: Path, force: bool, store: Path | None) -> int:
    """`naslab export`."""
    from naslab.exchange.export import export

    path = export(Store(store).load(reference), output, force=force)
    print(f"Exported: {path}")
    return 0
