"""The command line. `main` is the entry point; commands live in `app`, long work elsewhere."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence

from naslab.errors import NaslabError
from naslab.printable import guarded


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command line (without the program's name); the exit code of DESIGN.md section 4."""
    with guarded():
        return _main(list(sys.argv[1:] if argv is None else argv))


def _main(args: list[str]) -> int:
    try:
        code = _in_lab(args)
        sys.stdout.flush()
        return code
    except NaslabError as error:
        return _fail(f"naslab: {error}", error.exit_code)
    except KeyboardInterrupt:
        return _fail("naslab: interrupted", 1)
    except BrokenPipeError:
        _abandon_stdout()
        return 1
    except OSError as error:  # standard output on a full disk, a folder that vanished
        _abandon_stdout()
        return _fail(f"naslab: {error}", 1)


def _fail(message: str, code: int) -> int:
    """Prints what cannot be said in this terminal's encoding with replacement characters."""
    encoding = sys.stderr.encoding or "utf-8"
    print(message.encode(encoding, "backslashreplace").decode(encoding), file=sys.stderr)
    return code


def _abandon_stdout() -> None:
    """Nobody reads any more: what is still buffered goes nowhere, and Python says nothing about it at exit."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def _in_lab(args: list[str]) -> int:
    """Runs the command, then ends the servers of the lab that it started for its target, if any."""
    try:
        return _dispatch(args)
    finally:
        if lab := sys.modules.get("naslab.lab.session"):
            lab.close()


def _dispatch(args: list[str]) -> int:
    if args[:1] == ["iozone"]:
        # IOzone's own option syntax: click's parser must not see it.
        from naslab.iozone.run import main as iozone_main

        return iozone_main(["-h"] if args[1:] in ([], ["--help"]) else args[1:])
    if args[:1] == ["diskspd"]:
        from naslab.cli.diskspd import main as diskspd_main

        return diskspd_main(args[1:])
    from naslab.cli.app import run_app

    return run_app(args)


def entry() -> None:
    """Console script."""
    sys.exit(main())
