"""Which station sets the rate of a row: the model's forward prediction, taken apart."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from naslab.explain.forward import at_disks, demands, predict, rates, storage
from naslab.explain.hypotheses import STATIONS, Array, Values, link_rate
from naslab.explain.rows import Flags, Rows

KINDS = (
    "client_cpu", "protocol", "link", "server_cpu", "unknown", "server_cache", "disk", "latency", "burst_credit",
    "client_nic", "disk_iops", "shared_machine",
)  # fmt: skip
"""What may set a rate. The first seven are stations in the order of `forward.demands`; unknown: a lock."""
AT = {kind: at for at, kind in enumerate(KINDS)}
LOWERED = 0.98
"""A rate that history lowers to less than this share of what the stations allow is set by it."""
BY_REQUESTS = 0.5
"""Share of a disk request's time that does not depend on its bytes, from which on requests are what limits."""
Places = NDArray[np.int64]


@dataclass(frozen=True)
class Split:
    """By (particles, rows). log_rate: predicted operations per second. kind: place in `KINDS` of what sets it.

    times: seconds of one operation at each station, by kind, and its pure `delay`. free: the rate without history.
    """

    log_rate: Array
    kind: Places
    times: dict[str, Array]
    free: Array


def split(v: Values, r: Rows) -> Split:
    """The prediction of rows with what sets each."""
    s = storage(v, r)
    seconds, slowest = demands(v, r, s)
    shape = slowest.shape
    lanes = [station.lanes(v, r) for station in STATIONS if station.kind != "machine"]
    busy = [np.broadcast_to(each / lane, shape) for each, lane in zip(seconds, lanes, strict=False)]
    busy += [np.broadcast_to(each, shape) for each in seconds[len(lanes) :]]
    kind = np.argmax(np.stack(busy), axis=0)
    if r.same_machine:
        machine = next(station for station in STATIONS if station.kind == "machine")
        shared = machine.seconds(v, r) / machine.lanes(v, r) >= slowest
        kind = np.where(shared, AT["shared_machine"], kind)
    free = rates(v, r, seconds, slowest)
    kind = np.where(_waits(v, r, seconds, slowest), _waiting(v, r), kind)
    log_rate = predict(v, r)
    kind = np.where(np.exp(log_rate) < LOWERED * free, _by_history(v, r, s.queued, shape), kind)
    moved = np.where(r.read, r.record / v["disk_read"], r.record / v["disk_write"])
    whole = np.maximum(at_disks(v, r), v["request_s"]) + s.seeks + np.where(r.durable, v["commit_s"], 0.0)
    requests = (kind == AT["disk"]) & (moved < (1 - BY_REQUESTS) * whole) & ~s.queued
    kind = np.where(requests, AT["disk_iops"], kind)
    if r.nic_bytes_per_s:
        narrow = link_rate(v, r) >= r.nic_bytes_per_s
        kind = np.where((kind == AT["link"]) & narrow, AT["client_nic"], kind)
    names = [*KINDS[: len(lanes)], "server_cache", "disk"]
    times = {name: np.broadcast_to(each, shape) for name, each in zip(names, seconds, strict=True)}
    times["delay"] = np.broadcast_to(v["delay_s"] + v["slow_s"] + v["header"] / link_rate(v, r), shape)
    return Split(log_rate, np.asarray(kind), times, free)


def _waits(v: Values, r: Rows, seconds: list[Array], slowest: Array) -> NDArray[np.bool_]:
    """Where too few requests are outstanding to keep the slowest station busy: as `forward.rates` has it."""
    longest = np.maximum.reduce(np.broadcast_arrays(*seconds))
    delay = v["delay_s"] + v["slow_s"] + v["header"] / link_rate(v, r)
    whole = longest + (1 - v["overlap"]) * (sum(seconds) - longest) + delay
    whole = np.maximum(whole, slowest * np.minimum(1.0, r.workers))
    flying = np.minimum(np.minimum(r.depth, v["slots"]) * r.workers, r.count)
    return np.asarray(r.count / flying * whole > (r.count - 1) * slowest + whole + np.where(r.whole, delay, 0.0))


def _waiting(v: Values, r: Rows) -> Places:
    """A wait is the protocol's where its slots, and not the load, are what limits the depth."""
    slots = (v["slots"] <= r.depth) | ((r.granted_depth > 0) & (r.depth >= (r.granted_depth or 1)))
    return np.asarray(np.where(slots, AT["protocol"], AT["latency"]))


def _by_history(v: Values, r: Rows, queued: Flags, shape: tuple[int, ...]) -> Places:
    """Credit that is spent, or a write-back that drains; readers beside writers share one of the server's parts."""
    own = np.where(queued, AT["disk"], AT["server_cache"])
    mine = np.isin(v["kind"] % 3, (0,)) | np.where(r.read, v["kind"] % 3 == 1, v["kind"] % 3 == 2)
    credit = (v["bucket"] > 0) & mine & ~queued
    return np.broadcast_to(np.where(credit, AT["burst_credit"], own), shape)
