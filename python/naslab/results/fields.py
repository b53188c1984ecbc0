"""The fields of a part of a document, read from its type: for schema, reference page, check and redaction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, get_args, get_origin, get_type_hints

from msgspec import Struct, inspect
from msgspec.inspect import DictType, ListType, LiteralType, Metadata, NoneType, StructType, Type, UnionType, type_info


@dataclass(frozen=True)
class Field:
    """One field. type: without null, which `nullable` says. required: always there. extra: of `describe.about`."""

    name: str
    type: Type
    about: str
    unit: str | None
    nullable: bool
    required: bool
    extra: Mapping[str, Any]


_INSPECTED: dict[type[Struct], inspect.StructType] = {}


@cache
def fields_of(part: type[Struct]) -> tuple[Field, ...]:
    """The fields of a part, in the order of its type."""
    return tuple(_field(part, each) for each in _inspected(part).fields)


def _inspected(part: type[Struct]) -> inspect.StructType:
    """What msgspec knows of the type; the parts within it are looked at once, with it."""
    if part not in _INSPECTED:
        _keep(type_info(part))
    return _INSPECTED[part]


def _keep(type_: Type) -> None:
    match type_:
        case StructType(cls=part, fields=fields) if part not in _INSPECTED:
            _INSPECTED[part] = type_
            for each in fields:
                _keep(each.type)
        case Metadata(type=inner) | ListType(item_type=inner) | DictType(value_type=inner):
            _keep(inner)
        case _:
            only, nullable = without_null(type_)
            if nullable:
                _keep(only)


def _field(part: type[Struct], of: inspect.Field) -> Field:
    meta = of.type if isinstance(of.type, Metadata) else Metadata(of.type)
    inner, nullable = without_null(meta.type)
    extra = {**extra_of(inner), **(meta.extra or {})}
    bare = inner.type if isinstance(inner, Metadata) else inner
    if isinstance(bare, LiteralType):  # msgspec sorts them; their order tells something
        bare = LiteralType(_values(get_type_hints(part, include_extras=True)[of.name]))
    meaning = (meta.extra_json_schema or {})["description"]
    return Field(of.name, bare, meaning, _unit(meta), nullable, of.required, extra)


def _values(hint: Any) -> tuple[Any, ...]:
    """Those of the Literal in a type."""
    if get_origin(hint) is Literal:
        return get_args(hint)
    return next((found for each in get_args(hint) if (found := _values(each))), ())


def extra_of(type_: Type) -> Mapping[str, Any]:
    """What the annotation of a type says besides its meaning."""
    return getattr(type_, "extra", None) or {}


def without_null(type_: Type) -> tuple[Type, bool]:
    """(the type, whether it may also be null)."""
    if not isinstance(type_, UnionType):
        return type_, False
    (only,) = (each for each in type_.types if not isinstance(each, NoneType))
    return only, True


def _unit(type_: Type) -> str | None:
    """The unit of the numbers in a type, in lists and objects, too."""
    if unit := extra_of(type_).get("unit"):
        return str(unit)
    match type_:
        case Metadata(type=inner) | ListType(item_type=inner) | DictType(value_type=inner):
            return _unit(inner)
    only, nullable = without_null(type_)
    return _unit(only) if nullable else None
