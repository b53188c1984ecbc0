"""The part of the run document that `naslab replay` makes."""

from typing import Annotated

from msgspec import UNSET, UnsetType

from naslab.results.describe import Bytes, Count, Part, Sentence, Word, about


class ReplayKind(Part):
    """Operations of one kind."""

    kind: Annotated[Word, about("open, create, close, read, ...")]
    trace: Annotated[Count, about("in the trace")]
    skipped: Annotated[Count, about("of these not carried out")]
    instead: Annotated[Count, about("of these carried out as another kind")]
    expected: Annotated[Count, about("what follows: trace, less skipped and instead, and what others became or needed")]
    issued: Annotated[Count, about("carried out by the engine")]


class ReplayNote(Part, kw_only=True):
    """What differs from the trace."""

    kind: Annotated[Word, about("kind of operation")]
    as_kind: Annotated[Word | UnsetType, about("what it was carried out as")] = UNSET
    reason: Annotated[Sentence, about("why")]
    count: Annotated[Count, about("how many")]


class ReplayDocument(Part, kw_only=True):
    """Replay."""

    trace: Annotated[str, about("the trace's file")]
    source: Annotated[Word, about("what it was made from: strace, pcap, fio, dbench, naslab")]
    command: Annotated[str | None, about("what was recorded")]
    anonymised: Annotated[bool, about("its names were replaced")]
    pace: Annotated[Word, about("fast: as the order of operations allows; recorded: when they were due")]
    trace_streams: Annotated[Count, about("streams of the trace")]
    streams: Annotated[Count, about("streams of the replay; fewer where some were joined")]
    files: Annotated[Count, about("files made before it")]
    folders: Annotated[Count, about("folders made before it")]
    prepared_bytes: Annotated[Bytes, about("written to them")]
    escaped_names: Annotated[Count, about("names with characters that the protocol forbids, written as %XX")]
    told_apart: Annotated[Count | UnsetType, about("names that differ from another only in case, written with %XX")] = (
        UNSET
    )
    missed_deadlines: Annotated[
        Count | None, about("operations that started later than --deadline after they were due")
    ]
    operations: Annotated[list[ReplayKind], about("by kind")]
    equal: Annotated[bool, about("as many operations of each kind were issued as the trace requires")]
    skipped: Annotated[list[ReplayNote], about("operations of the trace that were not carried out")]
    instead: Annotated[list[ReplayNote], about("operations that were carried out as one of another kind")]
    added: Annotated[list[ReplayNote], about("operations that are not in the trace")]
