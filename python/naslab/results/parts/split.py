"""The part of the run document that `naslab run MOUNT --direct` makes."""

from typing import Annotated

from naslab.results.describe import (
    Bytes,
    BytesPerS,
    Count,
    Facts,
    Ns,
    Number,
    OpenInterval,
    Part,
    Sentence,
    Word,
    about,
)


class ClientSplitSide(Part):
    """One way."""

    bytes_per_s: Annotated[BytesPerS, about("median of the blocks")]
    latency_ns: Annotated[Ns | None, about("median of the blocks' means")]
    process_cpu_ns_per_gib: Annotated[Ns, about("processor time of naslab for each GiB")]
    machine_cpu_ns_per_gib: Annotated[
        Ns | None, about("of the whole machine, which has the kernel's part too; null: not reported by this system")
    ]


class ClientSplitCell(Part):
    """Measurement both ways."""

    op: Annotated[Word, about("write, read, random_write, random_read")]
    record_bytes: Annotated[Bytes, about("size of each operation")]
    queue_depth: Annotated[Count, about("queue depth")]
    mount: Annotated[ClientSplitSide, about("through the kernel's mount, unbuffered")]
    own: Annotated[ClientSplitSide, about("by naslab's own client")]
    ratio: Annotated[Number, about("mount / own client, of the pairs of blocks")]
    ci95: Annotated[OpenInterval, about("its 95 % interval; an end that is null: none")]
    n: Annotated[Count, about("pairs")]
    verdict: Annotated[Word | None, about("of the mount: better, worse, equivalent, undecided; null: too few pairs")]
    different: Annotated[bool, about("by the adjusted test the clients differ")]


class ClientSplit(Part):
    """Client split."""

    mount: Annotated[Facts, about("what is mounted: type, source, options that change the speed")]
    own: Annotated[Facts, about("naslab's own client at the same server: url, run_id of its own run")]
    not_carried: Annotated[list[Sentence], about("features of the mount that naslab's own client lacks, as text")]
    ended: Annotated[Sentence, about("repeats, budget, interrupted, or what went wrong")]
    cells: Annotated[list[ClientSplitCell], about("what both measured, alternately")]
