"""`naslab replay TARGET TRACE`: prepares the files of a trace, then carries its operations out."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from naslab.cli.common import Common, measure
from naslab.errors import SpaceError, UsageError
from naslab.execute import SPACE_FACTOR, Execution, probe, start
from naslab.replay import Converter, Names, StreamTimes, join, write_files
from naslab.script import MOST_STREAMS, ScriptWriter
from naslab.spec import CellSpec, DataSpec, ScriptSpec
from naslab.store import Store
from naslab.trace.fileset import FileFacts, FileSet
from naslab.trace.reader import Trace
from naslab.units import amount_text, parse_duration

if TYPE_CHECKING:
    from naslab.replay import Tally

PREPARE, REPLAY = "prepare", "replay"
"""Workload names of the two cells."""


@dataclass
class ReplayRequest:
    """`naslab replay`'s own options, as text where they have units."""

    target: str
    trace: Path
    pace: str
    deadline: str
    max_streams: int
    compress: float
    dedupe: float

    def deadline_ns(self) -> int:
        """Raises UsageError for these options, where they are wrong by themselves."""
        if self.pace not in ("fast", "recorded"):
            raise UsageError(f"--pace {self.pace!r}: use fast or recorded")
        if not 1 <= self.max_streams <= MOST_STREAMS:
            raise UsageError(f"--max-streams {self.max_streams}: give 1 to {MOST_STREAMS}")
        for option, ratio in (("--compress", self.compress), ("--dedupe", self.dedupe)):
            if not 1.0 <= ratio <= 1e6:
                raise UsageError(f"{option} {ratio}: give a ratio from 1 to 1000000")
        return max(parse_duration(self.deadline, "--deadline"), 1)


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
    header: dict[str, Any] = field(default_factory=dict)


def run_replay(request: ReplayRequest, common: Common) -> int:
    """`naslab replay TARGET TRACE`."""
    deadline_ns = request.deadline_ns()
    spec = common.run_spec()
    target = common.target(request.target)
    probed = probe(target, [])
    trace = Trace(request.trace)
    files, times = _first_pass(trace)
    with tempfile.TemporaryDirectory(prefix="naslab-replay-") as folder:
        smb, direct = target.protocol == "smb", bool(probed["caps"].get("direct"))
        made = _make(request, trace, files, times, Path(folder), smb, direct)
        for cell in made.cells:
            cell.seed = common.seed
            if cell.script is not None and cell.workload == REPLAY:
                cell.script.recorded_pace = request.pace == "recorded"
                if cell.script.recorded_pace:
                    cell.script.deadline_ns = deadline_ns
                    # So long nothing may end without the target hanging; it is no gap between bursts otherwise.
                    cell.burst_gap_ns = times.longest_gap_ns
        _check_room(made, probed, common)
        spec.cells = made.cells
        execution = start(spec, target, Store(common.store), document_extra=common.document_extra())
        return measure(execution, common, made.cells, lambda _: _work(execution, request, made))


def _first_pass(trace: Trace) -> tuple[list[FileFacts], StreamTimes]:
    """What must be there, and when each stream was at work."""
    files, times = FileSet(), StreamTimes()
    for operation in trace:
        files.add(operation)
        times.add(operation)
    return list(files.needed()), times


def _make(
    request: ReplayRequest, trace: Trace, files: list[FileFacts], times: StreamTimes, folder: Path, smb: bool,
    direct: bool,
) -> Made:  # fmt: skip
    numbers = join(times, request.max_streams)
    if not numbers:
        raise UsageError(f"{request.trace}: holds no operation; there is nothing to replay")
    data, cells = DataSpec("random", request.compress, request.dedupe), []
    total = max(sum(fact.size_bytes for fact in files), 1)
    with ScriptWriter(folder) as writer:
        prepared = write_files(writer, files, Names(smb))
        if files:
            cells.append(_cell(writer, folder / "prepare", "write", PREPARE, total, prepared, data))
    names = Names(smb)
    with ScriptWriter(folder) as writer:
        converter = Converter(writer, numbers, files, names, direct)
        for operation in trace:
            converter.add(operation)
        cells.append(_cell(writer, folder / "replay", "mixed", REPLAY, total, converter.bytes, data))
    for number, cell in enumerate(cells):
        cell.id = number
    folders = sum(fact.folder for fact in files)
    header = {"source": trace.header.source, "command": trace.header.command, "anonymised": trace.header.anonymised}
    return Made(
        cells, converter.tally, names, len(numbers), prepared, converter.bytes, converter.peak_bytes,
        len(files) - folders, folders, header,
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


def _check_room(made: Made, probed: dict[str, Any], common: Common) -> None:
    """Raises before anything is written: UsageError for --max-bytes, SpaceError."""
    moved, most = made.file_bytes + made.moved_bytes, common.most_bytes()
    if most is not None and moved > most:
        raise UsageError(
            f"--max-bytes {common.max_bytes}: preparing the files and replaying moves {amount_text(moved)}; allow more"
        )
    space = probed.get("space")
    needed = int(made.peak_bytes * SPACE_FACTOR)
    if space is not None and needed > space["free_bytes"]:
        raise SpaceError(
            f"the trace needs {amount_text(needed)} ({SPACE_FACTOR} times its files), the target has "
            f"{amount_text(space['free_bytes'])} free: free some space, or record a smaller job",
            "no_space", before_run=True,
        )  # fmt: skip


def _work(execution: Execution, request: ReplayRequest, made: Made) -> None:
    for cell in made.cells:
        execution.stage([cell])
        done = execution.cells[-1] if execution.cells else None
        if done is None or (done["workload"] == PREPARE and (done["errors"] or done["status"] != "complete")):
            if execution.status == "complete":
                execution.status = "failed"
                execution.warn("error", "the files of the trace could not be made; nothing was replayed")
            return
    for found in execution.cells:
        if found["workload"] == REPLAY:
            _conclude(execution, request, made, found)


def _conclude(execution: Execution, request: ReplayRequest, made: Made, cell: dict[str, Any]) -> None:
    """Keeps what was issued against what the trace has."""
    found = made.tally.document({kind: told["ops"] for kind, told in cell["kinds"].items()})
    recorded = request.pace == "recorded"
    document = {
        "trace": str(request.trace), **made.header, "pace": request.pace, "trace_streams": made.trace_streams,
        "streams": cell["workers"], "files": made.files, "folders": made.folders, "prepared_bytes": made.file_bytes,
        "escaped_names": made.names.escaped, "missed_deadlines": cell["missed_starts"] if recorded else None, **found,
    }  # fmt: skip
    execution.document["replay"] = document
    execution.store.update_run(execution.run_id, replay=document)
    if not document["equal"] and cell["status"] == "complete":
        execution.warn("replay", "not all operations of the trace were issued; the table tells which", cell["id"])
