"""`naslab iozone ARGS...`: parse, plan, execute, print."""

from __future__ import annotations

import dataclasses
import io
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, TextIO

from naslab import __version__
from naslab.cli.options import parse_labels
from naslab.cli.progress import Progress
from naslab.commands.iozone import oplog, sheet, text, throughput
from naslab.commands.iozone.args import Args
from naslab.commands.iozone.checks import parse
from naslab.commands.iozone.cluster import clients_of
from naslab.commands.iozone.options import help_text
from naslab.commands.iozone.plan import Plan, make_plan
from naslab.commands.iozone.remount import Remounter
from naslab.commands.iozone.tables import Results
from naslab.errors import INTERRUPTED, InterruptedRunError, NaslabError
from naslab.results.store import Store
from naslab.text.messages import without_secrets
from naslab.text.outputs import forcing


def main(argv: Sequence[str]) -> int:
    """Carries out an IOzone command line (without the program's name). Returns the exit code: 0, 1, 2 or 130."""
    try:
        args = parse(argv)
        if args.help or args.version:
            sys.stdout.write(help_text() if args.help else f"naslab {__version__}, iozone front end\n")
            return 0
        return _run(args)
    except NaslabError as error:
        _say(f"error: {error}")
        return error.exit_code
    except KeyboardInterrupt:
        _say("interrupted")
        return INTERRUPTED


def _run(args: Args) -> int:
    """Plan, then execute. Raises NaslabError for what is wrong before anything was written."""
    from naslab.execution.execute import execute
    from naslab.lab.opening import open_target

    plan = make_plan(args)
    with forcing(args.force):
        oplog.check_files(
            {(cell.op, cell.workers) for cell in plan.cells}, Path(), throughput=args.throughput,
            offsets=args.offset_files, histograms=args.histograms,
        )  # fmt: skip
    remounter = _remounter(args)
    clients = clients_of(args)
    target = open_target(plan.folder, None if args.credentials is None else Path(args.credentials))
    target = dataclasses.replace(target, clients=clients)
    spec = plan.run_spec()
    spec.validate()
    for message in args.warnings:
        _say(f"warning: {message}")
    session = Session(plan, sys.stdout, remounter)
    extra = _document_extra(args)
    try:
        return session.carry_out(
            lambda **hooks: execute(spec, target=target, store=Store(args.store), document_extra=extra, **hooks)
        )
    finally:
        if clients is not None:
            clients.close()


def _remounter(args: Args) -> Remounter | None:
    if args.mount is None:
        return None
    remounter = Remounter(args.mount, args.umount_command, args.mount_command)
    remounter.check(args.file)
    return remounter


def _document_extra(args: Args) -> dict[str, Any]:
    """What the run document keeps beside the measurements; passwords are left out."""
    extra: dict[str, Any] = {
        "argv": ["iozone", *(without_secrets(word) for word in args.argv)],
        "warnings": [{"kind": "iozone", "message": message, "cell": None} for message in args.warnings],
    }
    return {**extra, "labels": parse_labels(args.labels), "note": args.note}


def _say(message: str) -> None:
    print(f"naslab iozone: {message}", file=sys.stderr)


def _both(first: Callable[[Any], None], second: Callable[[Any], None] | None) -> Callable[[Any], None]:
    """Calls one, then the other if there is one."""

    def call(what: Any) -> None:
        first(what)
        if second is not None:
            second(what)

    return call


class Session:
    """One run on its way: prints as cells end, and the reports at its end, however it ends.

    out: where IOzone's text goes; nothing is printed there with --json.
    """

    def __init__(self, plan: Plan, out: TextIO, remounter: Remounter | None = None) -> None:
        self.plan = plan
        self.results = Results(plan)
        self._out = out
        self._remounter = remounter
        self._begun = False
        self._cells: list[dict[str, Any]] = []
        # Rows on a terminal are progress enough; a bar would run into them.
        rows_seen = out.isatty() and not plan.args.json
        self._progress = Progress(plan.cells, quiet=plan.args.quiet or rows_seen)
        writer = throughput.BlockWriter if plan.counts else text.TableWriter
        self._writer = writer(plan, io.StringIO() if plan.args.json else out)

    def carry_out(self, execute: Callable[..., Any]) -> int:
        """Runs the cells through `execute`, which takes the hooks. Returns the exit code."""
        run, failure = None, None
        try:
            with self._progress as shown:
                run = execute(
                    on_cell=_both(self.on_cell, shown.hooks.on_cell),
                    before_cell=_both(self.before_cell, shown.hooks.before_cell),
                    progress=shown.hooks.progress,
                )
        except (NaslabError, KeyboardInterrupt) as error:
            failure = error
        return self._finish(run, failure)

    def before_cell(self, cell_id: int) -> None:
        """Pause (-+q), remount (-U), sizes of the row. Raises TargetError when remounting fails."""
        if self._begun and self.plan.args.pause_s:
            time.sleep(self.plan.args.pause_s)
        self._begin()
        self._writer.start(cell_id)
        if self._remounter is not None:
            self._remounter.remount()

    def on_cell(self, cell: Mapping[str, Any]) -> None:
        """A cell ended: keep it and print it."""
        self._begin()
        self._cells.append(dict(cell))
        self.results.add(cell)
        self._writer.cell(cell)

    def _begin(self) -> None:
        """Banner and header, once; a run refused before its first cell prints nothing on standard output."""
        if not self._begun:
            self._print(text.banner(self.plan.args, self.plan, datetime.now().astimezone()))
            self._writer.header()
            self._begun = True

    def _finish(self, run: Any, failure: BaseException | None) -> int:
        """End lines, report, message of a failure, files. Returns the exit code."""
        stopped = run is not None and run.document["status"] == "partial"
        interrupted = stopped or isinstance(failure, (InterruptedRunError, KeyboardInterrupt))
        whole = failure is None and len(self.results.values) == len(self.plan.cells)
        if self._begun:
            self._end(whole, interrupted)
        code = INTERRUPTED if interrupted else 0 if whole else 1
        if failure is not None:
            _say(f"error: {failure}" if str(failure) else "interrupted")
            code = max(code, getattr(failure, "exit_code", 1))
        elif not whole:
            _say("interrupted" if interrupted else f"error: {self._first_error(run)}")
        return self._write_files(run, code)

    def _end(self, whole: bool, interrupted: bool) -> None:
        """The last line of the table, what happened, the report."""
        if whole:
            self._writer.end_row()
        else:
            self._writer.break_row()
            self._print("iozone: interrupted\n" if interrupted else "iozone: failed\n")
        self._reports(whole)

    def _reports(self, whole: bool) -> None:
        """The report of throughput mode comes before `iozone test complete.`, the other one after it."""
        args, end = self.plan.args, "\niozone test complete.\n"
        tables = ""
        if args.report and self.results.values:
            tables = throughput.report(self.results) if self.plan.counts else text.report(self.results)
        if not whole:
            self._print(("" if self.plan.counts or not tables else "\n") + tables + "exiting iozone\n\n")
        elif self.plan.counts:
            self._print(tables + end)
        else:
            self._print(end + tables)

    def _write_files(self, run: Any, code: int) -> int:
        args = self.plan.args
        try:
            if args.excel is not None and self.results.values:
                sheet.write_sheet(self.results, Path(args.excel), text.command_line(args), args.force)
            if run is not None and (args.offset_files or args.histograms):
                oplog.write_files(
                    run, Path(), throughput=args.throughput, offsets=args.offset_files, histograms=args.histograms
                )
        except (NaslabError, OSError) as error:
            _say(f"error: {error}")
            code = max(code, 1)
        if args.json and run is not None:
            print(run.to_json())
        return code

    def _first_error(self, run: Any) -> str:
        """What a cell that did not complete says, or the run where none came so far."""
        for cell in self._cells:
            if cell["status"] != "complete" or cell["errors"]:
                kinds = ", ".join(f"{e['count']} x {e['kind']}" for e in cell["errors_by_status"])
                sizes = f"file {cell['file_bytes']} bytes, record {cell['record_bytes']} bytes"
                return f"{cell['op']}, {sizes}: {cell['first_error'] or kinds or cell['stop_reason']}"
        said = [one["message"] for one in run.document["warnings"] if one["kind"] == "error"]
        return said[0] if said else "not all cells were measured"

    def _print(self, words: str) -> None:
        if not self.plan.args.json:
            self._out.write(words)
            self._out.flush()
