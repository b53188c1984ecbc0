"""The SMB and NFS clients beside smbclient, libsmb2 and libnfs, against private servers with folders in memory.

libsmb2 and libnfs (6 or newer) are looked for with pkg-config; set PKG_CONFIG_PATH for one built apart. Their
programs are compiled from benches/clients at the start of the run.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from comparison import Row, Skip, bootstrap_low, interleave

from naslab import _engine, lab
from naslab.lab.server import Server
from naslab.spec import CellSpec, DataSpec, RunSpec
from naslab.targets import Target, parse_target

CLIENTS = Path(__file__).parent / "clients"
FILE = "bench.file"
METADATA = ("create", "stat", "remove")


@dataclass(frozen=True)
class Load:
    """One cell of the comparison: `count` operations of `block_bytes` at a depth."""

    op: str
    block_bytes: int
    depth: int
    count: int

    @property
    def name(self) -> str:
        """As the table shows it."""
        size = f"{self.block_bytes >> 20} MiB" if self.block_bytes >= 1 << 20 else f"{self.block_bytes >> 10} KiB"
        return f"{self.op} {size} depth {self.depth}" if self.block_bytes else f"{self.op}, files/s"


@dataclass(frozen=True)
class Figures:
    """What one run of a load gave. per_s: operations; cpu_s_per_gib: of the client; p50_us: of an operation."""

    per_s: float
    cpu_s_per_gib: float
    p50_us: float


LOADS = (
    Load("write", 1 << 20, 1, 512), Load("read", 1 << 20, 1, 512), Load("write", 1 << 20, 8, 512),
    Load("read", 1 << 20, 8, 512), Load("write", 64 << 10, 1, 2048), Load("read", 64 << 10, 1, 2048),
    Load("write", 64 << 10, 32, 4096), Load("read", 64 << 10, 32, 4096), Load("random_read", 4 << 10, 1, 16384),
    Load("random_read", 4 << 10, 32, 32768), *(Load(op, 0, 1, 2000) for op in METADATA),
)  # fmt: skip
SLOW_LOADS = tuple(dataclasses.replace(load, count=max(load.count // 16, 32)) for load in LOADS)
"""For a peer that signs or encrypts at less than 100 MB/s; ratios hold all the same."""


def _ours(target: Target, load: Load) -> Figures:
    if load.op in METADATA:
        return _our_metadata(target, load)
    cell = CellSpec(
        load.op, load.block_bytes * load.count, load.block_bytes, [FILE], queue_depth=load.depth,
        pattern="random" if load.op == "random_read" else "sequential",
        write_fraction=1.0 if load.op == "write" else 0.0, create="if_missing" if load.op == "write" else "never",
        stop_ops=load.count, flush="none", data=DataSpec("fill", fill=7),
    )  # fmt: skip
    results: list[dict[str, Any]] = []

    def on_event(kind: str, text: str, _blobs: list[bytes]) -> None:
        if kind == "cell":
            results.append(json.loads(text))

    spec = RunSpec(target.engine_spec(), [cell], run_id="bench", existing="overwrite")
    _engine.run(spec.to_json(), "{}", on_event)
    found = results[0]
    if found["errors"] or found["ops"] != load.count:
        raise RuntimeError(f"{load.name}: {found['errors']} errors, {found['ops']} operations: {found['first_error']}")
    cpu_s = (found["cpu_user_ns"] + found["cpu_system_ns"]) / 1e9
    gib = load.block_bytes * load.count / (1 << 30)
    kind = next(iter(found["kinds"].values()))
    return Figures(load.count * 1e9 / found["window_ns"], cpu_s / gib, kind["latency_ns"]["p50"] / 1e3)


def _our_metadata(target: Target, load: Load) -> Figures:
    session = _engine.Session(target.engine_json(), 1)
    options = json.dumps({"read": True, "write": True, "create": "new"})
    calls: dict[str, Callable[[str], object]] = {
        "create": lambda path: session.close(session.open(path, options)),
        "stat": session.stat,
        "remove": session.remove,
    }
    call = calls[load.op]
    start = time.perf_counter()
    for number in range(load.count):
        call(f"{FILE}.{number}")
    per_s = load.count / (time.perf_counter() - start)
    session.end()
    return Figures(per_s, 0.0, 0.0)


def _peer(program: Path, arguments: list[str], load: Load, options: list[str], env: dict[str, str]) -> Figures:
    words = [load.op, str(load.block_bytes), str(load.depth), str(load.count)]
    done = subprocess.run(
        [str(program), *arguments, *words, *options], capture_output=True, text=True, env=env, check=False
    )
    if done.returncode != 0:
        raise Skip(f"{program.name} {load.name}: {done.stderr.strip()}")
    found = json.loads(done.stdout)
    gib = max(found["bytes"] / (1 << 30), 1e-9)
    return Figures(found["ops"] / found["seconds"], found["cpu_s"] / gib, found["p50_us"])


def _with_library(library: str, folder: Path) -> Path:
    """The program of a peer that is a library. Raises Skip when that is not there."""
    if shutil.which("pkg-config") is None:
        raise Skip("pkg-config is not installed")
    asked = subprocess.run(["pkg-config", "--cflags", "--libs", library], capture_output=True, text=True, check=False)
    if asked.returncode != 0:
        raise Skip(f"{library} is not installed (set PKG_CONFIG_PATH for one built apart)")
    flags = asked.stdout.split()
    return _compile(library, folder, [*flags, *(f"-Wl,-rpath,{flag[2:]}" for flag in flags if flag.startswith("-L"))])


def _compile(name: str, folder: Path, flags: Sequence[str] = ()) -> Path:
    """A peer's program. Raises Skip where there is no compiler, or it does not compile."""
    if shutil.which("cc") is None:
        raise Skip("a C compiler is not installed")
    program = folder / f"{name}-load"
    command = ["cc", "-O2", "-o", str(program), str(CLIENTS / f"{name}.c"), *flags]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Skip(f"{name} is too old or broken: {done.stderr.strip().splitlines()[-1]}")
    return program


@contextlib.contextmanager
def _server(name: str) -> Iterator[Server]:
    with lab.running(name, fast=True) as server:
        yield server


def _target(server: Server, query: str) -> Target:
    return server.logged_in(parse_target(f"{server.url}{'&' if '?' in server.url else '?'}{query}"))


def _rows(what: str, peer_name: str, ours: list[Figures], peer: list[Figures], load: Load) -> list[Row]:
    """Speed (IOPS or median latency at 4 KiB depth 1) and client CPU per GiB."""
    name = f"{what}: {load.name}"
    if load.block_bytes == 4096 and load.depth == 1:
        rows = [_row(f"{name}, p50 us", [f.p50_us for f in ours], [f.p50_us for f in peer], peer_name, 1.0, lower=True)]
    elif load.block_bytes > 4096:
        rate = [[f.per_s * load.block_bytes / 1e6 for f in side] for side in (ours, peer)]
        rows = [_row(f"{name}, MB/s", rate[0], rate[1], peer_name, 1.0)]
    else:
        label = name if load.op in METADATA else f"{name}, IOPS"
        rows = [_row(label, [f.per_s for f in ours], [f.per_s for f in peer], peer_name, 1.0)]
    if load.block_bytes >= 64 << 10:
        cpu = [[f.cpu_s_per_gib for f in side] for side in (ours, peer)]
        rows.append(_row(f"{name}, CPU s/GiB", cpu[0], cpu[1], peer_name, 1.0, lower=True))
    return rows


def _row(name: str, ours: list[float], peer: list[float], note: str, bar: float | None, lower: bool = False) -> Row:
    """Missed only when the interval of the median ratio lies wholly below the bar; without a bar for knowledge."""
    ratios = [b / a if lower else a / b for a, b in zip(ours, peer, strict=True)]
    middle, low = median(ratios), bootstrap_low(ratios)
    if bar is None:
        return Row(name, median(ours), median(peer), middle, low, "", None, note=f"beside {note}; no bar")
    high = 1 / bootstrap_low([1 / ratio for ratio in ratios])
    met = True if middle >= bar else None if high >= bar else False
    return Row(name, median(ours), median(peer), middle, low, f">= {bar:g}x {note}", met)


SMB_MODES = {
    "smb unsigned": ("dialect=3.1.1&sign=off", ["0x0311"], LOADS),
    "smb signed": ("dialect=3.1.1&sign=on", ["0x0311", "sign"], SLOW_LOADS),
    "smb encrypted": ("dialect=3.1.1&encrypt=aes128gcm", ["0x0311", "seal"], SLOW_LOADS),
}


def smb(folder: Path, rounds: int) -> list[Row]:
    """Against libsmb2 per load, and against smbclient's put and get."""
    program = _with_library("libsmb2", folder)
    rows: list[Row] = []
    with _server("samba") as server:
        env = {**os.environ, "NASLAB_USER": server.user, "NASLAB_PASSWORD": server.password}
        where = [f"127.0.0.1:{server.port}", "data", FILE]
        for what, (query, options, loads) in SMB_MODES.items():
            target = _target(server, query)
            for load in loads:
                ours, peer = _both(
                    target, load, lambda load=load, o=options: _peer(program, where, load, o, env), rounds
                )
                rows += _rows(what, "libsmb2", ours, peer, load)
        rows += _smbclient(server, folder, rounds)
    return rows


def _both(target: Target, load: Load, peer: Callable[[], Figures], rounds: int) -> tuple[list[Figures], list[Figures]]:
    """Rounds of both, one after the other. Created files are removed in between, so that both create theirs."""
    if load.op not in METADATA:
        return interleave(lambda: _ours(target, load), peer, rounds)  # type: ignore[arg-type]
    clear, make = (dataclasses.replace(load, op=op) for op in ("remove", "create"))

    def around(measure: Callable[[], Figures]) -> Figures:
        if load.op != "create":
            _our_metadata(target, make)
        found = measure()
        if load.op != "remove":
            _our_metadata(target, clear)
        return found

    return interleave(lambda: around(lambda: _ours(target, load)), lambda: around(peer), rounds)  # type: ignore[arg-type]


def _smbclient(server: Server, folder: Path, rounds: int) -> list[Row]:
    """smbclient's own figures of put and get, beside 1 MiB operations at depth 8."""
    if shutil.which("smbclient") is None:
        return [Row.skipped("smbclient", "not installed")]
    rows = []
    with _in_memory(512 << 20) as source:
        for what, query, options in (
            ("default", "sign=off", []),
            ("signed", "sign=on", ["--client-protection=sign"]),
            ("encrypted", "encrypt=aes128gcm", ["--client-protection=encrypt"]),
        ):
            target = _target(server, query)
            for op, command in (("write", f"put {source} {FILE}"), ("read", f"get {FILE} /dev/null")):
                load = Load(op, 1 << 20, 8, 512)
                ours, peer = interleave(
                    lambda target=target, load=load: _ours(target, load).per_s * 1.048576,
                    lambda command=command, options=options: _put_or_get(server, command, options),
                    rounds,
                )
                rows.append(_row(f"smb {what}: {op} 1 MiB depth 8, MB/s", ours, peer, "smbclient", 1.0))
    return rows


@contextlib.contextmanager
def _in_memory(size: int) -> Iterator[Path]:
    path = Path("/dev/shm") / f"naslab-bench-{os.getpid()}"
    try:
        path.write_bytes(os.urandom(1 << 20) * (size >> 20))
        yield path
    finally:
        path.unlink(missing_ok=True)


def _put_or_get(server: Server, command: str, options: list[str]) -> float:
    """MB/s as smbclient reports them."""
    words = [
        "smbclient",
        "//127.0.0.1/data",
        "-p",
        str(server.port),
        "-A",
        str(server.credentials),
        *options,
        "-c",
        command,
    ]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    found = re.search(r"\(([\d.]+) (?:kb/s|KiloBytes/sec)\)", done.stdout + done.stderr)
    if found is None:
        raise Skip(f"smbclient says no rate: {done.stdout.strip()}")
    return float(found[1]) * 1024 / 1e6


def nfs(folder: Path, rounds: int) -> list[Row]:
    """Versions 3 and 4.0 against libnfs per load, 4.1 against our own version 3."""
    program = _with_library("libnfs", folder)
    rows: list[Row] = []
    with _server("ganesha") as server:
        ports = [str(server.port), str(server.mount_port)]
        for version, spoken in (("3", "3"), ("4.0", "4")):
            target = _target(server, f"version={version}")
            for load in LOADS:
                peer = lambda load=load, o=[spoken, *ports]: _peer(  # noqa: E731
                    program, ["127.0.0.1", "/data", f"/{FILE}"], load, o, dict(os.environ)
                )
                ours, theirs = _both(target, load, peer, rounds)
                rows += _rows(f"nfs {version}", "libnfs", ours, theirs, load)
        newer, older = _target(server, "version=4.1"), _target(server, "version=3")
        for load in LOADS[:10]:
            ours, theirs = interleave(
                lambda load=load: _ours(newer, load).per_s, lambda load=load: _ours(older, load).per_s, rounds
            )
            rows.append(_row(f"nfs 4.1: {load.name}, ops/s", ours, theirs, "our NFS 3", 0.9))
    return rows


RAW_LOADS = (
    Load("write", 1 << 20, 8, 512), Load("read", 1 << 20, 8, 512), Load("write", 64 << 10, 32, 4096),
    Load("read", 64 << 10, 32, 4096),
)  # fmt: skip
RAW_CPU = Load("read", 1 << 20, 8, 512)
"""The load whose processor time has a bar: what receiving costs, with no file service in between."""
AS_RAW = 0.8
"""Raw TCP's processor time divided by ours, at least; of clients that neither sign nor encrypt."""


def raw_tcp(folder: Path, rounds: int) -> list[Row]:
    """Both clients beside raw TCP of the same sizes and depths: the limit that this machine's loopback sets."""
    program = _compile("tcp", folder)
    rows: list[Row] = []
    for name, modes in (
        ("samba", {what: query for what, (query, _options, _loads) in SMB_MODES.items()}),
        ("ganesha", {"nfs 3": "version=3", "nfs 4.1": "version=4.1"}),
    ):
        with _server(name) as server:
            for what, query in modes.items():
                target = _target(server, query)
                for load in RAW_LOADS:
                    ours, raw = _both(
                        target, load, lambda load=load: _peer(program, ["", "", ""], load, [], dict(os.environ)), rounds
                    )
                    rows += _raw_rows(what, load, ours, raw)
    return rows


def _raw_rows(what: str, load: Load, ours: list[Figures], raw: list[Figures]) -> list[Row]:
    """The share of raw TCP's rate, without a bar (the server works, too), and of its processor time."""
    rate = [[f.per_s * load.block_bytes / 1e6 for f in side] for side in (ours, raw)]
    cpu = [[f.cpu_s_per_gib for f in side] for side in (ours, raw)]
    plain = what not in ("smb signed", "smb encrypted")
    return [
        _row(f"{what}: {load.name}, MB/s", rate[0], rate[1], "raw TCP", None),
        _row(
            f"{what}: {load.name}, CPU s/GiB", cpu[0], cpu[1], "raw TCP",
            AS_RAW if plain and load == RAW_CPU else None, lower=True,
        ),
    ]  # fmt: skip
