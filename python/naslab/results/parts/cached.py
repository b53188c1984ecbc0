"""The parts of the run document that `naslab cache speed` and `naslab cache size` make."""

from typing import Annotated

from msgspec import UNSET, UnsetType

from naslab.results.describe import Bytes, BytesPerS, Number, Part, Sentence, about


class CachedStep(Part):
    """Step of cached reads."""

    evicted_bytes: Annotated[Bytes, about("other data written by then")]
    cold_bytes_per_s: Annotated[BytesPerS, about("fastest first read of two files written before it")]
    warm_bytes_per_s: Annotated[BytesPerS, about("of the slower file, the median of its reads right after")]
    contrast: Annotated[Number, about("warm / cold")]
    least_contrast: Annotated[
        Number, about("lowest contrast that shows a cache; higher for reads too short to time well")
    ]


class Cached(Part, kw_only=True):
    """Cached reads."""

    file_bytes: Annotated[Bytes, about("size of the file")]
    first_bytes_per_s: Annotated[BytesPerS | UnsetType, about("first read of a file right after it was written")] = (
        UNSET
    )
    cold_bytes_per_s: Annotated[
        BytesPerS, about("first read after other data was written, of the decisive or last step")
    ]
    warm_bytes_per_s: Annotated[BytesPerS, about("repeated reads of one file")]
    contrast: Annotated[Number, about("warm / cold")]
    evicted_bytes: Annotated[Bytes | UnsetType, about("other data written before the cold reads")] = UNSET
    steps: Annotated[
        list[CachedStep] | UnsetType, about("increasing amounts of other data, until a file was evicted")
    ] = UNSET
    separable: Annotated[bool, about("the contrast shows the server's cache")]
    reason: Annotated[Sentence | None, about("why it does not; null: it does")]
    network_only_bytes_per_s: Annotated[BytesPerS | None, about("the warm rate when it does")]


class WorkingSetStep(Part):
    """Working set of one size."""

    bytes: Annotated[Bytes, about("size of the working set")]
    bytes_per_s: Annotated[BytesPerS, about("its fastest pass, after the first passes filled the cache")]
    from_memory: Annotated[bool, about("at most a tenth of it came from the disks")]


class WorkingSet(Part):
    """Working set."""

    knee_bytes: Annotated[
        Bytes | None,
        about("largest working set read from the server cache, the middle of its interval; null: not detected"),
    ]
    interval_bytes: Annotated[
        list[Bytes | None] | None, about("largest working set that was, smallest that was not; null: not detected")
    ]
    memory_bytes_per_s: Annotated[BytesPerS, about("median of the working sets read from the server cache")]
    beyond_bytes_per_s: Annotated[BytesPerS, about("of the largest working set")]
    own_memory: Annotated[bool, about("true: this machine's page cache may have answered")]
    reason: Annotated[Sentence | None, about("why no knee was detected; null: there is one")]
    steps: Annotated[list[WorkingSetStep], about("every working set, ascending")]
