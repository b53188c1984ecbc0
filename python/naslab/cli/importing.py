"""`naslab import`: results of other tools, and runs that naslab exported, into the store."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from naslab.cli import options as o

if TYPE_CHECKING:
    from naslab.results.run import Run
    from naslab.results.store import Store


def import_results(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE",
            help="Results of IOzone, DiskSpd, fio, NASPT, elbencho or CrystalDiskMark, runs that naslab exported, or "
            "folders of these.",
            show_default=False,
        ),
    ],
    target_name: Annotated[
        str,
        typer.Option(
            "--target-name",
            metavar="TEXT",
            help="Name of the measured target; result files rarely contain it.",
            show_default=False,
        ),
    ] = "",
    repeats: Annotated[
        bool, typer.Option("--repeats", help="The files are repeats of one test: one run, a repeat for each file.")
    ] = False,
    label: o.LabelOpt = None,
    note: o.NoteOpt = "",
    store: o.StoreOpt = None,
    as_json: o.JsonOpt = False,
) -> int:
    """Read other tools' results as runs, to show, compare, report and export."""
    from naslab.exchange.importers.build import Asked, import_files
    from naslab.results.store import Store

    asked = Asked(o.parse_labels(label), target_name, note, repeats)
    runs, skipped = import_files(files, asked)
    opened = Store(store)
    there = {found.run_id for found in opened.list_runs()}
    stored = [_save(opened, run, there) for run in runs]
    for reason in skipped:
        print(f"Left out: {reason}", file=sys.stderr)
    if as_json:
        json.dump({"schema": 1, "runs": [run.document for run in runs]}, sys.stdout)
        print()
    else:
        print("\n".join(_told(run, new) for run, new in zip(runs, stored, strict=True)))
    return 0


def _save(store: Store, run: Run, there: set[str]) -> bool:
    """Stores a run. False where the store has it already, as an exported run that came back. there: ids it has."""
    if run.run_id in there:
        return False
    there.add(run.run_id)
    store.save(run.document, {cell["id"]: {n: run.blob(cell, n) for n in run.blob_names(cell)} for cell in run.cells})
    return True


def _told(run: Run, new: bool) -> str:
    """A run in a line, and its warnings."""
    source = run.document.get("source") or {}
    cells = f"{len(run.cells)} {'result' if len(run.cells) == 1 else 'results'}"
    what = f"{cells} of {source['tool']} from {source['file']}" if source else f"{cells} of naslab"
    lines = [f"Imported {run.run_id}: {what}" if new else f"Stored already: {run.run_id}, {what}"]
    lines += [f"  note: {found['message']}" for found in run.document["warnings"]] if source and new else []
    return "\n".join(lines)
