"""The part of the run document that `naslab tree` makes."""

from typing import Annotated, Literal

from msgspec import UNSET, UnsetType

from naslab.results.describe import Bytes, Count, Interval, Ns, Number, Part, PerS, Sentence, Word, about

METADATA_OPS = (
    "create", "stat", "stat_dir", "open_close", "readdir", "rename", "rename_dir", "mkdir", "rmdir", "remove",
)  # fmt: skip


Caches = Literal["warm", "new_connection", "cold"]


class TreePhase(Part, kw_only=True):
    """Phase of a tree."""

    op: Annotated[Word, about(f"read, {', '.join(METADATA_OPS)}")]
    caches: Annotated[Caches | UnsetType, about("before the pass")] = UNSET
    count: Annotated[Count, about("operations of one repeat; open_close: pairs; read: files")]
    repeats: Annotated[Count, about("number of repeats; the others are medians of these")]
    blocks: Annotated[list[Count] | UnsetType, about("which repeats")] = UNSET
    ops_per_s: Annotated[PerS, about("of all workers together; create, read: with all calls on their files")]
    ops_per_s_each: Annotated[list[PerS] | UnsetType, about("of each repeat")] = UNSET
    ops_per_s_ci95: Annotated[
        Interval | UnsetType | None, about("95 % interval of the median: low, high; null below 6 repeats")
    ] = UNSET
    latency_ns_p50: Annotated[Ns, about("of the call; create, open_close, read: of the create, the open, a read")]
    latency_ns_p99: Annotated[Ns, about("the same")]
    of_warm: Annotated[
        Number | UnsetType | None, about("rate over the warm pass's of the same repeat; not of warm passes")
    ] = UNSET
    of_warm_ci95: Annotated[
        Interval | UnsetType | None, about("95 % interval of it: low, high; null below 6 repeats")
    ] = UNSET


class TreeDocument(Part, kw_only=True):
    """Tree."""

    depth: Annotated[Count, about("levels of folders below the top")]
    fan_out: Annotated[Count, about("folders in a folder")]
    workers: Annotated[Count, about("concurrent streams, each with a connection")]
    shared: Annotated[bool, about("one tree for all workers; else one each")]
    mean_bytes: Annotated[Bytes, about("size of a file, or mean of the sizes")]
    lognormal: Annotated[bool, about("sizes are spread")]
    neighbour: Annotated[
        Count | UnsetType, about("each worker uses the files of the worker this many after it; 0: its own")
    ] = UNSET
    shuffled: Annotated[bool | UnsetType, about("reading phases run in random order")] = UNSET
    cold: Annotated[
        Literal["none", "new_connection", "command"] | UnsetType, about("what is renewed before cold passes")
    ] = UNSET
    cold_note: Annotated[Sentence | UnsetType, about("what was cold and what was not")] = UNSET
    folders: Annotated[Count, about("in all trees")]
    files: Annotated[Count, about("in all trees")]
    phases: Annotated[list[TreePhase], about("by kind of operation, in order, cold passes after warm ones")]
