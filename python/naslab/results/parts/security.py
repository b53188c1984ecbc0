"""The part of the run document that `naslab security` makes."""

from typing import Annotated

from naslab.results.describe import Bytes, Count, Interval, Number, Part, RunId, Sentence, Word, about


class SecurityFigure(Part):
    """Figure of a load."""

    value: Annotated[Number | None, about("median of the rounds; null: the clock was too coarse")]
    ci95: Annotated[Interval | None, about("95 % interval of the rounds' geometric mean; null: fewer than three")]
    ratio: Annotated[Number | None, about("to the baseline, of the pairs of rounds; null: this is the baseline")]
    ratio_ci95: Annotated[Interval | None, about("its 95 % interval; null: too few rounds, or the baseline")]
    verdict: Annotated[
        Word | None, about("better, worse, equivalent, undecided; null: too few rounds, or the baseline")
    ]


class SecurityLoad(Part):
    """Load of a combination."""

    op: Annotated[Word, about("write, read, random_read")]
    record_bytes: Annotated[Bytes, about("size of each operation")]
    queue_depth: Annotated[Count, about("queue depth")]
    n: Annotated[Count, about("rounds")]
    throughput: Annotated[SecurityFigure, about("bytes per second", "bytes/s")]
    latency: Annotated[SecurityFigure, about("mean latency of an operation", "ns")]
    cpu: Annotated[SecurityFigure, about("processor time of naslab for each GiB", "ns")]


class SecurityCombination(Part):
    """Combination of signing and encryption."""

    name: Annotated[Sentence, about("e.g. plain, signed AES-GMAC, encrypted AES-256-GCM")]
    state: Annotated[
        Word, about("measured, refused (by the server, or without a login that has a key) or not_spoken (by naslab)")
    ]
    reason: Annotated[Sentence | None, about("why it was not measured; null: it was")]
    run_id: Annotated[RunId | None, about("id of the run with its cells; null: not measured")]
    dialect: Annotated[str | None, about("protocol version of its session; null: it had none")]
    signing: Annotated[Sentence | None, about("signing algorithm of its session, or none")]
    encryption: Annotated[Sentence | None, about("cipher of its session, or none")]
    loads: Annotated[list[SecurityLoad], about("what was measured with it")]


class SecurityContrast(Part):
    """Pair of combinations."""

    baseline: Annotated[Sentence, about("the combination that its ratios are to")]
    name: Annotated[Sentence, about("the other one")]
    loads: Annotated[list[SecurityLoad], about("figures of the other one")]


class Security(Part):
    """Security price list."""

    baseline: Annotated[
        Sentence, about("the combination that ratios are to: the unprotected one, or the first that is allowed")
    ]
    ended: Annotated[Sentence, about("repeats, budget, interrupted, or what went wrong")]
    combinations: Annotated[list[SecurityCombination], about("what was tried, in the order of the table")]
    contrasts: Annotated[list[SecurityContrast], about("pairs of combinations, one against the other")]
