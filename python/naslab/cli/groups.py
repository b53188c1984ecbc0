"""Options of a command as one dataclass: each field is an option, and a field that is a dataclass a group of options.

A group is written once and used by every command that has it. `with_arguments` makes of it the signature that Typer
reads, and of the parsed values the dataclass that the command gets.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any, get_type_hints


def with_arguments(command: Callable[..., int]) -> Callable[..., int]:
    """The command, one of whose parameters is such a dataclass, with a parameter for each of its options."""
    hints = get_type_hints(command, include_extras=True)
    name = next(name for name, kind in hints.items() if dataclasses.is_dataclass(kind))
    kind, others = hints[name], [each for each in inspect.signature(command).parameters.values() if each.name != name]
    options = list(_options(kind))

    @functools.wraps(command)
    def wrapped(**values: Any) -> int:
        own = {option.name: values.pop(option.name) for option in options}
        return command(**values, **{name: made(kind, own)})

    kept = [each.replace(annotation=hints[each.name]) for each in others]
    wrapped.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [*kept, *options], return_annotation=int
    )
    wrapped.__annotations__ = {each.name: each.annotation for each in [*kept, *options]} | {"return": int}
    return wrapped


def names_of(kind: type) -> list[str]:
    """Names of all options of such a dataclass."""
    return [option.name for option in _options(kind)]


def made(kind: Any, values: Mapping[str, Any]) -> Any:
    """The dataclass with the values of its options, by name; what has none keeps its default."""
    given = {
        name: made(hint, values) if dataclasses.is_dataclass(hint) else values[name]
        for name, hint in _hints(kind).items()
        if dataclasses.is_dataclass(hint) or name in values
    }
    return kind(**given)


def _options(kind: Any) -> Iterator[inspect.Parameter]:
    """The options of a dataclass in order, those of a group in its place."""
    for each in dataclasses.fields(kind):
        hint = _hints(kind)[each.name]
        if dataclasses.is_dataclass(hint):
            yield from _options(hint)
            continue
        default = inspect.Parameter.empty if each.default is dataclasses.MISSING else each.default
        yield inspect.Parameter(each.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint)


@functools.cache
def _hints(kind: Any) -> dict[str, Any]:
    """The types of a dataclass's fields. Cached: every command has the same groups, and all are read at once."""
    return get_type_hints(kind, include_extras=True)
