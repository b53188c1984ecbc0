"""The store of results: every run, saved before anything reads it."""

from __future__ import annotations

from naslab.results.store.store import RunSummary, Store, default_path, new_run_id

__all__ = ["RunSummary", "Store", "default_path", "new_run_id"]
