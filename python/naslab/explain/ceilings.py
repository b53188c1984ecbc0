"""What each part of a server allows one busy connection, by kind of I/O: the ceilings that a verdict compares.

Four kinds are judged: large (1 MiB) and small (4 KiB) reads and writes. Reads are judged for the largest working set
that was measured: of disks behind a memory that held it nothing is known. Writes count when they are durable, small
ones each by itself.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from naslab.explain.compiled import predicted
from naslab.explain.forward import NEVER, PAGE_SLACK, storage, values_of
from naslab.explain.hypotheses import HIT_EDGE_BYTES, Array, switched_on, taken
from naslab.explain.rows import CREDIT_BYTES, Rows
from naslab.explain.steps import LARGE_RECORD, SMALL_RECORD

CLASSES: tuple[tuple[str, str], ...] = (("read", "large"), ("write", "large"), ("read", "small"), ("write", "small"))
KEPT_BUSY = 0.98
"""A window or a round trip that keeps the slowest part busy for this share of the time holds up nothing."""
DRAWN_FROM = 1.15
"""A rate so many times that without credit was made by credit."""
BUSY_DEPTH = 256
REACH_BYTES = 4.0 * (1 << 30)
"""Reads are judged for working sets of at least this size, measured or not: smaller ones are no file server's job."""


def ceilings(theta: Array, r: Rows, op: str, size: str) -> dict[str, Array]:
    """Operations per second that each kind of limit allows one busy connection, by particle."""
    v = {name: each[:, 0] for name, each in values_of(theta).items()}
    read, record = op == "read", float(LARGE_RECORD if size == "large" else SMALL_RECORD)
    wire = record + v["header"]
    link = v["link"] * (1.0 if read else v["uplink_ratio"])
    cached = (PAGE_SLACK * v["cache"] >= max(r.max_set_bytes, REACH_BYTES)) if read else np.zeros(len(theta), bool)
    queued = (v["write_back"] > HIT_EDGE_BYTES) & (size == "large")
    moved = np.maximum(record, v["fetch"]) if read and size == "small" else record
    disk = np.maximum(moved / v["disk_read" if read else "disk_write"], v["request_s"])
    if size == "small":
        disk = disk + v["seek_s"] + (0.0 if read else v["commit_s"])
    disk = np.where(cached, 0.0, disk)
    copied = record / (v["memory"] * (1.0 if read else taken(v, r)))
    cold = v["cold"] if read else 1.0
    memory = np.where(cached if read else queued, copied * cold, 0.0)
    server = v["server_s"] * cold
    client = v["client_s"] + v["client_byte_s"] * record
    lanes = min(1.0, r.cpu_limit or 1.0)
    undisked = [client, server, v["lock_s"], memory, wire / link]
    longest = np.maximum.reduce(undisked)
    alone = longest + (1 - v["overlap"]) * (sum(undisked) - longest)
    charge = charge_of(r, record)
    slots = np.minimum(np.maximum(v["slots"] / charge, 1.0), float(r.granted_depth or BUSY_DEPTH))
    waits = slots / (v["delay_s"] + v["slow_s"] + alone)
    waits = np.where(waits * longest < KEPT_BUSY, waits, np.inf)
    few = (v["slots"] / charge < BUSY_DEPTH) | bool(r.granted_depth)
    mine = np.isin(v["kind"] % 3, (0, 1 if read else 2)) & (v["bucket"] > 0) & ((v["kind"] > 2) | ~cached)
    base = np.where(mine, v["base"] / record, np.inf)
    spent = _spends_credit(theta, r)
    disks = np.where(disk > 0, 1 / np.maximum(disk, 1e-15), np.inf)
    disks = np.where(spent | (v["kind"] > 2), disks, np.minimum(disks, base))
    network = np.where(spent | (v["kind"] < 3), link / wire, np.minimum(link / wire, base))
    machine = client + server + copied
    machine = machine / max(r.cpus, 1.0) if r.same_machine else np.zeros(len(theta))
    slow = v["slow_s"] > v["delay_s"]
    held = np.where(v["lock_s"] > 0, v["lock_s"] + v["lock_share"] * (memory + disk), 0.0)
    with np.errstate(divide="ignore"):
        found = {
            "client_cpu": lanes / client, "server_cpu": 1 / server, "server_cache": 1 / memory,
            "link": network, "client_nic": np.full(len(theta), r.nic_bytes_per_s or np.inf) / wire,
            "protocol": np.minimum(v["window"] / wire, np.where(few & ~slow, waits, np.inf)),
            "disk" if size == "large" else "disk_iops": disks,
            "latency": np.where(few | slow, np.inf, waits),
            "unknown": np.minimum(1 / held, np.where(slow, waits, np.inf)),
            "burst_credit": np.where(spent, base, np.inf),
            "shared_machine": 1 / machine,
        }  # fmt: skip
    return {kind: np.minimum(each, NEVER) for kind, each in found.items()}


def charge_of(r: Rows, record: float) -> float:
    """Slots of a connection that one operation takes."""
    return max(float(np.ceil(record / CREDIT_BYTES)), 1.0) if r.protocol == "smb" else 1.0


def _spends_credit(theta: Array, r: Rows) -> NDArray[np.bool_]:
    """Particles whose credit shows in a row: its rate is above the one without credit.

    A bucket that nothing ever drew from is the disk, or the link, at its base rate by another name.
    """
    found = np.zeros(len(theta), bool)
    at = np.flatnonzero(switched_on(theta, "bucket_on"))
    if not len(at):
        return found
    v = values_of(theta[at])
    moved = np.exp(predicted(theta[at], r)) * r.record
    scope = v["kind"] % 3
    inside = ~r.null & ((scope == 0) | ((scope == 1) == r.read))
    disks = np.where(storage(v, r).missed > 0.5, moved, 0.0)
    drawn = np.where(v["kind"] < 3, disks, moved) > DRAWN_FROM * v["base"]
    found[at] = (drawn & inside).any(1)
    return found
