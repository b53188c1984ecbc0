"""Whether parsed JSON has the shape of a run document: asked of every file before anything reads it.

The rules are the types of `naslab.results.parts`. Fields nobody described may be there, as the schema allows; one that
may be null and is missing is filled in, so that files of an older naslab stay readable. `msgspec.convert` would refuse
the same documents, but stops at the type and knows neither what to fill in nor a sentence for people.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any

from msgspec import Struct
from msgspec.inspect import (
    AnyType,
    BoolType,
    DictType,
    FloatType,
    IntType,
    ListType,
    LiteralType,
    Metadata,
    StrType,
    StructType,
    Type,
    UnionType,
)

from naslab.results.fields import Field, fields_of, without_null
from naslab.results.numbers import is_number
from naslab.results.parts.run import RunDocument

MAX_INTEGER = (1 << 63) - 1
MAX_NUMBER = 1e30
"""No number of a run is larger: what is cannot have been measured, and its square has no place in a float."""
_SURROGATE = re.compile("[\ud800-\udfff]")

_KINDS: dict[type, tuple[type, str]] = {
    StrType: (str, "a text"), BoolType: (bool, "true or false"), DictType: (Mapping, "an object"),
}  # fmt: skip

Check = Callable[[Any, str], str | None]
"""(value, where it stands) to what is wrong with it, in a sentence; None where nothing is."""


def fault(document: dict[str, Any], part: type[Struct] = RunDocument, where: str = "") -> str | None:
    """The first field that is missing or of another type, in a sentence; None where there is none.

    Changes the document: fields that may be null and are missing become null.
    """
    for field, check in _checks(part):
        name = field.name
        if name not in document:
            if field.nullable and field.required:
                document[name] = None
            elif field.required:
                return f"{where}{name} is missing"
            continue
        if found := check(document[name], f"{where}{name}"):
            return found
    return None


@cache
def _checks(part: type[Struct]) -> tuple[tuple[Field, Check], ...]:
    return tuple((field, of_field(field)) for field in fields_of(part))


def of_field(field: Field) -> Check:
    """What tells whether a value may be this field's."""
    check = _interval(field.extra["interval"] == "open") if "interval" in field.extra else _check(field.type)

    def checked(value: Any, where: str) -> str | None:
        if value is None:
            return None if field.nullable else f"{where} is null"
        return check(value, where)

    return checked


def _check(type_: Type) -> Check:
    match type_:
        case Metadata(type=inner):
            check = _check(inner)
        case UnionType():
            check = _or_null(_check(without_null(type_)[0]))
        case LiteralType(values=values):
            check = _one_of(values)
        case ListType(item_type=inner):
            check = _each(_check(inner))
        case DictType(value_type=inner) if not isinstance(inner, AnyType):
            check = _each_named(_check(inner))
        case StructType(cls=part):
            check = _part(part)
        case IntType(ge=least) | FloatType(ge=least):
            check = _numeric(isinstance(type_, IntType), least)
        case _:
            check = _instance(*_KINDS[type(type_)])
    return check


def _or_null(check: Check) -> Check:
    return lambda value, where: None if value is None else check(value, where)


def _one_of(values: tuple[Any, ...]) -> Check:
    text = ", ".join(values)
    return lambda value, where: None if value in values else f"{where} is not one of {text}"


def _each(check: Check) -> Check:
    def checked(value: Any, where: str) -> str | None:
        if not isinstance(value, list):
            return f"{where} is not a list"
        return next((found for at, each in enumerate(value) if (found := check(each, f"{where}.{at}"))), None)

    return checked


def _each_named(check: Check) -> Check:
    def checked(value: Any, where: str) -> str | None:
        if not isinstance(value, dict):
            return f"{where} is not an object"
        return next((found for key, each in value.items() if (found := check(each, f"{where}.{key}"))), None)

    return checked


def _part(part: type[Struct]) -> Check:
    return lambda value, where: (
        fault(value, part, f"{where}.") if isinstance(value, dict) else f"{where} is not an object"
    )


def _numeric(whole: bool, least: float | None) -> Check:
    fits, named = (_is_whole, "an integer") if whole else (_is_finite, "a number")

    def checked(value: Any, where: str) -> str | None:
        if not fits(value):
            return f"{where} is not {named}"
        return f"{where} is below {least}" if least is not None and value < least else None

    return checked


def _instance(kind: type, named: str) -> Check:
    return lambda value, where: None if isinstance(value, kind) else f"{where} is not {named}"


def _interval(open_ends: bool) -> Check:
    def checked(value: Any, where: str) -> str | None:
        whole = isinstance(value, list) and len(value) == 2
        numbers = whole and all((open_ends and end is None) or _is_finite(end) for end in value)
        return None if numbers else f"{where} is not an interval: two numbers, low and high"

    return checked


def leaf_fault(value: Any, where: str = "") -> str | None:
    """The first value, however deep, that no file of naslab's holds, in a sentence; None where there is none.

    Numbers without an end, integers beyond 64 bits, and halves of characters, which no text can be written with.
    """
    if isinstance(value, dict):
        pairs: Iterable[tuple[Any, Any]] = value.items()
        if any(_is_halved(key) for key in value):
            return f"{where or 'a name'} holds half a character"
    elif isinstance(value, list):
        pairs = enumerate(value)
    elif isinstance(value, str):
        return f"{where} holds half a character" if _is_halved(value) else None
    else:
        return f"{where} is not a valid number" if is_number(value) and not _is_finite(value) else None
    return next((found for key, each in pairs if (found := leaf_fault(each, f"{where}.{key}".lstrip(".")))), None)


def _is_halved(text: str) -> bool:
    return _SURROGATE.search(text) is not None


def _is_whole(value: Any) -> bool:
    return is_number(value) and abs(value) <= MAX_INTEGER and value == int(value)


def _is_finite(value: Any) -> bool:
    """Whether a number is one that a run can have."""
    if isinstance(value, int):
        return is_number(value) and abs(value) <= MAX_INTEGER
    return is_number(value) and math.isfinite(value) and abs(value) <= MAX_NUMBER
