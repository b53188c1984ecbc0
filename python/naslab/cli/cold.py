"""--cold and --cold-command: what makes a pass cold, and what a user's command between two cells may do.

naslab cannot empty a server's memory, so it runs what the user gives for it, outside of all measured windows (mdtest's
--run-cmd-before-phase). The command's text is kept nowhere, as it may hold a password; nor is what it prints, which may
repeat the text: that goes to the terminal alone.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING

from naslab.analysis.metadata import Cold
from naslab.errors import TargetError, UsageError
from naslab.execution.execute import probe
from naslab.execution.waits import held_back
from naslab.text.printable import printable
from naslab.units import duration_text

if TYPE_CHECKING:
    from naslab.targets import Target

OPTION = "--cold-command"
RETRY_S = 0.5
SAID_BYTES = 2_000
"""Most of a failed command's last words that are shown."""
DROP = "'sync; echo 3 > /proc/sys/vm/drop_caches'"


def parse_cold(cold: bool, command: str | None, target: Target) -> Cold:
    """How cold passes are made on a target. Raises UsageError for what would empty nothing, or contradicts itself."""
    if command is not None and not cold:
        raise UsageError(f"{OPTION}: is run before cold passes only; give --cold with it")
    if command is not None and not command.strip():
        raise UsageError(f"{OPTION}: is empty; give the command that empties the server's caches, or leave it out")
    if not cold:
        return "none"
    if target.protocol == "null":
        raise UsageError("--cold: null: keeps nothing that could be cold; name a server or a folder")
    if target.protocol == "sim" and command is not None:
        raise UsageError(f"{OPTION}: no command reaches a simulated server; leave it out")
    if command is None and target.protocol == "local":
        raise UsageError(
            f"--cold: a new session empties nothing here, as the kernel's caches stay; give {OPTION} CMD with what "
            f"empties them (root may: {DROP}, for the whole machine; or mount a share again)"
        )
    return "new_connection" if command is None else "command"


def cold_note(cold: Cold, target: Target) -> str:
    """What was cold and what was not, in a sentence; empty without cold passes."""
    if cold == "none":
        return ""
    if cold == "command":
        new = "" if target.protocol == "local" else "new connections, "
        return f"Cold: {new}each pass after {OPTION}; what that emptied was not checked."
    if target.lab:
        kept = "the lab's server runs on this machine, whose cache is not emptied"
    else:
        kept = "the server cache is not emptied"
    return f"New connection: the client's connection is new; {kept} ({OPTION} can do that)."


@dataclass
class ColdCommand:
    """Runs a shell command, and waits until a server that it restarted answers again.

    limit_s: for the command, and for the server's answer, from the option `limit`. option: the one that gave it. waits:
    for the server to answer again after it. said: the last words of a command that failed.
    """

    command: str
    target: Target
    limit_s: float
    option: str = OPTION
    waits: bool = True
    limit: str = "--timeout"
    said: str = field(default="", init=False)

    def run(self) -> None:
        """Raises TargetError, without the command's text and words, when it fails or takes too long."""
        # A file, not a pipe: what the command leaves behind (a server it started) may hold it open for ever.
        with tempfile.TemporaryFile() as words:
            # A session of its own: Ctrl-C is naslab's to handle, and a command that hangs goes with its children.
            children: list[subprocess.Popen[bytes]] = []
            try:
                with held_back():
                    children.append(subprocess.Popen(
                        ["/bin/sh", "-c", self.command], stdin=subprocess.DEVNULL, stdout=words, stderr=words,
                        start_new_session=True,
                    ))  # fmt: skip
                code: int | None = children[0].wait(self.limit_s)
            except subprocess.TimeoutExpired:
                code = None
            finally:
                for child in children:
                    _end(child)
            self.said = "" if code == 0 else _tail(words)
        if code is None:
            after = duration_text(int(self.limit_s * 1e9))
            raise TargetError(f"{self.option}: not done after {after}; raise {self.limit}", self._kind)
        if code:
            how = f"exit status {code}" if code > 0 else f"ended by {signal.Signals(-code).name}"
            raise TargetError(f"{self.option}: {how}; try the command by itself", self._kind)
        if self.waits and self.target.protocol in ("smb", "nfs"):
            self._wait_for_server()

    @property
    def _kind(self) -> str:
        return self.option.removeprefix("--").replace("-", "_")

    def _wait_for_server(self) -> None:
        end = time.monotonic() + self.limit_s
        while True:
            try:
                probe(self.target, [])
            except TargetError as error:
                if time.monotonic() + RETRY_S >= end:
                    raise TargetError(
                        f"{self.option}: the server does not answer after it: {error}", error.kind
                    ) from error
                time.sleep(RETRY_S)
            else:
                return

    def tell(self) -> None:
        """Shows what a failed command said last, on the terminal."""
        if self.said:
            print(f"naslab: {self.option} printed: {self.said}", file=sys.stderr)


def _end(child: subprocess.Popen[bytes]) -> None:
    """Ends a command that still runs, with what it started."""
    if child.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()


def _tail(words: IO[bytes]) -> str:
    words.seek(max(0, words.seek(0, os.SEEK_END) - SAID_BYTES))
    text = words.read().decode(errors="replace").strip()
    return printable(text)
