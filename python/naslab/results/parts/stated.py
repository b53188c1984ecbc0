"""What a source states besides its rates: limits, and numbers that it computed from others."""

from typing import Annotated, Literal

from msgspec import UNSET, UnsetType

from naslab.results.describe import BytesPerS, Part, Word, about


class StatedLimit(Part):
    """Stated limit."""

    what: Annotated[str, about("what has the limit")]
    kind: Annotated[Literal["link", "disk"], about("of a link, or of disks")]
    bytes_per_s: Annotated[BytesPerS, about("the limit")]
    op: Annotated[Word | None, about("the only operation it applies to; null: all")]


class StatedPart(Part):
    """Part of a stated number."""

    what: Annotated[str, about("what it is")]
    bytes_per_s: Annotated[BytesPerS, about("its rate")]
    labels: Annotated[dict[str, str] | UnsetType, about("conditions it was measured under")] = UNSET


class StatedNumber(Part):
    """Stated number."""

    what: Annotated[str, about("what it is")]
    how: Annotated[Literal["mean", "difference"], about("how it was computed")]
    bytes_per_s: Annotated[BytesPerS, about("as printed")]
    printed_to_bytes_per_s: Annotated[BytesPerS, about("one unit of its last digit")]
    of: Annotated[list[StatedPart], about("what it was computed from")]


class Stated(Part):
    """Stated."""

    limits: Annotated[list[StatedLimit], about("limits of the system, as stated by the source")]
    derived: Annotated[list[StatedNumber], about("numbers that the source derived from its other numbers")]
