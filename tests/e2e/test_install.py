"""Set-up as a user does it: `pip install .`, and words instead of stack traces where a tool is missing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.timeout(900)
def test_pip_install_builds_an_abi3_package(tmp_path: Path) -> None:
    place = tmp_path / "site"
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", place, ROOT],
        check=True, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert (place / "naslab" / "_engine.abi3.so").exists()
    assert (place / "naslab" / "render" / "report" / "assets").is_dir()
    wheel = next(place.glob("naslab-*.dist-info/WHEEL")).read_text()
    assert "Tag: cp311-abi3-" in wheel
    done = subprocess.run(
        [sys.executable, "-c", "import naslab, naslab.cli as c; print(naslab.__file__); c.main(['--version'])"],
        env={**os.environ, "PYTHONPATH": str(place)}, capture_output=True, text=True, check=True, cwd=tmp_path,
    )  # fmt: skip
    where, version = done.stdout.splitlines()
    assert Path(where).is_relative_to(place)
    assert version.startswith("naslab 0.")


@pytest.mark.parametrize(
    ("there", "named"),
    [
        ((), ("Python 3.11", "cargo was not found", "cc was not found")),
        (("python3",), ("cargo was not found", "https://rustup.rs")),
        (("python3", "cargo"), ("cc was not found", "build-essential")),
    ],
)
def test_missing_tools_are_named_with_the_way_to_get_them(
    tmp_path: Path, there: tuple[str, ...], named: tuple[str, ...]
) -> None:
    for tool in ("sh", "cut", "sort", "head", "printf"):
        (tmp_path / tool).symlink_to(shutil.which(tool) or f"/bin/{tool}")
    for tool in there:
        (tmp_path / tool).symlink_to(_real(tool))
    home = {name: os.environ[name] for name in ("HOME", "CARGO_HOME", "RUSTUP_HOME") if name in os.environ}
    done = subprocess.run(
        [shutil.which("sh") or "/bin/sh", ROOT / "tools" / "need-tools"],
        env={"PATH": str(tmp_path), **home}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stdout == ""
    for text in named:
        assert text in done.stderr
    for tool in there:
        assert f"({tool} was not found" not in done.stderr
    assert "Traceback" not in done.stderr


def test_a_cargo_without_a_toolchain_is_no_stack_trace(tmp_path: Path) -> None:
    broken = tmp_path / "cargo"
    broken.write_text("#!/bin/sh\necho 'Stack backtrace:' >&2; exit 1\n")
    broken.chmod(0o755)
    done = subprocess.run(
        [ROOT / "tools" / "need-tools"], env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "rustup default stable" in done.stderr
    assert "backtrace" not in done.stderr


def _real(tool: str) -> str:
    return os.path.realpath(sys.executable) if tool == "python3" else str(shutil.which(tool))
