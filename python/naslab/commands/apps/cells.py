"""The cells of an application: prepare, the application itself, clean, each with its script."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Sequence
from pathlib import Path

from naslab.commands.apps import results
from naslab.commands.apps.generate import (
    PREPARE_REQUEST_BYTES,
    Plan,
    write_clean,
    write_prepare,
    write_removal,
    write_run,
)
from naslab.commands.apps.model import Definition
from naslab.spec import CellSpec, DataSpec, ScriptSpec


def cells_of(made: Plan, folder: Path, recorded: bool, data: DataSpec) -> list[CellSpec]:
    """The three cells of an application, their scripts written to the folder; the caller numbers them.

    recorded: at the media's own pace, where the application has one.
    """
    name = made.definition.name
    facts = made.facts()
    paths = [folder / f"{name}.{step}.script" for step in (results.PREPARE, "run", results.CLEAN)]
    streams = [write_prepare(made, paths[0]), write_run(made, paths[1], recorded), write_clean(made, paths[2])]
    moved = facts["read_bytes"] + facts["written_bytes"]
    paced = made.pace_ns(recorded) is not None
    deadline_ns = (made.buffer_ns or 0) if recorded else 0
    data = data_of(made.definition, data)
    op = "mixed" if 0 < facts["write_fraction"] < 1 else ("write" if facts["write_fraction"] else "read")
    scripts = [
        ScriptSpec(str(paths[0]), planned_bytes=facts["prepared_bytes"]),
        ScriptSpec(str(paths[1]), paced, deadline_ns, moved),
        ScriptSpec(str(paths[2])),
    ]
    size = max(facts["prepared_bytes"] + facts["written_bytes"], PREPARE_REQUEST_BYTES, facts["largest_request_bytes"])
    records = (PREPARE_REQUEST_BYTES, facts["largest_request_bytes"], 1)
    ops, workloads = ("write", op, "remove"), (results.PREPARE, name, results.CLEAN)
    return [
        CellSpec(
            ops[at], size, records[at], [], workers=streams[at], script=scripts[at], data=data,
            write_fraction=(1.0, facts["write_fraction"], 0.0)[at], workload=workloads[at],
            cache_state="warm" if at == 1 else "unknown", durability="none" if at == 1 else "end",
            flush="none", record_ops=at == 1 and made.definition.records_steps(), interval_ns=100_000_000,
        )
        for at in range(3)
    ]  # fmt: skip


def data_of(definition: Definition, asked: DataSpec) -> DataSpec:
    """The kind of data: what was asked for where it differs from the default, else what the definition says."""
    compress, dedupe = asked.compress_ratio, asked.dedupe_ratio
    if compress == 1 and "compress" in definition.whole:
        compress = definition.whole["compress"].is_
    if dedupe == 1 and "dedupe" in definition.whole:
        dedupe = definition.whole["dedupe"].is_
    return dataclasses.replace(asked, compress_ratio=compress, dedupe_ratio=dedupe)


def room_bytes(made: Plan) -> int:
    """Bytes that its files take on the target at most."""
    return made.prepared_bytes() + made.moved_bytes("write")


def removal_cell(made: Plan, path: Path, keep_prepared: bool = False, ever: bool = False) -> CellSpec:
    """A cell that removes what a run left, its script written to `path`.

    keep_prepared: the prepared files stay. ever: also files that were there for a while, of a run that was cut short.
    """
    files, folders = _left(made, ever)
    if keep_prepared:
        files, folders = files - set(made.files), folders - set(made.folders)
    streams = write_removal(sorted(files), folders, path)
    return CellSpec(
        "remove", PREPARE_REQUEST_BYTES, 1, [], workers=streams, script=ScriptSpec(str(path)), write_fraction=0.0,
        workload=results.CLEAN, cache_state="unknown", durability="end", flush="none", interval_ns=100_000_000,
    )  # fmt: skip


def _left(made: Plan, ever: bool) -> tuple[set[str], set[str]]:
    """Files and folders that are there after a run; ever: or were at some time."""
    files, folders = set(made.files), set(made.folders)
    for action in (action for stream in made.streams for action in stream):
        if action.kind == "create":
            files.add(action.path)
        elif action.kind == "mkdir":
            folders.add(action.path)
        elif action.kind == "rename":
            files.add(action.path_to)
        if not ever and action.kind in ("remove", "rename"):
            files.discard(action.path)
        if not ever and action.kind == "rmdir":
            folders.discard(action.path)
    return files, folders


def blocks_of(rows: Sequence[Sequence[CellSpec]], repeat: int, seed: int) -> list[list[CellSpec]]:
    """The cells of each application in each repeat, numbered; with several repeats in an order of its own each."""
    rng = random.Random(seed)
    blocks, number = [], 0
    for block in range(repeat):
        for row in rng.sample(rows, len(rows)) if repeat > 1 else rows:
            blocks.append([dataclasses.replace(cell, id=number + at, block=block) for at, cell in enumerate(row)])
            number += len(row)
    return blocks
