"""naslab: measure any file server, and see what limits it.

    import naslab

    run = naslab.measure("smb://user@nas/media")     # as `naslab run` does; a simulated server: "sim:"
    run.verdict()                                    # what limits it, with probabilities
    run = naslab.load("last")                        # a stored run, or a file that `naslab export` wrote
    naslab.compare(before, after)                    # whether two runs differ, and by how much

Runs, cells, verdicts and comparisons show themselves in notebooks. docs/guide/python.md has the whole tour.
Every error raised on purpose is a `naslab.Error`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from naslab.api.comparing import Comparison, compare
    from naslab.api.listing import load, runs
    from naslab.api.measuring import measure
    from naslab.api.runs import Cell, Run
    from naslab.api.verdicts import Explanation, Limit, Verdict
    from naslab.errors import Interrupted, RunFailedError, StoreError, TargetError, UsageError
    from naslab.errors import NaslabError as Error
    from naslab.results.progress import Progress
    from naslab.results.store.store import RunSummary

__version__ = "0.1.0"
__all__ = [
    "Cell", "Comparison", "Error", "Explanation", "Interrupted", "Limit", "Progress", "Run", "RunFailedError",
    "RunSummary", "StoreError", "TargetError", "UsageError", "Verdict", "__version__", "compare", "load", "measure",
    "runs",
]  # fmt: skip
_WHERE = {
    "Cell": "api.runs", "Comparison": "api.comparing", "Error": "errors", "Explanation": "api.verdicts",
    "Interrupted": "errors", "Limit": "api.verdicts", "Progress": "results.progress", "Run": "api.runs",
    "RunFailedError": "errors", "RunSummary": "results.store.store", "StoreError": "errors", "TargetError": "errors",
    "UsageError": "errors", "Verdict": "api.verdicts", "compare": "api.comparing", "load": "api.listing",
    "measure": "api.measuring", "runs": "api.listing",
}  # fmt: skip
"""Where each name is; loaded when it is asked for, so that `import naslab` costs nothing."""


def __getattr__(name: str) -> object:
    if name not in _WHERE:
        raise AttributeError(f"module 'naslab' has no attribute {name!r}")

    found = getattr(import_module(f"naslab.{_WHERE[name]}"), "NaslabError" if name == "Error" else name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
