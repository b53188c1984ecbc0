"""DiskSpd's text and XML: as approved, and read back by readers like those in the field."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from diskspd_fixtures import MACHINE, PROCESSORS, made_figures, made_run, planned
from diskspd_readers import TextSpan, order, read_text, read_xml, totals
from naslab.cli.diskspd import output
from naslab.commands.diskspd.figures import Part, figures_of, together
from naslab.commands.diskspd.machine import Machine, Processor, machine_of
from naslab.commands.diskspd.plan import Plan
from naslab.commands.diskspd.text import PERCENTILES, _runs
from naslab.results import Run

Golden = Callable[[str, str], None]
WRITE = "-d4 -s1M -w100 -t1 -o32 -b1M -Sr -L smb://nas.example/share/f.dat"
READ = "--compat 2.0.21 -d4 -s1M -r100 -t1 -o32 -b1M -Sr -L smb://nas.example/share/f.dat"
MIX = "-b64K -r4K -w30 -t2 -o8 -d4 -D500 -L -v -rdpct90/10:10/90 -g65536 -h f g"
PLAIN = "-b4K -si -t2 -d2 -B1M -f8M -w50 f"
SIZES = {"f.dat": 2_000_000_000, "f": 8 << 30, "g": 8 << 30}
MIB = 1 << 20


def made(line: str, skip: tuple[int, ...] = ()) -> tuple[Plan, Run, str]:
    """A plan, its run, and what is printed of it."""
    plan = planned(line, SIZES)
    run, figures = made_figures(plan, skip)
    return plan, run, output(plan, MACHINE, figures, list(plan.notes))


@pytest.mark.parametrize(
    ("name", "line"), [("write", WRITE), ("read_2_0_21", READ), ("mix", MIX), ("plain", PLAIN)]
)  # fmt: skip
def test_text_as_approved(golden: Golden, name: str, line: str) -> None:
    golden(f"diskspd/{name}.txt", made(line)[2])


@pytest.mark.parametrize(("name", "line"), [("write", f"-Rxml -D1000 {WRITE}"), ("mix", f"-Rxml {MIX}")])
def test_xml_as_approved(golden: Golden, name: str, line: str) -> None:
    golden(f"diskspd/{name}.xml", made(line)[2])


def check_table(span: TextSpan, cell: dict[str, Any]) -> None:
    """Tables and percentiles of one time span against the run document."""
    seconds = cell["duration_ns"] / 1e9
    assert span.seconds == pytest.approx(seconds, abs=0.005)
    for title, kinds in (("Total IO", ("read", "write")), ("Read IO", ("read",)), ("Write IO", ("write",))):
        table = span.tables[title]
        expected = [cell["kinds"].get(kind, {"ops": 0, "bytes": 0}) for kind in kinds]
        moved, ops = sum(kind["bytes"] for kind in expected), sum(kind["ops"] for kind in expected)
        assert int(table.total["bytes"]) == moved == sum(int(row["bytes"]) for row in table.rows)
        assert int(table.total["I/Os"]) == ops == sum(int(row["I/Os"]) for row in table.rows)
        assert float(table.total["MiB/s"]) == pytest.approx(moved / MIB / seconds, abs=0.005)
        assert float(table.total["I/O per s"]) == pytest.approx(ops / seconds, abs=0.005)
        assert len(table.rows) == cell["workers"]


@pytest.mark.parametrize("line", [WRITE, READ, MIX, PLAIN])
def test_text_reads_back_as_the_document(line: str) -> None:
    plan, run, text = made(line)
    (span,) = read_text(text)
    check_table(span, run.cells[plan.spans[0].cell])
    assert span.threads == plan.cells[-1].workers
    assert span.cpu == {"usage": 20.0, "user": 15.0, "kernel": 5.0, "idle": 80.0}
    assert [row["CPU"] for row in span.processor_rows] == [0, 1, 2, 3]
    assert [row.get("Core") for row in span.processor_rows] == ([None] * 4 if "--compat" in line else [0, 0, 1, 1])
    for row, known in zip(span.processor_rows, PROCESSORS, strict=True):
        assert (row["Usage"], row["User"], row["Kernel"], row["Idle"]) == (
            known.usage, known.user, known.kernel, known.idle
        )  # fmt: skip
    assert (span.processors == 4) == ("--compat" in line)
    columns = span.tables["Total IO"].columns
    assert columns[:5] == ["thread", "bytes", "I/Os", "MiB/s", "I/O per s"] and columns[-1] == "file"
    assert ("AvgLat" in columns and "LatStdDev" in columns) == ("-L" in line)
    assert ("IopsStdDev" in columns) == ("-D" in line)
    assert bool(span.percentiles) == ("-L" in line)


@pytest.mark.parametrize("line", [WRITE, READ, MIX])
def test_percentiles_are_those_of_the_histograms(line: str) -> None:
    plan, run, text = made(line)
    cell, percentiles = run.cells[plan.spans[0].cell], read_text(text)[0].percentiles
    for column, kind in enumerate(("read", "write")):
        if kind not in cell["kinds"]:
            assert {row[column] for row in percentiles.values()} == {"N/A"}
            continue
        exact, histogram = cell["kinds"][kind]["latency_ns"], run.histogram_of(cell, f"latency:{kind}")
        assert percentiles["min"][column] == f"{exact['min'] / 1e6:.3f}"
        assert percentiles["max"][column] == f"{exact['max'] / 1e6:.3f}"
        for share, name in PERCENTILES:
            value = min(float(histogram.quantiles((share,))[0]), exact["max"])
            assert percentiles[name][column] == f"{value / 1e6:.3f}"
    assert list(percentiles) == ["min", *(name for _, name in PERCENTILES), "max"]
    assert [name for _, name in PERCENTILES][-7:] == [f"{nines}-nines" for nines in range(3, 10)]


def test_means_and_deviations_are_pooled_over_threads() -> None:
    _plan, run, text = made(MIX)
    cell, table = run.cells[0], read_text(text)[0].tables["Total IO"]
    values, counts = zip(*(run.histogram(cell, f"latency:{kind}") for kind in ("read", "write")), strict=True)
    every, weights = np.concatenate(values), np.concatenate(counts)
    mean = np.average(every, weights=weights)
    deviation = math.sqrt(np.average((every - mean) ** 2, weights=weights))
    assert float(table.total["AvgLat"]) == pytest.approx(mean / 1e6, rel=2e-3)
    assert float(table.total["LatStdDev"]) == pytest.approx(deviation / 1e6, rel=2e-3)
    assert [row["thread"] for row in table.rows] == ["0", "1", "2", "3"]
    assert [row["file"] for row in table.rows] == ["f (8GiB)", "f (8GiB)", "g (8GiB)", "g (8GiB)"]
    parts = [Part(3, 30, 1.0, 0.5), Part(0), Part(1, 10, 5.0, 0.0)]
    assert together(parts) == Part(4, 40, 2.0, math.sqrt((3 * (0.25 + 1) + 9) / 4)) and together([]) == Part()


def test_iops_deviation_is_of_whole_intervals() -> None:
    _plan, run, text = made(f"-D500 {WRITE}")
    series = run.series(run.cells[0])["write_ops"][:8]
    assert len(run.series(run.cells[0])) == 9, "the last one is not whole"
    table = read_text(text)[0].tables["Write IO"]
    assert float(table.total["IopsStdDev"]) == pytest.approx(float(np.std(series)) * 2, abs=0.005)
    assert table.rows[0]["IopsStdDev"] == table.total["IopsStdDev"]
    for lacking_ns, intervals in ((5_000_000, 8), (5_000_001, 7), (499_999_999, 7), (500_000_000, 7)):
        plan = planned(f"-D500 {WRITE}", SIZES)
        short = made_run(plan)
        short.cells[0]["duration_ns"] -= lacking_ns
        assert len(figures_of(short, plan.spans[0], 4).counts["write"]) == intervals


def test_iops_deviation_of_threads() -> None:
    """Each kind's is the engine's; of reads and writes of one thread together there is none."""
    span = read_text(made(MIX)[2])[0]
    for name in ("Read IO", "Write IO"):
        assert [row["IopsStdDev"] for row in span.tables[name].rows] == ["100.00", "200.00", "300.00", "400.00"]
    assert {row["IopsStdDev"] for row in span.tables["Total IO"].rows} == {"N/A"}
    span = read_text(made("-D -d4 -t2 -T1M -L f")[2])[0]
    for name, found in (("Total IO", ["100.00", "200.00"]), ("Write IO", ["0.00"] * 2)):
        assert [row["IopsStdDev"] for row in span.tables[name].rows] == found
    xml = read_xml(made(f"-Rxml {MIX}")[2])
    assert [one.text for one in xml.findall("TimeSpan/Thread/Target/Iops/WriteIopsStdDev")] == [
        "100.000", "200.000", "300.000", "400.000",
    ]  # fmt: skip


def test_latencies_of_intervals_in_xml() -> None:
    """A third of each interval's operations in the bucket from 2^20 ns, the others in that from 2^23 ns."""
    mixed, pure = (
        read_xml(made(f"-Rxml {line}")[2]).findall("TimeSpan/Iops/Bucket") for line in (MIX, f"-D500 {WRITE}")
    )
    lowest, highest, floor = 2.0**20 / 1e6, 9.0, 2.0**23 / 1e6
    middles = [(lowest + 1.25 * lowest) / 2, (floor + highest) / 2]
    mean = (middles[0] + 2 * middles[1]) / 3
    for bucket in mixed:
        assert float(bucket.get("ReadMinLatencyMilliseconds", "")) == pytest.approx(lowest, abs=0.01)
        assert float(bucket.get("ReadMaxLatencyMilliseconds", "")) == pytest.approx(highest, abs=0.05)
        assert float(bucket.get("WriteAvgLatencyMilliseconds", "")) == pytest.approx(mean, abs=0.05)
        assert float(bucket.get("WriteLatencyStdDev", "")) == pytest.approx(
            (middles[1] - middles[0]) * math.sqrt(2) / 3, abs=0.05
        )  # fmt: skip
    assert {bucket.get("WriteMaxLatencyMilliseconds") for bucket in pure} == {"9.000"}
    assert {bucket.get("ReadAvgLatencyMilliseconds") for bucket in pure} == {"0.000"}
    assert [list(bucket.keys()) for bucket in mixed] == [BUCKET] * len(mixed) and len(mixed) == 8


def test_effective_distribution() -> None:
    """The example of DiskSpd's documentation on 100 KiB: ranges begin and end at whole blocks."""
    plan = planned("-b4K -r -rdpct10/10:10/10:0/10 -t3 -d1 f", {"f": 100 << 10})
    _, figures = made_figures(plan)
    assert (
        "\nEffective IO Distributions\n--------------------------\ntarget: f [thread: 0 - 2]\n"
        "    10% of IO => [     0    -      8KiB)\n    10% of IO => [     8KiB -     20KiB)\n"
        "    80% of IO => [    28KiB -    100KiB)\n\nTotal IO\n"
    ) in output(plan, MACHINE, figures, [])
    plan.profile.xml_output = True
    found = read_xml(output(plan, MACHINE, figures, [])).find("TimeSpan/Thread/Target/Distribution/Absolute")
    assert found is not None
    assert [(one.get("IO"), one.text) for one in found] == [
        ("10", "8192"), ("10", "12288"), ("0", "8192"), ("80", "73728"),
    ]  # fmt: skip
    assert [_runs(numbers) for numbers in ([0], [0, 1], [0, 1, 2], [0, 1, 2, 3, 5], [1, 3])] == [
        " 0", " 0 1", " 0 - 2", " 0 - 3 5", " 1 3",
    ]  # fmt: skip
    trimmed = planned("-b4K -r -rdabs40/64K:20/64K:40/64K -d1 f", {"f": 128 << 10})
    text = output(trimmed, MACHINE, made_figures(trimmed)[1], [])
    assert "    66.7% of IO => [     0    -     64KiB)\n    33.3% of IO => [    64KiB -    128KiB)\n" in text


def test_several_time_spans(tmp_path: Path) -> None:
    target = "<Targets><Target><Path>f</Path><WriteRatio>{}</WriteRatio></Target></Targets>"
    span = "<TimeSpan><Duration>{}</Duration>" + target + "</TimeSpan>"
    path = tmp_path / "p.xml"
    path.write_text(f"<Profile><TimeSpans>{span.format(2, 100)}{span.format(3, 0)}</TimeSpans></Profile>")
    _, run, text = made(f"-X{path}")
    spans = read_text(text)
    assert len(spans) == 2
    for found, cell in zip(spans, run.cells, strict=True):
        check_table(found, cell)
    sums = totals(text)
    assert int(sums["write"][0]) == run.cells[0]["bytes"] and int(sums["read"][0]) == run.cells[1]["bytes"]
    assert int(sums["total"][1]) == sum(cell["ops"] for cell in run.cells)
    assert "total test time:\t5.00s" in text and text.count("Results for timespan ") == 2
    cut = made(f"-X{path}", skip=(1,))[2]
    assert "The test was interrupted before the measurements began" in cut and "total test time:\t2.00s" in cut
    xml = read_xml(made(f"-Rxml -X{path}", skip=(1,))[2])
    assert [order(one)[0] for one in xml.findall("TimeSpan")] == ["TestTimeSeconds", "Error"]


def test_processors_of_several_sockets() -> None:
    """Columns before CPU are those of which there are several; without rows the average stands alone."""
    plan = planned("-d1 f", {"f": 1 << 20})
    run, figures = made_figures(plan)
    sockets = Machine("", "", tuple(Processor(n, n // 2, n // 2, n // 2) for n in range(4)))
    text = output(plan, sockets, figures, [])
    assert "\nSocket | Node | Core | CPU |  Usage |  User  | Kernel |  Idle\n" in text
    rows = read_text(text)[0].processor_rows
    assert [(row["Socket"], row["Node"], row["Core"], row["CPU"]) for row in rows] == [
        (0, 0, 0, 0), (0, 0, 0, 1), (1, 1, 1, 2), (1, 1, 1, 3),
    ]  # fmt: skip
    plain = read_text(output(plan, MACHINE, [figures_of(run, plan.spans[0], 4)], []))[0]
    assert plain.processor_rows == [] and plain.cpu == {"usage": 7.5, "user": 2.5, "kernel": 5.0, "idle": 92.5}


# XML

BUCKET = ["SampleMillisecond", "Read", "Write", "Total"] + [
    f"{kind}{name}" for kind in ("Read", "Write")
    for name in ("MinLatencyMilliseconds", "MaxLatencyMilliseconds", "AvgLatencyMilliseconds", "LatencyStdDev")
]  # fmt: skip
SPAN_ORDER = [
    "TestTimeSeconds", "ThreadCount", "RequestCount", "ProcCount", "CpuUtilization", "Latency", "Iops", "Thread",
]  # fmt: skip


def test_xml_has_diskspds_elements_in_its_order() -> None:
    root = read_xml(made(f"-Rxml -D500 {WRITE}")[2])
    assert order(root) == ["System", "Profile", "TimeSpan"]
    assert order(root.find("System")) == ["ComputerName", "Tool", "RunTime", "PowerScheme", "ProcessorTopology"]  # type: ignore[arg-type]
    span = root.find("TimeSpan")
    assert span is not None and order(span) == SPAN_ORDER
    assert order(span.find("CpuUtilization/Average")) == ["UsagePercent", "UserPercent", "KernelPercent", "IdlePercent"]  # type: ignore[arg-type]
    assert order(span.find("CpuUtilization")) == ["CPU", "Average"]  # type: ignore[arg-type]
    assert order(span.find("CpuUtilization/CPU")) == [  # type: ignore[arg-type]
        "Socket", "Node", "Group", "Core", "EfficiencyClass", "Id", "UsagePercent", "UserPercent", "KernelPercent",
        "IdlePercent",
    ]  # fmt: skip
    assert [one.text for one in span.findall("CpuUtilization/CPU/Core")] == ["0", "0", "1", "1"]
    assert order(span.find("Thread/Target")) == [  # type: ignore[arg-type]
        "Path", "BytesCount", "FileSize", "IOCount", "ReadBytes", "ReadCount", "WriteBytes", "WriteCount",
        "AverageWriteLatencyMilliseconds", "WriteLatencyStdev", "AverageLatencyMilliseconds", "LatencyStdev", "Iops",
    ]  # fmt: skip
    percents = [one.text for one in span.findall("Latency/Bucket/Percentile")]
    assert percents == ["0", *map(str, range(1, 100)), *(f"99.{'9' * n}" for n in range(1, 8)), "100"]


@pytest.mark.parametrize("line", [f"-Rxml -D500 {WRITE}", f"-Rxml {MIX}"])
def test_xml_reads_back_as_the_document(line: str) -> None:
    _plan, run, text = made(line)
    cell, span = run.cells[0], read_xml(text).find("TimeSpan")
    assert span is not None
    for name, kinds in (("Bytes", "bytes"), ("Count", "ops")):
        for kind in ("Read", "Write"):
            found = sum(int(one.text or "") for one in span.findall(f"Thread/Target/{kind}{name}"))
            assert found == cell["kinds"].get(kind.lower(), {"bytes": 0, "ops": 0})[kinds]
    series = run.series(cell)[: cell["duration_ns"] // cell["interval_ns"]]
    buckets = span.findall("Iops/Bucket")
    per_s = 1e9 / cell["interval_ns"]
    assert [int(one.get("Write", "")) for one in buckets] == [round(n * per_s) for n in series["write_ops"]]
    assert [int(one.get("SampleMillisecond", "")) for one in buckets] == [500 * (n + 1) for n in range(len(series))]
    for bucket in span.findall("Latency/Bucket"):
        share = float(bucket.findtext("Percentile", "")) / 100
        exact = cell["kinds"]["write"]["latency_ns"]
        value = {0.0: exact["min"], 1.0: exact["max"]}.get(share)
        value = min(float(run.quantiles(cell, (share,), "latency:write")[0]), exact["max"]) if value is None else value
        assert float(bucket.findtext("WriteMilliseconds", "")) == pytest.approx(value / 1e6, abs=0.0006)
    assert len(span.findall("Thread")) == cell["workers"]
    assert [one.text for one in span.findall("Thread/Id")] == [str(n) for n in range(cell["workers"])]


def test_xml_escapes_what_diskspd_does_not() -> None:
    plan = planned("-Rxml -d1 a&b<c>'.dat", {"a&b<c>'.dat": 1 << 20})
    _, figures = made_figures(plan)
    root = read_xml(output(plan, MACHINE, figures, ["a -- b"]))
    assert root.findtext("TimeSpan/Thread/Target/Path") == "a&b<c>'.dat"
    assert root.findtext("Profile/TimeSpans/TimeSpan/Targets/Target/Path") == "a&b<c>'.dat"


def test_notes_stand_in_the_output() -> None:
    _, _, text = made(READ)
    assert "19,989,515 positions" in text.split("System information:")[0]
    assert "-s1M is overridden by -r100" in text.split("System information:")[0]


def test_no_password_is_printed() -> None:
    plan = planned("-d1 -c1M smb://me:secret@nas/share/f.dat")
    _, figures = made_figures(plan)
    for xml in (False, True):
        plan.profile.xml_output = xml
        assert "secret" not in output(plan, MACHINE, figures, [])


def test_machine(tmp_path: Path) -> None:
    for number, (core, socket) in enumerate([(0, 0), (0, 0), (1, 0), (0, 1)]):
        folder = tmp_path / "cpu" / f"cpu{number}" / "topology"
        folder.mkdir(parents=True)
        (folder / "core_id").write_text(f"{core}\n")
        (folder / "physical_package_id").write_text(f"{socket}\n")
        (folder.parent / f"node{socket}").mkdir()
    run = made_run(planned("-d1 f", {"f": 1 << 20}))
    machine = machine_of(run.document, tmp_path)
    assert machine.name == "client.example" and machine.start == "2026/11/20 18:40:00 UTC"
    assert machine.cores == [(0, 0b11), (1, 0b100), (2, 0b1000)]
    assert machine.sockets == machine.nodes == [(0, 0b111), (1, 0b1000)]


def test_an_unmeasured_span_has_no_figures() -> None:
    plan = planned("-d1 f", {"f": 1 << 20})
    figures = figures_of(made_run(plan, skip=(0,)), plan.spans[0], 4)
    assert figures.seconds == 0 and figures.rows == [] and figures.iops_stddev("total") is None
