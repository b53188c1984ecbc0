"""`naslab job` as a user runs it: on a folder, on Samba and Ganesha, interrupted, and asked for what cannot be."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

import shares
from cli_tools import HANG_S, Cli, need, populate, snapshot, wait_until
from naslab.lab import systems
from naslab.results.store import Store

SMALL = ("--corpus", "office", "--scale", "0.01", "--streams", "3")


def make_source(folder: Path) -> dict[str, bytes]:
    """A tree with an empty file, an empty folder, one of more than a request, and names out of the ordinary."""
    found = {
        "a.txt": b"words " * 4000, "empty": b"", "sub/deep/big.bin": os.urandom((1 << 20) + 17),
        "sub/even.bin": bytes(2 << 20), "sub/ü ß.txt": b"x", "sub/a:b?.txt": b"colon",
    }  # fmt: skip
    for name, data in found.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    (folder / "sub" / "nothing").mkdir()
    for number, path in enumerate(sorted(folder.rglob("*"), reverse=True)):
        at = 1_234_567_890_123_456_700 + number * 86_400_123_456_700
        os.utime(path, ns=(at, at))
    return found


def times_of(folder: Path) -> dict[str, int]:
    """Times of change of all below a folder, in ns since 1970."""
    return {str(path.relative_to(folder)): path.stat().st_mtime_ns for path in folder.rglob("*")}


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def warned(cli: Cli) -> set[str]:
    """Kinds of warnings stored so far, read beside whoever writes."""
    try:
        with sqlite3.connect(f"file:{cli.store}?mode=ro", uri=True) as db:
            found = {kind for (kind,) in db.execute("SELECT kind FROM warnings")}
        db.close()
    except sqlite3.Error:
        return set()
    return found


def job(cli: Cli, target: object, *words: object) -> Any:
    return cli("job", target, *words, "--json").ok().json()


def steps(document: Any) -> dict[str, Any]:
    return {step["job"]: step for step in document["job"]["steps"]}


def check_sound(document: Any) -> None:
    """All cells ended well, and the parts of the result agree with each other."""
    assert document["status"] == "complete"
    assert "left_behind" not in {warning["kind"] for warning in document["warnings"]}
    cells = {cell["id"]: cell for cell in document["cells"]}
    for step in document["job"]["steps"]:
        cell = cells[step["cell"]]
        assert cell["workload"] == step["job"] and cell["status"] == "complete" and cell["errors"] == 0
        assert cell["bytes"] == step["read_bytes"] + step["write_bytes"]
        assert cell["ops"] == sum(kind["ops"] for kind in cell["kinds"].values())
        assert sum(step["shares"].values()) == pytest.approx(1, abs=0.01)
        assert step["files"] == document["job"]["files"] and step["evidence"]


@pytest.mark.parametrize("method", ["deflate", "zstd"])
def test_all_jobs_on_a_folder_of_ours(method: str, cli: Cli) -> None:
    source = cli.folder / "from"
    data = make_source(source)
    before, around = snapshot(source), populate(cli.target)
    out = cli.folder / "out"
    words = ("all", "--source", source, "--streams", "2", "--method", method, "--verify", "--to", out)
    document = job(cli, cli.target, *words)
    check_sound(document)
    assert files_of(out) == data and (out / "sub" / "nothing").is_dir() and times_of(out) == times_of(source)
    assert snapshot(source) == before and snapshot(cli.target) == around
    total = sum(map(len, data.values()))
    done = steps(document)
    assert list(done) == ["copy-in", "copy-out", "zip", "unzip", "checksum", "find", "checkout"]
    assert done["copy-in"]["write_bytes"] == done["copy-in"]["source_bytes"] == total
    assert done["copy-out"]["read_bytes"] == done["copy-out"]["local_bytes"] == total
    assert done["zip"]["read_bytes"] == done["unzip"]["write_bytes"] == total
    # a file's head is written again at its end, where the first was sent by then
    again = done["zip"]["write_bytes"] - document["job"]["archives"]["bytes"]
    assert 0 <= again <= 200 and document["job"]["archives"]["bytes"] < total
    assert done["find"]["read_bytes"] == done["find"]["write_bytes"] == 0
    for cell in document["cells"]:
        assert cell["verified"] is not None and cell["verified"]["bad"] == 0 and cell["verified"]["blocks"] >= 6
    copied, unpacked = (document["cells"][at]["kinds"] for at in (0, 3))
    assert copied["set_times"]["ops"] == unpacked["set_times"]["ops"] == 6 + 3
    assert document["job"]["times_preserved"] and document["job"]["time_resolution_ns"] == 1
    assert "times_not_preserved" not in {warning["kind"] for warning in document["warnings"]}
    checkout = document["cells"][-1]["kinds"]
    assert checkout["create"]["ops"] == 6 and checkout["stat"]["ops"] == 12


def test_words_show_and_report(cli: Cli) -> None:
    """The summary, the table, the stored series, and the page."""
    page = cli.folder / "page.html"
    said = (
        cli("job", cli.target, "zip", "--corpus", "article", "--scale", "0.001", "--durability", "none", "-o", page)
        .ok()
        .out
    )
    assert "corpus article at scale 0.001, 757 files" in said and "Archives: 4" in said
    assert "copy-in (prepares)" in said and "\nCopy-in:" not in said and "\nZip: 757 files in" in said
    assert "zip" in cli("show", "last").ok().out and "<h2>Jobs</h2>" in page.read_text()
    document = cli("show", "last", "--json").ok().json()
    assert document["job"]["source_ratio"] == pytest.approx(5.72, rel=0.05)
    assert document["job"]["steps"][0]["prepares"] and not document["job"]["steps"][1]["prepares"]
    cli("export", "last", "--output", cli.folder / "run.json").ok()


def test_repeats_begin_anew(cli: Cli) -> None:
    document = job(cli, cli.target, "copy-in", *SMALL, "--repeat", "3", "--durability", "each", "--verify")
    check_sound(document)
    assert [step["repeat"] for step in document["job"]["steps"]] == [0, 1, 2]
    assert len({step["write_bytes"] for step in document["job"]["steps"]}) == 1
    assert all("flush" not in cell["kinds"] for cell in document["cells"])
    assert list(cli.target.iterdir()) == []


def test_what_a_source_holds_beside_files_is_left_out_and_said(cli: Cli) -> None:
    source = cli.folder / "from"
    make_source(source)
    (source / "link").symlink_to("/etc")
    os.mkfifo(source / "pipe")
    os.close(os.open(os.fsencode(source) + b"/\xff.txt", os.O_CREAT))
    document = job(cli, cli.target, "copy-in,find", "--source", source, "--verify")
    check_sound(document)
    assert document["job"]["skipped"] == {"links": 1, "sockets, pipes and devices": 1}
    assert document["job"]["names_changed"] == 1 and document["job"]["files"] == 7
    assert {"skipped", "names_changed"} <= {w["kind"] for w in document["warnings"]}


def test_links_that_go_in_circles_and_a_source_around_the_target(cli: Cli) -> None:
    """Links are not followed, and what the run makes below the source is not taken for a part of it."""
    before = populate(cli.target)
    for name in ("loop", "photos/up"):
        (cli.target / name).symlink_to(cli.target)
    document = job(cli, cli.target, "copy-in,find", "--source", cli.target, "--verify")
    check_sound(document)
    assert document["job"]["skipped"] == {"links": 4} and document["job"]["files"] == 4
    for name in ("loop", "photos/up"):
        (cli.target / name).unlink()
    assert snapshot(cli.target) == before


def test_a_source_that_changes_under_way_is_told_and_not_blamed_on_the_target(cli: Cli) -> None:
    source = cli.folder / "from"
    make_source(source)
    words = ("job", cli.target, "copy-in", "--source", source, "--repeat", "400", "--verify", "--json")
    child = cli.start(*words)
    wait_until(lambda: any(cli.target.glob("naslab-2*/naslab.files/copy/sub/deep/*")), child, "copying")
    with open(source / "a.txt", "ab") as file:
        file.write(b"more")
    (source / "empty").unlink()
    wait_until(lambda: {"source_changed", "skipped"} <= warned(cli), child, "what was told")
    child.send_signal(signal.SIGINT)
    child.communicate(timeout=HANG_S)
    assert child.returncode == 130
    document = cli("show", "last", "--json").ok().json()
    assert document["status"] == "partial" and document["job"]["changed"] in (1, 2)
    assert document["job"]["skipped"] == {"unreadable files": 1}
    assert all(cell["verified"] is None or cell["verified"]["bad"] == 0 for cell in document["cells"])
    assert list(cli.target.iterdir()) == []


@pytest.mark.parametrize("number", shares.first(1, [signal.SIGINT, signal.SIGTERM], pytest.mark.lab))
def test_an_interrupted_job_leaves_nothing(number: signal.Signals, cli: Cli) -> None:
    before = populate(cli.target)
    child = cli.start("job", cli.target, "copy-in,checksum", "--corpus", "sources", "--repeat", "500")
    wait_until(lambda: any(cli.target.glob("naslab-2*/naslab.files/copy/src/m001/*")), child, "copying")
    child.send_signal(number)
    _, err = child.communicate(timeout=HANG_S)
    assert child.returncode == 130 and "interrupted" in err and "Traceback" not in err, err
    assert snapshot(cli.target) == before
    run = cli.runs()[0]
    assert run["status"] == "partial" and run["job"]["steps"][-1]["status"] in ("partial", "complete")
    assert run["cells"][-1]["ops"] > 0 and run["cells"][-1]["errors"] == 0


def test_clean_removes_what_a_killed_job_left(cli: Cli) -> None:
    before = populate(cli.target)
    child = cli.start("job", cli.target, "copy-in", "--corpus", "sources", "--repeat", "500")
    wait_until(lambda: any(cli.target.glob("naslab-2*/naslab.files/copy/src/m001/*")), child, "copying")
    child.kill()
    child.communicate(timeout=HANG_S)
    assert snapshot(cli.target) != before
    assert "removed naslab-" in cli("clean", cli.target).ok().out
    assert snapshot(cli.target) == before


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("copy",), "'copy'"), (("copy-in,,zip",), "job ''"), (("copy-in", "--source", "nowhere"), "nowhere"),
        (("copy-in", "--source", "empty"), "empty"), (("copy-in", "--source", "store.txt"), "store.txt"),
        (("copy-in", "--corpus", "huge"), "--corpus"), (("copy-in", "--scale", "0"), "--scale"),
        (("copy-in", "--scale", "101"), "--scale"), (("copy-in", "--streams", "0"), "--streams"),
        (("copy-in", "--streams", "257"), "--streams"), (("zip", "--method", "rar"), "--method"),
        (("copy-in", "--depth", "0"), "--depth"), (("copy-in", "--depth", "65"), "--depth"),
        (("zip", "--durability", "x"), "--durability"), (("zip", "--to", "out"), "--to"),
        (("copy-out", "--to", "empty"), "--to"), (("copy-out", "--to", "no/out"), "--to"),
        (("copy-out", "--to", "out", "--repeat", "2"), "--repeat"), (("copy-in", "--max-bytes", "1m"), "--max-bytes"),
        (("copy-in", "--source", "full", "--scale", "0.5"), "--scale"),
        (("copy-in", "--corpus", "article", "--scale", "100"), "free"),
        (("copy-out", "--source", "full", "--to", "full/out"), "source"),
    ],
)  # fmt: skip
def test_bad_input(words: tuple[str, ...], says: str, cli: Cli) -> None:
    (cli.folder / "empty").mkdir()
    (cli.folder / "store.txt").write_text("x")
    (cli.folder / "full").mkdir()
    (cli.folder / "full" / "x").write_text("x")
    before = populate(cli.target)
    done = cli("job", cli.target, *words).sound()
    assert done.code == 2 and says in done.err and done.out == "" and done.err.count("\n") == 1, done
    assert snapshot(cli.target) == before and cli.runs() == [] and not (cli.folder / "out").exists()


@pytest.mark.lab
def test_a_write_that_fails_ends_the_job_and_names_the_file(cli: Cli) -> None:
    """The largest file that the process may write stands for a full disk."""
    need(shutil.which("prlimit"), "prlimit (util-linux)")
    before = populate(cli.target)
    words = ("job", cli.target, "find,copy-in", "--corpus", "article", "--scale", "0.1")
    done = cli(*words, prefix=["prlimit", "--fsize=700000"]).sound()
    assert done.code == 1 and "File too large" in done.err and "copy/gimms/00/geo1981" in done.err, done
    assert snapshot(cli.target) == before
    check_failed(cli.runs()[0], "no_space")


def check_failed(run: Any, kind: str) -> None:
    """The run failed in its last job, and what that did until then is kept."""
    last, step = run["cells"][-1], run["job"]["steps"][-1]
    assert run["status"] == last["status"] == step["status"] == "failed"
    assert last["errors"] == 1 and last["ops"] > 0 and last["errors_by_status"][0]["kind"] == kind
    assert step["cell"] == last["id"] and step["wall_ns"] > 0


@pytest.mark.lab
def test_a_disk_that_is_full_under_way(cli: Cli) -> None:
    """A file system with room for the bytes, but for few files."""
    words = ["mount", "-t", "tmpfs", "-o", "size=64m,nr_inodes=150", "none", cli.target]
    need(subprocess.run(words, capture_output=True, check=False).returncode == 0, "a mount of tmpfs")
    try:
        done = cli("job", cli.target, "copy-in,copy-out", "--corpus", "sources", "--scale", "0.1").sound()
        assert done.code == 1 and "No space left" in done.err and "copy/src/m00" in done.err, done
        assert list(cli.target.iterdir()) == []
    finally:
        subprocess.run(["umount", cli.target], check=True)
    check_failed(cli.runs()[0], "no_space")
    assert cli.runs()[0]["cells"][-1]["kinds"]["create"]["ops"] > 50


def test_a_server_that_is_lost_under_way(cli: Cli) -> None:
    """What was measured stays, also of the job that was under way; the other streams end at once."""
    command = [sys.executable, "-m", "naslab.lab.demo_server", cli.target]
    server = subprocess.Popen(command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert server.stdout is not None
        port = json.loads(server.stdout.readline())["port"]
        url = f"nfs://127.0.0.1:{port}/data?version=3&mountport={port}"
        child = cli.start(
            "job", url, "copy-in,find,checkout", "--corpus", "sources", "--scale", "0.1", "--timeout", "5s"
        )
        wait_until(lambda: any(cli.target.glob("naslab-2*/naslab.files/checkout/src/m000/*/*")), child, "a checkout")
    finally:
        server.kill()
        server.communicate()
    _, err = child.communicate(timeout=HANG_S)
    assert child.returncode == 1 and "Traceback" not in err and "check the server" in err, err
    run = cli.runs()[0]
    assert [step["job"] for step in run["job"]["steps"]] == ["copy-in", "find", "checkout"]
    assert [step["status"] for step in run["job"]["steps"]] == ["complete", "complete", "failed"]
    assert run["cells"][-1]["kinds"]["mkdir"]["ops"] > 1 and run["cells"][-1]["errors"] == 1
    assert "left_behind" in {warning["kind"] for warning in run["warnings"]}


@pytest.mark.parametrize("target", ["sim:", "null:"])
def test_targets_that_keep_no_files(target: str, cli: Cli) -> None:
    done = cli("job", target, "copy-in").sound()
    assert done.code == 2 and "keeps no files" in done.err and cli.runs() == []


@pytest.mark.lab
def test_archives_open_elsewhere(cli: Cli) -> None:
    """Python's zipfile and Info-ZIP read what lies on the target while the job goes on; four streams, four archives."""
    child = cli.start("job", cli.target, "zip,checksum", "--corpus", "office", "--scale", "0.02", "--repeat", "300")
    kept = cli.folder / "kept"
    kept.mkdir()

    def archives() -> list[Path]:
        """Copies of four whole archives: a later repeat removes them."""
        shutil.rmtree(kept)
        kept.mkdir()
        for path in cli.target.glob("naslab-2*/naslab.files/archives/*.zip"):
            try:
                shutil.copy(path, kept)
            except OSError:
                return []
        found = sorted(kept.iterdir())
        return found if len(found) == 4 and all(zipfile.is_zipfile(path) for path in found) else []

    wait_until(archives, child, "archives")
    child.send_signal(signal.SIGINT)
    child.communicate(timeout=HANG_S)
    names: list[str] = []
    for path in sorted(kept.iterdir()):
        with zipfile.ZipFile(path) as found:
            assert found.testzip() is None
            names += found.namelist()
        if shutil.which("unzip"):
            subprocess.run(["unzip", "-tqq", path], check=True, capture_output=True)
    assert len(names) == len(set(names)) == 40 + 4  # files, folders
    assert list(cli.target.iterdir()) == []


@pytest.mark.lab
@pytest.mark.parametrize("name", ["samba", "ganesha"])
def test_real_servers(name: str, cli: Cli) -> None:
    """In and out again, byte for byte; every byte crosses the wire; names the server cannot hold are escaped."""
    missing = systems.missing_packages(systems.system(name))
    need(not missing, f"{name}: {' '.join(missing)}")
    source = cli.folder / "from"
    data = make_source(source)
    (source / "README").write_bytes(b"one")
    (source / "readme").write_bytes(b"two")
    data |= {"README": b"one", "readme": b"two"}
    before, out = snapshot(source), cli.folder / "out"
    document = job(cli, f"lab:{name}", "all", "--source", source, "--streams", "2", "--verify", "--to", out)
    check_sound(document)
    run = Store(cli.store).load("last")
    assert files_of(out) == data and snapshot(source) == before
    assert document["job"]["names_changed"] == (2 if name == "samba" else 0)
    for cell in document["cells"]:
        assert cell["wire_bytes"] >= cell["bytes"] and cell["verified"]["bad"] == 0
        # What connecting and waiting for the others took is counted, and in no interval.
        over_time = int(run.wire_series(cell).sum())
        assert cell["bytes"] <= over_time <= cell["wire_bytes"]
        assert cell["verified"]["blocks"] >= len(data)
    near = document["job"]["time_resolution_ns"]
    assert document["job"]["times_preserved"] and near == (100 if name == "samba" else 1)
    kept, meant = times_of(out), times_of(source)
    assert kept.keys() == meant.keys() and all(abs(kept[path] - meant[path]) < near for path in meant)
