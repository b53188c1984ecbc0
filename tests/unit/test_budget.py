"""What counts against `--budget`: real time on a real server, its own clock alone on a simulated one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from naslab.cli import common
from naslab.cli.common import REAL_TIMES, Budget

SECOND = 1_000_000_000


def _budget(monkeypatch: pytest.MonkeyPatch, virtual: bool, real_s: float, cells: list[dict[str, Any]]) -> Budget:
    """A budget of ten seconds of which `real_s` have gone by, with these cells measured."""
    now = [100.0]
    monkeypatch.setattr(common.time, "monotonic", lambda: now[0])
    execution = SimpleNamespace(caps={"virtual_time": virtual}, cells=[])
    budget = Budget(10 * SECOND, cast(Any, execution), 100.0)
    now[0] += real_s
    execution.cells.extend(cells)
    return budget


def _cell(at: int, seconds: int, flush_s: int | None = None) -> dict[str, Any]:
    return {"id": at, "start_ns": 0, "end_ns": seconds * SECOND, "flush_ns": flush_s and flush_s * SECOND}


def test_a_simulated_server_spends_its_own_time_however_busy_the_machine_is(monkeypatch: pytest.MonkeyPatch) -> None:
    budget = _budget(monkeypatch, True, 60, [_cell(0, 3), _cell(1, 2, 1)])
    assert budget.left_ns() == 4 * SECOND and not budget.spent() and budget.spent(0.5)
    assert budget.left_ns() == 4 * SECOND, "a cell counts once"


def test_a_simulated_run_ends_in_real_time_too(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _budget(monkeypatch, True, 10 * REAL_TIMES, []).spent()


def test_a_real_server_spends_real_time_whatever_its_cells_say(monkeypatch: pytest.MonkeyPatch) -> None:
    budget = _budget(monkeypatch, False, 4, [_cell(0, 9)])
    assert budget.left_ns() == 6 * SECOND and not budget.spent()
    assert _budget(monkeypatch, False, 10, []).spent()
    assert _budget(monkeypatch, False, 99, []).left_ns() == SECOND


def test_a_new_part_begins_with_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    budget = _budget(monkeypatch, True, 60, [_cell(0, 10)])
    assert budget.spent()
    budget.begin()
    assert budget.left_ns() == 10 * SECOND
