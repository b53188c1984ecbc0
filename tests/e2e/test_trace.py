"""Recording real programs: what the trace says is what happened to the files."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from cli_tools import HANG_S, PROGRAM, Cli, may_trace, need, wait_until
from naslab.trace import Trace
from trace_reenact import reenact, tree

pytestmark = pytest.mark.lab


@pytest.fixture
def work(cli: Cli) -> Path:
    """A folder to work in, with a small tree `src`: empty, short and longer files, odd names."""
    need(may_trace(), "strace, and the right to trace processes,")
    folder = cli.folder / "work"
    src = folder / "src"
    (src / "d" / "deep er").mkdir(parents=True)
    (src / "empty folder").mkdir()
    generator = random.Random(1)
    for name, size in {
        "empty": 0, "one": 1, "d/page": 4096, "d/odd": 12_345, "d/deep er/big": 300_001, 'd/q"uo\nte': 77,
        "d/ünï": 20_000, "d/%41": 5,
    }.items():  # fmt: skip
        (src / name).write_bytes(generator.randbytes(size))
    (src / os.fsdecode(b"d/\xff\xfe")).write_bytes(b"no text")
    return folder


def record(cli: Cli, work: Path, *command: object, root: str = ".") -> Path:
    """The trace of a command that ended well; it lies beside the folder."""
    made = cli.folder / "made.trace.zst"
    done = cli("trace", "record", "--force", "-o", made, "--root", root, "--", *command, cwd=work).ok()
    assert "operations are in" in done.err and "exit code 0" in done.err
    return made


def moved(trace: Path) -> tuple[Counter[str], Counter[str]]:
    """Bytes read and written by the name that a file was opened by."""
    found: dict[str, Counter[str]] = {"read": Counter(), "write": Counter()}
    for o in Trace(trace):
        if o.op in found:
            found[o.op][str(o.path)] += o.len_bytes or 0
    return found["read"], found["write"]


def escaped(sizes: dict[str, int | None], prefix: str) -> Counter[str]:
    """Lengths of files by their names in a trace."""
    from naslab.trace.names import name_text

    return Counter({name_text(os.fsencode(f"{prefix}/{name}")): size for name, size in sizes.items() if size})


def same_as_real(trace: Path, real: Path, scratch: Path, before: dict[str, int | None]) -> None:
    """Carried out in an empty folder, the trace leaves what the command left (of what it touched)."""
    scratch.mkdir()
    reenact(trace, scratch)
    from naslab.trace.names import name_text

    left = {name_text(os.fsencode(name)): size for name, size in tree(real).items()}
    untouched = {name_text(os.fsencode(name)) for name in before}
    copy = tree(scratch)
    assert {name: size for name, size in left.items() if name in copy or name not in untouched} == copy


def test_tar(cli: Cli, work: Path) -> None:
    before = tree(work)
    trace = record(cli, work, "tar", "-cf", "out.tar", "src")
    read, written = moved(trace)
    assert +read == escaped(tree(work / "src"), "src")
    assert +written == Counter({"out.tar": (work / "out.tar").stat().st_size})
    same_as_real(trace, work, cli.folder / "again", before)
    trace = record(cli, work, "tar", "-xf", "out.tar", "--one-top-level=new")
    read, written = moved(trace)
    assert +written == escaped(tree(work / "src"), "new/src")
    same_as_real(trace, work, cli.folder / "again2", {**before, "out.tar": 0})


def test_cp(cli: Cli, work: Path) -> None:
    before = tree(work)
    trace = record(cli, work, "cp", "-r", "src", "dst")
    read, written = moved(trace)
    assert +read == escaped(tree(work / "src"), "src") and +written == escaped(tree(work / "src"), "dst")
    same_as_real(trace, work, cli.folder / "again", before)
    inside = record(cli, work, "cp", "-r", "src", "dst2", root="src/..")
    assert moved(inside)[1].total() == written.total()


def test_a_root_by_another_name(cli: Cli, work: Path) -> None:
    """A root that is reached through a symbolic link: names with the link and without it are the same files."""
    link = cli.folder / "link"
    link.symlink_to(work)
    made = cli.folder / "made.trace"
    script = f"cat {link}/src/d/odd '{work}/src/d/page' src/one >/dev/null"
    for root, shell in ((link, str(work)), (".", str(link))):
        env = {**cli.env, "PWD": shell}
        cli("trace", "record", "--force", "-o", made, "--root", root, "--", "sh", "-c", script, cwd=work, env=env).ok()
        assert +moved(made)[0] == Counter({"src/d/odd": 12_345, "src/d/page": 4096, "src/one": 1})


@pytest.mark.parametrize(
    "options", ["-ttt -T -y", "-tt -T -yy -x", "-r", "-t -y -s 3", "-ttt -T -y -xx --seccomp-bpf", "-v -y"]
)
def test_text_made_elsewhere(options: str, cli: Cli, work: Path) -> None:
    """Whatever options strace was run with, the same operations come out as when naslab runs it."""

    def brief(trace: Path) -> list[tuple[object, ...]]:
        return [
            (o.op, o.path, o.offset_bytes, o.len_bytes, o.error) for o in Trace(trace) if "i" not in o.flags
        ]  # fmt: skip

    command = ["sh", "-c", "tar -cf out.tar src; cp -r src dst; rm -r dst; mv out.tar d; cat src/d/* > all; rm all d"]
    expected = brief(record(cli, work, *command))
    text, made = cli.folder / "s.txt", cli.folder / "converted.trace"
    subprocess.run(["strace", "-f", *options.split(), "-o", text, *command], check=True, cwd=work)
    cli("trace", "convert", text, "-o", made, "--root", work, "--cwd", work).ok()
    found = brief(made)
    if "-v" in options:  # whole lists of folders' entries, not their numbers
        expected, found = ([entry for entry in side if entry[0] != "readdir"] for side in (expected, found))
    assert found == expected


def test_git(cli: Cli, work: Path) -> None:
    """Locks, renames and links of git's own; files of more than 32 KiB are mapped by git, so there are none."""
    need(shutil.which("git"), "git")
    (work / "src" / "d" / "deep er" / "big").unlink()
    before = tree(work)
    script = (
        "git init -q repo && cd repo && cp -r ../src . && git add . && "
        "git -c user.name=a -c user.email=a@b commit -q -m x && rm -r src && git checkout -q -- src && git status -s"
    )
    trace = record(cli, work, "env", "GIT_CONFIG_NOSYSTEM=1", f"HOME={work}", "sh", "-c", script)
    read, _ = moved(trace)
    for name, size in escaped(tree(work / "src"), "repo/src").items():
        assert read[name] >= size, f"git add reads {name}"
    same_as_real(trace, work, cli.folder / "again", before)
    skipped = Trace(trace)
    list(skipped)
    assert skipped.end is not None and not {"unreadable line of strace", "process of unknown parent"} & set(
        skipped.end.skipped
    )


_THREADS = """
import os, subprocess, threading
def work(i):
    file = os.open(f"t{i}", os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
    for k in range(40):
        os.pwrite(file, b"x" * 4096, k * 4096)
        assert len(os.pread(file, 4096, k * 4096)) == 4096
    copy = os.dup(file); os.close(file); os.lseek(copy, 100, 0); os.write(copy, b"abc"); os.fsync(copy); os.close(copy)
threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
for thread in threads: thread.start()
subprocess.run(["sh", "-c", "echo one > u; cat < u >> u2; exec cat u >> u2"], check=True)
for thread in threads: thread.join()
file = open("shared", "wb", buffering=0)
file.write(b"12345")
if os.fork() == 0:
    file.write(b"678")
    os._exit(0)
os.wait()
file.write(b"9")
os.unlink("t3")
os.truncate("t2", 10)
"""


def test_threads_children_and_shared_descriptors(cli: Cli, work: Path) -> None:
    (work / "w").mkdir()
    python = os.path.realpath(sys.executable)
    trace = record(cli, work / "w", python, "-S", "-c", _THREADS)
    read, written = moved(trace)
    assert written == Counter({**{f"t{i}": 40 * 4096 + 3 for i in range(4)}, "u": 4, "u2": 8, "shared": 9})
    assert [read[f"t{i}"] for i in range(4)] == [40 * 4096] * 4 and read["u"] == 8
    same_as_real(trace, work / "w", cli.folder / "again", {})
    assert (work / "w" / "shared").read_bytes() == b"123456789"
    streams = {o.stream for o in Trace(trace)}
    assert len(streams) >= 7, "main, four threads, children"
    order = [o.start_ns for o in Trace(trace)]
    assert order == sorted(order)


def test_what_is_said_of_it(cli: Cli, work: Path) -> None:
    """Exit codes, JSON, hidden names, secrets in the command."""
    made = cli.folder / "x.trace"
    words = ("--root", "src", "--anonymise", "--json", "--", "sh", "-c", "cat src/d/odd >/dev/null; exit 3")
    done = cli("trace", "record", "-o", made, *words, cwd=work)
    assert done.code == 1 and done.json()["exit_code"] == 3
    assert any("exit code 3" in note for note in done.json()["notes"])
    text = made.read_text()
    assert '"anonymised":true' in text and "odd" not in text and "cat" not in text and str(work) not in text
    assert moved(made)[0].total() == 12_345
    again = cli("trace", "record", "-o", made, "--", "true", cwd=work)
    assert again.code == 2 and "--force" in again.err
    words = ("true", "--password", "hunter2", "smb://u:hunter2@h/s", "API_TOKEN=hunter2", "plain")
    cli("trace", "record", "--force", "--quiet", "-o", made, "--", *words, cwd=work).ok()
    header = Trace(made).header
    assert header.command == "true --password *** smb://u:***@h/s API_TOKEN=*** plain" or "hunter2" not in str(header)
    assert "hunter2" not in made.read_text() and header.root == os.path.realpath(work)
    assert "strace" in made.read_text().splitlines()[-1], "its overhead is told"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("-o", "nowhere/x", "--", "true"), "there is no folder"),
        (("-o", "x", "--root", "nowhere", "--", "true"), "--root nowhere: there is no such folder"),
        (("-o", "x", "--", "no-such-program"), "no-such-program: there is no such program"),
        (("-o", "x"), "Missing argument"),
        (("-o", "x", "--drop-extensions", "--", "true"), "--drop-extensions"),
    ],
)
def test_refused(words: tuple[str, ...], message: str, cli: Cli) -> None:
    need(shutil.which("strace"), "strace")
    done = cli("trace", "record", *words).sound()
    assert done.code == 2 and message in done.err and not (cli.folder / "x").exists()


def test_without_strace(cli: Cli) -> None:
    (cli.folder / "bin").mkdir()
    (cli.folder / "bin" / "true").symlink_to(shutil.which("true") or "/bin/true")
    done = cli("trace", "record", "-o", "x", "--", "true", env={**cli.env, "PATH": str(cli.folder / "bin")})
    assert done.code == 2 and "install the package strace" in done.err


def test_ctrl_c_keeps_what_was_recorded(cli: Cli, work: Path) -> None:
    """A terminal sends Ctrl-C to the command and to naslab at once."""
    made = cli.folder / "x.trace"
    script = f"cd '{work}'; cat src/d/odd > seen; exec sleep 50"
    words = ["trace", "record", "-o", made, "--root", work, "--", "sh", "-c", script]
    child = subprocess.Popen(
        [*PROGRAM, *map(str, words)], env=cli.env, text=True, stderr=subprocess.PIPE, start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    )  # fmt: skip
    wait_until(lambda: (work / "seen").exists() and (work / "seen").stat().st_size, child, "first part of the command")
    os.killpg(child.pid, signal.SIGINT)
    assert "exit code 130" in child.communicate(timeout=HANG_S)[1] and child.returncode == 130
    assert +moved(made)[0] == Counter({"src/d/odd": 12_345})


def test_ending_it_early_keeps_what_was_recorded(cli: Cli, work: Path) -> None:
    """SIGTERM to naslab ends the command; the trace is whole."""
    made = cli.folder / "x.trace"
    child = cli.start("trace", "record", "-o", made, "--root", work, "--", "sh", "-c",
                      f"cd '{work}'; cat src/d/odd > seen; sleep 50; cat src/d/page")  # fmt: skip
    wait_until(lambda: (work / "seen").exists() and (work / "seen").stat().st_size, child, "first part of the command")
    child.send_signal(signal.SIGTERM)
    assert child.communicate(timeout=HANG_S)[1].count("exit code 143") == 2
    assert child.returncode == 130
    assert +moved(made)[0] == Counter({"src/d/odd": 12_345})


def test_a_command_that_starts_others_all_the_time_is_ended_whole(cli: Cli, work: Path) -> None:
    """Whoever was started before the signal is ended, also one whose parent is gone; a trap cleans up undisturbed."""
    made, done = cli.folder / "x.trace", cli.folder / "done"
    script = f"""
        trap 'sleep 0.3; echo clean > {done}; exit 3' TERM
        (sleep 50 &)
        cat '{work}/src/d/odd' > '{work}/seen'
        for n in $(seq 300); do sleep 0.01; sleep 50 & done
        sleep 50
    """
    child = cli.start("trace", "record", "-o", made, "--root", work, "--", "sh", "-c", script)
    wait_until(lambda: (work / "seen").exists() and (work / "seen").stat().st_size, child, "first part of the command")
    child.send_signal(signal.SIGTERM)
    said = child.communicate(timeout=HANG_S)[1]
    assert "exit code 3" in said and child.returncode == 130 and done.read_text() == "clean\n"


def test_logs_of_the_real_fio(cli: Cli) -> None:
    """What this machine's fio writes down, job by job, moves the bytes that fio says it moved."""
    need(shutil.which("fio"), "fio")
    job = ["--name=job", f"--directory={cli.target}", "--size=256k", "--bs=16k", "--rw=randrw", "--fsync=4"]
    log = cli.folder / "job.log"
    told = subprocess.run(
        ["fio", *job, f"--write_iolog={log}", "--output-format=json"], check=True, capture_output=True, text=True,
        cwd=cli.folder,
    ).stdout  # fmt: skip
    fio = json.loads(told[told.index("{") :])["jobs"][0]
    made = cli.folder / "job.trace.zst"
    cli("trace", "convert", log, "-o", made).ok()
    shown = cli("trace", "show", made, "--json").ok().json()["profile"]
    assert shown["read_bytes"] == fio["read"]["io_bytes"] and shown["written_bytes"] == fio["write"]["io_bytes"]
    assert shown["requests"]["read"]["common"] == [{"bytes": 16384, "count": fio["read"]["total_ios"]}]
    assert shown["kinds"]["flush"]["operations"] >= 1 and shown["duration_ns"] > 0
    assert {o.path for o in Trace(made)} == {"job.0.0"}
