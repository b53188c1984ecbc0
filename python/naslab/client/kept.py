"""The last measurement of this client, kept beside the store so that not every run measures it anew."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path

from msgspec import MsgspecError
from msgspec.json import decode, encode

from naslab.client.ceiling import machine, measure
from naslab.results.parts.client import ClientCeiling

FRESH_NS = 24 * 3600 * 10**9
"""A measurement counts for a day, on the same boot and with the same naslab."""
QUIET_SHARE = 0.15
"""One taken while other programs kept more than this share of the processors busy is not kept."""


def place_of(store: str | Path) -> Path:
    """The file beside a store that keeps it."""
    path = Path(store)
    return path.with_name(f"{path.stem}.client.json")


def recent(store: str | Path) -> ClientCeiling | None:
    """What was measured on this machine since it started, with this naslab, within a day; None otherwise."""
    try:
        found = decode(place_of(store).read_bytes(), type=ClientCeiling)
    except (OSError, MsgspecError):
        return None
    age_ns = time.time_ns() - found.measured_wall_ns
    same = found.boot is not None and all(getattr(found, name) == value for name, value in machine().items())
    return found if same and found.null and found.aes and 0 <= age_ns < FRESH_NS else None


def keep(store: str | Path, ceiling: ClientCeiling) -> None:
    """Keeps a measurement. A folder that cannot be written to is no error: the next run measures again."""
    path = place_of(store)
    part = path.with_name(f".{path.name}.{os.getpid()}")
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_bytes(encode(ceiling))
        part.replace(path)
    with contextlib.suppress(OSError):
        part.unlink()


def ceiling_for(
    store: str | Path, seconds: float = 5.0, say: Callable[[str], None] | None = None
) -> tuple[ClientCeiling, bool]:
    """(what this client can do, whether it was measured now): the kept measurement where it is recent, else a new one.

    say: told in one sentence before it takes `seconds`. Raises TargetError as `measure` does.
    """
    found = recent(store)
    if found is not None:
        return found, False
    if say is not None:
        say(f"measuring the client's own ceiling for {seconds:.0f} s; the result is kept for a day")
    measured = measure(seconds)
    if is_quiet(measured):
        keep(store, measured)
    return measured, True


def is_quiet(ceiling: ClientCeiling) -> bool:
    """Whether the machine had room for it, as far as is known."""
    return (ceiling.foreign_cpu_fraction or 0.0) <= QUIET_SHARE
