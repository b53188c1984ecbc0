"""Runs of the agent beside those of Python, for tests."""

from __future__ import annotations

import base64
import dataclasses
import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from naslab import _engine
from naslab.execution.workspace import owner_mark
from naslab.spec import CellSpec, RunSpec
from naslab.targets import parse_target

ROOT = Path(__file__).parents[1]
MACHINE = {
    "start_wall_ns", "cpu_user_ns", "cpu_system_ns", "generation_cpu_ns", "verify_cpu_ns", "client",
    "storage_read_bytes", "storage_write_bytes",
}  # fmt: skip
"""Of a cell: what depends on the machine and its load also where the server is simulated."""
SIM = "sim:?link_bytes_per_s=125MB&latency_ns=200us&server_cache_bytes=1m&disk_read_bytes_per_s=60MB&store_data=true"


def built() -> Path:
    """The program as cargo builds it with all Rust tests, as `make test` did; one crate alone would be built anew."""
    command = ["cargo", "test", "--workspace", "--quiet", "--no-run", "--tests"]
    subprocess.run(command, cwd=ROOT, check=True, stdin=subprocess.DEVNULL)
    return Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"), "debug", "naslab-agent")


TESTED = ("core", "wire", "workload", "gss", "target-smb", "target-nfs", "target-sim", "engine", "agent")
"""Crates whose tests are run for other systems: protocols, codecs, ciphers, the simulated server and the engine."""


def check_parts(
    target: str, linker: str, runner: str | Path, crates: Sequence[str] = TESTED, beyond: Sequence[str] = ()
) -> None:
    """Runs their tests as programs for another system, under what runs those here. Fails where one does. beyond: tests
    of what the runner cannot do."""
    upper = target.upper().replace("-", "_")
    environment = {
        **os.environ, f"CARGO_TARGET_{upper}_LINKER": linker, f"CARGO_TARGET_{upper}_RUNNER": str(runner),
        "CARGO_PROFILE_DEV_DEBUG": "none", "CARGO_PROFILE_TEST_DEBUG": "none",
        "CARGO_TARGET_DIR": str(ROOT / "target" / "packages"),
    }  # fmt: skip
    parts = [word for crate in crates for word in ("--package", f"naslab-{crate}")]
    command = ["cargo", "test", "--quiet", "--target", target, "--lib", "--bins", "--tests", "--no-fail-fast", *parts]
    command += ["--", *(word for name in beyond for word in ("--skip", name))]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr)[-6000:]
    assert done.stdout.count("test result: ok") >= len(crates)


def specification(target: str, seed: int = 11, depth: int = 8) -> RunSpec:
    """Writes, reads and mixes, up to a depth."""
    file: dict[str, Any] = {"file_bytes": 4 << 20, "files": ["naslab.0"]}
    cells = [
        CellSpec(op="write", record_bytes=65536, create="if_missing", write_fraction=1.0, verify=True, **file),
        CellSpec(op="read", id=1, record_bytes=65536, queue_depth=min(depth, 4), verify=True, **file),
        CellSpec(op="random_read", id=2, record_bytes=4096, pattern="random", stop_ops=600, queue_depth=depth, **file),
        CellSpec(
            op="mixed", id=3, record_bytes=8192, pattern="random", stop_ops=400, write_fraction=0.3, workers=2,
            record_ops=True, **file,
        ),
    ]  # fmt: skip
    made = parse_target(target).seeded(seed).engine_spec()
    return RunSpec(target=made, cells=cells, run_id="20261127-120000-test", folder="", seed=seed)


def lines_of(output: bytes) -> list[dict[str, Any]]:
    """What the agent wrote."""
    return [json.loads(line) for line in output.splitlines()]


def by_agent(program: Sequence[str | Path], spec: RunSpec) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """How a run of the agent ended, and its cells, each with its blobs."""
    done = subprocess.run([*program, "run"], input=spec.to_json().encode(), capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    lines = lines_of(done.stdout)
    cells = [line for line in lines if line["event"] == "cell"]
    found = [{**line["data"], "blobs": [base64.b64decode(blob) for blob in line["blobs"]]} for line in cells]
    return lines[-1]["data"], found


def by_python(spec: RunSpec) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The same from the extension module."""
    cells: list[dict[str, Any]] = []

    def listen(kind: str, text: str, blobs: list[bytes]) -> None:
        if kind == "cell":
            cells.append({**json.loads(text), "blobs": list(blobs)})

    spec = dataclasses.replace(spec, folder=f"naslab-{spec.run_id}")
    return json.loads(_engine.run(spec.to_json(), owner_mark(spec.run_id), listen)), cells


def digits(cells: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """What the simulated server, and nothing else, says. Times count from the first cell: the mark in the run's folder,
    with the number of its process, is written before, and takes a time of its own."""
    begun_ns = cells[0]["start_ns"]

    def since(values: dict[str, Any]) -> dict[str, Any]:
        return {**values, "start_ns": values["start_ns"] - begun_ns, "end_ns": values["end_ns"] - begun_ns}

    kept = [{name: value for name, value in cell.items() if name not in MACHINE} for cell in cells]
    return [{**since(cell), "workers": [since(each) for each in cell["workers"]]} for cell in kept]


def peak_kib(program: Sequence[str | Path], spec: RunSpec) -> int:
    """The most memory that a run of the agent had at once, in KiB."""
    found: int = by_agent(program, spec)[0]["memory_peak_bytes"]
    assert found > 1 << 20
    return found >> 10
