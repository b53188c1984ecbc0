"""Runs that others give us, with fields broken one by one: an error that names the field, or a run that can be used.

`NASLAB_HOSTILE=N` looks at so many documents; `NASLAB_HOSTILE_SEED` breaks other fields.
"""

from __future__ import annotations

import contextlib
import copy
import io
import json
import os
import random
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cli_tools import Cli
from naslab import cli as command_line

COUNT = int(os.environ.get("NASLAB_HOSTILE", "40"))
SEED = int(os.environ.get("NASLAB_HOSTILE_SEED", "21"))
SIM = "sim:?link_bytes_per_s=100MB&latency_ns=200us&disk_read_bytes_per_s=80MB&disk_write_bytes_per_s=60MB"
FOLDER = "target"
MADE = (
    ("run", SIM, "--budget", "20s"),
    ("sweep", SIM, "--file-size", "1m", "--record", "64k,1m", "--repeat", "2"),
    ("sustained", SIM, "--size", "16m", "--duration", "3s"),
    ("curve", SIM, "--size", "8m", "--budget", "20s"),
    ("profile", SIM, "--size", "128m", "--budget", "20s"),
    ("tree", SIM, "--files", "50", "--depth-of-tree", "1", "--fan-out", "2"),
    ("job", FOLDER, "copy-in,copy-out", "--corpus", "sources", "--scale", "0.01"),
)
USES: tuple[tuple[str, ...], ...] = (
    ("show", "last"), ("show", "last", "--json"), ("runs",), ("explain", "last"), ("audit", "last"),
    ("compare", "last", "last"), ("whatif", "last", "--link", "10Gbit/s"), ("history",),
    ("export", "last", "-o", "out.csv"), ("export", "last", "-o", "out.json"), ("export", "last", "-o", "out.xlsx"),
    ("export", "last", "-o", "out.prom"), ("report", "last", "-o", "out.html"),
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    None, True, 0, -1, 1, 0.5, -0.5, 1e308, -1e308, 2**63 - 1, 2**63, 10**30, float("nan"), float("inf"), "", "x" * 300,
    "\ud800", "\x00", "\x1b[2J", "1", "../../x", [], {}, [1], {"a": 1}, [None], ["a", "b"],
)  # fmt: skip


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    cli = Cli(tmp_path_factory.mktemp("made"))
    (cli.folder / FOLDER).mkdir(exist_ok=True)
    return [cli(*words, "--json", timeout=120).ok().json() for words in MADE]


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Of everything in a document."""
    if path:
        yield path
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        yield from places(child, (*path, key))


def broken(document: Any, rng: random.Random) -> tuple[Any, str]:
    """A copy with one to three fields replaced, removed or doubled; what was done."""
    made, told = copy.deepcopy(document), []
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        found = list(places(made))
        # A field is broken as often at the top as in a long list.
        depth = rng.choice(sorted({len(path) for path in found}))
        path = rng.choice([each for each in found if len(each) == depth])
        parent = made
        for key in path[:-1]:
            parent = parent[key]
        what = rng.random()
        if what < 0.15:
            del parent[path[-1]]
            told.append(f"{path} removed")
        elif what < 0.25 and isinstance(parent, list):
            parent.append(copy.deepcopy(parent[path[-1]]))
            told.append(f"{path} doubled")
        else:
            parent[path[-1]] = value = rng.choice(VALUES)
            told.append(f"{path} = {value!r}")
    return made, "; ".join(told)


def said(words: tuple[str, ...]) -> tuple[int, str]:
    """Exit code and traceback of a command in this process."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as err:
        try:
            return command_line.main([str(word) for word in words]), err.getvalue()
        except SystemExit as end:
            return int(end.code or 0), err.getvalue()
        except BaseException:
            return -1, traceback.format_exc()


@pytest.mark.timeout(300 + 5 * COUNT)
def test_no_document_makes_a_traceback(documents: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(SEED)
    monkeypatch.chdir(tmp_path)
    refused, failures = 0, dict[str, str]()
    for number in range(COUNT):
        document, told = broken(rng.choice(documents), rng)
        (tmp_path / "run.json").write_text(json.dumps(document), "utf-8")
        store = tmp_path / f"{number}.sqlite"
        monkeypatch.setenv("NASLAB_STORE", str(store))
        code, text = said(("import", "run.json"))
        if code == 0:
            for words in USES:
                use, text = said(words)
                if use not in (0, 1, 2, 3, 4):
                    failures.setdefault(
                        text.splitlines()[-1] + " " + text.splitlines()[-3].strip(), f"{words[0]}: {told}\n{text}"
                    )
        elif code in (1, 2):
            refused += 1
            assert text.startswith("naslab: "), text
        else:
            failures.setdefault(text.splitlines()[-1], f"import: {told}\n{text}")
        for left in tmp_path.glob(f"{number}.sqlite*"):
            left.unlink()
    assert not failures, f"{len(failures)} of {COUNT}:\n" + "\n".join(failures.values())
    assert 0.1 * COUNT < refused < COUNT
