"""The page docs/reference/rooms.md: every package and module of naslab, and every crate, by their own first sentences.

Rooms come in the order of `pyproject.toml`, in which each may import those below it.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "python" / "naslab"
_END = re.compile(r"(?<=\.)\s|\n\n")
_HEAD = """# Rooms

Which file to open for a change. Written by `tools/make-docs` from the first sentence of each file; what crosses which
border and why is in [ARCHITECTURE.md](../../ARCHITECTURE.md).

A Python room may import those below it and none above, also inside of functions; `make check` sees to that
(`lint-imports`, the order is in `pyproject.toml`).
"""


def page() -> str:
    """The text of the page."""
    rooms, crates = list(_rooms()), sorted((ROOT / "crates").iterdir())
    parts = [_HEAD, "## Python\n", "| room | what it is for |", "|---|---|"]
    parts += [f"| {_link(name)} | {_first(_python_text(path))} |" for name, path in rooms]
    parts += ["", "## Rust\n", "| crate | what it is for |", "|---|---|"]
    parts += [f"| {_link(f'crates/{crate.name}')} | {_first(_rust_text(_entry(crate)))} |" for crate in crates]
    for name, path in rooms:
        if path.name == "__init__.py":
            files = sorted(each for each in path.parent.rglob("*.py") if each.name != "__init__.py")
            parts += _files(name, path.parent, [(each, _python_text(each)) for each in files])
    for crate in crates:
        source = crate / "src"
        files = sorted(each for each in source.rglob("*.rs") if each != _entry(crate))
        parts += _files(f"crates/{crate.name}", source, [(each, _rust_text(each)) for each in files])
    return "\n".join(parts) + "\n"


def _rooms() -> Iterator[tuple[str, Path]]:
    """Names and files of the rooms, the highest first."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    for layer in contracts[0]["layers"]:
        for name in layer.split(" | "):
            folder = PACKAGE / name / "__init__.py"
            yield name, folder if folder.exists() else PACKAGE / f"{name}.py"


def _files(name: str, folder: Path, found: list[tuple[Path, str]]) -> list[str]:
    rows = [f"| `{path.relative_to(folder)}` | {_first(text)} |" for path, text in found]
    return (
        ["", f"## {name}\n", f"`{folder.relative_to(ROOT)}`\n", "| file | what is in it |", "|---|---|", *rows]
        if rows
        else []
    )


def _link(name: str) -> str:
    if (PACKAGE / f"{name}.py").exists():
        return f"`{name}.py`"
    if name.startswith("crates/") and len(list((ROOT / name / "src").rglob("*.rs"))) == 1:
        return f"`{name}`"
    return f"[{name}](#{name.replace('/', '')})"


def _entry(crate: Path) -> Path:
    """A crate's first file."""
    library = crate / "src" / "lib.rs"
    return library if library.exists() else crate / "src" / "main.rs"


def _python_text(path: Path) -> str:
    return ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""


def _rust_text(path: Path) -> str:
    lines = path.read_text("utf-8").splitlines()
    return "\n".join(line.removeprefix("//!").strip() for line in lines if line.startswith("//!"))


def _first(text: str) -> str:
    """The first sentence, in a line of a table."""
    return _END.split(text.strip(), maxsplit=1)[0].replace("\n", " ").replace("|", "\\|")
