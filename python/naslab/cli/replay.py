"""`naslab replay TARGET TRACE`: prepares the files of a trace, then carries its operations out."""

from __future__ import annotations

import gc
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from naslab.cli.arguments import ReplayArguments
from naslab.cli.common import Common, data_of, measure
from naslab.commands.replay import Converter, Names, StreamTimes, Tree, join, write_files
from naslab.errors import SpaceError, UsageError
from naslab.execution.execute import SPACE_FACTOR, Execution, probe, start
from naslab.results.store import Store
from naslab.spec import CellSpec, DataSpec, ScriptSpec
from naslab.spec.script import MOST_STREAMS, ScriptWriter
from naslab.trace.fileset import FileFacts, FileSet
from naslab.trace.reader import Trace
from naslab.units import amount_text, parse_duration

if TYPE_CHECKING:
    from naslab.commands.replay import Tally

PREPARE, REPLAY = "prepare", "replay"
"""Workload names of the two cells."""
MEMORY_BYTES, NAME_BYTES, MUCH_MEMORY_BYTES = 60_000_000, 700, 200_000_000
"""What naslab needs for a replay by itself and for each name in the trace, measured; and from where on it says so."""
MOST_FILE_BYTES = 16 << 40
"""The script that makes the files has a step for each MiB."""


def _deadline_ns(arguments: ReplayArguments) -> int:
    """Raises UsageError for these options, where they are wrong by themselves."""
    if arguments.pace not in ("fast", "recorded"):
        raise UsageError(f"--pace {arguments.pace!r}: use fast or recorded")
    if not 1 <= arguments.max_streams <= MOST_STREAMS:
        raise UsageError(f"--max-streams {arguments.max_streams}: give 1 to {MOST_STREAMS}")
    data_of(arguments.data)
    return max(parse_duration(arguments.deadline, "--deadline"), 1)


@dataclass
class Made:
    """The two scripts, their cells, and what was counted while they were made."""

    cells: list[CellSpec]
    tally: Tally
    names: Names
    trace_streams: int
    file_bytes: int
    moved_bytes: int
    peak_bytes: int
    files: int
    folders: int
    memory_bytes: int
    header: dict[str, Any] = field(default_factory=dict)


def run_replay(arguments: ReplayArguments) -> int:
    """`naslab replay TARGET TRACE`."""
    common = Common.of("replay", arguments)
    deadline_ns = _deadline_ns(arguments)
    spec = common.run_spec()
    target = common.target(arguments.target)
    probed = probe(target, [])
    trace = Trace(arguments.trace)
    files, times = _first_pass(trace)
    _check_files(arguments, files, probed, common)
    with tempfile.TemporaryDirectory(prefix="naslab-replay-") as folder:
        direct = bool(probed["caps"].get("direct"))
        made = _make(arguments, trace, files, times, Path(folder), target.protocol, direct)
        gc.collect()  # the tree of files has references in circles
        for cell in made.cells:
            cell.seed = common.seed
            if cell.script is not None and cell.workload == REPLAY:
                cell.script.recorded_pace = arguments.pace == "recorded"
                if cell.script.recorded_pace:
                    cell.script.deadline_ns = deadline_ns
                    # So long nothing may end without the target hanging; it is no gap between bursts otherwise.
                    cell.burst_gap_ns = times.longest_gap_ns
        _check_room(made, probed, common)
        spec.cells = made.cells
        execution = start(spec, target, Store(common.store), document_extra=common.document_extra())
        if made.memory_bytes > MUCH_MEMORY_BYTES:
            execution.warn("memory", f"the trace has so many names that naslab needs {amount_text(made.memory_bytes)}")
        return measure(execution, common, made.cells, lambda _: _work(execution, arguments, made))


def _first_pass(trace: Trace) -> tuple[list[FileFacts], StreamTimes]:
    """What must be there, and when each stream was at work."""
    files, times = FileSet(), StreamTimes()
    for operation in trace:
        files.add(operation)
        times.add(operation)
    needed = list(files.needed())
    del files
    gc.collect()  # its tree has references in circles
    return needed, times


def _make(
    arguments: ReplayArguments, trace: Trace, files: list[FileFacts], times: StreamTimes, folder: Path, protocol: str,
    direct: bool,
) -> Made:  # fmt: skip
    """Writes both scripts. Empties `files`: nobody needs them any more."""
    numbers = join(times, arguments.max_streams)
    if not numbers:
        raise UsageError(f"{arguments.trace}: contains no operations; there is nothing to replay")
    data, cells = data_of(arguments.data), []
    names = Names(protocol == "smb")
    tree = Tree(names, files)
    files.clear()
    prepared, total = tree.prepared_bytes, max(tree.prepared_bytes, 1)
    if tree.prepared_files + tree.prepared_folders:
        with ScriptWriter(folder) as writer:
            write_files(writer, tree)
            cells.append(_cell(writer, folder / "prepare", "write", PREPARE, total, prepared, data))
    with ScriptWriter(folder) as writer:
        # NFS 3 knows no open files: what was opened to be read can be written.
        converter = Converter(writer, numbers, tree, direct, modes=protocol != "nfs")
        for operation in trace:
            converter.add(operation)
        cells.append(_cell(writer, folder / "replay", "mixed", REPLAY, total, converter.bytes, data))
    for number, cell in enumerate(cells):
        cell.id = number
    header = {"source": trace.header.source, "command": trace.header.command, "anonymised": trace.header.anonymised}
    return Made(
        cells, converter.tally, names, len(numbers), prepared, converter.bytes, converter.peak_bytes,
        tree.prepared_files, tree.prepared_folders, MEMORY_BYTES + NAME_BYTES * tree.names, header,
    )  # fmt: skip


def _cell(
    writer: ScriptWriter, path: Path, op: str, workload: str, file_bytes: int, moved_bytes: int, data: DataSpec
) -> CellSpec:
    writer.save(path)
    record = max(writer.most_bytes, 1)
    return CellSpec(
        op, max(file_bytes, record), record, [], workers=len(writer.streams), data=data, workload=workload,
        script=ScriptSpec(str(path), planned_bytes=moved_bytes), flush="none", durability="none",
        write_fraction=1.0 if workload == PREPARE else 0.5, interval_ns=100_000_000, cache_state="warm",
    )  # fmt: skip


def _check_files(
    arguments: ReplayArguments, files: list[FileFacts], probed: dict[str, Any], common: Common
) -> None:  # fmt: skip
    """Raises before a script of steps for all of it is written: UsageError, SpaceError."""
    total = sum(fact.size_bytes for fact in files)
    if total > MOST_FILE_BYTES:
        most = amount_text(MOST_FILE_BYTES)
        raise UsageError(f"{arguments.trace}: needs files of {amount_text(total)}, and naslab makes at most {most}")
    _check_most(total, common)
    _check_space(total, probed)


def _check_room(made: Made, probed: dict[str, Any], common: Common) -> None:
    """Raises before anything is written: UsageError for --max-bytes, SpaceError."""
    _check_most(made.file_bytes + made.moved_bytes, common)
    _check_space(made.peak_bytes, probed)


def _check_most(moved: int, common: Common) -> None:
    most = common.most_bytes()
    if most is not None and moved > most:
        raise UsageError(
            f"--max-bytes {common.max_bytes}: preparing the files and replaying moves {amount_text(moved)}; allow more"
        )


def _check_space(file_bytes: int, probed: dict[str, Any]) -> None:
    space = probed.get("space")
    needed = int(file_bytes * SPACE_FACTOR)
    if space is not None and needed > space["free_bytes"]:
        raise SpaceError(
            f"the trace needs {amount_text(needed)} ({SPACE_FACTOR} times its files), the target has "
            f"{amount_text(space['free_bytes'])} free: free some space, or record a smaller job",
            "no_space", before_run=True,
        )  # fmt: skip


def _work(execution: Execution, arguments: ReplayArguments, made: Made) -> None:
    for cell in made.cells:
        execution.stage([cell])
        done = execution.cells[-1] if execution.cells else None
        if done is None or (done["workload"] == PREPARE and (done["errors"] or done["status"] != "complete")):
            if execution.status == "complete":
                execution.status = "failed"
                execution.warn("error", "the files of the trace could not be created; nothing was replayed")
            return
    for found in execution.cells:
        if found["workload"] == REPLAY:
            _conclude(execution, arguments, made, found)


def _conclude(execution: Execution, arguments: ReplayArguments, made: Made, cell: dict[str, Any]) -> None:
    """Keeps what was issued against what the trace has."""
    found = made.tally.document({kind: told["ops"] for kind, told in cell["kinds"].items()})
    recorded = arguments.pace == "recorded"
    document = {
        "trace": str(arguments.trace), **made.header, "pace": arguments.pace, "trace_streams": made.trace_streams,
        "streams": cell["workers"], "files": made.files, "folders": made.folders, "prepared_bytes": made.file_bytes,
        "escaped_names": made.names.escaped, "told_apart": made.names.told_apart,
        "missed_deadlines": cell["missed_starts"] if recorded else None, **found,
    }  # fmt: skip
    execution.keep(replay=document)
    if not document["equal"] and cell["status"] == "complete":
        execution.warn("replay", "not all operations of the trace were issued; the table shows which", cell["id"])
