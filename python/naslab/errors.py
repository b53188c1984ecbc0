"""Every error naslab raises on purpose, under one base.

NaslabError
├── UsageError            bad option, value or combination: exit 2, nothing was written
│   ├── SpecError         a run specification that contradicts itself
│   └── UnknownRunError   a RUN that names no stored run, or more than one
├── TargetError           the target refused, vanished or cannot do what was asked: exit 1
│   └── SpaceError        not enough room for the plan
├── StoreError            the store of results cannot be opened, read or written: exit 1
└── InterruptedRunError   Ctrl-C or SIGTERM; what was measured is stored: exit 1

Rust raises these classes too (crates/py).
"""

from __future__ import annotations


class NaslabError(Exception):
    """Base of all naslab errors. `exit_code` is what the command line ends with."""

    exit_code = 1


class UsageError(NaslabError):
    """The request is wrong. The message names the option, the value and the next step."""

    exit_code = 2


class SpecError(UsageError):
    """A run specification is out of range or contradicts itself."""


class UnknownRunError(UsageError):
    """A run reference matches no run, or more than one."""


class TargetError(NaslabError):
    """The target failed: `kind` is the class, `status` the raw status (errno, NTSTATUS, nfsstat)."""

    def __init__(self, message: str, kind: str = "io", status: int = 0) -> None:
        super().__init__(message)
        self.kind = kind
        self.status = status


class SpaceError(TargetError):
    """The target has too little room for the plan (1.2 times the largest set of files)."""


class StoreError(NaslabError):
    """The store of results cannot be opened, read or written."""


class InterruptedRunError(NaslabError):
    """The run was interrupted; what was measured until then is stored."""
