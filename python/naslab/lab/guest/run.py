"""`python -m naslab.lab.guest.run FOLDER -- COMMAND...`: runs a command in the guest that lives in a folder.

Its output comes as it is made, its exit code is the command's. When this process ends, so does the command.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from naslab.errors import NaslabError
from naslab.lab.guest.client import find

_STREAMS = {"out": 1, "err": 2}
_NOT_RUN = 127


def prefix(folder: str) -> list[str]:
    """Words before a command that put it into the guest."""
    return [sys.executable, "-m", "naslab.lab.guest.run", folder, "--"]


def pass_on(name: str, data: bytes) -> None:
    """Writes a piece of output where it belongs."""
    while data:
        data = data[os.write(_STREAMS[name], data) :]


def main() -> int:
    """Entry point."""
    folder, _, *command = sys.argv[1:]
    try:
        return find(Path(folder)).run(command, timeout_s=None, on_output=pass_on).code
    except (NaslabError, BrokenPipeError) as error:
        if isinstance(error, NaslabError):
            print(f"naslab: {error}", file=sys.stderr)
        return _NOT_RUN
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
