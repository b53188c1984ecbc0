"""What naslab is built from is named with hashes and may be used; what .xls needs is asked for only there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cli_tools import Cli

ROOT = Path(__file__).parents[2]
WITHOUT = """
import sys
sys.modules["xlrd"] = sys.modules["xlwt"] = None
import importlib.util
real = importlib.util.find_spec
importlib.util.find_spec = lambda name, *more: None if name in ("xlrd", "xlwt") else real(name, *more)
from naslab.cli import main
sys.exit(main(sys.argv[1:]))
"""


def supply(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "tools" / "check-supply"), *words]
    return subprocess.run(command, check=False, capture_output=True, text=True, env={**os.environ, **env})


@pytest.mark.parametrize("part", ["constraints", "licences"])
def test_what_naslab_is_built_from(part: str) -> None:
    done = supply(part)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(("fixed", "told"), [("999", "numpy"), ("0.1", "")])
def test_an_advisory_is_told(fixed: str, told: str, tmp_path: Path) -> None:
    span = {"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": fixed}]}
    advisory = {"id": "X-1", "affected": [{"package": {"ecosystem": "PyPI", "name": "numpy"}, "ranges": [span]}]}
    (tmp_path / "one.json").write_text(json.dumps(advisory))
    done = supply("advisories", NASLAB_ADVISORIES=str(tmp_path))
    assert (done.returncode == 1) == bool(told) and told in done.stdout, done.stdout + done.stderr


def test_without_the_extra_old_workbooks_are_named(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "new.xls").write_bytes(bytes.fromhex("d0cf11e0a1b11ae1") + bytes(1024))
    for words in (
        ["import", str(tmp_path / "new.xls")],
        ["iozone", "-i", "0", "-s", "64", "-r", "4", "-f", "target/f", "-b", "out.xls"],
    ):
        command = [sys.executable, "-c", WITHOUT, *words]
        done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=cli.folder, env=cli.env)
        assert done.returncode == 2 and "naslab[xls]" in done.stderr, done.stdout + done.stderr
