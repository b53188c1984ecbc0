"""`naslab diskspd` as a user runs it: local files, the simulated server, and the article's lines against Samba."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

import shares
from cli_tools import HANG_S, Cli, need, wait_until
from diskspd_readers import TextSpan, read_text, read_xml
from naslab import lab
from naslab.commands.diskspd.processors import read_ticks
from naslab.lab import systems

SIM = "sim:?link_bytes_per_s=125MB&latency_ns=200us"
MIB = 1 << 20


def measured(cli: Cli, *words: object) -> tuple[TextSpan, dict[str, Any], str]:
    """One time span as printed, its cell as stored, and all of the text."""
    done = cli("diskspd", *words).ok()
    (span,) = read_text(done.out)
    document = cli("show", "last", "--json").ok().json()
    cell = document["cells"][-1]
    total = span.tables["Total IO"].total
    assert int(total["bytes"]) == cell["bytes"] and int(total["I/Os"]) == cell["ops"] > 0
    assert span.seconds == pytest.approx(cell["duration_ns"] / 1e9, abs=0.006)
    assert document["command"] == "diskspd" and document["status"] == "complete"
    return span, document, done.out


def test_a_file_is_created_read_and_kept(cli: Cli) -> None:
    path = cli.target / "f.dat"
    span, document, text = measured(cli, "-c3000000", "-b64K", "-d1", "-W0", "-o1", "-L", "-D100", path)
    assert path.stat().st_size == 3_000_000 and b"\0" * 4096 not in path.read_bytes()
    assert span.tables["Write IO"].total["I/Os"] == "0" and span.percentiles["50th"][1] == "N/A"
    assert (
        float(span.percentiles["min"][0]) <= float(span.percentiles["9-nines"][0]) <= float(span.percentiles["max"][0])
    )
    assert f"{path} (2.86MiB)" in text and f"path: '{path}'" in text
    assert [cell["workload"] for cell in document["cells"]] == ["diskspd -c", "diskspd -c", None]
    again = measured(cli, "-b4K", "-d1", "-W0", "-w50", "-r", "-t2", "-o32", path)[0]
    assert len(again.tables["Total IO"].rows) == again.threads == 2
    assert path.stat().st_size == 3_000_000, "written in place, and still there"
    assert all(int(again.tables[name].total["I/Os"]) > 0 for name in ("Read IO", "Write IO"))


@pytest.mark.lab
def test_every_processor_has_its_row(cli: Cli) -> None:
    """All that the system counts, each filled up to 100 %; one thread that never waits is seen in them."""
    need(Path("/proc/stat").exists(), "/proc/stat")
    span = measured(cli, "-c1M", "-b4K", "-d1", "-W1", "-o1", "-L", cli.target / "f")[0]
    assert [row["CPU"] for row in span.processor_rows] == sorted(read_ticks(Path("/proc/stat").read_text()))
    for row in span.processor_rows:
        assert row["Usage"] + row["Idle"] == pytest.approx(100, abs=0.02)
        assert row["User"] + row["Kernel"] == pytest.approx(row["Usage"], abs=0.02)
    whole = sum(row["Usage"] for row in span.processor_rows)
    assert whole > 50 and span.cpu["usage"] == pytest.approx(whole / len(span.processor_rows), abs=0.02)
    simulated = cli("diskspd", "-c8M", "-d1", "-W0", SIM).ok()
    assert read_text(simulated.out)[0].processor_rows == []
    assert "naslab: the CPU table has naslab's own use only" in simulated.out


@pytest.mark.lab
def test_affinity_binds_the_workers(cli: Cli) -> None:
    processors = sorted(os.sched_getaffinity(0))
    need(len(processors) > 1, "two processors")
    chosen = str(processors[-1])
    child = cli.start("diskspd", "-c1M", "-b4K", "-d60", "-W0", "-o1", "-t2", f"-a{chosen}", cli.target / "f")

    def bound() -> bool:
        """The engine's two workers and the thread that began them."""
        return [_allowed(task) for task in Path(f"/proc/{child.pid}/task").iterdir()].count(chosen) >= 3

    wait_until(bound, child, "bound threads")
    child.send_signal(signal.SIGINT)
    out, _ = child.communicate(timeout=HANG_S)
    assert child.returncode == 130 and f"advanced affinity round robin (group/core): 0/{chosen}" in out
    refused = cli("diskspd", "-c1M", "-d1", "-a4711", cli.target / "g").sound()
    assert refused.code == 2 and "cpu 4711 not possible" in refused.err and not (cli.target / "g").exists()


def _allowed(task: Path) -> str:
    """Processors that a thread may run on, as the kernel lists them; empty when it has ended."""
    try:
        text = (task / "status").read_text()
    except OSError:
        return ""
    return next(line.split(":")[1].strip() for line in text.splitlines() if line.startswith("Cpus_allowed_list:"))


def test_deviation_of_each_thread(cli: Cli) -> None:
    span = measured(cli, "-c1M", "-b4K", "-d1", "-W0", "-t2", "-o1", "-D50", "-r", cli.target / "f")[0]
    rows = [float(row["IopsStdDev"]) for row in span.tables["Total IO"].rows]
    assert rows == [float(row["IopsStdDev"]) for row in span.tables["Read IO"].rows] and min(rows) > 0
    # No more than if all moved together; a thread that began late leaves the sum an interval more than its own.
    assert float(span.tables["Total IO"].total["IopsStdDev"]) <= 1.25 * sum(rows)


def test_files_of_others_are_read_but_not_written(cli: Cli) -> None:
    path = cli.target / "mine.dat"
    path.write_bytes(os.urandom(MIB))
    before = path.read_bytes()
    measured(cli, "-d1", "-W0", path)
    for words in (("-w100",), ("-c1M",), ("-w1", "-c1M")):
        done = cli("diskspd", "-d1", "-W0", "-o1", *words, path).sound()
        assert done.code == 2 and "--overwrite" in done.err and "--read-existing" not in done.err
        assert done.out == ""
    assert path.read_bytes() == before
    measured(cli, "-d1", "-W0", "-o1", "-w100", "--overwrite", path)
    assert path.read_bytes() != before and path.stat().st_size == MIB


def test_refusals_write_nothing(cli: Cli) -> None:
    path = cli.target / "f"
    for words, message in (
        (("-d1", path), f"Error opening file: {path}"), (("-d1", "-s1M", "-r100", path), "--compat 2.0.21"),
        (("-d1", "-c1M", "-Sr", path), "remote file systems"),
        (("-d1", "-c1M", "-p", path), "-p (outstanding operations"),
        (("-d1", "-c1M", "#1"), "physical drives"), (("-d1", "-c1M", path, "null:"), "one folder or share"),
        (("-d1", "-c1M", cli.target), "folder"), (("-d1", "-c1M", "--timeout", "0", path), "--timeout"),
        (("-d1", "-c1M", "-Sb", SIM), "no client cache"), (("-d1", "-c1M", "--label", "x", path), "--label"),
        (("-d1", "--credentials", "x", "-c1M", path), "--credentials"),
        (("-d1", "-c1M", "/nonexistent/f"), "no such folder"), (("-d1", "-c1000T", path), "give a smaller -c"),
    ):  # fmt: skip
        done = cli("diskspd", *words).sound()
        assert done.code == 2 and message in done.err and done.out == "", (words, done.err)
    assert list(cli.target.iterdir()) == [] and cli.runs() == []


def test_devices_are_refused_and_stay(cli: Cli) -> None:
    """-c would remove what has the file's name, and put a file in the place of a device."""
    os.mkfifo(cli.target / "pipe")
    (cli.target / "link").symlink_to("/dev/null")
    for name in ("pipe", "link"):
        for words in (("-d1",), ("-d1", "-w100", "--overwrite"), ("-d1", "-c1M", "--overwrite")):
            done = cli("diskspd", *words, cli.target / name).sound()
            assert done.code == 2 and "devices are not opened" in done.err and "naslab profile" in done.err
    assert sorted(path.name for path in cli.target.iterdir()) == ["link", "pipe"] and cli.runs() == []
    assert (cli.target / "pipe").is_fifo() and (cli.target / "link").is_symlink()


def test_several_targets_and_threads(cli: Cli) -> None:
    paths = [cli.target / name for name in ("a", "b")]
    span, _, _text = measured(cli, "-c1M", "-b4K", "-d1", "-W0", "-t2", "-T512K", "-w100", "-Zr", *paths)
    rows = span.tables["Write IO"].rows
    assert [row["file"] for row in rows] == [f"{path} (1MiB)" for path in paths for _ in range(2)]
    assert all(int(row["I/Os"]) > 0 for row in rows) and span.threads == 4
    span = measured(cli, "-b4K", "-d1", "-W0", "-F2", "-o1", *paths)[0]
    assert [row["thread"] for row in span.tables["Total IO"].rows] == ["0", "0", "1", "1"] and span.threads == 2


def test_limits_hold(cli: Cli) -> None:
    """A limit is a limit: at most what was asked for, with one operation more at the edge of each thread."""
    span, _, _ = measured(cli, "-c1M", "-b4K", "-d1", "-W0", "-t2", "-o1", "-g50i", cli.target / "f")
    assert 0 < int(span.tables["Total IO"].total["I/Os"]) <= 2 * (50 * span.seconds + 2)
    span, _, _ = measured(cli, "-b4K", "-d1", "-W0", "-o1", "-i10", "-j200", cli.target / "f")
    assert 0 < int(span.tables["Total IO"].total["I/Os"]) <= 10 * (span.seconds / 0.2 + 2)


def test_cache_modes_on_a_local_file(cli: Cli) -> None:
    path = cli.target / "f"
    measured(cli, "-c1M", "-b4K", "-d1", "-W0", "-o1", "-Sm", "-Nv", "-w100", path)
    for mode in ("-Sw", "-Sb"):
        _, document, _ = measured(cli, "-b4K", "-d1", "-W0", "-o1", mode, "-w100", path)
        assert document["cells"][0]["sync"] == ("all" if mode == "-Sw" else "none")
    done = cli("diskspd", "-b4K", "-d1", "-W0", "-Su", "-r", path).sound()
    if done.code == 0:
        assert cli("show", "last", "--json").ok().json()["cells"][0]["direct"]
        done = cli("diskspd", "-b1000", "-d1", "-W0", "-Su", path).sound()
        assert "-b1000: unbuffered I/O here begins at multiples of" in done.err
    else:
        assert "-Su: this local target cannot do that" in done.err  # a file system without O_DIRECT
    assert done.code in (0, 2) and (done.code == 0 or done.out == "")


def test_xml_json_and_profiles(cli: Cli) -> None:
    path = cli.target / "a&b.dat"
    line = ["-c1M", "-b4K", "-d1", "-W0", "-o1", "-L", "-D100", "-w50"]
    profile = cli("diskspd", "-Rpxml", *line, "*1").ok()
    assert not path.exists() and profile.out.startswith("<Profile>")
    (cli.folder / "p.xml").write_text(profile.out)
    done = cli("diskspd", f"-X{cli.folder}/p.xml", "-Rxml", path).ok()
    span = read_xml(done.out).find("TimeSpan")
    document = cli("show", "last", "--json").ok().json()
    cell = document["cells"][-1]
    assert span is not None and span.findtext("Thread/Target/Path") == str(path)
    for kind in ("Read", "Write"):
        assert int(span.findtext(f"Thread/Target/{kind}Count", "")) == cell["kinds"][kind.lower()]["ops"] > 0
    assert len(span.findall("Iops/Bucket")) == (cell["duration_ns"] + cell["interval_ns"] // 100) // cell["interval_ns"]
    assert json.loads(cli("diskspd", *line[1:], "--json", path).ok().out)["command"] == "diskspd"


def test_the_simulated_server_gives_the_same_twice(cli: Cli) -> None:
    line = ["-c64M", "-b1M", "-d2", "-W1", "-o8", "-r64K", "-w30", "-L", "-z7", SIM]
    outs = [cli("diskspd", *line).ok().out for _ in range(2)]
    cut = [out.split("Total IO")[1] for out in outs]
    assert cut[0] == cut[1]
    (span,) = read_text(outs[0])
    rate = float(span.tables["Total IO"].total["MiB/s"])
    assert rate <= 2 * 125e6 / MIB, "both ways of the link together"
    assert read_text(cli("diskspd", "-c8M", "-b64K", "-d1", "-W0", "-o4", "null:").ok().out)[0].threads == 1


def test_verbose_and_dots(cli: Cli) -> None:
    done = cli("diskspd", "-c1M", "-b4K", "-d1", "-W0", "-o1", "-v", "-P10", cli.target / "f").ok()
    assert "creating file 'f'" in done.err and "starting timespan 1" in done.err and ".." in done.err
    assert "using verbose mode" in done.out
    quiet = cli("diskspd", "-b4K", "-d1", "-W0", "-o1", "-n", "--quiet", cli.target / "f").ok()
    assert quiet.err == ""


def test_interruption_prints_what_was_measured(cli: Cli) -> None:
    path = cli.target / "f"
    child = cli.start("diskspd", "-c1M", "-b4K", "-d60", "-W0", "-o1", path)
    wait_until(lambda: cli.cells_stored() >= 1, child, "the file was created")
    wait_until(lambda: child.poll() is None and not _sleep(), child, "some measuring")
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=HANG_S)
    assert child.returncode == 130 and "interrupted" in err and "Traceback" not in err
    assert "Results for timespan 1:" in out and path.exists()
    assert cli.runs()[0]["status"] == "partial"


@pytest.mark.parametrize("number", shares.first(1, [signal.SIGINT, signal.SIGTERM], pytest.mark.lab))
def test_a_file_that_is_not_whole_is_removed(number: int, cli: Cli) -> None:
    """Cut short it would pass for the whole file in the next run without -c."""
    keep, path = cli.target / "keep", cli.target / "big"
    keep.write_bytes(b"mine")
    child = cli.start("diskspd", "-c4G", "-b4K", "-d1", "-W0", "-o1", path)
    wait_until(lambda: path.exists() and path.stat().st_size > 1 << 20, child, "some of the file")
    child.send_signal(number)
    _, err = child.communicate(timeout=HANG_S)
    assert child.returncode == 130 and "Traceback" not in err
    assert "'big' was not written completely and is removed" in err
    assert list(cli.target.iterdir()) == [keep] and keep.read_bytes() == b"mine"
    assert cli.runs()[0]["status"] == "partial"
    # A whole file stays: here with a tail that a cell of its own writes.
    cli("diskspd", "-c1500K", "-b4K", "-d1", "-W0", "-o1", path).ok()
    assert path.stat().st_size == 1500 << 10


def _sleep() -> bool:
    import time

    time.sleep(0.5)
    return False


# Samba

WRITE = ("-d2", "-W1", "-s1M", "-w100", "-t1", "-o32", "-b1M", "-Sr", "-L")
READ = ("--compat", "2.0.21", "-d2", "-W1", "-s1M", "-r100", "-t1", "-o32", "-b1M", "-Sr", "-L")


@pytest.fixture
def samba_missing() -> list[str]:
    return systems.missing_packages(systems.system("samba"))


@pytest.mark.lab
def test_the_articles_lines_against_samba(cli: Cli, samba_missing: list[str]) -> None:
    need(not samba_missing, f"samba: {' '.join(samba_missing)}")
    with lab.running("samba") as server:
        cli.env["NASLAB_PASSWORD"] = server.password
        target = f"{server.url.partition('?')[0].rstrip('/')}/f.dat"
        missing = cli("diskspd", *WRITE, target).sound()
        assert missing.code == 2 and "Error opening file" in missing.err
        span, document, text = measured(cli, "-c64M", *WRITE, target)
        assert document["target"]["protocol"] == "smb" and document["cells"][-1]["queue_depth"] == 32
        assert span.tables["Read IO"].total["I/Os"] == "0"
        assert float(span.tables["Write IO"].total["AvgLat"]) > 0 and span.percentiles["9-nines"][0] == "N/A"
        assert "local software cache disabled, remote cache enabled" in text and server.password not in text
        refused = cli("diskspd", *READ[2:], target).sound()
        assert refused.code == 2 and "2.0.21a took -r silently" in refused.err
        span, document, text = measured(cli, *READ, target)
        assert f"{((64 << 20) - MIB) // 100 + 1:,} positions" in text and "proc count:" in text
        assert span.tables["Write IO"].total["I/Os"] == "0" and document["cells"][-1]["op"] == "random_read"
        assert int(span.tables["Read IO"].total["bytes"]) % MIB == 0
        for mode in ("-Su", "-Sh", "-Sw"):
            measured(cli, "-d1", "-W0", "-b64K", "-w100", "-o4", mode, target)
        for line, kind in ((WRITE, "Write"), (READ, "Read")):
            short = [{"-d2": "-d1", "-W1": "-W0"}.get(word, word) for word in line]
            xml = read_xml(cli("diskspd", "-Rxml", "-D100", *short, target).ok().out)
            cell = cli("show", "last", "--json").ok().json()["cells"][-1]
            assert xml.findtext("TimeSpan/Thread/Target/Path") == target
            assert int(xml.findtext(f"TimeSpan/Thread/Target/{kind}Count", "")) == cell["ops"] > 0
            assert int(xml.findtext(f"TimeSpan/Thread/Target/{kind}Bytes", "")) == cell["ops"] * MIB
            assert float(xml.findtext(f"TimeSpan/Latency/Average{kind}Milliseconds", "")) > 0
            assert len(xml.findall("TimeSpan/CpuUtilization/CPU")) == os.cpu_count()
            assert all(bucket.get(f"{kind}AvgLatencyMilliseconds") for bucket in xml.findall("TimeSpan/Iops/Bucket"))
