"""The agent as one client of many: asked over its standard input, as a host without naslab is asked over ssh."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent_tools import built, specification
from cli_tools import run_folders
from naslab import __version__
from naslab.client.environment import describe_client
from naslab.errors import NaslabError, TargetError, UsageError
from naslab.execution.clients.far import FarEngine
from naslab.execution.workspace import owner_mark

LONGEST_LINE = 1 << 28


@pytest.fixture(scope="module")
def agent() -> Path:
    return built()


def asked(agent: Path, work: Callable[[FarEngine], Any]) -> Any:
    """What `work` finds in a thread, while the engine's loop runs. The agent ends by itself, well, with its input."""

    async def run() -> Any:
        process = await asyncio.create_subprocess_exec(
            str(agent), "serve", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=LONGEST_LINE
        )
        assert process.stdin is not None and process.stdout is not None
        stdin = process.stdin
        engine = FarEngine(stdin.write, process.stdout)
        try:
            return await asyncio.to_thread(work, engine)
        finally:
            await engine.close()
            stdin.close()
            assert await asyncio.wait_for(process.wait(), 20) == 0

    return asyncio.run(run())


def local(folder: Path) -> dict[str, Any]:
    return dict(specification(str(folder)).target)


def spec_of(folder: Path, **change: Any) -> dict[str, Any]:
    made = dataclasses.asdict(specification(str(folder)))
    return {**made, "cells": [], "folder": f"naslab-{made['run_id']}", **change}


def cells_of(folder: Path) -> str:
    return json.dumps(dataclasses.asdict(specification(str(folder)))["cells"][:2])


@pytest.mark.timeout(600)  # where cargo builds it first
def test_it_says_who_it_is_and_what_the_time_is(agent: Path) -> None:
    about, clock = asked(agent, lambda engine: (engine.describe(), engine.call("clock")))
    here = describe_client()
    assert (about["naslab_version"], about["python"]) == (__version__, None)
    assert about["client"].keys() == here.keys()
    same = ("host", "system", "machine", "cpu", "cpus", "cpus_usable", "cpu_quota_cores", "cpu_limit_cores")
    assert {name: about["client"][name] for name in same} == {name: here[name] for name in same}
    assert about["client"]["memory_bytes"] == here["memory_bytes"]
    assert about["client"]["interfaces"] == here["interfaces"]
    assert 0 <= time.monotonic_ns() - clock["sent_ns"] < 60e9 and clock["received_ns"] <= clock["sent_ns"]


def test_a_marked_folder_is_seen_and_removed(agent: Path, tmp_path: Path) -> None:
    target = local(tmp_path)

    def work(engine: FarEngine) -> None:
        assert engine.probe(target, 4)["protocol"] == "local"
        assert engine.sees(target, "naslab-x", "naslab.client1") is False
        engine.mark(target, "naslab-x", owner_mark("x"))
        assert engine.sees(target, "naslab-x", "naslab.client1") is True
        assert sorted(path.name for path in (tmp_path / "naslab-x").iterdir()) == [
            "naslab-owner.json",
            "naslab.client1",
        ]
        assert engine.unmark(target, "naslab-x", in_doubt=False) == []
        for folder in ("data", "naslab-x/../data", ""):
            with pytest.raises(UsageError, match="folder"):
                engine.mark(target, folder, owner_mark("x"))
        with pytest.raises(UsageError, match="carries out no jobs"):
            engine.open(spec_of(tmp_path), owner_mark("x"), 4, lambda *_: None)  # type: ignore[arg-type,return-value]

    asked(agent, work)
    assert list(tmp_path.iterdir()) == []


def test_a_stage_waits_for_the_others_at_each_point(agent: Path, tmp_path: Path) -> None:
    """The window begins at the time that it is told; what is measured comes as from the engine of this process."""
    said: list[tuple[str, Any]] = []
    begins: list[int] = []

    def listen(kind: str, text: str, blobs: list[bytes]) -> int:
        event = json.loads(text)
        said.append((kind, event.get("point")))
        if kind == "cell":
            assert event["status"] == "complete" and event["start_ns"] >= begins[-1] and blobs
        if event.get("point") == "opened":
            begins.append(time.monotonic_ns() + 50_000_000)
            return begins[-1]
        return 0

    def work(engine: FarEngine) -> str:
        run = engine.open(spec_of(tmp_path, together=True), owner_mark("x"), 8, None)
        end = json.loads(run.stage(cells_of(tmp_path), listen))
        assert (end["status"], end["error"]) == ("complete", None)
        assert run_folders(tmp_path) != []
        return run.finish()

    assert asked(agent, work) == "[]"
    kept = [each for each in said if each[0] != "progress"]
    one = [("before", None), ("together", "prepared"), ("together", "opened"), ("cell", None)]
    assert kept == one * 2 and len(begins) == 2
    assert list(tmp_path.iterdir()) == []


def test_what_is_raised_in_between_ends_the_stage(agent: Path, tmp_path: Path) -> None:
    def listen(kind: str, text: str, _: list[bytes]) -> int:
        if kind == "together":
            raise KeyError(json.loads(text)["point"])
        return 0

    def work(engine: FarEngine) -> None:
        run = engine.open(spec_of(tmp_path, together=True), owner_mark("x"), 8, None)
        with pytest.raises(KeyError, match="prepared"):
            run.stage(cells_of(tmp_path), listen)
        assert json.loads(run.finish()) == []

    asked(agent, work)
    assert list(tmp_path.iterdir()) == []


def test_its_errors_are_those_of_the_engine(agent: Path, tmp_path: Path) -> None:
    nowhere = {"protocol": "local", "options": {"root": str(tmp_path / "missing")}}

    def work(engine: FarEngine) -> list[NaslabError]:
        found = []
        for what, given in (
            ("probe", {"target": nowhere, "depth": 1}),
            ("open", {"spec": spec_of(tmp_path, existing="read"), "mark": "{}", "depth": 1}),
            ("open", {"spec": {"colour": 2}, "mark": "{}", "depth": 1}),
            ("stage", {"cells": []}),
            ("probe", {"target": {"protocol": "nfs", "options": {}}, "depth": 1}),
        ):
            with pytest.raises(NaslabError) as raised:
                engine.call(what, **given)
            found.append(raised.value)
        return found

    missing, existing, unknown, none, _ = asked(agent, work)
    assert isinstance(missing, UsageError) and "missing" in str(missing)
    assert "touches no file that was there before" in str(existing) and "colour" in str(unknown)
    assert "no run is open" in str(none)


def test_it_ends_with_its_input_and_leaves_nothing(agent: Path, tmp_path: Path) -> None:
    """Whoever led it was killed in the middle of a load."""
    with subprocess.Popen([agent, "serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None
        cell = {**json.loads(cells_of(tmp_path))[0], "duration_ns": 60_000_000_000, "stop_bytes": None}
        for number, request in enumerate(
            ({"ask": "open", "spec": spec_of(tmp_path), "mark": owner_mark("x"), "depth": 8},
             {"ask": "script", "data": "AAAA"}, {"ask": "stage", "cells": [cell]})
        ):  # fmt: skip
            process.stdin.write(json.dumps({"id": number, **request}).encode() + b"\n")
        process.stdin.flush()
        lines = map(json.loads, process.stdout)
        script = Path(next(line for line in lines if line.get("id") == 1)["reply"]["path"])
        assert script.stat().st_mode & 0o777 == 0o600
        next(line for line in lines if line.get("event") == "progress")
        assert run_folders(tmp_path) != []
        threading.Thread(target=lambda: list(lines), daemon=True).start()
        process.stdin.close()
        assert process.wait(30) == 0
    assert list(tmp_path.iterdir()) == [] and not script.exists()


def test_a_lost_connection_is_told(agent: Path, tmp_path: Path) -> None:
    async def run() -> None:
        process = await asyncio.create_subprocess_exec(
            str(agent), "serve", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
        )
        assert process.stdin is not None and process.stdout is not None
        stdin = process.stdin
        engine = FarEngine(stdin.write, process.stdout)
        await engine.ask("clock")
        process.kill()
        await process.wait()
        for _ in range(2):
            with pytest.raises(TargetError, match="the agent ended"):
                await engine.ask("describe")
        await engine.close()

    asyncio.run(run())
