"""Commands that read the store or tidy a target; none of them measures."""

from __future__ import annotations

import json
import os
import socket
import sys
from pathlib import Path
from typing import Any

from naslab.environment import boot_id
from naslab.store import Store
from naslab.targets import parse_target


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
    print(list_runs_text(found))
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
    path = write([opened.load(reference) for reference in references], output)
    print(f"Report: {path.resolve()}")
    return 0


def export_run(reference: str, output: Path, force: bool, store: Path | None) -> int:
    """`naslab export`."""
    from naslab.exchange.export import export

    path = export(Store(store).load(reference), output, force=force)
    print(f"Exported: {path}")
    return 0


def clean_target(target_text: str, force: bool, as_json: bool) -> int:
    """`naslab clean`: folders of dead runs; living ones only with --force."""
    from naslab import _engine

    target = parse_target(target_text)
    result: dict[str, list[str]] = {"removed": [], "running": [], "foreign": []}
    for left in json.loads(_engine.find_folders(target.engine_json())):
        folder = left["folder"]
        if _is_running(left["owner"]) and not force:
            result["running"].append(folder)
            continue
        foreign = _engine.clean(target.engine_json(), folder)
        result["foreign"].extend(foreign)
        if not foreign:
            result["removed"].append(folder)
    if as_json:
        return _print_json({"schema": 1, **result})
    return _say_cleaned(result)


def _say_cleaned(result: dict[str, list[str]]) -> int:
    for folder in result["removed"]:
        print(f"removed {folder}")
    for folder in result["running"]:
        print(f"kept {folder}: its run is still going, or runs on another host (--force removes it all the same)")
    for path in result["foreign"]:
        print(f"kept {path}: naslab did not make it; move it away and clean again")
    if not any(result.values()):
        print("nothing to clean")
    return 1 if result["foreign"] else 0


def _is_running(owner: str) -> bool:
    """Whether the process that made a folder may still live: certain only on this host and boot."""
    try:
        mark = json.loads(owner)
    except json.JSONDecodeError:
        return False
    if mark.get("host") != socket.gethostname():
        return True
    if mark.get("boot") != boot_id():
        return False
    try:
        os.kill(int(mark.get("pid", 0)), 0)
    except (ProcessLookupError, ValueError):
        return False
    except PermissionError:
        return True
    return True
