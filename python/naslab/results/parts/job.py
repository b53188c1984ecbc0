"""The part of the run document that `naslab job` makes."""

from typing import Annotated, Literal

from msgspec import UNSET, UnsetType

from naslab.results.describe import Bytes, BytesPerS, Count, Ns, Number, Part, PerS, Sentence, Word, about


class Archives(Part):
    """Archives."""

    files: Annotated[Count, about("archives")]
    bytes: Annotated[Bytes, about("their size together")]
    ratio: Annotated[Number, about("size of their contents divided by that")]


class JobShares(Part):
    """Shares of a step's time."""

    source: Annotated[Number, about("reading the source")]
    target: Annotated[Number, about("at the target")]
    local: Annotated[Number, about("at local files")]
    cpu: Annotated[Number, about("the rest: computing")]


class JobStream(Part):
    """Stream of a job."""

    files: Annotated[Count, about("files it worked on")]
    busy_ns: Annotated[Ns, about("from its first request to its last")]
    cpu_ns: Annotated[Ns, about("processor time")]
    source_bytes: Annotated[Bytes, about("bytes read from the source")]
    source_ns: Annotated[Ns, about("time at the source")]
    target_ns: Annotated[Ns, about("time at the target")]
    local_ns: Annotated[Ns, about("time at local files")]


class JobStep(Part, kw_only=True):
    """Step of a job."""

    job: Annotated[Word, about("its name")]
    prepares: Annotated[bool, about("done only because a later job needs what it makes")]
    status: Annotated[Literal["complete", "partial", "failed"] | UnsetType, about("as its cell's")] = UNSET
    repeat: Annotated[Count, about("which repeat, from 0")]
    cell: Annotated[Count, about("id of its cell")]
    files: Annotated[Count, about("files done")]
    wall_ns: Annotated[Ns, about("from its start to the end of the last stream")]
    read_bytes: Annotated[Bytes, about("read from the target")]
    write_bytes: Annotated[Bytes, about("written to the target")]
    read_bytes_per_s: Annotated[BytesPerS, about("read_bytes / wall_ns")]
    write_bytes_per_s: Annotated[BytesPerS, about("write_bytes / wall_ns")]
    files_per_s: Annotated[PerS, about("files / wall_ns")]
    cpu_ns: Annotated[Ns, about("CPU time of the client's processes")]
    cpu_fraction: Annotated[Number, about("cpu_ns / wall_ns; 1 = one processor")]
    compute_cpu_ns: Annotated[Ns, about("CPU time of the streams between requests: compressing, hashing")]
    request_cpu_ns: Annotated[Ns | UnsetType, about("CPU time of the streams in requests to the target")] = UNSET
    processor_wait_ns: Annotated[Ns | UnsetType, about("streams were ready and had no processor")] = UNSET
    shares: Annotated[JobShares, about("of the streams' time: source, target, local, cpu; 0 to 1")]
    source_bytes: Annotated[Bytes, about("read from the source")]
    source_bytes_per_s: Annotated[
        BytesPerS | None, about("rate of the source while it was read, all streams; null: not read")
    ]
    local_bytes: Annotated[Bytes, about("written to files of this machine")]
    streams: Annotated[list[JobStream], about("each stream's part")]
    limit: Annotated[
        Literal["source", "target", "local", "client_cpu", "mixed"], about("what took most of the streams' time")
    ]
    evidence: Annotated[Sentence, about("why, with numbers")]


class JobDocument(Part, kw_only=True):
    """Job."""

    source: Annotated[str, about("the folder, or the corpus and its scale")]
    source_ratio: Annotated[Number, about("size of the source over its size by deflate at level 6, of a sample")]
    files: Annotated[Count, about("files of the source that can be on the target")]
    folders: Annotated[Count, about("folders of it")]
    bytes: Annotated[Bytes, about("in these files")]
    streams: Annotated[Count, about("processes with a session each; archives of zip; of each client")]
    clients: Annotated[Count | UnsetType, about("that did the jobs at once, each with such a source")] = UNSET
    method: Annotated[Literal["deflate", "zstd"], about("of the archives")]
    durability: Annotated[Word, about("none; end: each file is flushed before it is closed; each: every write")]
    request_bytes: Annotated[Bytes, about("largest request")]
    in_flight: Annotated[Count | UnsetType, about("maximum queue depth of a stream")] = UNSET
    skipped: Annotated[dict[str, Count], about("left out of the source: reason and count")]
    names_changed: Annotated[Count, about("names that are not possible on the target, written with %XX instead")]
    changed: Annotated[Count | UnsetType, about("files of the source that changed during the run")] = UNSET
    times_preserved: Annotated[bool, about("whether copies have the times of the source")]
    time_resolution_ns: Annotated[
        Ns | UnsetType | None, about("resolution of the target's times; null: it keeps none")
    ] = UNSET
    archives: Annotated[Archives | None, about("what the last zip made")]
    steps: Annotated[list[JobStep], about("the jobs in the order they were done, those that only prepare included")]
