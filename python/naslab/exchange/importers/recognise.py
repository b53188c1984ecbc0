"""Which format a file has, by its contents; what else it looks like where it is none of ours."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from naslab.errors import ForeignFileError
from naslab.exchange.importers.base import Input
from naslab.exchange.importers.fio_log import LINE as FIO_LOG_LINE
from naslab.exchange.importers.fio_log import NAME as FIO_LOG_NAME

if TYPE_CHECKING:
    pass

HEAD_BYTES = 1 << 16


@dataclass(frozen=True)
class Format:
    """name: as `source.format` begins. title: for people. module: of this package, with `parse`."""

    name: str
    title: str
    module: str
    is_it: Callable[[Input, str], bool]


def _has(*words: str) -> Callable[[Input, str], bool]:
    return lambda _source, head: any(word in head for word in words)


def _is_iozone(_source: Input, head: str) -> bool:
    if "Children see throughput for" in head or re.search(r"\b[kK]B {1,8}reclen {1,8}write\b", head):
        return True
    return bool(re.search(r'"(?:Writer|Reader|Random read|Backward read|Fwrite|Stride read) report', head))


def _is_elbencho(_source: Input, head: str) -> bool:
    from naslab.exchange.importers.elbencho import HEADING

    first = head.split("\n", 1)[0]
    if first.lstrip().startswith("{"):
        return '"phase_type"' in head and '"last_done"' in head
    return all(word in first for word in HEADING)


def _is_naspt(_source: Input, head: str) -> bool:
    return bool(re.search(r"^[ \t]*\"?(HDVideo_\dPlay|ContentCreation|FileCopyToNAS|PhotoAlbum)\"?\s*[,;]", head, re.M))


def _is_fio(_source: Input, head: str) -> bool:
    return '"fio version"' in head


def _is_fio_log(source: Input, _head: str) -> bool:
    first = source.data.split(b"\n", 1)[0][:200]
    return bool(FIO_LOG_LINE.match(first) or (FIO_LOG_NAME.match(source.name) and not source.data.strip()))


def _is_sheet(source: Input, _head: str) -> bool:
    from naslab.exchange.importers.iozone_sheet import BIFF2_START, OLE2_START
    from naslab.exchange.importers.workbook import sheet_names

    return source.data.startswith((BIFF2_START, OLE2_START)) or bool(sheet_names(source))


def _is_table(source: Input, head: str) -> bool:
    from naslab.exchange.importers.naslab_table import SHEET, heads
    from naslab.exchange.importers.workbook import sheet_names

    if names := sheet_names(source):
        return {"runs", SHEET} <= set(names)
    return heads(re.split("[,;]", head.split("\n", 1)[0]))


FORMATS = (
    Format("naslab-agent", "lines of naslab-agent (.jsonl)", "agent_lines",
           lambda _s, head: head.startswith('{"event":"begin"')),
    Format("naslab-json", "a run that naslab exported (.json)", "naslab_json",
           lambda _s, head: '"run_id"' in head and '"schema"' in head),
    Format("naslab-table", "cells that naslab exported (.csv, .xlsx)", "naslab_table", _is_table),
    Format("fio-json", "fio JSON and json+ (--output-format=json)", "fio_json", _is_fio),
    Format("fio-log", "fio logs (NAME_bw.1.log, _iops, _lat)", "fio_log", _is_fio_log),
    Format("diskspd-xml", "DiskSpd XML (-Rxml)", "diskspd_xml",
           lambda _s, head: "<Results>" in head and ("<TimeSpan" in head or "<System>" in head)),
    Format("diskspd-text", "DiskSpd text", "diskspd_text",
           _has("Results for timespan", "Results for job ", "Input parameters:\n")),
    Format("crystaldiskmark-text", "CrystalDiskMark text", "crystaldiskmark",
           _has("CrystalDiskMark ", "KDiskMark", "AmorphousDiskMark ")),
    Format("elbencho-csv", "elbencho CSV and JSON (--csvfile, --jsonfile)", "elbencho", _is_elbencho),
    Format("naspt-csv", "NASPT NASPerf-APP.csv", "naspt", _is_naspt),
    Format("iozone-text", "IOzone standard output and -R text", "iozone_text", _is_iozone),
    Format("iozone-biff", "IOzone -b spreadsheet (.xls, .xlsx)", "iozone_sheet", _is_sheet),
)  # fmt: skip
"""In the order they are tried: the more telling marks first."""

_MAGICS: tuple[tuple[bytes, str], ...] = (
    (b"\xd4\xc3\xb2\xa1", "a pcap (packet capture)"), (b"\xa1\xb2\xc3\xd4", "a pcap (packet capture)"),
    (b"\x4d\x3c\xb2\xa1", "a pcap (packet capture)"), (b"\xa1\xb2\x3c\x4d", "a pcap (packet capture)"),
    (b"\x0a\x0d\x0d\x0a", "a pcapng (packet capture)"), (b"PK\x03\x04", "a zip file, a damaged .xlsx or a .docx"),
    (b"\x1f\x8b", "a gzip file; unpack it first"), (b"\xfd7zXZ", "an xz file; unpack it first"),
    (b"\x28\xb5\x2f\xfd", "a zstd file; unpack it first"), (b"BZh", "a bzip2 file; unpack it first"),
    (b"\x7fELF", "a program"), (b"MZ", "a Windows program"), (b"%PDF", "a PDF"), (b"\x89PNG", "a picture"),
    (b"\xff\xd8\xff", "a picture"), (b"GIF8", "a picture"), (b"SQLite format 3", "an SQLite database"),
    (b"PAR1", "a Parquet file"), (b"\x30\x26\xb2\x75", "a video or sound file"), (b"7z\xbc\xaf", "a 7-Zip file"),
)  # fmt: skip
_TEXTS: tuple[tuple[str, str], ...] = (
    (r"<!doctype html|<html", "a web page"), (r"^#!.{0,80}$", "a script"),
    (r"^\w[\w-]*: \(g=\d+\): rw=", "fio's normal output; run it with --output-format=json"),
    (r"^(?:3|5);fio-", "fio's terse output; run it with --output-format=json"),
    (r"\A\s*[{\[]\s*[\"{\[\]}]", "JSON, but not from a known benchmark"), (r"^<\?xml|^<\w", "XML, but not DiskSpd's"),
    (r"^\[(?:global|[\w-]+)\]\s*$", "a job file or settings, not results"),
    (r"^(?:\d+ +)?(?:\d\d:\d\d:\d\d\S* )?\w+\(.{0,300}\) += ", "a strace log; naslab trace convert reads it"),
    (r"\Arun_id[,;]cell[,;]t_s", "a series that naslab exported; import the run's .json, which contains it, too"),
    (r"^iperf|bits/sec", "iperf's output"),
    (r"^[^\s,;]+(?:[,;\t][^\s,;]*){3,}[ \r]*$", "a table, but not from a known benchmark"),
)  # fmt: skip


def format_of(source: Input) -> Format:
    """The format of a file. Raises ForeignFileError, which says what it looks like and which formats are known."""
    if not source.data.strip():
        if FIO_LOG_NAME.match(source.name):
            return next(each for each in FORMATS if each.name == "fio-log")
        raise ForeignFileError(f"{source.name} is empty")
    head = source.text[:HEAD_BYTES].replace("\r\n", "\n")
    for each in FORMATS:
        if each.is_it(source, head):
            return each
    what, _, hint = _looks_like(source, head).partition("; ")
    tail = f" to import; {hint}" if hint else ""
    raise ForeignFileError(f"{source.name}: this looks like {what}, not a benchmark's output{tail}; {known()}")


def known() -> str:
    """The formats for people, in a line."""
    return "known formats: " + ", ".join(each.title for each in FORMATS)


def _looks_like(source: Input, head: str) -> str:
    for magic, words in _MAGICS:
        if source.data.startswith(magic):
            return words
    if b"\0" in source.data[:4096] and not source.data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "binary data"
    for pattern, words in _TEXTS:
        if re.search(pattern, head[:4096], re.MULTILINE | re.IGNORECASE):
            return words
    return "other text"


def parser(found: Format) -> Callable[[Any], Any]:
    """The format's `parse`, loaded now: a draft, or a list of drafts or runs."""
    module = importlib.import_module(f"naslab.exchange.importers.{found.module}")
    return cast("Callable[[Any], Any]", module.parse)
