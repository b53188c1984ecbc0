"""naslab inside of a client's guest, started once by `naslab.lab.experiment_guest`: a command line after the other.

`python -m naslab.cli.in_guest FOLDER` takes each as JSON from the pipe `ask`, carries it out in a child of its own, and
says the exit code into the pipe `answer`; what the command prints lies in the files `out` and `err`.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from pathlib import Path

from naslab.cli.build import parser_of

_PARTS = (
    "naslab.cli.sweep", "naslab.cli.sustained", "naslab.cli.progress", "naslab.execution.execute",
    "naslab.client.environment", "naslab.commands.plans.sweep", "naslab.analysis.validity",
    "naslab.render.terminal.summary", "naslab.results.store.store", "naslab.results.store.process",
    "naslab.results.document", "naslab.targets.smb", "naslab.targets.nfs", "naslab.targets.local",
    "naslab.targets.credentials",
)  # fmt: skip
"""What nearly every command needs, read in before the first of them."""


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
