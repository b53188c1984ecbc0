"""The parts of the run document that the attribution ladder makes: its verdict, and what the verdict rests on."""

from typing import Annotated, Literal, get_args

from msgspec import UNSET, UnsetType

from naslab.results.describe import Bytes, BytesPerS, Count, Facts, Interval, Ns, Number, Part, Sentence, Word, about

LimitKind = Literal[
    "link", "latency", "server_cache", "disk", "disk_iops", "burst_credit", "client_cpu", "client_nic", "server_cpu",
    "client_cache", "protocol", "source", "shared_machine", "unknown",
]  # fmt: skip
LIMIT_KINDS: tuple[str, ...] = get_args(LimitKind)


class IoClass(Part):
    """Class of I/O."""

    op: Annotated[Word | UnsetType, about("read or write")] = UNSET
    size: Annotated[Word | UnsetType, about("large: records of 1 MiB; small: of 4 KiB")] = UNSET


class LimitDocument(Part, kw_only=True):
    """Limit."""

    kind: Annotated[
        LimitKind,
        about("what limits"),
    ]
    applies_to: Annotated[IoClass, about("the class of I/O that it limits")]
    confidence: Annotated[Number, about("probability, 0 to 1; below 0.7 its class is not decided")]
    value: Annotated[float | UnsetType | None, about("the ceiling it sets, in `unit`")] = UNSET
    unit: Annotated[Word | UnsetType | None, about("bytes_per_s, iops, ns or bytes")] = UNSET
    ci95: Annotated[
        Interval | UnsetType | None,
        about(
            "95 % interval of the value within this run: low, high; it names a limit, and never a difference "
            "between targets"
        ),
    ] = UNSET
    measured: Annotated[
        float | UnsetType | None,
        about(
            "if `value` is only the fitted model's: the measured value of this class, in `unit`; null: not "
            "measured; left out if `value` was measured"
        ),
    ] = UNSET
    evidence: Annotated[Sentence, about("the reasons, as text with numbers")]


class VerdictDocument(Part):
    """Verdict."""

    limits: Annotated[
        list[LimitDocument],
        about("by class of I/O (large reads, large writes, small reads, small writes), strongest first within a class"),
    ]


class LadderFigure(Part):
    """Figure of the ladder."""

    value: Annotated[float, about("mean of the cell's batches, in `unit`")]
    unit: Annotated[Word, about("bytes_per_s, iops, ns, bytes, share or cores")]
    ci95: Annotated[Interval, about("95 % interval within the run: low, high")]


class LadderStalls(Part):
    """Stalls."""

    lost: Annotated[Number, about("share of the time")]
    count: Annotated[Count, about("how many")]
    length_ns: Annotated[Ns, about("usual length of one")]
    every_ns: Annotated[Ns, about("usual time from one to the next; 0: not known")]


class LadderPoint(Part):
    """Point of the ladder."""

    cell: Annotated[Count, about("its id")]
    op: Annotated[Literal["read", "write", "mixed"], about("what was done")]
    random: Annotated[bool, about("offsets in random order")]
    record_bytes: Annotated[Bytes, about("bytes per operation")]
    depth: Annotated[Count, about("queue depth per worker")]
    workers: Annotated[Count, about("each with a connection of its own")]
    files: Annotated[Count, about("files they share")]
    set_bytes: Annotated[Bytes, about("size of the file")]
    bypass: Annotated[bool, about("bypassing the client's cache")]
    durability: Annotated[Literal["none", "end", "each"], about("none; end; each: every write")]
    rate: Annotated[LadderFigure, about("bytes per second")]
    iops: Annotated[LadderFigure, about("operations per second")]
    reads: Annotated[BytesPerS, about("of a mix: the readers' share")]
    writes: Annotated[BytesPerS, about("of a mix: the writers' share")]
    durable: Annotated[BytesPerS | None, about("including the flush; null: nothing was flushed")]
    p50_ns: Annotated[Number, about("latency: half of the operations were faster", "ns")]
    mean_ns: Annotated[Number, about("mean latency", "ns")]
    p99_ns: Annotated[Number, about("latency: 99 % were faster", "ns")]
    cpu: Annotated[Number, about("processors of the client in use")]
    crossed: Annotated[
        Number | None,
        about("bytes counted on the wire (or at the local disk) divided by bytes moved; null: not counted"),
    ]
    stalls: Annotated[LadderStalls | None, about("times in which nothing moved; null: intervals too long to show them")]
    start_ns: Annotated[Ns, about("monotonic clock")]
    end_ns: Annotated[Ns, about("monotonic clock")]
    quick: Annotated[
        Number | UnsetType, about("share of operations much faster than the mean: cache hits among misses")
    ] = UNSET
    clients: Annotated[Count | UnsetType, about("clients with this load, each with this depth and these workers")] = (
        UNSET
    )
    cpu_limit: Annotated[
        Number | UnsetType, about("processors the client might use, quotas included; 0: not known")
    ] = UNSET
    throttled: Annotated[Number | UnsetType, about("share of the time in which its control group throttled it")] = UNSET
    steal: Annotated[Number | UnsetType, about("share of all processors' time that a virtual machine's host took")] = (
        UNSET
    )
    busiest_worker: Annotated[Number | UnsetType, about("share of a processor that the busiest worker used")] = UNSET
    others: Annotated[Number | UnsetType, about("processors in use by others")] = UNSET
    waiting: Annotated[Number | UnsetType, about("share of the workers' time in which they waited for a processor")] = (
        UNSET
    )


class LadderStep(Part, kw_only=True):
    """Step of the ladder."""

    name: Annotated[
        Word, about("round_trip, client_cache, depth, small_depth, connections, record, duplex, writes, set, ...")
    ]
    title: Annotated[Sentence, about("the same as text")]
    says: Annotated[Sentence | UnsetType, about("its result, as a sentence; empty without one")] = UNSET
    cells: Annotated[list[Count], about("ids of its cells")]
    figures: Annotated[dict[str, LadderFigure], about("rates and times under names for people")]
    points: Annotated[list[LadderPoint], about("the same in full, in the order measured")]


class LadderBurst(Part):
    """Credit."""

    scope: Annotated[Literal["link", "disk"], about("part that has the credit")]
    applies_to: Annotated[list[Word], about("read, write")]
    burst_bytes_per_s: Annotated[BytesPerS, about("rate on credit")]
    burst_ci95: Annotated[Interval, about("its 95 % interval")]
    base_bytes_per_s: Annotated[BytesPerS, about("rate without")]
    base_ci95: Annotated[Interval, about("its 95 % interval")]
    size_bytes: Annotated[Bytes | None, about("credit at the start; null: not known")]
    shown_by: Annotated[Sentence, about("the observation")]
    proved: Annotated[bool, about("it refilled during a rest")]


class LadderConditions(Part, kw_only=True):
    """Conditions of the ladder."""

    granted_depth: Annotated[
        Count | None, about("outstanding operations that the server grants; null: more than was tried")
    ]
    slots: Annotated[
        Count | UnsetType | None,
        about("requests that the server lets a connection have outstanding, SMB: credits of 64 KiB; null: not known"),
    ] = UNSET
    most_depth: Annotated[Count, about("highest queue depth that was tried")]
    client_cpus: Annotated[Count, about("processors of the client")]
    nic_bytes_per_s: Annotated[
        Count | None, about("rate of the client's network interface; null: not known", "bytes/s")
    ]
    simulated: Annotated[bool, about("a simulated server: the client's processor time means nothing")]
    protocol: Annotated[Word, about("of the target")]
    local_disk: Annotated[bool, about("a disk of this machine, no server")]
    same_machine: Annotated[bool | UnsetType, about("the server runs on this machine, and uses its processors")] = UNSET
    burst: Annotated[LadderBurst | None, about("credit that ended during the run; null: none")]
    null_ns: Annotated[
        dict[str, Number] | UnsetType | None, about("a call without data: p50, p99, mean; null: not timed", "ns")
    ] = UNSET
    refused_bytes_per_s: Annotated[
        Number | UnsetType | None,
        about(
            "writes of 1 MiB, one at a time, that crossed the network and that the server refused; null: not tried, or "
            "not refused",
            "bytes/s",
        ),
    ] = UNSET
    before_cores: Annotated[
        Number | UnsetType | None,
        about("the client's processors that all but this process used before the first load; null: not known"),
    ] = UNSET
    ways: Annotated[
        dict[str, str] | UnsetType, about("reads of the step `security`: cell id and plain, signed or encrypted")
    ] = UNSET
    memory_bytes: Annotated[
        list[Bytes | None] | None,
        about(
            "largest working set served from the server cache, smallest that was not (null: none was seen); "
            "null: no working set was read"
        ),
    ]


class LadderQuestion(Part):
    """Open question."""

    applies_to: Annotated[IoClass, about("class of I/O")]
    between: Annotated[list[Word], about("kinds of limit that are not separated")]
    why: Annotated[Sentence, about("the observation")]
    experiment: Annotated[Sentence, about("what would separate them, the cheapest first")]
    command: Annotated[str | UnsetType, about("the command that does it")] = UNSET
    costs_ns: Annotated[Ns | UnsetType, about("its time")] = UNSET


class Ladder(Part, kw_only=True):
    """Ladder."""

    steps: Annotated[list[LadderStep], about("in the order measured; cells of the ladder have the workload `ladder`")]
    aside: Annotated[
        list[LadderPoint] | UnsetType,
        about("loads that no step compares: files written, first tries; they filled caches and spent credit"),
    ] = UNSET
    conditions: Annotated[LadderConditions, about("the basis of the verdict besides the steps")]
    model: Annotated[
        Facts | UnsetType,
        about(
            "the server's numbers by the fitted posterior: each a value with its 95 % interval, or `at_least` "
            "and `at_most`; `version` is the version of the model that wrote it"
        ),
    ] = UNSET
    open: Annotated[list[LadderQuestion], about("where two explanations remain")]
    advice: Annotated[
        list[Sentence] | UnsetType, about("what to do about it, a sentence each, the most important first")
    ] = UNSET
    spent_ns: Annotated[Ns, about("time of its cells")]
    budget_ns: Annotated[Ns, about("time it was allowed")]
    stopped: Annotated[
        Literal["certain", "open", "budget", "slow", "failed", "interrupted"],
        about(
            "why it ended: certain: nothing is open; open: no further experiment of its own helps; budget: no "
            "time left; slow: writing a few small files takes too much of it; failed: the run failed; "
            "interrupted: the run was interrupted"
        ),
    ]
