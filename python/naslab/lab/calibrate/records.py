"""Calibrations that are kept, in the lab's state folder, so that later results of the same system carry them."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from naslab.lab import place, state
from naslab.lab.calibrate.finding import MISSES, UNMEASURED, Calibration, Finding
from naslab.lab.calibrate.probe import planted_of
from naslab.lab.server import Server

_FOLDER = "calibrations"


def key_of(server: Server) -> str:
    """What a system is made of, in 16 characters: systems of the same parts on the same backend have the same."""
    given = server.facts.get("definition")
    made = {"limits": [vars(each) for each in planted_of(server)], "backend": server.facts.get("backend")}
    if given is not None:
        made |= {"data": given["data"], "chosen": given["chosen"]}
    return hashlib.sha256(json.dumps(made, sort_keys=True).encode()).hexdigest()[:16]


def keep(found: Calibration) -> None:
    """Keeps the newest calibration of a system. Raises UsageError where the state folder cannot be written."""
    folder = state.folder() / _FOLDER
    folder.mkdir(mode=0o700, exist_ok=True)
    place.Place(folder, folder, False).write(f"{found.key}.json", json.dumps(found.as_dict()))


def find(server: Server) -> Calibration | None:
    """The newest calibration of a system of the same parts; None without one."""
    path = state.folder() / _FOLDER / f"{key_of(server)}.json"
    try:
        return Calibration.from_dict(json.loads(path.read_text(encoding="utf-8")))
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
    return {
        "name": name, "planted": planted, "unit": unit, "measured": None if worst is None else worst.measured,
        "deviation": None if worst is None else worst.deviation, "tool": None if worst is None else worst.tool,
        "verdict": MISSES if MISSES in verdicts else worst.verdict if worst is not None else UNMEASURED,
    }  # fmt: skip
