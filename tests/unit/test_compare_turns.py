"""`compare --run` where systems of the lab do not fit beside each other: each is started for its part of a block."""

from __future__ import annotations

from pathlib import Path

import pytest

from naslab.cli import interleave
from naslab.cli.common import Common, Load
from naslab.cli.interleave import Plan, run_interleaved
from naslab.errors import UsageError
from naslab.targets import Target, parse_target

RATES = {"lab:fast": 100, "lab:slow": 60, "lab:none": 0}


class _Lab:
    """Systems that are simulated servers, of which at most `room` may be up."""

    def __init__(self, room: int) -> None:
        self.room, self.up, self.started, self.most = room, set[str](), list[str](), 0

    def open(self, text: str) -> Target:
        if text not in self.up:
            if not RATES[text] or len(self.up) >= self.room:
                raise UsageError(f"lab: disks.size: {text} does not fit")
            self.up.add(text)
            self.started.append(text)
            self.most = max(self.most, len(self.up))
        return parse_target(f"sim:?link_bytes_per_s={RATES[text]}000000&link_noise=0.02&seed={len(self.started)}")


def compared(
    lab: _Lab, names: tuple[str, ...], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> list[dict[str, object]]:
    """Documents of the runs."""
    monkeypatch.setattr(Common, "target", lambda _self, text: lab.open(text))
    monkeypatch.setattr(interleave.lab, "close", lab.up.clear)
    common = Common("compare", folder / "store.sqlite", False, True, 0, {}, "", "30s", None)
    plan = Plan(names, "4m", "1m", "write,read", Load(), 0.05)
    return [dict(run.document) for run in run_interleaved(plan, common)]


def test_each_is_started_for_its_part_of_a_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = _Lab(room=1)
    runs = compared(lab, ("lab:fast", "lab:slow"), tmp_path, monkeypatch)
    assert lab.most == 1 and len(lab.started) > 10, "never two, each anew in every block"
    found = interleave.compare([runs[0]], [runs[1]], ("fast", "slow"))  # type: ignore[attr-defined]
    assert found.verdict == "worse" and found.paired and found.repeats == (5, 5)
    assert [run["status"] for run in runs] == ["complete", "complete"]
    blocks = [[cell["block"] for cell in run["cells"]] for run in runs]  # type: ignore[attr-defined]
    assert blocks[0] == blocks[1] == [each for block in range(5) for each in [block] * 2]


def test_those_that_fit_stay_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = _Lab(room=2)
    runs = compared(lab, ("lab:fast", "lab:slow"), tmp_path, monkeypatch)
    assert lab.started == ["lab:fast", "lab:slow"] and len(runs) == 2


def test_one_that_cannot_be_had_alone_either_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="lab:none does not fit"):
        compared(_Lab(room=2), ("lab:fast", "lab:none"), tmp_path, monkeypatch)
