"""One command line to the command that it names: help, version, old names and typos are answered here."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

from naslab import __version__
from naslab.cli.around import around
from naslab.cli.lookup import Choice, choose, nearest, nearest_command, parts_of
from naslab.cli.registry import ASK, LIVE, NOTIFY, OPTIONS, Command
from naslab.errors import INTERRUPTED, UsageError

REFUSED = 2
_HELP = ("-h", "--help", "help")
_VERSION = ("-V", "--version", "version")
_TARGETS = ("/", "./", "../", "~", "\\\\", "smb:", "nfs:", "lab:", "sim:", "null:")
"""How targets begin: whoever forgets the command names one first."""


def run_app(args: list[str]) -> int:
    """Parses and runs one command; its exit code. Raises NaslabError, KeyboardInterrupt."""
    if not args:
        from naslab.cli.help_text import BEGIN

        print(BEGIN, end="")
        return 0
    if args[0] in _HELP:
        return _help(args[1:])
    if args[0] in _VERSION:
        print(f"naslab {__version__}")
        return 0
    if args[0] == ASK:
        from naslab.cli.completing import answer

        return answer(args[1:])
    choice = choose(args)
    if choice is None:
        raise UsageError(_unknown(args))
    return _run(choice)


def _run(choice: Choice) -> int:
    """Carries the command out. What is to be said of old spellings comes last, and not after a refusal."""
    command = choice.command
    hints = []
    if now := f"naslab {command.name}" if choice.old else command.instead:
        old = choice.old or command.name
        hints.append(f"`naslab {old}` is now `{now}`; the old name goes with the next release")
    if command.own_syntax:
        code = _foreign(command, choice.rest)
    elif command.where:
        code = _parsed(command, choice.rest, hints)
    else:
        code = _group(command, choice.rest)
    if code != REFUSED:
        for hint in hints:
            print(f"naslab: {hint}", file=sys.stderr)
    return code


def _parsed(command: Command, rest: list[str], hints: list[str]) -> int:
    """A command whose options are parsed here. hints: takes what is to be said of old options."""
    from naslab.cli.build import parser_of
    from naslab.cli.usage_errors import is_usage_error, say_usage_error

    parser = parser_of(command.name)
    try:
        ended: Any = parser.main(args=rest, prog_name=f"naslab {command.name}", standalone_mode=False)
    except UsageError as error:
        if part := _meant_part(command, rest):
            raise UsageError(f"{error}; if {part} was meant: naslab {part} --help") from error
        raise
    except Exception as error:
        if not is_usage_error(error):
            raise
        return say_usage_error(error, parser)
    hints += parser.used_old
    if ended == INTERRUPTED:
        raise KeyboardInterrupt
    code = ended[0] if isinstance(ended, tuple) else ended
    return code if isinstance(code, int) else 0


def _meant_part(command: Command, rest: list[str]) -> str:
    """The part of the command that the first word after it is like, as in `naslab compare chekc`; empty for none."""
    names = [part.name for part in parts_of(command.name)]
    return nearest(f"{command.name} {rest[0]}", names, 0.85) if rest and names else ""


def _help(words: list[str]) -> int:
    """`naslab help COMMAND`; without one, all of them."""
    from naslab.cli.help_text import coloured, root_help, width

    words = [word for word in words if not word.startswith("-")]
    if not words:
        print(coloured(root_help(width())))
        return 0
    choice = choose(words)
    if choice is None or choice.rest:
        raise UsageError(_unknown(words))
    return _run(choice._replace(rest=["--help"]))


def _group(command: Command, rest: list[str]) -> int:
    """Prints the help of a command that only has parts. Raises UsageError for a part that it does not have."""
    from naslab.cli.help_text import coloured, group_help, width

    if rest and rest[0] not in _HELP:
        raise UsageError(_unknown([*command.name.split(), *rest]))
    print(coloured(group_help(command, width())))
    return 0


def _foreign(command: Command, rest: list[str]) -> int:
    """Another tool's command line; our options and examples follow its help."""
    module, _, function = command.where.partition(":")
    main = getattr(import_module(module), function)
    if rest not in ([], ["--help"]):
        return _with_shared(command, rest, main)
    from naslab.cli.help_text import coloured, examples_help, width

    code = int(main([command.own_syntax]))
    print(f"\n{coloured(examples_help(command, width()))}")
    return code


def _with_shared(command: Command, rest: list[str], main: Callable[[list[str]], int]) -> int:
    """Another tool's command line with the options that every command has. Raises UsageError."""
    from naslab.cli.option_files import expand_foreign, taken

    given, words = taken(rest, [each.option for each in command.shared()])
    last = dict(given)
    files = [value for option, value in given if option == OPTIONS.option]
    if files:
        words = expand_foreign(command, files, words)
    return int(around(
        command, lambda: main(words), last.get(LIVE.option, ""), last.get(NOTIFY.option, ""), "name a file"
    ))  # fmt: skip


def _unknown(words: list[str]) -> str:
    """What to say of a command that does not exist, with the nearest one or the next step."""
    first = words[0]
    if first.startswith(_TARGETS):
        return f"{first!r} is a target, not a command; to measure it: naslab run {first}"
    if first.startswith("-"):
        return f"no option {first} before a command; options come after it: naslab COMMAND {first}"
    typed = " ".join(words[:2]) if parts_of(first) and len(words) > 1 else first
    found = nearest_command(words)
    page = f"naslab {first} --help" if parts_of(first) else "naslab --help"
    return f"no command {typed!r}; " + (f"did you mean {found}? See {page}" if found else f"{page} lists them")
