"""The main job, first form: a look at speed, a small sweep fitted to it, a few seconds sustained.

Everything fits two minutes whatever the server's speed: the first stage measures for at most three
seconds and the sizes of the others follow from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from naslab.plans.sweep import DEFAULT_OPS, SweepOptions, plan_cells
from naslab.spec import CellSpec

PROBE_FILE, SUSTAINED_FILE = "naslab.probe", "naslab.sustained"
SECOND_NS = 1_000_000_000
PROBE_BYTES = 64 << 20
SWEEP_SECONDS = 20.0
SUSTAINED_SECONDS = 4
MAX_SUSTAINED_BYTES = 1 << 30
SWEEP_RECORDS = (4 << 10, 64 << 10, 1 << 20)
MIN_FILE_BYTES, MAX_FILE_BYTES = 1 << 20, 256 << 20


def probe_cells(seed: int, direct: bool) -> list[CellSpec]:
    """Stage 1: how fast does writing go, flush included? At most three seconds of writing."""
    cell = CellSpec(
        op="write", workload="probe", file_bytes=PROBE_BYTES, record_bytes=1 << 20, files=[PROBE_FILE],
        write_fraction=1.0, create="if_missing", remove_before=True, duration_ns=3 * SECOND_NS,
        stop_bytes=PROBE_BYTES, seed=seed, direct=direct, cache_state="warm",
    )  # fmt: skip
    return [cell]


def durable_rate(cells: list[dict[str, Any]]) -> float:
    """Bytes per second of the probe, counting its flush; at least 1 MB/s."""
    rates = [c["durable_bytes_per_s"] or c["throughput_bytes_per_s"] for c in cells if c["workload"] == "probe"]
    return max(min(rates, default=1e6), 1e6)


def sweep_cells(
    rate_bytes_per_s: float, caps: Mapping[str, Any], free_bytes: int, *, seed: int, direct: bool
) -> list[CellSpec]:
    """Stage 2: three file sizes, a factor of 16 apart, that take about SWEEP_SECONDS at the measured rate."""
    passes = len(DEFAULT_OPS) * len(SWEEP_RECORDS) * (1 + 1 / 16 + 1 / 256)
    fitting = min(rate_bytes_per_s * SWEEP_SECONDS / passes, free_bytes / 4, MAX_FILE_BYTES)
    largest = max(1 << (int(fitting).bit_length() - 1) if fitting >= 1 else 1, MIN_FILE_BYTES)
    sizes = sorted({max(largest >> shift, 64 << 10) for shift in (8, 4, 0)})
    options = SweepOptions(
        sizes, [r for r in SWEEP_RECORDS if r <= largest], list(DEFAULT_OPS), seed=seed, direct=direct
    )
    return plan_cells(options, caps)


def sustained_cells(
    rate_bytes_per_s: float, caps: Mapping[str, Any], free_bytes: int, *, seed: int, direct: bool
) -> list[CellSpec]:
    """Stage 3: sequential write, sequential read and 4 KiB random read, each for some seconds."""
    fitting = min(rate_bytes_per_s * SUSTAINED_SECONDS, MAX_SUSTAINED_BYTES, free_bytes / 4)
    file_bytes = max(int(fitting) >> 20, 16) << 20
    cold = bool(caps["evict"])
    common: dict[str, Any] = {
        "file_bytes": file_bytes, "files": [SUSTAINED_FILE], "seed": seed, "direct": direct,
        "interval_ns": SECOND_NS // 10,
    }  # fmt: skip
    timed: dict[str, Any] = {
        "duration_ns": SUSTAINED_SECONDS * SECOND_NS,
        "cold": cold,
        "cache_state": "cold" if cold else "unknown",
    }
    return [
        CellSpec(
            op="write", workload="sustained", record_bytes=1 << 20, write_fraction=1.0,
            create="if_missing", remove_before=True, cache_state="warm", **common,
        ),
        CellSpec(op="read", workload="sustained", record_bytes=1 << 20, **timed, **common),
        CellSpec(
            op="random_read", workload="sustained", record_bytes=4096, pattern="random",
            **timed, **common,
        ),
    ]  # fmt: skip
