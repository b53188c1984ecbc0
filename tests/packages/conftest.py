"""Packages as the tools make them; what was made before is only looked through."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@cache
def _made(tool: str) -> tuple[Path, ...]:
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / tool], cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return tuple(ROOT / line.split("  ")[0] for line in done.stdout.splitlines())


@pytest.fixture(scope="session")
def made() -> Callable[[str], tuple[Path, ...]]:
    """Calls one of tools/agent, wheels, deb and the like; the packages that it made."""
    return _made
