"""`naslab mcp` over standard input and output, asked by the SDK's own client."""

from __future__ import annotations

import csv
import io
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

import naslab
from cli_tools import HANG_S, called, run_folders
from fixtures_run import make_parts
from naslab.results.columns import CELL_COLUMNS
from naslab.results.store import Store

SIM = "sim:?link_bytes_per_s=125MB"
SMALL = {"file_size": "1m", "record": "64k"}
READING = {"list_runs", "show_run", "explain_run", "compare_runs", "export_table"}
MEASURING = {"measure_limits", "measure_sweep", "measure_curve"}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two sweeps of a simulated server and a faster one, and a run with names."""
    path = tmp_path_factory.mktemp("mcp") / "runs.sqlite"
    document, blobs, spec = make_parts(ops=("read",), file_sizes=(1 << 20,), record_sizes=(65536,), blocks=1)
    Store(path).save(document, blobs, spec)
    for target in (SIM, "sim:?link_bytes_per_s=250MB"):
        naslab.measure(target, kind="sweep", file_size="1m,16m", record="64k", tests="write,read", repeat=5, store=path)
    return path


def run(steps: Callable[[Client], Coroutine[Any, Any, None]], store: Path, *words: str, **env: str) -> None:
    """The steps of a client, in a minute."""

    async def main() -> None:
        with anyio.fail_after(90):
            async with client(store, *words, **env) as one:
                await steps(one)

    anyio.run(main)


@asynccontextmanager
async def client(store: Path, *words: str, **env: str) -> AsyncIterator[Client]:
    """A client whose server runs with these options."""
    command = StdioServerParameters(
        command=sys.executable, args=["-m", "naslab", "mcp", *words], env={"NASLAB_STORE": str(store), **env}
    )
    async with Client(stdio_client(command)) as one:
        yield one


async def ask(one: Client, tool: str, **arguments: Any) -> Any:
    """What a tool gives: its data, or its text."""
    found = await one.call_tool(tool, arguments)
    assert not found.is_error, found.content
    return (found.structured_content or {}).get("result", found.structured_content)


async def refused(one: Client, tool: str, **arguments: Any) -> str:
    """What a tool says that refuses."""
    found = await one.call_tool(tool, arguments)
    assert found.is_error, found.structured_content
    return str(found.content[0].text)  # type: ignore[union-attr]


def newest(store: Path) -> list[str]:
    return [each.run_id for each in naslab.runs(store=store)]


def test_without_a_target_nothing_measures(store: Path) -> None:
    async def steps(one: Client) -> None:
        tools = (await one.list_tools()).tools
        assert {tool.name for tool in tools} == READING
        for tool in tools:
            assert tool.annotations is not None and tool.annotations.read_only_hint is True, tool.name
            assert tool.description and "\n   " not in tool.description
        assert "measure_limits" in await refused(one, "measure_limits", target=SIM)

    before = store.read_bytes()
    run(steps, store)
    assert store.read_bytes() == before


def test_what_tools_tell_is_the_library(store: Path) -> None:
    last = naslab.load(store=store)

    async def steps(one: Client) -> None:
        listed = (await ask(one, "list_runs"))["runs"]
        assert [each["run_id"] for each in listed] == newest(store)
        assert [each["target"] for each in (await ask(one, "list_runs", target="NAS.example"))["runs"]] == [
            "smb://tester@nas.example/bench"
        ]
        assert len((await ask(one, "list_runs", limit=1))["runs"]) == 1
        shown = await ask(one, "show_run", run=last.run_id)
        assert last.run_id in shown and "\x1b" not in shown
        told = await ask(one, "explain_run")
        assert told["run_id"] == last.run_id and told["limits"]
        assert [(each["kind"], each["confidence"]) for each in told["limits"]] == [
            (limit.kind, limit.probability) for limit in last.verdict()
        ]
        assert told["verdict"] == list(last.verdict().sentences)
        compared = await ask(one, "compare_runs", baseline=listed[1]["run_id"], other="last", limit=1)
        judged = naslab.compare(naslab.load(listed[1]["run_id"], store), last)
        assert compared["verdict"] == judged.verdict == "better" and compared["sentence"] == judged.sentence
        assert len(compared["measurements"]) == 1 < compared["measurements_total"] == len(judged.rows)

    run(steps, store)


def test_tables_in_parts(store: Path) -> None:
    last = naslab.load(store=store)

    async def steps(one: Client) -> None:
        rows: list[list[Any]] = []
        offset: int | None = 0
        while offset is not None:
            part = await ask(one, "export_table", offset=offset, limit=7)
            assert part["columns"] == [column.name for column in CELL_COLUMNS]
            rows += part["rows"]
            offset = part["next_offset"]
        assert len(rows) == part["rows_total"] == len(last.cells) > 7
        rate = part["columns"].index("throughput_bytes_per_s")
        assert [row[rate] for row in rows] == [cell["throughput_bytes_per_s"] for cell in last.cells]
        text = (await ask(one, "export_table", format="csv", limit=1000))["csv"]
        read = list(csv.DictReader(io.StringIO(text)))
        assert [float(row["throughput_bytes_per_s"]) for row in read] == [row[rate] for row in rows]
        series = await ask(one, "export_table", table="series", limit=1000)
        at = series["columns"].index("read_bytes")
        moved = sum(int(last.series(cell)["read_bytes"].sum()) for cell in last.cells)
        assert series["next_offset"] is None and sum(row[at] for row in series["rows"]) == moved > 0

    run(steps, store)


def test_what_is_wrong_is_told(store: Path, tmp_path: Path) -> None:
    foreign = tmp_path / "other.json"
    foreign.write_text(naslab.load(store=store).to_json())

    async def steps(one: Client) -> None:
        for name in (str(foreign), "../other.json", "nothing"):
            assert "no run" in (text := await refused(one, "show_run", run=name)) and str(store) not in text
        assert "limit=0" in await refused(one, "list_runs", limit=0)
        assert "limit=1001" in await refused(one, "export_table", limit=1001)
        assert "offset=-1" in await refused(one, "export_table", offset=-1)
        assert "margin" in await refused(one, "compare_runs", baseline="last", other="last", margin_percent=0)
        assert "twice" in await refused(one, "compare_runs", baseline="last", other="last")

    run(steps, store)


def test_redacted_tools_name_nobody(store: Path) -> None:
    named = newest(store)[-1]

    async def steps(one: Client) -> None:
        texts = [
            await ask(one, "list_runs"), await ask(one, "show_run", run=named),
            await ask(one, "explain_run", run=named),
            await ask(one, "export_table", run=named, format="csv"),
            await refused(one, "show_run", run="nothing"),
        ]  # fmt: skip
        for text in map(str, texts):
            assert not any(name in text for name in ("tester", "nas.example", "/bench", str(store))), text[:200]

    run(steps, store, "--redact")


def test_measurements_within_their_limits(store: Path) -> None:
    words = ("--target", SIM, "--target", "null:", "--budget", "30s", "--max-bytes", "1g", "--measurements", "2")

    async def steps(one: Client) -> None:
        tools = {tool.name: tool for tool in (await one.list_tools()).tools}
        assert set(tools) == READING | MEASURING
        for name in MEASURING:
            assert tools[name].input_schema["properties"]["target"]["enum"] == [SIM, "null:"]
            annotations = tools[name].annotations
            assert annotations is not None and annotations.read_only_hint is False
            assert "30s" in (tools[name].description or "") and "1g" in (tools[name].description or "")
        before = newest(store)
        for target in ("/tmp", "sim:", f"{SIM}&latency_ns=1us", "--help"):
            assert "target" in await refused(one, "measure_sweep", target=target, **SMALL)
        assert "up to 30s" in await refused(one, "measure_limits", target=SIM, budget="31s")
        assert "up to 1g" in await refused(one, "measure_limits", target=SIM, max_bytes="2g")
        assert "budget=0s" in await refused(one, "measure_limits", target=SIM, budget="0s")
        assert newest(store) == before, "nothing was measured"

        told: list[str] = []

        async def heard(_done: float, _of: float | None, words: str | None) -> None:
            told.append(words or "")

        arguments = {"target": SIM, **SMALL, "note": "asked for"}
        found = (await one.call_tool("measure_sweep", arguments, progress_callback=heard)).structured_content
        assert found is not None and found["exit_code"] == 0 and found["measurements_left"] == 1
        assert found["run_id"] == newest(store)[0] != before[0]
        run = naslab.load(found["run_id"], store)
        assert run.document["note"] == "asked for" and run.document["target"]["url"] == SIM
        assert told == ["write: complete", "read: complete"]
        text = await refused(one, "measure_sweep", target=SIM, file_size="8g", record="1m")
        assert "--max-bytes" in text and "\n" not in text
        assert "2 measurements" in await refused(one, "measure_sweep", target=SIM, **SMALL)

    run(steps, store, *words)


async def _begun(one: Client, folder: Path, group: anyio.abc.TaskGroup) -> None:
    """Starts a measurement, and waits for its first cell."""
    first = anyio.Event()

    async def heard(*_: object) -> None:
        first.set()

    async def measure() -> None:
        await one.call_tool("measure_sweep", {"target": str(folder), **SMALL, "repeat": 1000}, progress_callback=heard)

    group.start_soon(measure)
    await first.wait()
    assert len(run_folders(folder)) == 1


def _partial(store: Path, folder: Path) -> bool:
    """Whether the last run kept what it had measured, and removed its folder."""
    last = naslab.runs(store=store, target=str(folder))[0]
    return last.status == "partial" and last.cells > 0 and not run_folders(folder)


async def _until(condition: Callable[[], bool]) -> None:
    while not condition():
        await anyio.sleep(0.05)


@pytest.mark.lab
def test_a_cancelled_measurement_ends_as_after_ctrl_c(tmp_path: Path) -> None:
    folder, store = tmp_path / "files", tmp_path / "runs.sqlite"
    folder.mkdir()

    async def steps(one: Client) -> None:
        async with anyio.create_task_group() as group:
            await _begun(one, folder, group)
            assert "under way" in await refused(one, "measure_limits", target=str(folder))
            assert (await ask(one, "list_runs"))["runs"][0]["status"] == "running", "reading goes on"
            group.cancel_scope.cancel()
        await _until(lambda: _partial(store, folder))
        again = {"target": str(folder), **SMALL}
        while (found := await one.call_tool("measure_sweep", again)).is_error:  # until the process is gone, too
            assert "under way" in str(found.content)

    run(steps, store, "--target", str(folder))


@pytest.mark.lab
@pytest.mark.parametrize("how", ["closed", "terminated"])
def test_a_measurement_ends_with_its_server(tmp_path: Path, how: str) -> None:
    folder, store = tmp_path / "files", tmp_path / "runs.sqlite"
    folder.mkdir()

    async def main() -> None:
        with anyio.fail_after(90):
            try:
                async with client(store, "--target", str(folder)) as one, anyio.create_task_group() as group:
                    await _begun(one, folder, group)
                    if how == "terminated":
                        for pid in _servers():
                            os.kill(pid, signal.SIGTERM)
                        await _until(lambda: _partial(store, folder))
                    raise EOFError
            except* Exception:
                pass
            await _until(lambda: _partial(store, folder))

    anyio.run(main)


def _servers() -> list[int]:
    """Children of this process that are `naslab mcp`."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            words = (path / "cmdline").read_bytes().split(b"\0")
            parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if parent == os.getpid() and b"mcp" in words and b"naslab" in words:
            found.append(int(path.name))
    assert len(found) == 1
    return found


@pytest.mark.parametrize(
    "words, said",
    [
        (["--budget", "2m"], "--target"),
        (["--max-bytes", "2g"], "--target"),
        (["--measurements", "2"], "--target"),
        (["--credentials", "file"], "--target"),
        (["--redact", "--target", "sim:"], "--redact"),
        (["--target", "sim:", "--budget", "soon"], "--budget"),
        (["--target", "sim:", "--budget", "0s"], "--budget"),
        (["--target", "sim:", "--max-bytes", "12q"], "--max-bytes"),
        (["--target", "ftp://nas/media"], "ftp"),
        (["--target", "smb://user:hunter2@nas/media"], "NASLAB_PASSWORD"),
    ],
)
def test_options_that_cannot_be(tmp_path: Path, words: list[str], said: str) -> None:
    done = called(["mcp", *words], tmp_path, {"NASLAB_STORE": str(tmp_path / "runs.sqlite")})
    assert (done.code, done.out) == (2, "") and done.err.count("\n") == 1 and said in done.err
    assert "hunter2" not in done.err and not list(tmp_path.iterdir())


def test_without_the_package(tmp_path: Path) -> None:
    import subprocess

    program = (
        "import sys; sys.modules['mcp'] = None; from naslab.cli import entry; sys.argv = ['naslab', 'mcp']; entry()"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=HANG_S)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1 and "pip install 'naslab[mcp]'" in done.stderr
