"""Doubts about a cell that many clients measured together: did they start together, was one of them what was slow?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from naslab.analysis.findings import Finding
from naslab.analysis.saturation import BUSY_CORE, LEAST_NS, busy_thread
from naslab.results.cell_names import load_name, op_words
from naslab.results.describe import part_of
from naslab.results.parts.clients import CellClients, ClientPart
from naslab.units import duration_text, percent_text, rate_text, size_label

LEAST_SKEW_NS, SKEW_SHARE = 50_000_000, 0.01
"""Starts further apart than the larger of 50 ms and 1 % of the window are no common start."""
LEAST_OVERLAP = 0.5
"""Clients that were under load together for less of the whole window measured one after another."""
HEADER = ("client", "MB/s", "of an even share", "began after", "errors", "clock known to", "note")
Cell = Mapping[str, Any]


def many_findings(cell: Cell, document: Mapping[str, Any], paced: bool = False) -> Iterator[Finding]:
    """`start_skew`, `clients_apart`, `straggler`, `client_saturated` of a cell with part `clients`.

    paced: operations start at set times, for which workers wait on their processors.
    """
    clients = part_of(cell, "clients", CellClients)
    if not clients or not cell["ops"]:
        return
    yield from _apart(cell, clients, document)
    yield from _stragglers(cell, clients, document)
    if cell["duration_ns"] >= LEAST_NS and document["target"]["protocol"] != "null":
        busy = list(_busy(cell, clients, document))
        thread = None if busy or paced or cell.get("offered_per_s") else busy_thread(cell, "a client")
        yield from busy or ([thread] if thread else [])


def sentences(document: Mapping[str, Any]) -> list[str]:
    """What many clients got together, of the longest cell; nothing where there were none."""
    every = measured(document)
    if not every:
        return []
    cell, found = _longest(every)
    where = f"{op_words(cell['op'])} of {size_label(cell['record_bytes'])}"
    told = [
        f"{found.count} clients together, {where}: {rate_text(found.common_bytes_per_s)} over "
        f"{duration_text(found.common_window_ns)} in which all were under load; until the first client finished "
        f"{rate_text(found.first_done_bytes_per_s)}, until the last {rate_text(found.last_done_bytes_per_s)}.",
        f"They began within {duration_text(found.start_skew_ns)} of one another (clocks known to "
        f"{duration_text(found.clock_bound_ns)})"
        + (f"; fairness {found.fairness:.3f} of 1." if found.fairness is not None else "."),
    ]
    slow = sorted({name_of(each, document) for _, clients in every for each in clients.stragglers})
    return [*told, *([f"Far slower than the others: {', '.join(slow)}."] if slow else [])]


def measured(document: Mapping[str, Any]) -> list[tuple[Cell, CellClients]]:
    """The cells of many clients."""
    return [
        (cell, clients)
        for cell in document["cells"]
        if (clients := part_of(cell, "clients", CellClients)) and cell["ops"]
    ]


def _longest(cells: Sequence[tuple[Cell, CellClients]]) -> tuple[Cell, CellClients]:
    """The one in which they were under load together for longest."""
    return max(cells, key=lambda each: each[1].common_window_ns)


def rows(document: Mapping[str, Any]) -> tuple[str, list[tuple[str, ...]]]:
    """(which cell, a row of `HEADER` for each client) of the same cell; clients that were lost are named at the end."""
    every = measured(document)
    if not every:
        return "", []
    cell, found = _longest(every)
    even = sum(each.bytes_per_s for each in found.each) / found.count
    about = _about(document)
    table = [_row(each, about.get(each.client) or {}, even, found.stragglers, document) for each in found.each]
    known = {each.client for each in found.each}
    for client, each in about.items():
        if client not in known and each.get("lost"):
            table.append((name_of(client, document), *["-"] * (len(HEADER) - 2), str(each["lost"])))
    title = f"Clients: {load_name(cell)}"
    return title, table


def _row(
    each: ClientPart, about: Mapping[str, Any], even: float, slow: Sequence[int], document: Mapping[str, Any]
) -> tuple[str, ...]:
    clock = about.get("clock")
    notes = [
        str(about.get("lost") or ""),
        "far slower" if each.client in slow else "",
        "" if each.status == "complete" else each.status,
    ]
    return (
        name_of(each.client, document), f"{each.bytes_per_s / 1e6:,.1f}",
        f"{percent_text(each.bytes_per_s / even)}" if even else "-", duration_text(each.start_offset_ns),
        str(each.errors), duration_text(clock["bound_ns"]) if clock else "-", ", ".join(filter(None, notes)),
    )  # fmt: skip


def name_of(client: int, document: Mapping[str, Any]) -> str:
    """A client as people know it."""
    about = _about(document).get(client)
    return f"client {client} ({about['host']})" if about else f"client {client}"


def _about(document: Mapping[str, Any]) -> dict[int, Mapping[str, Any]]:
    """What is known of each client, by its number."""
    return {each["client"]: each for each in document["environment"].get("clients") or []}


def _host(client: int, about: Mapping[int, Mapping[str, Any]]) -> str:
    return str((about.get(client) or {}).get("host") or f"client {client}")


def _apart(cell: Cell, clients: CellClients, document: Mapping[str, Any]) -> Iterator[Finding]:
    most = max(LEAST_SKEW_NS, SKEW_SHARE * cell["window_ns"])
    skew = clients.start_skew_ns + clients.clock_bound_ns
    if skew > most:
        last = max(clients.each, key=lambda each: each.start_offset_ns).client
        text = (
            f"the clients began up to {duration_text(skew)} apart, {name_of(last, document)} last, more than "
            f"{duration_text(round(most))}: the load was not simultaneous"
        )
        yield Finding("start_skew", text, cell["id"], skew, "ns", most)
    if clients.count > 1 and clients.common_window_ns < LEAST_OVERLAP * cell["window_ns"]:
        share = clients.common_window_ns / max(cell["window_ns"], 1)
        text = (
            f"all clients were under load together for only {percent_text(share)} of the window: one "
            "finished long before another; choose larger files or a duration"
        )
        yield Finding("clients_apart", text, cell["id"], share, "fraction", LEAST_OVERLAP)


def _stragglers(cell: Cell, clients: CellClients, document: Mapping[str, Any]) -> Iterator[Finding]:
    for slow in clients.stragglers:
        own = next(each for each in clients.each if each.client == slow)
        text = f"{name_of(slow, document)} got {rate_text(own.bytes_per_s)}, far less than the others"
        yield Finding("straggler", text, cell["id"], own.bytes_per_s, "bytes_per_s")


def _busy(cell: Cell, clients: CellClients, document: Mapping[str, Any]) -> Iterator[Finding]:
    """By host, as clients of one host share its processors."""
    about = _about(document)
    used: dict[str, int] = defaultdict(int)
    workers: dict[str, int] = defaultdict(int)
    for each in clients.each:
        host = _host(each.client, about)
        used[host] += each.cpu_ns
        workers[host] += cell["workers"]
    cpus = _limits(clients, about)
    for host, cpu_ns in used.items():
        busy = cpu_ns / cell["duration_ns"]
        most = BUSY_CORE * min(workers[host], cpus.get(host, 1))
        if busy > most:
            text = (
                f"the clients on {host} were busy, {busy:.2f} of {cpus.get(host, 1):g} processors: this may be their "
                "rate, not the server's; use more hosts"
            )
            yield Finding("client_saturated", text, cell["id"], busy, "processors", most)


def _limits(clients: CellClients, about: Mapping[int, Mapping[str, Any]]) -> dict[str, float]:
    """Processors that clients may use by host: what those on it measured, else what it said of itself."""
    found = {each["host"]: float(each.get("cpus_usable") or 1) for each in about.values()}
    known: dict[str, float] = {}
    for each in clients.each:
        if each.conditions and each.conditions.cpu_limit_cores is not None:
            host = _host(each.client, about)
            known[host] = max(known.get(host, 0.0), each.conditions.cpu_limit_cores)
    return {**found, **known}
