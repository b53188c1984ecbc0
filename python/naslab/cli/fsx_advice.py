"""`naslab reference fsx` without --tier: the file system that would carry the load of a run or a trace."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from naslab.analysis import fsx_advice as model
from naslab.analysis.fsx import YEARS
from naslab.analysis.fsx_advice import LONGEST_S, Load, Option, Prices, Shortfall
from naslab.errors import UsageError
from naslab.exchange.references import load
from naslab.results.store import Store
from naslab.units import amount_text, duration_text, percent_text, rate_text

if TYPE_CHECKING:
    from naslab.results.run import Run

NS_PER_S = 1_000_000_000
PAGE_BYTES = 1 << 20
"""Reads of a trace are told from repeated ones by pages of this size."""
PRICES = ("--price-hdd-gib", "--price-ssd-gib", "--price-mb-s")


class _Seconds:
    """Bytes and operations by second, as they come in."""

    def __init__(self, what: str) -> None:
        self.what, self.rows = what, np.zeros((4, 0))

    def add(self, row: int, at: Any, amounts: Any) -> None:
        """Amounts at seconds since the beginning. Raises UsageError for a load of more than a month."""
        at = np.asarray(at, np.int64).reshape(-1)
        if not len(at):
            return
        if at.max() >= LONGEST_S:
            raise UsageError(f"{self.what}: it lasts longer than 31 days; give a part of it")
        if (more := int(at.max()) + 1 - self.rows.shape[1]) > 0:
            self.rows = np.pad(self.rows, ((0, 0), (0, max(more, self.rows.shape[1]))))
        np.add.at(self.rows[row], at, amounts)

    def load(self, set_bytes: float, stored_bytes: float) -> Load:
        """What was added. Raises UsageError for nothing."""
        used = np.flatnonzero(self.rows.any(0))
        if not len(used):
            raise UsageError(f"{self.what}: it moved no data; name a run or trace that reads or writes")
        read, again, written, ops = self.rows[:, : used[-1] + 1]
        return Load(read, again, written, ops, set_bytes, stored_bytes)


READ, AGAIN, WRITTEN, OPS = range(4)


def load_of_run(run: Run, reference: str) -> Load:
    """The load of a run, second by second. Raises UsageError for one without times, as published ones are."""
    found = _Seconds(f"--run {reference}")
    moved = [cell for cell in run.cells if cell.get("bytes") or cell.get("throughput_bytes_per_s")]
    if moved and not all(cell.get("bytes") and cell.get("end_ns") for cell in moved):
        raise UsageError(f"{found.what}: its numbers have no times; name a run that naslab measured, or a trace")
    known: set[int] = set()
    largest = read = 0
    for cell in moved:
        size = int(cell.get("file_bytes") or cell["bytes"])
        largest = max(largest, size)
        for kind in ("read", "write"):
            at, amounts, ops = _by_second(run, cell, kind)
            found.add(OPS, at, ops)
            found.add(READ if kind == "read" else WRITTEN, at, amounts)
            if kind == "read" and amounts.sum():
                read = max(read, size)
                first = 0 if size in known else size
                so_far = np.cumsum(amounts)
                found.add(AGAIN, at, np.minimum(amounts, np.maximum(so_far - first, 0)))
        known.add(size)
    return found.load(float(read), float(largest))


def _by_second(run: Run, cell: Mapping[str, Any], kind: str) -> tuple[Any, Any, Any]:
    """(seconds, bytes, operations) of a cell's reads or writes; evenly over its time where it has no series."""
    from naslab.analysis.sustained import series_of_cell

    part = (cell.get("kinds") or {}).get(kind) or {}
    if not part.get("bytes"):
        return np.zeros(0, np.int64), np.zeros(0), np.zeros(0)
    if "series" in run.blob_names(cell) and cell.get("interval_ns"):
        series = series_of_cell(run, cell, kind)  # type: ignore[arg-type]
        if len(series) and series.moved_bytes.sum():
            starts = cell["start_ns"] + np.arange(len(series)) * series.bin_ns
            return starts // NS_PER_S, series.moved_bytes, series.ops
    first, last = cell["start_ns"] // NS_PER_S, max(cell["end_ns"] - 1, cell["start_ns"]) // NS_PER_S
    at = np.arange(first, last + 1)
    return at, np.full(len(at), part["bytes"] / len(at)), np.full(len(at), (part.get("ops") or 0) / len(at))


def load_of_trace(path: Path) -> Load:
    """The load of a trace of naslab's format. Raises TraceError, UsageError."""
    from naslab.trace.reader import read_trace

    found = _Seconds(f"--trace {path}")
    seen: set[tuple[str, int]] = set()
    read: set[tuple[str, int]] = set()
    ends: dict[str, int] = {}
    _, operations = read_trace(path)
    for one in operations:
        if one.op not in ("read", "write") or one.error or not one.len_bytes:
            continue
        name, offset = one.path or "", one.offset_bytes or 0
        at = one.start_ns // NS_PER_S
        pages = {(name, page) for page in range(offset // PAGE_BYTES, (offset + one.len_bytes - 1) // PAGE_BYTES + 1)}
        found.add(OPS, at, 1)
        found.add(READ if one.op == "read" else WRITTEN, at, one.len_bytes)
        if one.op == "read":
            found.add(AGAIN, at, one.len_bytes * len(pages & seen) / len(pages))
            read |= pages
        seen |= pages
        ends[name] = max(ends.get(name, 0), offset + one.len_bytes, one.file_bytes or 0)
    return found.load(float(len(read) * PAGE_BYTES), float(sum(ends.values())))


def prices_of(hdd_gib: float | None, ssd_gib: float | None, mb_per_s: float | None, storage: str) -> Prices | None:
    """The prices given; None without any. Raises UsageError for one that is missing or below 0."""
    given = dict(zip(PRICES, (hdd_gib, ssd_gib, mb_per_s), strict=True))
    if all(value is None for value in given.values()):
        return None
    unneeded = {"hdd": PRICES[1], "ssd": PRICES[0]}.get(storage)
    for option, value in given.items():
        if value is None and option != unneeded:
            raise UsageError(f"{option} is missing: a cost needs the prices of storage and of throughput, each a month")
        if value is not None and value < 0:
            raise UsageError(f"{option} {value:g}: give a price of 0 or more")
    return Prices(hdd_gib or 0.0, ssd_gib or 0.0, mb_per_s or 0.0)


def refuse_with_tier(trace: Path | None, prices: Prices | None, storage: str, tib: float | None) -> None:
    """Raises UsageError for what does not go with --tier, and for what it needs."""
    if trace is not None:
        raise UsageError(f"--trace {trace}: leave out --tier to get the file system that carries its load")
    if prices is not None:
        raise UsageError("--tier: prices choose between file systems; leave out --tier, or the prices")
    for option, missing in (("--storage", not storage), ("--tib", tib is None)):
        if missing:
            raise UsageError(f"{option} is missing: --tier needs --storage and --tib")


def _options(load: Load, year: int, storage: str, tib: float | None, prices: Prices | None) -> list[Option]:
    """Raises UsageError with the option that is wrong."""
    try:
        return list(model.options(load, year, storage, tib, prices))
    except UsageError as error:
        given = f"--tib {tib:g}" if tib is not None else f"--storage {storage}" if storage else "the load"
        raise UsageError(f"{given}: {error}") from None


def _check(year: int, storage: str) -> None:
    """Raises UsageError."""
    if year not in YEARS:
        raise UsageError(f"--year {year}: the guide is known as of {' and '.join(map(str, YEARS))}; use one of them")
    if storage not in ("", "hdd", "ssd"):
        raise UsageError(f"--storage {storage}: use hdd or ssd, or leave it out")


def print_advice(
    run: str, trace: Path | None, year: int, storage: str, tib: float | None, prices: Prices | None,
    store: Path | None, as_json: bool,
) -> int:  # fmt: skip
    """Prints it; 1 where no file system carries the load. Raises UsageError, UnknownRunError, TraceError."""
    if run and trace:
        raise UsageError(f"--trace {trace}: --run names a load already; leave one of them out")
    if not run and not trace:
        raise UsageError(
            "--tier is missing: give it with --storage and --tib; or --run RUN or --trace FILE, to learn which file "
            "system carries that load"
        )
    _check(year, storage)
    wanted = load_of_trace(trace) if trace else load_of_run(load(Store(store), run), run)
    found = _options(wanted, year, storage, tib, prices)
    best, second = model.chosen(found)
    if as_json:
        json.dump(_document(wanted, found, best), sys.stdout)
        print()
    else:
        print("\n".join(lines(wanted, found, best, second, tib, measured=bool(run))))
    return 0 if best else 1


def _document(load: Load, found: Sequence[Option], best: Option | None) -> dict[str, Any]:
    return {
        "schema": 1,
        "load": {
            "seconds": load.seconds, "read_bytes": float(load.read.sum()), "again_bytes": float(load.again.sum()),
            "written_bytes": float(load.written.sum()), "operations": float(load.ops.sum()),
            "set_bytes": load.set_bytes, "stored_bytes": load.stored_bytes,
        },
        "options": [dataclasses.asdict(each) for each in found],
        "chosen": dataclasses.asdict(best) if best else None,
    }  # fmt: skip


def lines(
    load: Load, found: Sequence[Option], best: Option | None, second: Option | None, tib: float | None, measured: bool
) -> Iterator[str]:
    """The advice in words."""
    moved = load.read + load.written
    again = f", {percent_text(load.again.sum() / load.read.sum())} of it again" if load.read.any() else ""
    yield (
        f"Load: {amount_text(int(load.read.sum()))} read{again}, {amount_text(int(load.written.sum()))} written in "
        f"{duration_text(load.seconds * NS_PER_S)}; at most {rate_text(float(moved.max()))} in a second, "
        f"{rate_text(float(moved.mean()))} on average"
    )
    if measured:
        yield "This is what the run got: a load at full speed takes all that a server gives."
    yield ""
    if best is None:
        yield "No FSx for Windows file system of that guide carries it:"
        yield from (f"  {_name(each)}: {_why(each.shortfall)}" for each in found[-1:] if each.shortfall)
        return
    yield f"Smallest that carries it: {_name(best)}{_cost(best)}"
    if second is not None:
        yield f"Next: {_name(second)}{_cost(second)}"
    smaller = model.next_smaller(found, best)
    if smaller is not None and smaller.shortfall is not None:
        size = f"{tib:g} TiB of " if tib else ""
        kind = f"{size}{smaller.storage.upper()}{'' if tib else ' of any size'}"
        yield f"Not {smaller.tier_mb_per_s} MB/s with {kind}: {_why(smaller.shortfall)}"
    yield ""
    yield (
        "Credit was taken as full at the beginning, the network's as three minutes of burst: the guide has \"a few "
        'minutes".'
    )


def _name(one: Option) -> str:
    size = f"{one.tib:g} TiB" if one.tib >= 1 else f"{one.tib * 1024:g} GiB"
    return f"{one.tier_mb_per_s} MB/s, {size} of {one.storage.upper()}"


def _cost(one: Option) -> str:
    return "" if one.month is None else f", {one.month:,.2f} a month"


def _why(found: Shortfall) -> str:
    if found.unit == "bytes/s":
        wanted, allowed = rate_text(found.wanted), rate_text(found.allowed)
    else:
        wanted, allowed = f"{found.wanted:,.0f} operations/s", f"{found.allowed:,.0f}"
    when = f"after {duration_text(found.at_s * NS_PER_S)}" if found.at_s else "at once"
    return f"{when} the {found.what} allows {allowed}, and {wanted} are wanted"
