"""Interruptions: how waits on a target end that nobody wants any more, and when a signal of the user is heard."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
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


@contextlib.contextmanager
def held_back() -> Iterator[None]:
    """Interruptions wait for the end of the context, as while a child is started that has to be ended by them.

    An interruption inside of `subprocess.Popen` would leave a child that nobody knows of. Main thread only; elsewhere
    none arrives.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    heard: list[int] = []
    numbers = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
    previous = {number: signal.getsignal(number) for number in numbers}
    previous = {number: handler for number, handler in previous.items() if callable(handler)}
    for number in previous:
        signal.signal(number, lambda number, _frame: heard.append(number))
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
    for number in heard[:1]:
        os.kill(os.getpid(), number)


@contextlib.contextmanager
def termination_as_interrupt() -> Iterator[None]:
    """SIGTERM and SIGHUP end a run as Ctrl-C does: measured cells kept, files removed. Main thread only."""

    def raise_interrupt(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    try:
        previous = [(number, signal.getsignal(number)) for number in numbers]
        for number, handler in previous:
            if handler != signal.SIG_IGN:  # nohup stays in force
                signal.signal(number, raise_interrupt)
    except ValueError:  # not the main thread: the caller owns the signals
        yield
        return
    try:
        yield
    finally:
        for number, handler in previous:
            signal.signal(number, handler)
