"""`naslab diskspd ARGS...`: DiskSpd's command line, and what its errors say."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from naslab.errors import INTERRUPTED, NaslabError


def main(argv: Sequence[str]) -> int:
    """Carries a DiskSpd command line out (without the program's name); the exit code: 0, 1, 2 or 130."""
    from naslab.cli.diskspd_run import run, say
    from naslab.diskspd.args import parse
    from naslab.diskspd.options import help_text

    try:
        request = parse(argv)
        if request.help:
            sys.stdout.write(help_text())
            return 0
        return run(request)
    except NaslabError as error:
        say(f"error: {error}")
        return error.exit_code
    except KeyboardInterrupt:
        say("interrupted")
        return INTERRUPTED
