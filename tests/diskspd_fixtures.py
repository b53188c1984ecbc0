"""Plans and run documents of `naslab diskspd` made without an engine: the same figures every time."""

from __future__ import annotations

import dataclasses
import random
from pathlib import Path
from typing import Any

import numpy as np

from naslab.commands.diskspd.args import parse
from naslab.commands.diskspd.figures import Figures, figures_of
from naslab.commands.diskspd.machine import Machine, Processor
from naslab.commands.diskspd.places import one_root
from naslab.commands.diskspd.plan import Plan, Setting, make_plan, refuse
from naslab.commands.diskspd.processors import Usage
from naslab.results import Run, cell_blobs, cell_document, new_document
from naslab.results.histogram import Histogram, from_values
from naslab.results.run import MemoryBlobs
from naslab.spec import CellSpec

MACHINE = Machine("client.example", "2026/11/20 18:40:00 UTC", tuple(Processor(n, n // 2, 0, 0) for n in range(4)))
PROCESSORS = tuple(Usage(n, 10.0 * n, 5.0, 95.0 - 10 * n) for n in range(4))
"""What those of MACHINE did: 20 % on average, 15 % of it user."""
START_WALL_NS = 1_795_200_000 * 10**9
CAPS = {"max_depth": 1024, "direct": True, "sync_writes": True, "mmap": True, "alignment_offset_bytes": 1}


def planned(line: str, sizes: dict[str, int] | None = None, protocol: str = "smb", **more: Any) -> Plan:
    """The plan of a command line on files of these sizes. caps, root: of the target."""
    request = parse(line.split())
    refuse(request.profile)
    targets = list(dict.fromkeys(target.path for span in request.profile.spans for target in span.targets))
    _, names = one_root(targets)
    caps = {**CAPS, **more.get("caps", {})}
    plan = make_plan(request.profile, Setting(protocol, names, sizes or {}, caps, more.get("root", Path("/srv"))))
    plan.notes = dict.fromkeys([*request.notes, *plan.notes])
    return plan


def made_run(plan: Plan, skip: tuple[int, ...] = ()) -> Run:
    """A run that carried the plan out; without the cells `skip`."""
    document: dict[str, Any] = new_document(  # type: ignore[assignment]
        "20261120-184000-d15k", "diskspd", {"url": "smb://nas.example/share", "protocol": "smb"},
        environment={"client": {"host": MACHINE.name, "cpus": 4}}, seed=0, argv=["diskspd"],
        start_wall_ns=START_WALL_NS,
    )  # fmt: skip
    blobs = {}
    for cell in plan.cells:
        if cell.id not in skip:
            result, raw = _result(cell, random.Random(cell.id))
            document["cells"].append(cell_document(dataclasses.asdict(cell), result, raw))
            blobs[cell.id] = cell_blobs(result, raw)
    return Run(document, MemoryBlobs(blobs))  # type: ignore[arg-type]


def made_figures(plan: Plan, skip: tuple[int, ...] = ()) -> tuple[Run, list[Figures]]:
    """Such a run and its figures."""
    run = made_run(plan, skip)
    return run, [figures_of(run, span, 4, PROCESSORS) for span in plan.spans]


def _result(cell: CellSpec, rng: random.Random) -> tuple[dict[str, Any], list[bytes]]:
    """What the engine would give: each worker does 1000 operations a second of 1 to 9 ms."""
    duration_ns = cell.duration_ns or 1_000_000_000
    ops = duration_ns // 1_000_000
    writes = round(ops * cell.write_fraction)
    raw: list[bytes] = []
    found: dict[str, list[Histogram]] = {"read": [], "write": []}
    workers = []
    for worker in range(cell.workers):
        kinds = {}
        for kind, count in (("read", ops - writes), ("write", writes)):
            if count:
                histogram = from_values([rng.randrange(1_000_000, 9_000_000) for _ in range(100)], [count // 100] * 100)
                found[kind].append(histogram)
                kinds[kind] = {**_worker_kind(histogram, cell.record_bytes), "iops_stddev": 100.0 * (worker + 1)}
        workers.append({
            "worker": worker, "bytes": ops * cell.record_bytes, "ops": ops, "start_ns": 0, "end_ns": duration_ns,
            "duration_ns": duration_ns, "kinds": kinds,
        })  # fmt: skip
    intervals = duration_ns // cell.interval_ns
    kinds = {kind: _kind(parts, cell.record_bytes, intervals, raw) for kind, parts in found.items() if parts}
    total = sum(kind["ops"] for kind in kinds.values())
    raw.append(_series(cell, kinds, duration_ns))
    result = {
        "id": cell.id, "op": cell.op, "status": "complete", "stop_reason": "duration", "start_ns": 0,
        "end_ns": duration_ns, "start_wall_ns": START_WALL_NS, "window_ns": duration_ns, "duration_ns": duration_ns,
        "acknowledged_ns": duration_ns, "bytes": total * cell.record_bytes, "ops": total, "kinds": kinds,
        "workers": workers, "cpu_user_ns": duration_ns // 10, "cpu_system_ns": duration_ns // 5,
        "interval_ns": cell.interval_ns, "series": len(raw) - 1,
    }  # fmt: skip
    return result, raw


def _worker_kind(histogram: Histogram, record_bytes: int) -> dict[str, Any]:
    mean = float(np.average(histogram.values_ns, weights=histogram.counts))
    deviation = float(np.sqrt(np.average((histogram.values_ns - mean) ** 2, weights=histogram.counts)))
    ops = histogram.total
    return {"ops": ops, "bytes": ops * record_bytes, "latency_mean_ns": mean, "latency_stddev_ns": deviation}


def _kind(parts: list[Histogram], record_bytes: int, intervals: int, raw: list[bytes]) -> dict[str, Any]:
    """Of its latencies by interval, a third lies between 1.048576 and 1.31 ms and the rest just above 8.39 ms."""
    values = np.concatenate([part.values_ns for part in parts])
    merged = from_values(values, np.concatenate([part.counts for part in parts]))
    raw.append(merged.encode())
    rows = [(at, bucket, count) for at in range(intervals) for bucket, count in ((80, 10), (92, 20))]
    raw.append(np.array(rows, dtype="<u4").tobytes())
    exact = {**merged.summary(), "min": int(values.min()), "max": int(values.max())}
    return {
        "ops": merged.total, "bytes": merged.total * record_bytes, "latency_ns": exact, "histogram": len(raw) - 2,
        "latency_series": len(raw) - 1, "response_ns": None, "response_histogram": None,
    }  # fmt: skip


def _series(cell: CellSpec, kinds: dict[str, Any], duration_ns: int) -> bytes:
    """Intervals that rise and fall, and one begun after the end, as a last completion may leave."""
    whole = duration_ns // cell.interval_ns
    rows = np.zeros((whole + 1, 7), dtype="<i8")
    for column, kind in ((0, "read"), (2, "write")):
        each = kinds.get(kind, {}).get("ops", 0) // max(whole, 1)
        rows[:whole, column] = [each + (step % 3 - 1) * each // 10 for step in range(whole)]
        rows[:, column + 1] = rows[:, column] * cell.record_bytes
    rows[:whole, 6] = 9_000_000
    rows[whole, 0] = 1
    return rows.tobytes()
