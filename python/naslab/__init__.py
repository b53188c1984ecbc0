"""naslab: measure any file server, and see what limits it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from naslab.results.run import Run

__version__ = "0.1.0"
__all__ = ["Run", "__version__", "load"]


def load(run: str = "last", store: str | None = None) -> Run:
    """Load a stored run: an id, a unique prefix, `last`, or a file that `naslab export` wrote.

    Returns a `Run`, whose tables are documented there. Raises UnknownRunError, StoreError.
    """
    from naslab.store import Store

    return Store(store).load(run)


def __getattr__(name: str) -> object:
    if name == "Run":
        from naslab.results.run import Run

        return Run
    raise AttributeError(f"module 'naslab' has no attribute {name!r}")
