"""How waits on a target end once nobody wants their outcome: after Ctrl-C, or where a server fell silent."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import TypeVar

from naslab import _engine

T = TypeVar("T")
LAST_CALL_NS = 500_000_000
"""How long a server in doubt may take to answer before it is left alone."""
_PATIENCE_S = 0.2
"""How long a request that nobody wants may still go on: a living server answers within it; its session stays whole."""


def until(over: Callable[[], bool], error: Callable[[], BaseException], work: Callable[[], T]) -> T:
    """Does `work`. Soon after `over` is true its waits on a target end with `error`: for threads and processes that
    hear no Ctrl-C themselves.
    """
    since: float | None = None

    def ask() -> None:
        nonlocal since
        if not over():
            since = None
            return
        since = since or time.monotonic()
        if time.monotonic() - since >= _PATIENCE_S:
            raise error()

    return _engine.watched(ask, work)


def ask(target: str, path: str) -> None:
    """Asks a server that fell silent, or whose user pressed Ctrl-C, for a sign of life. target: the engine's, as JSON.

    Raises NaslabError where none comes at once: then nobody waits for more.
    """
    spec = json.loads(target)
    if "timeout_ns" in spec["options"]:
        spec["options"]["timeout_ns"] = min(LAST_CALL_NS, spec["options"]["timeout_ns"])
        _engine.stat(json.dumps(spec), path)


def is_in_doubt(error: BaseException) -> bool:
    """Whether nobody waits for the target after this error: it has to answer `ask` first."""
    return isinstance(error, KeyboardInterrupt) or getattr(error, "kind", None) in ("timeout", "interrupted")
