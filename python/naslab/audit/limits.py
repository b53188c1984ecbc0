"""Rates against what the way can carry: the link, the wire's own count, memory, caches, data that shrink."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from naslab.analysis.linkrate import ABOVE_LINK
from naslab.analysis.validity import WIRE_SHARE_MIN
from naslab.audit.figures import number, rounding
from naslab.audit.finding import Finding
from naslab.audit.subject import Cell, Subject, cell_name
from naslab.units import amount_text, duration_text, rate_text, size_label

MEMORY_ONE_BYTES_PER_S, MEMORY_ALL_BYTES_PER_S = 100e9, 2e12
"""No processor's one thread copies more, no machine's memory gives more (HBM3 of one package is about 1 TB/s)."""
_READS = ("read", "reread", "random_read", "backward_read", "stride_read", "pread", "repread", "fread", "freread")


def link(subject: Subject) -> Iterator[Finding]:
    """Rates one way above what the known or given link carries at most (REFERENCE.md section 6 gives the formula)."""
    known = subject.link
    if known is None:
        return
    most = known.bytes_per_s * ABOVE_LINK
    for cell in subject.cells:
        for kind, rate in _one_way(cell):
            if rate - (rounding(rate) if not subject.own else 0.0) > most:
                text = (
                    f"{cell_name(cell)}: {kind} at {rate_text(rate)}, above the {rate_text(known.bytes_per_s)} that "
                    f"the link can carry ({known.says})"
                )
                yield Finding(
                    "impossible", text, "a cache on the client's side of the link answered: use a file larger than "
                    "all memory, or bypass the caches", {"bytes_per_s": rate, "link_bytes_per_s":
                    known.bytes_per_s}, (cell["id"],), rate / most,
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
        wire_ns = record / known.bytes_per_s * 1e9
        if least + rounding(least) < wire_ns * 0.95 and _whole(cell, record):
            text = (
                f"{cell_name(cell)}: the fastest operation took {duration_text(least)}, but the link needs "
                f"{duration_text(wire_ns)} for its {size_label(record)} ({known.says})"
            )
            yield Finding(
                "doubtful", text, "a cache on the client's side of the link answered some operations: the latencies "
                "are a mixture",
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
                f"{cell_name(cell)}: {amount_text(moved)} {'read' if kind == 'read' else 'written'}, but only "
                f"{amount_text(seen)} crossed the wire"
            )
            text += f" (regime {cell['regime']})" if said else ""
            yield Finding(
                "doubtful" if said else "impossible", text, "the client's own cache answered: do not report "
                "this as the server's rate", {f"{kind}_bytes": moved, name: seen}, (cell["id"],),
                moved / max(seen, 1.0), kind,
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
            words = "this client's memory can copy (measured)" if known else "any known processor can copy"
            text = f"{cell_name(cell)}: {rate_text(rate)}, above the {rate_text(most)} that {words}"
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
            text = f"{cell_name(cell)}: the client's own cache answered (regime client_cache)"
            step = "do not report it as the server's rate; use --direct, or a file larger than the client's memory"
            yield Finding("doubtful", text, step, {}, (cell["id"],), about="regime")
        size = number(cell, "file_bytes") or float((cell.get("covers_file_bytes") or (0,))[-1])
        op = str(cell.get("op"))
        if not size or not (op in _READS or "read" in (cell.get("kinds") or {})):
            continue
        size *= number(cell, "workers") or 1.0
        for whose, amount in _memories(subject, cell):
            if size <= amount:
                text = (
                    f"{cell_name(cell)}: {size_label(size)} of data fit into the memory of the {whose} "
                    f"({size_label(amount)})"
                )
                yield Finding(
                    "doubtful", text, f"report it as a rate of the {whose}'s cache, or repeat it with more than "
                    f"{size_label(2 * amount)}", {"file_bytes": size, "memory_bytes": amount}, (cell["id"],),
                    amount / size, whose,
                )  # fmt: skip


def _memories(subject: Subject, cell: Cell) -> Iterator[tuple[str, float]]:
    told = cell.get("regime") in ("client_cache", "server_cache", "mixed")
    if subject.server_memory and not told:
        yield "server", subject.server_memory
    by_own_client = subject.own and subject.document["target"].get("protocol") != "local"
    judged = subject.own and cell.get("regime") not in (None, "unknown")  # by counted bytes, which is better
    if subject.client_memory and not (
        by_own_client or judged or cell.get("direct") or cell.get("cache_state") == "cold"
    ):
        yield "client", subject.client_memory


_DATA = {
    "iozone": (197.0, "IOzone's own data compress 197 times and repeat one block"),
    "diskspd": (100.0, "DiskSpd's own data repeat a pattern of 256 bytes; -Z writes random data"),
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
    text = f"{known[1]}: a server that compresses or deduplicates writes almost nothing to its disks"
    yield Finding(
        "doubtful" if line else "missing", text, "check whether the server's volume compresses or deduplicates; if "
        "so, these are not rates of its disks", {"compress_ratio": known[0]}, tuple(c["id"] for c in writes),
    )  # fmt: skip
