"""The part of the run document that `naslab security` makes."""

from __future__ import annotations

from naslab.results.fields import field as _f

SECURITY = (
    _f("baseline", "string", "the combination that ratios are to: the unprotected one, or the first that is allowed"),
    _f("ended", "string", "repeats, budget, interrupted, or what went wrong"),
    _f("combinations", "security_combination[]", "what was tried, in the order of the table"),
    _f("contrasts", "security_contrast[]", "pairs of combinations, one against the other"),
)

SECURITY_COMBINATION = (
    _f("name", "string", "e.g. plain, signed AES-GMAC, encrypted AES-256-GCM"),
    _f(
        "state",
        "string",
        "measured, refused (by the server, or without a login that has a key) or not_spoken (by naslab)",
    ),
    _f("reason", "string?", "why it was not measured; null: it was"),
    _f("run_id", "string?", "id of the run with its cells; null: not measured"),
    _f("dialect", "string?", "protocol version of its session; null: it had none"),
    _f("signing", "string?", "signing algorithm of its session, or none"),
    _f("encryption", "string?", "cipher of its session, or none"),
    _f("loads", "security_load[]", "what was measured with it"),
)

SECURITY_CONTRAST = (
    _f("baseline", "string", "the combination that its ratios are to"),
    _f("name", "string", "the other one"),
    _f("loads", "security_load[]", "figures of the other one"),
)

SECURITY_LOAD = (
    _f("op", "string", "write, read, random_read"),
    _f("record_bytes", "integer", "size of each operation", "bytes"),
    _f("queue_depth", "integer", "queue depth"),
    _f("n", "integer", "rounds"),
    _f("throughput", "security_figure", "bytes per second", "bytes/s"),
    _f("latency", "security_figure", "mean latency of an operation", "ns"),
    _f("cpu", "security_figure", "processor time of naslab for each GiB", "ns"),
)

SECURITY_FIGURE = (
    _f("value", "number?", "median of the rounds; null: the clock was too coarse"),
    _f("ci95", "array?", "95 % interval of the rounds' geometric mean; null: fewer than three"),
    _f("ratio", "number?", "to the baseline, of the pairs of rounds; null: this is the baseline"),
    _f("ratio_ci95", "array?", "its 95 % interval; null: too few rounds, or the baseline"),
    _f("verdict", "string?", "better, worse, equivalent, undecided; null: too few rounds, or the baseline"),
)

TABLES = {
    "security": ("Security price list", SECURITY),
    "security_combination": ("Combination of signing and encryption", SECURITY_COMBINATION),
    "security_contrast": ("Pair of combinations", SECURITY_CONTRAST),
    "security_load": ("Load of a combination", SECURITY_LOAD),
    "security_figure": ("Figure of a load", SECURITY_FIGURE),
}
