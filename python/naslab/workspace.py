"""A run's folder on the target, where Python makes it instead of the engine.

It is marked as crates/engine/src/workspace.rs does, so that `naslab clean` finds what is left by either.
"""

from __future__ import annotations

import contextlib
import json

from naslab import _engine
from naslab.errors import NaslabError
from naslab.execute import owner_mark

MARK, FILES = "naslab-owner.json", "naslab.files"
"""Names that crates/engine/src/workspace.rs and script.rs use, too."""


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
            session.remove(path)
        with contextlib.suppress(NaslabError):
            session.rmdir(folder)
        raise
