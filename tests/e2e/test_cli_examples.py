"""Every example of the help works: carried out where the machine has what it needs, else parsed."""

from __future__ import annotations

import shlex

import pytest

from docs_pages import Block, Command
from e2e.test_docs import PRELUDE, SIM, World, attempt, seed, world  # noqa: F401 - fixtures
from naslab.cli.lookup import shown

EXAMPLES = [(command.name, example.line) for command in shown() for example in command.examples]


@pytest.mark.parametrize("name", [command.name for command in shown()])
def test_a_command_has_examples(name: str) -> None:
    lines = [line for command, line in EXAMPLES if command == name]
    assert len(lines) >= 2 and len(set(lines)) == len(lines)
    assert any(line.startswith(f"naslab {name}") for line in lines)


@pytest.mark.lab
@pytest.mark.parametrize("line", sorted({line for _, line in EXAMPLES}))
def test_an_example_works(line: str, world: World) -> None:  # noqa: F811 - the fixture
    words = shlex.split(line.partition(" > ")[0].replace("~", str(world.home)))
    if words[1] == "whatif":
        world.run(("run", SIM, "--budget", "1s", "--quiet")).ok()
    if words[1:3] != ["trace", "record"] and any(word == "build.trace.zst" for word in words):
        world.run(tuple(PRELUDE["docs/guide/trace.md"][0].split())).ok()
    # The stored runs of this machine are sweeps, which have no ladders to compare.
    block = Block("help", 1, "", line, "not run" if "--why" in words else "", "")
    assert attempt(Command("help:1", tuple(words)), block, world) == ""
