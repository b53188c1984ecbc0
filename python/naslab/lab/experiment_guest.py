"""naslab in a client's guest, started once: in a guest the start of a program as large takes longer than a short test.

`python -m naslab.cli.in_guest FOLDER` runs inside. It takes a command line as JSON from one named pipe, and says the
exit code into another; what the command prints lies in files beside them.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from naslab.lab.guest.client import Done, Guest

FOLDER = "/run/naslab-once"
_CALL = f"cat > {FOLDER}/ask; read code < {FOLDER}/answer; cat {FOLDER}/out; cat {FOLDER}/err >&2; exit $code"
_HERE = str(Path(__file__).parents[2])
"""Where this naslab lies, so that the one inside is the same."""
_LOG = "/run/naslab-once.log"


class Once:
    """A naslab that waits in a guest. Raises TargetError when it cannot be started."""

    def __init__(self, guest: Guest, store: Path) -> None:
        self.guest = guest
        env = {"NASLAB_STORE": str(store), "COLUMNS": "100", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": _HERE}
        pipes = f"mkdir -p {FOLDER}; mkfifo {FOLDER}/ask {FOLDER}/answer"
        guest.shell(pipes)
        guest.spawn([sys.executable, "-m", "naslab.cli.in_guest", FOLDER], _LOG, env=env)

    def run(self, words: Sequence[str]) -> Done:
        """Carries a command line out, the program's name left out. Raises TargetError."""
        given = json.dumps(list(words)).encode()
        return self.guest.run(["/bin/sh", "-c", _CALL], given=given, timeout_s=None)
