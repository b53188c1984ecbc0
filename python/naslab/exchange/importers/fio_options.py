"""What the options of a fio job say of its cell. Source: fio's HOWTO, read with fio 3.33."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from naslab.exchange.importers.base import MAX_NUMBER, whole

_SIZE = re.compile(r"(\d{1,18})(?:([kmgtp])(i?)b?)?\Z")
_OPS = {
    "read": ("read", False), "write": ("write", False), "randread": ("read", True), "randwrite": ("write", True),
    "rw": ("mixed", False), "readwrite": ("mixed", False), "randrw": ("mixed", True),
}  # fmt: skip


def size_bytes(text: str, kb_base: str = "1024") -> int | None:
    """Bytes of a size as fio reads it: with `kb_base=1024`, fio's default, 4k is 4096 and 4ki is 4000; with 1000 the
    other way round. None for percentages, ranges and lists."""
    found = _SIZE.match(text.strip().lower())
    if not found:
        return None
    binary = (kb_base != "1000") != bool(found[3])
    value: int = int(found[1]) * (1024 if binary else 1000) ** " kmgtp".index(found[2] or " ")
    return value if 0 < value <= MAX_NUMBER else None


def told_by(options: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of a cell. What fio takes by itself when nothing is said (rw=read, bs=4k, iodepth=1) is told, too."""
    text = {str(name): str(value) for name, value in options.items() if isinstance(value, str | int)}
    base = text.get("kb_base", "1024")
    files = whole(text.get("nrfiles", text.get("nr_files", "1"))) or 1
    size = size_bytes(text.get("size", text.get("filesize", "")), base)
    block = text.get("bs", text.get("blocksize", "4k"))
    through = text.get("sync", "0").lower() not in ("0", "none", "false") or text.get("fsync", "0") == "1"
    through = through or text.get("fdatasync", "0") == "1"
    ends = text.get("end_fsync", "0") not in ("0", "false") or text.get("fsync_on_close", "0") not in ("0", "false")
    return {
        "file_bytes": None if size is None else size // files,
        "record_bytes": size_bytes(block, base),
        "queue_depth": whole(text.get("iodepth", "1")) or 1,
        "direct": text.get("direct", "0") not in ("0", "false") or text.get("buffered", "1") in ("0", "false"),
        "durability": "each" if through else "end" if ends else "none",
        "sync": "data" if text.get("sync", "0").lower() == "dsync" else "all" if _on(text.get("sync", "0")) else "none",
        "access": "mmap" if text.get("ioengine") == "mmap" else "positioned",
    }


def _on(text: str) -> bool:
    return text.lower() not in ("0", "none", "false")


def operation(options: Mapping[str, Any], reads: int, writes: int) -> tuple[str, bool]:
    """(operation, random) of a job: what it did, in the order it was asked for."""
    asked = str(options.get("rw", options.get("readwrite", "read"))).lower().split(":")[0]
    kind, random = _OPS.get(asked, ("", "rand" in asked))
    if reads and writes:
        return "mixed", random
    kind = "write" if writes else "read" if reads else kind
    return (f"random_{kind}" if random and kind != "mixed" else kind or "read"), random
