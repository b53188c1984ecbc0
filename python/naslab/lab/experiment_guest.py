"""naslab in a client's guest, started once: in a guest the start of a program as large takes longer than a short test.

`python -m naslab.lab.experiment_guest FOLDER` runs inside. It takes a command line as JSON from one named pipe, carries
it out in a child of its own, and says the exit code into another; what the command prints lies in files beside them.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from naslab.cli.build import parser_of
from naslab.lab.guest.client import Done, Guest

FOLDER = "/run/naslab-once"
_PARTS = (
    "naslab.cli.sweep", "naslab.cli.sustained", "naslab.cli.progress", "naslab.execute", "naslab.environment",
    "naslab.plans.sweep", "naslab.analysis.validity", "naslab.analysis.words", "naslab.store.store",
    "naslab.store.process",
    "naslab.results.document", "naslab.targets.smb", "naslab.targets.nfs", "naslab.targets.local", "naslab.credentials",
)  # fmt: skip
"""What nearly every command needs, read in before the first of them."""
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
        guest.spawn([sys.executable, "-m", "naslab.lab.experiment_guest", FOLDER], _LOG, env=env)

    def run(self, words: Sequence[str]) -> Done:
        """Carries a command line out, the program's name left out. Raises TargetError."""
        given = json.dumps(list(words)).encode()
        return self.guest.run(["/bin/sh", "-c", _CALL], given=given, timeout_s=None)


def _carry_out(folder: Path, words: list[str]) -> int:
    """The exit code of a command in a child, whose output goes into files."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            for number, name in ((1, "out"), (2, "err")):
                os.dup2(os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), number)
            from naslab.cli import main

            code = main(words)
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def main() -> None:
    """Entry point: waits for commands until it is killed with its guest."""
    folder = Path(sys.argv[1])
    for name in _PARTS:
        importlib.import_module(name)
    parser_of("sweep").make_context("sweep", ["null:"])
    parser_of("sustained")
    while True:
        words = json.loads((folder / "ask").read_text("utf-8"))
        code = _carry_out(folder, words)
        (folder / "answer").write_text(f"{code if 0 <= code < 256 else 1}\n", "ascii")


if __name__ == "__main__":
    main()
