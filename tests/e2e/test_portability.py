"""What measures a server compiles for Windows and macOS; that it works there, tests/packages/test_windows.py shows."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PARTS = (
    "core", "wire", "workload", "gss", "target-smb", "target-nfs", "target-null", "target-sim", "engine", "targets",
    "agent",
)  # fmt: skip
"""Crates: all that measures SMB, NFS and simulated servers."""
pytestmark = [pytest.mark.lab, pytest.mark.timeout(900)]


@pytest.mark.parametrize("system", ["x86_64-pc-windows-gnu", "aarch64-apple-darwin"])
def test_what_measures_servers_compiles(system: str) -> None:
    sysroot = subprocess.run(["rustc", "--print", "sysroot"], check=True, capture_output=True, text=True).stdout.strip()
    if not Path(sysroot, "lib", "rustlib", system, "lib").is_dir():
        pytest.skip(f"Rust cannot build for {system}: rustup target add {system}")
    parts = [word for crate in PARTS for word in ("--package", f"naslab-{crate}")]
    command = ["cargo", "check", "--quiet", "--target", system, *parts]
    more = {"RUSTFLAGS": "-D warnings", "CARGO_TARGET_DIR": str(ROOT / "target" / "portability")}
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, **more}, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-6000:]
