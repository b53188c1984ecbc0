"""`--options FILE.toml` and `--preset NAME`: options of a command from a file, as if they stood before the others.

A file has the long names of options as keys, with or without a table for each command; a preset is such a file that
comes with naslab. What the command line gives itself comes later, and so wins. Another tool's command line is served,
too: its keys are that tool's own options without the dashes (`Forms`).
"""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module, resources
from pathlib import Path
from typing import Any, Literal

from naslab.cli.lookup import nearest
from naslab.cli.registry import LIVE, NOTIFY, OPTIONS, PRESET, Command
from naslab.errors import UsageError

PRESETS = tuple(PRESET.value.split("|"))
_OWN = ("options", "preset")
Form = Literal["flag", "value", "joined", "words"]
"""How a value follows an option: not at all, as the next word, without a blank, as several words. `joined` may be left
without one."""


@dataclass(frozen=True)
class Forms:
    """Another tool's options: of each as written how its value follows. given: those that its command line has."""

    of: Mapping[str, Form]
    given: Collection[str]


def expand(command: Command, params: Sequence[Any], args: list[str]) -> list[str]:
    """The arguments with those of the files named in them, in their place at the front. Raises UsageError."""
    end = _end_of_own(command, params, args)
    given, rest = taken(args[:end], (OPTIONS.option, PRESET.option))
    if not given:
        return args
    known = {name.removeprefix("--"): each for each in params for name in each.opts if name.startswith("--")}
    front: list[str] = []
    # A file of one's own comes after a preset, and wins.
    for option, value in sorted(given, key=lambda each: each[0] != PRESET.option):
        data, where = _read(option, value)
        front += _words(_of_command(data, command.name, where, option == PRESET.option), known, where)
    return [*front, *rest, *args[end:]]


def expand_foreign(command: Command, files: Sequence[str], rest: list[str]) -> list[str]:
    """The same for another tool's command line. files: those of `--options`. Raises UsageError."""
    module, _, function = command.forms.partition(":")
    forms_of: Callable[[list[str]], tuple[dict[str, Form], set[str]]] = getattr(import_module(module), function)
    forms = Forms(*forms_of(rest))
    front: list[str] = []
    for value in files:
        data, where = _read(OPTIONS.option, value)
        front += _foreign_words(_of_command(data, command.name, where), forms, where)
    return [*front, *rest]


def _end_of_own(command: Command, params: Sequence[Any], args: list[str]) -> int:
    """Where the words of another program begin: behind `--`, or at the first place of a command that says so."""
    end = args.index("--") if "--" in args else len(args)
    if command.settings.get("allow_interspersed_args") is not False:
        return end
    valued = {name for each in params for name in each.opts if name.startswith("-") and not each.is_flag}
    at = 0
    while at < end and args[at].startswith("-"):
        at += 2 if args[at] in valued else 1
    return min(at, end)


def taken(args: Sequence[str], options: Collection[str]) -> tuple[list[tuple[str, str]], list[str]]:
    """The (option, value) pairs of these options in their order, and the other arguments. Raises UsageError."""
    given, rest, left = [], [], list(args)
    while left:
        word = left.pop(0)
        option, equals, value = word.partition("=")
        if option not in options:
            rest.append(word)
        elif equals or left:
            given.append((option, value if equals else left.pop(0)))
        else:
            raise UsageError(f"{option}: its value is missing; write {option} {_example(option)}")
    return given, rest


def _example(option: str) -> str:

    return next(each.value for each in (OPTIONS, PRESET, LIVE, NOTIFY) if each.option == option)


def _read(option: str, value: str) -> tuple[dict[str, Any], str]:
    where = f"{option} {value}"
    try:
        if option == PRESET.option:
            if value not in PRESETS:
                raise UsageError(f"{where}: there are {', '.join(PRESETS)}; choose one")
            text = _preset_text(value)
        else:
            text = Path(value).read_text(encoding="utf-8")
        return tomllib.loads(text), where
    except OSError as error:
        raise UsageError(f"{where}: {(error.strerror or 'not readable').lower()}; name a TOML file") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{where}: {error}; correct the TOML, e.g. depth = 4") from None


def _preset_text(name: str) -> str:
    return (resources.files("naslab.cli") / "presets" / f"{name}.toml").read_text(encoding="utf-8")


@functools.cache
def preset_commands() -> tuple[str, ...]:
    """The commands that some preset is for."""
    return tuple(sorted({command for name in PRESETS for command in tomllib.loads(_preset_text(name))}))


def _of_command(data: dict[str, Any], command: str, where: str, preset: bool = False) -> dict[str, Any]:
    """The keys for the command: those outside tables, then those of its own, [compare.check] or ["compare check"]."""
    if preset and command not in data:
        fits = ", ".join(sorted(data))
        raise UsageError(f"{where}: it is for {fits}; choose one of these, e.g. naslab run TARGET {where}")
    own: Any = data
    for word in command.split():
        own = own.get(word) if isinstance(own, dict) else None
    tables = [data, own, data.get(command)]
    return {
        name: each for table in tables if isinstance(table, dict) for name, each in table.items()
        if not isinstance(each, dict)
    }  # fmt: skip


def _words(chosen: dict[str, Any], known: dict[str, Any], where: str) -> Iterator[str]:
    """The options as they are written. Raises UsageError for keys that are none, and values that no option has."""
    for key, value in chosen.items():
        name = key.replace("_", "-").removeprefix("--")
        parameter = known.get(name)
        if parameter is None or name in _OWN:
            near = nearest(name, list(known))
            hint = f"did you mean {near}?" if near else "name options as the command's help does, without the dashes"
            raise UsageError(f"{where}: unknown key {key!r}; {hint}")
        if parameter.is_flag:
            off = next(iter(parameter.secondary_opts), None)
            yield from [f"--{name}"] if _switch(key, value, where) else [off] if off else []
            continue
        several = _several(key, value, where)
        for each in several if parameter.multiple else [",".join(several)]:
            yield f"--{name}={each}"


def _switch(key: str, value: Any, where: str) -> bool:
    if not isinstance(value, bool):
        raise UsageError(f"{where}: {key} = {value!r}: write true or false")
    return value


def _several(key: str, value: Any, where: str) -> list[str]:
    several = value if isinstance(value, list) else [value]
    if any(isinstance(each, bool | dict | list) for each in several):
        raise UsageError(f"{where}: {key} = {value!r}: write a text, a number or a list of them")
    return [str(each) for each in several]


def _foreign_words(chosen: dict[str, Any], forms: Forms, where: str) -> Iterator[str]:
    """Another tool's options as it writes them, without those that the command line has itself."""
    known = {option.lstrip("-"): option for option in forms.of}
    for key, value in chosen.items():
        option = known.get(key.lstrip("-"))
        if option is None:
            near = nearest(key, list(known))
            hint = f"did you mean {near}?" if near else "name options as the command's help does, without the dashes"
            raise UsageError(f"{where}: unknown key {key!r}; {hint}")
        form = forms.of[option]
        if form == "flag" or (form == "joined" and isinstance(value, bool)):
            words = [option] if _switch(key, value, where) else []
        elif form == "joined":
            words = [f"{option}{each}" for each in _several(key, value, where)]
        elif form == "words":
            words = [option, *_several(key, value, where)]
        else:
            words = [word for each in _several(key, value, where) for word in (option, each)]
        yield from words if option not in forms.given else ()
