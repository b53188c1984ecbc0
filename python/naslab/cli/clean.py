"""`naslab clean`: folders that killed runs left on a target."""

from __future__ import annotations

import dataclasses
import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from naslab.apps.prepared import FOLDER as PREPARED_FOLDER
from naslab.credentials import open_target
from naslab.execute import engine_errors
from naslab.store.process import is_dead
from naslab.targets import Target


@dataclass
class Cleaned:
    """Folders removed, folders kept for a living run, and files kept because naslab did not make them."""

    removed: list[str] = field(default_factory=list)
    running: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)


def clean_target(target_text: str, force: bool, as_json: bool, credentials: Path | None = None) -> int:
    """Removes folders of dead runs; of living ones only with force. 1 when something had to stay."""
    cleaned = clean_folders(open_target(target_text, credentials), force)
    if as_json:
        json.dump({"schema": 1, **dataclasses.asdict(cleaned)}, sys.stdout)
        print()
    else:
        _say(cleaned)
    return 1 if cleaned.foreign else 0


def clean_folders(target: Target, force: bool, only: str | None = None) -> Cleaned:
    """Removes marked folders (`only` this one, if given). Raises TargetError."""
    from naslab import _engine

    cleaned = Cleaned()
    with engine_errors(target.url):
        for left in json.loads(_engine.find_folders(target.engine_json())):
            folder = left["folder"]
            if only not in (None, folder):
                continue
            if not force and not _is_abandoned(left["owner"]):
                cleaned.running.append(folder)
                continue
            foreign = _engine.clean(target.engine_json(), folder)
            cleaned.foreign.extend(foreign)
            if not foreign:
                cleaned.removed.append(folder)
    return cleaned


def _say(cleaned: Cleaned) -> None:
    for folder in cleaned.removed:
        print(f"removed {folder}")
    for folder in cleaned.running:
        if folder == PREPARED_FOLDER:
            print(f"kept {folder}: applications were prepared there; naslab apps TARGET --step clean removes them")
            continue
        print(f"kept {folder}: its run is still going, or runs on another host (--force removes it all the same)")
    for path in cleaned.foreign:
        print(f"kept {path}: naslab did not make it; move it away and clean again")
    if not (cleaned.removed or cleaned.running or cleaned.foreign):
        print("nothing to clean")


def _is_abandoned(owner_mark: str) -> bool:
    """Whether the process that made a folder has certainly ended. A mark that cannot be read says nothing."""
    try:
        mark: Any = json.loads(owner_mark)
    except json.JSONDecodeError:
        return False
    return isinstance(mark, dict) and is_dead(mark)
