"""The systems of an experiment: what was planted in each, and what other tools measured of it.

A system is calibrated once for an experiment, on an instance of its own: what is measured may spoil its disks, and its
mechanisms are the same in every repeat.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from naslab.errors import NaslabError
from naslab.lab import backends
from naslab.lab.calibrate import records
from naslab.lab.calibrate.finding import MISSES, Calibration, amount
from naslab.lab.calibrate.run import QUICK, calibrate
from naslab.lab.experiment import Experiment, System
from naslab.lab.limits import planted
from naslab.lab.server import start_system
from naslab.lab.systems import defined
from naslab.units import percent_text

Say = Callable[[str], None]


def calibrate_experiment(experiment: Experiment, say: Say = lambda _: None) -> list[str]:
    """Builds each system that is measured, calibrates it, keeps that and takes it down; what failed, in sentences."""
    failed = []
    for system in _systems(experiment):
        say(f"calibrates {system.name}")
        try:
            _calibrate(system)
        except NaslabError as error:
            failed.append(f"{system.name} was not calibrated: {error}")
    return failed


def _calibrate(system: System) -> None:
    assert system.parts is not None
    server = start_system(system.name, defined(dict(system.parts), f"systems.{system.name}", system.name))
    try:
        runs, seconds = QUICK
        records.keep(calibrate(server, scratch=True, runs=runs, seconds=seconds, through=False))
    finally:
        server.stop()


def record(experiment: Experiment, result: dict[str, Any], failed: list[str]) -> None:
    """Adds to an experiment's result: `calibrations`, one for each system from parts, and notes on what misses."""
    told = [_told(system, experiment) for system in _systems(experiment)]
    result["calibrations"] = told
    result["notes"] = [*result["notes"], *failed, *(note for one in told if (note := _note(one)))]


def _systems(experiment: Experiment) -> list[System]:
    """Those from parts that a condition here is measured on."""
    used = {one.system for one in experiment.conditions if not one.missing}
    return [each for name, each in experiment.systems.items() if name in used and each.parts is not None]


def _told(system: System, experiment: Experiment) -> dict[str, Any]:
    assert system.checked is not None and system.parts is not None
    limits, found = planted(system.checked), _kept(system)
    return {
        "system": system.name, "built": system.what,
        "conditions": [one.id for one in experiment.conditions if one.system == system.name],
        "calibrated_at": None if found is None else found.measured_at,
        "limits": [records.limit(each.name, each.value, each.unit, found) for each in limits],
    }  # fmt: skip


def _kept(system: System) -> Calibration | None:
    assert system.checked is not None and system.parts is not None
    said = next((each for each in backends.answers(system.checked) if each.builds), None)
    if said is None:
        return None
    return records.find_key(records.key_of_parts(system.parts, {}, planted(system.checked), said.backend))


def _note(one: dict[str, Any]) -> str:
    missed = [
        f"{each['name']} {amount(each['measured'], each['unit'])} instead of {amount(each['planted'], each['unit'])} "
        f"({percent_text(each['deviation'], 1, signed=True)})"
        for each in one["limits"]
        if each["verdict"] == MISSES
    ]
    return f"{one['system']} differs from its limits: {'; '.join(missed)}" if missed else ""
