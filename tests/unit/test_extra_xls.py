"""Without the extra `xls`: a .xls is refused before anything is done, and all else works."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cli_tools import HANG_S

SAMPLES = Path(__file__).parents[1] / "samples"
OLE2 = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(2000)
WITHOUT = "import sys; sys.modules.update(xlrd=None, xlwt=None); from naslab.cli import entry; sys.exit(entry())"


def naslab(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """The command line where neither library can be imported."""
    environment = dict(os.environ, NASLAB_STORE=str(folder / "store.db"))
    command = [sys.executable, "-c", WITHOUT, *words]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=HANG_S
    )


@pytest.mark.parametrize("name", ["out.xls", "out"])
def test_a_spreadsheet_is_refused_before_the_run(tmp_path: Path, name: str) -> None:
    done = naslab(tmp_path, "iozone", "-a", "-s", "64k", "-r", "64k", "-i", "0", "-f", "t", "-b", name)
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert f"-b {name}: a .xls" in done.stderr and "pip install 'naslab[xls]'" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_an_xlsx_needs_neither(tmp_path: Path) -> None:
    done = naslab(tmp_path, "iozone", "-a", "-s", "64k", "-r", "64k", "-i", "0", "-f", "t", "-b", "out.xlsx")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out.xlsx").stat().st_size > 1000


@pytest.mark.parametrize("command", ["import", "audit"])
def test_a_file_is_refused_whole(tmp_path: Path, command: str) -> None:
    (tmp_path / "saved.xls").write_bytes(OLE2)
    done = naslab(tmp_path, command, str(SAMPLES / "iozone_auto.xls"), "saved.xls")
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert "saved.xls is a .xls" in done.stderr and "pip install 'naslab[xls]'" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["saved.xls"]


def test_iozones_own_files_need_neither(tmp_path: Path) -> None:
    done = naslab(tmp_path, "import", str(SAMPLES / "iozone_auto.xls"))
    assert done.returncode == 0 and "Imported" in done.stdout, done.stderr
