"""The command line. `main` is the entry point; commands live in `app`, long work elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from naslab.errors import NaslabError


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command line (without the program's name); the exit code of DESIGN.md section 4."""
    args = list(sys.argv[1:] if argv is None else argv)
    try:
        return _dispatch(args)
    except NaslabError as error:
        print(f"naslab: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("naslab: interrupted", file=sys.stderr)
        return 1
    except BrokenPipeError:
        sys.stderr.close()
        return 1


def _dispatch(args: list[str]) -> int:
    if args[:1] == ["iozone"] and args[1:] not in ([], ["--help"]):
        # IOzone's own option syntax: click's parser must not see it.
        from naslab.iozone.run import main as iozone_main

        return iozone_main(args[1:])
    from naslab.cli.app import run_app

    return run_app(args)


def entry() -> None:
    """Console script."""
    sys.exit(main())
