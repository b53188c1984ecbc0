"""Who cuts the server's power, and who gives it back: the user, a command of the user's, or the lab."""

from __future__ import annotations

import os
import select
import sys
import termios
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from naslab.errors import TargetError
from naslab.units import duration_text

if TYPE_CHECKING:
    import threading

Kind = Literal["power", "process", "unknown"]
How = Literal["ask", "command", "lab", "later"]
"""power: the machine lost its memory. process: the server program was killed, its machine and caches lived on. unknown:
nobody confirmed what it was."""


class Command(Protocol):
    """A command of the user's."""

    def run(self) -> None:
        """Raises TargetError when it fails."""

    def tell(self) -> None:
        """Shows what it said last."""


class Cutter(Protocol):
    """Cuts the power of the server and gives it back."""

    kind: Kind
    how: How

    def cut(self, lost: threading.Event) -> None:
        """Returns when the power is cut; `lost` is set when the load has met that. Raises TargetError."""

    def restore(self) -> None:
        """Gives it back, or asks for it; the server need not answer yet. Raises TargetError."""

    def confirm(self) -> None:
        """The server answers again: settles `kind` where only a person knows it."""


@dataclass
class LabCutter:
    """Parts of the lab: `kill` and `start` are the calls of a guest (kind power) or of a server program (process)."""

    kind: Kind
    kill: Callable[[], None]
    start: Callable[[], None]
    how: How = "lab"

    def cut(self, lost: threading.Event) -> None:
        """Kills it."""
        self.kill()

    def restore(self) -> None:
        """Starts it again."""
        self.start()

    def confirm(self) -> None:
        """The lab knows what it killed."""


@dataclass
class CommandCutter:
    """A switchable power plug, or whatever the user's commands do. They are kept nowhere."""

    cutting: Command
    restoring: Command | None
    kind: Kind = "power"
    how: How = "command"

    def cut(self, lost: threading.Event) -> None:
        """Runs the command for it."""
        _run(self.cutting)

    def restore(self) -> None:
        """Runs the other one, where there is one."""
        if self.restoring is not None:
            _run(self.restoring)

    def confirm(self) -> None:
        """The user's commands are taken for what their options say."""


def _run(command: Command) -> None:
    try:
        command.run()
    except TargetError:
        command.tell()
        raise


@dataclass
class AskCutter:
    """The user pulls the plug. Questions and answers go over the terminal; without one the loss of the server is
    waited for, and what was cut stays unknown.
    """

    wait_s: float
    has_terminal: bool
    kind: Kind = "unknown"
    how: How = "ask"
    said_off: bool = False

    def cut(self, lost: threading.Event) -> None:
        """Waits until the server is lost or the user says that it is off. Raises TargetError when neither comes."""
        enter = " If this command notices nothing, press Enter once it is off." if self.has_terminal else ""
        _say(
            "The load is running. Now cut the server's power: pull its plug or switch off its socket. Do not shut it "
            "down, "
            f"and do not pull the network cable.{enter}"
        )
        end = time.monotonic() + self.wait_s
        while not lost.is_set() and not self.said_off:
            if time.monotonic() > end:
                raise TargetError(
                    f"--wait: no cut within {duration_text(int(self.wait_s * 1e9))}; start again when you can do it",
                    "no_cut",
                )
            self.said_off = self._entered(lost)
        _say("The server is gone." if lost.is_set() else "Counted as cut.")

    def _entered(self, lost: threading.Event) -> bool:
        if not self.has_terminal:
            lost.wait(0.2)
            return False
        ready, _, _ = select.select([sys.stdin], [], [], 0.2)
        return bool(ready) and os.read(sys.stdin.fileno(), 4096) != b""

    def restore(self) -> None:
        """Asks for it."""
        _say("Wait a few seconds, then switch it on again. This command continues when the server answers.")

    def confirm(self) -> None:
        """Asks what it was."""
        if not self.has_terminal:
            return
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)  # an Enter from before answers nothing
        _say("The server answers. Was its power cut, all of it, while it ran? [y/N]")
        answer = os.read(sys.stdin.fileno(), 4096).decode(errors="replace").strip().lower()
        self.kind = "power" if answer in ("y", "yes") else "unknown"


def _say(text: str) -> None:
    print(f"naslab: {text}", file=sys.stderr, flush=True)
