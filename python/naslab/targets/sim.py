"""`sim:?field=value` and `sim:FILE.toml`: a simulated server."""

from __future__ import annotations

import contextlib
import json
import math
import tomllib
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from naslab.errors import UsageError
from naslab.targets.query import parse_query
from naslab.targets.target import Target
from naslab.units import parse_duration, parse_size

_SIZES = ("_bytes", "_bytes_per_s")


def parse_sim(shown: str, rest: str) -> Target:
    """The target of what follows `sim:`. Raises UsageError."""
    name, _, query = rest.partition("?")
    options: dict[str, Any] = _sim_file(shown, Path(unquote(name))) if name else {}
    for key, value in parse_query(shown, query).items():
        options[key] = _sim_value(shown, key, value)
    return Target(f"sim:{rest}", "sim", options)


def _sim_file(shown: str, path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"target {shown!r}: the file is not TOML: {error}; see docs/reference/sim.md") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"target {shown!r}: {reason}; give sim:FILE.toml or sim:?field=value") from None


def _sim_value(shown: str, key: str, value: str) -> Any:
    """Sizes, rates and times may carry a unit; tables (buckets, faults, files) are JSON."""
    where = f"target {shown!r}: {key}"
    if value[:1] in "[{" and value:
        try:
            return json.loads(value)
        except (json.JSONDecodeError, RecursionError) as error:
            raise UsageError(f"{where}: {value!r} is not JSON: {error}") from None
    if value.lower() in ("true", "false"):
        return value.lower() == "true"
    if key.endswith(("_ns", *_SIZES)):
        whole = value.isdecimal() and value.isascii()
        if key.endswith("_ns"):
            return int(value) if whole and len(value) < 20 else parse_duration(value, where)
        return parse_size(value, where)
    for number in (int, float):
        with contextlib.suppress(ValueError):
            found = number(value)
            if math.isfinite(found) and abs(found) < 1 << 64:
                return found
    return value
