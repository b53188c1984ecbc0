"""One cell of what every client measured of it.

Counts add up, histograms are merged (percentiles are never averaged), series are laid over one another by the clients'
corrected clocks. The headline is the throughput over the common window, in which every client was under load; what it
is from the first start to the last end stands beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from naslab.analysis.many import LEAST_OVERLAP
from naslab.analysis.saturation import LEAST_NS
from naslab.execution.clients.conditions import merge_conditions
from naslab.results import histogram as histograms
from naslab.results.describe import part_of, plain, typed
from naslab.results.parts.cell import ClientStall, DirectProof, ErrorCount, Verified
from naslab.results.run import SERIES_COLUMNS

_SERIES, _WIRE = len(SERIES_COLUMNS), 2
"""Columns of the interval series and of bytes on the wire."""
_MAX_LATENCY = SERIES_COLUMNS.index("max_latency_ns")
_SUMS = (
    "bytes", "ops", "errors", "warmup_bytes", "warmup_ops", "cpu_user_ns", "cpu_system_ns", "generation_cpu_ns",
    "verify_cpu_ns", "missed_starts",
)  # fmt: skip
STRAGGLER = 0.75
"""A client slower than this share of the median client is named (elbencho and IOR leave that to the eye)."""
Series = NDArray[np.int64]


@dataclass(frozen=True)
class Part:
    """What one client measured of a cell. result, blobs: the engine's. here: from its clock to this machine's, ns.
    bound_ns: how far off that can be. host: of the client; empty: not known, one of its own.
    """

    client: int
    result: dict[str, Any]
    blobs: list[bytes]
    here: Callable[[int], int]
    bound_ns: int
    host: str = ""

    @property
    def start_ns(self) -> int:
        """First operation, on this machine's clock."""
        return self.here(self.result["start_ns"])

    @property
    def done_ns(self) -> int:
        """Last acknowledgement, on this machine's clock."""
        return self.start_ns + int(self.result["acknowledged_ns"]) + int(self.result["pause_ns"])

    @property
    def end_ns(self) -> int:
        """End of the window, on this machine's clock."""
        return self.start_ns + int(self.result["window_ns"])


def merge(parts: Sequence[Part], begin_ns: int) -> tuple[dict[str, Any], list[bytes]]:
    """The cell as one client's engine would give it, with `clients`; its blobs. begin_ns: agreed common start."""
    first, blobs = parts[0].result, list[bytes]()
    start_ns, end_ns = min(each.start_ns for each in parts), max(each.end_ns for each in parts)
    results = [each.result for each in parts]
    pause_ns = sum(each["pause_ns"] for each in results) // len(results)
    merged: dict[str, Any] = {
        **first,
        **{name: sum(each[name] for each in results) for name in _SUMS},
        "status": _worst([each["status"] for each in results]),
        "stop_reason": _reason([each["stop_reason"] for each in results]),
        "start_ns": start_ns,
        "end_ns": end_ns,
        "start_wall_ns": min(each["start_wall_ns"] for each in results),
        "window_ns": end_ns - start_ns,
        "pause_ns": pause_ns,
        "duration_ns": max(end_ns - start_ns - pause_ns, 0),
        "acknowledged_ns": max(max(each.done_ns for each in parts) - start_ns - pause_ns, 0),
        "flush_ns": max((each["flush_ns"] for each in results if each["flush_ns"] is not None), default=None),
        "close_ns": max(each["close_ns"] for each in results),
        "errors_by_status": _statuses(results),
        "first_error": next((each["first_error"] for each in results if each["first_error"]), None),
        "workers": _workers(parts, start_ns),
        "wire": _sum_of(results, "wire"),
        **_by_address(results),
        "protocol_events": _sum_of(results, "protocol_events") or {},
        "storage_read_bytes": _known_sum(results, "storage_read_bytes"),
        "storage_write_bytes": _known_sum(results, "storage_write_bytes"),
        "verified": _verified(results),
        "direct_proof": _direct_proof(results),
        "client_stall": _client_stall(results),
        "op_log": None,
        "step_log": None,
    }
    merged["kinds"] = _kinds(parts, start_ns, blobs)
    series = _together(parts, "series", _SERIES, start_ns)
    merged["series"] = _push(blobs, series)
    merged["wire_series"] = _push(blobs, _together(parts, "wire_series", _WIRE, start_ns))
    for name, time_column, worker_column in (("op_log", None, 3), ("step_log", 1, 3)):
        merged[name] = _push(blobs, _logs(parts, name, time_column, worker_column, start_ns))
    merged["clients"] = clients_of(parts, begin_ns)
    merged["client"] = merge_conditions(results, [each.host or f"client {each.client}" for each in parts])
    return merged, blobs


def _client_stall(results: Sequence[dict[str, Any]]) -> dict[str, int] | None:
    """Of the client that stood still longest; counts and times add up. None where no client watched."""
    found = [stall for each in results if (stall := part_of(each, "client_stall", ClientStall))]
    if not found:
        return None
    return plain(
        ClientStall(
            longest_ns=max(each.longest_ns for each in found),
            total_ns=sum(each.total_ns for each in found),
            count=sum(each.count for each in found),
            asleep_ns=max(each.asleep_ns for each in found),
            clock_step_ns=max((each.clock_step_ns for each in found), key=abs),
        )
    )


def clients_of(parts: Sequence[Part], begin_ns: int) -> dict[str, Any]:
    """Each client's share, the common window, skew and fairness."""
    starts, dones = [each.start_ns for each in parts], [each.done_ns for each in parts]
    window = (max(starts), min(dones))
    within = [bytes_within(each, *window) for each in parts]
    length_ns, total = max(window[1] - window[0], 0), sum(each.result["bytes"] for each in parts)
    by_first = sum(bytes_within(each, min(starts), min(dones)) for each in parts)
    whole_ns = max(dones) - min(starts)
    # Clients that hardly met have no common rate: what they moved over the whole time stands for it, with a doubt.
    met = len(parts) == 1 or length_ns >= LEAST_OVERLAP * whole_ns
    rates = [_rate(amount, length_ns) for amount in within] if met else [_own_rate(each) for each in parts]
    return {
        "count": len(parts),
        "begin_ns": begin_ns,
        "start_skew_ns": max(starts) - min(starts),
        "clock_bound_ns": max(each.bound_ns for each in parts),
        "late_ns": max(starts) - begin_ns if begin_ns else 0,
        "common_window_ns": length_ns,
        "common_bytes": round(sum(within)),
        "common_bytes_per_s": _rate(sum(within), length_ns) if met else _rate(total, whole_ns),
        "first_done_bytes_per_s": _rate(by_first, min(dones) - min(starts)),
        "last_done_bytes_per_s": _rate(total, whole_ns),
        "fairness": jain(rates),
        "each": [
            {
                "client": each.client, "bytes": each.result["bytes"], "ops": each.result["ops"],
                "errors": each.result["errors"], "status": each.result["status"],
                "start_offset_ns": each.start_ns - min(starts), "duration_ns": each.result["duration_ns"],
                "bytes_per_s": rate, "cpu_ns": each.result["cpu_user_ns"] + each.result["cpu_system_ns"],
                **({"conditions": each.result["client"]} if each.result.get("client") else {}),
                "latency_ns": {name: found["latency_ns"] for name, found in each.result["kinds"].items()},
                "wire_bytes": sum(each.result["wire"].values()) if each.result["wire"] else None,
            }
            for each, rate in zip(parts, rates, strict=True)
        ],
        "stragglers": stragglers(rates, [each.client for each in parts]) if whole_ns >= LEAST_NS else [],
    }  # fmt: skip


def jain(rates: Sequence[float]) -> float | None:
    """Jain's index of fairness: 1 where all get the same, 1/n where one gets all (Jain, Chiu, Hawe 1984)."""
    squares = sum(rate * rate for rate in rates)
    return sum(rates) ** 2 / (len(rates) * squares) if squares else None


def stragglers(rates: Sequence[float], clients: Sequence[int]) -> list[int]:
    """Clients slower than STRAGGLER of the median client; none among two."""
    if len(rates) < 3:
        return []
    middle = float(np.median(rates))
    return [client for client, rate in zip(clients, rates, strict=True) if rate < STRAGGLER * middle]


def bytes_within(part: Part, begin_ns: int, end_ns: int) -> float:
    """Bytes of a client between two times of this machine's clock; evenly within each interval of its series."""
    start, done = part.start_ns, part.done_ns
    if begin_ns <= start and end_ns >= done:
        return float(part.result["bytes"])
    rows = _rows(part, "series", _SERIES)
    interval = part.result["interval_ns"]
    if rows is None or not len(rows):
        share = max(min(end_ns, done) - max(begin_ns, start), 0) / max(done - start, 1)
        return float(part.result["bytes"]) * share
    edges = start + interval * np.arange(len(rows) + 1, dtype=np.float64)
    edges[-1] = max(min(edges[-1], done), edges[-2] + 1)
    overlap = np.clip(np.minimum(edges[1:], end_ns) - np.maximum(edges[:-1], begin_ns), 0, None)
    moved = (rows[:, 1] + rows[:, 3]).astype(np.float64)
    return float((moved * overlap / np.diff(edges)).sum())


def _own_rate(part: Part) -> float:
    return _rate(part.result["bytes"], part.done_ns - part.start_ns)


def _rate(amount: float, length_ns: int) -> float:
    return amount * 1e9 / length_ns if length_ns > 0 else 0.0


def _worst(found: Sequence[str]) -> str:
    return next((word for word in ("failed", "partial") if word in found), "complete")


def _reason(found: Sequence[str]) -> str:
    return next((word for word in ("error", "interrupted", "stonewall", "duration") if word in found), found[0])


def _statuses(results: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    counts: dict[tuple[str, int], ErrorCount] = {}
    for found in (typed(found, ErrorCount) for each in results for found in each["errors_by_status"]):
        counts.setdefault((found.kind, found.status), ErrorCount(found.kind, found.status, 0)).count += found.count
    return [plain(found) for found in counts.values()]


def _workers(parts: Sequence[Part], start_ns: int) -> list[dict[str, Any]]:
    """Numbered on over the clients, times on this machine's clock."""
    found: list[dict[str, Any]] = []
    for part in parts:
        for worker in part.result["workers"]:
            begun, ended = part.here(worker["start_ns"]), part.here(worker["end_ns"])
            found.append(
                {**worker, "worker": len(found), "client": part.client, "start_ns": begun, "end_ns": max(ended, begun)}
            )
    return found


def _sum_of(results: Sequence[dict[str, Any]], name: str) -> dict[str, int] | None:
    known = [each[name] for each in results if each[name] is not None]
    names = sorted({key for each in known for key in each})
    return {key: sum(each.get(key, 0) for each in known) for key in names} if known else None


def _by_address(results: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Bytes on the wire by the server's address; nothing where it was used at one."""
    counted: dict[str, dict[str, int]] = {}
    for each in results:
        for address, moved in each.get("wire_by_address", {}).items():
            known = counted.setdefault(address, dict.fromkeys(moved, 0))
            counted[address] = {name: known[name] + moved[name] for name in moved}
    return {"wire_by_address": counted} if counted else {}


def _known_sum(results: Sequence[dict[str, Any]], name: str) -> int | None:
    """Each process counts its own; None where one of them does not know."""
    known = [each[name] for each in results]
    return None if any(each is None for each in known) else sum(known)


def _verified(results: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    known = [found for each in results if (found := part_of(each, "verified", Verified))]
    if not known:
        return None
    first_bad = next((each.first_bad for each in known if each.first_bad), None)
    return plain(Verified(sum(each.blocks for each in known), sum(each.bad for each in known), first_bad))


def _direct_proof(results: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    known = [found for each in results if (found := part_of(each, "direct_proof", DirectProof))]
    if len(known) < len(results):
        return None
    cached = max((each.cached_fraction for each in known if isinstance(each.cached_fraction, float)), default=None)
    return plain(DirectProof(all(each.o_direct for each in known), cached, all(each.proven for each in known)))


def _kinds(parts: Sequence[Part], start_ns: int, blobs: list[bytes]) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for name in sorted({kind for each in parts for kind in each.result["kinds"]}):
        those = [(each, each.result["kinds"][name]) for each in parts if name in each.result["kinds"]]
        kind: dict[str, Any] = {key: sum(found[key] for _, found in those) for key in ("ops", "bytes")}
        for summary, histogram in (("latency_ns", "histogram"), ("response_ns", "response_histogram")):
            kind[summary], kind[histogram] = _histogram(those, summary, histogram, blobs)
        kind["latency_series"] = _push(blobs, _latencies(those, start_ns))
        merged[name] = kind
    return merged


def _histogram(
    those: Sequence[tuple[Part, dict[str, Any]]], summary: str, histogram: str, blobs: list[bytes]
) -> tuple[dict[str, Any] | None, int | None]:
    if any(found[histogram] is None for _, found in those):
        return None, None
    together = histograms.merge(histograms.decode(part.blobs[found[histogram]]) for part, found in those)
    blobs.append(together.encode())
    exact = {name: pick(found[summary][name] for _, found in those) for name, pick in (("min", min), ("max", max))}
    return {**together.summary(), **exact}, len(blobs) - 1


def _latencies(those: Sequence[tuple[Part, dict[str, Any]]], start_ns: int) -> NDArray[np.uint32] | None:
    """Rows of (interval, bucket, operations), summed; intervals moved by whole ones."""
    tables = []
    for part, found in those:
        if found["latency_series"] is None:
            continue
        rows = np.frombuffer(part.blobs[found["latency_series"]], "<u4").reshape(-1, 3).astype(np.int64)
        rows[:, 0] += round((part.start_ns - start_ns) / part.result["interval_ns"])
        tables.append(rows)
    if not tables:
        return None
    rows = np.concatenate(tables)
    keys, where = np.unique(rows[:, :2], axis=0, return_inverse=True)
    counts = np.bincount(where.reshape(-1), weights=rows[:, 2], minlength=len(keys))
    return np.column_stack([keys, counts.astype(np.int64)]).astype("<u4")


def _rows(part: Part, name: str, columns: int) -> Series | None:
    at = part.result.get(name)
    return None if at is None else np.frombuffer(part.blobs[at], "<i8").reshape(-1, columns)


def _together(parts: Sequence[Part], name: str, columns: int, start_ns: int) -> Series | None:
    """The clients' series on one axis: a row that lies between two intervals is divided over them."""
    found = [(part, rows) for part in parts if (rows := _rows(part, name, columns)) is not None]
    if not found:
        return None
    shifts = [(part.start_ns - start_ns) / part.result["interval_ns"] for part, _ in found]
    length = max(len(rows) + int(shift) + 1 for (_, rows), shift in zip(found, shifts, strict=True))
    all_rows = np.zeros((length, columns), np.int64)
    for (_, rows), shift in zip(found, shifts, strict=True):
        whole, part_of = int(shift), shift - int(shift)
        later = np.rint(rows * part_of).astype(np.int64)
        earlier = rows - later
        if columns == _SERIES:
            earlier[:, _MAX_LATENCY] = later[:, _MAX_LATENCY] = 0
            both = all_rows[whole : whole + len(rows), _MAX_LATENCY]
            np.maximum(both, rows[:, _MAX_LATENCY], out=both)
        all_rows[whole : whole + len(rows)] += earlier
        all_rows[whole + 1 : whole + 1 + len(rows)] += later
    used = [int(each) + 1 for each in np.flatnonzero(all_rows.any(axis=1))[-1:]]
    return all_rows[: max([*used, *(len(rows) for _, rows in found)])]


def _logs(
    parts: Sequence[Part], name: str, time_column: int | None, worker_column: int, start_ns: int
) -> Series | None:
    tables, workers = [], 0
    for part in parts:
        rows = _rows(part, name, 4)
        if rows is not None:
            rows = rows.copy()
            rows[:, worker_column] += workers
            if time_column is not None:
                rows[:, time_column] += part.start_ns - start_ns
            tables.append(rows)
        workers += len(part.result["workers"])
    return np.concatenate(tables) if tables else None


def _push(blobs: list[bytes], rows: NDArray[Any] | None) -> int | None:
    if rows is None:
        return None
    blobs.append(np.ascontiguousarray(rows).tobytes())
    return len(blobs) - 1
