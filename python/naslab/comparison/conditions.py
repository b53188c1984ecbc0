"""What was not alike on two sides, and may be the whole difference."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from naslab.results.foreign import is_foreign
from naslab.results.measurements import CONDITIONS, Document, Key
from naslab.units import size_label

_TARGET = {
    "protocol": "the protocol",
    "dialect": "the protocol's version",
    "sec": "the security flavour",
    "xprtsec": "TLS",
    "signing": "signing",
    "encryption": "encryption",
    "connections": "the number of connections",
}
_CONDITION = {"clients": "the number of clients"}
_CLIENT = {
    "host": "the client",
    "system": "the client's system",
    "cpu": "the client's processor",
    "cpus_usable": "the client's number of processors",
    "cpu_quota_cores": "the client's processor quota",
    "memory_bytes": "the client's memory",
}


def differences(
    one: Sequence[Document], other: Sequence[Document], loose: Sequence[tuple[Key, Key]]
) -> Iterator[tuple[str, str]]:
    """(kind, sentence) of each condition that differs. loose: measurements under unlike conditions."""
    for name, words in _TARGET.items():
        sides = [[d for d in side if not is_foreign(d) or d["target"].get(name)] for side in (one, other)]
        if all(sides):
            yield from _told("target", words, *([d["target"].get(name) for d in side] for side in sides))
    clients = [[(d["environment"].get("client") or {}) for d in side] for side in (one, other)]
    for name, words in _CLIENT.items():
        yield from _told("client", words, *([c.get(name) for c in side] for side in clients))
    yield from _told("link", "the fastest link or its MTU", *([_link(c) for c in side] for side in clients))
    yield from _told("data", "the compressibility of the data", *(sorted(_compressed(side)) for side in (one, other)))
    versions = [[d.get("naslab_version") for d in side] for side in (one, other)]
    yield from _told("version", "the version of naslab", *versions)
    for at, name in enumerate(CONDITIONS):
        values = {(a.conditions[at], b.conditions[at]) for a, b in loose if a.conditions and b.conditions}
        unlike = sorted({pair for pair in values if pair[0] != pair[1]}, key=str)
        if unlike:
            first, second = unlike[0]
            words = _CONDITION.get(name, name.replace("_", " "))
            yield "conditions", f"{words} differs: {_word(first)} against {_word(second)}"


def _told(kind: str, words: str, one: Sequence[Any], other: Sequence[Any]) -> Iterator[tuple[str, str]]:
    """A difference between the values of two sides, when both are known."""
    mine, theirs = [list(dict.fromkeys(value for value in side if value is not None)) for side in (one, other)]
    silent = (not mine and not theirs) or (kind in ("client", "link", "data") and not (mine and theirs))
    if not silent and mine != theirs:
        yield kind, f"{words} differs: {_list(mine)} against {_list(theirs)}"


def _list(values: Sequence[Any]) -> str:
    return ", ".join(map(_word, values)) or "none"


def _word(value: Any) -> str:
    if value is None:
        return "not reported"
    if isinstance(value, bool):
        return "on" if value else "off"
    return size_label(value) if isinstance(value, int) and value > 1 << 20 else str(value)


def _link(client: Mapping[str, Any]) -> str | None:
    """Speed and MTU of the fastest interface that is not the machine's own."""
    found = [i for i in client.get("interfaces") or [] if i.get("name") != "lo"]
    if not found:
        return None
    best = max(found, key=lambda i: i.get("speed_bits_per_s") or 0)
    speed = best.get("speed_bits_per_s")
    rate = "unknown speed" if speed is None else f"{speed / 1e6:,.0f} Mbit/s"
    return f"{rate}, MTU {best.get('mtu_bytes')}"


def _compressed(side: Sequence[Document]) -> set[float]:
    """Measured compression of the data, to a tenth, of all cells that tell."""
    told = (cell.get("data_measured") for document in side for cell in document["cells"])
    return {round(found["compress_ratio_zlib"], 1) for found in told if found}
