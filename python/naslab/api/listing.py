"""Stored runs for Python programs: `naslab.load` and `naslab.runs`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from naslab.api.runs import Run
    from naslab.results.store.store import RunSummary

StorePath = str | os.PathLike[str] | None
"""A store of results; None: NASLAB_STORE, or the user's data folder."""


def load(run: str = "last", store: StorePath = None) -> Run:
    """Loads a stored run: an id, a unique beginning of one, `last`, or a file that `naslab export` wrote as .json.

    store: the file with the results; None takes NASLAB_STORE, else the user's data folder. Returns a `Run`, whose raw
    data is read when it is asked for. Raises UsageError for a name that no run or several have, StoreError.

        run = naslab.load("last")
        run.cells[0].throughput_bytes_per_s
    """
    from naslab.api.runs import Run
    from naslab.exchange.references import load as by_reference
    from naslab.results.store import Store

    return Run.of(by_reference(Store(_path(store)), os.fspath(run)))


def runs(*, label: str = "", target: str = "", limit: int | None = 50, store: StorePath = None) -> list[RunSummary]:
    """Stored runs, newest first, as `naslab runs` lists them.

    label, target: only runs that contain this text there. limit: at most so many; None for all. Raises StoreError.

        for each in naslab.runs(limit=5):
            print(each.run_id, each.command, each.target)
    """
    from naslab.results.store import Store

    return Store(_path(store)).list_runs(limit, label or None, target or None)


def _path(store: StorePath) -> str | None:
    return None if store is None else os.fspath(store)
