"""A server that stops answering, hangs up or talks nonsense in the middle: no command hangs, and none succeeds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cli_tools import Cli
from faults import relay
from naslab import lab

TIMEOUT = ("--timeout", "1s")
COMMANDS: dict[str, tuple[str, ...]] = {
    "tree": ("tree", "--files", "200", "--depth-of-tree", "1", "--fan-out", "3"),
    "sweep": ("sweep", "--file-size", "1m", "--record", "4k,64k"),
    "sustained": ("sustained", "--size", "4m", "--duration", "5s"),
    "curve": ("curve", "--size", "4m", "--budget", "20s"),
    "profile": ("profile", "--size", "128m", "--budget", "20s"),
    "apps": ("apps", "--budget", "20s"),
    "job": ("job", "copy-in,copy-out", "--corpus", "sources", "--scale", "0.01"),
    "run": ("run", "--budget", "20s"),
}
MODES = ("freeze", "reset", "garbage")
EMPTY_WORDS = ("no run '", "lost before", "Traceback", "connect again")
"""What told of a consequence in place of the first cause."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[lab.Server]:
    with lab.running("demo") as found:
        yield found


@pytest.mark.parametrize("answered_bytes", [4_000, 12_000])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_server_that_fails_in_the_middle_is_told(
    command: str, mode: str, answered_bytes: int, server: lab.Server, cli: Cli
) -> None:
    name, *words = COMMANDS[command]
    with relay(server.port) as way:
        url = server.url.replace(f":{server.port}", f":{way.port}", 1)
        way.break_after(answered_bytes, mode)
        done = cli(name, url, *words, *TIMEOUT, "--quiet", timeout=60).sound()
        assert way.broken, f"{done}: the command ended before anything broke"
    assert done.code == 1 and done.err.startswith("naslab: "), f"exit {done.code}: {done.err}"
    assert not [words for words in EMPTY_WORDS if words in done.err], done.err
    (run,) = cli.runs()
    assert run["status"] == "failed"
    assert [found["message"] for found in run["warnings"] if found["kind"] == "error"] or any(
        cell["status"] == "failed" for cell in run["cells"]
    )
