"""What `naslab whatif` says, in words."""

from __future__ import annotations

from collections.abc import Sequence

from naslab.explain.model import ServerModel
from naslab.explain.predict import Change, Load, Prediction, Scale
from naslab.explain.steps import LARGE_RECORD, SMALL_BYTES, SMALL_RECORD
from naslab.units import count_text, duration_text, rate_text, size_label

LIMITS = {
    "link": "the link", "latency": "too few requests in flight", "server_cache": "the server's memory",
    "server_cpu": "the server's processor", "client_cpu": "the client's processor", "disk": "the disk",
    "disk_iops": "the disk's requests per second", "protocol": "what one connection carries",
    "link or server_cache": "the link or the server's memory",
}  # fmt: skip
HIDES = {"latency": "too few requests in flight hide", "protocol": "what one connection carries hides"}


def figure_text(value: float, unit: str) -> str:
    """`125 MB/s`, `30,518 a second`."""
    return rate_text(value) if unit == "bytes_per_s" else f"{count_text(value)} a second"


def load_text(load: Load) -> str:
    """`large reads from memory, 4 in flight`; a record size where it is not the usual one."""
    words = load.name
    usual = LARGE_RECORD if load.size == "large" else SMALL_RECORD
    if load.record_bytes != usual:
        words += f" of {size_label(load.record_bytes)}"
    if load.op == "write":
        words += ", each durable" if load.random else ", until durable"
    else:
        words += f" over {size_label(load.set_bytes)}" if load.set_bytes > SMALL_BYTES else " from memory"
    words += f", {load.depth} in flight"
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
        words = HIDES.get(found.limit_now) or f"{LIMITS.get(found.limit_now, found.limit_now)} hides"
        least = f", at least {figure_text(then.low, unit)}" if then.low > 0 else ""
        return f"{words} what is behind it{least}"
    if found.why == "wide":
        return f"between {figure_text(then.low, unit)} and {figure_text(then.high, unit)}"
    if found.why == "misfit":
        return f"the model gives {figure_text(found.now.value, unit)} for what was measured"
    return found.why


def limit_text(kind: str) -> str:
    """A limit in words."""
    return LIMITS.get(kind, kind)


def change_text(change: Change, asked: Sequence[str]) -> str:
    """`link 10x, memory 2 GiB, 8 in flight`."""
    words = [f"{name} {_scale_text(name, scale)}" for name, scale in vars(change).items() if scale is not None]
    return ", ".join(
        [*(word.replace("disk_iops", "disk's requests").replace("ram", "memory") for word in words), *asked]
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


def notes(model: ServerModel, change: Change) -> list[str]:
    """What a prediction takes for granted."""
    found = []
    if change.link and model.nic_bytes_per_s:
        found.append(f"The client's own interface of {rate_text(model.nic_bytes_per_s)} stays as it is.")
    if change.link and change.link.value is not None:
        found.append(f"The new link is taken to carry {rate_text(change.link.value)} of data each way.")
    if change.ram:
        found.append("More memory is taken to be more cache for data that was read; it does not make a write durable.")
    if change.cpu:
        found.append("A faster processor is taken to do more requests per second; bytes in memory move as before.")
    if change.disk and change.disk.value is not None:
        found.append("The disk's new rate is for its bytes; what a request costs besides stays.")
    if model.burst:
        found.append("Credit is taken as spent.")
    return [*found, "Signing, encryption and the file system are taken to cost what they cost now."]
