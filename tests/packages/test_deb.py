"""The Debian package: in order by Debian's own check, and installed, run and removed where nothing else is."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from cli_tools import need
from root_tools import base_root, chroot, copied, run_in

Made = Callable[[str], tuple[Path, ...]]
DEPENDS = ("python3", "libstdc++6", "zlib1g")
"""What it needs of Debian 12 beside the smallest root."""
pytestmark = pytest.mark.timeout(3600)  # the wheels are built first


@pytest.fixture(scope="module")
def package(made: Made) -> Path:
    made("wheels")
    (found,) = made("deb")
    return found


def test_lintian_finds_no_error(package: Path) -> None:
    need(shutil.which("lintian"), "lintian (apt install lintian)")
    done = subprocess.run(
        ["lintian", "--allow-root", "--fail-on", "error", "--display-level", ">=warning", package],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def test_its_papers_name_what_is_in_it(package: Path) -> None:
    fields = subprocess.run(["dpkg-deb", "--field", package], check=True, capture_output=True, text=True).stdout
    assert re.search(r"^Depends: python3 \(>= 3\.11\), python3 \(<< 3\.12\), .*libc6 \(>= ", fields, re.MULTILINE)
    names = subprocess.run(["dpkg-deb", "--contents", package], check=True, capture_output=True, text=True).stdout
    for name in (
        "usr/bin/naslab", "usr/share/man/man1/naslab.1.gz", "usr/share/doc/naslab/copyright",
        "usr/share/doc/naslab/changelog.Debian.gz", "usr/share/bash-completion/completions/naslab",
        "usr/share/zsh/vendor-completions/_naslab", "usr/share/fish/vendor_completions.d/naslab.fish",
    ):  # fmt: skip
        assert f"./{name}" in names
    assert "__pycache__" not in names
    assert package.stat().st_size < 60_000_000


def test_it_is_installed_run_and_removed(package: Path, tmp_path: Path) -> None:
    root = copied(base_root("amd64", *DEPENDS), tmp_path)
    before = files(root)
    shutil.copy(package, root / "naslab.deb")
    chroot(root, "dpkg", "--install", "/naslab.deb")
    assert chroot(root, "naslab", "--version").startswith("naslab 0.")
    sim = "sim:?link_bytes_per_s=125MB&latency_ns=200us"
    assert "MB/s" in chroot(root, "naslab", "run", sim, "--budget", "20s")
    assert "MB/s" in chroot(root, "naslab", "show", "last")
    chroot(root, "naslab", "report", "last", "-o", "/root/report.html")
    assert (root / "root" / "report.html").stat().st_size > 1_000_000
    chroot(root, "naslab", "export", "last", "-o", "/root/run.xlsx")
    chroot(root, "naslab", "sweep", "lab:demo", "--file-size", "64k", "--record", "64k", "--quiet")
    assert "naslab" in chroot(root, "sh", "-c", "zcat /usr/share/man/man1/naslab.1.gz | head -n 5").lower()
    assert "complete" in chroot(
        root, "bash", "-c", "source /usr/share/bash-completion/completions/naslab; complete -p naslab"
    )
    chroot(root, "dpkg", "--purge", "naslab")
    assert run_in(root, "naslab", "--version").returncode != 0
    (root / "naslab.deb").unlink()
    left = {name for name in files(root) - before if not name.startswith(("root/", "var/", "tmp/", "run/"))}
    assert left == set()


def files(root: Path) -> set[str]:
    command = ["find", ".", "-mindepth", "1", "-printf", "%P\\n"]
    return set(subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout.splitlines())
