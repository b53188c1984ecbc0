"""The part of the run document that `naslab durable` makes."""

from typing import Annotated, Literal

from naslab.results.describe import Bytes, Count, Ns, Number, Part, RunId, about

_KIND = "power: cut as requested or confirmed; process: only the server program was killed; unknown: not confirmed"


class DurableAge(Part):
    """Durability by age."""

    from_ns: Annotated[Ns, about("age at least")]
    to_ns: Annotated[Ns | None, about("age below; null: no bound")]
    judged: Annotated[Count, about("writes of this age that were not overwritten")]
    survived: Annotated[Count, about("of these, intact")]


class DurableMode(Part):
    """Durability of a mode."""

    mode: Annotated[
        Literal["none", "end", "each"],
        about("none: never flushed; end: flushed after each group; each: durable writes"),
    ]
    acknowledged: Annotated[Count, about("writes; the sum of survived, overwritten, lost, torn and damaged")]
    promised: Annotated[Count, about("of these, guaranteed: durable writes, or covered by an acknowledged flush")]
    unacknowledged: Annotated[Count, about("writes that may have been outstanding at the cut, at most")]
    unacknowledged_found: Annotated[Count, about("of these, intact")]
    survived: Annotated[Count, about("intact")]
    overwritten: Annotated[Count, about("replaced by later writes, so their fate is unknown")]
    lost: Annotated[Count, about("their place has older contents, or none")]
    torn: Annotated[Count, about("their record has sectors of several writes")]
    damaged: Annotated[Count, about("their record has sectors that no write contained, or cannot be read")]
    violations: Annotated[Count, about("broken guarantees")]
    violations_by_kind: Annotated[
        dict[str, Count], about("lost, torn, damaged; first_contents: records flushed before the load")
    ]
    at_risk: Annotated[
        Count, about("guaranteed writes, not overwritten, of the last 30 s before the last acknowledgement")
    ]
    reach_ns: Annotated[Ns | None, about("time from the oldest write that did not survive to the last acknowledgement")]
    ages: Annotated[list[DurableAge], about("writes without a guarantee, by age at the last acknowledgement")]


class DurableMetadata(Part):
    """Durability of metadata."""

    op: Annotated[
        Literal["create", "contents", "rename", "extend", "remove"],
        about("create: a new file's name; contents: of it, flushed; rename; extend: its length; remove"),
    ]
    acknowledged: Annotated[Count, about("of the files looked at")]
    promised: Annotated[Count, about("of these, acknowledged as durable by the protocol")]
    survived: Annotated[Count, about("as they were acknowledged")]
    lost: Annotated[Count, about("not so")]
    violations: Annotated[Count, about("lost although acknowledged as durable")]


class DurableCut(Part):
    """Cut."""

    kind: Annotated[
        Literal["power", "process", "unknown"],
        about(_KIND),
    ]
    how: Annotated[
        Literal["ask", "command", "lab", "later"], about("ask, command, lab; later: checked by another process")
    ]
    load_ns: Annotated[Ns | None, about("from the start of the load to the loss of the server; null: not known")]
    away_ns: Annotated[Ns | None, about("until it answered again; null: not known")]
    modes: Annotated[list[DurableMode], about("each mode")]
    metadata: Annotated[list[DurableMetadata], about("each kind")]
    verifier_changed: Annotated[bool | None, about("NFS 3: the write verifier; null: not seen")]
    to_send_again: Annotated[Count | None, about("NFS: acknowledged writes without a commit; null: another protocol")]
    verifier_violation: Annotated[bool, about("writes were lost and the verifier stayed the same")]


class Durable(Part):
    """Durability."""

    kind: Annotated[
        Literal["power", "process", "unknown"],
        about(f"of all cuts. {_KIND}"),
    ]
    file_bytes: Annotated[Bytes, about("size of each mode's file")]
    record_bytes: Annotated[Bytes, about("size of a write")]
    queue_depth: Annotated[Count, about("outstanding writes per mode")]
    flush_writes: Annotated[Count, about("writes before each flush of the mode end")]
    violations: Annotated[Count, about("broken guarantees, including metadata and verifiers")]
    loss_bound95: Annotated[
        Number | None, about("upper 95 % limit of the share of cuts that break a guarantee; null after a violation")
    ]
    modes: Annotated[list[DurableMode], about("sums over the cuts")]
    metadata: Annotated[list[DurableMetadata], about("sums over the cuts")]
    cuts: Annotated[list[DurableCut], about("each cut that was checked")]
    checked_run: Annotated[RunId | None, about("id of the run that made the last cut; null: this one")]
