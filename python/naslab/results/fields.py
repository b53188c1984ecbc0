"""What describes a field of the run document."""

from __future__ import annotations

import math
import re
from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard

NUMBERS = ("integer", "number")
"""Types of numbers."""


@dataclass(frozen=True)
class Field:
    """One field.

    type: integer, number, string, boolean, object, array, or the name of a table below (`[]` after it for a list of
    it, `{}` for an object of it by name; `?` before either: what is in it may be null). unit: of a number. nullable:
    may be null. required: always there. open_ends: of an interval, whose ends may be null. least: the least that a
    number may be; None: any. What is measured or counted is never below 0; ends of intervals may be.
    """

    name: str
    type: str
    about: str
    unit: str | None = None
    nullable: bool = False
    required: bool = True
    enum: tuple[str, ...] | None = None
    open_ends: bool = False
    least: float | None = 0


def is_number(value: Any) -> TypeGuard[float]:
    """Whether parsed JSON or TOML is a number; true and false are none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_positive(value: Any) -> TypeGuard[float]:
    """The same, above 0 and finite."""
    return is_number(value) and 0 < value < math.inf


def field(name: str, type_: str, about: str, unit: str | None = None, **more: Any) -> Field:
    """A field, nullable where its type ends with `?`."""
    nullable = type_.endswith("?")
    return Field(name, type_.removesuffix("?"), about, unit, nullable=nullable, **more)


def table_schema(fields: tuple[Field, ...], tables: Container[str], version: int, strict: bool) -> dict[str, Any]:
    """JSON schema of a table. tables: names that fields may refer to. strict: no fields but these."""
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {each.name: _field_schema(each, tables, version) for each in fields},
        "required": [each.name for each in fields if each.required],
    }
    return {**schema, "additionalProperties": False} if strict else schema


def _field_schema(each: Field, tables: Container[str], version: int) -> dict[str, Any]:
    about = each.about + (f" ({each.unit})" if each.unit else "")
    schema = _type_schema(each.type, tables, each.least)
    if each.enum:
        schema["enum"] = list(each.enum)
    if each.name == "schema":
        schema["const"] = version
    if each.nullable:
        schema = {"anyOf": [schema, {"type": "null"}]}
    return {"description": about, **schema}


def _type_schema(type_: str, tables: Container[str], least: float | None) -> dict[str, Any]:
    if type_.endswith("[]"):
        return {"type": "array", "items": _type_schema(type_[:-2], tables, least)}
    if type_.endswith("{}"):
        return {"type": "object", "additionalProperties": _type_schema(type_[:-2], tables, least)}
    if type_.endswith("?"):
        return {"anyOf": [_type_schema(type_[:-1], tables, least), {"type": "null"}]}
    if type_ in tables:
        return {"$ref": f"#/$defs/{type_}"}
    return {"type": type_, "minimum": least} if type_ in NUMBERS and least is not None else {"type": type_}


def field_row(each: Field, tables: Mapping[str, tuple[str, Any]]) -> str:
    """A field as a row of a page, with a link to the table it refers to."""
    shown = _type_words(each.type, tables)
    shown += " or null" if each.nullable else ""
    about = each.about + (f": {', '.join(each.enum)}" if each.enum and each.enum[0] not in each.about else "")
    about += "" if each.required else " (may be absent)"
    return f"| `{each.name}` | {shown} | {each.unit or ''} | {about} |"


def _type_words(type_: str, tables: Mapping[str, tuple[str, Any]]) -> str:
    """A type in words, with a link to the table it names."""
    for end, words in (("[]", "list of {}"), ("{}", "object of {}"), ("?", "{} or null")):
        if type_.endswith(end):
            return words.format(_type_words(type_.removesuffix(end), tables))
    anchor = re.sub(r"[^a-z0-9 -]", "", tables[type_][0].lower()).replace(" ", "-") if type_ in tables else ""
    return f"[{type_}](#{anchor})" if anchor else type_
