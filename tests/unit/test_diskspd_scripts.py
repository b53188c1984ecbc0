"""What scripts in the field take from DiskSpd's output, and what its schema of profiles allows: facts, in our words."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from diskspd_fixtures import MACHINE, made_figures, planned
from naslab.cli.diskspd import output
from naslab.commands.diskspd.args import parse
from naslab.commands.diskspd.profile_xml import profile_text

SIZES = {"f": 8 << 30, "g": 8 << 30, "f.dat": 2_000_000_000}
LINES = (
    "-d4 -s1M -w100 -t1 -o32 -b1M -Sr -L smb://nas.example/share/f.dat",
    "--compat 2.0.21 -d4 -s1M -r100 -t1 -o32 -b1M -Sr -L smb://nas.example/share/f.dat",
    "-b64K -r4K -w30 -t2 -o8 -d4 -D500 -L -h f g",
    "-d4 -F2 -O4 -r -Z1M -w50 -L f",
    "-d4 -i10 -j20 -t2 -si -w10 -L -Sm -o4 f",
)


def printed(line: str) -> str:
    plan = planned(line, SIZES, protocol="smb" if "smb:" in line else "local")
    return output(plan, MACHINE, made_figures(plan)[1], list(plan.notes))


# text


@pytest.mark.parametrize("line", LINES)
def test_the_command_is_the_second_line_and_the_first_total_that_of_all(line: str) -> None:
    """`grep total -m1`, then columns by `|`: bytes, operations, MiB/s, operations per second, mean latency."""
    text = printed(line)
    assert text.split("\n")[0] == "" and text.split("\n")[1].startswith("Command Line: ")
    first = next(one for one in text.split("\n")[2:] if "total" in one)
    cells = [cell.strip() for cell in first.split("|")]
    assert re.fullmatch(r"total: +[0-9]+", cells[0])
    moved, ops = int(cells[0].removeprefix("total:")), int(cells[1])
    assert moved == ops * parse(line.split()).profile.spans[0].targets[0].block_bytes > 0
    assert float(cells[2]) == pytest.approx(moved / 4 / (1 << 20), abs=0.006)
    assert float(cells[3]) == pytest.approx(ops / 4, abs=0.006) and 1 < float(cells[4]) < 9


@pytest.mark.parametrize("line", LINES)
def test_sections_between_blank_lines(line: str) -> None:
    """Lines of dashes dropped, parts between blank lines: a title, a heading, and rows with its columns below."""
    kept = "\n".join(one for one in printed(line).split("\n") if not re.search("--", one))
    parts = [part.strip("\n").split("\n") for part in re.split(r"\n\s*\n", kept)]
    found = {part[0].strip(): part[1:] for part in parts}
    for title in ("Total IO", "Read IO", "Write IO"):
        head, *rows = found[title]
        assert [row.split("|")[0].split()[0] for row in rows][-1] == "total:"
        assert {row.count("|") for row in rows[:-1]} == {head.count("|")}
        assert rows[-1].count("|") == head.count("|") - 2, "neither a thread nor a file"
    chart = found["total:" if "--compat" in line else "Total latency distribution:"]
    assert len(chart) == 16 and {row.count("|") for row in chart} == {3}
    (cpu,) = [part for part in parts if re.search(r"\bCPU\s*\|\s*Usage\s*\|\s*User\s*\|\s*Kernel\s*\|\s*Idle", part[0])]
    at = [cell.strip() for cell in cpu[0].split("|")].index("CPU")
    assert [row.split("|")[at].strip() for row in cpu[1:-1]] == ["0", "1", "2", "3"]
    assert cpu[-1].strip().startswith("avg.|") and len(re.findall("[0-9.]+%", cpu[-1])) == 4


# XML


@pytest.mark.parametrize("line", LINES)
def test_xml_by_path_and_by_place(line: str) -> None:
    """Percentiles by place in the list or by name, sums over Thread/Target, the busiest processor."""
    text = printed(f"-Rxml {line}")
    assert text.startswith("<Results>\n"), "scripts look at the first line"
    span = ElementTree.fromstring(text).find("TimeSpan")
    assert span is not None
    buckets = span.findall("Latency/Bucket")
    assert [buckets[at].findtext("Percentile") for at in (50, 90, 99)] == ["50", "90", "99"]
    names = {bucket.findtext("Percentile") for bucket in buckets}
    assert names >= {"25", "50", "75", "90", "95", "99", "99.9", "99.99", "99.999", "100"}
    for target in span.findall("Thread/Target"):
        leaves = [one for one in target if len(one) == 0 and one.tag not in ("Path", "FileSize")]
        assert leaves and all(float(one.text or "") >= 0 for one in leaves), "each but the path is a number"
    assert max(float(one.text or "") for one in span.findall("CpuUtilization/CPU/UsagePercent")) == 35.0
    for name in ("UsagePercent", "UserPercent", "KernelPercent", "IdlePercent"):
        assert 0 <= float(span.findtext(f"CpuUtilization/Average/{name}", "")) <= 100


# the schema of profiles: what may stand in which element, with what in it

TRUTH, UINT, LONG, PERCENT, TEXT = "true|false", "[0-9]{1,10}", "[0-9]{1,20}", "100|[0-9]{1,2}", "(?s).+"
PROFILE = {"Progress": UINT, "ResultFormat": "text|xml", "Verbose": TRUTH, "TimeSpans": "*"}
SPAN = {
    "CompletionRoutines": TRUTH, "MeasureLatency": TRUTH, "CalculateIopsStdDev": TRUTH, "DisableAffinity": TRUTH,
    "Duration": UINT, "Warmup": UINT, "Cooldown": UINT, "ThreadCount": UINT, "RequestCount": UINT,
    "IoBucketDuration": UINT, "RandSeed": UINT, "RandomWriteData": TRUTH, "Affinity": "*", "Targets": "*",
}  # fmt: skip
TARGET = {
    "Path": TEXT, "BlockSize": UINT, "BaseFileOffset": LONG, "SequentialScan": TRUTH, "RandomAccess": TRUTH,
    "TemporaryFile": TRUTH, "UseLargePages": TRUTH, "DisableLocalCache": TRUTH, "DisableOSCache": TRUTH,
    "WriteThrough": TRUTH, "MemoryMappedIo": TRUTH, "FlushType": "ViewOfFile|NonVolatileMemory(NoDrain)?",
    "WriteBufferContent": "*", "ParallelAsyncIO": TRUTH, "BurstSize": UINT, "ThinkTime": UINT, "FileSize": LONG,
    "Random": LONG, "RandomRatio": "[1-9][0-9]?", "Distribution": "*", "StrideSize": LONG,
    "InterlockedSequential": TRUTH, "ThreadStride": LONG, "MaxFileSize": LONG, "RequestCount": UINT,
    "WriteRatio": PERCENT, "Throughput": UINT, "ThreadsPerFile": UINT, "IOPriority": "[1-3]", "Weight": UINT,
}  # fmt: skip
INNER = {
    "TimeSpans": {"TimeSpan": "*"}, "Targets": {"Target": "*"}, "TimeSpan": SPAN, "Target": TARGET, "Profile": PROFILE,
    "Affinity": {"AffinityGroupAssignment": ""}, "WriteBufferContent": {
        "Pattern": "sequential|zero|random", "RandomDataSource": "*",
    },
    "RandomDataSource": {"SizeInBytes": LONG, "FilePath": TEXT}, "Distribution": {"Percent": "*", "Absolute": "*"},
    "Percent": {"Range": PERCENT}, "Absolute": {"Range": LONG},
}  # fmt: skip
REPEATED = ("TimeSpan", "Target", "AffinityGroupAssignment", "Range")
ATTRIBUTES = {"Throughput": {"unit"}, "Range": {"IO"}, "AffinityGroupAssignment": {"Group", "Processor"}}


def check_element(element: ElementTree.Element) -> None:
    """Names, order and contents of what is in an element, as the tables above have them."""
    allowed = INNER[element.tag]
    names = [child.tag for child in element]
    once = [name for name in names if name not in REPEATED]
    assert len(once) == len(set(once)) and list(dict.fromkeys(names)) == [n for n in allowed if n in names], names
    for child in element:
        assert set(child.keys()) <= ATTRIBUTES.get(child.tag, set()), child.attrib
        if allowed[child.tag] == "*":
            assert not (child.text or "").strip() and len(child), child.tag
            check_element(child)
        else:
            assert re.fullmatch(allowed[child.tag], child.text or "") and not len(child), (child.tag, child.text)


@pytest.mark.parametrize(
    "line",
    [
        "f", "-r -w30 -L -D100 -t4 -o8 -c1G -Sh f g", "-rs50 -w30 f", "-r -rdpct90/10:10/90 f",
        "-r -rdabs90/1G:5/2G f", "-si -t2 -Zr f", "-Z -Sw f", "-Z1M f", "-Z1M,src f", "-Sm -Nv -w100 f", "-Sm -Ni f",
        "-Sr f", "-g100i f", "-g100 f", "-i10 -j5 f", "-F2 -O4 f", "-a0,1 f", "-ag0,0,1 -x f", "-n -I1 -l -p f",
        "-frs -B1M:8M -T64K -t2 f", "-z -v -P100 -W0 -C3 -s0 a&b<c>.dat *1",
    ],
)  # fmt: skip
def test_profiles_are_as_the_schema_wants_them(line: str) -> None:
    """Alone, and within results with remarks of naslab's."""
    profile = parse(["-Rpxml", *line.split()]).profile
    root = ElementTree.fromstring(profile_text(profile))
    assert root.tag == "Profile"
    check_element(root)
    paths = [one.text for one in root.iter("Path")]
    assert paths == [target.path for target in profile.spans[0].targets]


@pytest.mark.parametrize("line", LINES)
def test_profiles_in_results_are_too(line: str) -> None:
    root = ElementTree.fromstring(printed(f"-Rxml {line}")).find("Profile")
    assert root is not None and [one.tag for one in root][-1] == "TimeSpans"
    check_element(root)
