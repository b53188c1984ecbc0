"""IOzone's names and columns, and cells from its tables. Facts: IOzone 3.327 to 3.492 as run and as published."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from naslab.exchange.importers.base import KIB, Cell
from naslab.results.foreign import foreign_cell

OPS = (
    "write", "rewrite", "read", "reread", "random_read", "random_write", "backward_read", "record_rewrite",
    "stride_read", "fwrite", "frewrite", "fread", "freread", "pwrite", "repwrite", "pread", "repread",
)  # fmt: skip
"""In the order of the columns and of the reports."""
NEW_WIDTHS = (9, 9, 9, 9, 9, 9, 9, 10, 10, 9, 9, 9, 9, 9, 9, 8, 9)
OLD_WIDTHS = (8, 8, 9, 9, 8, 8, 8, 9, 9, 9, 9, 8, 9, 8, 9, 8, 9)
"""Of versions below about 3.430 (seen: 3.327, 3.408); they follow `KB` (16) and `reclen` (8)."""

REPORTS = {
    "writer": "write", "re-writer": "rewrite", "reader": "read", "re-reader": "reread", "random read": "random_read",
    "random write": "random_write", "backward read": "backward_read", "record rewrite": "record_rewrite",
    "stride read": "stride_read", "fwrite": "fwrite", "re-fwrite": "frewrite", "fread": "fread",
    "re-fread": "freread", "pwrite": "pwrite", "re-pwrite": "repwrite", "pread": "pread", "re-pread": "repread",
}  # fmt: skip
"""Names of tables, without `report` and in small letters."""

THROUGHPUT = {
    "initial writers": "write", "rewriters": "rewrite", "readers": "read", "re-readers": "reread",
    "reverse readers": "backward_read", "stride readers": "stride_read", "random readers": "random_read",
    "mixed workload": "mixed", "random writers": "random_write", "pwrite writers": "pwrite",
    "pread readers": "pread", "fwriters": "fwrite", "freaders": "fread",
}  # fmt: skip
THROUGHPUT_ROWS = {
    "initial write": "write", "rewrite": "rewrite", "read": "read", "re-read": "reread",
    "reverse read": "backward_read", "stride read": "stride_read", "random read": "random_read",
    "mixed workload": "mixed", "random write": "random_write", "pwrite": "pwrite", "pread": "pread",
    "fwrite": "fwrite", "fread": "fread",
}  # fmt: skip


@dataclass(frozen=True)
class Told:
    """What the banner says for all cells. unit: of the numbers: `kB/s` (of 1024 bytes), `ops/s` or `us`. flags: fields
    of cells; empty where there is no banner."""

    unit: str
    flags: Mapping[str, object]


def cell_of(number: int, op: str, file_bytes: int | None, record_bytes: int | None, value: float, told: Told) -> Cell:
    """One number of a table of single mode as a cell. value above 0, in the banner's unit."""
    known = {"file_bytes": file_bytes, "record_bytes": record_bytes, **_made_of(op), **told.flags}
    known |= {"workers": known.get("workers", 1), "queue_depth": known.get("queue_depth", 1)}
    if told.unit == "kB/s":
        return foreign_cell(number, op, value * KIB, **known)
    per_s = value if told.unit == "ops/s" else 1e6 / value
    rate = None if record_bytes is None else per_s * record_bytes
    latency = {"mean": round(value * 1000)} if told.unit == "us" else {}
    return foreign_cell(number, op, rate, iops=per_s, latency_ns=latency, **known)


def _made_of(op: str) -> dict[str, object]:
    """Order of offsets and way of access, which IOzone fixes for each test: random ones take each record once."""
    from naslab.commands.iozone.plan import BY_OP

    return {"pattern": BY_OP[op].pattern, "access": BY_OP[op].access}


def flags_of(banner: Iterable[str]) -> dict[str, object]:
    """Fields of cells that the echoed options settle."""
    text = "\n".join(banner)
    sync = "all" if "SYNC Mode." in text else "data" if "O_DSYNC mode enabled" in text else "none"
    sync = "reads_too" if "Read & Write sync mode active" in text else sync
    # Without -e IOzone flushes all the same, after the clock; only -c without -e leaves that to the next test.
    unflushed = "Include close in write timing" in text and "Include fsync in write timing" not in text
    ends = "each" if sync != "none" else "none" if unflushed else "end"
    return {"durability": ends, "sync": sync, "direct": "O_DIRECT feature enabled" in text}
