"""The run's own process and its clients, without Dask: links and agents of the test's own."""

from __future__ import annotations

import asyncio
import copy
import dataclasses
import json
import platform
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cli_tools import HANG_S
from naslab import __version__
from naslab.errors import NaslabError, TargetError, UsageError
from naslab.execution.clients import checks, link
from naslab.execution.clients import run as cluster
from naslab.execution.clients.agent import SILENCE_S, Agent
from naslab.execution.clients.launch import LoopThread
from naslab.execution.clients.link import Client
from naslab.spec import CellSpec, RunSpec
from naslab.text.messages import sentence
from unit.test_cluster_merge import measured

NO_ROOM = {"kind": "no_space", "status": 28, "operation": "open", "cause": "no room", "facts": [["path", "a"]]}
CLOSED = {"kind": "permission", "status": 13, "operation": "", "cause": "no permission", "facts": []}
Script = Callable[[int, str, dict[str, Any]], Any]


class Agents:
    """Answers calls as agents do. script: what differs, by client and method; its answer is sent instead."""

    def __init__(self, cell: tuple[dict[str, Any], list[bytes]], script: Script | None = None) -> None:
        self.cell, self.script = cell, script
        self.calls: list[tuple[int, str]] = []
        self.begin_ns: dict[int, int] = {}

    async def call(self, address: str, key: str, index: int, method: str, arguments: dict[str, Any]) -> dict[str, Any]:
        assert address == f"a{index}" and key.endswith(f":{index}")
        self.calls.append((index, method))
        special = self.script(index, method, arguments) if self.script else None
        if asyncio.iscoroutine(special):
            special = await special
        if special is not None:
            return dict(special)
        return self.usual(index, method, arguments)

    def usual(self, index: int, method: str, arguments: dict[str, Any]) -> dict[str, Any]:
        now = time.monotonic_ns()
        if method == "clock":
            return {"received_ns": now, "sent_ns": now}
        if method == "describe":
            return {
                "naslab_version": __version__,
                "python": platform.python_version(),
                "pid": index,
                "client": {"host": "h"},
            }
        if method == "begin":
            self.begin_ns[index] = arguments["at_ns"]
        if method == "result":
            return {
                "ended": True,
                "cell": (self.result(index), self.cell[1]),
                "end": {"status": "complete"},
                "error": None,
            }
        if method in ("finish", "close", "unmark"):
            return {"left": []}
        if method == "probe":
            return {"probe": {"facts": {"filesystem": "nfs4"}, "space": {"free_bytes": 9000, "total_bytes": 10000}}}
        return {"sees": True} if method == "sees" else {}

    def result(self, index: int) -> dict[str, Any]:
        """The cell, begun when it was told to."""
        moved = copy.deepcopy(self.cell[0])
        shift = self.begin_ns[index] - moved["start_ns"]
        for each in (moved, *moved["workers"]):
            each["start_ns"] += shift
            each["end_ns"] += shift
        return moved


@dataclasses.dataclass
class Owner:
    """As `Clients`, with so many of the test's agents."""

    agents: Agents
    count: int
    share: str = "own"
    job: dict[str, Any] | None = None

    def fresh(self, key: str) -> list[Client]:
        return [Client(at, f"a{at}", f"h{at}", self.agents, f"{key}:{at}") for at in range(self.count)]


@pytest.fixture(scope="module")
def cell() -> tuple[dict[str, Any], list[bytes]]:
    return measured(5)


@pytest.fixture
def loop() -> Iterator[LoopThread]:
    made = LoopThread()
    yield made
    made.close()


CELL = CellSpec("random_read", 8 << 20, 4096, ["naslab.f"], id=7)
SPEC = dataclasses.asdict(RunSpec({"protocol": "nfs", "options": {}}, [], run_id="r", folder="naslab-r"))


def stage(run: cluster.ClusterRun, *cells: CellSpec) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """(how it ended, the cells that came)."""
    came: list[dict[str, Any]] = []

    def heard(kind: str, text: str, _: list[bytes]) -> bool:
        if kind == "cell":
            came.append(json.loads(text))
        return True

    return json.loads(run.stage(json.dumps([dataclasses.asdict(each) for each in cells]), heard)), came


def test_many_clients_are_one_engine(cell: tuple[dict[str, Any], list[bytes]], loop: LoopThread) -> None:
    agents = Agents(cell)
    run = cluster.ClusterRun(Owner(agents, 40), loop, SPEC, "{}", 1)  # type: ignore[arg-type]
    end, (merged,) = stage(run, CELL)
    assert end["status"] == "complete" and len(end["clients"]) == 40
    assert merged["id"] == 7 or merged["bytes"] == 40 * cell[0]["bytes"]
    assert merged["clients"]["count"] == 40 and merged["clients"]["start_skew_ns"] < 50_000_000
    order = [method for index, method in agents.calls if index == 3 and method != "clock"]
    assert order == ["describe", "open", "prepare", "open_files", "begin", "result"]
    assert json.loads(run.finish()) == []
    assert [method for index, method in agents.calls if index == 3][-2:] == ["finish", "close"]
    with pytest.raises(UsageError, match="the run has ended"):
        stage(run, CELL)


def test_only_the_first_clients_carry_a_rung_out(cell: tuple[dict[str, Any], list[bytes]], loop: LoopThread) -> None:
    agents = Agents(cell)
    run = cluster.ClusterRun(Owner(agents, 4), loop, SPEC, "{}", 1)  # type: ignore[arg-type]
    _, (merged,) = stage(run, dataclasses.replace(CELL, clients=2))
    assert merged["clients"]["count"] == 2
    assert {index for index, method in agents.calls if method == "begin"} == {0, 1}
    with pytest.raises(UsageError, match="--scale 9: there are only 4 clients"):
        stage(run, dataclasses.replace(CELL, clients=9))
    run.finish()


def test_a_client_that_goes_away_ends_the_others(cell: tuple[dict[str, Any], list[bytes]], loop: LoopThread) -> None:
    def lost(index: int, method: str, _: dict[str, Any]) -> None:
        if index == 1 and method == "result":
            raise OSError("in <TCP (closed) x local=y remote=z>: Stream is closed")

    agents = Agents(cell, lost)
    run = cluster.ClusterRun(Owner(agents, 3), loop, SPEC, "{}", 1)  # type: ignore[arg-type]
    end, (merged,) = stage(run, CELL)
    assert end["status"] == "failed" and end["error"]["cause"] == "client 1 (h1) went away: stream is closed"
    assert merged["status"] == "failed" and [each["client"] for each in merged["clients"]["each"]] == [0, 2]
    assert (0, "stop") in agents.calls and (2, "stop") in agents.calls
    assert json.loads(run.finish()) == [] and (0, "unmark") in agents.calls, "another removes its folder"


def test_a_client_that_stands_still_is_lost(
    cell: tuple[dict[str, Any], list[bytes]], loop: LoopThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "CALL_S", 0.2)
    monkeypatch.setattr(cluster, "LOOK_S", 0.1)
    agents = Agents(cell, lambda index, method, _: asyncio.sleep(60) if (index, method) == (2, "result") else None)
    run = cluster.ClusterRun(Owner(agents, 3), loop, SPEC, "{}", 1)  # type: ignore[arg-type]
    end, _ = stage(run, CELL)
    assert end["status"] == "failed" and "client 2 (h2) did not answer" in end["error"]["cause"]
    run.finish()


@pytest.mark.parametrize("method", ["prepare", "open_files"])
def test_a_set_up_that_fails_names_the_client(
    cell: tuple[dict[str, Any], list[bytes]], loop: LoopThread, method: str
) -> None:
    failed = {"ended": True, "error": None, "end": {"error": NO_ROOM}}
    agents = Agents(cell, lambda index, asked, _: failed if (index, asked) == (1, method) else None)
    run = cluster.ClusterRun(Owner(agents, 2), loop, SPEC, "{}", 1)  # type: ignore[arg-type]
    end, came = stage(run, CELL)
    assert (end["status"], end["error"]["kind"]) == ("failed", "no_space")
    assert sentence(end["error"]).startswith("client 1 (h1): cannot open a: no room")
    assert (0, "stop") in agents.calls and not any(each[1] == "begin" for each in agents.calls)
    run.finish()
    assert not came or came[0]["status"] != "complete"


def test_agents_are_spoken_to_between_cells(
    cell: tuple[dict[str, Any], list[bytes]], loop: LoopThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent that hears nothing ends itself; a pause between two stages must not do that."""
    monkeypatch.setattr(cluster, "LOOK_S", 0.05)
    agents = Agents(cell)
    run = cluster.ClusterRun(Owner(agents, 2), loop, SPEC, "{}", 1)  # type: ignore[arg-type]
    stage(run, CELL)
    before = len(agents.calls)
    until = time.monotonic() + HANG_S
    while len(agents.calls) < before + 6 and time.monotonic() < until:
        time.sleep(0.05)
    assert {method for _, method in agents.calls[before:]} == {"clock"}
    run.finish()


# Checks before anything is measured.


def probed(agents: Agents, count: int = 3) -> dict[str, Any]:
    clients = Owner(agents, count).fresh("probe")
    target = {"protocol": "nfs", "options": {}}
    return asyncio.run(checks.probe(clients, target, 1, "own"))


def test_the_room_is_divided(cell: tuple[dict[str, Any], list[bytes]]) -> None:
    agents = Agents(cell)
    assert probed(agents)["space"]["free_bytes"] == 3000
    assert agents.calls[-1] == (0, "unmark")


@pytest.mark.parametrize(
    ("method", "reply", "kind", "words"),
    [
        ("describe", {"naslab_version": "9.9", "python": platform.python_version()}, UsageError, "has naslab 9.9"),
        ("describe", {"naslab_version": __version__, "python": "2.7.18"}, UsageError, "Python 2.7.18, this machine"),
        ("probe", {"probe": {"facts": {"filesystem": "ext4"}, "space": None}}, TargetError, "filesystem is ext4, not"),
        ("sees", {"sees": False}, TargetError, "does not see the files of client 0"),
        ("sees", {"error": {"class": "TargetError", "message": "no permission", "kind": "permission", "status": 13,
                            "space": False, "failure": CLOSED}}, TargetError, "no permission"),
    ],
)  # fmt: skip
def test_clients_that_differ_are_refused(
    cell: tuple[dict[str, Any], list[bytes]], method: str, reply: dict[str, Any], kind: type[NaslabError], words: str
) -> None:
    agents = Agents(cell, lambda index, asked, _: reply if (index, asked) == (2, method) else None)
    with pytest.raises(kind, match=r"client 2 \(h2\)") as found:
        probed(agents)
    assert words in str(found.value)
    assert not any(each[1] == "mark" for each in agents.calls) or agents.calls[-1] == (0, "unmark")


def test_an_error_without_a_name_is_no_reply() -> None:
    told = {"class": "SpecError", "message": "x", "kind": "", "status": 0, "space": False, "failure": CLOSED}
    assert isinstance(link.raised(told, "c"), UsageError) and str(link.raised(told, "c")) == "c: no permission"
    assert link.raised(told).failure == ("permission", 13, "", "no permission", [])


@pytest.mark.parametrize(("clients", "seconds"), [(1, 1.0), (200, 1.0), (600, 3.0), (1000, 5.0), (100_000, 5.0)])
def test_many_clients_are_looked_at_more_rarely(clients: int, seconds: float) -> None:
    """What looks cost the scheduler does not grow with them; an agent that hears nothing for longer ends."""
    assert cluster.look_s(clients) == seconds
    assert seconds + link.CALL_S < SILENCE_S


def test_agents_of_one_process_keep_scripts_of_their_own() -> None:
    """Two runs on one worker: the end of one takes nothing from the other."""

    async def made() -> tuple[Path, Path]:
        one, other = Agent(0), Agent(1)
        paths = Path(one._engine.keep(b"one")), Path(other._engine.keep(b"other"))
        await one.close()
        assert not paths[0].exists() and paths[1].read_bytes() == b"other"
        await other.close()
        return paths

    assert not any(path.parent.exists() for path in asyncio.run(made()))
