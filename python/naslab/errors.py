"""Every error naslab raises on purpose, under one base.

NaslabError
├── UsageError            bad option, value or combination: exit 2, nothing was written
│   ├── SpecError         a run specification that contradicts itself
│   ├── TraceError        a trace, or a file to be made one, that is malformed or cut off
│   ├── ForeignFileError  a file to be imported that is no benchmark's output, or is cut off
│   └── UnknownRunError   a RUN that names no stored run, or more than one
├── TargetError           the target refused, vanished or cannot do what was asked: exit 1 (2 before the run began)
│   └── SpaceError        not enough room for the plan
├── RunFailedError        `naslab.measure`: the run failed; what was measured is stored: exit 1
├── StoreError            the store of results cannot be read or written: exit 1
│   └── BadStoreError     the file named is no store or run of this naslab: exit 2, it was left untouched
└── InterruptedRunError   Ctrl-C, SIGTERM or SIGHUP; what was measured is stored: exit 130

Interrupted is none of them but a KeyboardInterrupt: `except NaslabError` in a loop must not take a Ctrl-C.

Rust raises these classes too (crates/py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from naslab.results.run import Run

INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells give it. SIGTERM and SIGHUP end a run as Ctrl-C does."""


class NaslabError(Exception):
    """Base of all naslab errors. `exit_code` is what the command line ends with.

    failure: of one that the engine raised, its parts: class, raw status, operation, cause, and pairs of a fact's name
    and value (naslab.text.messages puts them into words).
    """

    exit_code = 1
    failure: tuple[str, int, str, str, list[tuple[str, str]]] | None = None


class UsageError(NaslabError):
    """The request is wrong. The message names the option, the value and the next step."""

    exit_code = 2


class SpecError(UsageError):
    """A run specification is out of range or contradicts itself."""


class TraceError(UsageError):
    """A trace, or a text to be converted into one, is malformed. The message names the file and the line."""


class ForeignFileError(UsageError):
    """A file to be imported is not the output of a benchmark, or is cut off. The message names the file and says what
    it looks like."""


class UnknownRunError(UsageError):
    """A run reference matches no run, or more than one."""


class TargetError(NaslabError):
    """The target failed: `kind` is the class, `status` the raw status (errno, NTSTATUS, nfsstat).

    before_run: it failed before anything was measured or stored, which ends with exit code 2.
    """

    def __init__(self, message: str, kind: str = "io", status: int = 0, before_run: bool = False) -> None:
        super().__init__(message)
        self.kind = kind
        self.status = status
        self.refuse(before_run)

    def refuse(self, before_run: bool = True) -> None:
        """Says whether this happened before the run began."""
        self.before_run = before_run
        self.exit_code = 2 if before_run else 1


class SpaceError(TargetError):
    """The target has too little room for the plan (1.2 times the largest set of files)."""


class StoreError(NaslabError):
    """The store of results cannot be opened, read or written."""


class BadStoreError(StoreError):
    """The file given is not a store (or not an exported run) that this naslab can use."""

    exit_code = 2


class InterruptedRunError(NaslabError):
    """The run was interrupted; what was measured until then is stored."""

    exit_code = INTERRUPTED


class RunFailedError(NaslabError):
    """A measurement that a Python program asked for failed. run: what was measured, which is stored."""

    def __init__(self, message: str, run: Run) -> None:
        super().__init__(message)
        self.run = run


class Interrupted(KeyboardInterrupt):
    """A measurement that a Python program asked for was interrupted. run: what was measured, stored; None: nothing."""

    def __init__(self, message: str, run: Run | None) -> None:
        super().__init__(message)
        self.run = run
