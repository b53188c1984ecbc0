"""At 80 and 120 columns no command prints a longer line, breaks a word, or parts a column from its name."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import shlex
import struct
import subprocess
import sys
import termios
from collections.abc import Sequence
from pathlib import Path

import pytest

from cli_tools import HANG_S, TOOLS

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]

SIM = (
    "sim:?latency_ns=200us&link_bytes_per_s=125MB&server_cache_bytes=16m&server_cache_bytes_per_s=3GB"
    "&disk_read_bytes_per_s=80MB&disk_write_bytes_per_s=60MB&disk_seek_ns=8ms&disk_noise=0.03"
)
SWEEP = ("--file-size", "64k..256k", "--record", "4k..64k", "--tests", "write,read")
RUNS = (
    ("run", SIM, "--budget", "5s"),
    ("sweep", SIM, *SWEEP, "--label", "name=A long"),
    ("sweep", SIM, *SWEEP),
    ("sustained", SIM, "--size", "16m", "--duration", "12s", "--random", "--write", "30", "--depth", "4"),
    ("apps", SIM, "--only", "HDVideo_1Play", "--scale", "0.02", "--repeat", "3"),
    ("curve", SIM, "--size", "4m", "--step-duration", "1s"),
    ("tree", SIM, "--files", "60"),
)
END = "== end of a command =="
ONE_AFTER_ANOTHER = f"""
import json, sys
from naslab import cli
from warm import look_coarsely
look_coarsely()  # what a verdict says has no influence on the width of its lines
for words in json.loads(sys.argv[1]):
    assert cli.main(words) in (0, 4), words  # 4: compared and undecided
    print({END!r}, flush=True)
"""
"""Runs commands in one process: starting Python took most of the time of this file."""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """A store with a run of every kind, and their ids, the oldest first."""
    from naslab.results.store import Store

    path = tmp_path_factory.mktemp("width") / "store.sqlite"
    subprocess.run(
        [sys.executable, "-c", ONE_AFTER_ANOTHER, json.dumps([[*words, "--quiet"] for words in RUNS])],
        env={**os.environ, "PYTHONPATH": TOOLS, "NASLAB_STORE": str(path)}, check=True, stdout=subprocess.DEVNULL,
        timeout=HANG_S,
    )  # fmt: skip
    return path, [run.run_id for run in Store(path).list_runs()][::-1]


_PRINTED: dict[tuple[Path, int, tuple[str, ...]], list[str]] = {}
"""What commands printed: readers, which print the same each time."""


def on_terminal(store: Path, columns: int, commands: Sequence[Sequence[str]]) -> list[list[str]]:
    """The lines of both streams of each command on a terminal of so many columns."""
    keys = [(store, columns, tuple(words)) for words in commands]
    new = [words for key, words in zip(keys, commands, strict=True) if key not in _PRINTED]
    for words, lines in zip(new, _carried_out(store, columns, new) if new else (), strict=True):
        _PRINTED[store, columns, tuple(words)] = lines
    return [_PRINTED[key] for key in keys]


def _carried_out(store: Path, columns: int, commands: Sequence[Sequence[str]]) -> list[list[str]]:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    environment = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "LINES")}
    environment |= {"NASLAB_STORE": str(store), "NO_COLOR": "1", "TERM": "xterm", "LC_ALL": "C.UTF-8"}
    environment["PYTHONPATH"] = TOOLS
    data = b""
    with subprocess.Popen(
        [sys.executable, "-c", ONE_AFTER_ANOTHER, json.dumps(commands)],
        stdin=theirs, stdout=theirs, stderr=theirs, env=environment, start_new_session=True,
    ) as child:  # fmt: skip
        os.close(theirs)
        while piece := _read(ours):
            data += piece
        os.close(ours)
        assert child.wait(60) == 0, data.decode()
    return [part.split("\n") for part in data.decode("utf-8").replace("\r\n", "\n").split(f"{END}\n")[:-1]]


def _read(stream: int) -> bytes:
    try:
        return os.read(stream, 1 << 16)
    except OSError:  # the other end is closed
        return b""


def words_of(lines: list[str]) -> list[str]:
    """Words, but for names that are cut in the middle on purpose, and the line that says what has no room."""
    told = " ".join(line for line in lines if not line.startswith("Not shown in "))
    return re.findall(r"[A-Za-z]{2,}", re.sub(r"\S*…\S*", "", told))


def commands(ids: list[str]) -> list[list[str]]:
    run, one, other = ids[:3]
    return [
        ["runs"], *(["show", each] for each in ids), ["explain", run], ["explain", one], ["compare", one, other],
        ["audit", *ids], ["compare", "history", SIM], ["lab", "list"],
        ["runs", "--published"], ["show", "published:nas4220-raid0"],
    ]  # fmt: skip


@pytest.mark.parametrize("columns", [80, 120])
def test_nothing_is_cut_or_wrapped_by_the_terminal(store: tuple[Path, list[str]], columns: int) -> None:
    path, ids = store
    asked = commands(ids)
    every = zip(asked, on_terminal(path, columns, asked), on_terminal(path, 400, asked), strict=True)
    wrong = []
    for words, lines, wide in every:
        # A name without a space, an address or a path, may be longer than a terminal: it is left whole.
        wrong += [(words, line) for line in lines if len(line) > columns and " " in line.strip().removesuffix(" \\")]
        known = set(words_of(wide))
        wrong += [(words, word) for word in words_of(lines) if word not in known]
    assert not wrong, "\n".join(map(str, wrong))


def test_a_table_has_its_columns_in_one_piece_or_says_which_it_lacks(store: tuple[Path, list[str]]) -> None:
    path, ids = store
    lines, shown = on_terminal(path, 80, [["runs"], ["show", ids[-1]]])
    assert lines[0].split()[0] == "run" and "status" in lines[0], "the last column stands with the others"
    assert sum(line.startswith("─") for line in lines) == 1, "one table"
    assert any(line.startswith("Not shown in 80 columns: ") for line in lines)
    assert sum(line.startswith("operation ") for line in shown) == 1, "the table of a tree is one"
    assert "Without room" not in "\n".join(on_terminal(path, 160, [["runs"]])[0])


def test_a_command_to_try_next_is_one_that_a_shell_takes(store: tuple[Path, list[str]]) -> None:
    path, ids = store
    (lines,) = on_terminal(path, 80, [["explain", ids[1]]])
    at = lines.index("Next") + 1
    printed = "\n".join(lines[at:]).removeprefix("  - ")
    taken = shlex.split(printed.replace("\\\n", "").split("\n")[0])
    assert taken[:2] == ["naslab", "run"] and SIM in taken, printed


def test_nobody_reads_names_of_steps_or_bare_counts(store: tuple[Path, list[str]]) -> None:
    path, ids = store
    for lines in on_terminal(path, 120, [["show", run] for run in ids]):
        told = "\n".join(lines)
        assert not re.search(r"\bladder \d|\bfirst run\b|, cell \d|\(cell \d|\d{8,}(?!-)|\d us\b|\d\.\d{4,}", told), (
            told
        )
