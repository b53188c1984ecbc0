"""Runs by what a user calls them: stored ones, those of articles, and files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from naslab.results.run import Run
    from naslab.results.store import Store

PUBLISHED = "published:"


def load(store: Store, ref: str = "last") -> Run:
    """The run named by `ref`: an id, a unique prefix, `last`, `published:NAME`, or a file that `naslab export` wrote.

    As the store gives its own runs: without names, where it leaves them out. Raises UnknownRunError (listing near
    matches) when there is none or more than one, UsageError for a file that is no run.
    """
    if ref.startswith(PUBLISHED):
        from naslab.published import load as load_published

        return store.given(load_published(ref))
    if names_file(ref):
        from naslab.exchange.json_file import read_json

        return store.given(read_json(Path(ref)))
    return store.load(ref)


def names_file(ref: str) -> bool:
    """Whether a reference to a run names a file instead of a stored run."""
    return ref.lower().endswith(".json") or os.sep in ref or "/" in ref
