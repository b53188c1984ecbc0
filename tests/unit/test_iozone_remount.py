"""-U: commands, retries, the limit, and what is refused before anything is written."""

from __future__ import annotations

import io
import time
from pathlib import Path

import pytest

from iozone_fakes import FakeExecute
from naslab.cli.iozone import Session
from naslab.commands.iozone.checks import parse
from naslab.commands.iozone.plan import make_plan
from naslab.commands.iozone.remount import Remounter
from naslab.errors import TargetError, UsageError


def script(path: Path, body: str) -> str:
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return str(path)


def test_commands_run_in_order(tmp_path: Path) -> None:
    log = tmp_path / "log"
    umount = script(tmp_path / "u", f"echo umount $1 >> {log}")
    mount = script(tmp_path / "m", f"echo mount >> {log}")
    Remounter("/mnt/x", f"{umount} '/mnt/a b'", mount).remount()
    assert log.read_text() == "umount /mnt/a b\nmount\n"


def test_a_busy_mount_is_tried_again(tmp_path: Path) -> None:
    busy = script(tmp_path / "u", f"test -e {tmp_path}/tried || {{ touch {tmp_path}/tried; echo busy >&2; exit 1; }}")
    Remounter("/mnt/x", busy, "true", limit_s=5, retry_s=0.01).remount()
    assert (tmp_path / "tried").exists()


@pytest.mark.parametrize(
    ("umount", "mount", "parts"),
    [("sh -c 'echo target is busy; exit 32'", "true", ("unmount", "target is busy", "--umount-command")),
     ("true", "false", ("mount", "exit status 1", "--mount-command")),
     ("sleep 60", "true", ("unmount", "no answer in time")), ("/nonexistent/x", "true", ("No such file",))],
)  # fmt: skip
def test_it_gives_up_within_the_limit(umount: str, mount: str, parts: tuple[str, ...]) -> None:
    begun = time.monotonic()
    with pytest.raises(TargetError) as caught:
        Remounter("/mnt/x", umount, mount, limit_s=0.3, retry_s=0.05).remount()
    assert time.monotonic() - begun < 5
    for part in ("-U /mnt/x", *parts):
        assert part in str(caught.value)


def test_refused_before_anything_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="not a mount point"):
        Remounter(str(tmp_path)).check(str(tmp_path / "f"))
    own = Remounter(str(tmp_path), "true", "true")
    with pytest.raises(UsageError, match="not inside"):
        own.check("/elsewhere/f")
    own.check(str(tmp_path / "f"))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="current folder"):
        own.check(str(tmp_path / "f"))


def test_every_pass_is_remounted_and_a_failure_ends_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    count = tmp_path / "count"
    remounter = Remounter("/mnt/x", script(tmp_path / "u", f"echo >> {count}"), "true")
    plan = make_plan(parse(["-s", "64"]))
    assert Session(plan, io.StringIO(), remounter).carry_out(FakeExecute(plan)) == 0
    assert len(count.read_text()) == len(plan.cells) == 13
    broken = Remounter("/mnt/x", "false", "true", limit_s=0.01)
    assert Session(plan, io.StringIO(), broken).carry_out(FakeExecute(plan)) == 1
    assert "cannot unmount" in capsys.readouterr().err
