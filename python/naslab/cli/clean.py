"""`naslab clean`: folders that killed runs left on a target."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from naslab import _engine
from naslab.commands.apps.prepared import FOLDER as PREPARED_FOLDER
from naslab.errors import NaslabError, TargetError, UsageError
from naslab.execution import recycle
from naslab.execution.execute import engine_errors
from naslab.lab.opening import open_target
from naslab.results.store.process import is_dead
from naslab.targets import Target
from naslab.text.messages import sentence, words_of
from naslab.units import parse_duration

BEGINNING_S = 3.0
"""An empty folder of a run is that of one which begins just now, or of one that was killed then: looked at again."""
GONE = ("timeout", "disconnected", "protocol", "interrupted")
"""Kinds of errors after which there is nobody to ask any more."""


@dataclass
class Cleaned:
    """Folders removed, kept for a living run, and not readable or removable (each with why); files not naslab's.

    recycled: what the share's recycle bin holds of naslab's.
    """

    removed: list[str] = field(default_factory=list)
    running: list[str] = field(default_factory=list)
    failed: list[dict[str, str]] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)
    recycled: list[str] = field(default_factory=list)


def clean_target(
    target_text: str,
    force: bool,
    as_json: bool,
    timeout: str,
    credentials: Path | None = None,
    recycle_bin: bool = False,
) -> int:
    """Removes folders of dead runs; of living ones only with force. 1 when something had to stay or failed.

    timeout: as text; how long a server may take to answer. recycle_bin: removes what the share's bin holds of naslab's,
    too; without it that is only told. Raises UsageError, TargetError.
    """
    timeout_ns = parse_duration(timeout, "--timeout")
    if timeout_ns <= 0:
        raise UsageError(f"--timeout {timeout!r}: give more than 0")
    target = open_target(target_text, credentials, timeout_ns=timeout_ns)
    cleaned = clean_folders(target, force)
    bins = _emptied(target, cleaned) if recycle_bin else _looked_at(target, cleaned)
    if as_json:
        json.dump({"schema": 1, **dataclasses.asdict(cleaned), "recycle_bins": bins}, sys.stdout)
        print()
    else:
        _say(cleaned, bins if recycle_bin else [])
    return 1 if cleaned.foreign or cleaned.failed else 0


def clean_folders(target: Target, force: bool, only: str | None = None) -> Cleaned:
    """Removes marked folders (`only` this one, if given), and those of runs without mark that hold nothing.

    Raises TargetError.
    """
    cleaned = Cleaned()
    with engine_errors(target.url, before_run=True):
        all_left = _found(target, only)
    with engine_errors(target.url):
        for left in all_left:
            folder = left["folder"]
            if left["unread"]:
                cleaned.failed.append({"folder": folder, "why": sentence(left["unread"])})
            elif left["unmarked"] or force or _is_abandoned(left["owner"]):
                _remove(target, folder, cleaned)
            else:
                cleaned.running.append(folder)
    return cleaned


def _emptied(target: Target, cleaned: Cleaned) -> list[str]:
    """Bins from which what is naslab's was removed for good. Raises UsageError, TargetError."""
    if target.protocol != "smb":
        raise UsageError(f"--recycle-bin: {target.url} is not an smb:// share; give it as smb://HOST/SHARE")
    with engine_errors(target.url):
        return _bins(target, cleaned, remove=True)


def _looked_at(target: Target, cleaned: Cleaned) -> list[str]:
    """Bins that hold something of naslab's; where nobody can look, none: it was not asked for."""
    with contextlib.suppress(NaslabError):
        return _bins(target, cleaned, remove=False) if target.protocol == "smb" else []
    return []


def _bins(target: Target, cleaned: Cleaned, *, remove: bool) -> list[str]:
    """Names of bins that hold something of naslab's, which goes into `cleaned`; folders of runs under way excepted."""
    with recycle.bins_of(target) as (session, bins):
        for held in bins:
            held.folders = [path for path in held.folders if path.rsplit("/", 1)[-1] not in cleaned.running]
            cleaned.recycled += [*held.folders, *held.files]
            if remove:
                recycle.empty(session, held)
    return [held.bin for held in bins if held]


def _remove(target: Target, folder: str, cleaned: Cleaned) -> None:
    """One folder; one that cannot be removed keeps nobody from the others, unless the server is gone."""
    try:
        foreign = _engine.clean(target.engine_json(), folder)
    except (TargetError, UsageError) as error:  # a tree that is not what naslab makes is no fault of the server's
        kind = getattr(error, "kind", None)
        if kind in GONE:
            raise
        cleaned.failed.append({"folder": folder, "why": words_of(error)})
        return
    cleaned.foreign.extend(foreign)
    cleaned.removed += [] if foreign else [folder]


def _found(target: Target, only: str | None) -> list[dict[str, Any]]:
    """What the target's root holds of naslab; folders that were empty a moment ago and are not any more left out."""

    def look() -> list[dict[str, Any]]:
        found = json.loads(_engine.find_folders(target.engine_json()))
        return [left for left in found if only in (None, left["folder"])]

    found = look()
    empty = {left["folder"] for left in found if left["unmarked"]}
    if not empty:
        return found
    time.sleep(BEGINNING_S)
    return [left for left in look() if not left["unmarked"] or left["folder"] in empty]


def _say(cleaned: Cleaned, emptied: list[str]) -> None:
    for folder in cleaned.removed:
        print(f"removed {folder}")
    for folder in cleaned.running:
        if folder == PREPARED_FOLDER:
            print(f"kept {folder}: applications were prepared there; naslab apps TARGET --step clean removes them")
            continue
        print(f"kept {folder}: its run is still going, or runs on another host (--force removes it anyway)")
    for each in cleaned.failed:
        print(f"kept {each['folder']}: {each['why']}")
    for path in cleaned.foreign:
        print(f"kept {path}: naslab did not make it; move it away and clean again")
    if emptied:
        print(f"removed {len(cleaned.recycled)} naslab items from the recycle bin ({', '.join(emptied)})")
    elif cleaned.recycled:
        count, first = len(cleaned.recycled), cleaned.recycled[0]
        print(f"kept {count} naslab items in the recycle bin ({first} ...): --recycle-bin removes them")
    if not (cleaned.recycled or cleaned.removed or cleaned.running or cleaned.failed or cleaned.foreign):
        print("nothing to clean")


def _is_abandoned(owner_mark: str) -> bool:
    """Whether the process that made a folder has certainly ended. A mark that cannot be read says nothing."""
    try:
        mark: Any = json.loads(owner_mark)
    except json.JSONDecodeError:
        return False
    return isinstance(mark, dict) and is_dead(mark)
