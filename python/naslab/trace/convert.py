"""Conversion of what other tools recorded: which tool it was, and the trace."""

from __future__ import annotations

import gzip
import os
import re
import zlib
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import zstandard

from naslab.errors import TraceError, UsageError
from naslab.trace.dbench import convert_dbench
from naslab.trace.fio import convert_fio
from naslab.trace.format import Header, Source
from naslab.trace.lines import lines_of, open_stream
from naslab.trace.names import Anonymiser, name_text
from naslab.trace.pcap import MAGICS, convert_pcap
from naslab.trace.strace import convert_strace
from naslab.trace.writer import TraceWriter

KINDS = ("strace", "fio", "dbench", "pcap")
_LOOKS = (
    ("fio", re.compile(rb"fio version \d+ iolog")),
    (
        "strace",
        re.compile(rb"(\[pid +\d+\] +|\d+ +)?(\d\d:\d\d:\d\d\S* |\d+\.\d+ )? *[a-z_]\w*\(.*(= |<unfinished)"),
    ),
    ("dbench", re.compile(rb"(\d+(\.\d+)? +)?[A-Z][A-Za-z_]+3? +(\"?[\\/]|\d)|#")),
)
_GZIP = b"\x1f\x8b"
_LOOKED_AT = 4096
"""Bytes of a line that are enough to know whose it is."""
_EPOCH = re.compile(rb"(?:\[pid +\d+\] +|\d+ +)?(\d{9,11}\.\d+) ")


def convert(
    source: Path, output: Path, kind: str, root: Path | None, cwd: Path | None, anonymise: Anonymiser | None = None
) -> dict[str, Any]:
    """Writes `output`; operations, skipped and notes of the trace. kind: of KINDS, "" to guess from the first line.

    Raises UsageError for options that do not fit, TraceError for what cannot be converted; nothing is written then.
    """
    kind = _kind(source, kind)
    if kind == "strace" and root is None:
        raise UsageError("--root is needed for strace's text: the folder of the traced files")
    if kind in ("dbench", "pcap") and root is not None:
        whose = "dbench's names" if kind == "dbench" else "names in captures"
        raise UsageError(f"--root {root}: {whose} have no folder of this machine; leave it out")
    if kind != "strace" and cwd is not None:
        raise UsageError(f"--cwd {cwd}: only strace's text has relative names; leave it out")
    if kind == "pcap":
        return _told(convert_pcap(source, output, anonymise))
    folder = None if root is None else os.fsencode(root.absolute())
    header = Header(
        source=cast(Source, kind), started_at=_started(source) if kind == "strace" else None,
        root=None if folder is None else name_text(folder),
    )  # fmt: skip
    with TraceWriter(output, header, anonymise) as writer:
        if kind == "strace":
            assert folder is not None
            convert_strace(source, writer, folder, folder if cwd is None else os.fsencode(cwd.absolute()))
        elif kind == "fio":
            convert_fio(source, writer, folder)
        else:
            convert_dbench(source, writer)
    return _told(writer)


def _told(writer: TraceWriter) -> dict[str, Any]:
    return {"operations": writer.operations, "skipped": dict(writer.skipped), "notes": writer.notes}


def _kind(source: Path, kind: str) -> str:
    if kind and kind not in KINDS:
        raise UsageError(f"--from {kind!r}: use strace, fio, dbench or pcap")
    if kind:
        return kind
    if _begins(source) in MAGICS:
        return "pcap"
    for number, line in lines_of(source):
        for name, look in _LOOKS:
            if look.match(line[:_LOOKED_AT].lstrip()):
                return name
        if number >= 20:
            break
    raise TraceError(f"{source}: unknown format; name it with --from (strace, fio, dbench, pcap)")


def _begins(source: Path) -> bytes:
    """The first four bytes, of what is packed where it is compressed; empty where they cannot be read."""
    with suppress(OSError, EOFError, zlib.error), source.open("rb") as stream:
        if stream.read(2) == _GZIP:
            with gzip.open(source) as packed:
                return packed.read(4)
    with suppress(TraceError, OSError, zstandard.ZstdError), open_stream(source) as stream:
        return stream.read(4)
    return b""


def _started(source: Path) -> str | None:
    """When strace -ttt says it began."""
    for _, line in lines_of(source):
        found = _EPOCH.match(line[:_LOOKED_AT].lstrip())
        if found is None:
            return None
        return datetime.fromtimestamp(float(found[1]), UTC).isoformat(timespec="milliseconds")
    return None
