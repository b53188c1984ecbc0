"""Wheels: their tags, what they need of a system, and naslab installed from them where nothing else is."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
import venv
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from naslab import lab
from root_tools import PIP, base_root, emulated

ROOT = Path(__file__).parents[2]
Made = Callable[[str], tuple[Path, ...]]
SIM = ("run", "sim:?link_bytes_per_s=125MB&latency_ns=200us", "--budget", "20s", "--quiet")
pytestmark = pytest.mark.timeout(3600)  # the first test builds four


def wheel(made: Made, system: str, machine: str) -> Path:
    (found,) = (each for each in made("wheels") if f"-{system}" in each.name and each.stem.endswith(machine))
    return found


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
@pytest.mark.parametrize(("system", "tag"), [("manylinux", "manylinux_2_17"), ("musllinux", "musllinux_1_2")])
def test_a_wheel_has_one_extension_for_every_python(made: Made, system: str, tag: str, machine: str) -> None:
    path = wheel(made, system, machine)
    assert path.name.startswith("naslab-") and "-cp311-abi3-" in path.name and f"{tag}_{machine}" in path.name
    assert path.stat().st_size < 10_000_000
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        assert [name for name in names if name.endswith(".so")] == ["naslab/_engine.abi3.so"]
        assert all(name.startswith(("naslab/", "naslab-")) for name in names)
        assert any(name.startswith("naslab/render/report/assets/") for name in names)
        assert not [name for name in names if name.endswith(".pyc")]
        (meta,) = (name for name in names if name.endswith(".dist-info/WHEEL"))
        told = archive.read(meta).decode()
        engine = archive.read("naslab/_engine.abi3.so")
    tags = {f"cp311-abi3-{each}" for each in path.stem.split("-")[-1].split(".")}
    assert set(re.findall(r"^Tag: (.*)$", told, re.MULTILINE)) == tags
    for leak in (str(ROOT), str(Path.home() / ".cargo")):
        assert leak.encode() not in engine, "a path of the machine that built it"


def test_an_installed_wheel_runs_from_an_empty_home(made: Made, tmp_path: Path) -> None:
    path = wheel(made, "manylinux", platform.machine())
    place, home = tmp_path / "venv", tmp_path / "home"
    home.mkdir()
    venv.create(place, with_pip=True)
    python = place / "bin" / "python"
    subprocess.run([python, *PIP, "--require-hashes", "-r", ROOT / "constraints" / "run.txt"], check=True)
    subprocess.run([python, *PIP, "--no-deps", "--no-index", path], check=True)
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "COLUMNS": "100", "LC_ALL": "C.UTF-8"}
    where = [python, "-c", "import naslab; print(naslab.__file__)"]
    done = subprocess.run(where, env=environment, cwd=home, capture_output=True, text=True, check=True)
    assert Path(done.stdout.strip()).is_relative_to(place)
    for words in (SIM, ("show", "last"), ("report", "last", "-o", "report.html"), ("doctor", str(home))):
        done = subprocess.run(
            [place / "bin" / "naslab", *words], env=environment, cwd=home, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, (words, done.stdout, done.stderr)
    assert (home / "report.html").stat().st_size > 1_000_000
    assert next((home / ".local").rglob("*.sqlite*")).is_file()


def test_the_arm_extension_measures_under_an_emulator(made: Made, tmp_path: Path) -> None:
    """With the Python of a Debian 12 for ARM; the digits are those of this machine."""
    root = base_root("arm64", "python3")
    place = tmp_path / "wheel"
    with zipfile.ZipFile(wheel(made, "manylinux", "aarch64")) as archive:
        archive.extractall(place)
    (place / "measure.py").write_text(MEASURE)
    told = emulated(root, "usr/bin/python3.11", place / "measure.py", place / "naslab")
    here = subprocess.run(
        [sys.executable, place / "measure.py", ROOT / "python" / "naslab"], capture_output=True, text=True, check=True
    )
    assert told == here.stdout
    assert told.count("read") >= 1


def test_the_main_job_on_arm(made: Made, tmp_path: Path) -> None:
    """That of `make demo`, by the wheel and the pinned packages for ARM; the NFS server is this machine's own."""
    root, place = base_root("arm64", "python3", "libstdc++6", "zlib1g"), tmp_path / "packages"
    wanted = ["--target", place, "--python-version", "3.11", "--only-binary=:all:", "--no-deps", "--require-hashes"]
    systems = [word for each in ("2_28", "2_17") for word in ("--platform", f"manylinux_{each}_aarch64")]
    systems += ["--platform", "manylinux2014_aarch64"]
    pinned = ["-r", ROOT / "constraints" / "run.txt"]
    subprocess.run([sys.executable, *PIP, *wanted, *systems, *pinned], check=True, stdin=subprocess.DEVNULL)
    with zipfile.ZipFile(wheel(made, "manylinux", "aarch64")) as archive:
        archive.extractall(place)
    store, report = tmp_path / "runs.sqlite", tmp_path / "report.html"
    home = {"PYTHONPATH": str(place), "HOME": str(tmp_path), "OPENBLAS_CORETYPE": "ARMV8"}
    with lab.running("demo") as server:
        words = ("run", server.url, "--budget", "60s", "--store", store, "-o", report, "--quiet", "--json")
        told = json.loads(emulated(root, "usr/bin/python3.11", "-m", "naslab", *words, environment=home))
    assert told["status"] == "complete" and told["environment"]["client"]["machine"] == "aarch64"
    assert {"write", "read", "random_read"} <= {cell["op"] for cell in told["cells"] if cell["bytes"]}
    assert told["verdict"]["limits"] and report.stat().st_size > 1_000_000


MEASURE = '''
"""Loads the extension alone (its package needs others, which are not here) and measures a simulated server."""
import importlib.machinery, importlib.util, json, sys, types

folder = sys.argv[1]
package = types.ModuleType("naslab")
package.__path__ = [folder]
sys.modules["naslab"] = package
from naslab import _engine

cell = {
    "op": "write", "file_bytes": 1 << 20, "record_bytes": 4096, "files": ["naslab.0"], "id": 0, "workers": 2,
    "queue_depth": 4, "pattern": "random", "stride_records": 1, "write_fraction": 0.5, "read_workers": None, "seed": 3,
    "create": "if_missing", "remove_before": False, "truncate": False, "direct": False, "sync": "none",
    "access": "positioned", "lock": "none", "cold": False, "prime": True, "stop_bytes": None, "stop_ops": 500,
    "duration_ns": None, "warmup_ns": 0, "stonewall": False, "flush": "all", "timed_flush": False, "timed_close": False,
    "think_ns": 0, "pace": None, "data": {"kind": "random", "compress_ratio": 1.0, "dedupe_ratio": 1.0, "fill": 0},
    "verify": False, "interval_ns": 1000000000, "record_ops": False,
}
spec = {
    "schema": 1, "run_id": "arm", "command": "run", "folder": "naslab-arm", "cells": [cell], "cleanup_files": [],
    "seed": 3, "timeout_ns": 10**10, "progress_interval_ns": 10**9,
    "target": {"protocol": "sim", "options": {"link_bytes_per_s": 125000000, "latency_ns": 200000, "seed": 3}},
}

def listen(kind, text, blobs):
    if kind == "cell":
        found = json.loads(text)
        print(json.dumps([found["bytes"], found["window_ns"], found["kinds"]], sort_keys=True), len(blobs))

print(json.loads(_engine.run(json.dumps(spec), "{}", listen))["status"])
'''
