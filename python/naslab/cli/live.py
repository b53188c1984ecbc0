"""`--live FILE`: what happens during a measurement, as one JSON object a line, for programs that watch.

Every line has `naslab_live` (the version of this form), `event` and `time_ns` (wall clock). Events: `begun` (command),
`cell_begun` (cell), `sample` (cell, bytes, ops, errors, elapsed_ns, bytes_per_s; a few a second), `cell_ended` (cell,
op, status, bytes, ops, errors, throughput_bytes_per_s, iops, latency_ns), `ended` (exit_code, run_id).
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
from naslab.outputs import LIVE, check_output

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

    def before(self, cell: int) -> None:
        """A cell begins."""
        self.say("cell_begun", cell=cell)

    def sample(self, event: dict[str, Any]) -> None:
        """An interval of a cell under way."""
        self.say("sample", **{name: each for name, each in event.items() if isinstance(each, int | float | str)})

    def cell(self, cell: dict[str, Any]) -> None:
        """A cell ended."""
        self.say("cell_ended", cell=cell["id"], **{name: cell[name] for name in _ENDED if name in cell})


def current() -> Live | None:
    """Of the command under way."""
    return _now.get()


@contextlib.contextmanager
def watching(where: str, as_json: bool, quiet: bool) -> Iterator[Live | None]:
    """The lines of the command within, to a file, a descriptor (/dev/fd/3) or standard output (-).

    Raises UsageError.
    """
    if not where:
        yield None
        return
    if where == "-":
        if as_json or not quiet:
            raise UsageError(
                "--live -: standard output has the result, too; give --quiet without --json, or name a file"
            )
        out: IO[str] = sys.stdout
    else:
        check_output(Path(where), "--live", LIVE)
        try:
            out = Path(where).open("w", encoding="utf-8")  # noqa: SIM115 - closed below
        except OSError as error:
            raise UsageError(f"--live {where}: {(error.strerror or '').lower()}; name another file") from None
    live = Live(out)
    token = _now.set(live)
    try:
        yield live
    finally:
        _now.reset(token)
        if out is not sys.stdout:
            with contextlib.suppress(OSError):
                out.close()
