"""Exit code 0 is earned: by a whole run, or by one that its budget ended. The first cause of a failure is told."""

from __future__ import annotations

import contextlib
import ctypes
import signal
import subprocess
import sys
import time
from collections.abc import Sequence

import pytest

from cli_tools import default_signals
from fixtures_run import make_run
from naslab import cli
from naslab.cli.common import _ended
from naslab.errors import TargetError
from naslab.results import Run, warning


def ended(status: str, *warned: tuple[str, str], failed_cells: Sequence[int] = ()) -> Run:
    run = make_run(status=status, ops=("write",), file_sizes=(1 << 20,))
    run.document["warnings"] = [warning(kind, text) for kind, text in warned]
    for at in failed_cells:
        run.cells[at]["status"] = "failed"
    return run


@pytest.mark.parametrize(
    ("run", "code", "told"),
    [
        (ended("complete"), 0, ""),
        (ended("partial", ("budget", "the budget was used up")), 0, ""),
        (ended("partial"), 130, "interrupted"),
        (ended("partial", ("budget", "spent"), ("interrupted", "so it was")), 130, "interrupted"),
        (ended("partial", ("interrupted", "before"), ("resumed", ""), ("budget", "spent")), 0, ""),
        (ended("partial", ("budget", "before"), ("resumed", ""), ("interrupted", "so it was")), 130, "interrupted"),
        (ended("partial", ("budget", "spent"), failed_cells=[0]), 1, "the run failed: 4 KiB writes"),
        (ended("complete", failed_cells=[0]), 1, "the run failed: 4 KiB writes"),
        (ended("failed", ("error", "the server hung up"), ("error", "lost before")), 1, "failed: the server hung up;"),
        (ended("failed", ("error", "earlier"), ("resumed", ""), ("error", "later")), 1, "failed: later;"),
    ],
)
def test_exit_codes(run: Run, code: int, told: str) -> None:
    found, message = _ended(run, None)
    assert found == code and told in message and bool(message) == bool(code)


def test_an_exception_is_the_cause() -> None:
    failure = TargetError("no answer within 1 s", "timeout")
    code, message = _ended(ended("failed", ("error", "else")), failure)
    assert code == 1 and "no answer within 1 s" in message
    assert _ended(ended("complete"), failure)[0] == 1


@pytest.mark.parametrize("again_s", [0.0, 0.01])
def test_an_interruption_that_a_library_swallows_is_heard(
    again_s: float, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Python drops what is raised in a callback, with a traceback; while a module is imported that may be a Ctrl-C."""

    @ctypes.CFUNCTYPE(None)
    def callback() -> None:
        raise KeyboardInterrupt

    def dispatch(_: list[str]) -> int:
        callback()
        for _ in range(2000):  # a signal that comes just before a sleep begins is handled after it
            time.sleep(0.05)
        return 0

    monkeypatch.setattr("naslab.cli.dispatch.run_app", dispatch)
    monkeypatch.setattr(cli, "_AGAIN_S", again_s)
    before, begun = sys.unraisablehook, time.monotonic()
    assert cli.main(["runs"]) == 130 and sys.unraisablehook is before
    assert capfd.readouterr().err == "naslab: interrupted\n" and time.monotonic() - begun < 90


class _SlowSuppress(contextlib.suppress):
    """The end of the hook as a busy machine has it: between two lines lies a tenth of a second."""

    def __exit__(self, *found: object) -> bool:
        for _ in range(20):
            time.sleep(0.005)
        return super().__exit__(*found)


def test_an_interruption_waits_until_the_hook_has_ended(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Made again too soon, it was raised in the hook itself, where Python drops it."""
    monkeypatch.setattr(contextlib, "suppress", _SlowSuppress)
    test_an_interruption_that_a_library_swallows_is_heard(0.0, monkeypatch, capfd)


def test_an_interruption_when_all_is_done_changes_nothing() -> None:
    """Python's own end, of a moment, printed a traceback of it."""
    code = (
        "import atexit, time\nfrom naslab import cli\ncli.main = lambda: 3\n"
        # In short steps: a signal that comes just before a sleep begins is handled after it.
        "atexit.register(lambda: (print('ending', flush=True), [time.sleep(0.05) for _ in range(1200)]))\ncli.entry()"
    )
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", code], text=True, preexec_fn=default_signals, **pipes) as child:  # noqa: PLW1509
        assert child.stdout is not None and child.stdout.readline() == "ending\n"
        child.send_signal(signal.SIGINT)
        assert child.communicate(timeout=50) == ("", "") and child.returncode == 3  # of 60 s
