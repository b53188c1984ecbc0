"""Traces of real applications: recorded, converted from other tools, read, described.

    trace = Trace(Path("app.trace.zst"))
    trace.header.source
    for operation in trace: ...
    trace.end.skipped

The format is docs/reference/trace.md.
"""

from __future__ import annotations

from naslab.trace.fileset import FileFacts, FileSet, files_of
from naslab.trace.format import End, Header, Operation
from naslab.trace.names import Anonymiser
from naslab.trace.reader import Trace, read_trace
from naslab.trace.writer import TraceWriter

__all__ = [
    "Anonymiser", "End", "FileFacts", "FileSet", "Header", "Operation", "Trace", "TraceWriter", "files_of",
    "read_trace",
]  # fmt: skip
