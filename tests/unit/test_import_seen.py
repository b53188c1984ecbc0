"""Details of other tools' formats as they were seen in their sources and in files people published.

No published file is copied: the lines here have the layout, and numbers of our own.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema
import pytest

from naslab.exchange.importers import crystaldiskmark, diskspd_xml, elbencho
from naslab.exchange.importers.base import Input
from naslab.exchange.importers.build import read_file
from naslab.exchange.importers.recognise import format_of
from naslab.results import Run, schema

SAMPLES = Path(__file__).parent.parent / "samples"
DISKSPD = Path(__file__).parent.parent / "golden" / "diskspd"
KIB, MIB = 1024, 1 << 20


def one(name: str) -> Run:
    (run,) = read_file(SAMPLES / name)
    jsonschema.validate(run.document, schema.json_schema(strict=True))
    return run


CRYSTAL_2 = """--------------------------------------------------
CrystalDiskMark 2.2 (C) 2007-2008 hiyohiyo
      Crystal Dew World : http://crystalmark.info/
--------------------------------------------------

   Sequential Read :   46.500 MB/s
  Sequential Write :   44.250 MB/s
 Random Read 512KB :   26.375 MB/s
   Random Read 4KB :    0.500 MB/s

         Test Size : 100 MB
              Date : 2009/02/15 20:39:27
"""
"""Of CDiskMarkDlg::OnEditCopy of 2.x: no queue depths, `Test Size`."""
CRYSTAL_5 = """-----------------------------------------------------------------------
CrystalDiskMark 5.2.0 x64 (C) 2007-2016 hiyohiyo
                           Crystal Dew World : http://crystalmark.info/
-----------------------------------------------------------------------
* MB/s = 1,000,000 bytes/s [SATA/600 = 600,000,000 bytes/s]
* KB = 1000 bytes, KiB = 1024 bytes

   Sequential Read (Q= 32,T= 1) :   140.500 MB/s
  Random Read 4KiB (Q= 32,T= 1) :    33.750 MB/s [  8239.7 IOPS]
         Sequential Read (T= 1) :   156.000 MB/s
        Sequential Write (T= 2) :    96.000 MB/s
  Random Write 4KiB (Q= 1,T= 1) :    15.250 MB/s [  3723.1 IOPS]

  Test : 1024 MiB [E: 0.4% (26.4/7167.0 MiB)] (x5)  [Interval=5 sec]
  Date : 2016/11/15 9:52:26
    OS : Windows 10 Professional [10.0 Build 14393] (x64)
"""
"""Texts of 5.1.0 and 5.2.0 that people published: threads alone for the tests of depth 1."""
AMORPHOUS_4 = """---------------------------------------------------------------------
AmorphousDiskMark 4.0.1 (C) 2016-2023 Katsura Shareware
---------------------------------------------------------------------

  Sequential Read 1MiB (QD=  32) :    471.00 MB/s [    449.2 IOPS]
      Random Write 4KiB (QD=1) :     40.96 MB/s [  10000.0 IOPS]

    Test : 1 GiB (x5) [Interval=5 sec]
    Date : 2019-10-15T04:09:09Z
"""
"""Of its scoreString."""


KDISKMARK_3 = """                      KDiskMark (3.2.0): https://github.com/JonMagon/KDiskMark
                    Flexible I/O Tester (fio-3.36): https://github.com/axboe/fio
--------------------------------------------------------------------------------
* MB/s = 1,000,000 bytes/s [SATA/600 = 600,000,000 bytes/s]
* KB = 1000 bytes, KiB = 1024 bytes

[Read]
Sequential   1 MiB (Q=  8, T= 1):   471.859 MB/s [    450.0 IOPS] < 17777.50 us>
    Random   4 KiB (Q= 32, T= 1):    40.960 MB/s [  10000.0 IOPS] <  3190.25 us>

[Mix] Read 70%/Write 30%
Sequential   1 MiB (Q=  8, T= 1):   104.858 MB/s [    100.0 IOPS] < 79101.20 us>

Profile: Default [+Mix]
   Test: 512 MiB (x5) [Measure: 5 sec / Interval: 5 sec]
   Date: 2024-01-02 03:04:05
     OS: debian 12 [linux 6.1.0-18-amd64]
 Target: /mnt/nas (12.50% 1/8 GiB)
"""
"""Of MainWindow::getTextBenchmarkResult of 3.2: a blank before the unit, the target at the end."""


def crystal(text: str) -> tuple[Any, list[tuple[Any, ...]]]:
    source = Input("cdm.txt", text.encode())
    assert format_of(source).module == "crystaldiskmark"
    draft = crystaldiskmark.parse(source)
    fields = ("op", "record_bytes", "queue_depth", "workers", "throughput_bytes_per_s")
    return draft, [tuple(cell[name] for name in fields) for cell in draft.cells]


def test_crystaldiskmark_2() -> None:
    draft, cells = crystal(CRYSTAL_2)
    assert cells == [
        ("read", None, 1, 1, 46.5e6), ("write", None, 1, 1, 44.25e6), ("random_read", 512 * KIB, 1, 1, 26.375e6),
        ("random_read", 4 * KIB, 1, 1, 0.5e6),
    ]  # fmt: skip
    assert {cell["file_bytes"] for cell in draft.cells} == {100 * MIB}
    assert draft.tool_version == "2.2"


def test_crystaldiskmark_5_leaves_depth_1_out() -> None:
    draft, cells = crystal(CRYSTAL_5)
    assert cells == [
        ("read", None, 32, 1, 140.5e6), ("random_read", 4 * KIB, 32, 1, 33.75e6), ("read", None, 1, 1, 156e6),
        ("write", None, 1, 2, 96e6), ("random_write", 4 * KIB, 1, 1, 15.25e6),
    ]  # fmt: skip
    assert draft.cells[1]["iops"] == 8239.7


def test_amorphousdiskmark_is_read_and_named() -> None:
    draft, cells = crystal(AMORPHOUS_4)
    assert cells == [("read", MIB, 32, 1, 471e6), ("random_write", 4 * KIB, 1, 1, 40.96e6)]
    assert (draft.tool_version, draft.start_wall_ns) == ("AmorphousDiskMark 4.0.1", 1571112549 * 10**9)


def test_kdiskmark_tells_its_target() -> None:
    draft, cells = crystal(KDISKMARK_3)
    assert cells == [
        ("read", MIB, 8, 1, 471.859e6), ("random_read", 4 * KIB, 32, 1, 40.96e6), ("mixed", MIB, 8, 1, 104.858e6),
    ]  # fmt: skip
    assert draft.cells[1]["latency_ns"]["mean"] == 3_190_250 and draft.cells[2]["write_fraction"] == 0.3
    assert (draft.tool_version, draft.target) == ("KDiskMark 3.2.0", "/mnt/nas (12.50% 1/8 GiB)")
    assert {cell["file_bytes"] for cell in draft.cells} == {512 * MIB} and draft.start_wall_ns == 1704164645 * 10**9


def test_elbencho_json_has_bytes_and_the_mix_as_it_was() -> None:
    """Statistics::printPhaseResultsAsJSON of 3.1: an object a line, all numbers as text, reads of a mix inside."""
    run = one("elbencho.json")
    folders, mix = run.cells
    assert (folders["op"], folders["iops"], folders["ops"], folders["latency_ns"]["max"]) == ("mkdir", 1800, 4, 900_000)
    assert mix["throughput_bytes_per_s"] == 31500001 + 73400321
    assert (mix["iops"], mix["write_fraction"]) == (100, 0.3)
    assert mix["latency_ns"]["mean"] == (30 * 12000 + 70 * 2000) / 100 * 1000
    assert (mix["latency_ns"]["min"], mix["latency_ns"]["max"]) == (200_000, 50_000_000)
    assert (mix["direct"], mix["pattern"], mix["record_bytes"], mix["queue_depth"]) == (True, "random", MIB, 2)
    assert mix["start_wall_ns"] - folders["start_wall_ns"] == 4_750_000_000
    source = run.document["source"]
    assert source is not None
    assert (source["format"], source["tool_version"], source["title"]) == ("elbencho-json", "3.1-9", "night")


def test_elbencho_json_that_is_cut_off_keeps_what_is_whole() -> None:
    data = (SAMPLES / "elbencho.json").read_bytes()
    draft = elbencho.parse(Input("e.json", data[:-200]))
    assert [cell["op"] for cell in draft.cells] == ["mkdir"]
    assert draft.warnings == [("cut_off", "the file is damaged from line 2 on; the part before it is imported")]


ELBENCHO = """ISO date,label,hosts,threads,file size,block size,random,IO depth,operation,time ms [last],\
IOPS [last],MiB/s [last],rwmix read IOPS [last],rwmix read MiB/s [last],IO lat us [avg],rwmix read IO lat us [avg],\
version
2025-01-01T00:00:10.000+0000,,1,2,4096,4096,1,1,{0},10000,100,0,300,1,4000,1000,{1}
"""
"""A part of the columns of Statistics::printPhaseResultsToStringVec."""


@pytest.mark.parametrize(("phase", "share"), [("RWMIX75", 0.25), ("RWMIX50", 0.25), ("MIX-T3", 0.25)])
def test_elbencho_csv_of_a_mix(phase: str, share: float) -> None:
    """Of --rwmixpct and --rwmixthr: the share is what was done, the latency that of both."""
    (cell,) = elbencho.parse(Input("e.csv", ELBENCHO.format(phase, "3.0-26").encode())).cells
    assert (cell["op"], cell["iops"], cell["write_fraction"]) == ("mixed", 400, share)
    assert cell["latency_ns"]["mean"] == 1_750_000


@pytest.mark.parametrize(("version", "began_s"), [("2.0-3", 0), ("3.0-26", 0), ("3.0-27", 10), ("3.1-9", 10)])
def test_elbencho_dates_are_of_the_end_before_3_0_27(version: str, began_s: int) -> None:
    """By its CHANGELOG.md."""
    (cell,) = elbencho.parse(Input("e.csv", ELBENCHO.format("READ", version).encode())).cells
    assert cell["start_wall_ns"] == (1735689600 + began_s) * 10**9


def test_diskspd_for_linux() -> None:
    """result_formatter.cc: parameters before each job's results; MB/s are MiB/s; totals of threads count twice."""
    mix, read = one("diskspd_linux.txt").cells
    assert (mix["op"], mix["bytes"], mix["ops"], mix["workers"]) == ("mixed", 327680000, 40000, 2)
    assert (mix["record_bytes"], mix["queue_depth"], mix["file_bytes"]) == (8192, 4, 64 * MIB)
    assert (mix["direct"], mix["durability"], mix["write_fraction"]) == (True, "each", 0.25)
    assert mix["throughput_bytes_per_s"] == 327680000 / 10
    assert mix["kinds"]["write"]["latency_ns"]["p99"] == 6_000_000
    assert (mix["latency_ns"]["mean"], mix["latency_ns"]["max"]) == (2_000_000, 14_250_000)
    assert mix["latency_ns"]["p99"] is None
    assert (read["op"], read["pattern"], read["direct"], read["durability"]) == ("read", "sequential", False, "none")
    assert (read["queue_depth"], read["duration_ns"]) == (1, 5_000_000_000)
    assert read["latency_ns"]["p99"] == 2_000_000  # of the reads: there is nothing else


def test_diskspd_xml_with_something_behind_it() -> None:
    """CrystalDiskMark's own DiskSpd prints a score behind the XML."""
    data = (DISKSPD / "write.xml").read_bytes()
    whole, more = (diskspd_xml.parse(Input("x.xml", each)) for each in (data, data + b"\r\nScore: 0\r\n"))
    assert whole.cells == more.cells


@pytest.mark.parametrize("name", ["iozone_auto", "iozone_counts"])
def test_iozone_spreadsheet_saved_as_xlsx(name: str) -> None:
    """The .xlsx were saved by LibreOffice 7.4 from IOzone's .xls."""
    old, new = one(f"{name}.xls"), one(f"{name}.xlsx")
    source = new.document["source"]
    assert source is not None and source["format"] == "iozone-xlsx" and "-R -b" in str(source["command_line"])
    assert [{**cell, "start_wall_ns": 0} for cell in old.cells] == [{**cell, "start_wall_ns": 0} for cell in new.cells]
