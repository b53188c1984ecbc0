"""`naslab profile` on a simulated disk with known rates, on folders and on files that exist."""

from __future__ import annotations

import os
from typing import Any

import jsonschema
import pytest

from cli_tools import Cli, populate, snapshot
from naslab.results.schema import json_schema

DISK = "sim:?link_bytes_per_s=500MB&disk_read_bytes_per_s=100MB&disk_seek_ns=8ms&server_cache_bytes=8m"


def profile_of(cli: Cli, *words: object) -> Any:
    document = cli("profile", *words, "--json").ok().json()
    jsonschema.Draft202012Validator(json_schema(strict=True)).validate(document)
    assert document["status"] == "complete" and document["summary"]
    return document["profile"]


def test_planted_disk(cli: Cli) -> None:
    """100 MB/s everywhere, 8 ms to seek, 500 MB/s from the server's cache."""
    found = profile_of(cli, DISK, "--size", "256m", "--zones", "16", "-o", "r.html")
    assert len(found["zones"]) == 16 and not found["existing"]
    for zone in found["zones"]:
        assert zone["bytes_per_s"] == pytest.approx(100e6, rel=0.08) and zone["bytes"] == 16 << 20
    assert found["burst_bytes_per_s"] == pytest.approx(500e6, rel=0.03)
    assert found["access_ns"]["p50"] == pytest.approx(8.05e6, rel=0.03)
    page, shown = (cli.folder / "r.html").read_text(), cli("show", "last").ok().out
    assert "Rate by position" in page and "position" in shown and "Random access" in shown


def test_a_folder_is_left_as_it_was(cli: Cli) -> None:
    before = populate(cli.target)
    found = profile_of(cli, cli.target, "--size", "8m", "--zones", "4", "--sample", "1m")
    assert [zone["offset_bytes"] for zone in found["zones"]] == [zone * (2 << 20) for zone in range(4)]
    assert {zone["bytes"] for zone in found["zones"]} == {1 << 20}
    assert snapshot(cli.target) == before


def test_an_existing_file_is_only_read(cli: Cli) -> None:
    path = cli.target / "film.mkv"
    path.write_bytes(os.urandom((5 << 20) + 77))
    before = snapshot(cli.target)
    found = profile_of(cli, path, "--zones", "5", "--block", "64k")
    assert found["existing"] and found["file_bytes"] == 5 << 20 and len(found["zones"]) == 5
    assert snapshot(cli.target) == before


def test_a_budget_ends_it(cli: Cli) -> None:
    done = cli("profile", DISK, "--size", "256m", "--zones", "64", "--budget", "2s", "--json").sound()
    found = done.json()
    assert done.code == 0 and found["status"] == "partial" and 0 < len(found["profile"]["zones"]) < 64


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--zones", "0"), "--zones"), (("--block", "0"), "--block"), (("--size", "64k"), "--zones"),
        (("--sample", "1k"), "--sample"), (("--max-bytes", "1m"), "--max-bytes"), (("--depth", "0"), "--depth"),
    ],
)  # fmt: skip
def test_bad_options(words: tuple[str, ...], says: str, cli: Cli) -> None:
    before = populate(cli.target)
    done = cli("profile", cli.target, *words).sound()
    assert done.code == 2 and says in done.err and done.out == "" and done.err.count("\n") == 1
    assert snapshot(cli.target) == before and cli.runs() == []


def test_what_is_no_disk_is_refused(cli: Cli) -> None:
    (cli.target / "f").write_bytes(b"x" * 8192)
    os.mkfifo(cli.target / "pipe")
    for words, says in (
        (("/dev/zero",), "block device"), ((cli.target / "pipe",), "block device"),
        ((cli.target / "f", "--size", "1m"), "--size"), ((cli.target / "nothing",), "no such folder"),
    ):  # fmt: skip
        done = cli("profile", *words).sound()
        assert done.code == 2 and says in done.err, done.err
    assert cli.runs() == []
