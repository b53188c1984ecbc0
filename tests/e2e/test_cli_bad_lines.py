"""A hundred bad command lines over all commands: each is answered by one line that helps, and nothing is written.

`bad_lines.txt` has the lines, and what of each its answer must name.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from cli_tools import Cli, Done, snapshot
from naslab.cli.lookup import shown

LINES = [
    line.rpartition(" | ")[::2]
    for line in (Path(__file__).parents[1] / "bad_lines.txt").read_text(encoding="utf-8").splitlines()
]
NEXT = re.compile(
    r"\b(give|write|use|name|choose|leave|see|check|create|list|raise|free|make|switch|measure|there are|add|"
    r"did you mean|correct|are whole numbers|ask|must be|known formats|it has|takes|become|run|lists|allow|needs)\b",
    re.IGNORECASE,
)
RAW = re.compile(r"\[Errno|os error|Traceback|0x[0-9a-fA-F]{8}|STATUS_|<class|errno \d")


def filled(text: str) -> str:
    return text.replace("TARGET", "target").replace("FILE", "a_file")


def test_there_are_a_hundred_of_all_commands() -> None:
    assert len(LINES) >= 100 and len({line for line, _ in LINES}) == len(LINES)
    begun = {line.split()[0] for line, _ in LINES} | {" ".join(line.split()[:2]) for line, _ in LINES}
    without = {each.name for each in shown() if not {each.name, each.name.split()[-1]} & begun}
    tried = {"show", "sweep", "runs show"}
    assert {name for name in without if not name.startswith("lab ")} <= {
        *tried,
        "ceiling",
        "reference",
        "reference client",
    }, "test_cli_bad_input has those of show and sweep; ceiling takes nothing"


@pytest.mark.parametrize("line", range(len(LINES)), ids=[line for line, _ in LINES])
def test_one_line_that_helps(line: int, cli: Cli, here: Callable[..., Done]) -> None:
    words, thing = LINES[line]
    (cli.folder / "a_file").write_text("= not TOML, not JSON")
    before = snapshot(cli.folder)
    said = here(*shlex.split(filled(words)))
    assert said.code == 2, said
    assert said.out == "" and len(said.err.splitlines()) == 1, said
    assert filled(thing) in said.err and NEXT.search(said.err) and not RAW.search(said.err), said.err
    after = {name: each for name, each in snapshot(cli.folder).items() if not name.startswith("store.sqlite")}
    assert after == before
