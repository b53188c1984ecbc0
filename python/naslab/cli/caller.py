"""Who asked for the measurement under way: whoever typed a command, or a Python program (`naslab.measure`)."""

from __future__ import annotations

import contextlib
import dataclasses
import sys
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from naslab.execution.execute import Execution, Hooks
    from naslab.results.progress import Progress
    from naslab.results.run import Run


@dataclass
class Caller:
    """A Python program, which is given the run instead of text.

    words: the command line that its request amounts to, without the program's name. tell: is called as cells go on.
    quiet: nothing is printed.
    run, code, message: how the measurement ended, as the command line would have told it; None until it did.
    """

    words: list[str]
    tell: Callable[[Progress], None] | None = None
    quiet: bool = True
    run: Run | None = None
    code: int = 0
    message: str = ""
    _began: float = field(default_factory=time.monotonic)
    _done: set[int] = field(default_factory=set)

    def take(self, run: Run, code: int, message: str) -> int:
        """Keeps how the measurement ended; the exit code."""
        self.run, self.code, self.message = run, code, message
        return code

    def watch(self, execution: Execution) -> None:
        """Calls `tell` beside what hears of the cells already."""
        hooks, tell = execution.hooks, self.tell
        if tell is None:
            return

        def say(cell: int, bytes_per_s: float | None) -> None:
            tell(self._moment(execution, cell, bytes_per_s))

        def before(cell: int) -> None:
            if hooks.before_cell:
                hooks.before_cell(cell)
            say(cell, None)

        def progress(event: dict[str, Any]) -> None:
            if hooks.progress:
                hooks.progress(event)
            say(event["cell"], event["bytes_per_s"])

        def on_cell(cell: dict[str, Any]) -> None:
            if hooks.on_cell:
                hooks.on_cell(cell)
            self._done.add(cell["id"])
            say(cell["id"], cell.get("throughput_bytes_per_s"))

        execution.hooks = _with(hooks, before, progress, on_cell)

    def _moment(self, execution: Execution, cell: int, bytes_per_s: float | None) -> Progress:
        from naslab.cli.progress import describe
        from naslab.results.progress import Progress

        planned = execution.planned
        elapsed_s = time.monotonic() - self._began
        return Progress(cell, describe(planned[cell]), len(self._done), len(planned), elapsed_s, bytes_per_s)


def _with(hooks: Hooks, before: Any, progress: Any, on_cell: Any) -> Hooks:
    return dataclasses.replace(hooks, before_cell=before, progress=progress, on_cell=on_cell)


_now: ContextVar[Caller | None] = ContextVar("caller", default=None)


def caller() -> Caller | None:
    """The Python program that asked; None where a command was typed."""
    return _now.get()


def words_typed() -> list[str]:
    """The command line under way, without the program's name."""
    found = _now.get()
    return sys.argv[1:] if found is None else found.words


@contextlib.contextmanager
def called_by(program: Caller) -> Iterator[Caller]:
    """What is measured meanwhile is measured for this program."""
    token = _now.set(program)
    try:
        yield program
    finally:
        _now.reset(token)
