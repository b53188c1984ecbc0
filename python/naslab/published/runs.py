"""Published numbers as run documents: a cell for each rate, null where the article says nothing.

What makes them doubtful is found by the checks that naslab's own runs pass through, never written down by hand.
"""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from naslab.errors import UnknownRunError
from naslab.units import size_label

if TYPE_CHECKING:
    from naslab.analysis.findings import Finding
    from naslab.published.article import Article, Derived, PublishedCell, PublishedRun
    from naslab.results.run import Run

PREFIX = "published:"


def is_published(reference: str) -> bool:
    """Whether this names a published result: `published:NAME`."""
    return reference.startswith(PREFIX)


@cache
def _all() -> dict[str, tuple[Article, PublishedRun]]:
    from naslab.published.article import articles

    return {run.name: (article, run) for article in articles().values() for run in article.runs}


def names() -> list[str]:
    """Names of all published results, without the prefix, by article."""
    return list(_all())


def load(reference: str) -> Run:
    """The run of `published:NAME` (or `NAME`). Raises UnknownRunError, which names near ones."""
    from naslab.results.run import Run

    name = reference.removeprefix(PREFIX)
    if name not in _all():
        near = [n for n in names() if name and name in n] or difflib.get_close_matches(name, names(), cutoff=0.4)
        hint = f"near: {', '.join(PREFIX + each for each in near[:3])}" if near else f"there are {len(names())}"
        raise UnknownRunError(f"no published result {name!r} ({hint}); see all with: naslab runs --published")
    return Run(_document(*_all()[name]))


def _document(article: Article, run: PublishedRun) -> Any:
    from naslab.analysis.validity import cell_findings, run_findings
    from naslab.results.foreign import foreign_document

    setting = run.setting
    source = {
        "kind": "published", "tool": setting["tool"], "tool_version": setting["tool_version"], "format": "article",
        "title": article.source["title"], "place": run.place, "url": article.source.get("url"),
        "command_line": setting["command"], "date": article.source.get("date"),
    }  # fmt: skip
    cells = [_cell(number, cell, setting) for number, cell in enumerate(run.cells, 1)]
    stated = {
        "limits": [dict(each) for each in setting["limits"]],
        "derived": [_derived(each) for each in article.derived if each.run == run.name],
    }
    document: dict[str, Any] = foreign_document(
        PREFIX + run.name, source, cells, target=setting["target"], protocol=setting["protocol"], label=run.name,
        labels=setting["labels"], environment=_environment(setting), parts={"stated": stated},
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


def _environment(setting: Mapping[str, Any]) -> dict[str, Any]:
    """Client, server and the link, as a run of naslab's own names the client's interface."""
    found = {part: setting[key] for part, key in (("client", "client"), ("target", "server")) if setting[key]}
    if setting["link"] is not None:
        speed = round(setting["link"])
        found["route"] = {"interface": "network card", "mtu_bytes": 1500, "speed_bits_per_s": speed}
    return found


def _other_sizes(setting: Mapping[str, Any]) -> Iterator[Finding]:
    """`file_sizes`: the article tells other file sizes than its IOzone command line measures."""
    from naslab.analysis.findings import Finding
    from naslab.commands.iozone.checks import parse
    from naslab.commands.iozone.plan import file_sizes

    if setting["tool"] != "iozone" or not setting["command"] or not setting["sizes"]:
        return
    measured = file_sizes(parse(shlex.split(setting["command"])[1:]))
    told, low, high = setting["sizes"], measured[0] << 10, measured[-1] << 10
    if told != (low, high):
        text = (
            f"The article speaks of files of {size_label(told[0])} to {size_label(told[1])}, but its command line "
            f"measures {size_label(low)} to {size_label(high)}"
        )
        yield Finding("file_sizes", text, None, float(told[1]), "bytes", float(high))


def _unwritten(setting: Mapping[str, Any], cells: Sequence[Mapping[str, Any]]) -> Iterator[Finding]:
    """`unwritten`: reads of a file whose blocks were allocated, and never written before."""
    from naslab.analysis.findings import Finding

    read = tuple(cell["id"] for cell in cells if cell["write_fraction"] == 0)
    if read and "fsutil file createnew" in (setting["prepare"] or ""):
        text = (
            "The file that was read was made by fsutil file createnew, which allocates it and writes nothing: a server "
            "may answer with zeros that neither its disks nor its memory hold"
        )
        yield Finding("unwritten", text, read[0] if len(read) == 1 else None, cells=read)


def _cell(number: int, cell: PublishedCell, setting: Mapping[str, Any]) -> dict[str, Any]:
    from naslab.results.foreign import foreign_cell

    told: dict[str, Any] = {
        "workload": cell.workload, "block": cell.block, "file_bytes": _one(cell.file_bytes),
        "record_bytes": _one(cell.record_bytes), "queue_depth": setting["depth"], "workers": setting["workers"],
    }  # fmt: skip
    if cell.regime != "unknown":
        told |= {"regime": cell.regime, "regime_evidence": "according to the article"}
    if cell.file_bytes[0] != cell.file_bytes[1]:
        told["covers_file_bytes"] = list(cell.file_bytes)
    return foreign_cell(number, cell.op, cell.bytes_per_s, **told)


def _one(ends: tuple[int, int]) -> int | None:
    """The size where it is one and told."""
    return ends[0] if ends[0] == ends[1] and ends[0] else None


def _derived(each: Derived) -> dict[str, Any]:
    of = [{"what": what, "bytes_per_s": rate, "labels": dict(labels)} for what, rate, labels in each.of]
    return {
        "what": each.what, "how": each.how, "bytes_per_s": each.bytes_per_s, "printed_to_bytes_per_s": each.printed_to,
        "of": of,
    }  # fmt: skip
