"""The part of the run document that `naslab profile` makes."""

from typing import Annotated

from naslab.results.describe import Bytes, BytesPerS, Count, Part, about
from naslab.results.parts.cell import Latency


class Zone(Part):
    """Zone."""

    offset_bytes: Annotated[Bytes, about("where it begins")]
    bytes: Annotated[Bytes, about("read of it")]
    bytes_per_s: Annotated[BytesPerS, about("rate")]
    cell: Annotated[Count, about("id of its cell")]


class ProfileDocument(Part):
    """Profile."""

    file_bytes: Annotated[Bytes, about("length of the file or device")]
    existing: Annotated[bool, about("it existed before and was only read")]
    direct: Annotated[bool, about("read unbuffered")]
    block_bytes: Annotated[Bytes, about("bytes of one read")]
    queue_depth: Annotated[Count, about("outstanding reads")]
    zone_bytes: Annotated[Bytes, about("length of a zone")]
    zones_planned: Annotated[Count, about("zones it was divided into")]
    zones: Annotated[list[Zone], about("those that were read, by position")]
    mean_bytes_per_s: Annotated[BytesPerS | None, about("harmonic mean of the zones: the rate of reading all of it")]
    slowest_bytes_per_s: Annotated[BytesPerS | None, about("slowest zone")]
    fastest_bytes_per_s: Annotated[BytesPerS | None, about("fastest zone")]
    head_bytes_per_s: Annotated[BytesPerS | None, about("median of the first tenth of the zones read")]
    tail_bytes_per_s: Annotated[BytesPerS | None, about("median of the last tenth")]
    burst_bytes_per_s: Annotated[BytesPerS | None, about("repeated reads of one small zone")]
    access_ns: Annotated[Latency | None, about("random reads of 4 KiB, one at a time")]
