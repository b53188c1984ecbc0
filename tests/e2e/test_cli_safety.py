"""naslab never touches what is not its own, and a run that is cut loses nothing that was measured."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sqlite3
import subprocess
from collections import Counter
from pathlib import Path

import pytest

import shares
from cli_tools import HANG_S, PROGRAM, SIM, Cli, Done, populate, snapshot, wait_until
from naslab.results.store.process import owner

LONG = ("--file-size", "64k,512k", "--record", "4k,64k", "--durability", "each", "--repeat", "60", "--quiet")
"""Minutes of work, in small cells; the tests cut it after a moment."""


def begin(cli: Cli, cells: int = 3) -> subprocess.Popen[str]:
    """A long sweep of the folder, some cells under way."""
    child = cli.start("sweep", cli.target, *LONG)
    wait_until(lambda: cli.cells_stored() >= cells, child, f"{cells} cells")
    return child


def end(child: subprocess.Popen[str], number: int) -> Done:
    child.send_signal(number)
    out, err = child.communicate(timeout=HANG_S)
    return Done(child.returncode, out, err).sound()


def run_folder(cli: Cli) -> Path:
    """The folder of the run under way."""
    return next(path for path in cli.target.iterdir() if (path / "naslab-owner.json").exists())


def sound_store(cli: Cli) -> None:
    with sqlite3.connect(cli.store) as db:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert db.execute("PRAGMA foreign_key_check").fetchall() == []
    db.close()


def cut_short(cli: Cli) -> int:
    """Makes the newest stored plan end one block after its last cell, so that resuming takes a moment; its cells."""
    run = cli.runs()[0]
    last = max((cell["block"] for cell in run["cells"]), default=-1) + 1
    with sqlite3.connect(cli.store) as db:
        spec = json.loads(db.execute("SELECT spec FROM runs WHERE run_id = ?", (run["run_id"],)).fetchone()[0])
        spec["cells"] = [cell for cell in spec["cells"] if cell["block"] <= last]
        db.execute("UPDATE runs SET spec = ? WHERE run_id = ?", (json.dumps(spec), run["run_id"]))
    db.close()
    return len(spec["cells"])


@pytest.mark.parametrize("number", shares.first(2, [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], pytest.mark.lab))
def test_signals_keep_what_was_measured(number: int, cli: Cli) -> None:
    before = populate(cli.target)
    child = begin(cli)
    assert run_folder(cli).name != "naslab-xyz"
    done = end(child, number)
    assert done.code == 130 and len(done.err.splitlines()) == 1, done
    assert snapshot(cli.target) == before
    run = cli.runs()[0]
    assert run["status"] == "partial" and "interrupted" in {w["kind"] for w in run["warnings"]}
    assert len(run["cells"]) >= 3 and f"--resume {run['run_id']}" in done.err
    assert all(c["status"] in ("complete", "partial") for c in run["cells"])


def test_ctrl_c_before_the_first_cell(cli: Cli) -> None:
    child = cli.start("sweep", cli.target, *LONG)
    wait_until(cli.store.exists, child, "store")
    done = end(child, signal.SIGINT)
    assert done.code == 130 and list(cli.target.iterdir()) == []


@pytest.mark.parametrize("cells", shares.first(2, [0, 7, 1, 20], pytest.mark.lab))
def test_kill_clean_resume(cells: int, cli: Cli) -> None:
    """kill -9 at several moments: the store is whole, clean tidies, resume completes every cell once."""
    before = populate(cli.target)
    child = cli.start("sweep", cli.target, *LONG)
    ready = (lambda: cli.cells_stored() >= cells) if cells else (lambda: _marked(cli))
    wait_until(ready, child, f"{cells} cells")
    end(child, signal.SIGKILL)
    sound_store(cli)
    run = cli.runs()[0]
    assert run["status"] == "partial" and "unfinished" in {w["kind"] for w in run["warnings"]}
    assert len(run["cells"]) >= cells
    planned = cut_short(cli)
    if cells == 7:
        cleaned = cli("clean", cli.target, "--json").ok().json()
        assert cleaned["removed"] == [f"naslab-{run['run_id']}"] and snapshot(cli.target) == before
    old = {c["id"]: c["start_wall_ns"] for c in cli.runs()[0]["cells"] if c["status"] == "complete"}
    whole = cli("sweep", "--resume", "last", "--json").ok().json()
    assert whole["status"] == "complete" and snapshot(cli.target) == before
    assert Counter(c["id"] for c in whole["cells"]) == Counter(range(planned))
    rows: dict[tuple[int, ...], list[bool]] = {}
    for c in whole["cells"]:
        row = rows.setdefault((c["block"], c["file_bytes"], c["record_bytes"]), [])
        row.append(old.get(c["id"]) == c["start_wall_ns"])
    assert all(all(kept) or not any(kept) for kept in rows.values()), "a row is measured whole or kept whole"


def _marked(cli: Cli) -> bool:
    return any((path / "naslab-owner.json").exists() for path in cli.target.iterdir())


def test_clean_leaves_living_runs_alone(cli: Cli) -> None:
    child = begin(cli)
    folder = run_folder(cli)
    kept = cli("clean", cli.target).ok()
    assert f"kept {folder.name}" in kept.out and folder.exists()
    assert cli("sweep", "--resume", "last").code == 2, "a living run is not resumed"
    end(child, signal.SIGKILL)
    assert f"removed {folder.name}" in cli("clean", cli.target).ok().out
    assert list(cli.target.iterdir()) == []
    assert "nothing to clean" in cli("clean", cli.target).ok().out


def test_foreign_files_in_the_run_folder_survive(cli: Cli) -> None:
    child = begin(cli)
    folder = run_folder(cli)
    (folder / "thesis.txt").write_text("do not lose this")
    (folder / "drafts").mkdir()
    (folder / "drafts" / "one").write_text("1")
    done = end(child, signal.SIGINT)
    assert done.code == 130
    assert {p.name for p in folder.iterdir()} == {"naslab-owner.json", "thesis.txt", "drafts"}
    warned = [w for w in cli.runs()[0]["warnings"] if w["kind"] == "left_behind"]
    assert len(warned) == 2 and any("thesis.txt" in w["message"] for w in warned)
    refused = cli("clean", cli.target).sound()
    assert refused.code == 1 and "thesis.txt" in refused.out and (folder / "thesis.txt").exists()
    (folder / "thesis.txt").unlink()
    (folder / "drafts" / "one").unlink()
    (folder / "drafts").rmdir()
    cli("clean", cli.target).ok()
    assert list(cli.target.iterdir()) == []


MARK = {"naslab_run": "20200101-000000-aaaa", **owner(), "start_time": "1"}


def marked_folder(folder: Path, mark: object) -> Path:
    folder.mkdir()
    (folder / "naslab.sweep").write_bytes(b"old data")
    (folder / "naslab-owner.json").write_text(mark if isinstance(mark, str) else json.dumps(mark))
    return folder


MARKS: dict[str, tuple[object, str]] = {
    "dead": (MARK, "removed"),
    "other host": ({**MARK, "host": "elsewhere"}, "running"),
    "other machine of this name": ({**MARK, "machine": "0" * 16, "boot_id": "another boot"}, "running"),
    "machine unknown": ({**MARK, "machine": None, "boot_id": "another boot"}, "running"),
    "damaged": ('{"naslab_run": "20200101', "running"),
    "list": ('["naslab_run", 1]', "running"),
    "not ours": ('{"owner": "me"}', ""),
    "empty": ("", ""),
}


@pytest.mark.parametrize("name", MARKS)
def test_marks(name: str, cli: Cli) -> None:
    mark, outcome = MARKS[name]
    folder = marked_folder(cli.target / "naslab-20200101-000000-aaaa", mark)
    cleaned = cli("clean", cli.target, "--json").ok().json()
    for kind in ("removed", "running", "foreign"):
        assert cleaned[kind] == ([folder.name] if kind == outcome else [])
    assert folder.exists() == (outcome != "removed")
    if outcome == "running":
        assert cli("clean", cli.target, "--force", "--json").ok().json()["removed"] == [folder.name]


@pytest.mark.parametrize("kind", ["pipe", "folder"])
def test_what_cannot_be_read_is_told(kind: str, cli: Cli) -> None:
    """A pipe in place of the mark holds nobody up; the other folders are seen to all the same."""
    left = cli.target / "naslab-20200101-000000-aaaa"
    left.mkdir()
    (os.mkfifo if kind == "pipe" else os.mkdir)(left / "naslab-owner.json")
    marked_folder(cli.target / "naslab-dead", MARK)
    done = cli("clean", cli.target, "--json").sound()
    found = done.json()
    assert done.code == 1 and found["removed"] == ["naslab-dead"] and left.exists()
    assert [each["folder"] for each in found["failed"]] == [left.name] and found["failed"][0]["why"]
    assert f"kept {left.name}: " in cli("clean", cli.target).sound().out


def test_folders_of_runs_that_were_killed_before_their_mark(cli: Cli) -> None:
    empty, emptied, begun, mine = (
        cli.target / name
        for name in ("naslab-20200101-000000-aaaa", "naslab-20200101-000000-bbbb", "naslab-20200101-000000-cccc",
                     "naslab-results")
    )  # fmt: skip
    for folder in (empty, emptied, begun, mine):
        folder.mkdir()
    (emptied / "naslab-owner.json").touch()
    child = cli.start("clean", cli.target, "--json")
    wait_until(lambda: child.poll() is None, child, "start")
    # A run that begins meanwhile: its mark is there by the second look.
    (begun / "naslab-owner.json").write_text(json.dumps({**MARK, "host": "elsewhere"}))
    found = json.loads(child.communicate(timeout=HANG_S)[0])
    assert sorted(found["removed"]) == [empty.name, emptied.name] and found["running"] == [begun.name]
    assert begun.exists() and mine.exists() and not empty.exists() and not emptied.exists()


def test_clean_takes_a_timeout(cli: Cli) -> None:
    refused = cli("clean", cli.target, "--timeout", "0s").sound()
    assert refused.code == 2 and "--timeout '0s'" in refused.err
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        # It waits for 30 s where nothing is said.
        done = cli("clean", f"nfs://127.0.0.1:{deaf.getsockname()[1]}/x", "--timeout", "1s", timeout=20).sound()
        assert done.code == 2 and done.err


def test_a_store_is_its_owners_alone(cli: Cli) -> None:
    cli("sweep", "null:", "--file-size", "64k", "--record", "64k").ok()
    assert cli.store.stat().st_mode & 0o777 == 0o600


def test_clean_follows_no_links(cli: Cli, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    marked_folder(elsewhere, MARK)
    (elsewhere / "naslab.precious").write_text("not on the target")
    (cli.target / "naslab-link").symlink_to(elsewhere)
    inside = marked_folder(cli.target / "naslab-dead", MARK)
    (inside / "naslab.link").symlink_to(elsewhere / "naslab.precious")
    (inside / "naslab.folder").symlink_to(elsewhere)
    before = snapshot(elsewhere)
    assert cli("clean", cli.target, "--json").ok().json()["removed"] == ["naslab-dead"]
    assert snapshot(elsewhere) == before and (cli.target / "naslab-link").is_symlink()


def test_mkfile_follows_no_links(cli: Cli, tmp_path: Path) -> None:
    for name, to in (("dangling", tmp_path / "victim"), ("loop", cli.target / "loop")):
        (cli.target / name).symlink_to(to)
        done = cli("mkfile", cli.target / name, "--size", "1k").sound()
        assert done.code == 2 and not (tmp_path / "victim").exists()


def test_mkfile_interrupted_leaves_nothing(cli: Cli) -> None:
    child = cli.start("mkfile", cli.target / "big", "--size", "20g", "--quiet")
    wait_until((cli.target / "big").exists, child, "file")
    done = end(child, signal.SIGINT)
    assert done.code == 130 and done.err == "naslab: interrupted\n" and list(cli.target.iterdir()) == []


SECRETS = (
    "smb://user:s3cr3t@host/share", "SMB://user:s3cr3t@host/share", "nfs://u:s3cr3t@host/x", "foo://u:s3cr3t@host/x",
    "\\\\user:s3cr3t@host\\share", "//user:s3cr3t@host/share", "smb://user:s3@cr3t@host/share",
    "sim://user:s3cr3t@host/share", "null://user:s3cr3t@host/share",
)  # fmt: skip


@pytest.mark.parametrize("target", SECRETS)
def test_secrets_are_never_shown_or_stored(target: str, cli: Cli) -> None:
    for command in ("run", "clean"):
        done = cli(command, target).sound()
        assert done.code == 2 and len(done.err.splitlines()) == 1
        assert "cr3t" not in done.out + done.err
    assert not cli.store.exists() or b"cr3t" not in cli.store.read_bytes()


def test_secrets_in_other_arguments_are_not_stored(cli: Cli) -> None:
    small = ("--file-size", "64k", "--record", "64k", "--quiet")
    cli("sweep", "null:", *small, "-o", cli.folder / "r.html", "--label", "at=smb://me:s3cr3t@host/x").ok()
    assert "s3cr3t" not in json.dumps(cli.runs()[0]["argv"])


@pytest.mark.lab
def test_two_runs_at_once_share_a_store_and_a_target(cli: Cli) -> None:
    words = ("sweep", cli.target, "--file-size", "64k..256k", "--record", "4k", "--quiet")
    children = [cli.start(*words) for _ in range(3)]
    for child in children:
        out, err = child.communicate(timeout=HANG_S)
        assert (child.returncode, out, err) == (0, "", "")
    runs = cli.runs()
    assert len({run["run_id"] for run in runs}) == 3
    assert all(run["status"] == "complete" and len(run["cells"]) == 18 for run in runs)
    assert list(cli.target.iterdir()) == []
    sound_store(cli)


def closed_pipe(cli: Cli, *words: str) -> tuple[int, str]:
    """Exit code and messages when the reader of stdout is gone before the first byte."""
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [*PROGRAM, *words], cwd=cli.folder, env=cli.env, stdout=writer, stderr=subprocess.PIPE, text=True, check=False
    )
    os.close(writer)
    return done.returncode, done.stderr


def test_nobody_reads(cli: Cli) -> None:
    cli.sweep(SIM)
    for words in (("show",), ("runs", "--json"), ("sweep", "--help"), ("sweep", "null:", "--file-size", "64k")):
        assert closed_pipe(cli, *words) == (1, ""), words
    assert [run["status"] for run in cli.runs()] == ["complete", "complete"]


def test_stdout_on_a_full_disk(cli: Cli) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("/dev/full is needed")
    cli.sweep(SIM)
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*PROGRAM, "show"], cwd=cli.folder, env=cli.env, stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 1 and "No space left" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize("change", shares.first(1, ["gone", "file"], pytest.mark.lab))
def test_resume_when_the_folder_changed(change: str, cli: Cli) -> None:
    end(begin(cli), signal.SIGINT)
    cli.target.rmdir()
    if change == "file":
        cli.target.write_text("now a file")
    done = cli("sweep", "--resume", "last").sound()
    assert done.code == 2 and str(cli.target) in done.err
    assert cli.runs()[0]["status"] == "partial"


def test_the_target_vanishes_in_the_middle(cli: Cli) -> None:
    child = begin(cli)
    folder = run_folder(cli)
    moved = cli.folder / "moved away"
    folder.rename(moved)
    out, err = child.communicate(timeout=HANG_S)
    done = Done(child.returncode, out, err).sound()
    assert done.code == 1 and "the run failed" in done.err and "No such file" in done.err, done
    assert cli.runs()[0]["status"] == "failed" and len(cli.runs()[0]["cells"]) >= 3


def test_resume_of_a_survey_is_refused(cli: Cli) -> None:
    cli("run", "null:", "--budget", "1s", "--quiet").ok()
    done = cli("sweep", "--resume", "last").sound()
    assert done.code == 2 and "not a sweep" in done.err


@pytest.mark.lab
def test_progress(cli: Cli) -> None:
    """A live bar on a terminal, nothing of it elsewhere; stdout keeps the result alone."""
    import pty

    main, side = pty.openpty()
    words = [*PROGRAM, "run", "null:", "--budget", "3s", "--json"]
    with (cli.folder / "out.json").open("w") as out:
        child = subprocess.Popen(words, cwd=cli.folder, env={**cli.env, "TERM": "xterm"}, stdout=out, stderr=side)
    os.close(side)
    shown = b""
    with contextlib.suppress(OSError):  # the terminal closes with its last writer
        while part := os.read(main, 65536):
            shown += part
    child.wait(timeout=HANG_S)
    os.close(main)
    out_text = (cli.folder / "out.json").read_text()
    assert child.returncode == 0 and json.loads(out_text)["status"] == "complete"
    assert b" left; step " in shown and "█".encode() in shown and b"\x1b[" in shown


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", ">&- 2>&- <&-"])
@pytest.mark.parametrize(
    "command",
    shares.first(2, ["runs --json", "--help", "sweep null: --file-size 64k --record 64k --json"], pytest.mark.lab),
)
def test_closed_streams_cost_no_traceback(closed: str, command: str, cli: Cli) -> None:
    """Nothing that naslab opens takes their place; what cannot be printed is a failure, what was measured is kept."""
    words = ["sh", "-c", f'exec "$@" {closed}', "sh", *PROGRAM, *command.split()]
    done = subprocess.run(words, capture_output=True, text=True, timeout=HANG_S, env=cli.env, check=False)
    told = "naslab: standard output is closed\n"
    assert done.returncode == (1 if " >&-" in f" {closed}" else 0) and "Traceback" not in done.stderr
    assert done.stderr == (told if closed == ">&-" else "")
    if "sweep" in command:
        assert cli.runs()[0]["status"] == "complete"


def test_a_run_killed_after_its_last_cell_is_completed(cli: Cli) -> None:
    """All cells are stored, the end is not: nothing is measured again, and the run's folder goes."""
    whole = cli("sweep", cli.target, "--file-size", "64k", "--record", "4k,64k", "--json").ok().json()
    folder = marked_folder(cli.target / f"naslab-{whole['run_id']}", MARK)
    with contextlib.closing(sqlite3.connect(cli.store)) as db, db:
        db.execute("PRAGMA foreign_keys = ON")
        db.execute("UPDATE runs SET status = 'running', owner = ?", [json.dumps(MARK)])
    assert cli.runs()[0]["status"] == "partial"
    done = cli("sweep", "--resume", "last", "--json").ok().json()
    assert done["status"] == "complete" and not folder.exists()
    assert {c["id"]: c["start_wall_ns"] for c in done["cells"]} == {c["id"]: c["start_wall_ns"] for c in whole["cells"]}
    assert not {"resumed", "unfinished"} & {w["kind"] for w in done["warnings"]}
    assert cli("sweep", "--resume", "last").code == 2


def remove_store(cli: Cli) -> None:
    for path in cli.folder.glob(f"{cli.store.name}*"):
        path.unlink(missing_ok=True)


def test_a_run_whose_store_is_removed_says_so(cli: Cli) -> None:
    """What it goes on to measure would be kept nowhere: the run ends, and leaves the target as it was."""
    before = populate(cli.target)
    child = begin(cli)
    remove_store(cli)
    out, err = child.communicate(timeout=HANG_S)
    done = Done(child.returncode, out, err).sound()
    assert done.code == 1 and "was removed" in done.err and not cli.store.exists(), done
    assert snapshot(cli.target) == before


def test_a_run_whose_store_was_replaced_takes_nothing_from_the_new_one(cli: Cli) -> None:
    """The last one to close a store removes its log by name: it must be its own."""
    first = begin(cli)
    first.send_signal(signal.SIGSTOP)
    remove_store(cli)
    second = begin(cli)
    cells = cli.cells_stored()
    first.send_signal(signal.SIGCONT)
    out, err = first.communicate(timeout=HANG_S)
    assert first.returncode == 1 and "was removed" in Done(1, out, err).sound().err, err
    end(second, signal.SIGKILL)
    sound_store(cli)
    (run,) = cli.runs()
    assert len(run["cells"]) >= cells >= 3
