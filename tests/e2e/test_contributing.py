"""The recipes of CONTRIBUTING.md, followed line by line in a copy of the project."""

from __future__ import annotations

import ast
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

import shares
from cli_tools import need

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "CONTRIBUTING.md"
PARTS = ("python", "tests", "docs", "tools", "crates", "README.md", "pyproject.toml", "Cargo.toml", "Cargo.lock",
         "rustfmt.toml")  # fmt: skip
LONGEST = 20
"""Lines of a recipe besides its blocks, empty ones apart."""
_NEW = re.compile(r"New file `([^`]+)`:")
_EDIT = re.compile(r"In `([^`]+)`, (above|below) the line `(.+)`:")


@dataclass(frozen=True)
class Step:
    """What one block asks for, and the sentence above it."""

    asked: str
    block: str


def recipes() -> dict[str, list[Step]]:
    """The steps of each recipe by its title."""
    parts = PAGE.read_text("utf-8").split("\n## ")[1:]
    return {part.split("\n", 1)[0]: steps(part) for part in parts}


def steps(text: str) -> list[Step]:
    """Each block with the line above it."""
    blocks = re.finditer(r"^([^\n]+)\n\n```\w*\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [Step(match[1], match[2]) for match in blocks]


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The project without what was built from it, but for the engine."""
    left_out = shutil.ignore_patterns("__pycache__", ".*_cache", "pictures")
    for name in PARTS:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, tmp_path / name, ignore=left_out)
        else:
            shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def follow(step: Step, copy: Path) -> None:
    """Does what one block asks for."""
    if new := _NEW.fullmatch(step.asked):
        path = copy / new[1]
        assert not path.exists(), f"{new[1]} exists: choose another example"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(step.block, "utf-8")
    elif edit := _EDIT.fullmatch(step.asked):
        path = copy / edit[1]
        lines = path.read_text("utf-8").splitlines(keepends=True)
        places = [at for at, line in enumerate(lines) if line.strip() == edit[3]]
        assert len(places) == 1, f"{edit[1]} has the line {edit[3]!r} {len(places)} times"
        lines.insert(places[0] + (edit[2] == "below"), step.block)
        path.write_text("".join(lines), "utf-8")
    else:
        assert step.asked == "Then:", f"the test does not understand: {step.asked}"
        for line in step.block.splitlines():
            run(shlex.split(line), copy)


def run(words: list[str], copy: Path) -> None:
    programs = {"naslab": [sys.executable, "-m", "naslab"], "python": [sys.executable]}
    done = subprocess.run(
        [*programs.get(words[0], [words[0]]), *words[1:]], cwd=copy, env=environment(copy), check=False,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    assert done.returncode == 0, f"{shlex.join(words)}: exit {done.returncode}\n{done.stdout}"


def environment(copy: Path) -> dict[str, str]:
    return {
        **os.environ, "PYTHONPATH": str(copy / "python"), "NASLAB_STORE": str(copy / "runs.sqlite"),
        "PYTHONDONTWRITEBYTECODE": "1", "CARGO_TARGET_DIR": str(copy / "target"),
    }  # fmt: skip


@pytest.mark.parametrize(
    "title", shares.first(3, ["An importer", "A chart", "A system of the lab", "A command"], pytest.mark.lab)
)
def test_recipe(title: str, copy: Path) -> None:
    for step in recipes()[title]:
        follow(step, copy)
    tidy(recipes()[title], copy)


@pytest.mark.lab
@pytest.mark.timeout(600)
def test_recipe_of_a_target(copy: Path) -> None:
    need(shutil.which("cargo"), "cargo")
    for step in recipes()["A target"]:
        follow(step, copy)
    tidy(recipes()["A target"], copy)
    run(["cargo", "fmt", "--check", "-p", "naslab-target-zero", "-p", "naslab-targets"], copy)


def tidy(found: list[Step], copy: Path) -> None:
    """What a recipe leaves has the project's style and types."""
    names = {match[1] for step in found if (match := _NEW.fullmatch(step.asked) or _EDIT.fullmatch(step.asked))}
    if python := sorted(name for name in names if name.endswith(".py")):
        run(["python", "-m", "ruff", "check", "--no-cache", *python], copy)
        run(["python", "-m", "ruff", "format", "--no-cache", "--check", *python], copy)


def test_every_recipe_is_followed_and_short() -> None:
    assert set(recipes()) == {"A command", "An importer", "A chart", "A system of the lab", "A target"}
    for title, found in recipes().items():
        assert found[-1].asked == "Then:", title
    for part in PAGE.read_text("utf-8").split("\n## ")[1:]:
        prose = re.sub(r"^```\w*\n.*?^```$", "", part, flags=re.MULTILINE | re.DOTALL)
        assert sum(1 for line in prose.splitlines() if line) <= LONGEST


def commands_of(target: str) -> set[str]:
    """What make would run for a target, itself up to date."""
    done = subprocess.run(["make", "-n", target], cwd=ROOT, capture_output=True, text=True, check=True)
    return {line.strip() for line in done.stdout.splitlines()}


def test_hooks_are_parts_of_make_check() -> None:
    (repo,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text("utf-8"))["repos"]
    checked = commands_of("check")
    assert len(repo["hooks"]) >= 6
    for hook in repo["hooks"]:
        assert hook["entry"] in checked, hook["id"]
        assert hook["language"] == "system" and not hook["pass_filenames"]


def test_the_workflow_runs_what_make_has() -> None:
    flow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text("utf-8"))
    assert flow["permissions"] == {"contents": "read"}
    runs = [step["run"] for job in flow["jobs"].values() for step in job["steps"] if "run" in step]
    made = {words[1] for run in runs if (words := run[run.find("make ") :].split()) and words[0] == "make"}
    assert made == {"check", "supply", "test", "test-lab"}
    for target in made:
        assert commands_of(target)
    parts = flow["jobs"]["lab"]["strategy"]["matrix"]["part"]
    known = re.search(r"^PARTS = (.+)$", (ROOT / "tools" / "run-tests").read_text("utf-8"), re.MULTILINE)
    assert known and tuple(parts) == ast.literal_eval(known[1])
    for job in flow["jobs"].values():
        assert job["timeout-minutes"] <= 120
