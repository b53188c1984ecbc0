"""Runs as fio's JSON (`--output-format=json+` of fio 3): a job a cell, so that readers of fio's results read ours.

What naslab does not measure (context switches, page faults, queue depths as they were, submission latency) is left
out, or is what fio writes when it is switched off (`slat_ns` with N = 0). What a run does not tell is left out, too.
naslab's own names are in each job under `naslab`. Source: fio's output as it is, and stat.c of fio 3.33.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from naslab import __version__
from naslab.errors import UsageError
from naslab.results.cell import loaded_ns
from naslab.units import size_text

if TYPE_CHECKING:
    from naslab.results.histogram import Histogram
    from naslab.results.run import Run

FIO_VERSION = "fio-3.33"
"""Whose fields these are; readers ask for it."""
PERCENTILES = (1, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 95, 99, 99.5, 99.9, 99.95, 99.99)
_KINDS = ("read", "write")
_LATENCY_CLASSES: tuple[tuple[str, int, tuple[int, ...], str | None], ...] = (
    ("latency_ns", 1, (2, 4, 10, 20, 50, 100, 250, 500, 750, 1000), None),
    ("latency_us", 1000, (2, 4, 10, 20, 50, 100, 250, 500, 750, 1000), None),
    ("latency_ms", 1_000_000, (2, 4, 10, 20, 50, 100, 250, 500, 750, 1000, 2000), ">=2000"),
)
_NAMED = (
    "op", "workload", "file_bytes", "record_bytes", "queue_depth", "workers", "block", "durability", "cache_state",
    "regime", "status", "predicted", "durable_bytes_per_s", "wire_bytes",
)  # fmt: skip


def write_fio(runs: Sequence[Run], path: Path, say: Any) -> None:
    """Writes one document with a job for each cell that reads or writes. say: gets a sentence about those left out.

    Raises UsageError when no cell reads or writes, StoreError for damaged raw data, OSError.
    """
    cells = [(run, cell) for run in runs for cell in run.cells]
    jobs = [(run, cell) for run, cell in cells if _kinds(cell)]
    if not jobs:
        raise UsageError("no cell of this run reads or writes data, and fio's JSON has nothing else; write .csv")
    if left_out := len(cells) - len(jobs):
        say(
            f"{left_out} of {len(cells)} cells are left out: fio's JSON has no place for cells without reads and writes"
        )
    with path.open("w", encoding="utf-8", newline="\n") as file:
        head = json.dumps(_head(runs), indent=1, ensure_ascii=True)
        file.write(head.removesuffix("\n}") + ',\n "jobs": [')
        for at, (run, cell) in enumerate(jobs):
            text = json.dumps(job(run, cell, at), allow_nan=False)
            file.write(("," if at else "") + "\n  " + text)
        file.write('\n ],\n "disk_util": []\n}\n')


def _head(runs: Sequence[Run]) -> dict[str, Any]:
    ended_ns = max(run.document.get("end_wall_ns") or run.document.get("start_wall_ns") or 0 for run in runs)
    when = datetime.fromtimestamp(ended_ns // 10**9, tz=UTC)
    return {
        "fio version": FIO_VERSION, "timestamp": ended_ns // 10**9, "timestamp_ms": ended_ns // 10**6,
        "time": when.strftime("%a %b %e %H:%M:%S %Y"), "naslab version": __version__,
    }  # fmt: skip


def _kinds(cell: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """What the cell reads and writes; of a cell that came without kinds, all of it, by the operation's name."""
    found = {kind: part for kind, part in (cell.get("kinds") or {}).items() if kind in _KINDS}
    if found or cell.get("kinds") or cell.get("bytes") == 0:
        return found
    op = str(cell.get("op"))
    if not any(word in op for word in _KINDS):
        return {}
    kind = "write" if "write" in op else "read"
    return {kind: {"ops": cell.get("ops"), "bytes": cell.get("bytes"), "latency_ns": cell.get("latency_ns")}}


def job(run: Run, cell: Mapping[str, Any], group: int) -> dict[str, Any]:
    """One cell as fio's job. Rates of each direction are by the cell's timed window, as fio's are by its runtime."""
    duration_ns = cell.get("duration_ns")
    made: dict[str, Any] = {
        "jobname": _name(cell), "groupid": group, "error": _error(cell), "eta": 0,
        "elapsed": math.ceil((cell.get("window_ns") or duration_ns or 0) / 1e9),
        "job options": _options(run, cell),
    }  # fmt: skip
    kinds = _kinds(cell)
    for kind in (*_KINDS, "trim"):
        made[kind] = _direction(run, cell, kind, kinds[kind]) if kind in kinds else _nothing()
    made["sync"] = _flushes(run, cell)
    made["job_runtime"] = None if duration_ns is None else round(duration_ns / 1e6)
    window_ns = cell.get("window_ns")
    for name, field in (("usr_cpu", "cpu_user_ns"), ("sys_cpu", "cpu_system_ns")):
        made[name] = 100 * cell[field] / window_ns if cell.get(field) is not None and window_ns else None
    made |= _shares(run, cell)
    told = {name: cell.get(name) for name in _NAMED if cell.get(name) is not None}
    made["naslab"] = {"run_id": run.run_id, "cell": cell["id"], "target": run.document["target"].get("url"), **told}
    return _known(made)


def _flushes(run: Run, cell: Mapping[str, Any]) -> dict[str, Any]:
    flush = (cell.get("kinds") or {}).get("flush")
    if flush is None:
        return {"total_ios": 0, "lat_ns": _no_times()}
    times = _times(flush["latency_ns"], flush["ops"], _histogram(run, cell, "latency:flush"))
    return {"total_ios": flush["ops"], "lat_ns": times}


def _known(values: Mapping[str, Any]) -> dict[str, Any]:
    """Without what nobody told, at any depth."""
    return {
        name: _known(value) if isinstance(value, Mapping) else value for name, value in values.items()
        if value is not None and value != {}
    }  # fmt: skip


def _name(cell: Mapping[str, Any]) -> str:
    sizes = [size_text(cell[name]) for name in ("file_bytes", "record_bytes") if cell.get(name)]
    return "-".join([str(cell.get("workload") or cell["op"]), *sizes, f"cell{cell['id']}"])


def _error(cell: Mapping[str, Any]) -> int:
    counts = cell.get("errors_by_status") or []
    if counts:
        return abs(int(counts[0]["status"])) or 5
    return 5 if cell.get("errors") or cell["status"] == "failed" else 0  # EIO


def _options(run: Run, cell: Mapping[str, Any]) -> dict[str, str | None]:
    write = cell.get("write_fraction")
    kinds = _kinds(cell)
    mixed = len(kinds) > 1
    order = "rand" if cell.get("pattern") in ("random", "permutation") or "random" in cell["op"] else ""
    flush = cell.get("durability")
    return {
        "name": _name(cell), "ioengine": run.document["target"].get("protocol") or None,
        "rw": order + ("rw" if mixed else next(iter(kinds))),
        "rwmixwrite": str(round(100 * write)) if mixed and write is not None else None,
        "bs": str(cell["record_bytes"]) if cell.get("record_bytes") else None,
        "size": str(cell["file_bytes"]) if cell.get("file_bytes") else None,
        "iodepth": str(cell["queue_depth"]) if cell.get("queue_depth") else None,
        "numjobs": str(cell["workers"]) if cell.get("workers") else None,
        "group_reporting": "1", "direct": str(int(cell["direct"])) if cell.get("direct") is not None else None,
        "end_fsync": "1" if flush == "end" and "write" in kinds else None,
        "fsync": "1" if flush == "each" and "write" in kinds else None,
        "rate_iops": f"{cell['offered_per_s']:.0f}" if cell.get("offered_per_s") else None,
    }  # fmt: skip


def _direction(run: Run, cell: Mapping[str, Any], kind: str, part: Mapping[str, Any]) -> dict[str, Any]:
    moved, ops, duration_ns = part.get("bytes"), part.get("ops"), cell.get("duration_ns")
    rate, iops = (None if amount is None or not duration_ns else amount * 1e9 / duration_ns for amount in (moved, ops))
    if moved is None or rate is None:  # a source that tells the rate alone
        rate, iops = cell.get("throughput_bytes_per_s"), iops if iops is not None else cell.get("iops")
    service = _histogram(run, cell, f"latency:{kind}")
    response = _histogram(run, cell, f"response:{kind}")
    whole = part.get("response_ns") or part.get("latency_ns")
    return {
        "io_bytes": moved, "io_kbytes": None if moved is None else moved >> 10,
        "bw_bytes": None if rate is None else round(rate), "bw": None if rate is None else int(rate) >> 10,
        "iops": iops, "runtime": None if duration_ns is None else round(duration_ns / 1e6),
        "total_ios": ops, **({} if ops is None else {"short_ios": 0, "drop_ios": 0, "slat_ns": _no_times()}),
        "clat_ns": {**_times(part.get("latency_ns"), ops, service), **_distribution(service)},
        "lat_ns": _times(whole, ops, response or service),
        **_over_time(run, cell, kind),
    }  # fmt: skip


def _nothing() -> dict[str, Any]:
    """A direction in which nothing moved: fio's zeros."""
    rates = {f"{name}_{part}": 0 for name in ("bw", "iops") for part in ("min", "max", "mean", "samples")}
    return {
        "io_bytes": 0, "io_kbytes": 0, "bw_bytes": 0, "bw": 0, "iops": 0.0, "runtime": 0, "total_ios": 0,
        "short_ios": 0, "drop_ios": 0, "slat_ns": _no_times(), "clat_ns": _no_times(), "lat_ns": _no_times(),
        **rates, "bw_agg": 0.0, "bw_dev": 0.0, "iops_stddev": 0.0,
    }  # fmt: skip


def _no_times() -> dict[str, Any]:
    return {"min": 0, "max": 0, "mean": 0.0, "stddev": 0.0, "N": 0}


def _times(latency: Mapping[str, Any] | None, ops: int | None, histogram: Histogram | None = None) -> dict[str, Any]:
    latency = latency or {}
    if all(latency.get(name) is None for name in ("min", "mean", "max")):
        return {}
    found = {name: latency.get(name) for name in ("min", "max", "mean")}
    return {**found, "stddev": _stddev(histogram), "N": histogram.total if histogram else ops}


def _stddev(histogram: Histogram | None) -> float | None:
    """Of the middles of the buckets, nanoseconds; they are at most 0.1 % wide."""
    import numpy as np

    if histogram is None or not histogram.total:
        return None
    middles = (histogram.lower_ns + histogram.values_ns) / 2
    mean = np.average(middles, weights=histogram.counts)
    return float(np.sqrt(np.average((middles - mean) ** 2, weights=histogram.counts)))


def _histogram(run: Run, cell: Mapping[str, Any], name: str) -> Histogram | None:
    if name not in run.blob_names(cell):
        return None
    found = run.histogram_of(cell, name)
    return found if found.total else None


def _distribution(histogram: Histogram | None) -> dict[str, Any]:
    """Percentiles under fio's names, and the counts by the highest value of each bucket."""
    if histogram is None:
        return {}
    values = histogram.quantiles([p / 100 for p in PERCENTILES])
    return {
        "percentile": {f"{p:.6f}": int(value) for p, value in zip(PERCENTILES, values, strict=True)},
        "bins": {
            str(value): count
            for value, count in zip(histogram.values_ns.tolist(), histogram.counts.tolist(), strict=True)
        },
    }


def _over_time(run: Run, cell: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """fio's samples of rate: ours are the whole intervals of the load; zeros, as fio's, in a run shorter than one."""
    import numpy as np

    rows = run.series(cell)
    if not len(rows):
        return {}
    interval_s = (cell.get("interval_ns") or 0) / 1e9
    whole = rows[: int(loaded_ns(cell) / 1e9 / interval_s)] if interval_s and cell.get("window_ns") else rows[:0]
    made: dict[str, Any] = {}
    for name, column, unit in (("bw", f"{kind}_bytes", 1024), ("iops", f"{kind}_ops", 1)):
        rates = whole[column] / interval_s / unit if len(whole) else np.zeros(1)
        spread = float(np.std(rates, ddof=1)) if len(rates) > 1 else 0.0
        made |= {
            f"{name}_min": int(rates.min()), f"{name}_max": int(rates.max()), f"{name}_mean": float(rates.mean()),
            f"{name}_{'dev' if name == 'bw' else 'stddev'}": spread, f"{name}_samples": len(whole),
        }  # fmt: skip
    return {**made, "bw_agg": 100.0 if len(whole) else 0.0}


def _shares(run: Run, cell: Mapping[str, Any]) -> dict[str, Any]:
    """Percent of the operations in fio's classes of latency, of reads and writes together; {} without histograms."""
    import numpy as np

    found = [h for kind in _KINDS if (h := _histogram(run, cell, f"latency:{kind}"))]
    total = sum(h.total for h in found)
    if not total:
        return {}
    made: dict[str, dict[str, float]] = {}
    below = 0.0
    for name, unit, edges, rest in _LATENCY_CLASSES:
        made[name] = {}
        for edge in edges:
            so_far = sum(int(h.counts[: np.searchsorted(h.values_ns, edge * unit)].sum()) for h in found)
            made[name][str(edge)] = 100 * max(0.0, so_far - below) / total
            below = max(below, so_far)
        if rest:
            made[name][rest] = 100 * (total - below) / total
    return made
