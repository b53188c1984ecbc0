"""The tools that make packages: what does not fit a release is named, and what is in it is listed once."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
TOOLS = ROOT / "tools"


@pytest.fixture
def dist(monkeypatch: pytest.MonkeyPatch) -> Any:
    """tools/dist.py."""
    monkeypatch.syspath_prepend(str(TOOLS))
    monkeypatch.delitem(sys.modules, "dist", raising=False)
    import dist

    return dist


def tool(dist: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setitem(sys.modules, name, None)  # what the tool puts there goes with the test
    return dist.tool(name)


def project(folder: Path, version: str = "1.2.3", lock: str = "1.2.3", history: str = "1.2.3") -> Path:
    (folder / "Cargo.toml").write_text(f'[workspace.package]\nversion = "{version}"\n')
    names = (("naslab-core", lock), ("naslab-engine", version), ("libc", "0.2.9"))
    blocks = (f'[[package]]\nname = "{name}"\nversion = "{number}"\n' for name, number in names)
    (folder / "Cargo.lock").write_text("version = 4\n" + "".join(blocks))
    (folder / "pyproject.toml").write_text('[project]\nname = "naslab"\ndynamic = ["version"]\n')
    (folder / "CHANGELOG.md").write_text(f"# Changelog\n\n## {history} (unreleased)\n\n- new\n\n## 0.9.0\n")
    return folder


def test_what_agrees_can_be_released(dist: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    release = tool(dist, "release", monkeypatch)
    assert list(release.faults(project(tmp_path), "")) == []
    assert list(release.faults(ROOT, "")) == [], "this project's own versions"


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"version": "1.2"}, "Cargo.toml: version 1.2 is no semantic version"),
        ({"lock": "1.2.2"}, "Cargo.lock: naslab-core have another version than 1.2.3"),
        ({"history": "1.2.2"}, "CHANGELOG.md: the newest part is 1.2.2: begin one with `## 1.2.3`"),
    ],
)
def test_what_does_not_agree_is_named(
    dist: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: dict[str, str], named: str
) -> None:
    release = tool(dist, "release", monkeypatch)
    found = list(release.faults(project(tmp_path, **change), ""))
    assert any(each.startswith(named) for each in found), found


def test_another_place_of_the_version_and_changed_files_are_named(
    dist: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = tool(dist, "release", monkeypatch)
    place = project(tmp_path) / "pyproject.toml"
    place.write_text('[project]\nname = "naslab"\nversion = "1.0.0"\n')
    found = list(release.faults(tmp_path, " M tools/wheels\nM  README.md"))
    assert found[0].startswith("pyproject.toml: the version is not Cargo.toml's 1.2.3")
    assert found[1] == "files differ from the last commit: tools/wheels, README.md: commit them"


@dataclass
class Package:
    kind: str
    name: str
    version: str
    licence: str


def test_the_list_names_each_package_with_licence_and_source(dist: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    sbom = tool(dist, "sbom", monkeypatch)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    lock = '[[package]]\nname = "aes"\nversion = "0.9.4"\nchecksum = "00ff"\n'
    packages = [Package("python", "numpy", "2.4.6", "BSD-3-Clause"), Package("rust", "aes", "0.9.4", "MIT/Apache-2.0")]
    made = sbom.listed(packages, lock)
    assert (made["bomFormat"], made["specVersion"]) == ("CycloneDX", "1.6")
    assert made["metadata"]["timestamp"] == "2023-11-14T22:13:20Z"
    numpy, aes = made["components"]
    assert (numpy["purl"], numpy["licenses"]) == ("pkg:pypi/numpy@2.4.6", [{"expression": "BSD-3-Clause"}])
    assert (aes["purl"], aes["licenses"]) == ("pkg:cargo/aes@0.9.4", [{"expression": "MIT OR Apache-2.0"}])
    assert aes["hashes"] == [{"alg": "SHA-256", "content": "00ff"}] and "hashes" not in numpy
    assert made["dependencies"][0]["dependsOn"] == ["pkg:pypi/numpy@2.4.6", "pkg:cargo/aes@0.9.4"]
    assert json.dumps(sbom.listed(packages, lock)) == json.dumps(made), "the same bytes for the same packages"
    assert sbom.listed(packages[:1], lock)["serialNumber"] != made["serialNumber"]


def test_only_the_programs_packages_go_into_debians(dist: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    deb = tool(dist, "deb", monkeypatch)
    blocks = list(deb.wanted((ROOT / "constraints" / "run.txt").read_text()))
    names = [block.split("==")[0] for block in blocks]
    assert {"numpy", "rich", "zstandard"} <= set(names)
    assert not {"maturin", "pip"} & set(names)
    assert all("--hash=sha256:" in block for block in blocks)


def test_times_of_packages_are_the_commits(dist: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    told = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True, check=False)
    if told.returncode == 0:
        assert dist.epoch() == int(told.stdout)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "17")
    assert dist.epoch() == 17
