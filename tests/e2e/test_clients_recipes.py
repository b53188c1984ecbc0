"""The guide's recipes for batch systems, as they stand there, with stand-ins for what only such a system has."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

import agent_tools
from cli_tools import HANG_S, Cli, run_folders

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "many-clients.md"
BIN = Path(sys.executable).parent
SMALL = "--file-size 8m --record 1m --tests write,read"
SRUN = """#!/bin/sh
"$@" & first=$!
"$@" & second=$!
trap 'kill $first $second; sleep 3; kill -9 $first $second' TERM
wait
"""
"""Ends its tasks when it is ended, in the end by force (Slurm waits for KillWait, 30 s)."""
DASK = f"""#!/bin/sh
if [ "$1" = scheduler ]; then shift; exec {BIN}/dask scheduler --host 127.0.0.1 --port 0 "$@"; fi
exec {BIN}/dask "$@"
"""
"""Nobody else reaches the test's scheduler."""


def block(section: str, at: int = 0) -> str:
    """The code of a section of the guide, or a later piece of it."""
    text = GUIDE.read_text("utf-8").partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    return re.findall(r"```\w*\n(.*?)```", text, re.DOTALL)[at]


def stand_ins(folder: Path, programs: dict[str, str]) -> Path:
    """A folder with these scripts."""
    folder.mkdir()
    for name, text in programs.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    return folder


def in_bash(how: str, script: str, folder: Path, env: dict[str, str]) -> None:
    """The script to its end, which is a good one."""
    done = subprocess.run(
        ["bash", how, script], cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=HANG_S
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    return folder


def judge(cli: Cli, data: Path) -> None:
    (run,) = cli.runs()
    assert run["status"] == "complete"
    assert [cell["clients"]["count"] for cell in run["cells"]] == [2, 2]
    assert run_folders(data) == []


@pytest.mark.lab
def test_slurm(tmp_path: Path, cli: Cli, data: Path) -> None:
    """srun begins a worker on each of two nodes, and ends them when it is ended itself."""
    tools = stand_ins(tmp_path / "tools", {"srun": SRUN, "dask": DASK})
    script = block("Slurm").replace("nfs://nas/share", f"{data} {SMALL}").replace("--clients 8", "--clients 2")
    env = {**cli.env, "PATH": f"{tools}:{BIN}:{os.environ['PATH']}", "SLURM_JOB_ID": "7"}
    in_bash("-c", script, tmp_path, env)
    assert "<html" in (tmp_path / "report.html").read_text()[:500]
    judge(cli, data)
    left = subprocess.run(["pgrep", "-f", str(tmp_path / "scheduler")], capture_output=True, text=True, check=False)
    assert left.stdout == "", "nothing of the cluster stays"


STEP = """#!/bin/sh
[ "$1 $2 $3" = "--overlap --nodes=1 --ntasks=1" ] && shift 3
case $1 in --nodelist=node[12]) shift; TMPDIR=$HOSTS exec "$@";; esac
echo "srun: error: Invalid node name specified" >&2
exit 1
"""
"""A step of one task: with the words it is given, and standard input and output."""
SCONTROL = """#!/bin/sh
[ "$*" = "show hostnames node[1-2]" ] && printf 'node1\\nnode2\\n'
"""
KUBECTL = """#!/bin/sh
case $* in
  "apply -f workers.yaml"|"delete -f workers.yaml") echo $1 >> said;;
  "wait --for=condition=Ready pod -l app=naslab-worker --timeout=120s") ;;
  "get pods -l app=naslab-worker -o name") printf 'pod/naslab-workers-0-x\\npod/naslab-workers-1-y\\n';;
  "exec -i pod/naslab-workers-"*" -- "*) shift 4; exec env -i PATH=/usr/bin:/bin TMPDIR="$HOSTS" "$@";;
  *) echo "error: $*" >&2; exit 1;;
esac
"""


def carried_out(script: str, tmp_path: Path, cli: Cli, data: Path, tools: Path, **env: str) -> None:
    """The recipe on two hosts, at the folder instead of the share, with the agent that the tests built."""
    script = script.replace("nfs://nas/share", f"{data} {SMALL}").replace("~/naslab-agents/", str(agent_tools.built()))
    hosts = tmp_path / "hosts"
    hosts.mkdir()
    known = {**cli.env, "PATH": f"{tools}:{BIN}:{os.environ['PATH']}", "HOSTS": str(hosts), **env}
    in_bash("-ec", script, tmp_path, known)
    judge(cli, data)
    assert [each["python"] for each in cli.runs()[0]["environment"]["clients"]] == [None, None]
    assert subprocess.run(["pgrep", "-f", f"{hosts}/"], check=False).returncode == 1, "no agent is left"
    assert list(hosts.iterdir()) == []


@pytest.mark.lab
def test_slurm_without_python(tmp_path: Path, cli: Cli, data: Path) -> None:
    tools = stand_ins(tmp_path / "tools", {"srun": STEP, "scontrol": SCONTROL})
    carried_out(block("Slurm", 1), tmp_path, cli, data, tools, SLURM_JOB_NODELIST="node[1-2]")
    assert "<html" in (tmp_path / "report.html").read_text()[:500]


@pytest.mark.lab
def test_kubernetes_without_python(tmp_path: Path, cli: Cli, data: Path) -> None:
    """The pods have a shell and the agent; names and labels of the manifest fit the commands."""
    workers, commands = yaml.safe_load(block("Kubernetes", 1)), block("Kubernetes", 2)
    label = workers["spec"]["template"]["metadata"]["labels"]
    (spread,) = workers["spec"]["template"]["spec"]["topologySpreadConstraints"]
    assert label == spread["labelSelector"]["matchLabels"] == {"app": "naslab-worker"}
    assert commands.count("-l app=naslab-worker ") == 2
    tools = stand_ins(tmp_path / "tools", {"kubectl": KUBECTL})
    carried_out(commands, tmp_path, cli, data, tools)
    assert (tmp_path / "said").read_text().split() == ["apply", "delete"]


@pytest.mark.parametrize(
    ("hosts", "shell", "words"),
    [
        ("a,b", "ssh -J jump", "--remote-shell 'ssh -J jump': --hosts speaks ssh itself"),
        ("a,b", "no-such-program -w {host}", "--remote-shell 'no-such-program -w {host}': no program no-such-program"),
        ("a,b", "sh 'x", '--remote-shell "sh \'x": No closing quotation; write it as for a shell'),
        ("me@a", "env", "--hosts a: user and port are for ssh; with --remote-shell give names only"),
        ("", "env", "--remote-shell 'env': it leads to --hosts; give them, too, or leave it out"),
        (
            "a --ssh-user me",
            "env",
            "--ssh-user, --ssh-port and --ssh-key are for ssh: with --remote-shell leave them out",
        ),
        ("a", "false", "a: uname failed"),
    ],
)
def test_a_shell_that_leads_nowhere(hosts: str, shell: str, words: str, cli: Cli, data: Path) -> None:
    given = ("--hosts", *hosts.split()) if hosts else ()
    done = cli("sweep", data, *SMALL.split(), *given, "--remote-shell", shell).sound()
    assert done.code == 2 and words in done.err, done.err
    assert list(data.iterdir()) == [] and cli.runs() == []


@contextmanager
def container(spec: dict[str, Any], address: str) -> Iterator[None]:
    """A container's command with the scheduler where this test has it, until the test is done with it."""
    with subprocess.Popen(command(spec, address), stderr=subprocess.DEVNULL) as process:
        try:
            yield
        finally:
            process.terminate()


def command(spec: dict[str, Any], address: str) -> list[str]:
    """What the container would begin."""
    port = address.rpartition(":")[2]
    words = [re.sub(r"^tcp://[\w.-]+:8786$", address, word) for word in spec["command"]]
    words = [port if word == "8786" else word for word in words]
    return [str(BIN / words[0]), *words[1:], *(["--host", "127.0.0.1"] if "scheduler" in words else [])]


@pytest.mark.lab
def test_kubernetes(cli: Cli, data: Path) -> None:
    """Names, labels and ports of the manifests fit, and their commands measure together."""
    service, workers, job = yaml.safe_load_all(block("Kubernetes"))
    labels = [each["spec"]["template"]["metadata"]["labels"] for each in (workers, job)]
    pods = [each["spec"]["template"]["spec"] for each in (workers, job)]
    (worker,), (scheduler,), (measures,) = pods[0]["containers"], pods[1]["initContainers"], pods[1]["containers"]
    assert service["spec"]["selector"] == labels[1] != labels[0], "the service leads to the scheduler"
    (port,) = service["spec"]["ports"]
    assert worker["command"][2] == f"tcp://{service['metadata']['name']}:{port['port']}"
    assert scheduler["command"][-3:-1] == ["--port", str(port["port"])] and scheduler["restartPolicy"] == "Always"
    (spread,) = pods[0]["topologySpreadConstraints"]
    assert spread["labelSelector"]["matchLabels"] == labels[0], "a worker on each node"
    assert workers["spec"]["completions"] == workers["spec"]["parallelism"] == int(measures["command"][-1])

    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
    with ExitStack() as stack:
        for spec in (scheduler, worker, worker):
            stack.enter_context(container(spec, address))
        words = command(measures, address)[1:-1]
        words[words.index("nfs://nas/share")] = str(data)
        cli(*words, "2", *SMALL.split()).ok()
    judge(cli, data)
