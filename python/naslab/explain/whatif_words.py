"""What `naslab whatif` says, in words."""

from __future__ import annotations

from collections.abc import Sequence

from naslab.explain.fitted import Fitted
from naslab.explain.loads import Load
from naslab.explain.predict import Change, Prediction, Scale
from naslab.explain.steps import LARGE_RECORD, SMALL_BYTES, SMALL_RECORD
from naslab.units import count_text, duration_text, rate_text, size_label

LIMITS = {
    "link": "the link", "latency": "the queue depth", "server_cache": "the server's cache",
    "server_cpu": "the server's processor", "client_cpu": "the client's processor", "disk": "the disk",
    "disk_iops": "the disk's requests per second", "protocol": "what one connection carries",
    "client_nic": "the client's network interface", "burst_credit": "a credit that is spent",
    "shared_machine": "the machine that client and server share", "unknown": "a lock per file",
}  # fmt: skip
CERTAIN = 0.9
"""A limit of a smaller probability is printed with it."""


def figure_text(value: float, unit: str) -> str:
    """`125 MB/s`, `30,518 a second`."""
    return rate_text(value) if unit == "bytes_per_s" else f"{count_text(value)} a second"


def load_text(load: Load) -> str:
    """`large reads from the server's cache, queue depth 4`; a record size where it is not the usual one."""
    words = load.name
    usual = LARGE_RECORD if load.size == "large" else SMALL_RECORD
    if load.record_bytes != usual:
        words += f" of {size_label(load.record_bytes)}"
    if load.op == "write":
        words += ", each durable" if load.random else ", until durable"
    else:
        words += f" over {size_label(load.set_bytes)}" if load.set_bytes > SMALL_BYTES else " from the server's cache"
    words += f", queue depth {load.depth}"
    return words + (f", {load.connections} connections" if load.connections > 1 else "")


def then_text(found: Prediction) -> str:
    """`249 MB/s (241 to 257)`, or why it is not known."""
    then, unit = found.then, found.then.unit
    if found.known:
        low, high = (
            figure_text(end, unit).removesuffix(" MB/s").removesuffix(" a second") for end in (then.low, then.high)
        )
        return f"{figure_text(then.value, unit)} ({low} to {high})"
    return f"not known: {_unknown(found)}"


def _unknown(found: Prediction) -> str:
    then, unit = found.then, found.then.unit
    if found.why == "hidden":
        least = f"at least {figure_text(then.low, unit)}"
        if found.limit_then == found.limit_now:
            return f"{least}; the run does not tell more"
        return f"{least}; {limit_text(found.limit_now)} hides what comes next"
    if found.why == "wide":
        return f"between {figure_text(then.low, unit)} and {figure_text(then.high, unit)}"
    if found.why == "misfit":
        now = found.measured or found.now
        model = figure_text(found.now.value, found.now.unit)
        return f"the model gives {model} where {figure_text(now.value, now.unit)} was measured"
    return found.why


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


def notes(fitted: Fitted, change: Change) -> list[str]:
    """What a prediction takes for granted."""
    found = []
    nic = fitted.evidence.nic_bytes_per_s
    if change.link and nic:
        found.append(f"The client's own interface of {rate_text(nic)} stays as it is.")
    if change.link and change.link.value is not None:
        found.append(f"The new link is taken to carry {rate_text(change.link.value)} of data each way.")
    if change.ram:
        found.append("More memory is taken to be more cache for data that was read; it does not make a write durable.")
    if change.cpu:
        found.append("A faster processor is taken to do more requests per second; bytes in memory move as before.")
    if change.disk and change.disk.value is not None:
        found.append("The disk's new rate is for its bytes; what a request costs besides stays.")
    if fitted.evidence.burst:
        found.append("Credit is taken as spent.")
    return [*found, "Signing, encryption and the file system are taken to cost what they cost now."]
