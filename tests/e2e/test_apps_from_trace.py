"""A real program as an application: recorded, described, run, and what it then does recorded in turn."""

from __future__ import annotations

import random
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from msgspec import to_builtins

from cli_tools import Cli, may_trace, need
from naslab.trace import Operation, Trace
from naslab.trace.profile import Profile

COPY = "cp -r src dst && rm -r dst/d1"


@pytest.fixture
def trace(cli: Cli) -> Path:
    """The trace of a tree that is copied and partly removed."""
    need(may_trace(), "strace, and the right to trace processes,")
    work, chance = cli.folder / "work", random.Random(4)
    for number in range(60):
        place = work / "src" / f"d{number % 5}" / f"file {number}"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(chance.randbytes(int(chance.lognormvariate(10, 1.7))))
    made = cli.folder / "copy.trace.zst"
    cli("trace", "record", "--quiet", "-o", made, "--", "sh", "-c", COPY, cwd=work).ok()
    return made


def profile(operations: list[Operation]) -> dict[str, Any]:
    """The profile without opened folders: naslab lists them otherwise than the program."""
    found, folders = Profile(), set()
    for o in operations:
        if o.op == "open" and "f" in o.flags:
            folders.add(o.handle)
        if o.handle not in folders or o.handle is None:
            found.add(o)
    return to_builtins(found.document())  # type: ignore[no-any-return]


@pytest.mark.lab
def test_a_copy_like_a_copy(cli: Cli, trace: Path) -> None:
    """Shares within two points, bytes within 3 %, of what the system was really asked for."""
    own, again = cli.folder / "copy.toml", cli.folder / "again.trace.zst"
    text = cli("trace", "show", trace, "--emit-app", own).ok().out
    assert "60 files" in text and "cp -r src dst" in own.read_text()
    assert cli("apps", "--list", "--app", own).ok().out.count("(trace") > 10
    words = ["apps", cli.target, "--app", own, "--quiet", "--step"]
    cli(*words, "prepare").ok()
    inside = [sys.executable, "-m", "naslab", *map(str, words), "run"]
    cli("trace", "record", "--quiet", "-o", again, "--root", cli.target, "--", *inside).ok()
    issued = list(Trace(again))
    cli(*words, "clean").ok()
    assert list(cli.target.iterdir()) == []
    stream = Counter(o.stream for o in issued if o.op == "read").most_common(1)[0][0]
    now = profile([o for o in issued if o.stream == stream])
    then = profile(list(Trace(trace)))
    for key in ("read_bytes", "written_bytes"):
        assert now[key] == pytest.approx(then[key], rel=0.03), key
    for key in ("per_handle", "per_stream", "global"):
        assert now["sequential"][key] == pytest.approx(then["sequential"][key], abs=0.02), key
    counts = [{kind: row["operations"] for kind, row in p["kinds"].items()} for p in (then, now)]
    # What the run made is removed after it, so that it can run again: removals are more than the program's.
    assert counts[1]["remove"] >= counts[0]["remove"] > 0 and counts[1]["stat"] >= counts[0]["stat"]
    for kind in ("read", "write", "create", "mkdir"):
        assert counts[1][kind] == pytest.approx(counts[0][kind], rel=0.02), kind
    assert now["read_share_of_requests"] == pytest.approx(then["read_share_of_requests"], abs=0.02)


def test_one_that_is_no_definition(cli: Cli) -> None:
    bad = cli.folder / "bad.toml"
    bad.write_bytes(b"\xff")
    for words, told in (((bad,), "it is not UTF-8"), ((cli.folder / "none.toml",), "No such file")):
        done = cli("apps", cli.target, "--app", *words).sound()
        assert done.code == 2 and told in done.err and done.err.count("\n") == 1
