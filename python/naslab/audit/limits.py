"""Rates against what the way can carry: the link, the wire's own count, memory, caches, data that shrink."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from naslab.analysis.linkrate import ABOVE_LINK
from naslab.analysis.validity import WIRE_SHARE_MIN
from naslab.audit.figures import number, rounding
from naslab.audit.finding import Finding
from naslab.audit.subject import Cell, Subject
from naslab.units import amount_text, duration_text, rate_text, size_label

MEMORY_ONE_BYTES_PER_S, MEMORY_ALL_BYTES_PER_S = 100e9, 2e12
"""No processor's one thread copies more, no machine's memory gives more (HBM3 of one package is about 1 TB/s)."""
OFF_MACHINE = ("smb", "nfs")
_READS = ("read", "reread", "random_read", "backward_read", "stride_read", "pread", "repread", "fread", "freread")


def link(subject: Subject) -> Iterator[Finding]:
    """Rates one way above what the known or given link carries at most (REFERENCE.md section 6 gives the formula)."""
    known = subject.link
    if known is None:
        return
    most = known["bytes_per_s"] * ABOVE_LINK
    for cell in subject.cells:
        for kind, rate in _one_way(cell):
            if rate - (rounding(rate) if not subject.own else 0.0) > most:
                text = (
                    f"cell {cell['id']}: {kind} at {rate_text(rate)} is above the {rate_text(known['bytes_per_s'])} "
                    f"that {known['says']} can carry"
                )
                yield Finding(
                    "impossible", text, "it is the rate of a cache on this side of the link: choose a file larger than "
                    "all memory, or read past the caches", {"bytes_per_s": rate, "link_bytes_per_s":
                    known["bytes_per_s"]}, (cell["id"],), rate / most,
                )  # fmt: skip


def _one_way(cell: Cell) -> Iterator[tuple[str, float]]:
    """(read or write, bytes per second) as told; of mixed cells without their parts half of the rate is sure."""
    kinds, duration = cell.get("kinds") or {}, number(cell, "duration_ns")
    # Operations that were under way when the window began had a part of their way behind them.
    early = _product(cell, "workers", "queue_depth", "record_bytes") if number(cell, "warmup_ops") else 0.0
    found = False
    for kind in ("read", "write"):
        moved = number(kinds.get(kind) or {}, "bytes")
        if moved and duration and duration > 0:
            found = True
            yield kind, max(moved - early, 0.0) * 1e9 / duration
    rate, share = number(cell, "throughput_bytes_per_s"), number(cell, "write_fraction")
    if not found and rate:
        way = max(share, 1 - share) if share is not None else 0.5
        yield str(cell.get("op")), max(rate * way - (early * 1e9 / duration if early and duration else 0.0), 0.0)


def _product(cell: Cell, *names: str) -> float:
    total = 1.0
    for name in names:
        total *= number(cell, name) or 0.0
    return total


def quickest(subject: Subject) -> Iterator[Finding]:
    """No operation is quicker than its own bytes on the link."""
    known = subject.link
    if known is None:
        return
    for cell in subject.fixed():
        least, record = number(cell, "latency_ns.min"), number(cell, "record_bytes")
        kinds = set(cell.get("kinds") or {cell.get("op"): None}) - {"flush"}
        if not least or not record or not kinds or not kinds <= {"read", "write", *_READS}:
            continue
        wire_ns = record / known["bytes_per_s"] * 1e9
        if least + rounding(least) < wire_ns * 0.95 and _whole(cell, record):
            text = (
                f"cell {cell['id']}: the quickest {size_label(record)} took {duration_text(least)}; {known['says']} "
                f"needs {duration_text(wire_ns)} for its bytes alone"
            )
            yield Finding(
                "doubtful", text, "some operations were answered on this side of the link: its latencies are a mixture",
                {"min_ns": least, "wire_ns": wire_ns}, (cell["id"],), wire_ns / least,
            )  # fmt: skip


def _whole(cell: Cell, record: float) -> bool:
    """Every operation moved a whole record: the last one of a file may be shorter."""
    moved, ops = number(cell, "bytes"), number(cell, "ops")
    return moved is not None and ops is not None and moved == ops * record


def wire(subject: Subject) -> Iterator[Finding]:
    """Bytes counted on the wire against the bytes that a cell claims to have moved over it."""
    for cell in subject.cells:
        for kind, name in (("read", "wire_received_bytes"), ("write", "wire_sent_bytes")):
            moved = number((cell.get("kinds") or {}).get(kind) or {}, "bytes")
            seen = number(cell, name)
            if not moved or seen is None or seen >= moved * WIRE_SHARE_MIN:
                continue
            said = cell.get("regime") in ("client_cache", "mixed")
            text = (
                f"cell {cell['id']} claims {amount_text(moved)} {'read' if kind == 'read' else 'written'}; "
                f"{amount_text(seen)} crossed the wire"
            )
            text += f", and its regime says so: {cell['regime']}" if said else ""
            yield Finding(
                "doubtful" if said else "impossible", text, "it is the client's own cache: do not call this the "
                "server's rate", {f"{kind}_bytes": moved, name: seen}, (cell["id"],), moved / max(seen, 1.0), kind,
            )  # fmt: skip


def memory(subject: Subject) -> Iterator[Finding]:
    """Rates above what memory copies: a clock too coarse for so small a file, or a unit."""
    if subject.document["target"].get("protocol") in ("null", "sim"):
        return  # no byte is touched there
    for cell in subject.cells:
        rate, workers = number(cell, "throughput_bytes_per_s"), number(cell, "workers") or 1.0
        known = _copies(subject, workers)
        most = known or min(workers * MEMORY_ONE_BYTES_PER_S, MEMORY_ALL_BYTES_PER_S)
        if rate is not None and rate > most * 1.1:
            words = "this client's memory was measured to copy" if known else "any processor is known to copy"
            size = number(cell, "file_bytes")
            file = f" of a file of {size_label(size)}" if size else ""
            text = f"cell {cell['id']}{file}: {rate_text(rate)} is above the {rate_text(most)} that {words}"
            yield Finding(
                "impossible", text, "the file is too small for the tool's clock, or the unit is wrong: drop this "
                "cell", {"bytes_per_s": rate, "memory_bytes_per_s": most}, (cell["id"],), rate / most,
            )  # fmt: skip


def _copies(subject: Subject, workers: float) -> float | None:
    found: dict[str, Any] = (subject.document.get("client_ceiling") or {}).get("memory") or {}
    told = [number(found.get(part) or {}, "copy_bytes_per_s") for part in ("one", "all")]
    if None in told or not subject.own:
        return None
    one, every = (each or 0.0 for each in told)
    # Small records stay in the processor's caches, which are several times as fast as memory.
    return 8 * (one if workers == 1 else max(one, every))


def cached(subject: Subject) -> Iterator[Finding]:
    """Reads of files that the client's or the server's memory holds: a cache's rate, not the disk's."""
    for cell in subject.cells:
        if cell.get("regime") == "client_cache":
            text = f"cell {cell['id']}: {cell.get('op')} was served by the client's own cache, as its regime says"
            step = "do not call it the server's rate; --direct or a file larger than the client's memory reaches that"
            yield Finding("doubtful", text, step, {}, (cell["id"],), about="regime")
        size, op = number(cell, "file_bytes"), str(cell.get("op"))
        if not size or not (op in _READS or "read" in (cell.get("kinds") or {})):
            continue
        size *= number(cell, "workers") or 1.0
        for whose, amount in _memories(subject, cell):
            if size <= amount:
                text = (
                    f"cell {cell['id']}: {op} of {size_label(size)}, and the {whose} has {size_label(amount)} of memory"
                )
                yield Finding(
                    "doubtful", text, f"call it a rate of the {whose}'s cache, or repeat it with more than "
                    f"{size_label(2 * amount)}", {"file_bytes": size, "memory_bytes": amount}, (cell["id"],),
                    amount / size, whose,
                )  # fmt: skip


def _memories(subject: Subject, cell: Cell) -> Iterator[tuple[str, float]]:
    told = cell.get("regime") in ("client_cache", "server_cache", "mixed")
    if subject.server_memory_bytes and not told:
        yield "server", subject.server_memory_bytes
    by_own_client = subject.own and subject.document["target"].get("protocol") != "local"
    judged = subject.own and cell.get("regime") not in (None, "unknown")  # by counted bytes, which is better
    if subject.client_memory and not (
        by_own_client or judged or cell.get("direct") or cell.get("cache_state") == "cold"
    ):
        yield "client", subject.client_memory


_DATA = {
    "iozone": (197.0, "IOzone's own data compress 197 times and are one block again and again"),
    "diskspd": (100.0, "DiskSpd's own data are a pattern of 256 bytes; -Z makes random ones"),
}
"""By tool: (how often its default data compress, why). Measured with zlib on files the tools wrote."""


def reducible(subject: Subject) -> Iterator[Finding]:
    """Data that servers with compression or deduplication never bring to their disks."""
    tool = str(subject.source.get("tool", ""))
    known, line = _DATA.get(tool), str(subject.source.get("command_line") or "")
    chosen = (" -Z" in line) if tool == "diskspd" else any(each in line for each in (" -+w", " -+y", " -+C"))
    writes = [c for c in subject.cells if "write" in str(c.get("op")) or (number(c, "write_fraction") or 0) > 0]
    if known is None or not writes or chosen or any(c.get("data_measured") for c in writes):
        return
    text = f"{known[1]}: a server that compresses or deduplicates wrote next to nothing to its disks"
    yield Finding(
        "doubtful" if line else "missing", text, "find out whether the server's volume compresses or deduplicates; if "
        "so these are not rates of its disks", {"compress_ratio": known[0]}, tuple(c["id"] for c in writes),
    )  # fmt: skip
