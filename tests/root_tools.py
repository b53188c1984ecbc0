"""Roots of Debian systems that packages are installed into, for tests. Made once, and copied for each test."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from dist import mirror

from cli_tools import need

ROOT = Path(__file__).parents[1]
KEPT = ROOT / "target" / "packages" / "roots"
SUITE = "bookworm"
EMULATOR = "qemu-aarch64-static"
PIP = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check")


@cache
def base_root(architecture: str, *packages: str) -> Path:
    """A Debian root with these packages; skips, or fails when the lab is required, where none can be made."""
    need(os.geteuid() == 0, "root")
    need(shutil.which("debootstrap"), "debootstrap (apt install debootstrap)")
    foreign = architecture != subprocess.run(
        ["dpkg", "--print-architecture"], check=True, capture_output=True, text=True
    ).stdout.strip()  # fmt: skip
    need(not foreign or shutil.which(EMULATOR), f"{EMULATOR} (apt install qemu-user-static)")
    place = KEPT / "-".join((SUITE, architecture, *packages))
    if (place / "complete").exists():
        return place
    shutil.rmtree(place, ignore_errors=True)
    place.parent.mkdir(parents=True, exist_ok=True)
    command = ["debootstrap", "--variant=minbase", f"--arch={architecture}", f"--include={','.join(packages)}"]
    first = subprocess.run(
        [*command, *(["--foreign"] if foreign else []), SUITE, place, mirror()],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip
    need(first.returncode == 0, f"Debian's {architecture} packages ({first.stdout[-200:]}{first.stderr[-200:]})")
    if foreign:
        # Nothing is configured: that would need a kernel that starts foreign programs. Files are enough for `emulated`.
        for package in (place / "var" / "cache" / "apt" / "archives").glob("*.deb"):
            subprocess.run(["dpkg-deb", "--extract", package, place], check=True)
    (place / "complete").touch()
    return place


def copied(base: Path, folder: Path) -> Path:
    """A copy that a test may change."""
    place = folder / "root"
    subprocess.run(["cp", "-a", base, place], check=True)
    return place


def emulated(root: Path, program: str, *arguments: str | Path, environment: Mapping[str, str] | None = None) -> str:
    """What a program of a foreign root prints, outside of it. Fails where it does. environment: added to this one."""
    command = [EMULATOR, "-L", root, root / program, *arguments]
    done = subprocess.run(
        command, env={**os.environ, **(environment or {})}, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def run_in(root: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """A command in a root, with nothing of this process's environment. Mounts end with it."""
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LC_ALL": "C.UTF-8", "COLUMNS": "100"}
    words = ["unshare", "--mount", "--pid", "--fork", "sh", "-ec"]
    script = 'mount -t proc proc "$0/proc"; exec chroot "$0" "$@"'
    return subprocess.run(
        [*words, script, root, *command], env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip


def chroot(root: Path, *command: str) -> str:
    """What a command in a root prints. Fails where it does."""
    done = run_in(root, *command)
    assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}"
    return done.stdout
