"""Was the client what was busy, and does a rate go beyond what its link can carry?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from naslab.analysis.findings import Finding
from naslab.analysis.linkrate import ABOVE_LINK, known_link
from naslab.results.foreign import is_foreign
from naslab.units import percent_text, rate_text

Document = Mapping[str, Any]
Cell = Mapping[str, Any]

BUSY_CORE = 0.85
"""A worker that uses more of a processor, or a client that uses more of all its processors, is what limits."""
BUSY_THREAD = 0.95
"""One worker's thread that uses more of a processor has no time to wait for a server, whatever the others do."""
THROTTLED = 0.05
"""A client that its control group held back for more of the time measured the group's quota, too."""
NEAR_FLOOR = 0.8
"""More than this share of what the client did without any server: the client may be the limit."""
LEAST_NS = 50_000_000
"""Shorter cells say nothing about processor time."""


def client_findings(cell: Cell, document: Document, paced: bool = False) -> Iterator[Finding]:
    """`client_saturated`, where the client was what was busy; `client_throttled`, where it was held back.

    paced: the cell's operations start at set times; a worker then waits for them on its processor. Cells that were
    served by the client's cache are left out: their regime says so. A simulated client has its own processor figures.
    """
    protocol = document["target"]["protocol"]
    yield from _throttled(cell)
    short = (cell["duration_ns"] or 0) < LEAST_NS
    if cell.get("clients"):  # naslab.analysis.many looks at each
        return
    if protocol == "null" or cell.get("regime") == "client_cache" or short or is_foreign(document) or not cell["ops"]:
        return
    busy = None if paced or cell.get("offered_per_s") else _busy(cell, document) or busy_thread(cell)
    if busy is not None:
        yield busy
    elif protocol != "sim" and (near := _near_floor(cell, document)) is not None:
        yield near


def _busy(cell: Cell, document: Document) -> Finding | None:
    own = cell["cpu_user_ns"] + cell["cpu_system_ns"] - cell["generation_cpu_ns"] - cell["verify_cpu_ns"]
    used = max(own, 0) / cell["duration_ns"]
    cpus = cpu_limit(cell, document)
    if document["target"]["protocol"] == "sim":
        cpus = cell["workers"]
    most = BUSY_CORE * min(cell["workers"], cpus)
    if used <= most:
        return None
    of = f"its {cpus:g} processors" if cpus < cell["workers"] else f"a processor for {_workers(cell['workers'])}"
    more = "" if cpus < cell["workers"] else "; more --workers, or a faster client, may reach a higher rate"
    text = (
        f"the client's processors were busy, {used:.2f} of {of}: this may be the client's rate, not the server's{more}"
    )
    return Finding("client_saturated", text, cell["id"], used, "processors", most)


def cpu_limit(cell: Cell, document: Document) -> float:
    """Processors that the client of a cell might use: as the cell says, else as the run's environment does."""
    about = document["environment"].get("client") or {}
    of_cell = (cell.get("client") or {}).get("cpu_limit_cores")
    return float(of_cell or about.get("cpu_limit_cores") or about.get("cpus_usable") or 1)


def busy_thread(cell: Cell, who: str = "the client") -> Finding | None:
    """`client_saturated`, where one worker's thread was busy all the time, however many processors were idle."""
    busiest = (cell.get("client") or {}).get("busiest_worker_fraction")
    if busiest is None or busiest <= BUSY_THREAD:
        return None
    text = (
        f"one thread of {who} was always busy, {percent_text(busiest)} of a processor: this may be its rate, not the "
        "server's; spread the load over more --workers"
    )
    return Finding("client_saturated", text, cell["id"], busiest, "fraction", BUSY_THREAD)


def _throttled(cell: Cell) -> Iterator[Finding]:
    client, many = cell.get("client") or {}, bool(cell.get("clients"))
    share, limit = client.get("throttled_fraction"), client.get("cpu_limit_cores")
    if share is None or share <= THROTTLED:
        return
    who = "a client" if many else "the client"
    may = "" if many or not limit else f", which allows it {limit:g} processors"
    text = (
        f"{who} was throttled by its control group for {percent_text(share)} of the time{may}: this is the quota's "
        "rate, not the server's; raise the quota and measure again"
    )
    yield Finding("client_throttled", text, cell["id"], share, "fraction", THROTTLED)


def _workers(count: int) -> str:
    return "1 worker" if count == 1 else f"each of {count} workers"


def _near_floor(cell: Cell, document: Document) -> Finding | None:
    ceiling = document.get("client_ceiling")
    floor = None if not ceiling else floor_ops_per_s(ceiling, cell["record_bytes"], cell["workers"])
    if floor is None or cell["iops"] <= NEAR_FLOOR * floor:
        return None
    text = (
        f"{cell['iops']:,.0f} operations/s are {percent_text(cell['iops'] / floor)} of what this client reached "
        "without any server: this may be its rate, not the server's"
    )
    return Finding("client_saturated", text, cell["id"], cell["iops"], "per_s", NEAR_FLOOR * floor)


def floor_ops_per_s(ceiling: Mapping[str, Any], record_bytes: int, workers: int) -> float | None:
    """Most operations a second that this client can do with records of a size, from part `client_ceiling`.

    The engine's own work by operation, on a target that answers at once, and one copy of the record through memory:
    no server's data come without it. None where the part lacks them.
    """
    cpus = min(workers, ceiling.get("cpus") or 1)
    null = [each for each in ceiling.get("null") or [] if each["workers"] <= workers and each["ops_per_s"] > 0]
    copies = [(ceiling.get("memory") or {}).get(part) or {} for part in ("one", "all")]
    rates = [each.get("copy_bytes_per_s") or 0.0 for each in copies]
    if not null or not rates[0]:
        return None
    engine_s = 1 / max(each["ops_per_s"] for each in null)
    copy = rates[0] if cpus == 1 else max(rates)
    return float(1 / (engine_s + record_bytes / copy))


def _one_way(cell: Cell) -> Iterator[tuple[str, float]]:
    """Rates by direction; of a cell from elsewhere, which may tell no more, its rate where it goes one way only."""
    if cell["duration_ns"] is None:
        if cell["write_fraction"] in (0, 1):
            yield ("write" if cell["write_fraction"] else "read"), cell["throughput_bytes_per_s"]
        return
    if cell["duration_ns"] <= 0:
        return
    # Operations that were under way when the window began had a part of their way behind them.
    early = cell["workers"] * cell["queue_depth"] * cell["record_bytes"] if cell["warmup_ops"] else 0
    for kind in ("read", "write"):
        moved = (cell["kinds"].get(kind) or {}).get("bytes") or 0
        yield kind, max(moved - early, 0) * 1e9 / cell["duration_ns"]


def link_findings(cell: Cell, document: Document) -> Iterator[Finding]:
    """`above_link`: more bytes a second one way than the known link can carry."""
    link = known_link(document)
    if link is None:
        return
    most = link.bytes_per_s * ABOVE_LINK
    for kind, rate in _one_way(cell):
        if rate > most:
            text = (
                f"{kind} at {rate_text(rate)}, above the {rate_text(link.bytes_per_s)} that {link.says}, can "
                "carry: a cache answered, or the data were compressed on the path"
            )
            yield Finding("above_link", text, cell["id"], rate, "bytes_per_s", link.bytes_per_s)
