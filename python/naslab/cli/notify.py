"""`--notify bell|COMMAND`: says that a measuring command has ended, however it ended."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys

from naslab.errors import UsageError
from naslab.text.printable import raw

LIMIT_S = 30


def check(notify: str) -> list[str]:
    """The words of the command; none for the bell. Raises UsageError."""
    if notify == "bell":
        return []
    try:
        words = shlex.split(notify)
    except ValueError as error:
        raise UsageError(f"--notify {notify!r}: {str(error).lower()}; write bell, or a command and its words") from None
    if not words:
        raise UsageError(f"--notify {notify!r}: write bell, or a command and its words")
    return words


def tell(words: list[str], code: int, run_id: str | None, command: str) -> None:
    """Rings, or runs the command without a shell; what goes wrong with it is said and changes nothing else.

    It finds NASLAB_RUN_ID (empty without a run), NASLAB_EXIT_CODE and NASLAB_COMMAND in its environment.
    """
    if not words:
        print("\a", end="", file=raw(sys.stderr), flush=True)
        return
    told = {"NASLAB_RUN_ID": run_id or "", "NASLAB_EXIT_CODE": str(code), "NASLAB_COMMAND": command}
    secrets = ("NASLAB_PASSWORD",)
    env = {name: each for name, each in os.environ.items() if name not in secrets} | told
    try:
        done = subprocess.run(words, env=env, stdin=subprocess.DEVNULL, stdout=sys.stderr.fileno(),
                              timeout=LIMIT_S, check=False)  # fmt: skip
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        reason = getattr(error, "strerror", None) or f"it did not end within {LIMIT_S} s"
        print(f"naslab: --notify {words[0]}: {reason}; the run itself is not affected", file=sys.stderr)
        return
    if done.returncode:
        print(f"naslab: --notify {words[0]}: it ended with code {done.returncode}", file=sys.stderr)
