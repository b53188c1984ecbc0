"""What describes a field of the run document."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Field:
    """One field.

    type: integer, number, string, boolean, object, array, or the name of a table below (`[]` for a list of
    it, `{}` for an object of it by name). unit: of a number. nullable: may be null. required: always there.
    """

    name: str
    type: str
    about: str
    unit: str | None = None
    nullable: bool = False
    required: bool = True
    enum: tuple[str, ...] | None = None


def field(name: str, type_: str, about: str, unit: str | None = None, **more: Any) -> Field:
    """A field, nullable where its type ends with `?`."""
    nullable = type_.endswith("?")
    return Field(name, type_.rstrip("?"), about, unit, nullable=nullable, **more)
