"""Shares with a recycle bin, as most NAS have one: naslab does not fill it, says what it means, and can clear it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cli_tools import Cli, need
from lab_tools import need_system, own_folders
from naslab import lab
from naslab.lab.server import Server
from naslab.results.store import Store

pytestmark = [pytest.mark.lab, pytest.mark.usefixtures("own_folders")]
__all__ = ["own_folders"]
MODULE = "recycle.so"
WRITTEN = 8 << 20


@contextmanager
def share_with_bin(name: str = "#recycle", *, keep_tree: bool = True) -> Iterator[Server]:
    """A Samba whose shares keep what is removed, as NAS are set up."""
    need_system("samba")
    modules = list(Path("/usr/lib").glob(f"*/samba/vfs/{MODULE}"))
    need(bool(modules), f"samba's {MODULE} (Debian: samba-vfs-modules)")
    config = {
        "vfs objects": "recycle", "recycle:repository": name, "recycle:versions": "yes",
        "recycle:keeptree": "yes" if keep_tree else "no",
    }  # fmt: skip
    with lab.running("samba", config=config) as server:
        yield server


def kept_bytes(server: Server) -> tuple[int, int]:
    """Files in the bin, and their bytes."""
    files = [path for path in server.data.glob("#recycle/**/*") if path.is_file()]
    return len(files), sum(path.stat().st_size for path in files)


@pytest.mark.parametrize("keep_tree", [True, False])
def test_a_bin_gets_names_and_no_bytes(keep_tree: bool, cli: Cli) -> None:
    with share_with_bin(keep_tree=keep_tree) as server:
        known = ["--credentials", server.credentials]
        sweep = ["sweep", server.url, *known, "--file-size", "1m..8m", "--record", "1m"]
        cli(*sweep, prefix=server.inside()).ok()
        cli("job", server.url, "copy-in", *known, "--corpus", "office", "--scale", "0.01", prefix=server.inside()).ok()
        files, kept = kept_bytes(server)
        assert files > 0 and kept < WRITTEN / 100, "the runs' files are in the bin, emptied"
        run = Store(cli.store).load("last")
        assert any(one["kind"] == "recycle_bin" and "#recycle" in one["message"] for one in run.document["warnings"])
        told = cli("clean", server.url, *known, "--json", prefix=server.inside()).ok().json()
        assert told["recycled"] and told["recycle_bins"] == ["#recycle"] and kept_bytes(server)[0] == files
        (server.data / "#recycle" / "mine.txt").write_text("somebody else's")
        cleared = cli("clean", server.url, *known, "--recycle-bin", prefix=server.inside()).ok()
        assert "removed" in cleared.out and "recycle bin" in cleared.out
        left = [path.name for path in server.data.glob("#recycle/**/*") if path.is_file()]
        assert left == ["mine.txt"] if keep_tree else "mine.txt" in left and not any("naslab" in name for name in left)


def test_a_trees_removals_are_told_to_be_renames(cli: Cli) -> None:
    with share_with_bin() as server:
        known = ["--credentials", server.credentials]
        cli("tree", server.url, *known, "--files", "10", prefix=server.inside()).ok()
    (warning,) = [one for one in Store(cli.store).load("last").document["warnings"] if one["kind"] == "recycle_bin"]
    assert "rates of removing are those of" in warning["message"] and "#recycle" in warning["message"]


def test_doctor_tells_of_the_bin_and_leaves_nothing_in_it(cli: Cli) -> None:
    with share_with_bin() as server:
        for url in (server.url, f"{server.url}/folder/below"):
            (server.data / "folder" / "below").mkdir(parents=True, exist_ok=True)
            (server.data / "folder" / "below").chmod(0o777)
            found = (
                cli("doctor", url, "--credentials", server.credentials, "--json", prefix=server.inside()).ok().json()
            )
            assert found["recycle_bin"] == "#recycle", url
            assert any(one["kind"] == "recycle_bin" for one in found["advice"]) and found["usable"]
            assert kept_bytes(server)[0] == 0


def test_what_is_older_than_the_run_is_never_emptied(cli: Cli) -> None:
    """Samba follows links: a name in the run's folder may lead to somebody else's file."""
    with share_with_bin() as server:
        precious = server.data / "thesis"
        precious.write_text("do not lose this")
        folder = server.data / "naslab-20200101-000000-aaaa"
        folder.mkdir()
        (folder / "naslab-owner.json").write_text('{"naslab_run": "20200101-000000-aaaa"}')
        (folder / "naslab.link").symlink_to("../thesis")
        precious.chmod(0o666), folder.chmod(0o777)
        cli("clean", server.url, "--credentials", server.credentials, "--force", prefix=server.inside())
        assert not (folder / "naslab.link").is_symlink() and precious.read_text() == "do not lose this"
