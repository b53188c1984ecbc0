"""`naslab reference fsx`: what Amazon publishes about one FSx file system, and a measured run beside it."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from naslab.analysis import fsx as model
from naslab.errors import UsageError
from naslab.exchange.references import load
from naslab.results.describe import part_of
from naslab.results.parts.sustained import Sustained
from naslab.results.store import Store
from naslab.units import duration_text, percent_text, rate_text, size_label

_WHICH = {"the guide is known": "--year", "no tier": "--tier", "storage is": "--storage"}
"""Beginnings of the model's refusals, and the options they are about; the others are about --tib."""
WIDTH = 26


def print_model(
    tier: int, storage: str, tib: float, year: int, run: str, store: Path | None, as_json: bool
) -> int:  # fmt: skip
    """Prints the model, with --run the measured rates beside it. Raises UsageError, UnknownRunError."""
    limits = _limits(tier, storage, tib, year)
    measured = measured_rates(dict(load(Store(store), run).document), run) if run else None
    if as_json:
        found = measured and dataclasses.asdict(measured)
        json.dump({"schema": 1, "model": as_document(limits), "measured": found}, sys.stdout)
        print()
    else:
        print("\n".join(lines(limits, measured)))
    return 0


def _limits(tier: int, storage: str, tib: float, year: int) -> model.FsxLimits:
    given = {"--tier": tier, "--storage": storage, "--tib": f"{tib:g}", "--year": year}
    try:
        return model.limits(tier, storage, tib, year)  # type: ignore[arg-type]
    except UsageError as error:
        option = next((flag for start, flag in _WHICH.items() if str(error).startswith(start)), "--tib")
        raise UsageError(f"{option} {given[option]}: {error}") from None


def as_document(limits: model.FsxLimits) -> dict[str, Any]:
    """The model's fields, with the bucket's times."""
    found = dataclasses.asdict(limits)
    if limits.bucket is not None:
        found["bucket"] |= {"empty_ns": limits.bucket.empty_ns, "refill_ns": limits.bucket.refill_ns}
    return found


@dataclasses.dataclass(frozen=True)
class Measured:
    """What a run measured, under the model's names; None where it did not."""

    run_id: str
    command: str
    network_bytes_per_s: float | None
    baseline_bytes_per_s: float | None
    burst_bytes_per_s: float | None
    bucket_bytes: float | None
    refill_ns: int | None
    best_second_bytes_per_s: float | None
    highest_bytes_per_s: float


def measured_rates(document: Mapping[str, Any], reference: str) -> Measured:
    """Of a stored run. Raises UsageError for one without data.

    Baseline, burst and bucket are those of `naslab sustained`; of any other run only the highest rate is told.
    """
    part = part_of(document, "sustained", Sustained)
    bucket = part.burst.bucket if part and part.burst else None
    regimes = part.regimes if part else []
    last = next(reversed([each for each in regimes if each.kind == "all"] or regimes), None)
    cells = [
        c for c in document["cells"]
        if c.get("throughput_bytes_per_s") and not c["errors"] and c.get("workload") not in ("fill", "probe")
    ]  # fmt: skip
    published: dict[str, float] = {c["workload"]: c["throughput_bytes_per_s"] for c in cells if c.get("workload")}
    best = max((c["throughput_bytes_per_s"] for c in cells), default=None)
    if best is None:
        raise UsageError(f"--run {reference}: the run moved no data; name a run of `naslab sustained`")
    baseline, burst = (
        (bucket.baseline_bytes_per_s.value, bucket.burst_bytes_per_s.value) if bucket
        else (last.baseline_bytes_per_s, last.burst_bytes_per_s) if last else (None, None)
    )  # fmt: skip
    network = part.cached.network_only_bytes_per_s if part and part.cached else None
    return Measured(
        document["run_id"], document["command"], network or published.get("cached read"),
        baseline or published.get("baseline write"), burst or published.get("burst write"),
        bucket.size_bytes.value if bucket else None, bucket.refill_ns if bucket else None,
        last.best_second_bytes_per_s if last else None, best,
    )  # fmt: skip


def lines(limits: model.FsxLimits, measured: Measured | None) -> list[str]:
    """The model in words, line by line."""
    head = f"FSx for Windows, {limits.tier_mb_per_s} MB/s, {limits.tib:g} TiB of {limits.storage.upper()}"
    found = [f"{head}, as Amazon published it in {limits.year}", ""]
    parts = (
        ("Network, cached reads", limits.network), ("Server's disk throughput", limits.server_disk),
        ("Volume", limits.volume), ("Disk, the lower of both", limits.disk),
    )  # fmt: skip
    found += [f"{name:<{WIDTH}}  {_rates(rates)}" for name, rates in parts]
    found.append(f"{'Memory for caching':<{WIDTH}}  {size_label(limits.ram_bytes)}")
    if limits.disk_iops is not None:
        found.append(f"{'Disk operations':<{WIDTH}}  {_iops(limits.disk_iops)}")
    else:
        found.append(f"{'Volume operations':<{WIDTH}}  {_iops(limits.volume_iops)}")
    if limits.bucket is not None:
        bucket = limits.bucket
        again = duration_text(bucket.refill_ns)
        found.append(
            f"{'Burst credit of the volume':<{WIDTH}}  {size_label(bucket.size_bytes)}, empty after "
            f"{duration_text(bucket.empty_ns)} at its full burst, full again after {again} idle"
        )
    if limits.burst_lasts_ns is not None:
        found.append(f"{'Disk burst lasts':<{WIDTH}}  {duration_text(limits.burst_lasts_ns)} from full")
    return found + (_beside(limits, measured) if measured else [])


def _rates(rates: model.Rates) -> str:
    low, high = rates.baseline_bytes_per_s, rates.burst_bytes_per_s
    return rate_text(low) + (f", burst {rate_text(high)}" if high > low else "")


def _iops(pair: tuple[int, int]) -> str:
    return f"{pair[0]:,} IOPS" + (f", burst {pair[1]:,}" if pair[1] > pair[0] else "")


def _beside(limits: model.FsxLimits, measured: Measured) -> list[str]:
    """Measured values, each with its share of the published one."""
    rows = (
        ("Network", measured.network_bytes_per_s, limits.network.burst_bytes_per_s, rate_text),
        ("Baseline", measured.baseline_bytes_per_s, limits.disk.baseline_bytes_per_s, rate_text),
        ("Burst", measured.burst_bytes_per_s, limits.disk.burst_bytes_per_s, rate_text),
        ("Burst credit", measured.bucket_bytes, limits.bucket and limits.bucket.size_bytes, _size),
        ("Refill", measured.refill_ns, limits.bucket and limits.bucket.refill_ns, duration_text),
    )
    found = ["", f"Run {measured.run_id} (naslab {measured.command})"]
    for name, value, published, text in rows:
        if value is not None:
            share = f", {percent_text(value / published)} of the published {text(published)}" if published else ""
            found.append(f"{name:<{WIDTH}}  {text(value)}{share}")
    if len(found) == 2:
        highest = rate_text(measured.highest_bytes_per_s)
        found.append(f"{'Highest rate':<{WIDTH}}  {highest}; `naslab burst` measures burst and baseline")
    return found


def _size(value: float) -> str:
    return size_label(int(value))
