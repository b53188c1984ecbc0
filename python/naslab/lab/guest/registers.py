"""On processors with AMX, a guest's kernel starts with a small library that completes its programs' registers.

Linux 6.1's user-mode kernel panics there (`put_fp_registers`); registers.c says why. The library is built where it is
needed, by the machine's own compiler.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from naslab.errors import TargetError
from naslab.lab.systems import search_path

PROGRAMS = {"cc": "gcc"}
"""The program that builds it, and its Debian package."""
_SOURCE = Path(__file__).with_suffix(".c")
_FLAG = "amx_tile"


def needed(info: str | None = None) -> bool:
    """Whether this machine's processor has registers that a guest's kernel has no space for.

    info: what /proc/cpuinfo says; None for this machine's.
    """
    text = Path("/proc/cpuinfo").read_text(encoding="utf-8") if info is None else info
    flags = next((line for line in text.splitlines() if line.startswith("flags")), "")
    return _FLAG in flags.split()


def build(folder: Path) -> Path:
    """The library, in `folder`; built where it is not there. Raises TargetError where the compiler fails."""
    made = folder / "registers.so"
    if made.exists():
        return made
    command = ["cc", "-O2", "-shared", "-fPIC", "-o", str(made), str(_SOURCE), "-ldl"]
    done = subprocess.run(
        command, env={"PATH": search_path(), "HOME": str(folder)}, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise TargetError(f"lab: {' '.join(command)} failed: {done.stderr.strip()[-500:]}")
    return made
