"""Can a number be true, and of what is it a number? Evidence, not thresholds on speed.

Regimes here rest on counted bytes alone: what a cell claims to have moved against what storage or wire
counters saw. Deeper attribution is a later room's work.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from naslab.results.document import RunWarning, warning

WIRE_SHARE_MIN = 0.98
"""Wire bytes below this share of the claimed bytes: the rest came from a cache (FIELD.md section 5)."""
CACHED_SHARE_MAX = 0.5
"""Below this share most of the cell was served from a cache: `client_cache`; up to WIRE_SHARE_MIN: `mixed`."""
NETWORK_FILESYSTEMS = ("nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs", "ceph", "glusterfs", "fuse.glusterfs")

EVENT_WORDS = {
    "delay": "the server asked to come back later {n} times (delay, jukebox): those operations count as failed",
    "grace": "the server refused {n} operations during its grace period after a restart",
    "verifier_changed": "the server's write verifier changed: it restarted, and data it had acknowledged may be lost",
    "less_stable": "{n} writes were made less durable than asked for",
    "lease_break": "the server took caching rights back {n} times: somebody else uses these files",
    "split": "operations were larger than the server takes at once and went out as {n} requests",
}
"""Events of the protocol that a reader of a cell must know; `{n}` is their count."""


def cell_regime(cell: Mapping[str, Any], document: Mapping[str, Any]) -> str | None:
    """`client_cache`, `mixed`, `disk` or None when nothing was counted that could tell.

    `disk` means here: the bytes were moved by the device under a local file system within the window.
    """
    if not cell["bytes"]:
        return None
    wire = cell.get("wire_bytes")
    if wire is not None:
        return _by_share(wire / cell["bytes"], None)
    facts = document["environment"].get("target", {})
    if document["target"]["protocol"] != "local" or facts.get("filesystem") in (*NETWORK_FILESYSTEMS, "tmpfs", None):
        return "client_cache" if facts.get("filesystem") == "tmpfs" else None
    moved = _storage_bytes(cell)
    return None if moved is None else _by_share(moved / cell["bytes"], "disk")


def _storage_bytes(cell: Mapping[str, Any]) -> int | None:
    read, written = cell.get("storage_read_bytes"), cell.get("storage_write_bytes")
    if read is None or written is None:
        return None
    kinds = cell["kinds"]
    # A buffered write is counted when pages become dirty, so only direct or synchronous writes tell.
    writes_tell = cell["direct"] or cell["sync"] != "none"
    if "write" in kinds and not writes_tell:
        return None
    return int(read if "write" not in kinds else read + written)


def _by_share(share: float, above: str | None) -> str | None:
    if share >= WIRE_SHARE_MIN:
        return above
    return "client_cache" if share < CACHED_SHARE_MAX else "mixed"


def cell_warnings(cell: Mapping[str, Any], document: Mapping[str, Any]) -> list[RunWarning]:
    """What a reader of this cell must know. Typed, in words."""
    found: list[RunWarning] = []

    def add(kind: str, message: str) -> None:
        found.append(warning(kind, message, cell["id"]))

    proof = cell.get("direct_proof")
    if proof and not proof["proven"]:
        share = proof["cached_fraction"]
        seen = "" if share is None else f": {share:.0%} of the file is cached"
        add("not_direct", f"direct I/O was asked for and is not proven{seen}; do not read this as a disk rate")
    verified = cell.get("verified")
    if verified and verified["bad"]:
        add("corrupt", f"{verified['bad']} records read differ from what was written; first {verified['first_bad']}")
    if cell["errors"]:
        kinds = ", ".join(_counted(e, document["target"]["protocol"]) for e in cell["errors_by_status"])
        add("errors", f"{cell['errors']} {'operation' if cell['errors'] == 1 else 'operations'} failed: {kinds}")
    if cell.get("first_error") and not (cell["errors"] and cell["first_error"].startswith("an operation failed")):
        add("error", cell["first_error"])
    for name, count in cell.get("protocol_events", {}).items():
        if name in EVENT_WORDS:
            add("protocol_event", EVENT_WORDS[name].format(n=count))
    measured = cell.get("data_measured")
    if measured and measured["compress_ratio_zlib"] > 20:
        add("compressible", "the data compress more than 20 times: a compressing server's disks see almost nothing")
    return found


def _counted(error: Mapping[str, Any], protocol: str) -> str:
    """`3 x io (errno 5, Input/output error)`; other protocols have statuses of their own."""
    status = error["status"]
    if protocol in ("local", "sim") and status > 0:
        return f"{error['count']} x {error['kind']} (errno {status}, {os.strerror(status)})"
    return f"{error['count']} x {error['kind']}" + (f" (status {status:#x})" if status else "")


def run_warnings(document: Mapping[str, Any]) -> list[tuple[str, str, int | None]]:
    """Warnings about the whole run: kind, message, cell id or None."""
    cells = document["cells"]
    found: list[tuple[str, str, int | None]] = []
    cached = [c for c in cells if c["regime"] == "client_cache"]
    if cached and len(cached) == len([c for c in cells if c["regime"]]):
        text = "every cell that could be told was served by the client's own cache: this run says nothing about disks"
        found.append(("client_cache", text, None))
    elif cached:
        text = f"{len(cached)} of {len(cells)} cells were served by the client's own cache; they are marked"
        found.append(("client_cache", text, None))
    client = document["environment"].get("client", {})
    cpus = client.get("cpus_usable") or 1
    if client.get("load_1min", 0) > cpus:
        text = f"the client was busy: load {client['load_1min']:.1f} on {cpus} CPUs when the run began"
        found.append(("client_busy", text, None))
    return found
