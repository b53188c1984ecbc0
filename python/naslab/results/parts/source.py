"""The part of the run document that says a run was not measured by naslab."""

from typing import Annotated, Literal

from msgspec import UNSET, UnsetType

from naslab.results.describe import Part, Word, about

TOOLS = ("iozone", "diskspd", "fio", "naspt", "elbencho", "crystaldiskmark")
"""Tools whose output is read; published results may name others."""


class SourceDocument(Part, kw_only=True):
    """Source."""

    kind: Annotated[Literal["imported", "published"], about("imported: read from a file; published: from an article")]
    tool: Annotated[Word, about(f"what measured: {', '.join(TOOLS)}, or another")]
    tool_version: Annotated[str | None, about("its version; null: not reported", keep="tool_version")]
    format: Annotated[str, about("what was read, e.g. iozone-text, iozone-biff, fio-json, article", keep="format")]
    file: Annotated[str | None, about("base name of the file; null: there was none")]
    sha256: Annotated[str | None, about("of the file's bytes")]
    title: Annotated[str | None, about("title of the article, or the source's name of the test")]
    place: Annotated[str | None, about("where in it: page, table, figure, sheet")]
    url: Annotated[str | None, about("address of the source; null: none is known")]
    date: Annotated[
        str | UnsetType | None, about("date of the article, not of the measurement; null: not reported")
    ] = UNSET
    command_line: Annotated[str | UnsetType | None, about("the tool's command line, as reported by the source")] = UNSET
    unknown: Annotated[
        list[str],
        about(
            "fields of cells and run that the source does not report, by name; in cells they are null",
            keep="field_names",
        ),
    ]
