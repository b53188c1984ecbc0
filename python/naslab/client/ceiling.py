"""What this client can do at most: its own floor, so that a server is not blamed for it.

The figures are those that the RAID-5 article took from Everest (memory read, write, copy and latency, zlib, AES),
and what a file server's client needs beside: the engine on a target that answers at once, and TCP to itself.
"""

from __future__ import annotations

import dataclasses
import json
import platform
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec.json import decode

from naslab import __version__, _engine
from naslab.client.environment import describe_client
from naslab.client.limit import cpu_limit_cores, processors
from naslab.client.procs import foreign_share, foreign_ticks
from naslab.results.parts.client import (
    ClientCeiling,
    ClientCipher,
    ClientLoopback,
    ClientMemory,
    ClientZlib,
    MemoryRates,
    NullRate,
)
from naslab.spec import CellSpec, RunSpec

RECORD_SIZES = (4 << 10, 1 << 20)
CIPHERS = ("aes-128-gcm", "aes-256-gcm")
MESSAGE_BYTES = 64 << 10
_LEAST_BUF_BYTES, _MOST_BUF_BYTES = 64 << 20, 256 << 20
_SHARE = {"null": 0.26, "memory": 0.20, "latency": 0.06, "zlib": 0.10, "aes": 0.08, "tcp": 0.20}
"""Parts of the time; what is left goes into buffers that are filled."""
_WAIT_S = 10.0


def measure(seconds: float = 5.0) -> ClientCeiling:
    """Measures for about so many seconds: part `client_ceiling` of the run document, described in its schema.

    Every processor is busy meanwhile. Raises TargetError where loopback does not carry TCP.
    """
    cpus = processors()
    begun, clock = time.time_ns(), time.perf_counter_ns()
    before = foreign_ticks()
    budget = {name: round(share * seconds * 1e9) for name, share in _SHARE.items()}
    buf_bytes = _buf_bytes(cpus)
    null, memory = _null(cpus, budget["null"]), _memory(buf_bytes, cpus, budget["memory"], budget["latency"])
    packed, aes, loopback = _zlib(budget["zlib"]), _aes(budget["aes"]), _loopback(budget["tcp"])
    return ClientCeiling(
        measured_wall_ns=begun, **machine(), cpus=cpus, null=null, memory=memory, zlib=packed, aes=aes,
        loopback=loopback, foreign_cpu_fraction=foreign_share(before, foreign_ticks()),
        took_ns=time.perf_counter_ns() - clock,
    )  # fmt: skip


def machine() -> dict[str, Any]:
    """What a kept measurement must agree in: host, boot, limit of processors and version of naslab.

    boot: None where it is not known.
    """
    try:
        boot: str | None = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        boot = None
    return {"host": platform.node(), "boot": boot, "naslab_version": __version__, "cpu_limit_cores": cpu_limit_cores()}


def _null(cpus: int, budget_ns: int) -> list[NullRate]:
    """The engine on a target that answers at once, for each record size with one worker and with one a processor."""
    workers = sorted({1, cpus})
    each_ns = budget_ns // (len(workers) * len(RECORD_SIZES))
    shapes = [(record, count) for record in RECORD_SIZES for count in workers]
    cells = [_null_cell(at, record, count, each_ns) for at, (record, count) in enumerate(shapes)]
    ended: dict[int, dict[str, Any]] = {}

    def on_event(kind: str, text: str, _blobs: list[bytes]) -> None:
        if kind == "cell":
            cell = json.loads(text)
            ended[cell["id"]] = cell

    spec = RunSpec({"protocol": "null", "options": {}}, [], run_id="ceiling", folder="naslab-ceiling")
    run = _engine.open_run(spec.to_json(), "{}", 1)
    try:
        run.stage(json.dumps([dataclasses.asdict(cell) for cell in cells]), on_event)
    finally:
        run.finish()
    return [_rates(cells[at], ended[at]) for at in sorted(ended)]


def _null_cell(at: int, record_bytes: int, workers: int, duration_ns: int) -> CellSpec:
    return CellSpec(
        "random_read", 1 << 30, record_bytes, [f"w{n}" for n in range(workers)], id=at, workers=workers,
        pattern="random", duration_ns=duration_ns, create="if_missing", flush="none",
    )  # fmt: skip


def _rates(spec: CellSpec, cell: dict[str, Any]) -> NullRate:
    seconds = max(cell["duration_ns"], 1) / 1e9
    return NullRate(spec.record_bytes, spec.workers, cell["ops"] / seconds, cell["bytes"] / seconds)


def _memory(buf_bytes: int, cpus: int, budget_ns: int, latency_ns: int) -> ClientMemory:
    """Bandwidth of one thread and of one a processor; latency of loads that wait for each other."""
    threads = sorted({1, cpus})
    each_ns = budget_ns // (3 * len(threads))
    rates = {n: decode(_engine.memory_rates(buf_bytes // n, n, each_ns), type=MemoryRates) for n in threads}
    return ClientMemory(buf_bytes, rates[1], rates[cpus], _engine.memory_latency_ns(buf_bytes, latency_ns))


def _buf_bytes(cpus: int) -> int:
    """Memory to measure with: four times the largest cache, and never more than an eighth of what is free."""
    caches = Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size")
    largest = max((_size(path) for path in caches), default=0)
    wanted = min(max(4 * largest, _LEAST_BUF_BYTES), _MOST_BUF_BYTES)
    free = describe_client()["memory_available_bytes"] or 8 * wanted
    return int(max(min(wanted, free // 8), cpus << 20))


def _size(path: Path) -> int:
    try:
        text = path.read_text().strip()
        return int(text[:-1]) << {"K": 10, "M": 20, "G": 30}[text[-1]]
    except (OSError, ValueError, KeyError, IndexError):
        return 0


def sample_text(size: int) -> bytes:
    """Text of invented words that zlib halves and more: the same bytes for the same size."""
    words = [bytes([97 + (n * k) % 26 for k in range(3, 4 + n % 7)]) for n in range(1, 400)]
    state, parts, length = 1, [], 0
    while length < size:
        state = (state * 1103515245 + 12345) & 0x7FFFFFFF
        parts.append(words[(state >> 8) % len(words)])
        length += len(parts[-1]) + 1
    return b" ".join(parts)[:size]


def _zlib(budget_ns: int) -> ClientZlib:
    """zlib at its default level on one processor; rates in bytes of clear text."""
    clear = sample_text(1 << 20)
    packed = zlib.compress(clear)
    return ClientZlib(
        _repeat(lambda: zlib.compress(clear), len(clear), budget_ns // 2),
        _repeat(lambda: zlib.decompress(packed), len(clear), budget_ns // 2),
        len(clear) / len(packed),
    )


def _repeat(work: Any, size: int, budget_ns: int) -> float:
    begun, count = time.perf_counter_ns(), 0
    while not count or time.perf_counter_ns() - begun < budget_ns:
        work()
        count += 1
    return count * size * 1e9 / (time.perf_counter_ns() - begun)


def _aes(budget_ns: int) -> list[ClientCipher]:
    """What SMB's encryption costs: the engine's own ciphers on one processor, in messages of 64 KiB."""
    found = []
    for cipher in CIPHERS:
        speed = _engine.cipher_speed(cipher, MESSAGE_BYTES, budget_ns // (2 * len(CIPHERS)))
        if speed is not None:
            found.append(ClientCipher(cipher, MESSAGE_BYTES, *speed))
    return found


def _loopback(budget_ns: int) -> ClientLoopback:
    """Raw TCP to ourselves, both ends on this machine's processors: a real link spares this client one of them."""
    with _listening() as port:
        options = {
            "host": "127.0.0.1", "port": port, "connections": 1, "duration_ns": max(budget_ns // 4, 50_000_000),
            "timeout_ns": int(_WAIT_S * 1e9),
        }  # fmt: skip
        found = json.loads(_engine.net_measure(json.dumps(options), lambda *_: None))
    both = found["both_upload_bytes_per_s"] + found["both_download_bytes_per_s"]
    return ClientLoopback(
        found["upload_bytes_per_s"], found["download_bytes_per_s"], both, found["round_trip_ns"]["p50"]
    )


@contextmanager
def _listening() -> Iterator[int]:
    """A listener for one measurement on a free loopback port, in a thread of its own, that ends with the block."""
    port: list[int] = []
    ready, over = threading.Event(), threading.Event()

    def on_event(kind: str, where: str) -> None:
        if kind == "listening":
            port.append(int(where.rpartition(":")[2]))
            ready.set()
        if over.is_set():
            raise KeyboardInterrupt

    def serve() -> None:
        options = {"address": "127.0.0.1", "port": 0, "once": True, "idle_ns": 2 * 10**9}
        try:
            _engine.net_listen(json.dumps(options), on_event)
        except BaseException:
            ready.set()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    ready.wait(_WAIT_S)
    try:
        if not port:
            from naslab.errors import TargetError

            raise TargetError("ceiling: no free TCP port on 127.0.0.1", "io", before_run=True)
        yield port[0]
    finally:
        over.set()
        thread.join(_WAIT_S)
