"""The container image: what it says of itself, and naslab run in it by nobody special."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cli_tools import need

Made = Callable[[str], tuple[Path, ...]]
pytestmark = pytest.mark.timeout(3600)  # the wheels are built first
SIM = "sim:?link_bytes_per_s=125MB&latency_ns=200us"


@pytest.fixture(scope="module")
def image(made: Made) -> Path:
    need(os.geteuid() == 0, "root")
    for program in ("debootstrap", "buildah"):
        need(shutil.which(program), f"{program} (apt install {program})")
    for part in ("wheels", "deb"):
        made(part)
    (found,) = made("oci")
    return found


@pytest.fixture(scope="module")
def run(image: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., str]]:
    """What a command prints in a container of the image, as its own user."""
    folder = tmp_path_factory.mktemp("oci")
    buildah = ["buildah", "--storage-driver", "vfs", "--root", folder / "storage", "--runroot", folder / "run"]

    def called(*words: str | Path) -> str:
        done = subprocess.run([*buildah, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{words}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    container = called("from", f"oci-archive:{image}").strip()
    yield lambda *words: called("run", "--isolation", "chroot", container, "--", *words)
    called("rm", container)


def test_it_says_what_it_runs_and_as_whom(image: Path) -> None:
    with tarfile.open(image) as archive:

        def read(digest: str) -> dict[str, object]:
            content = archive.extractfile(f"blobs/{digest.replace(':', '/')}")
            assert content is not None
            return dict(json.load(content))

        index = archive.extractfile("index.json")
        assert index is not None
        (entry,) = json.load(index)["manifests"]
        settings = read(read(entry["digest"])["config"]["digest"])  # type: ignore[index]
    config = settings["config"]
    assert isinstance(config, dict)
    assert config["User"] == "10001:10001" and config["Entrypoint"] == ["/usr/bin/naslab"]
    assert config["WorkingDir"] == "/data" and "/data" in config["Volumes"]
    assert settings["architecture"] == "amd64" and image.stat().st_size < 90_000_000


def test_naslab_runs_in_it(run: Callable[..., str]) -> None:
    assert run("id", "-u").strip() == "10001"
    assert run("naslab", "--version").startswith("naslab 0.")
    assert "MB/s" in run("naslab", "run", SIM, "--budget", "20s", "-o", "/data/nas.html")
    assert "MB/s" in run("naslab", "show", "last")
    assert sorted(run("ls", "/data").split()) == ["nas.html", "naslab.sqlite"]
    assert "complete" in run("naslab", "sweep", "lab:demo", "--file-size", "64k", "--record", "64k", "--json")


def test_nothing_of_the_machine_is_in_it(run: Callable[..., str]) -> None:
    assert run("find", "/var/cache", "/var/log", "/tmp", "/var/lib/apt/lists", "-type", "f").strip() == ""
    assert run("find", "/usr/lib/naslab", "-name", "*.pyc", "-print", "-quit").strip()
    places = ("/bin", "/etc", "/home", "/lib", "/opt", "/sbin", "/usr", "/var/lib/dpkg")
    assert run("find", *places, "-writable", "-not", "-type", "l").strip() == ""
