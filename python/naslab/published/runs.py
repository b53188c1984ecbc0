"""Published numbers as run documents: a cell for each rate, null where the article says nothing.

What makes them doubtful is found by the checks that naslab's own runs pass through, never written down by hand.
"""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from naslab.analysis.findings import Finding
from naslab.errors import UnknownRunError
from naslab.published.article import articles
from naslab.results.describe import plain
from naslab.results.foreign import foreign_cell, foreign_document
from naslab.results.parts.stated import Stated
from naslab.results.run import Run
from naslab.units import size_label

if TYPE_CHECKING:
    from naslab.published.article import Article, PublishedCell, PublishedRun, Setting

PREFIX = "published:"


def is_published(reference: str) -> bool:
    """Whether this names a published result: `published:NAME`."""
    return reference.startswith(PREFIX)


@cache
def _all() -> dict[str, tuple[Article, PublishedRun]]:

    return {run.name: (article, run) for article in articles().values() for run in article.runs}


def names() -> list[str]:
    """Names of all published results, without the prefix, by article."""
    return list(_all())


def load(reference: str) -> Run:
    """The run of `published:NAME` (or `NAME`). Raises UnknownRunError, which names near ones."""
    name = reference.removeprefix(PREFIX)
    if name not in _all():
        near = [n for n in names() if name and name in n] or difflib.get_close_matches(name, names(), cutoff=0.4)
        hint = f"near: {', '.join(PREFIX + each for each in near[:3])}" if near else f"there are {len(names())}"
        raise UnknownRunError(f"no published result {name!r} ({hint}); see all with: naslab runs --published")
    return Run(_document(*_all()[name]))


def _document(article: Article, run: PublishedRun) -> Any:
    from naslab.analysis.validity import cell_findings, run_findings

    setting = run.setting
    source = {
        "kind": "published", "tool": setting.tool, "tool_version": setting.tool_version, "format": "article",
        "title": article.source["title"], "place": run.place, "url": article.source.get("url"),
        "command_line": setting.command, "date": article.source.get("date"),
    }  # fmt: skip
    cells = [_cell(number, cell, setting) for number, cell in enumerate(run.cells, 1)]
    stated = Stated(setting.limits, [each.number for each in article.derived if each.run == run.name])
    document: dict[str, Any] = foreign_document(
        PREFIX + run.name, source, cells, target=setting.target, protocol=setting.protocol, label=run.name,
        labels=setting.labels, environment=_environment(setting), parts={"stated": plain(stated)},
    )  # fmt: skip
    document["note"] = run.what
    document["summary"] = [words for _, words in article.findings.values()] if _is_whole(article, run) else []
    found = [each for cell in document["cells"] for each in cell_findings(cell, document)] + run_findings(document)
    found += [*_other_sizes(setting), *_unwritten(setting, document["cells"])]
    for cell in document["cells"]:
        cell["warnings"] = [each.warning() for each in found if each.cell == cell["id"]]
    document["warnings"] = [each.warning() for each in found]
    document["validity"] = [each.entry() for each in found]
    return document


def _is_whole(article: Article, run: PublishedRun) -> bool:
    """Whether the run stands for the article: it alone has its name."""
    return run.name == article.name


def _environment(setting: Setting) -> dict[str, Any]:
    """Client, server and the link, as a run of naslab's own names the client's interface."""
    found = {
        part: getattr(setting, key)
        for part, key in (("client", "client"), ("target", "server"))
        if getattr(setting, key)
    }
    if setting.link is not None:
        speed = round(setting.link)
        found["route"] = {"interface": "network card", "mtu_bytes": 1500, "speed_bits_per_s": speed}
    return found


def _other_sizes(setting: Setting) -> Iterator[Finding]:
    """`file_sizes`: the article tells other file sizes than its IOzone command line measures."""
    from naslab.commands.iozone.checks import parse
    from naslab.commands.iozone.plan import file_sizes

    if setting.tool != "iozone" or not setting.command or not setting.sizes:
        return
    measured = file_sizes(parse(shlex.split(setting.command)[1:]))
    told, low, high = setting.sizes, measured[0] << 10, measured[-1] << 10
    if told != (low, high):
        text = (
            f"The article speaks of files of {size_label(told[0])} to {size_label(told[1])}, but its command line "
            f"measures {size_label(low)} to {size_label(high)}"
        )
        yield Finding("file_sizes", text, None, float(told[1]), "bytes", float(high))


def _unwritten(setting: Setting, cells: Sequence[Mapping[str, Any]]) -> Iterator[Finding]:
    """`unwritten`: reads of a file whose blocks were allocated, and never written before."""
    read = tuple(cell["id"] for cell in cells if cell["write_fraction"] == 0)
    if read and "fsutil file createnew" in (setting.prepare or ""):
        text = (
            "The file that was read was made by fsutil file createnew, which allocates it and writes nothing: a server "
            "may answer with zeros that neither its disks nor its memory hold"
        )
        yield Finding("unwritten", text, read[0] if len(read) == 1 else None, cells=read)


def _cell(number: int, cell: PublishedCell, setting: Setting) -> dict[str, Any]:
    told: dict[str, Any] = {
        "workload": cell.workload, "block": cell.block, "file_bytes": _one(cell.file_bytes),
        "record_bytes": _one(cell.record_bytes), "queue_depth": setting.depth, "workers": setting.workers,
    }  # fmt: skip
    if cell.regime != "unknown":
        told |= {"regime": cell.regime, "regime_evidence": "according to the article"}
    if cell.file_bytes[0] != cell.file_bytes[1]:
        told["covers_file_bytes"] = list(cell.file_bytes)
    return foreign_cell(number, cell.op, cell.bytes_per_s, **told)


def _one(ends: tuple[int, int]) -> int | None:
    """The size where it is one and told."""
    return ends[0] if ends[0] == ends[1] and ends[0] else None
