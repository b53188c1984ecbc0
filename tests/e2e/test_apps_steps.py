"""`naslab apps --step`: preparing, running and cleaning up as commands of their own, and what may come between them."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from cli_tools import Cli, Done, need, populate, snapshot, wait_until
from lab_tools import need_system, own_folders
from naslab import lab

__all__ = ["own_folders"]

SMALL = ("--scale", "0.01", "--only", "HDVideo_4Play,OfficeProductivity,SourceTree")


def step(cli: Cli, name: str, *words: object, target: object = None, small: tuple[str, ...] = SMALL) -> Done:
    return cli("apps", target or cli.target, "--step", name, *small, *words).sound()


def refused(done: Done, *says: str) -> None:
    assert done.code == 2 and not done.out and done.err.count("\n") == 1, done.err
    assert all(text in done.err for text in says), done.err


def results(done: Done) -> Any:
    return {one["name"]: one for one in done.ok().json()["apps"]["results"]}


def prepared_files(cli: Cli) -> dict[str, int]:
    root = cli.target / "naslab-apps" / "naslab.files"
    return {str(path.relative_to(root)): path.stat().st_size for path in root.rglob("*") if path.is_file()}


def test_three_commands(cli: Cli) -> None:
    before = populate(cli.target)
    done = step(cli, "prepare", "--json").ok().json()
    assert {cell["workload"] for cell in done["cells"]} == {"prepare"}
    files = prepared_files(cli)
    assert sum(files.values()) == 12_400_000 + sum(v for k, v in files.items() if "Office" in k) and len(files) == 10
    assert "prepared already" in step(cli, "prepare").ok().err
    for _ in range(2):  # as often as wanted: each run leaves what it found
        found = results(step(cli, "run", "--repeat", "2", "--json"))
        assert len(found) == 3 and all(len(one["bytes_per_s"]) == 2 for one in found.values())
        assert prepared_files(cli) == files
    assert "--step clean" in cli("clean", cli.target).out
    step(cli, "clean", "--only", "HDVideo_4Play").ok()
    assert not [name for name in prepared_files(cli) if "HDVideo" in name]
    refused(step(cli, "run"), "HDVideo_4Play is not prepared", "--step prepare")
    step(cli, "clean", small=()).ok()
    assert snapshot(cli.target) == before
    assert "nothing is prepared" in step(cli, "clean").ok().err


def test_other_options_and_targets_are_refused(cli: Cli) -> None:
    refused(step(cli, "run"), "nothing is prepared", "--step prepare")
    step(cli, "prepare").ok()
    before = snapshot(cli.target)
    for name, *words in (("run", "--scale", "0.02"), ("prepare", "--seed", "1"), ("run", "--compress", "2")):
        only = () if words[0] == "--scale" else ("--scale", "0.01")
        done = step(cli, name, *words, small=(*only, *SMALL[2:]))
        refused(done, "--scale 0.01 --seed 0 --compress 1", " ".join(words), "--step clean")
    other = cli.folder / "other"
    other.mkdir()
    refused(step(cli, "run", target=other), "nothing is prepared", str(other))
    assert snapshot(cli.target) == before and not list(other.iterdir())
    step(cli, "clean", "--seed", "5", small=()).ok()  # cleaning up goes by what was written down
    assert not list(cli.target.iterdir())


@pytest.mark.parametrize(
    ("target", "words", "says"),
    [
        ("sim:", ("--step", "prepare"), "sim: keeps nothing"),
        ("null:", ("--step", "run"), "null: keeps nothing"),
        ("folder", ("--step", "wash"), "--step 'wash': use prepare, run, clean"),
        ("folder", ("--step", "prepare", "--repeat", "2"), "--repeat: not with --step prepare"),
        ("folder", ("--step", "run", "--budget", "1m"), "--budget: not with --step run"),
        ("folder", ("--step", "run", "--find-streams", "--pace", "recorded"), "--find-streams: not with --step run"),
    ],
)
def test_what_cannot_be_combined(target: str, words: tuple[str, ...], says: str, cli: Cli) -> None:
    only = ("--only", "HDVideo_4Play", "--scale", "0.01")
    refused(cli("apps", cli.target if target == "folder" else target, *words, *only), says)
    assert not list(cli.target.iterdir())


def test_files_of_others(cli: Cli) -> None:
    ours = cli.target / "naslab-apps"
    ours.mkdir()
    (ours / "mine.txt").write_text("mine")
    for name in ("prepare", "run", "clean"):
        refused(step(cli, name), "has no mark of naslab", "move it away")
    assert (ours / "mine.txt").read_text() == "mine"
    (ours / "mine.txt").unlink()
    ours.rmdir()
    step(cli, "prepare").ok()
    for path in (ours / "mine.txt", ours / "naslab.files" / "HDVideo_4Play" / "part1" / "mine.txt"):
        path.write_text("mine")
        done = step(cli, "clean")
        assert done.code == 1 and "naslab did not make it" in done.err and path.read_text() == "mine"
        path.unlink()
        step(cli, "prepare").ok()
    (film := ours / "naslab.files" / "HDVideo_4Play" / "part1" / "film1.mpg").write_text("short")
    refused(step(cli, "run"), "film1.mpg", "5 bytes instead of 3100000")
    film.unlink()
    refused(step(cli, "run"), "film1.mpg", "is gone")
    step(cli, "clean").ok()
    assert not list(cli.target.iterdir())


@pytest.mark.parametrize("damage", [b"", b"\xff\xfe", b'{"how": {}, "apps": {}}'])
def test_damaged_state(damage: bytes, cli: Cli) -> None:
    only = ("--scale", "0.01", "--only", "DirectoryCopyToNAS")
    step(cli, "prepare", small=only).ok()
    (cli.target / "naslab-apps" / "naslab.prepared").write_bytes(damage)
    refused(step(cli, "run", small=only), "naslab.prepared", "is damaged", "naslab clean TARGET --force")
    cli("clean", cli.target, "--force").ok()
    assert not list(cli.target.iterdir())


def killed(cli: Cli, name: str, until: Any, *words: str) -> None:
    """Starts a step and kills it at a moment."""
    child = cli.start("apps", cli.target, "--step", name, *words)
    try:
        wait_until(until, child, "the moment to kill")
    finally:
        child.send_signal(signal.SIGKILL)
        child.communicate()
    time.sleep(0.1)


@pytest.mark.lab
def test_killed_while_preparing(cli: Cli) -> None:
    big = ("--scale", "1", "--only", "HDVideo_4Play,PhotoAlbum")
    files = cli.target / "naslab-apps" / "naslab.files"
    killed(cli, "prepare", lambda: (files / "HDVideo_4Play/part1").is_dir() and any(prepared_files(cli).values()), *big)
    refused(step(cli, "run", small=big), "HDVideo_4Play was not prepared completely", "--step prepare")
    step(cli, "clean", small=()).ok()
    assert not list(cli.target.iterdir())


@pytest.mark.lab
def test_killed_while_running(cli: Cli) -> None:
    """Documents may be half saved: they are prepared anew, and what the run left goes."""
    office = ("--scale", "0.3", "--only", "OfficeProductivity", "--pace", "recorded")
    step(cli, "prepare", small=office[:4]).ok()
    files = prepared_files(cli)
    root = cli.target / "naslab-apps" / "naslab.files" / "OfficeProductivity" / "part1"
    first = inodes(root)
    # Recorded pace takes 90 seconds: enough to meet it in the middle, after a document was saved anew.
    killed(cli, "run", lambda: any(first.get(path) != inode for path, inode in inodes(root).items()), *office)
    refused(step(cli, "run", small=office[:4]), "OfficeProductivity has run and may have changed", "--step prepare")
    step(cli, "prepare", small=office[:4]).ok()
    assert prepared_files(cli) == files
    results(step(cli, "run", "--json", small=office[:4]))
    step(cli, "clean", small=()).ok()
    assert not list(cli.target.iterdir())


def inodes(root: Path) -> dict[Path, int]:
    """Of documents that are there now; what is being saved comes and goes."""
    found = {}
    for path in root.iterdir():
        with contextlib.suppress(FileNotFoundError):
            found[path] = path.stat().st_ino
    return {path: inode for path, inode in found.items() if path.suffix == ".doc"}


@pytest.mark.lab
@pytest.mark.usefixtures("own_folders")
@pytest.mark.parametrize("system", ["samba-signed", "ganesha"])
def test_on_servers(system: str, cli: Cli) -> None:
    need(shutil.which({"ganesha": "ganesha.nfsd"}.get(system, "smbd")) and os.geteuid() == 0, f"{system}, as root")
    need_system(system)
    with lab.running(system) as server:
        words = ("--credentials", server.credentials) if "samba" in system else ()
        target = server.targets["data"]
        step(cli, "prepare", *words, target=target).ok()
        assert len(results(step(cli, "run", "--json", *words, target=target))) == 3
        refused(step(cli, "run", "--seed", "1", *words, target=target), "--seed 0")
        step(cli, "clean", *words, target=target).ok()
        assert "nothing is prepared" in step(cli, "clean", *words, target=target).err
