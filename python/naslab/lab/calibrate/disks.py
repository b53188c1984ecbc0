"""Disks and volumes by fio, past the page cache.

Disks are read as the block devices they are, under whatever lies on them. They are written in the same way only where
their contents may be spoiled (`Probe.scratch`); else in a file, where a file system lies on one disk.
"""

from __future__ import annotations

import dataclasses
import math
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from naslab.errors import TargetError
from naslab.lab.calibrate.bursts import Fitted, fit_bucket
from naslab.lab.calibrate.finding import ALLOWANCE
from naslab.lab.calibrate.probe import Probe
from naslab.lab.calibrate.tools import FioJob, Work, fio_jobs, fio_series, fio_words, log_words, raw
from naslab.lab.definition import Disk
from naslab.lab.devices import plan
from naslab.lab.limits import kinds
from naslab.lab.native import backend
from naslab.units import percent_text

_IN_USE = "its disks are in use by a volume: calibrate a system that is not up"
_TOGETHER = 300_000_000
"""Bytes per second that disks measured at once may come to; beyond that the processor might be measured."""
_LONGEST_BURST_S = 60.0
_FLOOR_S = 2.5
_FILE_MIB = 64
_ERROR_S = 3.0
_SMALL_BYTES = 4096
_COPIES = "a bound: two copies, each at its disk's rate,"
_BLOCK_BYTES, _LARGEST_BLOCK_BYTES = 64 << 10, 512 << 10
_GUEST_BLOCK_BYTES = 64 << 10
"""A guest's kernel divides larger requests."""
_DEPTH, _SPARE, _OF_IOPS = 4, 2.0, 0.8
_TIMED = ("--time_based",)
_PATIENCE_S = 60.0

Value = Callable[[FioJob], float]
"""What is taken of a job."""


def stream(rw: str, disk: Disk, rate: float, largest_bytes: int) -> Work:
    """What moves as much as a disk lets through: requests so large that neither their number nor their latency limits
    first, as far as `largest_bytes` allows. A few in flight, since a server of blocks takes no more.
    """
    block = _BLOCK_BYTES
    needed = max(_SPARE * rate * disk.latency_ns / 1e9 / _DEPTH, rate / (_OF_IOPS * disk.iops) if disk.iops else 0)
    while block < min(largest_bytes, needed):
        block *= 2
    return Work(rw, f"{block >> 10}k", _DEPTH)


def measure_bursts(probe: Probe) -> None:
    """Disks with a bucket, which must be full: before anything else."""
    for at, disk in _kinds(probe):
        if disk.burst is not None:
            _burst(probe, _prefix(probe, at), probe.devices[at], disk.burst.plan.burst_bytes_per_s,
                   disk.burst.base_bytes_per_s, disk.burst.size_bytes)  # fmt: skip
    if probe.definition is None and "disk" in probe.server.facts:
        bucket = [int(probe.planted[f"disks.burst.{each}"].value) for each in ("rate", "base", "size")]
        _burst(probe, "disks", probe.devices[0], *bucket)


def _burst(probe: Probe, name: str, device: str, rate: int, base: int, size: int) -> None:
    names = [f"{name}.burst.{key}" for key in ("rate", "base", "size")]
    seconds = size / (rate - base) + max(_FLOOR_S, 3e8 / base / 10)
    if not probe.scratch:
        for each in names:
            probe.skip(
                each, "the system is already up, so its credit is unknown: calibrate one that is not up", tool="fio"
            )
        return
    if seconds > _LONGEST_BURST_S:
        for each in names:
            probe.skip(
                each, f"the credit lasts {seconds:.0f} s: calibrate a smaller one (--set disks.burst=...)", tool="fio"
            )
        return
    work = Work("read", seconds=seconds, ramp_s=0.0)
    fitted: list[Fitted] = []
    words = fio_words(work, {"disk": raw(device, False)})
    with tempfile.TemporaryDirectory(prefix="calibrate-", dir=probe.server.folder) as folder:

        def measure() -> list[float]:
            log = Path(folder, "log")
            probe.run([*words, *log_words(str(log))], seconds=seconds)
            rows = Path(f"{log}_bw.1.log").read_text(encoding="ascii")
            fitted.append(fit_bucket(fio_series(rows), skip_s=0.2))
            return [fitted[0].rate]

        probe.add(names[0], "", "fio", words, measure)
    for each, key in zip(names[1:], ("base", "size"), strict=True):
        probe.add(each, "", "fio", words, lambda key=key: _fitted(fitted, key))  # type: ignore[misc]


def _fitted(fitted: list[Fitted], key: str) -> list[float]:
    if not fitted:
        raise TargetError("see the burst's rate")
    return [getattr(fitted[0], key)]


def measure_reads(probe: Probe) -> None:
    """Rates, requests per second, latency and errors of reads."""
    for at, disk in _kinds(probe):
        name = _prefix(probe, at)
        if not is_served(probe, disk):
            _reads(probe, name, at, disk)
            _latency(probe, name, at, disk)
        if disk.error_rate:
            _errors(probe, f"{name}.errors", at, disk.error_rate)


def is_served(probe: Probe, disk: Disk) -> bool:
    """Whether a server of blocks stands below a disk: it answers at once where nothing was ever written."""
    if probe.in_guest or probe.definition is None:
        return False
    escaped = plan.is_escaped(probe.definition, backend._version(probe.definition))
    return bool(disk.latency_ns or plan.disk_plan(disk, 0, escaped).served)


def _reads(probe: Probe, name: str, at: int, disk: Disk, filled: bool = False) -> None:
    if disk.read_bytes_per_s is not None:
        _rates(probe, f"{name}.read", at, disk.read_bytes_per_s, "read", lambda job: job.read_bytes_per_s, filled)
    if disk.iops is not None:
        _requests(probe, f"{name}.iops", at, disk, "read", filled)


def _fill(probe: Probe, at: int) -> bool:
    """Writes what is then read of all disks of a kind; False where that may not be."""
    places, why = _places(probe, _alike(probe, at), True)
    if why:
        return False
    words = [each for each in fio_words(Work("write", "256k", 16), places) if each not in _TIMED]
    words = [each for each in words if not each.startswith(("--runtime", "--ramp_time"))]
    probe.run([*words, "--continue_on_error=io"], seconds=_PATIENCE_S, check=False)
    return True


def _served(probe: Probe, name: str, at: int, disk: Disk) -> None:
    """Limits of reads on disks that must be written first."""
    filled = _fill(probe, at)
    _reads(probe, name, at, disk, True)
    if filled:
        _latency(probe, name, at, disk, True)
    elif disk.latency_ns:
        probe.skip(f"{name}.latency", _IN_USE, tool="fio")


def _latency(probe: Probe, name: str, at: int, disk: Disk, filled: bool = False) -> None:
    if disk.latency_ns:
        _each(probe, f"{name}.latency", [at], Work("randread", "4k", 1), lambda job: job.read_latency_ns, "reads",
              "the disk's own time included", filled)  # fmt: skip


def measure_writes(probe: Probe) -> None:
    """Rates and requests per second of writes, and of reads and writes that share a rate: they spoil the disks."""
    for at, disk in _kinds(probe):
        name = _prefix(probe, at)
        if is_served(probe, disk):
            _served(probe, name, at, disk)
        if disk.write_bytes_per_s is not None:
            _rates(probe, f"{name}.write", at, disk.write_bytes_per_s, "write", lambda job: job.write_bytes_per_s)
        if disk.rate_bytes_per_s is not None:
            _rates(probe, f"{name}.rate", at, disk.rate_bytes_per_s, "rw",
                   lambda job: job.read_bytes_per_s + job.write_bytes_per_s)  # fmt: skip
        if disk.iops is not None:
            _requests(probe, f"{name}.iops", at, disk, "write")


def _rates(probe: Probe, name: str, at: int, rate: float, rw: str, value: Value, filled: bool = False) -> None:
    """A rate of all disks of a kind: at once where they do not come to much."""
    assert probe.definition is not None
    disk, disks = probe.definition.disks[at], _alike(probe, at)
    work = stream(rw, disk, rate, _GUEST_BLOCK_BYTES if probe.in_guest else _LARGEST_BLOCK_BYTES)
    if disk.iops and rate / _kib(work.block) > _OF_IOPS * disk.iops:
        return probe.skip(name, f"{disk.iops} requests per second limit first, of {work.block} each", tool="fio")
    together = max(1, math.floor(_TOGETHER / (2 if probe.in_guest else 1) / rate))
    for first in range(0, len(disks), together):
        _each(probe, name, disks[first : first + together], work, value, filled=filled)
    return None


def _kib(block: str) -> int:
    return int(block.removesuffix("k")) << 10


def _requests(probe: Probe, name: str, at: int, disk: Disk, way: str, filled: bool = False) -> None:
    """Small requests per second of one disk."""
    rate = {"read": disk.reads_bytes_per_s, "write": disk.writes_bytes_per_s}[way]
    if rate is not None and disk.iops is not None and rate < disk.iops * _SMALL_BYTES * 1.2:
        return probe.skip(name, f"{disk.iops} requests of 4 KiB exceed the disk's rate, which limits first", f"{way}s")
    value: Value = (lambda job: job.read_iops) if way == "read" else (lambda job: job.write_iops)
    return _each(probe, name, [at], Work(f"rand{way}", "4k", 16), value, f"{way}s", filled=filled)


def _errors(probe: Probe, name: str, at: int, share: float) -> None:
    """Requests that fail, counted; chance alone makes the count uneven, and the allowance says so."""
    job: list[FioJob] = []
    options = [*raw(probe.devices[at], False), "--continue_on_error=io"]
    words = fio_words(Work("randread", "4k", 16, _ERROR_S, 0.0), {"disk": options})

    def measure() -> list[float]:
        job.extend(fio_jobs(probe.run(words, seconds=_ERROR_S, check=False)).values())
        return [job[0].errors / max(1, job[0].requests + job[0].errors)]

    probe.add(name, "reads", "fio", words, measure)
    if job:
        chance = 1.96 * math.sqrt((1 - share) / share / max(1, job[0].requests))
        last = probe.found.pop()
        note = f"{job[0].requests:,} reads: chance alone gives {percent_text(chance)}" if chance > ALLOWANCE else ""
        probe.found.append(dataclasses.replace(last, allowance=max(ALLOWANCE, chance), note=note))


def _each(
    probe: Probe, name: str, disks: Sequence[int], work: Work, value: Value, what: str = "", note: str = "",
    filled: bool = False,
) -> None:  # fmt: skip
    """One work on several disks at once; a finding for each. filled: where `_fill` wrote."""
    places, why = _places(probe, disks, filled or "write" in work.rw or work.rw == "rw")
    several = len(probe.devices) > 1
    names = {
        job: f"disk {at + 1}" if several else ""
        for job, at in zip((f"disk{at + 1}" for at in disks), disks, strict=True)
    }
    if why:
        for told in names.values():
            probe.skip(name, why, " ".join(filter(None, (told, what))), "fio")
        return
    work = Work(work.rw, work.block, work.depth, probe.seconds)
    words = fio_words(work, places)
    results = _repeated(probe, words)
    for job, told in names.items():

        def taken(job: str = job) -> list[float]:
            return [value(each[job]) for each in results()]

        probe.add(name, " ".join(filter(None, (told, what))), "fio", words, taken, note=note)


def _repeated(probe: Probe, words: Sequence[str]) -> Callable[[], list[dict[str, FioJob]]]:
    """What all runs of a command gave: it is run when that is first asked for, and a failure stays one."""
    kept: list[dict[str, FioJob]] = []
    failed: list[TargetError] = []

    def results() -> list[dict[str, FioJob]]:
        if failed:
            raise failed[0]
        try:
            while len(kept) < probe.runs:
                kept.append(fio_jobs(probe.run(words, seconds=probe.seconds)))
        except TargetError as error:
            failed.append(error)
            raise
        return kept

    return results


def _places(probe: Probe, disks: Sequence[int], writes: bool) -> tuple[dict[str, list[str]], str]:
    """Options of a job for each disk; or why there are none."""
    if probe.scratch or not writes:
        return {f"disk{at + 1}": raw(probe.devices[at], writes) for at in disks}, ""
    found = probe.definition
    if found is None or len(found.disks) > 1:
        return {}, _IN_USE
    return {f"disk{at + 1}": file_words(probe, _FILE_MIB) for at in disks}, ""


def file_words(probe: Probe, size_mib: int) -> list[str]:
    """Options of a job on a file of ours on the volume."""
    return [f"--filename={probe.file}", f"--size={size_mib}m", "--fallocate=none"]


def measure_volume(probe: Probe) -> None:
    """One long stream of the volume, written and then read, against the arithmetic of its disks."""
    found = probe.definition
    if found is None:
        return
    for name, rw in (("volume.write", "write"), ("volume.read", "read")):
        if name not in probe.planted:
            continue
        if found.filesystem.type == "ntfs":
            probe.skip(name, "ntfs-3g accepts no direct reads and writes", tool="fio")
            continue
        words = fio_words(Work(rw, "128k", 16, probe.seconds), {"volume": file_words(probe, _FILE_MIB)})
        results = _repeated(probe, words)
        value: Value = (lambda job: job.read_bytes_per_s) if rw == "read" else (lambda job: job.write_bytes_per_s)

        def taken(results: Callable[[], list[Mapping[str, FioJob]]] = results, value: Value = value) -> list[float]:  # type: ignore[assignment]
            return [value(each["volume"]) for each in results()]

        more: dict[str, Any] = {"note": f"by the arithmetic of {found.volume.level}"}
        if found.volume.level == "raid1" and rw == "read":
            more = {
                "note": f"{_COPIES} are read alternately",
                "planted": 2 * probe.planted[name].value,
                "ceiling": True,
            }
        probe.add(name, "", "fio", words, taken, **more)


def _kinds(probe: Probe) -> list[tuple[int, Disk]]:
    return [] if probe.definition is None else kinds(probe.definition)


def _alike(probe: Probe, at: int) -> list[int]:
    """Disks of the same kind as this one."""
    assert probe.definition is not None
    disks = probe.definition.disks
    return [other for other, each in enumerate(disks) if each == disks[at]]


def _prefix(probe: Probe, at: int) -> str:
    return "disks" if len(_kinds(probe)) == 1 else f"disks[{at}]"
