"""-a with processors: which are chosen, and that threads begun meanwhile run on those."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from cli_tools import need
from naslab.commands.diskspd.affinity import bound_to, chosen, shared, usable
from naslab.commands.diskspd.args import parse
from naslab.errors import UsageError


def of(line: str, there: set[int] | None) -> frozenset[int]:
    return chosen(parse(line.split()).profile, there)


def test_which_processors() -> None:
    assert of("f", None) == of("-a f", None) == of("-n f", {0}) == frozenset()
    assert of("-a1,0,1 f", {0, 1}) == of("-ag0,0,1 f", {0, 1, 2}) == {0, 1}
    assert shared({1, 0}) == ["-a: all threads share processors 0, 1; DiskSpd gives them one each"]
    assert shared({0}) == shared(set()) == []


@pytest.mark.parametrize(
    ("line", "there", "says"),
    [("-a7 f", {0, 1}, "cpu 7 not possible; use 0, 1"), ("-ag1,0 f", {0, 1}, "system only has 1 groups"),
     ("-a0 f", None, "leave -a out")],
)  # fmt: skip
def test_refusals(line: str, there: set[int] | None, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        of(line, there)


def test_time_spans_must_agree(tmp_path: Path) -> None:
    spans = "".join(
        f"<TimeSpan><Affinity><AffinityAssignment>{n}</AffinityAssignment></Affinity>"
        "<Targets><Target><Path>f</Path></Target></Targets></TimeSpan>" for n in (0, 1)
    )  # fmt: skip
    (tmp_path / "p.xml").write_text(f"<Profile><TimeSpans>{spans}</TimeSpans></Profile>")
    with pytest.raises(UsageError, match="time spans with different processors"):
        of(f"-X{tmp_path}/p.xml", {0, 1})


@pytest.mark.lab
def test_threads_inherit_it() -> None:
    before = usable()
    need(before is not None and len(before) > 1, "sched_setaffinity and two processors")
    assert before is not None
    last = max(before)
    seen: list[set[int]] = []
    with bound_to({last}):
        thread = threading.Thread(target=lambda: seen.append(os.sched_getaffinity(0)))
        thread.start()
        thread.join()
    assert seen == [{last}] and usable() == before
    with bound_to(()):
        assert usable() == before
