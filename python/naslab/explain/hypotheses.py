"""What may limit a file server: one table of stations, their parameters with priors, and the wording of each.

A file server is a closed queueing network (Lazowska et al. 1984, chapter 5): a request visits stations one after
another, alone it takes the sum of their demands, and many outstanding ones go at the pace of the station with the
largest. A station is one entry of `STATIONS`; a parameter of the model is one entry of `PARAMETERS`. What depends on
the bytes moved before (cache, write-back, token bucket) is state, see `forward.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from naslab.explain.rows import Rows

Array = NDArray[np.float64]
Values = Mapping[str, Array]
"""Parameters by name, (particles, 1) each."""

HIT_EDGE_BYTES = 1 << 18
"""A cache or a write-back below this does not exist."""
SHAPED_ONE_WAY = 8.5
"""Nats that a link shaped one way costs, however far apart its two rates are: one in forty, log-uniform over 1600."""
WARM_BYTES, COLD_BYTES = float(4 << 20), float(64 << 20)
"""A processor's caches hold sets of up to the former, and nothing of those from the latter on."""
NONE_BYTES = 1.8e5
"""A size that stands for none, in the middle of those below the edge."""


@dataclass(frozen=True)
class Parameter:
    """One number of the model. low, high: ends of its log-uniform prior, wider than any server's. unit: as printed."""

    name: str
    low: float
    high: float
    unit: str
    what: str


PARAMETERS = (
    Parameter("client_s", 1e-7, 2e-2, "s", "client processor time per operation"),
    Parameter("client_byte_s", 1e-13, 1e-8, "s/B", "client processor time per byte"),
    Parameter("delay_s", 1e-6, 0.3, "s", "pure delay of a round trip"),
    Parameter("slots", 1.0, 4096.0, "requests", "outstanding requests that one connection may have"),
    Parameter("window", 3e5, 3e12, "B/s", "rate of one connection, each direction"),
    Parameter("link", 3e5, 3e10, "B/s", "rate of the link to the client"),
    Parameter("uplink_ratio", 1 / 500, 500.0, "", "rate of the link from the client, divided by that to it"),
    Parameter("queue", 1e-2, 1.0, "", "share of the outstanding requests that wait in the queue of a full link"),
    Parameter("header", 20.0, 500.0, "B", "bytes of a message besides its data"),
    Parameter("server_s", 1e-7, 0.1, "s", "server processor time per operation"),
    Parameter("server_lanes", 0.25, 16.0, "", "connections that server processors serve in parallel; at least 1"),
    Parameter("memory", 3e5, 3e11, "B/s", "server cache, or the processor that copies; reads, with writes beside them"),
    Parameter("copy_ratio", 0.2, 5.0, "", "rate at which writes are copied, divided by that of reads, on one machine"),
    Parameter("copy_lanes", 0.25, 16.0, "", "connections whose data server processors copy in parallel; at least 1"),
    Parameter(
        "cold", 0.4, 2.5, "", "time to find and copy data beyond processor caches, divided by that in them; at least 1"
    ),
    Parameter("cache", 1.2e5, 3e12, "B", "server cache"),
    Parameter("disk_read", 3e5, 3e11, "B/s", "disks, reads"),
    Parameter("disk_write", 3e5, 3e11, "B/s", "disks, writes"),
    Parameter("fetch", 2e3, 2e6, "B", "least that the disks read for a read that does not continue the previous one"),
    Parameter("request_s", 1e-7, 0.1, "s", "minimum time of a disk request (1 / IOPS)"),
    Parameter("seek_s", 1e-8, 3e-2, "s", "seek, added to a request that does not continue the previous one"),
    Parameter("commit_s", 1e-7, 0.1, "s", "added to each durable operation"),
    Parameter("write_back", 6e4, 4e9, "B", "unstable writes that the server holds"),
    Parameter("joins_on", 1e-3, 1.0, "", "switch: data rewritten before it is on disk is written once"),
    Parameter("overlap", 3e-3, 1.0, "", "share of the stations' times that overlap within one operation"),
    Parameter("sharpness", 3.0, 60.0, "", "how abruptly a rate levels off with depth"),
    Parameter("slow_on", 1e-3, 1.0, "", "switch: a share of slow operations"),
    Parameter("slow_s", 1e-4, 1.0, "s", "mean time that slow operations add"),
    Parameter("lock_on", 1e-3, 1.0, "", "switch: a lock per file"),
    Parameter("lock_s", 1e-5, 0.1, "s", "time that an operation holds its file"),
    Parameter("lock_share", 1e-2, 1.0, "", "share of the time in memory and at disks for which the lock is held, too"),
    Parameter("bucket_on", 1e-3, 1.0, "", "switch: a token bucket"),
    Parameter("base", 3e6, 3e9, "B/s", "rate without credit"),
    Parameter("burst", 1.3, 12.0, "", "rate with credit, divided by the rate without"),
    Parameter("lasts_s", 1.0, 60.0, "s", "time that full credit lasts"),
    Parameter("scope", 1e-3, 1.0, "", "what the bucket counts: disk or link, reads, writes or both"),
)
NAMES = tuple(p.name for p in PARAMETERS)
LOW = np.log([p.low for p in PARAMETERS])
HIGH = np.log([p.high for p in PARAMETERS])
AT = {name: at for at, name in enumerate(NAMES)}

SWITCHES = {"joins_on": 0.5, "slow_on": 0.07, "lock_on": 0.07, "bucket_on": 0.10}
"""Prior probability that each exists."""


def switched_on(theta: Array, name: str) -> NDArray[np.bool_]:
    """Particles (particles, dims) in which an optional station exists."""
    return np.asarray(theta[:, AT[name]] > math.log(1e-3) * SWITCHES[name])


COPIES, COPIED, SLOW_COPY = 1.0, 60e6, 2.0
"""Nats of copying in parallel; bytes a second that one processor of a server usually copies at least, and nats of each
factor of four less."""
AS_COPIED, FAST = (4e8, 8e9), 3.5
"""Bytes a second at which one processor's copying is what one connection gets, and seldom a window; of a server that
was seen to be on the client's machine, seldom a link or disks with no memory in front of them; nats."""
BUCKET_SCOPES = 7
"""What a bucket counts: the disks' reads and writes, reads, writes; the link's; or the link's, each way by itself."""
LINK_ONE_WAY, ONE_WAY_BUCKET = (4, 5), 3.0
"""Scopes of credit for one direction of a link alone; nats, for they are as rare as links that are shaped one way."""
LEAST_CACHE, UNCACHED = 1e8, 1.5
"""Bytes that nearly every server keeps of what was read; nats of one that does not."""
UNQUEUED, WAITS = 0.3, 0.7 * math.log(100.0)
"""Density of the share that waits in a full link's queue: one link in three, such as with fair queues, at any share
(log-uniform); of the others most requests wait."""
MOST_SKEWED = 12.0
"""Nats of disks that read and write at very different rates, at most."""
COLD = 3.0
"""Nats of each factor of e by which data beyond the processor's caches are copied more slowly."""
COPIED_ALIKE = 0.1
"""Width of the log-ratio of the rates at which reads and writes are copied (Cauchy)."""


def bucket_scope(scope: Array) -> Array:
    """What buckets count, by the logarithms of the parameter `scope`."""
    return np.asarray(np.clip(np.floor(scope / LOW[AT["scope"]] * BUCKET_SCOPES), 0, BUCKET_SCOPES - 1))


def uncached(theta: Array) -> Array:
    """Nats that servers cost which keep next to nothing of what was read."""
    return np.asarray(UNCACHED * (theta[:, AT["cache"]] < math.log(LEAST_CACHE)))


def one_way(theta: Array) -> Array:
    """Nats that links cost whose two rates differ."""
    return np.asarray(np.minimum(np.log1p((theta[:, AT["uplink_ratio"]] / 0.02) ** 2), SHAPED_ONE_WAY))


def _as_copied(rate: Array) -> NDArray[np.bool_]:
    """Whether rates, in logarithms, are those at which processors copy."""
    return np.asarray((rate > math.log(AS_COPIED[0])) & (rate < math.log(AS_COPIED[1])))


def log_prior(theta: Array, here: bool = False) -> Array:
    """Log density of the priors that are not log-uniform, against the log-uniform ones, by particle.

    here: whether the server was seen to be on the client's machine; then no link, and no disk without memory in front
    of it, has a rate at which processors copy.

    Disks write about as fast as they read (log-ratio of sd 0.7). A link carries as much up as down (Cauchy, 2 %), or
    is shaped one way (one in forty). Few servers cache no reads, few connections have fewer slots than a client asks
    for, few servers serve them side by side. Data beyond the processor's caches are copied a third more slowly
    (exponential). Writes are copied about as fast as reads (Cauchy, 10 %). A window seldom has the
    rate at which one processor copies.
    """
    disks = (theta[:, AT["disk_read"]] - theta[:, AT["disk_write"]]) / 0.7
    found = -np.minimum(disks**2 / 2, MOST_SKEWED)
    found = found - one_way(theta) - uncached(theta)
    found = found - 2.0 * (theta[:, AT["slots"]] < math.log(300.0))
    found = found - 1.0 * (theta[:, AT["server_lanes"]] > 0)
    copies = theta[:, AT["copy_lanes"]] > 0
    slow = np.clip((math.log(COPIED) - theta[:, AT["memory"]]) / math.log(4), 0, 2)
    found = found - copies * (COPIES + SLOW_COPY * slow)
    found = found - FAST * _as_copied(theta[:, AT["window"]])
    if here:
        link = theta[:, AT["link"]]
        found = found - FAST * (_as_copied(link) | _as_copied(link + theta[:, AT["uplink_ratio"]]))
        found = found - np.log1p((theta[:, AT["copy_ratio"]] / COPIED_ALIKE) ** 2)
        for disk, store, least in (("disk_read", "cache", LEAST_CACHE), ("disk_write", "write_back", HIT_EDGE_BYTES)):
            found = found - FAST * (_as_copied(theta[:, AT[disk]]) & (theta[:, AT[store]] < math.log(least)))
    one_way_credit = switched_on(theta, "bucket_on") & np.isin(bucket_scope(theta[:, AT["scope"]]), LINK_ONE_WAY)
    found = found - ONE_WAY_BUCKET * one_way_credit
    found = found + np.log((UNQUEUED + WAITS * np.exp(theta[:, AT["queue"]])) / (UNQUEUED + WAITS))
    return np.asarray(found - COLD * np.maximum(theta[:, AT["cold"]], 0.0))


USUAL_MEMORY, USUAL_WINDOW = 500e6, 4e9
"""Bytes a second that servers' memories, and single connections, usually carry at least."""
USUAL_SERVER_S = 3e-5
"""Seconds that a server's processor usually takes for an operation at most."""
SLOW_SERVER, SLOW_MEMORY, SLOW_WINDOW, ONE_WAY, SKEWED_DISKS, STANDARD = 2.0, 4.0, 3.0, 3.0, 4.0, 2.3
"""Nats: of a processor, a memory and a connection slower than usual, of a link that is shaped one way, of disks that
read and write at very different rates, of a link at the rate of a standard one."""
LINKS_BITS_PER_S = (1e8, 1e9, 2.5e9, 5e9, 10e9)
PAYLOAD = 0.95
BELOW_NOMINAL, ABOVE_NOMINAL = 0.90, 1.02
"""A rate counts as that of a standard link between these shares of what it carries."""


def log_usual(theta: Array) -> Array:
    """What usually holds, against `log_prior`: for runs that did not vary what would tell.

    A ladder sees whether memory or link, link or window sets a rate, by readers beside writers and by connections.
    """
    found = -SLOW_MEMORY * np.clip((math.log(USUAL_MEMORY) - theta[:, AT["memory"]]) / math.log(4), 0, 2)
    found = found - SLOW_WINDOW * np.clip((math.log(USUAL_WINDOW) - theta[:, AT["window"]]) / math.log(4), 0, 3)
    found = found - SLOW_SERVER * np.clip((theta[:, AT["server_s"]] - math.log(USUAL_SERVER_S)) / math.log(4), 0, 2)
    skewed = ((theta[:, AT["disk_read"]] - theta[:, AT["disk_write"]]) / 0.7) ** 2 / 2
    found = found + np.minimum(skewed, MOST_SKEWED) - np.minimum(skewed, SKEWED_DISKS)
    ratio = theta[:, AT["uplink_ratio"]]
    found = found - ONE_WAY * np.minimum(np.abs(ratio) / math.log(1.5), 1.0)
    return np.asarray(found - STANDARD * ~is_standard(np.exp(theta[:, AT["link"]])))


def is_standard(link: Array) -> NDArray[np.bool_]:
    """Whether links, bytes a second, have the rate of a standard one."""
    share = link[:, None] * 8 / np.array(LINKS_BITS_PER_S)
    return np.asarray(((share > BELOW_NOMINAL * PAYLOAD) & (share < ABOVE_NOMINAL)).any(axis=1))


@dataclass(frozen=True)
class Station:
    """One place that an operation visits.

    kind: of a limit in the verdict. seconds: one operation's time there by row (particles, rows). lanes: operations
    served side by side by row. by: the ladder's step that separates it from the others.
    """

    kind: str
    seconds: Callable[[Values, Rows], Array]
    lanes: Callable[[Values, Rows], Array | float]
    by: str
    words: str


def _wire_bytes(v: Values, r: Rows) -> Array:
    return np.asarray(r.record + v["header"])


def link_rate(v: Values, r: Rows) -> Array:
    """Bytes a second that the network carries in the direction of a row's data."""
    rate = np.where(r.read, v["link"], v["link"] * v["uplink_ratio"])
    return np.minimum(rate, r.nic_bytes_per_s) if r.nic_bytes_per_s else rate


def _client(v: Values, r: Rows) -> Array:
    return np.asarray(v["client_s"] + v["client_byte_s"] * r.record)


def _client_lanes(v: Values, r: Rows) -> Array | float:
    del v
    return np.minimum(r.workers, r.cpu_limit) if r.cpu_limit else r.workers


def _machine_lanes(v: Values, r: Rows) -> Array | float:
    del v
    return max(r.cpus, 1.0)


def _machine(v: Values, r: Rows) -> Array:
    if not r.same_machine:
        return np.zeros((len(v["client_s"]), len(r.record)))
    return _client(v, r) + _server(v, r) + copied(v, r)


def _server(v: Values, r: Rows) -> Array:
    return np.asarray(v["server_s"] * chill(v, r))


def copied(v: Values, r: Rows) -> Array:
    """Seconds that the server copies one operation's data for, in its processor's caches, by (particles, rows)."""
    return np.asarray(r.record / np.where(r.read, v["memory"], v["memory"] * taken(v, r)))


def taken(v: Values, r: Rows) -> Array | float:
    """Rate at which writes are copied, divided by that of reads: one, but of processors that are the client's, too."""
    return np.asarray(v["copy_ratio"]) if r.here else 1.0


def chill(v: Values, r: Rows) -> Array:
    """Times as long as data in the processor's caches take that a row reads, by (particles, rows)."""
    far = np.log(r.size * r.files / WARM_BYTES) / np.log(COLD_BYTES / WARM_BYTES)
    return np.asarray(v["cold"] ** np.where(r.read & ~r.null, np.clip(far, 0.0, 1.0), 0.0))


STATIONS = (
    Station("client_cpu", _client, _client_lanes, "small_depth", "the client's processor"),
    Station("protocol", lambda v, r: _wire_bytes(v, r) / v["window"], lambda v, r: r.workers, "connections",
            "the protocol's window or slots"),
    Station("link", lambda v, r: _wire_bytes(v, r) / link_rate(v, r), lambda v, r: 1.0, "duplex", "the network link"),
    Station("server_cpu", _server,
            lambda v, r: np.minimum(v["server_lanes"], r.workers), "record", "the server's processor"),
    Station("lock", lambda v, r: np.where(r.null, 0.0, v["lock_s"]), lambda v, r: r.files, "same_file",
            "a lock per file"),
    Station("machine", _machine, _machine_lanes, "connections", "the machine that client and server share"),
)  # fmt: skip
"""Stations whose demand does not depend on what was moved before; memory and disks are in `forward.py`."""
