"""Files of -Q (offset and latency of every operation) and -+z (latency histogram per child)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from naslab.commands.iozone.throughput import WORDS
from naslab.text.outputs import IOZONE_HISTOGRAM, IOZONE_OFFSETS, check_output

DAT_NAMES: dict[str, str] = {
    "write": "wol", "rewrite": "rwol", "read": "rol", "reread": "rrol", "backward_read": "revol",
    "stride_read": "strol", "random_read": "randrol", "random_write": "randwol", "mixed": "randrol",
    "pwrite": "pwol", "pread": "prol", "fwrite": "fwol", "fread": "frol",
}  # fmt: skip
SINGLE_OPS = ("write", "rewrite", "read", "reread")
"""Passes that single mode logs."""

HEAD = "Offset in kBytes   Latency in microseconds  Transfer size in bytes\n"
WRITE_HEAD = "Offset in kBytes   Latency in microseconds Transfer size in bytes\n"
"""IOzone's Child_N_wol.dat has one blank less."""

BANDS: tuple[tuple[tuple[str, int], ...], ...] = (
    (("20us", 20), ("40us", 40), ("60us", 60), ("80us", 80), ("100us", 100)),
    (("200us", 200), ("400us", 400), ("600us", 600), ("800us", 800), ("1ms", 1000)),
    (("2ms", 2000), ("4ms", 4000), ("6ms", 6000), ("8ms", 8000), ("10ms", 10_000)),
    (("12ms", 12_000), ("14ms", 14_000), ("16ms", 16_000), ("18ms", 18_000), ("20ms", 20_000)),
    (("40ms", 40_000), ("60ms", 60_000), ("80ms", 80_000), ("100ms", 100_000)),
    (("200ms", 200_000), ("400ms", 400_000), ("600ms", 600_000), ("800ms", 800_000), ("1s", 1_000_000)),
    (("2s", 2_000_000), ("4s", 4_000_000), ("6s", 6_000_000), ("8s", 8_000_000), ("10s", 10_000_000)),
    (("20s", 20_000_000), ("40s", 40_000_000), ("60s", 60_000_000), ("80s", 80_000_000), ("120s", 120_000_000)),
    (("120+s", 1 << 62),),
)
"""Upper ends of the histogram's bins, in microseconds, a row a band."""

Operation = tuple[int, int, int, int]
"""Offset in bytes, latency in ns, length in bytes, worker."""


class OperationLogs(Protocol):
    """What of a `Run` is needed here."""

    @property
    def cells(self) -> list[dict[str, Any]]:
        """The document's cells."""

    def blob_names(self, cell: Mapping[str, Any] | int) -> list[str]:
        """Names of the cell's blobs."""

    def blob(self, cell: Mapping[str, Any] | int, name: str) -> bytes:
        """One blob."""


def write_files(run: OperationLogs, folder: Path, *, throughput: bool, offsets: bool, histograms: bool) -> None:
    """Appends -Q's and -+z's files in `folder`, as IOzone does. Raises OSError."""
    begun: set[Path] = set()
    for cell in run.cells:
        if "op_log" not in run.blob_names(cell):
            continue
        logs = _per_worker(run.blob(cell, "op_log"), cell["workers"])
        if offsets and (throughput or cell["op"] in SINGLE_OPS):
            _append_offsets(cell, logs, folder, begun, throughput)
        if histograms and throughput:
            for worker, log in enumerate(logs):
                _append(folder / f"Iozone_histogram_child_{worker}.txt", histogram_text(cell["op"], worker, log))


def check_files(
    passes: Iterable[tuple[str, int]], folder: Path, *, throughput: bool, offsets: bool, histograms: bool
) -> None:
    """Raises UsageError where one of the files to append to is no such file. passes: operation and workers of each."""
    for op, workers in passes:
        if offsets and throughput:
            for worker in range(workers):
                check_output(folder / f"Child_{worker}_{DAT_NAMES[op]}.dat", "-Q", IOZONE_OFFSETS)
        elif offsets and op in SINGLE_OPS:
            check_output(folder / f"{DAT_NAMES[op]}.dat", "-Q", IOZONE_OFFSETS)
        for worker in range(workers if histograms and throughput else 0):
            check_output(folder / f"Iozone_histogram_child_{worker}.txt", "-+z", IOZONE_HISTOGRAM)


def _per_worker(blob: bytes, workers: int) -> list[list[Operation]]:
    """The operation log (int64, 4 columns) by worker, each in order."""
    values = memoryview(blob).cast("q")
    logs: list[list[Operation]] = [[] for _ in range(workers)]
    for start in range(0, len(values), 4):
        offset, latency_ns, length, worker = values[start : start + 4]
        logs[worker].append((offset, latency_ns, length, worker))
    return logs


def _append_offsets(
    cell: Mapping[str, Any], logs: list[list[Operation]], folder: Path, begun: set[Path], throughput: bool
) -> None:
    name = DAT_NAMES[cell["op"]] + ".dat"
    if throughput:
        head = WRITE_HEAD if cell["op"] == "write" else HEAD
        for worker, log in enumerate(logs):
            _append(folder / f"Child_{worker}_{name}", head + "".join(offset_lines(log)))
        return
    path = folder / name
    head = "" if path in begun else HEAD
    begun.add(path)
    times = (cell["cpu_system_ns"] / 1e9, cell["cpu_user_ns"] / 1e9, cell["window_ns"] / 1e9)
    tail = "\nSystem time {:10.3f} User time {:10.3f} Real {:10.3f}  (seconds)\n".format(*times)
    _append(path, head + "".join(offset_lines(logs[0])) + tail)


def offset_lines(log: Iterable[Operation]) -> Iterator[str]:
    """Offset in KiB, latency in microseconds, length in bytes."""
    for offset, latency_ns, length, _ in log:
        yield f"{offset // 1024:10d} {latency_ns / 1000:10.0f} {length:10d}\n"


def histogram_text(op: str, worker: int, log: Iterable[Operation]) -> str:
    """One pass of one child: counts up to each bin's end."""
    ends = [end for band in BANDS for _, end in band]
    counts = [0] * len(ends)
    for _, latency_ns, _, _ in log:
        counts[bisect_left(ends, latency_ns / 1000)] += 1
    left = iter(counts)
    text = f"Child: {worker} Op: {WORDS[op].log}\n"
    for number, band in enumerate(BANDS, start=1):
        text += f"Band {number}:   " + "".join(f"{name:>5}:{next(left):<8d}" for name, _ in band) + "\n"
    return text + "\n"


def _append(path: Path, text: str) -> None:
    with path.open("a", encoding="ascii") as file:
        file.write(text)
