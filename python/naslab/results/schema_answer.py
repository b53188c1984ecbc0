"""The part of the run document that answers a person: `naslab.explain.brief.Brief`."""

from __future__ import annotations

from naslab.results.fields import field as _f

ANSWER = (
    _f("place", "string", "what the target is called in the lines"),
    _f("bottlenecks", "answer_bottleneck[]", "what limits each kind of I/O"),
    _f("normal", "answer_normal[]", "whether the rates of large files are normal for such a link and such disks"),
    _f("gains", "answer_gain[]", "what changes would bring by the fitted model: first those that help, the most "
       "effective first, then those that change nothing"),
    _f("measured", "answer_measured[]", "gains that were not predicted but measured"),
    _f("questions", "answer_question[]", "limits that are not separated"),
    _f("trust", "string", "how far to trust it", enum=("high", "fair", "low")),
    _f("doubts", "string[]", "conditions of the run that lower the probabilities, the most serious first"),
    _f("model", "string", "version of the model that judged"),
    _f("work", "answer_work[]", "applications that were measured (run --apps), the slowest first", required=False),
    _f("lines", "string[]", "the same as text: at most ten lines of 80 columns"),
)  # fmt: skip

BOTTLENECK = (
    _f("op", "string", "read or write"),
    _f("size", "string", "large: records of 1 MiB; small: of 4 KiB"),
    _f("value", "number", "the rate as measured, in `unit`"),
    _f("unit", "string", "bytes_per_s or iops"),
    _f("ci95", "array?", "95 % interval of the rate within the run: low, high"),
    _f("limits", "answer_limit[]", "one where it is decided, else the two most probable"),
    _f("ceiling", "number?", "of the first limit by the fitted model, in `unit`; null: it is `value`", required=False),
    _f("modelled", "boolean", "true: `value` is from the model, because nothing was measured", required=False),
)

NAMED = (
    _f("kind", "string", "as in the verdict"),
    _f("probability", "number", "after the run's conditions have lowered it"),
)

NORMAL = (
    _f("op", "string", "read or write"),
    _f("state", "string", "what it is", enum=("normal", "slow", "unknown")),
    _f("text", "string", "what it was compared with"),
)

GAIN = (
    _f("change", "string", "disk, ssd, link, ram, cpu, latency or connections"),
    _f("words", "string", "the change as text"),
    _f("helps", "answer_effect[]", "what it brings; empty where it helps nothing"),
    _f("unchanged", "string[]", "kinds of I/O that it leaves as they are, as `read large`"),
)

EFFECT = (
    _f("op", "string", "read or write"),
    _f("size", "string", "large or small"),
    _f("unit", "string", "bytes_per_s or iops"),
    _f("now", "number", "as measured"),
    _f("low", "number", "low end of the prediction"),
    _f("high", "number?", "high end of it; null: at least `low`"),
    _f("limit", "string", "kind of limit then"),
)

MEASURED = (
    _f("kind", "string", "what was tried: connections, or reads without protection", enum=("connections", "signed",
       "encrypted")),
    _f("now", "number", "large reads", "bytes/s"),
    _f("then", "number", "the same with more connections, or without it", "bytes/s"),
    _f("count", "integer", "connections", required=False),
)  # fmt: skip

WORK = (
    _f("name", "string", "name of the application"),
    _f("rate", "number", "its median rate", "bytes/s"),
    _f("needs", "number?", "rate that it needs at its own pace; null: it has none", "bytes/s"),
)

QUESTION = (
    _f("op", "string", "read or write"),
    _f("size", "string", "large or small"),
    _f("between", "string[]", "kinds of limit"),
    _f("command", "string", "the command that separates them; TARGET is the target"),
)

TABLES = {
    "answer": ("Answer", ANSWER),
    "answer_bottleneck": ("Answer: bottleneck", BOTTLENECK),
    "answer_limit": ("Answer: limit", NAMED),
    "answer_normal": ("Answer: normal or not", NORMAL),
    "answer_gain": ("Answer: change", GAIN),
    "answer_effect": ("Answer: effect of a change", EFFECT),
    "answer_measured": ("Answer: measured gain", MEASURED),
    "answer_question": ("Answer: open question", QUESTION),
    "answer_work": ("Answer: application", WORK),
}
"""In the order of the reference."""
