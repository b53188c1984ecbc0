"""Can a number be true, and of what is it a number? Evidence, not thresholds on speed.

The regime here rests on counted bytes alone: what a cell claims to have moved against what storage or wire
counters saw. Doubts about cells and about the whole run are findings: words, and the numbers they rest on.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from naslab.analysis.findings import Finding
from naslab.analysis.many import many_findings
from naslab.analysis.saturation import client_findings, link_findings
from naslab.analysis.stall import stall_findings
from naslab.analysis.stated import derived_findings, limit_findings
from naslab.units import percent_text

if TYPE_CHECKING:
    from naslab.spec import CellSpec

WIRE_SHARE_MIN = 0.98
"""Wire bytes below this share of the claimed bytes: the rest came from a cache (FIELD.md section 5)."""
CACHED_SHARE_MAX = 0.5
"""Below this share most of the cell was served from a cache: `client_cache`; up to WIRE_SHARE_MIN: `mixed`."""
ASKED_TOLERANCE = 1.25
"""Data count as reducible beyond what was asked for from so many times the ratio asked: it is measured on a sample."""
NETWORK_FILESYSTEMS = ("nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs", "ceph", "glusterfs", "fuse.glusterfs")

EVENT_WORDS = {
    "delay": "the server was temporarily busy {n} times (delay, jukebox): these operations count as failed",
    "grace": "the server refused {n} operations during its grace period after a restart",
    "verifier_changed": "the server's write verifier changed: it restarted, and data it had acknowledged may be lost",
    "less_stable": "{n} writes were less durable than requested",
    "lease_break": "the server revoked caching rights {n} times: another client uses these files",
    "commit_not_needed": "the server made every write durable before its answer: {n} flushes had nothing to do",
    "slot_repaired": "the server lost track of a session slot {n} times after an internal failure: requests were "
    "repeated",
    "split": "operations were larger than the server accepts and were split into {n} requests",
}
"""Events of the protocol that a reader of a cell must know; `{n}` is their count."""


def is_local_disk(protocol: str, facts: Mapping[str, Any]) -> bool:
    """Whether a target is a path on a disk of this machine, no mount of a server. facts: of the target."""
    return protocol == "local" and facts.get("filesystem") not in NETWORK_FILESYSTEMS


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


def cell_findings(cell: Mapping[str, Any], document: Mapping[str, Any], spec: CellSpec | None = None) -> list[Finding]:
    """What a reader of this cell must know, with its numbers. spec: what was asked for, where it is known."""
    return [
        *(Finding(kind, message, cell["id"]) for kind, message in _troubles(cell, document)),
        *_reducible(cell, spec),
        *_clock(cell),
        *stall_findings(cell),
        *client_findings(cell, document, paced=_waits(spec)),
        *many_findings(cell, document, paced=_waits(spec)),
        *link_findings(cell, document),
        *limit_findings(cell, document),
    ]


def _troubles(cell: Mapping[str, Any], document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What failed, or was not as asked."""
    proof = cell.get("direct_proof")
    if proof and not proof["proven"]:
        share = proof["cached_fraction"]
        seen = "" if share is None else f": {percent_text(share)} of the file is cached"
        yield "not_direct", f"direct I/O was requested but could not be proven{seen}; do not read this as a disk rate"
    verified = cell.get("verified")
    if verified and verified["bad"]:
        yield "corrupt", f"{verified['bad']} records differ from the written data; first {verified['first_bad']}"
    if cell["errors"]:
        first = str(cell.get("first_error") or "").removeprefix("an operation failed: ")
        told = f"; the first: {first}" if " " in first and ", status=" not in first else ""
        by_status, protocol = cell["errors_by_status"], document["target"]["protocol"]
        kinds = ", ".join(_counted(e, protocol, numbered=not told) for e in by_status)
        yield "errors", f"{cell['errors']} {'operation' if cell['errors'] == 1 else 'operations'} failed: {kinds}{told}"
    if cell.get("first_error") and not (cell["errors"] and cell["first_error"].startswith("an operation failed")):
        yield "error", cell["first_error"]
    for name, count in cell.get("protocol_events", {}).items():
        if name in EVENT_WORDS:
            yield "protocol_event", EVENT_WORDS[name].format(n=count)


def _reducible(cell: Mapping[str, Any], spec: CellSpec | None) -> Iterator[Finding]:
    """Data that a server can make smaller than was asked for: its disks and its link see less than was written."""
    measured = cell.get("data_measured")
    if not measured:
        return
    asked = spec.data if spec is not None and spec.data.kind == "random" else None
    for ratio, name, word, option in (
        ("compress_ratio", "compress_ratio_zlib", "compress", "--compress"),
        ("dedupe_ratio", "dedupe_ratio", "deduplicate", "--dedupe"),
    ):
        found, wanted = measured.get(name) or 1.0, 1.0 if asked is None else getattr(asked, ratio)
        most = wanted * ASKED_TOLERANCE
        if found <= most:
            continue
        times = f"{found:.0f}" if found >= 10 else f"{found:.2g}"
        than = f", not {wanted:g} times as {option} asked" if wanted > 1 else ""
        text = (
            f"the written data {word} {times} times{than}: a server that uses this writes less than that to its disks"
        )
        yield Finding(
            "compressible" if ratio == "compress_ratio" else "dedupable", text, cell["id"], found, "ratio", most
        )


def _clock(cell: Mapping[str, Any]) -> Iterator[Finding]:
    """Times that no clock can have measured."""
    wrong = next((name for name in ("duration_ns", "window_ns") if (cell.get(name) or 0) < 0), None)
    if wrong is None and cell["ops"] and cell["status"] == "complete" and cell["duration_ns"] == 0:
        wrong = "duration_ns"
    if wrong is None and (cell.get("end_ns") or 0) < (cell.get("start_ns") or 0):
        wrong = "end_ns"
    if wrong is not None:
        text = f"the clock is wrong: {wrong} is {cell[wrong]} for {cell['ops']} operations; do not use this cell"
        yield Finding("clock", text, cell["id"], float(cell[wrong]), "ns", 0.0)


def _waits(spec: CellSpec | None) -> bool:
    """Whether workers wait for set times, which they do on their processors."""
    return spec is not None and bool(spec.pace or spec.think_ns or spec.burst_ops or spec.script)


def _counted(error: Mapping[str, Any], protocol: str, *, numbered: bool) -> str:
    """`3 x io (errno 5, Input/output error)`. numbered: statuses of other protocols, of which nothing else is told."""
    status = error["status"]
    if protocol in ("local", "sim") and status > 0:
        return f"{error['count']} x {error['kind']} (errno {status}, {os.strerror(status)})"
    return f"{error['count']} x {error['kind']}" + (f" (status {status:#x})" if status and numbered else "")


def run_warnings(document: Mapping[str, Any]) -> list[tuple[str, str, int | None]]:
    """Warnings about the whole run: kind, message, cell id or None."""
    cells = document["cells"]
    found: list[tuple[str, str, int | None]] = []
    cached = [c for c in cells if c["regime"] == "client_cache"]
    if cached and len(cached) == len([c for c in cells if c["regime"] not in (None, "unknown")]):
        text = "every explained cell was served by the client's own cache: this run shows nothing about disks"
        found.append(("client_cache", text, None))
    elif cached:
        text = f"{len(cached)} of {len(cells)} cells were served by the client's own cache; they are marked"
        found.append(("client_cache", text, None))
    during = document["environment"].get("during") or {}
    client = document["environment"].get("client") or {}
    cpus = client.get("cpus_usable") or 1
    # The load is the whole machine's, so no quota of a control group counts here. It includes what ended just before
    # the run; what was measured during the run is better evidence.
    simulated = document["target"]["protocol"] == "sim"
    if client.get("load_1min", 0) > cpus and during.get("foreign_cpu_fraction") is None and not simulated:
        text = f"the client was busy: load {client['load_1min']:.1f} on {cpus} CPUs when the run began"
        found.append(("client_busy", text, None))
    return found


def run_findings(document: Mapping[str, Any]) -> list[Finding]:
    """Doubts that show over all cells: drift over repeats, repeats that are exactly alike."""
    from naslab.analysis.repeats import COMMANDS, repeat_findings

    protocol = document["target"]["protocol"]
    repeated = protocol != "null" and document["command"] in COMMANDS
    found = list(repeat_findings(document["cells"])) if repeated else []
    found += derived_findings(document)
    # In virtual time, without noise, repeats are the same by right.
    return [each for each in found if protocol != "sim" or each.kind != "duplicate"]
