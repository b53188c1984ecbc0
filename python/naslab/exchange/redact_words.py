"""Makes redact_words.txt, the vocabulary of naslab's own sentences and names.

A text that is redacted keeps these words and numbers and loses all else, so that a name nobody thought of is lost, too.

    python -m naslab.exchange.redact_words
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from naslab.results.schema import TABLES

FILE = Path(__file__).with_name("redact_words.txt")
_ROOMS = (
    ".", "analysis", "audit", "cli", "client", "commands", "comparison", "exchange", "execution", "explain", "render",
    "results", "spec", "targets", "text", "trace",
)  # fmt: skip
_SILENT = ("commands/discover", "execution/clients", "render/web", "results/store")
"""Parts of rooms that write nothing into documents."""
_TALKING = ("credentials.py", "first_contact.py")
"""The only files of `targets` that do."""
_EXAMPLES = ("command_list.py",)
"""Command lines for the help, with names that could be anybody's: no run document holds them."""
_OWN_NAMES = frozenset(("backup",))
"""Of presets, and of many a share or host: in a text that is redacted it may be somebody's."""
_TOKEN = re.compile(r"[A-Za-z][A-Za-z0-9_]*(?:[-'][A-Za-z0-9_]+)*")
_LONGEST = 32


def words(rooms: Sequence[str] = _ROOMS) -> set[str]:
    """Lower-case words of all texts in the code of the rooms that write documents, docstrings left out."""
    root = Path(__file__).parents[1]
    files = [path for room in rooms for path in (root.glob("*.py") if room == "." else (root / room).rglob("*.py"))]
    files = [path for path in files if _writes(path.relative_to(root))]
    found = {word.lower() for path in files for text in _texts(path) for word in _TOKEN.findall(text) if _is_word(word)}
    return found - _OWN_NAMES


def _writes(path: Path) -> bool:
    """Whether texts of this file may be in a document."""
    if path.parts[0] == "targets":
        return path.name in _TALKING
    return path.name not in _EXAMPLES and "/".join(path.parts[:2]) not in _SILENT


def simulated() -> set[str]:
    """Names of the numbers of a simulated server, which are in the engine: from their reference page."""
    page = Path(__file__).parents[3] / "docs" / "reference" / "sim.md"
    return set(re.findall(r"^\| `([a-z_0-9]+)` \|", page.read_text("utf-8"), re.MULTILINE))


def fields() -> set[str]:
    """Names of the fields of run documents, which are no texts of the code."""
    return {name for part in TABLES.values() for name in part.__struct_fields__}


def _texts(path: Path) -> Iterator[str]:
    tree = ast.parse(path.read_text("utf-8"))
    # A text that stands alone is a docstring, which nobody prints.
    alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in alone:
            yield node.value


def _is_word(text: str) -> bool:
    return len(text) <= _LONGEST


def main() -> int:
    """Writes the file."""
    FILE.write_text("\n".join(sorted(words() | simulated() | fields())) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
