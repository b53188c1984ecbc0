"""Is a rate normal for its link and for disks? It is held against what a link carries, and what disks usually do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from naslab.analysis.linkrate import known_link, payload_bytes_per_s, speed_text
from naslab.results.numbers import is_positive
from naslab.units import rate_text

State = Literal["normal", "slow", "unknown"]
Document = Mapping[str, Any]

WIRE_SPEEDS = (10e6, 100e6, 1e9, 2.5e9, 5e9, 10e9, 25e9, 40e9, 50e9, 100e9)
"""Bits per second of Ethernet."""
FULL = 0.85
"""A rate of at least this share of what a link carries, headers of all kinds off, fills it."""
RAW = 1.07
"""A link whose rate is given for its data alone carries so much more than Ethernet of the same name."""
OLD_LINK = 100e6
"""A link of so many bits per second or fewer is one that went wrong: today's have ten times as many."""
HARD_DISK, SOLID_STATE = (80e6, 300e6), 650e6
"""What one hard disk reads or writes in order, slow and fast ones; what a SATA interface carries."""


class Normal(msgspec.Struct, frozen=True):
    """Of the large reads or writes. text: what the rate was held against, with its numbers, without a full stop."""

    op: str
    state: State
    text: str


def normal(document: Document, op: str, rate: float, kind: str, sure: bool) -> Normal:
    """A large rate in bytes/s that `kind` limits. sure: whether that is decided."""
    if rate <= 0 or not sure or kind == "unknown":
        return Normal(op, "unknown", "its bottleneck is not known")
    if kind == "burst_credit":
        return Normal(op, "normal", "this is the rate of a server without burst credit")
    if kind in ("disk", "disk_iops"):
        return _disks(op, rate)
    if why := _without_link(document, kind):
        return Normal(op, "unknown", why)
    found = _link(document, op, rate, fills=kind in ("link", "client_nic"))
    return found or Normal(op, "unknown", "the speed of the link is not known")


def _without_link(document: Document, kind: str) -> str:
    """Why there is no link to hold a rate against; empty where there is one."""
    conditions = (document.get("ladder") or {}).get("conditions") or {}
    if kind == "client_cache":
        return "the data never left this client's cache"
    if conditions.get("same_machine") or kind == "shared_machine":
        return "client and server are one machine"
    local = conditions.get("local_disk") or conditions.get("protocol") == "null"
    return "it is limited by neither a link nor a disk" if local else ""


def _disks(op: str, rate: float) -> Normal:
    slow, fast = HARD_DISK
    usual = f"{slow / 1e6:.0f} to {rate_text(fast)}"
    if rate < slow:
        return Normal(op, "slow", f"a single hard disk does {usual}")
    if rate <= fast:
        return Normal(op, "normal", f"for hard disks ({usual} each), not for an SSD")
    if rate <= SOLID_STATE:
        return Normal(op, "normal", "for a SATA SSD or several hard disks")
    return Normal(op, "normal", "for NVMe SSDs or many disks")


def _link(document: Document, op: str, rate: float, fills: bool) -> Normal | None:
    """Held against the known link, else the link that the model fitted, else the Ethernet speed that it fills."""
    known = known_link(document)
    if known:
        name = speed_text(known.bits_per_s) if known.bits_per_s else "this interface"
        return _against(op, rate, known.bytes_per_s, name, known.bits_per_s, fills)
    bits = _speed_of(rate) if fills else None
    if bits:
        return _against(op, rate, payload_bytes_per_s(bits), speed_text(bits), bits, fills)
    fitted = fitted_link(document, op)
    if fills or not fitted or rate > fitted:
        return None
    return _against(op, rate, fitted, "the link, as fitted,", None, fills)


def _against(op: str, rate: float, most: float, name: str, bits: float | None, fills: bool) -> Normal:
    share = min(rate / most, 1.0)
    if share < FULL:
        what = "; look at cable, switch port and Wi-Fi" if fills else ""
        return Normal(op, "slow", f"{name} carries {rate_text(most)}{what}")
    if bits and bits <= OLD_LINK:
        return Normal(op, "slow", f"the link runs at {name}; look at cable and switch port")
    return Normal(op, "normal", f"{name} carries {rate_text(max(most, rate))}")


def _speed_of(rate: float) -> float | None:
    """The Ethernet speed whose payload this is."""
    return next((bits for bits in WIRE_SPEEDS if FULL <= rate / payload_bytes_per_s(bits) <= RAW), None)


def fitted_link(document: Document, op: str) -> float | None:
    """What the link carries one way by the fitted model; None where the run does not tell."""
    part = ((document.get("ladder") or {}).get("model") or {}).get(f"link_{op}_bytes_per_s")
    value = part.get("value") if isinstance(part, Mapping) else None
    return float(value) if is_positive(value) else None
