"""The parser of one command, made by Typer from its function when it is asked for."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand

from naslab.cli.extras import extended
from naslab.cli.help_text import coloured, command_help, width
from naslab.cli.lookup import table
from naslab.cli.option_files import expand
from naslab.cli.registry import OLD_OPTIONS, SYNONYMS, Command


class NaslabCommand(TyperCommand):
    """A command of the registry: with the words for each other and the old ones of its options, and help of its own.

    shown: the spellings of options that help lists, by the name of the parameter. hints: what to say of an old one.
    used_old: what is to be said of this command line.
    """

    entry: Command
    shown: dict[str, list[str]]
    hints: dict[str, str]
    used_old: list[str]

    def get_help(self, ctx: Any) -> str:
        """The help, at the width of the terminal."""
        return coloured(command_help(self, width()))

    def get_help_option(self, ctx: Any) -> Any:
        """`-h, --help`."""
        option = super().get_help_option(ctx)
        _convert_less(option)
        return option

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """As click does; keeps what is to be said of old spellings until the command has ended."""
        args = expand(self.entry, self.params, args)
        spellings = [word.partition("=")[0] for word in (args[: args.index("--")] if "--" in args else args)]
        self.used_old = list(dict.fromkeys(self.hints[each] for each in spellings if each in self.hints))
        rest: list[str] = super().parse_args(ctx, args)
        return rest

    def invoke(self, ctx: Any) -> Any:
        """The exit code in a tuple: a bare 130 is what Typer makes of a Ctrl-C that it caught itself."""
        return (super().invoke(ctx),)


@functools.cache
def parser_of(name: str) -> NaslabCommand:
    """The parser of a command that is in the table and has a function."""
    entry = table()[name]
    module, _, function = entry.where.partition(":")
    one = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=False)
    settings = {"help_option_names": ["-h", "--help"], **entry.settings}
    made = getattr(importlib.import_module(module if "." in module else f"naslab.cli.{module}"), function)
    one.command(name, cls=NaslabCommand, context_settings=settings)(extended(made, entry))
    command = typer.main.get_command(one)
    assert isinstance(command, NaslabCommand)
    command.entry = entry
    _take_other_spellings(command)
    for each in command.params:
        _convert_less(each)
    return command


class _Conversion:
    """How Typer converts an option, but for values that need none: for the first that does it loads pydantic, which is
    an eighth of what a command takes to begin. made: Typer's own. annotation: the type that the function declares.
    """

    def __init__(self, made: Callable[[], Any], annotation: Any) -> None:
        self._made, self._annotation = made, annotation

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """The value of a parameter. Raises click's BadParameter."""
        if value is None:
            return () if param.multiple or param.nargs == -1 else None
        if self._annotation in (str, int, float, Path) and isinstance(value, self._annotation):
            return value  # text as it was typed; a number or a path only as the default
        if self._annotation is Path and isinstance(value, str):
            return Path(value)  # no option of ours asks Typer to look at the file
        return self._made().coerce(value, param=param, ctx=ctx)


def _convert_less(option: Any) -> None:
    """Once. Typer before 0.29 has no such step, and no pydantic."""
    made, kind = getattr(option, "get_runtime_param", None), getattr(option, "type_descriptor", None)
    if made is not None and kind is not None and "get_runtime_param" not in vars(option):
        option.get_runtime_param = functools.partial(_Conversion, made, kind.annotation)


def all_parsers() -> dict[str, NaslabCommand]:
    """The parsers of all commands that are shown, by name."""
    from naslab.cli.lookup import shown

    return {entry.name: parser_of(entry.name) for entry in shown() if entry.where and not entry.own_syntax}


def _take_other_spellings(command: NaslabCommand) -> None:
    """Adds old spellings, and words accepted for each other, to the options that the function declares."""
    options: list[Any] = [each for each in command.params if each.param_type_name == "option"]
    command.shown = {str(each.name): list(each.opts) for each in options}
    command.hints = {}
    taken = {spelling for each in options for spelling in each.opts}
    for option in options:
        for spelling in command.shown[str(option.name)]:
            if (other := SYNONYMS.get(spelling)) and other not in taken:
                option.opts.append(other)
            if better := command.entry.old_options.get(spelling):
                option.hidden = True
                hint = f"{spelling} of {command.entry.name} goes with the next release; use {better}"
                command.hints |= dict.fromkeys(option.opts, hint)
        old = f"--{option.name}".replace("_", "-")
        if new := OLD_OPTIONS.get(old):
            option.opts.append(old)
            command.hints[old] = f"{old} is now {new}; the old option goes with the next release"
