"""`naslab audit` and `--redact` as people call them; and nothing is found in clean runs of every command."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from cli_tools import Cli, Done
from naslab.results.store import Store

PLAIN = "sim:?link_bytes_per_s=125MB&latency_ns=200us"
NOISY = (
    "sim:?client_nic_bytes_per_s=117MB&latency_ns=100us&disk_read_bytes_per_s=400MB&disk_noise=0.05&link_noise=0.02"
    "&jitter=0.2"
)
DISK = (
    "sim:?link_bytes_per_s=500MB&latency_ns=200us&disk_read_bytes_per_s=100MB&disk_write_bytes_per_s=80MB"
    "&disk_seek_ns=8ms&server_cache_bytes=8m"
)
SWEEP = ("--file-size", "1m,16m", "--record", "64k,1m", "--repeat", 2)
CLEAN = {
    "sweep": (PLAIN, *SWEEP),
    "sweep, noisy": (NOISY, *SWEEP, "--depth", 4, "--workers", 2),
    "run": (NOISY, "--budget", "1m"),
    "sustained": (DISK, "--duration", "10s", "--write", 30),
    "curve": (PLAIN, "--step-duration", "1s"),
    "profile": (DISK, "--size", "64m", "--zones", 10),
    "tree": (PLAIN, "--files", 50),
    "apps": (PLAIN, "--scale", 0.005, "--repeat", 2),
    "compare": ("--run", PLAIN, DISK, "--file-size", "1m", "--record", "64k"),
}


@pytest.mark.lab
def test_nothing_is_found_in_clean_runs_of_every_command(cli: Cli, here: Callable[..., Done]) -> None:
    for name, words in CLEAN.items():
        here(name.split(",")[0], *words, "--quiet").ok()
    stored = Store(cli.store)
    runs = [stored.load_id(run.run_id) for run in stored.list_runs()]
    assert {run.document["command"] for run in runs} == {name.split(",")[0] for name in CLEAN}
    audits = here("audit", *(run.run_id for run in runs), "--json").ok().json()["audits"]
    assert len(audits) == len(CLEAN) + 1  # compare makes two
    told = [(each["name"], found) for each in audits for found in each["findings"]]
    assert [found for found in told if found[1]["grade"] != "missing"] == []
    assert {found["check"] for _, found in told} <= {"few"}


@pytest.fixture
def real(cli: Cli, here: Callable[..., Done]) -> Cli:
    """A store with one run of a folder of this machine."""
    here("sweep", cli.target, "--file-size", "1m", "--record", "64k", "--tests", "read,write", "--label", "who=ann-9",
         "--quiet").ok()  # fmt: skip
    return cli


@pytest.mark.lab
def test_a_run_of_a_real_folder_is_possible(real: Cli) -> None:
    done = real("audit", "last").sound()
    assert done.code == 0 and "impossible" not in done.out


def test_exit_codes(real: Cli, here: Callable[..., Done]) -> None:
    here("export", "last", "-o", "run.json").ok()
    document = json.loads(Path(real.folder, "run.json").read_text("utf-8"))
    document["cells"][0]["throughput_mib_per_s"] *= 1.048576
    Path(real.folder, "wrong.json").write_text(json.dumps(document), "utf-8")
    assert here("audit", "run.json").code == 0
    wrong = here("audit", "wrong.json")
    assert wrong.code == 1 and "MiB (2^20) taken for MB (10^6)" in wrong.out
    assert wrong.err == ""
    for words in (("nothing.txt",), ("last", "--link", "fast"), ("last", "--server-memory", "much")):
        done = here("audit", *words)
        assert done.code == 2 and done.out == "" and words[-1] in done.err


def test_published_numbers(here: Callable[..., Done]) -> None:
    done = here("audit", "published:raid5-naspt")
    assert done.code == 1 and "repeat 1 and repeat 2 are the same in all 12 numbers" in done.out


def test_redacted_output_names_nobody(real: Cli, here: Callable[..., Done]) -> None:
    secrets = ("ann-9", str(real.folder), "target")
    for words, file in (
        (("export", "last", "-o", "a.json"), "a.json"), (("export", "last", "-o", "a.csv"), "a.csv"),
        (("report", "last", "-o", "a.html"), "a.html"),
    ):  # fmt: skip
        here(*words, "--redact").ok()
        text = Path(real.folder, file).read_text("utf-8")
        assert not [secret for secret in secrets[:2] if secret in text] and "folder-1" in text
    shown = here("show", "last", "--redact", "--json").ok().json()
    assert shown["target"]["url"] == "folder-1" and shown["labels"] == {}
    assert "ann-9" not in here("show", "last", "--redact").ok().out
