"""`--live FILE`: what happens during a measurement, as one JSON object a line, for programs that watch.

Every line has `naslab_live` (the version of this form), `event` and `time_ns` (wall clock). Events: `begun` (command),
`cell_begun` (run_id, cell), `sample` (run_id, cell, bytes, ops, errors, elapsed_ns, bytes_per_s; a few a second),
`cell_ended` (run_id, cell, op, status, bytes, ops, errors, throughput_bytes_per_s, iops, latency_ns), `phase` (name: of
what has no cells), `ended` (exit_code, run_id).
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import IO, Any

from naslab.errors import UsageError
from naslab.text.outputs import LIVE, check_output

VERSION = 1
_ENDED = ("op", "workload", "status", "file_bytes", "record_bytes", "queue_depth", "workers", "bytes", "ops", "errors",
          "duration_ns", "throughput_bytes_per_s", "iops", "latency_ns")  # fmt: skip
_now: ContextVar[Live | None] = ContextVar("live", default=None)


class Live:
    """Writes lines; once nobody reads any more it is silent, and the measurement goes on."""

    def __init__(self, out: IO[str]) -> None:
        self._out: IO[str] | None = out

    def say(self, event: str, **facts: Any) -> None:
        """One line, at once."""
        if self._out is None:
            return
        line = {"naslab_live": VERSION, "event": event, "time_ns": time.time_ns(), **facts}
        try:
            print(json.dumps(line), file=self._out, flush=True)
        except (OSError, ValueError):
            self._out = None

    def hear(self, run_id: str, hook: str, value: Any) -> None:
        """What a run tells, by the name of its hook: a cell begins, an interval of it has passed, it ended."""
        if hook == "before_cell":
            self.say("cell_begun", run_id=run_id, cell=value)
        elif hook == "progress":
            plain = {name: each for name, each in value.items() if isinstance(each, int | float | str)}
            self.say("sample", run_id=run_id, **plain)
        elif hook == "on_cell":
            about = {name: value[name] for name in _ENDED if name in value}
            self.say("cell_ended", run_id=run_id, cell=value["id"], **about)


def current() -> Live | None:
    """Of the command under way."""
    return _now.get()


@contextlib.contextmanager
def watching(where: str, instead: str) -> Iterator[Live | None]:
    """The lines of the command within, to a file, a descriptor (/dev/fd/3) or standard output (-).

    instead: what to do where standard output has the command's result; empty where it has none. Raises UsageError.
    """
    if not where:
        yield None
        return
    from naslab.execution import execute

    if where == "-":
        if instead:
            raise UsageError(f"--live -: standard output has the result, too; {instead}")
        out: IO[str] = sys.stdout
    else:
        check_output(Path(where), "--live", LIVE)
        try:
            out = Path(where).open("w", encoding="utf-8")  # noqa: SIM115 - closed below
        except OSError as error:
            raise UsageError(f"--live {where}: {(error.strerror or '').lower()}; name another file") from None
    live = Live(out)
    token, runs = _now.set(live), execute.watching.set(live.hear)
    try:
        yield live
    finally:
        _now.reset(token)
        execute.watching.reset(runs)
        if out is not sys.stdout:
            with contextlib.suppress(OSError):
                out.close()
