"""-U: unmount and mount again before each pass, so that the client's cache is empty."""

from __future__ import annotations

import os
import shlex
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from naslab.errors import TargetError, UsageError

STEP_LIMIT_S = 10.0
"""Longest time for one unmount or mount, retries included. IOzone retries for hours."""

RETRY_S = 0.5


@dataclass
class Remounter:
    """Remounts one mount point. limit_s: per step, retries included."""

    mount: str
    umount_command: str | None = None
    mount_command: str | None = None
    limit_s: float = STEP_LIMIT_S
    retry_s: float = RETRY_S

    def check(self, file: str) -> None:
        """Before anything is written: is it a mount point, not in use by us, and does it hold the file?

        Raises UsageError.
        """
        if self.umount_command is None and not os.path.ismount(self.mount):
            raise UsageError(
                f"-U {self.mount}: is not a mount point; mount it first (fstab must know it), or give "
                "--umount-command and --mount-command"
            )
        if _within(os.getcwd(), self.mount):
            raise UsageError(f"-U {self.mount}: the current folder is inside, which keeps it busy; change to another")
        if not _within(os.path.dirname(os.path.abspath(file)), self.mount):
            raise UsageError(f"-U {self.mount}: -f {file} is not inside, so remounting changes nothing; give -f inside")

    def remount(self) -> None:
        """Unmounts and mounts. Raises TargetError naming the step, the command and its message."""
        self._step("unmount", self._command("umount", self.umount_command))
        self._step("mount", self._command("mount", self.mount_command))

    def _command(self, program: str, given: str | None) -> list[str]:
        return [program, self.mount] if given is None else shlex.split(given)

    def _step(self, name: str, command: list[str]) -> None:
        """Runs the command until it succeeds or the limit is reached."""
        end = time.monotonic() + self.limit_s
        while True:
            message = _attempt(command, end - time.monotonic())
            if message is None:
                return
            if time.monotonic() + self.retry_s >= end:
                break
            time.sleep(self.retry_s)
        option = "--umount-command" if name == "unmount" else "--mount-command"
        raise TargetError(
            f"-U {self.mount}: cannot {name} it within {self.limit_s:g} s: `{shlex.join(command)}`: {message}; "
            f"close the programs that use it, or give {option}",
            kind="remount",
        )


def _attempt(command: list[str], seconds: float) -> str | None:
    """None when the command succeeded, else its message."""
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=max(seconds, 0.1), check=False, text=True
        )
    except subprocess.TimeoutExpired:
        return "no answer in time"
    except OSError as error:
        return error.strerror or str(error)
    if done.returncode == 0:
        return None
    return (done.stderr or done.stdout).strip() or f"exit status {done.returncode}"


def _within(path: str, mount: str) -> bool:
    inner, outer = Path(os.path.realpath(path)), Path(os.path.realpath(mount))
    return inner == outer or outer in inner.parents
