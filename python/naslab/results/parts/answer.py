"""The part of the run document that answers a person: `naslab.explain.brief.Brief`."""

from typing import Annotated, Literal

from msgspec import UNSET, UnsetType

from naslab.results.describe import BytesPerS, Count, Interval, LoadName, Number, Part, about


class AnswerLimit(Part):
    """Answer: limit."""

    kind: Annotated[str, about("as in the verdict")]
    probability: Annotated[Number, about("after the run's conditions have lowered it")]


class AnswerBottleneck(Part):
    """Answer: bottleneck."""

    op: Annotated[str, about("read or write")]
    size: Annotated[str, about("large: records of 1 MiB; small: of 4 KiB")]
    value: Annotated[Number, about("the rate as measured, in `unit`")]
    unit: Annotated[str, about("bytes_per_s or iops")]
    ci95: Annotated[Interval | None, about("95 % interval of the rate within the run: low, high")]
    limits: Annotated[list[AnswerLimit], about("one where it is decided, else the two most probable")]
    ceiling: Annotated[
        Number | UnsetType | None, about("of the first limit by the fitted model, in `unit`; null: it is `value`")
    ] = UNSET
    modelled: Annotated[bool | UnsetType, about("true: `value` is from the model, because nothing was measured")] = (
        UNSET
    )


class AnswerNormal(Part):
    """Answer: normal or not."""

    op: Annotated[str, about("read or write")]
    state: Annotated[Literal["normal", "slow", "unknown"], about("what it is")]
    text: Annotated[str, about("what it was compared with")]


class AnswerEffect(Part):
    """Answer: effect of a change."""

    op: Annotated[str, about("read or write")]
    size: Annotated[str, about("large or small")]
    unit: Annotated[str, about("bytes_per_s or iops")]
    now: Annotated[Number, about("as measured")]
    low: Annotated[Number, about("low end of the prediction")]
    high: Annotated[Number | None, about("high end of it; null: at least `low`")]
    limit: Annotated[str, about("kind of limit then")]


class AnswerGain(Part):
    """Answer: change."""

    change: Annotated[str, about("disk, ssd, link, ram, cpu, latency or connections")]
    words: Annotated[str, about("the change as text")]
    helps: Annotated[list[AnswerEffect], about("what it brings; empty where it helps nothing")]
    unchanged: Annotated[list[str], about("kinds of I/O that it leaves as they are, as `read large`")]


class AnswerMeasured(Part):
    """Answer: measured gain."""

    kind: Annotated[
        Literal["connections", "signed", "encrypted"], about("what was tried: connections, or reads without protection")
    ]
    now: Annotated[BytesPerS, about("large reads")]
    then: Annotated[BytesPerS, about("the same with more connections, or without it")]
    count: Annotated[Count | UnsetType, about("connections")] = UNSET


class AnswerQuestion(Part):
    """Answer: open question."""

    op: Annotated[str, about("read or write")]
    size: Annotated[str, about("large or small")]
    between: Annotated[list[str], about("kinds of limit")]
    command: Annotated[str, about("the command that separates them; TARGET is the target")]


class AnswerWork(Part):
    """Answer: application."""

    name: Annotated[LoadName, about("name of the application")]
    rate: Annotated[BytesPerS, about("its median rate")]
    needs: Annotated[BytesPerS | None, about("rate that it needs at its own pace; null: it has none")]


class AnswerDocument(Part, kw_only=True):
    """Answer."""

    place: Annotated[str, about("what the target is called in the lines")]
    bottlenecks: Annotated[list[AnswerBottleneck], about("what limits each kind of I/O")]
    normal: Annotated[
        list[AnswerNormal], about("whether the rates of large files are normal for such a link and such disks")
    ]
    gains: Annotated[
        list[AnswerGain],
        about(
            "what changes would bring by the fitted model: first those that help, the most effective first, "
            "then those that change nothing"
        ),
    ]
    measured: Annotated[list[AnswerMeasured], about("gains that were not predicted but measured")]
    questions: Annotated[list[AnswerQuestion], about("limits that are not separated")]
    trust: Annotated[Literal["high", "fair", "low"], about("how far to trust it")]
    doubts: Annotated[list[str], about("conditions of the run that lower the probabilities, the most serious first")]
    model: Annotated[str, about("version of the model that judged")]
    work: Annotated[
        list[AnswerWork] | UnsetType, about("applications that were measured (run --apps), the slowest first")
    ] = UNSET
    lines: Annotated[list[str], about("the same as text: at most ten lines of 80 columns")]
