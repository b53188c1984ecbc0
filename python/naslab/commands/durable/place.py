"""The run's folder on the target. It must outlive the process: after the cut another one may come to check it."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from naslab import _engine
from naslab.execution import workspace
from naslab.execution.workspace import FILES

if TYPE_CHECKING:
    from naslab.targets import Target


def make(session: _engine.Session, target: Target, folder: str, run_id: str) -> None:
    """Makes and marks it; the mark is flushed, so that `naslab clean` finds the folder after the cut. Raises
    TargetError.
    """
    workspace.make(session, folder, run_id, durable=True)
    sync_folders(target, [folder, f"{folder}/{FILES}"])


def sync_folders(target: Target, paths: list[str]) -> None:
    """On a local path the names of new files are durable only after this; elsewhere there is no call for it."""
    if target.protocol != "local":
        return
    root = Path(target.options["root"])
    for path in [root, *(root / one for one in paths)]:
        with contextlib.suppress(OSError):
            number = os.open(path, os.O_RDONLY)
            try:
                os.fsync(number)
            finally:
                os.close(number)


def drop_cached(target: Target, folder: str) -> None:
    """On a local path: has the kernel forget its clean pages of the files, so that they are read anew."""
    if target.protocol != "local" or not hasattr(os, "posix_fadvise"):
        return
    with contextlib.suppress(OSError):
        for path in (Path(target.options["root"]) / folder).iterdir():
            number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
            try:
                os.posix_fadvise(number, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(number)
