"""What is compared with what. Each group returns rows; bars are those of the design, section 10."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

from comparison import Row, Skip, bootstrap_low, interleave, ratio_row

from naslab import _engine
from naslab.spec import CellSpec, RunSpec, ScriptSpec
from naslab.spec.script import ScriptWriter

SECONDS = 2
FILE_BYTES = 64 << 20
NASLAB = Path(sys.executable).with_name("naslab")


def _need(program: str) -> str:
    found = shutil.which(program)
    if found is None:
        raise Skip(f"{program} is not installed (tools/system-packages bench)")
    return found


def _iops(target: dict[str, Any], cell: CellSpec) -> float:
    """Operations per second of one cell, straight from the engine."""
    results: list[dict[str, Any]] = []

    def on_event(kind: str, text: str, _blobs: list[bytes]) -> None:
        if kind == "cell":
            results.append(json.loads(text))

    spec = RunSpec(target, [cell], run_id="bench", existing="read")
    _engine.run(spec.to_json(), "{}", on_event)
    return results[0]["ops"] * 1e9 / results[0]["window_ns"]  # as the peer: own overhead included


def _random_read(file_bytes: int, name: str, depth: int) -> CellSpec:
    return CellSpec(
        "random_read", file_bytes, 4096, [name], queue_depth=depth, pattern="random", duration_ns=SECONDS * 10**9,
        interval_ns=10**8,
    )  # fmt: skip


def _fio(*arguments: str) -> float:
    """Read IOPS of one fio job."""
    command = [
        _need("fio"), "--name=bench", "--rw=randread", "--bs=4k", "--time_based", f"--runtime={SECONDS}",
        "--norandommap", "--randrepeat=0", "--invalidate=0", "--output-format=json", *arguments,
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(json.loads(done.stdout[done.stdout.index("{") :])["jobs"][0]["read"]["iops"])


def engine_floor(_folder: Path, rounds: int) -> list[Row]:
    """Null target, 4 KiB random reads, depth 32, full recording, against fio's null engine."""
    cell = _random_read(1 << 30, "null", 32)
    mine, theirs = interleave(
        lambda: _iops({"protocol": "null", "options": {}}, cell),
        lambda: _fio("--ioengine=null", "--iodepth=32", "--size=1g"),
        rounds,
    )
    return [ratio_row("engine floor, null, depth 32, ops/s", mine, theirs, 4.0)]


def series_cost(_folder: Path, rounds: int) -> list[Row]:
    """The same load on the null target with a series of 100 ms and of 1 s: what the finer one costs."""
    rows = []
    for name, depth in (("depth 1", 1), ("depth 32", 32)):
        fine = _random_read(1 << 30, "null", depth)
        coarse = dataclasses.replace(fine, interval_ns=10**9)
        target = {"protocol": "null", "options": {}}
        mine, theirs = interleave(
            lambda target=target, fine=fine: _iops(target, fine),
            lambda target=target, coarse=coarse: _iops(target, coarse),
            rounds,
        )
        rows.append(ratio_row(f"100 ms series against 1 s, null, {name}, ops/s", mine, theirs, 0.97))
    return rows


def script_floor(folder: Path, rounds: int) -> list[Row]:
    """A million reads of a script on the null target against the engine's plain rate at depth 1, full recording."""
    steps, path, random = 1_000_000, folder / "script", Random(1)
    with ScriptWriter(folder) as writer:
        stream = writer.stream()
        handle = stream.open("f")
        for _ in range(steps):
            stream.read(handle, random.randrange(1 << 18) * 4096, 4096)
        stream.close(handle)
        writer.save(path)
    plain = dataclasses.replace(_random_read(1 << 30, "null", 1), duration_ns=None, stop_ops=steps, flush="none")
    script = CellSpec(
        "replay", 1 << 30, 4096, [], script=ScriptSpec(str(path)), interval_ns=plain.interval_ns, flush="none"
    )
    target = {"protocol": "null", "options": {}}
    mine, theirs = interleave(lambda: _iops(target, script), lambda: _iops(target, plain), rounds)
    return [ratio_row("steps of a script against plain reads, null, depth 1, ops/s", mine, theirs, 0.8)]


def local_io(folder: Path, rounds: int) -> list[Row]:
    """4 KiB random reads of a page-cached file: posix and io_uring against fio."""
    path = folder / "cached"
    _fill(path)
    uring = ("--ioengine=io_uring", "--iodepth=32")
    batch = ("--iodepth_batch=32", "--iodepth_batch_complete_max=32", "--fixedbufs", "--registerfiles")
    cases = (
        ("posix against fio psync", "posix", 1, ("--ioengine=psync",), 1.2),
        ("uring, depth 32, against fio io_uring", "uring", 32, uring, 1.6),
        ("uring, depth 32, against fio io_uring tuned", "uring", 32, (*uring, *batch), 1.1),
    )
    rows = []
    for name, engine, depth, arguments, bar in cases:
        target = {"protocol": "local", "options": {"root": str(folder), "engine": engine}}
        cell = _random_read(FILE_BYTES, path.name, depth)
        mine, theirs = interleave(
            lambda target=target, cell=cell: _iops(target, cell),
            lambda arguments=arguments: _fio(f"--filename={path}", f"--size={FILE_BYTES}", *arguments),
            rounds,
        )
        rows.append(ratio_row(f"{name}, IOPS", mine, theirs, bar))
    path.unlink()
    return rows


def _fill(path: Path) -> None:
    """A file of FILE_BYTES, all of it in the page cache."""
    subprocess.run(
        [str(NASLAB), "mkfile", str(path), "--size", str(FILE_BYTES), "--quiet"], check=True, stdout=subprocess.DEVNULL
    )
    with path.open("rb") as file:
        while file.read(1 << 20):
            pass


IOZONE_TESTS = " ".join(f"-i {test}" for test in range(8))
IOZONE_MODES = {
    "buffered": "-s 64m -s 128m -s 256m -r 4k -r 64k -r 1m",
    "direct": "-I -s 64m -s 128m -r 64k -r 1m",
    "-e -c": "-e -c -s 64m -s 128m -r 4k -r 64k -r 1m",
}
IOZONE_SMALL = "-a -i 0 -i 1 -i 2 -n 64k -g 64m"
"""What a user of `-a` sees first: files from 64 KiB on, every record size."""
COLUMNS = (
    (24, 33, "write"), (33, 42, "rewrite"), (42, 51, "read"), (51, 60, "reread"), (60, 69, "random read"),
    (69, 78, "random write"), (78, 87, "bkwd read"), (87, 97, "record rewrite"), (97, 107, "stride read"),
    (107, 116, "fwrite"), (116, 125, "frewrite"), (125, 134, "fread"), (134, 143, "freread"),
)  # fmt: skip
Cells = dict[tuple[int, int, str], float]
Ratios = dict[tuple[int, int, str], list[float]]


def iozone_parity(folder: Path, rounds: int) -> list[Row]:
    """The same IOzone command by the real iozone and by `naslab iozone`, per test and per mode."""
    real = _need("iozone")
    rows: list[Row] = []
    for mode, arguments in IOZONE_MODES.items():
        rows += _parity_of(mode, real, f"{arguments} {IOZONE_TESTS}".split(), folder, rounds)
    return rows


def small_files(folder: Path, rounds: int) -> list[Row]:
    """Files from 64 KiB on, whose passes take microseconds to milliseconds, by file size and together."""
    ours, theirs = _tables(_need("iozone"), IOZONE_SMALL.split(), folder, rounds)
    ratios = {key: [a[key] / b[key] for a, b in zip(ours, theirs, strict=True)] for key in ours[0]}
    rows = []
    for size in sorted({key[0] for key in ratios}):
        keys = [key for key in ratios if key[0] == size]
        middle = median(median(ratios[key]) for key in keys)
        low = bootstrap_low([median(ratios[key][at] for key in keys) for at in range(rounds)])
        mine, peer = (median(run[key] for run in runs for key in keys) for runs in (ours, theirs))
        rows.append(Row(f"iozone -a: files of {size} KiB, KiB/s", mine, peer, middle, low, "", None))
    return [*rows, _spread_row("-a", [median(values) for values in ratios.values()])]


def _parity_of(mode: str, real: str, arguments: list[str], folder: Path, rounds: int) -> list[Row]:
    ours, theirs = _tables(real, arguments, folder, rounds)
    ratios = {key: [a[key] / b[key] for a, b in zip(ours, theirs, strict=True)] for key in ours[0]}
    rows = [_test_row(mode, test, ratios, ours, theirs) for test in dict.fromkeys(key[2] for key in ratios)]
    return [*rows, _spread_row(mode, [median(values) for values in ratios.values()])]


def _tables(real: str, arguments: list[str], folder: Path, rounds: int) -> tuple[list[Cells], list[Cells]]:
    """Ours and iozone's, one of each a round, the order alternating."""
    ours: list[Cells] = []
    theirs: list[Cells] = []
    commands = (
        (
            ours,
            [str(NASLAB), "iozone", *arguments, "-f", str(folder / "ours"), "--quiet", "--store", str(folder / "db")],
        ),
        (theirs, [real, *arguments, "-f", str(folder / "theirs")]),
    )
    for at in range(rounds):
        for into, command in commands if at % 2 == 0 else commands[::-1]:
            os.sync()  # what the run before left dirty must not be written during this one
            into.append(_table(command))
    return ours, theirs


def _table(command: list[str]) -> Cells:
    """Rates in KiB/s of one run, from the fixed columns."""
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    cells: Cells = {}
    for line in text.splitlines():
        head = line[:24].split()
        if len(head) == 2 and all(word.isdigit() for word in head):
            for start, end, test in COLUMNS:
                if line[start:end].strip():
                    cells[int(head[0]), int(head[1]), test] = float(line[start:end])
    return cells


def _test_row(mode: str, test: str, ratios: Ratios, ours: list[Cells], theirs: list[Cells]) -> Row:
    """One test of one mode: missed only if the interval of its median ratio lies wholly outside the bar."""
    keys = [key for key in ratios if key[2] == test]
    rounds = [median(ratios[key][at] for key in keys) for at in range(len(ours))]
    middle, low = median(median(ratios[key]) for key in keys), bootstrap_low(rounds)
    high = 1 / bootstrap_low([1 / ratio for ratio in rounds])
    met = True if 0.95 <= middle <= 1.10 else None if low <= 1.10 and high >= 0.95 else False
    mine, peer = (median(run[key] for run in runs for key in keys) for runs in (ours, theirs))
    note = "undecided: the interval of the ratio crosses the bar" if met is None else ""
    return Row(f"iozone {mode}: {test}, KiB/s", mine, peer, middle, low, "0.95-1.10", met, note)


def _spread_row(mode: str, ratios: list[float]) -> Row:
    """The bar of the front end: median 0.95 to 1.10, 90 % of cells 0.85 to 1.20."""
    middle = median(ratios)
    inside = sum(0.85 <= ratio <= 1.20 for ratio in ratios) / len(ratios)
    met = 0.95 <= middle <= 1.10 and inside >= 0.9
    note = f"{len(ratios)} cells, {inside:.0%} within 0.85-1.20, all within {min(ratios):.2f}-{max(ratios):.2f}"
    return Row(f"iozone {mode}: all cells", None, None, middle, None, "0.95-1.10, 90 %", met, note)


def help_time(_folder: Path, rounds: int) -> list[Row]:
    """`naslab --help` within 0.25 s, beside a bare Python start."""

    def seconds(command: list[str]) -> float:
        start = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return time.perf_counter() - start

    mine, bare = interleave(
        lambda: seconds([str(NASLAB), "--help"]), lambda: seconds([sys.executable, "-c", "pass"]), max(rounds, 5)
    )
    middle = median(mine)
    return [Row("naslab --help, ms", middle * 1e3, median(bare) * 1e3, None, None, "<= 250 ms", middle <= 0.25)]
