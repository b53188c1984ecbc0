"""From files to run documents: what to read, which belong together, and what the user adds."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from naslab.errors import ForeignFileError, UsageError
from naslab.exchange.importers.base import Draft, Input
from naslab.exchange.importers.fio_log import NAME as FIO_LOG_NAME
from naslab.exchange.importers.recognise import Format, format_of, known, parser
from naslab.results.document import warning
from naslab.results.foreign import foreign_document
from naslab.results.run import MemoryBlobs, Run
from naslab.results.store import new_run_id

MAX_FILES = 10_000


@dataclass(frozen=True)
class Asked:
    """What the user says of the files. target: what was measured, which a source rarely tells; repeats: all files are
    one test, measured again and again."""

    labels: Mapping[str, str] = field(default_factory=dict)
    target: str = ""
    note: str = ""
    repeats: bool = False


OWN = ("naslab_json", "agent_lines")
"""Of naslab's own runs, which come whole."""


def import_files(paths: Sequence[Path], asked: Asked) -> tuple[list[Run], list[str]]:
    """(the runs in files and folders, in order; what was left out). Nothing is stored.

    Raises ForeignFileError for a file named that is no benchmark's output, and a folder that holds none; UsageError for
    files that cannot be repeats of one test.
    """
    skipped: list[str] = []
    inputs: list[tuple[Format, list[Input]]] = []
    for path in paths:
        inputs += _of_folder(path, skipped) if path.is_dir() else [_known(Input.of(path))]
    groups = _grouped(inputs)
    drafts: list[tuple[Draft, list[Input]]] = []
    runs: list[Run] = []
    for found, sources in groups:
        if found.module in OWN:
            runs += parser(found)(sources[0])
        else:
            drafts += [(draft, sources) for draft in _parsed(found, sources)]
    if asked.repeats:
        if runs:
            raise UsageError("--repeats is for other tools' files; runs that naslab exported have their repeats inside")
        drafts = [_as_repeats(drafts)]
    return runs + [_run(draft, sources, asked) for draft, sources in drafts], skipped


def read_file(path: Path) -> list[Run]:
    """The runs in one file, not stored. Raises ForeignFileError."""
    return import_files([path], Asked())[0]


def _known(source: Input) -> tuple[Format, list[Input]]:
    return format_of(source), [source]


def _parsed(found: Format, sources: list[Input]) -> list[Draft]:
    """The runs that a file holds. Whatever goes wrong in reading a hostile file is said in one way."""
    try:
        drafts: Draft | list[Draft] = parser(found)(sources if found.module == "fio_log" else sources[0])
        return drafts if isinstance(drafts, list) else [drafts]
    except (ValueError, OverflowError, ArithmeticError, LookupError, TypeError, RecursionError) as error:
        name = sources[0].name
        raise ForeignFileError(f"{name}: looks like {found.title}, but is damaged ({type(error).__name__})") from error


def _of_folder(folder: Path, skipped: list[str]) -> list[tuple[Format, list[Input]]]:
    """The results among the files of a folder, by name, not of folders in it."""
    paths = sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))
    if len(paths) > MAX_FILES:
        raise ForeignFileError(f"{folder} holds {len(paths)} files; name those to import, at most {MAX_FILES}")
    found = []
    for path in paths:
        try:
            found.append(_known(Input.of(path)))
        except ForeignFileError as error:
            skipped.append(str(error).partition("; known formats")[0])
    if not found:
        raise ForeignFileError(f"{folder} contains no benchmark's output among {len(paths)} files; {known()}")
    return found


def _grouped(inputs: Iterable[tuple[Format, list[Input]]]) -> list[tuple[Format, list[Input]]]:
    """Logs of one fio job are one run: those of one name before `_bw`, `_iops` or `_lat`."""
    groups: list[tuple[Format, list[Input]]] = []
    logs: dict[str, list[Input]] = {}
    for found, sources in inputs:
        name = FIO_LOG_NAME.match(sources[0].name) if found.module == "fio_log" else None
        if name is None:
            groups.append((found, sources))
        elif name[1] in logs:
            logs[name[1]] += sources
        else:
            logs[name[1]] = list(sources)
            groups.append((found, logs[name[1]]))
    return groups


def _as_repeats(drafts: Sequence[tuple[Draft, list[Input]]]) -> tuple[Draft, list[Input]]:
    """All as one run, a block for each file. Raises UsageError for files of several tools."""
    if len({draft.tool for draft, _ in drafts}) != 1:
        tools = ", ".join(dict.fromkeys(draft.tool for draft, _ in drafts))
        raise UsageError(f"--repeats: these files come from {tools}; repeats of one test come from one tool")
    whole, sources = drafts[0][0], [source for _, parts in drafts for source in parts]
    cells: list[dict[str, Any]] = []
    blobs: dict[int, dict[str, bytes]] = {}
    block = 0
    for draft, _ in drafts:
        for cell in draft.cells:
            if named := draft.blobs.get(cell["id"]):
                blobs[len(cells)] = named
            start = cell["start_wall_ns"] or draft.start_wall_ns
            cells.append({**cell, "id": len(cells), "block": cell["block"] + block, "start_wall_ns": start})
        block += 1 + max(cell["block"] for cell in draft.cells)
    starts = [draft.start_wall_ns for draft, _ in drafts]
    notes = list(dict.fromkeys(note for draft, _ in drafts for note in draft.warnings))
    merged = Draft(whole.tool, whole.format, cells, whole.tool_version, whole.title, whole.target, whole.command_line)
    merged.start_wall_ns, merged.environment = min(starts), whole.environment
    merged.warnings, merged.blobs, merged.unknown = notes, blobs, whole.unknown
    return merged, sources


def _run(draft: Draft, sources: Sequence[Input], asked: Asked) -> Run:
    names = [source.name for source in sources]
    dated = draft.start_wall_ns or min(source.modified_ns for source in sources)
    unknown = [*draft.unknown, *([] if draft.start_wall_ns else ["start_wall_ns"])]
    repeated = len({cell["block"] for cell in draft.cells}) > 1
    regimes = any(cell["regime"] not in (None, "unknown") for cell in draft.cells)
    source = {
        "kind": "imported", "tool": draft.tool, "tool_version": draft.tool_version, "format": draft.format,
        "file": names[0] if len(names) == 1 else f"{len(names)} files, {names[0]} to {names[-1]}",
        "sha256": _sha256(sources), "title": draft.title, "command_line": draft.command_line, "unknown": unknown,
    }  # fmt: skip
    document = foreign_document(
        new_run_id(), source, draft.cells, target=asked.target or draft.target, protocol=draft.protocol,
        labels=asked.labels,
        label=None if asked.labels else draft.label or f"{draft.tool}: {names[0]}", environment=draft.environment,
        start_wall_ns=dated, end_wall_ns=draft.end_wall_ns, warnings=[warning(*note) for note in draft.warnings],
    )  # fmt: skip
    document["note"] = asked.note or None
    series = any("series" in named for named in draft.blobs.values())
    told = [name for name, is_told in (("spread", repeated), ("regime", regimes), ("series", series)) if is_told]
    document["source"]["unknown"] = [n for n in document["source"]["unknown"] if n not in told]
    return Run(document, MemoryBlobs(draft.blobs))


def _sha256(sources: Sequence[Input]) -> str:
    """Of the file; of several one after the other."""
    found = hashlib.sha256()
    for source in sources:
        found.update(source.data)
    return found.hexdigest()
