"""The house in order: short functions, no huge files, no room that must not know another."""

from __future__ import annotations

import ast
import functools
import importlib.machinery
import importlib.util
import re
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
LONGEST_PYTHON, LONGEST_RUST = 52, 64
"""Ratchets: lower them when the longest function gets shorter, never raise them."""
P90_LINES = 40
LONGEST_FILE = 800
ALLOWED: dict[str, set[str]] = {
    "core": set(), "engine": {"core", "workload"}, "target-smb": {"core", "wire", "gss"},
    "target-nfs": {"core", "wire", "gss"}, "infer": {"workload"},
    "targets": {"core", "engine", "target-local", "target-nfs", "target-null", "target-sim", "target-smb"},
    "agent": {"core", "engine", "targets"},
}  # fmt: skip
"""The naslab crates that a crate may know; where it says nothing, only `core`."""


def python_files() -> list[Path]:
    return sorted((ROOT / "python").rglob("*.py"))


def rust_files() -> list[Path]:
    return sorted(path for path in (ROOT / "crates").rglob("*.rs") if "tests" not in path.parts)


@functools.cache
def looked_through() -> list[tuple[str, str, int, list[tuple[str, int]]]]:
    """(file, function, lines, variables of loops that are read too late) of all functions: parsing takes longest."""
    return [
        (path.name, node.name, (node.end_lineno or node.lineno) - node.lineno + 1, [*left_over(node)])
        for path in python_files()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def python_functions() -> Iterator[tuple[str, int]]:
    for file, name, lines, _ in looked_through():
        yield f"{file}:{name}", lines


def rust_functions() -> Iterator[tuple[str, int]]:
    """Functions as rustfmt lays them out: from `fn` to the brace at the same indentation."""
    for path in rust_files():
        lines = path.read_text().split("#[cfg(test)]\nmod tests")[0].splitlines()
        for at, line in enumerate(lines):
            match = re.match(r"( *)(pub(\(crate\))? )?(unsafe )?(extern \"C\" )?fn (\w+)", line)
            if match and not line.rstrip().endswith(";"):
                end = next((i for i in range(at, len(lines)) if lines[i] == match.group(1) + "}"), at)
                yield f"{path.name}:{match.group(6)}", end - at + 1


@pytest.mark.parametrize(("functions", "longest"), [(python_functions, LONGEST_PYTHON), (rust_functions, LONGEST_RUST)])
def test_functions_are_short(functions: object, longest: int) -> None:
    found = sorted(functions(), key=lambda pair: pair[1])  # type: ignore[operator]
    lengths = [lines for _, lines in found]
    assert len(lengths) > 200
    assert statistics.quantiles(lengths, n=10)[-1] <= P90_LINES
    assert found[-1][1] <= longest, f"too long: {found[-5:]}"


def left_over(function: ast.AST) -> Iterator[tuple[str, int]]:
    """(name, line): variables of a loop that are read after its end, where no other loop gives them a value."""
    nodes = [*ast.walk(function)]
    loops = [node for node in nodes if isinstance(node, ast.For)]
    if not loops:
        return
    names = [node for node in nodes if isinstance(node, ast.Name)]
    own: list[tuple[Any, set[str]]] = [(node, found) for node in nodes if (found := names_of(node))]
    inner = [(node.lineno, node.end_lineno or 0, found) for node, found in own]
    for loop in loops:
        for name in {each.id for each in ast.walk(loop.target) if isinstance(each, ast.Name)}:
            after = [each for each in names if each.id == name and each.lineno > (loop.end_lineno or 0)]
            first = min(after, key=lambda each: (each.lineno, each.col_offset), default=None)
            if first is None or not isinstance(first.ctx, ast.Load):
                continue
            if not any(name in found and start <= first.lineno <= end for start, end, found in inner):
                yield name, first.lineno


def names_of(node: Any) -> set[str]:
    """Names that a comprehension, or a lambda, gives values to."""
    if isinstance(node, ast.Lambda):
        return {each.arg for each in node.args.args}
    targets = [each.target for each in getattr(node, "generators", ())]
    return {each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)}


def test_no_variable_of_a_loop_is_read_after_it() -> None:
    """Whether a machine was busy followed from the points of the last step alone: `points` was a loop's."""
    made = ast.parse("def f(all):\n    for points in all:\n        print(points)\n    return len(points)\n")
    assert [*left_over(made)] == [("points", 4)]
    assert not {(file, *each) for file, _, _, late in looked_through() for each in late}


def test_files_divide_into_rooms() -> None:
    long = {path.name: path.read_text().count("\n") for path in python_files() + rust_files()}
    assert {name: lines for name, lines in long.items() if lines > LONGEST_FILE} == {}


def test_absent_on_purpose() -> None:
    """The invariants of ARCHITECTURE.md that text can show."""
    targets = ("target-sim", "target-local", "target-null", "target-smb", "target-nfs")
    for crate in ("core", "workload", "wire", "gss", *targets, "engine", "infer", "targets", "agent"):
        text = (ROOT / "crates" / crate / "Cargo.toml").read_text()
        needs = set(re.findall(r"^naslab-([\w-]+)\.workspace", text.split("[dev-dependencies]")[0], re.MULTILINE))
        allowed = ALLOWED.get(crate, {"core"})
        assert needs <= allowed, f"{crate} knows {needs - allowed}"
        assert "pyo3" not in text
    for path in rust_files():
        if "engine" in path.parts and "examples" not in path.parts:
            assert not re.search(r"\be?println!", path.read_text()), f"{path} prints"
    for path in (ROOT / "python" / "naslab" / "render" / "report").rglob("*.py"):
        assert "_engine" not in path.read_text(), f"{path} measures"


@pytest.fixture(scope="module")
def measures() -> Any:
    """tools/measures as a module."""
    loader = importlib.machinery.SourceFileLoader("measures", str(ROOT / "tools" / "measures"))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def test_measures_see_cycles_and_upward_imports(measures: Any, tmp_path: Path) -> None:
    """Imports within functions count, those for a type checker do not."""
    typing_only = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import naslab.cli\n"
    files = {
        "__init__": "", "cli": "import naslab.render.report\n", "render/__init__": "", "render/report/__init__": "",
        "render/report/page": f"from naslab import units\n{typing_only}",
        "units": "def late(x: Any) -> list[Any]:\n    from naslab.render.report.page import y\n    return x['y']\n",
    }  # fmt: skip
    for name, text in files.items():
        file = tmp_path / f"{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    graph = measures.imports(tmp_path)
    assert measures.cycles(graph) == [["render.report.page", "units"]]
    assert measures.upward(graph, measures.layers()) == ["units -> render"]
    (tmp_path / "errors.py").write_text("def one() -> None:\n    pass\n")
    found = measures.counted(tmp_path)
    assert (found["Any in annotations"], found["string subscripts"], found["rooms at the top level"]) == ("2", "1", "4")
