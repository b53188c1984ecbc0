"""`--options FILE.toml` and `--preset NAME`: options of a command from a file, as if they stood before the others.

A file has the long names of options as keys, with or without a table for each command; a preset is such a file that
comes with naslab. What the command line gives itself comes later, and so wins.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from naslab.cli.registry import nearest
from naslab.errors import UsageError

PRESETS = ("media", "backup", "office", "vm", "photo")
_OWN = ("options", "preset")


def expand(command: str, params: Sequence[Any], args: list[str]) -> list[str]:
    """The arguments with those of the files named in them, in their place at the front. Raises UsageError."""
    end = args.index("--") if "--" in args else len(args)
    given, rest = _taken(args[:end])
    if not given:
        return args
    known = {name.removeprefix("--"): each for each in params for name in each.opts if name.startswith("--")}
    front: list[str] = []
    for option, value in given:
        data, where = _read(option, value)
        front += _words(_of_command(data, command, where, option == "--preset"), known, where)
    return [*front, *rest, *args[end:]]


def _taken(args: list[str]) -> tuple[list[tuple[str, str]], list[str]]:
    """The (option, value) pairs of the two options, presets first, and the other arguments."""
    given, rest, left = [], [], list(args)
    while left:
        word = left.pop(0)
        option, equals, value = word.partition("=")
        if option not in ("--options", "--preset"):
            rest.append(word)
        elif equals or left:
            given.append((option, value if equals else left.pop(0)))
        else:
            raise UsageError(f"{option}: its value is missing; write {option} {_example(option)}")
    return sorted(given, key=lambda each: each[0] != "--preset"), rest


def _example(option: str) -> str:
    return "FILE.toml" if option == "--options" else "|".join(PRESETS)


def _read(option: str, value: str) -> tuple[dict[str, Any], str]:
    where = f"{option} {value}"
    try:
        if option == "--preset":
            if value not in PRESETS:
                raise UsageError(f"{where}: there are {', '.join(PRESETS)}; choose one")
            text = (resources.files("naslab.cli") / "presets" / f"{value}.toml").read_text(encoding="utf-8")
        else:
            text = Path(value).read_text(encoding="utf-8")
        return tomllib.loads(text), where
    except OSError as error:
        raise UsageError(f"{where}: {(error.strerror or 'not readable').lower()}; name a TOML file") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{where}: {error}; correct the TOML, e.g. depth = 4") from None


def _of_command(data: dict[str, Any], command: str, where: str, preset: bool) -> dict[str, Any]:
    """The keys for the command: those outside tables, then those of its own table."""
    tables = {name: each for name, each in data.items() if isinstance(each, dict)}
    if preset and command not in tables:
        raise UsageError(f"{where}: it is for {', '.join(sorted(tables))}; choose one of these, or leave it out")
    plain = {name: each for name, each in data.items() if not isinstance(each, dict)}
    return {**plain, **tables.get(command, {})}


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
            if not isinstance(value, bool):
                raise UsageError(f"{where}: {key} = {value!r}: write true or false")
            off = next(iter(parameter.secondary_opts), None)
            yield from [f"--{name}"] if value else [off] if off else []
            continue
        several = value if isinstance(value, list) else [value]
        if any(isinstance(each, bool | dict | list) for each in several):
            raise UsageError(f"{where}: {key} = {value!r}: write a text, a number or a list of them")
        for each in several if parameter.multiple else [",".join(map(str, several))]:
            yield f"--{name}={each}"
