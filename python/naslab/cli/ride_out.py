"""`--ride-out TIME`: how long the command under way waits for a server that goes away."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar

from naslab.errors import UsageError
from naslab.units import parse_duration

_MAX_NS = 24 * 3600 * 10**9
_asked: ContextVar[str] = ContextVar("ride_out", default="")


@contextlib.contextmanager
def riding_out(text: str) -> Iterator[None]:
    """Runs that are planned in the block wait so long. text: as written, empty where the option is not given."""
    before = _asked.set(text)
    try:
        yield
    finally:
        _asked.reset(before)


def ride_out_ns() -> int:
    """The time in nanoseconds, 0 where it was not asked for. Raises UsageError."""
    text = _asked.get()
    if not text:
        return 0
    found = parse_duration(text, "--ride-out")
    if not 0 < found <= _MAX_NS:
        raise UsageError(f"--ride-out {text!r}: give more than 0 and at most 24h")
    return found
