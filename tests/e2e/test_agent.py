"""The agent, built for this machine: it measures what the Python package measures, and leaves nothing."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from agent_tools import SIM, built, by_agent, by_python, digits, lines_of, peak_kib, specification
from cli_tools import Cli, run_folders
from lab_tools import need_system, own_folders
from naslab import lab
from naslab.lab.opening import open_target

ROOT = Path(__file__).parents[2]
__all__ = ["own_folders"]

pytestmark = pytest.mark.timeout(600)
"""The first of these tests has cargo build it."""


@pytest.fixture(scope="module")
def agent() -> Path:
    return built()


def test_a_simulated_server_has_the_same_digits(agent: Path) -> None:
    ours, theirs = by_agent([agent], specification(SIM)), by_python(specification(SIM))
    assert digits(ours[1]) == digits(theirs[1])
    assert len(ours[1]) == 4 and all(cell["status"] == "complete" and cell["blobs"] for cell in ours[1])
    assert (ours[0]["status"], ours[0]["left_behind"]) == (theirs[0]["status"], theirs[0]["left_behind"])
    assert ours[0]["facts"]["config"] == theirs[0]["facts"]["config"]
    other = by_agent([agent], specification(SIM, seed=12))[1]
    assert digits(other) != digits(ours[1]), "the comparison sees a difference"


def test_a_folder_gives_the_same_counts_and_stays_as_it_was(agent: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("kept")
    (end, ours), (_, theirs) = by_agent([agent], specification(str(tmp_path))), by_python(specification(str(tmp_path)))
    for mine, other in zip(ours, theirs, strict=True):
        assert mine.keys() == other.keys()
        for name in ("id", "op", "status", "stop_reason", "bytes", "ops", "errors", "verified", "data_measured"):
            assert mine[name] == other[name], name
        assert {kind: (each["ops"], each["bytes"]) for kind, each in mine["kinds"].items()} == {
            kind: (each["ops"], each["bytes"]) for kind, each in other["kinds"].items()
        }
    assert ours[1]["verified"]["bad"] == 0 and ours[1]["verified"]["blocks"] == 1024
    assert end["left_behind"] == []
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
    assert (tmp_path / "mine").read_text() == "kept"


def test_a_run_takes_less_than_64_mib(agent: Path, tmp_path: Path) -> None:
    assert peak_kib([agent], specification(str(tmp_path))) < 64 << 10
    assert peak_kib([agent], specification(SIM)) < 64 << 10


def test_a_stored_specification_is_what_it_reads(agent: Path, cli: Cli) -> None:
    """What a run of naslab keeps can be measured again without Python."""
    cli("sweep", SIM, "--file-size", "1m", "--record", "4k,64k", "--tests", "write,read", "--quiet").ok()
    from naslab.results.store import Store

    store = Store(cli.store)
    run = store.load("last")
    text = json.dumps(store.spec(run.run_id))
    done = subprocess.run([agent, "run"], input=text.encode(), capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    cells = [line["data"] for line in lines_of(done.stdout) if line["event"] == "cell"]
    assert [cell["bytes"] for cell in cells] == [cell["bytes"] for cell in run.cells]
    assert [cell["duration_ns"] for cell in cells] == [cell["duration_ns"] for cell in run.cells]


def test_what_a_killed_agent_leaves_is_found_by_clean(agent: Path, cli: Cli) -> None:
    spec = specification(str(cli.target))
    spec.cells[1].duration_ns = 3_600_000_000_000
    child = subprocess.Popen([agent, "run"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdin is not None and child.stdout is not None
    child.stdin.write(spec.to_json().encode())
    child.stdin.close()
    while b'"event":"before","data":{"cell":1}' not in child.stdout.readline():
        assert child.poll() is None
    assert run_folders(cli.target)
    kept = cli("clean", cli.target)
    assert run_folders(cli.target), f"its process lives: {kept.out}"
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    cli("clean", cli.target).ok()
    assert run_folders(cli.target) == []


def test_an_nfs_server_is_measured(agent: Path) -> None:
    with lab.running("demo") as server:
        target = open_target(next(iter(server.facts["targets"].values())))
        spec = dataclasses.replace(specification("null:"), target=target.engine_spec())
        end, cells = by_agent([agent], spec)
    assert (end["status"], end["left_behind"]) == ("complete", [])
    assert cells[1]["verified"]["bad"] == 0 and cells[1]["wire"]["received_bytes"] > 4 << 20


@pytest.mark.lab
@pytest.mark.parametrize("way", ["variable", "descriptor"])
def test_an_smb_server_lets_it_in_with_a_password(agent: Path, way: str, own_folders: None, tmp_path: Path) -> None:
    need_system("samba")
    with lab.running("samba") as server:
        target = open_target(server.facts["targets"]["data"], Path(server.credentials))
        assert target.password is not None and "password" not in target.stored_spec()["options"]
        secret = target.password.reveal()
        text = dataclasses.replace(specification("null:"), target=target.stored_spec()).to_json()
        (tmp_path / "secret").write_text(f"{secret}\n")
        variable = {"NASLAB_PASSWORD": secret} if way == "variable" else {}
        with (tmp_path / "secret").open() as file:
            more = ["--password-fd", str(file.fileno())] if way == "descriptor" else []
            done = subprocess.run(
                [*server.inside(), agent, "run", *more], input=text.encode(), env={**os.environ, **variable},
                pass_fds=[file.fileno()], capture_output=True, check=False,
            )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    lines = lines_of(done.stdout)
    assert lines[0]["data"]["target"]["facts"]["dialect"] == "3.1.1"
    assert [line["data"]["status"] for line in lines if line["event"] == "cell"] == ["complete"] * 4
    assert lines[-1]["data"]["left_behind"] == []
    assert secret.encode() not in done.stdout + done.stderr
