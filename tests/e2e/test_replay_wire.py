"""Real programs recorded, replayed over SMB and NFS, and captured at the server: it was asked for the same operations.

What is compared comes from packets, not from naslab's own counts; what is expected, from the recorded trace by the
rules of the guide (replay_rules.py).
"""

from __future__ import annotations

import random
import re
import shutil
from collections import Counter
from pathlib import Path

import pytest

from cli_tools import Cli, captured, may_trace, need
from lab_tools import need_system, own_folders
from naslab import lab
from naslab.trace import Operation, Trace
from replay_rules import AtServer, as_text, in_capture, named, of_trace, on_smb, prepared

pytestmark = [pytest.mark.lab, pytest.mark.usefixtures("own_folders"), pytest.mark.timeout(90)]
__all__ = ["own_folders"]
WHO = "-c user.name=a -c user.email=a@b"
JOBS = {
    "tar": "tar -cf out.tar src",
    "untar": "tar -xf out.tar --one-top-level=new",
    "cp": "cp -r src dst",
    "add": f"git init -q repo && cp -r src repo && cd repo && git add . && git {WHO} commit -q -m x",
    "clone": "git clone -q --no-hardlinks repo repo2",
    "checkout": "cd repo && rm -r src && git checkout -q -- src && git status -s",
}
"""One after the other in one folder."""


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The trace of each job."""
    need(may_trace(), "strace, and the right to trace processes,")
    need(shutil.which("git"), "git")
    need(shutil.which("tshark") and shutil.which("dumpcap"), "tshark")
    cli = Cli(tmp_path_factory.mktemp("recorded"))
    work = cli.folder / "work"
    (work / "src" / "d" / "deep er").mkdir(parents=True)
    (work / "src" / "empty folder").mkdir()
    chance = random.Random(1)
    sizes = {"empty": 0, "d/page": 4096, "d/odd": 12_345, "d/deep er/big": 300_001, "d/ünï:?": 20_000, "d/%41": 5,
             "d/dot.": 17, **{f"d/f{number}": chance.randrange(40_000) for number in range(8)}}  # fmt: skip
    for name, size in sizes.items():
        (work / "src" / name).write_bytes(chance.randbytes(size))
    env = {**cli.env, "GIT_CONFIG_NOSYSTEM": "1", "HOME": str(work)}
    found = {}
    for job, script in JOBS.items():
        found[job] = cli.folder / f"{job}.trace.zst"
        cli("trace", "record", "--quiet", "-o", found[job], "--root", work, "--", "sh", "-c", script,
            cwd=work, env=env).ok()  # fmt: skip
    return found


@pytest.mark.parametrize(("system", "version"), [("samba", ""), ("ganesha", "3"), ("ganesha", "4.1")])
def test_the_server_is_asked_for_the_same(system: str, version: str, cli: Cli, traces: dict[str, Path]) -> None:
    need_system(system)
    capture = cli.folder / "capture.pcapng"
    with lab.running(system) as server:
        target = server.targets["data"]
        if version:
            target += ("&" if "?" in target else "?") + f"version={version}"
        words = ["--credentials", server.credentials] if server.credentials else []
        with captured(capture, [server.port, server.mount_port or server.port]):
            for trace in traces.values():
                told = cli("replay", target, trace, "--json", *words).ok().json()
                assert told["status"] == "complete" and all(cell["errors"] == 0 for cell in told["cells"])
                assert told["replay"]["equal"]
                assert (told["replay"]["escaped_names"] > 0) == (system == "samba")
        assert list(server.data.iterdir()) == []
    made = cli.folder / "capture.trace"
    skipped = cli("trace", "convert", capture, "-o", made, "--json").ok().json()["skipped"]
    assert set(skipped) <= {"file system information", "segments sent again"}, "nothing of the capture is missing"
    operations = list(Trace(made))
    for (job, trace), folder in zip(traces.items(), run_folders(operations), strict=True):
        seen = in_capture(operations, re.compile(re.escape(folder) + r"/naslab\.files(?:/|\Z)"), system == "samba")
        compare(job, trace, seen, system == "samba", version == "3")


def run_folders(operations: list[Operation]) -> list[str]:
    """The folders of the replays, in their order."""
    names = [re.match(r"(?:data/)?naslab-[^/]+\Z", o.path or "") for o in operations if o.op == "mkdir"]
    return [found[0] for found in names if found]


def not_emptied_before(seen: AtServer, expected: AtServer, path: str) -> None:
    """Leaves out that the clean-up opens a file, to empty it before it is removed: no recycle bin keeps its bytes."""
    if seen.lengths.get(path) == [*expected.lengths.get(path, []), 0]:
        seen.lengths[path] = seen.lengths[path][:-1]
        if not seen.lengths[path]:
            del seen.lengths[path]
    seen.opened -= Counter([path])


def compare(job: str, trace: Path, seen: AtServer, smb: bool, stateless: bool) -> None:
    """Fails where the server saw other than the trace says: read, written, made, cut, opened, looked up."""
    expected = AtServer()
    for row in [*prepared(trace), *(row for _, row in of_trace(trace))]:
        expected.add(named(row, on_smb if smb else as_text))
    assert seen.moved == expected.moved, job
    assert sum(sum(counts.values()) for counts in seen.moved.values()) >= 20, job
    for path in sorted({*seen.changed, *expected.changed} - {"."}):
        found, wanted = seen.changed[path], expected.changed[path]
        # Whatever is there at the end is removed with the run's folder.
        left = [change for change in found[len(wanted) :] if change in (("remove",), ("rmdir",))]
        assert found == wanted + left and len(left) <= 1, (job, path)
        if smb and left == [("remove",)]:
            not_emptied_before(seen, expected, path)
    assert seen.lengths == expected.lengths and seen.flushed == expected.flushed, job
    if not stateless:
        assert seen.opened == expected.opened, job
    for path, count in expected.looked.items():
        assert seen.looked[path] >= count, (job, path)
    for path, count in expected.listed.items():
        assert seen.listed[path] >= count, (job, path)
    # NFS clients look names up folder by folder: a failure is met at the first that is missing. Before the files are
    # made the engine looks for their folder.
    del seen.failed["."]
    # SMB takes CoNfIg, which git looks for, for config: naslab gives it a name of its own, which is missing, too.
    there = {path.casefold() for path in expected.changed} if smb else set()
    twins = [path for path in expected.failed if path not in expected.changed and path.casefold() in there]
    assert [path.rpartition("/")[2] for path in twins] in ([], ["CoNfIg"]), job
    for path in twins:
        expected.failed[path.replace("CoNfIg", as_text("%43oNfIg"))] = expected.failed.pop(path)
    assert seen.failed.total() == expected.failed.total(), job
    spelled = {path.casefold() for path in expected.failed} if smb else set(expected.failed)
    for path in seen.failed:
        assert any(f"{name}/".startswith(f"{path.casefold() if smb else path}/") for name in spelled), (job, path)


def test_the_comparison_fails_where_it_must(traces: dict[str, Path]) -> None:
    """A read more, one elsewhere, a removal before the creation: each is seen."""
    rows = [*prepared(traces["cp"]), *(row for _, row in of_trace(traces["cp"]))]

    def seen(changed: list[tuple[object, ...]]) -> AtServer:
        found = AtServer()
        for row in changed:
            found.add(named(row, as_text))
        found.failed["."] = 1
        return found

    compare("cp", traces["cp"], seen(rows), False, False)
    kinds = Counter(row[0] for row in rows)
    assert kinds["read"] > 5 and kinds["create"] > 5
    read = next(row for row in rows if row[0] == "read" and row[3])
    made = next(at for at, row in enumerate(rows) if row[0] == "create" and "dst" in row[1])
    for wrong in (
        [*rows, read], [row for row in rows if row is not read],
        [(*row[:2], 1, row[3]) if row is read else row for row in rows],
        [*rows[:made], ("remove", rows[made][1]), *rows[made:]], [*rows, ("truncate", read[1], 5)],
        [row for row in rows if row[0] != "open"], [*rows, ("stat", "src/none", "ENOENT")],
    ):  # fmt: skip
        with pytest.raises(AssertionError):
            compare("cp", traces["cp"], seen(wrong), False, False)
