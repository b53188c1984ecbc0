"""Calibrations that are kept, in the lab's state folder, so that later results of the same system carry them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from naslab.lab import place, state
from naslab.lab.calibrate.finding import MISSES, UNMEASURED, Calibration, Finding
from naslab.lab.calibrate.probe import planted_of
from naslab.lab.limits import Planted
from naslab.lab.server import Server

_FOLDER = "calibrations"


def key_of(server: Server) -> str:
    """Of what a running system is made of; see `key_of_parts`."""
    given = server.facts.get("definition") or {"data": {}, "chosen": {}}
    return key_of_parts(given["data"], given["chosen"], planted_of(server), str(server.facts.get("backend", "native")))


def key_of_parts(data: Mapping[str, Any], chosen: Mapping[str, Any], planted: Sequence[Planted], backend: str) -> str:
    """16 characters that systems of the same parts on the same backend have in common, whatever they are called.

    data: tables of a system's file. chosen: what replaces some of them. planted: its limits.
    """
    parts = {name: each for name, each in data.items() if name not in ("what", "source")}
    made = {"parts": parts, "chosen": chosen, "limits": [vars(each) for each in planted], "backend": backend}
    return hashlib.sha256(json.dumps(made, sort_keys=True).encode()).hexdigest()[:16]


def keep(found: Calibration) -> None:
    """Keeps the newest calibration of a system. Raises UsageError where the state folder cannot be written."""
    folder = state.folder() / _FOLDER
    folder.mkdir(mode=0o700, exist_ok=True)
    place.Place(folder, folder, False).write(f"{found.key}.json", json.dumps(found.as_dict()))


def find(server: Server) -> Calibration | None:
    """The newest calibration of a system of the same parts; None without one."""
    return find_key(key_of(server))


def find_key(key: str) -> Calibration | None:
    """The newest calibration of this key; None without one."""
    try:
        return Calibration.from_dict(json.loads((state.folder() / _FOLDER / f"{key}.json").read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def limits_of(server: Server, found: Calibration | None) -> list[dict[str, Any]]:
    """Each planted limit with what was measured of it: what a result carries.

    The measured value is that of the place which is furthest off.
    """
    return [limit(each.name, each.value, each.unit, found) for each in planted_of(server)]


def limit(name: str, planted: float, unit: str, found: Calibration | None) -> dict[str, Any]:
    """One of them."""
    here = [] if found is None else [each for each in found.findings if each.name == name]
    known = [each for each in here if each.measured is not None]
    worst: Finding | None = max(known, key=lambda each: abs(each.deviation or 0.0), default=None)
    verdicts = [each.verdict for each in here]
    # What was measured may stand beside a bound that follows from the planted value: then that is told.
    return {
        "name": name, "planted": worst.planted if worst and worst.planted else planted, "unit": unit,
        "measured": None if worst is None else worst.measured,
        "deviation": None if worst is None else worst.deviation, "tool": None if worst is None else worst.tool,
        "verdict": MISSES if MISSES in verdicts else worst.verdict if worst is not None else UNMEASURED,
    }  # fmt: skip
