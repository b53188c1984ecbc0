"""The list of what is in the packages, and the sums of all of them."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
Made = Callable[[str], tuple[Path, ...]]
pytestmark = pytest.mark.timeout(3600)  # the others are built first


@pytest.fixture(scope="module")
def papers(made: Made) -> tuple[Path, Path]:
    """The list, and the sums of all that was made before."""
    for part in ("agent", "wheels", "deb", "oci"):
        made(part)
    listed, sums = made("sbom")
    return listed, sums


def test_every_pinned_package_is_listed(papers: tuple[Path, Path]) -> None:
    listed = json.loads(papers[0].read_text())
    found = {each["purl"] for each in listed["components"]}
    assert len(found) == len(listed["components"]) > 100
    pins = re.findall(r"^([\w.-]+)==([^ ;\\]+) \\$", (ROOT / "constraints" / "run.txt").read_text(), re.MULTILINE)
    wanted = {f"pkg:pypi/{name.lower()}@{version}" for name, version in pins if name not in ("pip", "maturin")}
    assert wanted <= found
    assert {"pkg:cargo/pyo3", "pkg:cargo/hdrhistogram", "pkg:cargo/base64"} <= {each.split("@")[0] for each in found}
    assert not [
        each for each in found if each.startswith(("pkg:cargo/naslab", "pkg:cargo/proptest", "pkg:pypi/pytest"))
    ]
    assert all(each["licenses"][0]["expression"] for each in listed["components"])


def test_sums_are_those_of_the_packages(papers: tuple[Path, Path]) -> None:
    sums = papers[1]
    command = ["sha256sum", "--check", "--strict", sums.name]
    done = subprocess.run(command, cwd=sums.parent, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert {path.name for path in sums.parent.iterdir()} == {
        *re.findall(r"  (\S+)$", sums.read_text(), re.MULTILINE),
        sums.name,
    }
