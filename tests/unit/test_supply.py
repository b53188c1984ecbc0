"""tools/constraints and tools/check-licences: what is stale, not allowed or known to be broken is named."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import subprocess
import sys
from email.message import Message
from pathlib import Path
from typing import Any

import pytest

from cli_tools import HANG_S

ROOT = Path(__file__).parents[2]
PROJECT = """
[build-system]
requires = ["maturin>=1.9,<2"]
[project]
dependencies = ["numpy>=1.26"]
[project.optional-dependencies]
xls = ["xlrd>=2"]
dev = ["pytest>=8"]
"""


def tool(name: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The script as a module."""
    loader = importlib.machinery.SourceFileLoader(name.replace("-", "_"), str(ROOT / "tools" / name))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, loader.name, module)
    loader.exec_module(module)
    return module


@pytest.fixture
def constraints(monkeypatch: pytest.MonkeyPatch) -> Any:
    return tool("constraints", monkeypatch)


@pytest.fixture
def licences(monkeypatch: pytest.MonkeyPatch) -> Any:
    return tool("check-licences", monkeypatch)


def written(tool: Any, folder: Path, project: str = PROJECT, pinned: str = "") -> None:
    """A project and the files for it, as the tool would write them without asking anybody."""
    (folder / "pyproject.toml").write_text(project)
    (folder / "constraints").mkdir(exist_ok=True)
    packages = pinned or "".join(
        f"{name} \\\n    --hash=sha256:{'0' * 64}\n"
        for name in ("maturin==1.10.2", "numpy==2.4.6", "pip==26.3", "pytest==9.2.0", "xlrd==2.0.2")
    )
    for name, requirements in tool.wanted(folder).items():
        text = f"{tool.HEAD}{tool.sum_of(requirements)}\n{packages}"
        (folder / "constraints" / f"{name}.txt").write_text(text)


def test_what_is_checked_in_fits_and_make_installs_nothing_else() -> None:
    done = subprocess.run([sys.executable, ROOT / "tools" / "constraints", "--check"], check=False, timeout=HANG_S)
    assert done.returncode == 0
    lines = (ROOT / "Makefile").read_text().splitlines()
    assert [line for line in lines if "pip install" in line and "--require-hashes" not in line] == []


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("numpy>=1.26", "numpy>=3", "has 2.4.6 for numpy>=3"),
        ('"numpy>=1.26"', '"numpy>=1.26", "rich"', "has nothing for rich"),
        ('xls = ["xlrd>=2"]', "xls = []", "was made for other requirements"),
    ],
)
def test_a_project_that_changed_is_noticed(
    constraints: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, told: str
) -> None:
    written(constraints, tmp_path)
    assert constraints.main(["--check"], tmp_path) == 0
    (tmp_path / "pyproject.toml").write_text(PROJECT.replace(old, new))
    assert constraints.main(["--check"], tmp_path) == 1
    assert f"constraints/run.txt {told}: run tools/constraints" in capsys.readouterr().err


def test_a_package_without_a_hash_is_noticed(constraints: Any, tmp_path: Path) -> None:
    written(constraints, tmp_path, pinned="numpy==2.4.6\npip==26.3\nmaturin==1.10.2\nxlrd==2.0.2\npytest==9\n")
    assert constraints.main(["--check"], tmp_path) == 1


@pytest.mark.parametrize(
    ("licence", "fine"),
    [
        ("MIT", True),
        ("MIT/Apache-2.0", True),
        ("MIT OR LGPL-2.1-or-later", True),
        ("(MIT OR GPL-3.0-only) AND Unicode-3.0", True),
        ("Apache-2.0 WITH LLVM-exception", True),
        ("GPL-3.0-only", False),
        ("MIT AND GPL-2.0-or-later", False),
        ("GPL-2.0-only WITH Classpath-exception-2.0", False),
        ("MPL-2.0", False),
        ("(MIT", False),
        ("MIT Apache-2.0", False),
        ("", False),
    ],
)
def test_licences(licences: Any, licence: str, fine: bool) -> None:
    assert (licences.Package("rust", "a", "1", licence, "linked").fault() is None) == fine


def test_tools_may_have_another_licence_and_one_package_its_own(licences: Any) -> None:
    assert licences.Package("python", "hypothesis", "6", "MPL-2.0", "tools").fault() is None
    assert licences.Package("python", "asyncssh", "2", "EPL-2.0 OR GPL-2.0-or-later", "linked").fault() is None
    assert licences.Package("python", "other", "2", "EPL-2.0 OR GPL-2.0-or-later", "linked").fault()


@pytest.mark.parametrize(
    ("fields", "licence"),
    [
        ({"License-Expression": "MIT"}, "MIT"),
        ({"License": "BSD"}, "BSD-3-Clause"),
        ({"License": "Copyright\nand much text", "Classifier": "License :: OSI Approved :: MIT License"}, "MIT"),
        ({"License": "UNKNOWN", "Classifier": "License :: OSI Approved :: MIT License"}, "MIT"),
        ({"License": "UNKNOWN"}, ""),
        ({"Classifier": "License :: OSI Approved"}, ""),
        ({"License": "GPL"}, "GPL"),
    ],
)
def test_python_packages_tell_theirs_in_three_ways(licences: Any, fields: dict[str, str], licence: str) -> None:
    data = Message()
    data["Name"] = "some"
    for name, value in fields.items():
        data[name] = value
    assert licences.licence_of(data) == licence


def test_rust_packages_are_linked_or_tools(licences: Any) -> None:
    def package(name: str) -> dict[str, Any]:
        return {"id": name, "name": name, "version": "1.0.0", "license": "MIT"}

    def needs(name: str, **kinds: str | None) -> dict[str, Any]:
        return {"id": name, "deps": [{"pkg": to, "dep_kinds": [{"kind": kind}]} for to, kind in kinds.items()]}

    names = ("naslab-py", "libc", "proptest", "rand")
    nodes = [needs("naslab-py", libc=None, proptest="dev"), needs("libc"), needs("proptest", rand=None), needs("rand")]
    data = {"packages": [*map(package, names)], "workspace_members": ["naslab-py"], "resolve": {"nodes": nodes}}
    found = {each.name: each.use for each in licences.rust_packages(data)}
    assert found == {"libc": "linked", "proptest": "tools", "rand": "tools"}


@pytest.mark.parametrize(
    ("version", "requirement", "fine"),
    [
        ("1.2.3", ">= 1.2.3", True),
        ("1.2.3", ">= 1.2.4, < 2", False),
        ("1.10.0", ">1.9", True),
        ("1.2.3", "^1.2.4", False),
        ("2.0.0", "^1", False),
        ("0.3.1", "^0.2", False),
        ("0.2.9", "0.2.1", True),
        ("1.3.0", "~1.2", False),
        ("1.2.9", "~1.2.3", True),
        ("1.0.0-rc.1", ">=1.0.0", False),
        ("1.0.0-rc.10", ">=1.0.0-rc.9", True),
        ("1.0.0", "=1.0.0", True),
    ],
)
def test_rust_versions(licences: Any, version: str, requirement: str, fine: bool) -> None:
    assert licences.fits(version, requirement) == fine


def test_open_advisories_fail_and_notes_do_not(
    licences: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rust = '```toml\n[advisory]\nid = "RUSTSEC-{0}"\npackage = "tar"\n{1}\n[versions]\npatched = [{2}]\n```\n\n# {3}\n'
    for name, more, patched, title in [
        ("2026-0001", "", '">= 1.2"', "Escapes"),
        ("2026-0002", "", '">= 1.0"', "Mended"),
        ("2026-0003", 'informational = "unmaintained"', "", "Left alone"),
        ("2026-0004", 'withdrawn = "2026-01-01"', "", "Taken back"),
    ]:
        (tmp_path / f"RUSTSEC-{name}.md").write_text(rust.format(name, more, patched, title))
    affected = "affected:\n- package: {name: Jinja2, ecosystem: PyPI}\n  ranges:\n  - type: ECOSYSTEM\n    events:\n"
    for name, fixed in (("1", "3.2"), ("2", "3.1.6")):
        events = f"    - introduced: '0'\n    - fixed: '{fixed}'\n"
        text = f"id: PYSEC-{name}\ndetails: some\n{affected}{events}"
        (tmp_path / f"PYSEC-{name}.yaml").write_text(text)
    (tmp_path / "README.md").write_text("no advisory")
    packages = [
        licences.Package("rust", "tar", "1.1.0", "MIT", "linked"),
        licences.Package("python", "jinja2", "3.1.6", "BSD-3-Clause", "tools"),
    ]
    open_ones = list(licences.look_up([tmp_path], packages))
    assert open_ones == ["PYSEC-1: jinja2 3.1.6: some", "RUSTSEC-2026-0001: tar 1.1.0: Escapes"]
    said = capsys.readouterr().out
    assert "6 advisories" in said and "note: RUSTSEC-2026-0003: tar 1.1.0: Left alone" in said
    assert list(licences.look_up([tmp_path / "none"], packages))


def test_everything_here_may_be_used() -> None:
    done = subprocess.run([sys.executable, ROOT / "tools" / "check-licences"], capture_output=True, text=True,
                          check=False, timeout=HANG_S)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert ": 0 with a licence that is not allowed" in done.stdout
