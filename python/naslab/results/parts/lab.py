"""The part of the run document about what was planted in a system of the lab."""

from typing import Annotated, Literal

from naslab.results.describe import Number, Part, Word, about


class PlantedDocument(Part):
    """Planted limit."""

    name: Annotated[Word, about("part and key, e.g. disks.read; docs/reference/lab-systems.md")]
    planted: Annotated[Number, about("the value that was set")]
    unit: Annotated[Literal["bytes_per_s", "bits_per_s", "bytes", "per_s", "ns", "share"], about("of both values")]
    measured: Annotated[
        Number | None, about("by another tool; of several places the one furthest off; null: not measured")
    ]
    deviation: Annotated[float | None, about("measured / planted - 1")]
    tool: Annotated[Word | None, about("what measured it")]
    verdict: Annotated[Literal["holds", "misses", "not measured"], about("whether it is as planted, within 5 %")]
