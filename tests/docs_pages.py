"""The pages of README.md and docs as tests see them: blocks, their marks, and the commands a shell makes of them.

A block without a language holds commands, and a test runs each of them (see test_docs.py) unless a comment in the
line above it says otherwise:

    <!-- not run: REASON -->        the commands are parsed only
    <!-- tested by: PATH::NAME -->  another test runs the block
    <!-- output -->                 above a block of `text`: what the commands above it print, numbers apart
    <!-- example: REASON -->        above a block of `text`: compared with nothing
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cli_tools import HANG_S

ROOT = Path(__file__).parents[1]
_FENCE = re.compile(r"^( *)```(\w*)\s*$")
_MARK = re.compile(r"^ *<!-- (not run|tested by|output|example)(?:: (.*))? -->$")
_RECORD = """
command_not_found_handle() { { printf '%s\\0' "${BASH_LINENO[0]}" "$@"; printf '\\n'; } >&9; }
PATH=/nowhere
"""
"""Before a block's lines: each program that they would start is written down instead."""


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    page: str
    line: int
    """Of the opening fence, from 1."""
    language: str
    text: str
    mark: str
    """`not run`, `tested by`, `output`, `example`, or nothing."""
    reason: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


@dataclass(frozen=True)
class Command:
    """One command of a block, its words as the shell hands them over."""

    place: str
    """Page and line."""
    words: tuple[str, ...]


def pages() -> list[str]:
    """Names of all pages, relative to the project."""
    return ["README.md", *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md"))]


def blocks(page: str) -> list[Block]:
    """The fenced blocks of a page, in order."""
    return list(blocks_of(page, (ROOT / page).read_text("utf-8")))


def blocks_of(page: str, text: str) -> Iterator[Block]:
    """Those of a page's text."""
    lines = text.splitlines()
    begun: int | None = None
    for at, line in enumerate(lines):
        fence = _FENCE.match(line)
        if not fence:
            continue
        if begun is None:
            begun, language = at, fence[2]
            marked = _MARK.match(lines[at - 1]) if at else None
            continue
        mark, reason = (marked[1], marked[2] or "") if marked else ("", "")
        yield Block(page, begun + 1, language, "\n".join(lines[begun + 1 : at]) + "\n", mark, reason)
        begun = None
    assert begun is None, f"{page}:{begun}: a block without an end"


def commands(parts: list[Block], folder: Path, home: Path) -> list[Command]:
    """What a shell would start for these blocks of one page, variables and comments done with. It starts nothing."""
    script = _RECORD
    places: list[str] = [""] * _RECORD.count("\n")
    for part in parts:
        script += part.text
        places += [f"{part.page}:{part.line + 1 + at}" for at in range(part.text.count("\n"))]
    record = folder / ".commands"
    with record.open("wb") as file:
        done = subprocess.run(
            ["bash", "--norc", "-c", f"exec 9>&{file.fileno()}\n{script}"], cwd=folder, pass_fds=(file.fileno(),),
            env={"HOME": str(home), "LC_ALL": "C.UTF-8", "TERM": "dumb"}, stdin=subprocess.DEVNULL, timeout=HANG_S,
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    assert "syntax error" not in done.stderr, f"{parts[0].page}: {done.stderr}"
    found = []
    for entry in record.read_bytes().decode().split("\0\n")[:-1]:
        line, *words = entry.split("\0")
        found.append(Command(places[int(line) - 2], tuple(words)))
    record.unlink()
    return found


def masked(text: str) -> str:
    """A text without its numbers, sizes, durations, line breaks and names of runs: what stays of it in another run."""
    text = re.sub(r"\b\d{8}-\d{6}-[0-9a-z]{4,5}\b", "RUN", text)
    text = " ".join(re.sub(r"\d[\d,]*(?:\.\d+)?", "N", text).split())
    text = re.sub(r"\bN [kMGT]?i?B\b", "N B", text)
    return re.sub(r"\bN (?:h|min|s|ms|us|µs|ns)\b(?: N (?:min|s|ms|us|µs|ns)\b)*", "N s", text)


def environment(home: Path, store: Path) -> dict[str, str]:
    """That of a user of whom naslab knows nothing yet."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("NASLAB_", "XDG_"))}
    return {**kept, "HOME": str(home), "NASLAB_STORE": str(store), "COLUMNS": "100"}
