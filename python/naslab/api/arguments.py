"""Keyword arguments as a command line, by the options that the command itself declares."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Literal, get_args

from naslab.errors import UsageError

Kind = Literal[
    "run", "sweep", "sustained", "burst", "cache speed", "cache size", "curve", "profile", "apps", "replay", "job",
    "tree",
]  # fmt: skip
"""Commands that measure."""
Option = (
    str | int | float | bool | timedelta | os.PathLike[str] | Mapping[str, object] | Sequence[str | int | float] | None
)
"""Value of an option: None leaves it out."""
_NOT_FOR_PROGRAMS = frozenset(("json", "quiet", "plan", "list", "resume", "help", "check", "details"))
"""Options about what is printed, and those that measure nothing or something else."""


def command_line(kind: str, target: str, options: Mapping[str, Any]) -> list[str]:
    """The words after `naslab`. Raises UsageError for a command or an option that there is not."""
    if kind not in (kinds := get_args(Kind)):
        raise UsageError(f"kind {kind!r}: choose {', '.join(kinds)}")
    parameters = _parameters(kind)
    words: list[str] = []
    places: dict[str, list[str]] = {}
    for name, value in options.items():
        parameter = parameters.get(name)
        if parameter is None:
            raise UsageError(_unknown(kind, name, parameters))
        if value is None:
            continue
        if parameter.param_type_name == "argument":
            places[parameter.name] = _several(value)
        else:
            words += _words(parameter, name, value)
    behind = dict.fromkeys(each.name for each in parameters.values() if each.name in places)
    named = [target, *(word for name in behind for word in places[name])]
    if any(word.startswith("-") for word in named):
        return [*kind.split(), *words, "--", *named]
    return [*kind.split(), *named, *words]


def _parameters(kind: str) -> dict[str, Any]:
    """The command's options by their long names, old ones left out, and its places behind the target."""
    from naslab.cli.build import parser_of

    found: dict[str, Any] = {}
    command = parser_of(kind)
    for parameter in command.params:
        if parameter.param_type_name == "argument":
            if parameter.name != "target":
                found[parameter.name] = parameter
            continue
        for spelling in parameter.opts:
            name = spelling.removeprefix("--").replace("-", "_")
            if spelling.startswith("--") and spelling not in command.hints and name not in _NOT_FOR_PROGRAMS:
                found[name] = parameter
    return found


def _words(parameter: Any, name: str, value: Any) -> list[str]:
    """The option with its value."""
    spelling = next(each for each in parameter.opts if each.startswith("--"))
    if parameter.is_flag:
        if not isinstance(value, bool):
            raise UsageError(f"{name}={value!r}: {spelling} is a switch; give True or False")
        if value == bool(parameter.default):
            return []
        return [spelling] if value else [parameter.secondary_opts[0]] if parameter.secondary_opts else []
    if isinstance(value, bool):
        raise UsageError(f"{name}={value!r}: {spelling} takes a value")
    if parameter.multiple:
        return [word for each in _several(value) for word in (spelling, each)]
    return [spelling, ",".join(_several(value))]


def _several(value: Any) -> list[str]:
    """One text for each of several values, one for one."""
    if isinstance(value, Mapping):
        return [f"{key}={each}" for key, each in value.items()]
    if isinstance(value, Iterable) and not isinstance(value, str | bytes | os.PathLike):
        return [_text(each) for each in value]
    return [_text(value)]


def _text(value: Any) -> str:
    if isinstance(value, timedelta):
        return f"{value.total_seconds():.9f}s"
    return os.fspath(value) if isinstance(value, os.PathLike) else str(value)


def _unknown(kind: str, name: str, parameters: Mapping[str, Any]) -> str:
    near = difflib.get_close_matches(name, parameters, 1)
    if name in _NOT_FOR_PROGRAMS:
        return f"{name}: that option of `naslab {kind}` is for the command line only"
    hint = f"did you mean {near[0]}?" if near else f"it has {', '.join(sorted(parameters))}"
    return f"{name}: `naslab {kind}` has no such option; {hint}"
