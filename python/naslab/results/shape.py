"""Whether parsed JSON has the shape of a run document: asked of every file before anything reads it.

The rules are the tables of `schema.py`. Fields nobody described may be there, as the schema allows; one that may be
null and is missing is filled in, so that files of an older naslab stay readable.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from naslab.results.fields import NUMBERS, Field, is_number
from naslab.results.schema import TABLES

MAX_INTEGER = (1 << 63) - 1
MAX_NUMBER = 1e30
"""No number of a run is larger: what is cannot have been measured, and its square has no place in a float."""
_INTERVAL = re.compile(r"(^|_)ci9[05](_|$)")
_SURROGATE = re.compile("[\ud800-\udfff]")
_WORDS = {
    "integer": "an integer", "number": "a number", "string": "a text", "boolean": "true or false",
    "object": "an object", "array": "a list",
}  # fmt: skip


def fault(document: dict[str, Any], table: str = "run", where: str = "") -> str | None:
    """The first field that is missing or of another type, in a sentence; None where there is none.

    Changes the document: fields that may be null and are missing become null.
    """
    for field in TABLES[table][1]:
        if field.name not in document:
            if field.nullable and field.required:
                document[field.name] = None
            elif field.required:
                return f"{where}{field.name} is missing"
            continue
        if found := of_field(field, document[field.name], f"{where}{field.name}"):
            return found
    return None


def of_field(field: Field, value: Any, where: str) -> str | None:
    """The same of one field's value."""
    if value is None:
        return None if field.nullable else f"{where} is null"
    if field.enum and value not in field.enum:
        return f"{where} is not one of {', '.join(field.enum)}"
    if field.type == "array" and _INTERVAL.search(field.name):
        return _of_interval(value, where, field.open_ends)
    return _of_type(field, field.type, value, where)


def _of_interval(value: Any, where: str, open_ends: bool) -> str | None:
    whole = isinstance(value, list) and len(value) == 2
    numbers = whole and all((open_ends and end is None) or _fits("number", end) for end in value)
    return None if numbers else f"{where} is not an interval: two numbers, low and high"


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
        return f"{where} is not a valid number" if is_number(value) and not _fits("number", value) else None
    return next((found for key, each in pairs if (found := leaf_fault(each, f"{where}.{key}".lstrip(".")))), None)


def _is_halved(text: str) -> bool:
    return _SURROGATE.search(text) is not None


def _of_type(field: Field, type_: str, value: Any, where: str) -> str | None:
    """type_: the field's, or that of what is in it."""
    if type_.endswith(("[]", "{}")):
        container: type[Any] = list if type_.endswith("[]") else dict
        if not isinstance(value, container):
            return f"{where} is not {'a list' if container is list else 'an object'}"
        items = enumerate(value) if isinstance(value, list) else value.items()
        return next(
            (found for key, each in items if (found := _of_type(field, type_[:-2], each, f"{where}.{key}"))), None
        )
    if type_.endswith("?"):
        return None if value is None else _of_type(field, type_[:-1], value, where)
    if type_ in TABLES:
        return fault(value, type_, f"{where}.") if isinstance(value, dict) else f"{where} is not an object"
    if not _fits(type_, value):
        return f"{where} is not {_WORDS[type_]}"
    below = type_ in NUMBERS and field.least is not None and value < field.least
    return f"{where} is below {field.least}" if below else None


def _fits(type_: str, value: Any) -> bool:
    if type_ in NUMBERS:
        if not is_number(value):
            return False
        if isinstance(value, int) or type_ == "integer":
            return abs(value) <= MAX_INTEGER and value == int(value)
        return math.isfinite(value) and abs(value) <= MAX_NUMBER
    return isinstance(value, {"string": str, "boolean": bool, "object": Mapping, "array": list}[type_])
