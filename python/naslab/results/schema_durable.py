"""The part of the run document that `naslab durable` makes."""

from __future__ import annotations

from naslab.results.fields import field as _f

_KINDS = ("power", "process", "unknown")
_KIND = "power: cut as requested or confirmed; process: only the server program was killed; unknown: not confirmed"

DURABLE = (
    _f("kind", "string", f"of all cuts. {_KIND}", enum=_KINDS),
    _f("file_bytes", "integer", "size of each mode's file", "bytes"),
    _f("record_bytes", "integer", "size of a write", "bytes"),
    _f("queue_depth", "integer", "outstanding writes per mode"),
    _f("flush_writes", "integer", "writes before each flush of the mode end"),
    _f("violations", "integer", "broken guarantees, including metadata and verifiers"),
    _f(
        "loss_bound95",
        "number?",
        "upper 95 % limit of the share of cuts that break a guarantee; null after a violation",
    ),
    _f("modes", "durable_mode[]", "sums over the cuts"),
    _f("metadata", "durable_metadata[]", "sums over the cuts"),
    _f("cuts", "durable_cut[]", "each cut that was checked"),
    _f("checked_run", "string?", "id of the run that made the last cut; null: this one"),
)

DURABLE_MODE = (
    _f(
        "mode", "string", "none: never flushed; end: flushed after each group; each: durable writes",
        enum=("none", "end", "each"),
    ),
    _f("acknowledged", "integer", "writes; the sum of survived, overwritten, lost, torn and damaged"),
    _f("promised", "integer", "of these, guaranteed: durable writes, or covered by an acknowledged flush"),
    _f("unacknowledged", "integer", "writes that may have been outstanding at the cut, at most"),
    _f("unacknowledged_found", "integer", "of these, intact"),
    _f("survived", "integer", "intact"),
    _f("overwritten", "integer", "replaced by later writes, so their fate is unknown"),
    _f("lost", "integer", "their place has older contents, or none"),
    _f("torn", "integer", "their record has sectors of several writes"),
    _f("damaged", "integer", "their record has sectors that no write contained, or cannot be read"),
    _f("violations", "integer", "broken guarantees"),
    _f("violations_by_kind", "integer{}", "lost, torn, damaged; first_contents: records flushed before the load"),
    _f("at_risk", "integer", "guaranteed writes, not overwritten, of the last 30 s before the last acknowledgement"),
    _f("reach_ns", "integer?", "time from the oldest write that did not survive to the last acknowledgement", "ns"),
    _f("ages", "durable_age[]", "writes without a guarantee, by age at the last acknowledgement"),
)  # fmt: skip

DURABLE_AGE = (
    _f("from_ns", "integer", "age at least", "ns"),
    _f("to_ns", "integer?", "age below; null: no bound", "ns"),
    _f("judged", "integer", "writes of this age that were not overwritten"),
    _f("survived", "integer", "of these, intact"),
)

DURABLE_METADATA = (
    _f(
        "op", "string", "create: a new file's name; contents: of it, flushed; rename; extend: its length; remove",
        enum=("create", "contents", "rename", "extend", "remove"),
    ),
    _f("acknowledged", "integer", "of the files looked at"),
    _f("promised", "integer", "of these, acknowledged as durable by the protocol"),
    _f("survived", "integer", "as they were acknowledged"),
    _f("lost", "integer", "not so"),
    _f("violations", "integer", "lost although acknowledged as durable"),
)  # fmt: skip

DURABLE_CUT = (
    _f("kind", "string", _KIND, enum=_KINDS),
    _f(
        "how", "string", "ask, command, lab; later: checked by another process", enum=("ask", "command", "lab", "later")
    ),
    _f("load_ns", "integer?", "from the start of the load to the loss of the server; null: not known", "ns"),
    _f("away_ns", "integer?", "until it answered again; null: not known", "ns"),
    _f("modes", "durable_mode[]", "each mode"),
    _f("metadata", "durable_metadata[]", "each kind"),
    _f("verifier_changed", "boolean?", "NFS 3: the write verifier; null: not seen"),
    _f("to_send_again", "integer?", "NFS: acknowledged writes without a commit; null: another protocol"),
    _f("verifier_violation", "boolean", "writes were lost and the verifier stayed the same"),
)
