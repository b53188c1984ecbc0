"""Links that were put into a run's folder on the server lead `clean` to nothing of others, over SMB and NFS."""

from __future__ import annotations

import json
import subprocess

import pytest

from cli_tools import Cli, snapshot
from lab_tools import need_system, own_folders
from naslab import lab
from naslab.results.store.process import owner

pytestmark = [pytest.mark.lab, pytest.mark.usefixtures("own_folders")]
__all__ = ["own_folders"]
MARK = json.dumps({"naslab_run": "20200101-000000-aaaa", **owner(), "start_time": "1"})
FILES = "naslab.files"


@pytest.mark.parametrize("system", ["samba", "ganesha", "demo"])
def test_links_in_the_folders_of_runs(system: str, cli: Cli) -> None:
    """Samba follows links of folders itself, and shows what they lead to as if it lay there."""
    need_system(system)
    with lab.running(system) as server:
        precious = server.data / "precious"
        (precious / "sub").mkdir(parents=True)
        (precious / "thesis").write_text("do not lose this")
        (precious / "naslab.x").write_text("nor this")
        (precious / "sub" / "two").write_text("or this")
        within, instead, beside, plain = (server.data / f"naslab-20200101-000000-{n}" for n in ("in", "at", "by", "ok"))
        for folder in (within, instead, plain):
            folder.mkdir()
            (folder / "naslab-owner.json").write_text(MARK)
            (folder / "naslab.sweep").write_text("data")
        for folder in (within, plain):
            (folder / FILES / "d").mkdir(parents=True)
            (folder / FILES / "d" / "file").write_text("data")
        (within / FILES / "folder").symlink_to("../../precious")
        (within / FILES / "d" / "file-too").symlink_to("../../../precious/thesis")
        (within / "naslab.y").symlink_to("../precious/thesis")
        (instead / FILES).symlink_to("../precious")
        (precious / "naslab-owner.json").write_text(MARK)
        beside.symlink_to("precious")
        subprocess.run(["chmod", "-R", "a+rwX", server.data], check=True)
        before = snapshot(precious)
        known = ["--credentials", server.credentials] if server.credentials else []
        done = cli("clean", server.url, *known, "--json", prefix=server.inside()).sound()
        assert done.out, done.err
        found = done.json()
        assert snapshot(precious) == before and done.code in (0, 1)
        assert plain.name in found["removed"] and not plain.exists()
        # What is left of the others is told.
        told = [*found["foreign"], *(each["folder"] for each in found["failed"])]
        for folder in (within, instead):
            assert not folder.exists() or any(text.startswith(folder.name) for text in told)
        assert not (within / FILES / "d" / "file").exists() and beside.is_symlink()
