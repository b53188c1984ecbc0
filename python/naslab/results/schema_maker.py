"""The JSON schema and the reference page of a document, made from the types of its parts."""

from __future__ import annotations

import re
from collections.abc import Mapping
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

from naslab.results.describe import OpenPart, Part
from naslab.results.fields import Field, fields_of, without_null

Tables = Mapping[str, type[Part]]
"""The parts of a document by name, in the order of its reference; the first is the document itself."""
_NAMES: dict[type, str] = {
    IntType: "integer", FloatType: "number", StrType: "string", LiteralType: "string", BoolType: "boolean",
    DictType: "object", ListType: "array",
}  # fmt: skip
"""Of types in JSON schema."""
_HEAD = ["| field | type | unit | meaning |", "|---|---|---|---|"]


def title(part: type[Struct]) -> str:
    """The heading of a part: the first line of its docstring."""
    return (part.__doc__ or "").partition("\n")[0].rstrip(".")


def json_schema(tables: Tables, version: int, strict: bool) -> dict[str, Any]:
    """JSON schema (draft 2020-12) of a document. strict: no fields but these, save in open parts."""
    whole = next(iter(tables))
    names = {part: name for name, part in tables.items()}
    definitions = {
        name: _table_schema(part, names, version, strict and not issubclass(part, OpenPart))
        for name, part in tables.items()
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:naslab:{whole}-document:{version}",
        "title": f"naslab {whole} document, schema {version}",
        **definitions.pop(whole),
        "$defs": definitions,
    }


def _table_schema(part: type[Part], names: Mapping[type, str], version: int, strict: bool) -> dict[str, Any]:
    fields = fields_of(part)
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {each.name: _field_schema(each, names, version) for each in fields},
        "required": [each.name for each in fields if each.required],
    }
    return {**schema, "additionalProperties": False} if strict else schema


def _field_schema(field: Field, names: Mapping[type, str], version: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "array"} if "interval" in field.extra else _type_schema(field.type, names)
    if field.name == "schema":
        schema["const"] = version
    if field.nullable:
        schema = {"anyOf": [schema, {"type": "null"}]}
    return {"description": field.about + (f" ({field.unit})" if field.unit else ""), **schema}


def _type_schema(type_: Type, names: Mapping[type, str]) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": _NAMES.get(type(type_))}
    match type_:
        case Metadata(type=inner):
            schema = _type_schema(inner, names)
        case ListType(item_type=inner):
            schema["items"] = _type_schema(inner, names)
        case DictType(value_type=inner) if not isinstance(inner, AnyType):
            schema["additionalProperties"] = _type_schema(inner, names)
        case UnionType():
            schema = {"anyOf": [_type_schema(without_null(type_)[0], names), {"type": "null"}]}
        case StructType(cls=part):
            schema = {"$ref": f"#/$defs/{names[part]}"}
        case LiteralType(values=values):
            schema["enum"] = list(values)
        case IntType(ge=least) | FloatType(ge=least) if least is not None:
            schema["minimum"] = least
    return schema


def table_lines(part: type[Part], tables: Tables) -> list[str]:
    """A part as a section of the page, with links to the parts that it refers to."""
    names = {each: name for name, each in tables.items()}
    return ["", f"## {title(part)}", "", *_HEAD, *(_row(each, names) for each in fields_of(part))]


def _row(field: Field, names: Mapping[type, str]) -> str:
    shown = "array" if "interval" in field.extra else _words(field.type, names)
    shown += " or null" if field.nullable else ""
    values = field.type.values if isinstance(field.type, LiteralType) else ()
    about = field.about + (f": {', '.join(map(str, values))}" if values and str(values[0]) not in field.about else "")
    about += "" if field.required else " (may be absent)"
    return f"| `{field.name}` | {shown} | {field.unit or ''} | {about} |"


def _words(type_: Type, names: Mapping[type, str]) -> str:
    """A type in words, with a link to the part it names."""
    words = _NAMES.get(type(type_), "")
    match type_:
        case Metadata(type=inner):
            words = _words(inner, names)
        case ListType(item_type=inner):
            words = f"list of {_words(inner, names)}"
        case DictType(value_type=inner) if not isinstance(inner, AnyType):
            words = f"object of {_words(inner, names)}"
        case UnionType():
            words = f"{_words(without_null(type_)[0], names)} or null"
        case StructType(cls=part):
            anchor = re.sub(r"[^a-z0-9 -]", "", title(part).lower()).replace(" ", "-")
            words = f"[{names[part]}](#{anchor})"
    return words
