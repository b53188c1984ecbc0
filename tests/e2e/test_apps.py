"""`naslab apps` on a simulated server, on folders, on real servers."""

from __future__ import annotations

import csv
import json
import os
import shutil
import signal
import statistics
import subprocess
import time
from itertools import pairwise
from typing import Any

import jsonschema
import pytest

import shares
from cli_tools import HANG_S, Cli, need, populate, snapshot, wait_until
from lab_tools import need_system, own_folders
from naslab import lab
from naslab.commands.apps.model import TWELVE, definitions
from naslab.results.schema import json_schema
from naslab.trace import Operation, Trace

__all__ = ["own_folders"]

TWICE = 0.15
"""So many more requests follow their own stream's last one, as a share of all, where a busy machine lets one of several
streams come twice in a row; where they did not take turns at all, nearly all would."""
LINK = "sim:?link_bytes_per_s=118MB&latency_ns=200us"


def apps_of(cli: Cli, *words: object) -> Any:
    document = cli("apps", *words, "--json").ok().json()
    jsonschema.Draft202012Validator(json_schema(strict=True)).validate(document)
    assert document["status"] == "complete" and document["summary"]
    assert {cell["status"] for cell in document["cells"]} == {"complete"}
    assert not any(cell["errors"] for cell in document["cells"])
    return document


def by_name(document: Any) -> dict[str, Any]:
    return {one["name"]: one for one in document["apps"]["results"]}


NEEDED = {"lab:samba": "smbd", "lab:ganesha": "ganesha.nfsd"}
SERVERS = ["lab:samba-signed", "lab:ganesha?version=3", "lab:ganesha?version=4.1"]
DIALECTS = {"folder": None, LINK: None} | dict(zip(SERVERS, ("3.1.1", "3", "4.1"), strict=True))


def need_server(target: str) -> None:
    programs = [program for lab_name, program in NEEDED.items() if target.startswith(lab_name)]
    need(all(map(shutil.which, programs)) and (not programs or os.geteuid() == 0), f"{programs}, as root")


@pytest.mark.lab
@pytest.mark.parametrize("target", DIALECTS)
def test_all_twelve_three_times(target: str, cli: Cli) -> None:
    """Scale 0.02, three times: a simulated server, a folder, Samba that signs, Ganesha with both versions."""
    need_server(target)
    before = populate(cli.target)
    document = apps_of(cli, cli.target if target == "folder" else target, "--scale", "0.02", "--repeat", "3")
    assert document["target"]["dialect"] == DIALECTS[target]
    assert (document["target"]["signing"] is not None) == ("signed" in target)
    found = by_name(document)
    assert list(found) == list(TWELVE) and document["apps"]["scale"] == 0.02
    assert "Files were scaled to 0.02 of their size." in document["summary"][0]
    for one in found.values():
        assert len(one["bytes_per_s"]) == 3 and one["interval_bytes_per_s"] is None
        assert one["median_bytes_per_s"] == sorted(one["bytes_per_s"])[1] > 0
        assert one["median_operations_per_s"] == sorted(one["operations_per_s"])[1] > 0
    steps = [cell["workload"] for cell in document["cells"]]
    assert steps[::3] == ["prepare"] * 36 and steps[2::3] == ["clean"] * 36
    moved = {cell["workload"]: cell["bytes"] for cell in document["cells"]}
    assert moved == {name: one["read_bytes"] + one["written_bytes"] for name, one in found.items()} | {
        "prepare": moved["prepare"], "clean": 0,
    }  # fmt: skip
    assert moved["HDVideo_1Play"] == 26_000_000 and moved["FileCopyToNAS"] == 80_000_000
    assert snapshot(cli.target) == before
    # A simulated server repeats itself; a real one does not.
    assert document["apps"]["identical_repeats"] == ([[1, 2, 3]] if target == LINK else [])


VIDEO = [name for name, one in definitions().items() if one.sequential is not None]


@pytest.mark.lab
@pytest.mark.parametrize("name", VIDEO)
def test_order_as_seen_by_the_server(name: str, cli: Cli) -> None:
    """By when each request started: the published share, while all streams share the link."""
    one = by_name(apps_of(cli, LINK, "--only", name, "--scale", "0.1"))[name]
    wanted = definitions()[name].sequential
    assert wanted is not None and one["sequential_issued"][0] == pytest.approx(wanted, abs=0.02)
    if one["streams"] > 1 and "Office" not in name:
        # 118 MB/s for one direction: one request at a time would lose 0.2 ms of every 2.4.
        assert one["median_bytes_per_s"] > 0.97 * 118e6


def sound_order(cli: Cli, target: object) -> None:
    """The published shares by when requests really started. Median of three: a machine may stall a thread once."""
    found = by_name(apps_of(cli, target, "--only", ",".join(VIDEO), "--scale", "0.05", "--repeat", "3"))
    for name in VIDEO:
        issued = found[name]["sequential_issued"]
        assert len(issued) == 3
        assert statistics.median(issued) == pytest.approx(definitions()[name].sequential, abs=0.04), name


@pytest.mark.parametrize("engine", shares.first(1, ["", "?engine=uring"], pytest.mark.lab))
def test_order_on_a_folder(engine: str, cli: Cli) -> None:
    sound_order(cli, f"{cli.target}{engine}")


@pytest.mark.lab
@pytest.mark.parametrize("target", [LINK, "folder", "lab:samba-signed", "lab:ganesha?version=3"])
def test_older_and_modern_ones(target: str, cli: Cli) -> None:
    need_server(target)
    before = populate(cli.target)
    document = apps_of(cli, cli.target if target == "folder" else target, "--scale", "0.01", "--only", "older,modern")
    found = by_name(document)
    assert len(found) == 14 and all(one["median_bytes_per_s"] > 0 for one in found.values())
    done = {cell["workload"]: cell["kinds"] for cell in document["cells"]}
    assert done["Database"]["flush"]["ops"] == 21 and done["SourceTree"]["rename"]["ops"] == 50
    assert done["HDVideo_1Play_Office"]["open"]["ops"] == 7 and done["TrainingReader"]["open"]["ops"] == 100
    data = {cell["workload"]: cell["data_measured"] for cell in document["cells"]}
    assert data["FullBackup"]["dedupe_ratio"] == pytest.approx(3, rel=0.05)
    assert data["FullBackup"]["compress_ratio_zlib"] > 1.8 and data["DedupBackup"]["dedupe_ratio"] == 1
    assert snapshot(cli.target) == before


def test_what_fails_has_no_number(cli: Cli) -> None:
    """A write of the second application's preparation fails: the first one's number stays, the second has none."""
    (cli.folder / "bad.toml").write_text('link_bytes_per_s = 118_000_000\n[[faults]]\nop = "write"\nat_op = 10\n')
    done = cli("apps", f"sim:{cli.folder}/bad.toml", "--scale", "0.005", "--json", "--csv", "APP.csv").sound()
    document = done.json()
    assert done.code == 1 and document["status"] == "failed" and list(by_name(document)) == ["HDVideo_1Play"]
    assert "HDVideo_2Play," in (cli.folder / "APP.csv").read_text().splitlines()


@pytest.mark.lab
def test_an_interruption_keeps_what_was_measured(cli: Cli) -> None:
    before = populate(cli.target)
    child = cli.start("apps", cli.target, "--scale", "0.5", "--repeat", "50", "--json")
    wait_until(lambda: cli.cells_stored() >= 6, child, "two applications")
    child.send_signal(signal.SIGINT)
    out, _ = child.communicate(timeout=HANG_S)
    document = json.loads(out)
    assert child.returncode == 130 and document["status"] == "partial" and document["apps"]["results"]
    assert snapshot(cli.target) == before


@pytest.mark.lab
@pytest.mark.usefixtures("own_folders")
@pytest.mark.parametrize("system", ["samba", "ganesha"])
def test_order_on_the_wire(system: str, cli: Cli) -> None:
    """Requests of all films as they pass the loopback device, in their packets' order: the shares planned. That each
    stream has a request under way shows where a link is slow (`test_order_as_seen_by_the_server`). Streams that run
    freely take turns as processors let them: on a busy machine one may come twice in a row now and then."""
    need(shutil.which("tshark") and shutil.which("dumpcap") and os.geteuid() == 0, "tshark and dumpcap, as root")
    need_system(system)
    capture, trace = cli.folder / "films.pcapng", cli.folder / "films.trace"
    with lab.running(system) as server:
        command = ["dumpcap", "-q", "-i", "lo", "-B", "64", "-s", "400", "-f", f"tcp port {server.port}", "-w", capture]
        child = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        try:
            assert child.stderr is not None and any(line.startswith("File:") for line in child.stderr)
            words = ("--credentials", server.credentials) if system == "samba" else ()
            found = by_name(apps_of(cli, server.targets["data"], "--only", ",".join(VIDEO), "--scale", "0.03", *words))
            time.sleep(1)  # what dumpcap has not yet written; lost requests are counted below
        finally:
            child.send_signal(signal.SIGINT)
            child.communicate(timeout=HANG_S)
    cli("trace", "convert", capture, "-o", trace).ok()
    seen: dict[str, list[Operation]] = {name: [] for name in VIDEO}
    for one in Trace(trace):
        parts = str(one.path).split("/")
        if one.op in ("read", "write") and "naslab.files" in parts and not is_preparation(one):
            seen[parts[parts.index("naslab.files") + 1]].append(one)
    for name, issued in seen.items():
        spans = [(one.path, one.offset_bytes or 0, one.len_bytes or 0) for one in issued]
        assert len(spans) == found[name]["requests"], name
        follows = [a[0] == b[0] and a[1] + a[2] == b[1] for a, b in pairwise(spans)]
        more = TWICE if found[name]["streams"] > 1 else 0.04
        assert -0.04 <= sum(follows) / len(follows) - definitions()[name].sequential <= more, name


def is_preparation(one: Operation) -> bool:
    """Writes of films and documents are those before the run; it writes recordings, temporary files and locks."""
    return one.op == "write" and str(one.path).endswith(("film1.mpg", "film2.mpg", "film3.mpg", "film4.mpg", ".doc"))


def test_recorded_pace(cli: Cli) -> None:
    words = ("--scale", "0.02", "--pace", "recorded", "--only", "HDVideo_4Play,FileCopyToNAS")
    one = by_name(apps_of(cli, LINK, *words))
    four, copy = one["HDVideo_4Play"], one["FileCopyToNAS"]
    assert four["paced"] and four["missed_starts"] == 0 and four["streams_kept_up"] == 4
    assert four["median_bytes_per_s"] == pytest.approx(4 * 310e6 / 225, rel=0.02)
    assert not copy["paced"] and copy["streams_kept_up"] is None and copy["median_bytes_per_s"] > 50e6


def test_a_server_that_is_too_slow(cli: Cli) -> None:
    """5.5 MB/s are asked for, 3 are there: the last request of 4.5 s starts 3.7 s late."""
    document = apps_of(
        cli, "sim:?link_bytes_per_s=3MB&latency_ns=200us", "--scale", "0.02", "--pace", "recorded",
        "--only", "HDVideo_4Play",
    )  # fmt: skip
    one = by_name(document)["HDVideo_4Play"]
    assert one["streams_kept_up"] == 0 and 40 < one["missed_starts"] < 96
    assert any("0 of 4 streams kept up" in sentence for sentence in document["summary"])


@pytest.mark.parametrize(("link", "name", "truth"), [
    # A film asks for 1.3 GB in 600 s, 2.167 MB/s; an edit for 330 MB/s read and 110 MB/s written, each way for itself.
    ("18.2MB", "HDVideo_1Play", 8), ("10.9MB", "HDVideo_1Play", 5), ("2MB", "HDVideo_1Play", 0),
    ("700MB", "VideoEdit_4K", 8),
])  # fmt: skip
def test_streams_held(link: str, name: str, truth: int, cli: Cli) -> None:
    """The number found is what the link can carry."""
    words = ("--scale", "0.02", "--pace", "recorded", "--find-streams", "--only", name)
    document = apps_of(cli, f"sim:?link_bytes_per_s={link}&latency_ns=200us", *words)
    (held,) = document["apps"]["streams_held"]
    assert held["streams"] == truth and held["failed_streams"] == truth + (4 if "Edit" in name else 1)
    assert held["stopped"] is None and any(f"{truth} streams of" in text for text in document["summary"])
    cells = {cell["id"]: cell["workload"] for cell in document["cells"]}
    assert all(cells[one["cell"]] == f"{name}_x{one['streams']}" for one in held["tried"])


def test_streams_held_stops_at_a_limit(cli: Cli) -> None:
    words = ("--scale", "0.02", "--pace", "recorded", "--find-streams", "--only", "HDVideo_1Play")
    document = apps_of(cli, LINK, *words, "--max-bytes", "1g")
    (held,) = document["apps"]["streams_held"]
    assert held["streams"] == 8 and held["failed_streams"] is None and "--max-bytes" in held["stopped"]
    done = cli("apps", LINK, *words[2:], "--pace", "fast")
    assert done.code == 2 and "--pace recorded" in done.err
    done = cli("apps", LINK, *words[:-1], "PhotoAlbum")
    assert done.code == 2 and "only plays and records" in done.err


def test_csv_show_and_report(cli: Cli) -> None:
    cli("apps", LINK, "--scale", "0.005", "--repeat", "6", "--csv", "APP.csv", "-o", "r.html").ok()
    lines = (cli.folder / "APP.csv").read_text().splitlines()
    rows = list(csv.reader(lines))[2:14]
    assert [row[0] for row in rows] == list(TWELVE)
    found = by_name(cli("show", "last", "--json").ok().json())
    assert [float(row[1]) for row in rows] == [round(found[name]["median_bytes_per_s"] / 1e6, 3) for name in TWELVE]
    shown, page = cli("show", "last").ok().out, (cli.folder / "r.html").read_text()
    assert "run 6" in shown and "median" in shown and "PhotoAlbum" in shown and "0.005 of their size" in shown
    assert "Applications, run by run" in page and "267.8" in page and "Safe Mode" in page
    assert all(one["interval_coverage"] == 0.96875 for one in found.values())


def test_conditions_are_kept_apart(cli: Cli) -> None:
    """A label names the condition of a run; the report sets runs side by side, averages none, and names twins."""
    words = ("--only", "PhotoAlbum", "--scale", "0.01", "--label")
    ids = [
        apps_of(cli, f"sim:?link_bytes_per_s={rate}", *words, f"condition={name}")["run_id"]
        for rate, name in (("118MB", "idle"), ("59MB", "busy"), ("118MB", "again"))
    ]
    cli("report", *ids, "-o", "r.html").ok()
    page = (cli.folder / "r.html").read_text()
    heads = [page.index(f'<th scope="col">condition={name}') for name in ("idle", "busy", "again")]
    assert heads == sorted(heads) and "runs are not averaged" in page
    assert "condition=idle, condition=again: the same rates within" in page
    listed = cli("runs", "--label", "condition=busy", "--json").ok().json()["runs"]
    assert [run["labels"] for run in listed] == [{"condition": "busy"}]


def test_a_test_left_out_has_no_number_in_the_csv(cli: Cli) -> None:
    cli("apps", "null:", "--scale", "0.002", "--only", "PhotoAlbum,Restore", "--csv", "APP.csv").ok()
    lines = (cli.folder / "APP.csv").read_text().splitlines()
    assert lines[2] == "HDVideo_1Play," and float(lines[13].split(",")[1]) > 0 and lines[14].startswith("Restore,")


def test_a_budget_ends_it(cli: Cli) -> None:
    done = cli("apps", LINK, "--scale", "0.1", "--budget", "2s", "--json").sound()
    found = done.json()
    assert done.code == 0 and found["status"] == "partial" and 0 < len(found["apps"]["results"]) < 12


def test_list(cli: Cli) -> None:
    text = cli("apps", "--list").ok().out
    assert "HDVideo_4Play (naspt)" in text and "play.bytes = 1240MB (computerbase: four files of 310 MB)" in text
    listed = cli("apps", "--list", "--only", "naspt", "--json").ok().json()["apps"]
    assert [one["name"] for one in listed] == list(TWELVE)
    request = listed[0]["parts"][0]["request"]
    assert request["is"] == 262144 and request["from"] == "deck"


@pytest.mark.lab
def test_order_on_a_server(cli: Cli) -> None:
    """NFS 3; the packets of SMB and NFS 4.2 are looked at in `test_order_on_the_wire`."""
    need_server("lab:ganesha?version=3")
    sound_order(cli, "lab:ganesha?version=3")
