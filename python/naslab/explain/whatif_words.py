"""The sentences of `naslab whatif`."""

from __future__ import annotations

from collections.abc import Sequence

from naslab.explain.fitted import Fitted
from naslab.explain.loads import Load
from naslab.explain.predict import Change, Prediction, Scale
from naslab.explain.steps import LARGE_RECORD, SMALL_BYTES, SMALL_RECORD
from naslab.explain.tell import LIMIT_TEXT
from naslab.explain.trust import Doubt, sentence
from naslab.units import count_text, duration_text, rate_text, size_label

LIMITS = {**LIMIT_TEXT, "latency": "the queue depth", "protocol": "the rate of one connection",
          "unknown": "a lock per file"}  # fmt: skip
CERTAIN = 0.9
"""A limit of a smaller probability is printed with it."""


def figure_text(value: float, unit: str) -> str:
    """`125 MB/s`, `30,518 a second`."""
    return rate_text(value) if unit == "bytes_per_s" else f"{count_text(value)} a second"


def load_text(load: Load) -> str:
    """`large reads from the server cache, queue depth 4`; a record size where it is not the usual one."""
    words = load.name
    usual = LARGE_RECORD if load.size == "large" else SMALL_RECORD
    if load.record_bytes != usual:
        words += f" of {size_label(load.record_bytes)}"
    if load.op == "write":
        words += ", each durable" if load.random else ", including the flush"
    else:
        words += f" over {size_label(load.set_bytes)}" if load.set_bytes > SMALL_BYTES else " from the server cache"
    words += f", queue depth {load.depth}"
    return words + (f", {load.connections} connections" if load.connections > 1 else "")


def then_text(found: Prediction) -> str:
    """`249 MB/s (241 to 257)`; where that is known less well, the ends, or that it stays; else why nothing is said."""
    then, unit = found.then, found.then.unit
    if found.known:
        return f"{figure_text(then.value, unit)} ({_ends(then.low, then.high, unit)})"
    if found.why in ("hidden", "wide", "misfit"):
        return _bounds(found)
    return f"no prediction: {found.why}"


def _ends(low: float, high: float, unit: str) -> str:
    """`241 to 257`."""
    shown = (figure_text(end, unit).removesuffix(" MB/s").removesuffix(" a second") for end in (low, high))
    return " to ".join(shown)


def _bounds(found: Prediction) -> str:
    """What is certain of a rate that has no narrow interval: a part that is no bottleneck changes nothing."""
    then, unit = found.then, found.then.unit
    now = found.measured or found.now
    if found.stays:
        return f"stays at {figure_text(now.value, unit)}"
    if found.why == "misfit":
        low, _, high = found.factor
        between = f"between {figure_text(low * now.value, unit)} and {figure_text(high * now.value, unit)}"
        model = figure_text(found.now.value, found.now.unit)
        return f"{between}; the model gives {model} where {figure_text(now.value, now.unit)} was measured"
    if found.why == "wide":
        return f"between {figure_text(then.low, unit)} and {figure_text(then.high, unit)}"
    least = f"at least {figure_text(then.low, unit)}"
    if found.limit_then == found.limit_now:
        return f"{least}; the run does not show more"
    return f"{least}; {limit_text(found.limit_now)} hides the next limit"


def then_limit(found: Prediction) -> str:
    """The limit after the change, in words; empty where it was never seen."""
    told = found.known or found.stays or found.why == "wide"
    return limit_text(found.limit_then, found.certainty) if told and found.why not in ("misfit", "hidden") else ""


def limit_text(kind: str, certainty: float = 1.0) -> str:
    """A limit in words, with its probability where it is not certain."""
    words = LIMITS.get(kind, kind)
    return words if certainty >= CERTAIN else f"{words} ({certainty:.2f})"


def change_text(change: Change, asked: Sequence[str]) -> str:
    """`link 10x, server cache 2 GiB, queue depth 8`."""
    words = [f"{name} {_scale_text(name, scale)}" for name, scale in vars(change).items() if scale is not None]
    return ", ".join(
        [*(word.replace("disk_iops", "disk's requests").replace("ram", "server cache") for word in words), *asked]
    )


def _scale_text(name: str, scale: Scale) -> str:
    if scale.factor is not None:
        return f"{scale.factor:g}x"
    value = scale.value or 0.0
    if name in ("link", "disk"):
        return rate_text(value)
    if name == "ram":
        return size_label(int(value))
    return duration_text(value) if name == "latency" else f"{count_text(value)} a second"


def notes(fitted: Fitted, change: Change, doubts: Sequence[Doubt] = ()) -> list[str]:
    """How far the run is to be trusted, where something speaks against it, and what a prediction takes for granted."""
    found = [sentence(doubts)] if doubts else []
    nic = fitted.evidence.nic_bytes_per_s
    if change.link and nic:
        found.append(f"The client's own interface of {rate_text(nic)} stays as it is.")
    if change.link and change.link.value is not None:
        found.append(f"The new link is assumed to carry {rate_text(change.link.value)} of data each way.")
    if change.ram:
        found.append("More memory is assumed to be more cache for reads; it does not make writes durable.")
    if change.cpu:
        found.append(
            "A faster processor is assumed to handle more requests per second; bytes in memory move as before."
        )
    if change.disk and change.disk.value is not None:
        found.append("The disk's new rate applies to its bytes; the other cost of a request stays.")
    if fitted.evidence.burst:
        found.append("Credit is assumed to be spent.")
    return [*found, "Signing, encryption and the file system are assumed to cost the same as now."]
