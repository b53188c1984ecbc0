"""A run's folder on the target, where Python makes it instead of the engine.

It is marked as crates/engine/src/workspace.rs does, so that `naslab clean` finds what is left by either.
"""

from __future__ import annotations

import contextlib
import json

from naslab import _engine
from naslab.errors import NaslabError
from naslab.execution.waits import ask
from naslab.results.store.process import owner
from naslab.text.messages import words_of

MARK, FILES = "naslab-owner.json", "naslab.files"
"""Names that crates/engine/src/workspace.rs and script.rs use, too."""
NUMBERS = 30
"""Digits that a process and the ticks at its start have at most."""


def owner_mark(run_id: str) -> str:
    """Text of the mark in a run's folder: who made it, and how it goes away.

    It is as long for every process of a machine: each byte takes a simulated server some time, and runs with the same
    seed are to have the same digits.
    """
    what, made_by = "made by naslab; `naslab clean` removes it when its run is gone", owner()
    text = json.dumps({"naslab_run": run_id, **made_by, "what": what})
    return text + " " * (NUMBERS - len(f"{made_by['pid']}{made_by['start_time']}"))


def make(session: _engine.Session, folder: str, run_id: str, *, durable: bool = False) -> None:
    """Makes and marks the folder, with FILES in it. durable: the mark is flushed. Raises TargetError."""
    mark_folder(session, folder, owner_mark(run_id), durable=durable)
    session.mkdir(f"{folder}/{FILES}")


def mark_folder(session: _engine.Session, folder: str, mark: str, *, durable: bool = False) -> None:
    """Makes a folder with this mark alone in it. Raises TargetError."""
    session.mkdir(folder)
    path = f"{folder}/{MARK}"
    try:
        file = session.open(path, json.dumps({"write": True, "read": False, "create": "new"}))
        session.write(file, 0, mark.encode())
        if durable:
            session.flush(file)
        session.close(file)
    except NaslabError:
        with contextlib.suppress(NaslabError):  # an unmarked folder would be found by nobody
            session.discard(path)
        with contextlib.suppress(NaslabError):
            session.rmdir(folder)
        raise


def remove(target: str, folder: str, run_id: str, *, in_doubt: bool = False) -> list[str]:
    """Removes a folder, if it has the mark of this run; paths that are left, and why. target: the engine's, as JSON.

    in_doubt: a server that does not answer at once is left as it is.
    """
    try:
        if in_doubt:
            ask(target, folder)
        found = {left["folder"]: left["owner"] for left in json.loads(_engine.find_folders(target))}
        if f'"{run_id}"' not in found.get(folder, ""):
            return [folder] if folder in found else []
        return _engine.clean(target, folder)
    except NaslabError as error:
        return [f"{folder} ({words_of(error)})"]
