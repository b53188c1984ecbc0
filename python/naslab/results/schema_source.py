"""The part of the run document that says a run was not measured by naslab, and which fields may then be null."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from naslab.results.fields import Field
from naslab.results.fields import field as _f

TOOLS = ("iozone", "diskspd", "fio", "naspt", "elbencho", "crystaldiskmark")
"""Tools whose output is read; published results may name others."""

SOURCE = (
    _f("kind", "string", "imported: read from a file; published: from an article", enum=("imported", "published")),
    _f("tool", "string", f"what measured: {', '.join(TOOLS)}, or another"),
    _f("tool_version", "string?", "its version; null: not reported"),
    _f("format", "string", "what was read, e.g. iozone-text, iozone-biff, fio-json, article"),
    _f("file", "string?", "base name of the file; null: there was none"),
    _f("sha256", "string?", "of the file's bytes"),
    _f("title", "string?", "title of the article, or the source's name of the test"),
    _f("place", "string?", "where in it: page, table, figure, sheet"),
    _f("url", "string?", "address of the source; null: none is known"),
    _f("date", "string?", "date of the article, not of the measurement; null: not reported", required=False),
    _f("command_line", "string?", "the tool's command line, as reported by the source", required=False),
    _f(
        "unknown",
        "string[]",
        "fields of cells and run that the source does not report, by name; in cells they are null",
    ),
)

UNTOLD = (
    "file_bytes", "record_bytes", "queue_depth", "workers", "durability", "bytes", "ops", "errors", "duration_ns",
    "acknowledged_bytes_per_s", "iops", "cpu_fraction", "start_ns", "end_ns", "window_ns", "pause_ns",
    "acknowledged_ns", "warmup_bytes", "warmup_ops", "pattern", "access", "write_fraction", "direct", "sync",
    "cpu_user_ns", "cpu_system_ns", "generation_cpu_ns", "verify_cpu_ns", "missed_starts",
)  # fmt: skip
"""Fields of a cell that are null where a run has a `source` and that does not tell them; never in naslab's own runs."""


def may_be_untold(fields: Iterable[Field]) -> tuple[Field, ...]:
    """The fields of a cell; those in `UNTOLD` may be null."""
    return tuple(
        replace(each, nullable=True, about=f"{each.about}; null: not reported by a `source`")
        if each.name in UNTOLD
        else each
        for each in fields
    )
