"""The part of the run document that `naslab apps` makes."""

from typing import Annotated, Literal

from msgspec import UNSET, UnsetType

from naslab.results.describe import Bytes, BytesPerS, Count, LoadName, Ns, Number, Part, PerS, Sentence, about

AppSet = Literal["naspt", "older", "modern", "own"]


class App(Part, kw_only=True):
    """Application."""

    name: Annotated[LoadName, about("name of the application; of the twelve it is NASPT's name of the result")]
    set: Annotated[AppSet, about("set that it belongs to")]
    about: Annotated[Sentence, about("what it does")]
    files_prepared: Annotated[Count, about("files that are made before")]
    prepared_bytes: Annotated[Bytes, about("their size together")]
    files_made: Annotated[Count, about("files that it makes itself")]
    read_bytes: Annotated[Bytes, about("read in one run")]
    written_bytes: Annotated[Bytes, about("written in one run")]
    requests: Annotated[Count, about("reads and writes in one run")]
    write_fraction: Annotated[Number, about("share of the requests that write, 0 to 1")]
    largest_request_bytes: Annotated[Bytes, about("largest request")]
    streams: Annotated[Count, about("streams, each with a queue depth of 1")]
    think_ns: Annotated[Ns | UnsetType | None, about("the application's own time at any pace; null: none")] = UNSET
    sequential: Annotated[
        Number | None,
        about(
            "share of the requests that continue the one issued just before, over all streams, as planned; "
            "null: streams are independent"
        ),
    ]
    sequential_published: Annotated[Number | None, about("the share that was published; null: none was")]
    sequential_issued: Annotated[
        list[Number | None], about("the same of each repeat, by when requests started; [] where not recorded")
    ]
    cells: Annotated[list[Count], about("ids of the cells of its repeats")]
    repeats: Annotated[list[Count], about("numbers of the repeats, from 1")]
    bytes_per_s: Annotated[list[BytesPerS], about("rate of each repeat")]
    median_bytes_per_s: Annotated[BytesPerS | None, about("median of them")]
    interval_bytes_per_s: Annotated[
        list[BytesPerS | None] | None, about("interval of the median: low, high; null: under six repeats")
    ]
    interval_coverage: Annotated[Number | None, about("probability that the interval covers the median, at least 0.95")]
    operations_per_s: Annotated[list[PerS], about("operations of all kinds of each repeat, opening and looking up too")]
    median_operations_per_s: Annotated[PerS | None, about("median of them")]
    paced: Annotated[bool, about("run at the media's rate")]
    missed_starts: Annotated[
        Count | None, about("steps that started later than the buffer allows, over the repeats; null: unpaced")
    ]
    streams_kept_up: Annotated[Count | None, about("streams that were in time, in the worst repeat; null: unpaced")]
    needs_bytes_per_s: Annotated[
        BytesPerS | UnsetType | None, about("rate that its streams need at the media's pace; null: it has none")
    ] = UNSET


class StreamsTried(Part):
    """Streams tried."""

    streams: Annotated[Count, about("how many at once")]
    held: Annotated[
        bool, about("no request missed its deadline, and the last ended at most 1 % (20 ms) after the film")
    ]
    missed_starts: Annotated[
        Count | None, about("requests that started later than the buffer allows; null: not measured")
    ]
    late_ns: Annotated[
        int | None, about("end of the last request after the film's; below 0: before; null: not measured", "ns")
    ]
    cell: Annotated[Count | None, about("id of the cell; null: not measured")]


class StreamsHeld(Part):
    """Streams held."""

    name: Annotated[LoadName, about("name of the application")]
    streams: Annotated[Count, about("largest number of streams that all kept up; 0: not even the smallest")]
    failed_streams: Annotated[Count | None, about("smallest number of streams that did not; null: none failed")]
    stream_bytes_per_s: Annotated[BytesPerS, about("what one stream asks for")]
    tried: Annotated[list[StreamsTried], about("numbers tried, in order")]
    stopped: Annotated[
        Sentence | None, about("why no more were tried; null: the two numbers are neighbours, or the maximum was held")
    ]


class Apps(Part):
    """Applications."""

    scale: Annotated[Number, about("factor applied to all file sizes (--scale)")]
    pace: Annotated[Literal["fast", "recorded"], about("fast: as fast as possible; recorded: at the media's rate")]
    throughput: Annotated[Sentence, about("what the rates are")]
    results: Annotated[list[App], about("the applications that were run")]
    identical_repeats: Annotated[
        list[list[Count]], about("groups of repeats whose rates agree within 0.001 MB/s in all applications")
    ]
    streams_held: Annotated[
        list[StreamsHeld] | UnsetType, about("streams that the target sustains; [] without --find-streams")
    ] = UNSET
