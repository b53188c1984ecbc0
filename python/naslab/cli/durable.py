"""`naslab durable`: which acknowledged writes survive a cut of the server's power."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from naslab.cli.arguments import DurableArguments
from naslab.cli.cold import ColdCommand
from naslab.cli.common import Common, finish
from naslab.commands.durable import journal as journals
from naslab.commands.durable.block import SECTOR_BYTES
from naslab.commands.durable.cutters import AskCutter, CommandCutter, Cutter, How, LabCutter
from naslab.commands.durable.plan import METADATA, MODES, Plan
from naslab.commands.durable.proof import Proof
from naslab.errors import NaslabError, UsageError
from naslab.execution.execute import Execution, engine_errors, start
from naslab.execution.waits import is_in_doubt, termination_as_interrupt
from naslab.results.describe import plain
from naslab.results.store import Store
from naslab.spec import CellSpec
from naslab.units import parse_duration, parse_size

if TYPE_CHECKING:
    from naslab.results.parts.durable import Durable
    from naslab.targets import Target

MOST_RECORD_BYTES, MOST_FILE_BYTES = 1 << 20, 1 << 32
LATER: How = "later"
_LOCAL = (
    "a path is read through this machine's caches: the check covers the disk only if this machine lost its "
    "power; name a share as smb:// or nfs://, not by its mount point"
)


def _plan(arguments: DurableArguments, seed: int) -> Plan:
    """What is written, without run and folder yet. Raises UsageError."""
    record, size = parse_size(arguments.block, "--block"), parse_size(arguments.size, "--size")
    if record % SECTOR_BYTES or not SECTOR_BYTES <= record <= MOST_RECORD_BYTES:
        raise UsageError(f"--block {arguments.block}: give a multiple of 512 bytes, up to 1m")
    if size % record or not record <= size <= MOST_FILE_BYTES:
        raise UsageError(f"--size {arguments.size}: give a multiple of --block {arguments.block}, up to 4g")
    if arguments.depth > size // record:
        raise UsageError(
            f"--depth {arguments.depth}: a file of {arguments.size} has {size // record} blocks of {arguments.block}; "
            "give a smaller --depth or a larger --size"
        )
    if arguments.group % arguments.depth:
        raise UsageError(f"--group {arguments.group}: give a multiple of --depth {arguments.depth}")
    return Plan("", "", seed, size, record, arguments.depth, arguments.group // arguments.depth, _loads(arguments))


def _loads(arguments: DurableArguments) -> tuple[str, ...]:
    every = (*MODES, METADATA)
    given = every if arguments.modes == "all" else tuple(arguments.modes.split(","))
    for name in given:
        if name not in every:
            raise UsageError(f"--modes {name!r}: there are {', '.join(every)}; several with commas, or all")
    return tuple(name for name in every if name in given)


def _load_s(arguments: DurableArguments) -> float:
    """`--load`. Raises UsageError."""
    return _seconds(arguments.load, "--load")


def _wait_s(arguments: DurableArguments) -> float:
    """`--wait`. Raises UsageError."""
    return _seconds(arguments.wait, "--wait")


def _check_texts(arguments: DurableArguments) -> None:
    """What contradicts itself whatever the target is. Raises UsageError."""
    _load_s(arguments), _wait_s(arguments)
    for option, given in (("--cut-command", arguments.cut_command), ("--restore-command", arguments.restore_command)):
        if given is not None and not given.strip():
            raise UsageError(f"{option}: is empty; give the command, or leave it out")
    if arguments.restore_command is not None and arguments.cut_command is None:
        raise UsageError("--restore-command: goes with --cut-command; give that, too")
    if arguments.cut not in ("", "ask", "lab"):
        raise UsageError(f"--cut {arguments.cut!r}: use ask or lab, or give --cut-command CMD")
    if arguments.cut and arguments.cut_command is not None:
        raise UsageError(f"--cut {arguments.cut}: --cut-command cuts by itself; leave one of them out")
    if arguments.check is None:
        return
    others = {
        "--cut": arguments.cut, "--cut-command": arguments.cut_command, "--journal": arguments.journal,
        "--repeat": arguments.repeat if arguments.repeat > 1 else None,
        "--modes": arguments.modes if arguments.modes != "all" else None,
    }  # fmt: skip
    for option, value in others.items():
        if value:
            raise UsageError(f"{option}: --check makes no cut; leave {option} out")


def cutter(arguments: DurableArguments, target: Target, timeout_s: float) -> Cutter:
    """Who cuts. Raises UsageError where a cut makes no sense."""
    _check_protocol(target)
    if arguments.cut_command is not None:
        if target.protocol == "local":
            raise UsageError("--cut-command: this machine would go down with its path; use --cut ask, then --check")
        cutting = ColdCommand(arguments.cut_command, target, timeout_s, "--cut-command", waits=False)
        restoring = None
        if arguments.restore_command is not None:
            restoring = ColdCommand(
                arguments.restore_command, target, _wait_s(arguments), "--restore-command", waits=False, limit="--wait"
            )
        return CommandCutter(cutting, restoring)
    if arguments.cut == "lab" or (target.lab and not arguments.cut):
        return _lab_cutter(target)
    return AskCutter(_wait_s(arguments), sys.stdin is not None and sys.stdin.isatty())


def _seconds(text: str, option: str) -> float:
    found = parse_duration(text, option)
    if found <= 0:
        raise UsageError(f"{option} {text!r}: give more than 0")
    return found / 1e9


def _check_protocol(target: Target) -> None:
    if target.protocol in ("null", "sim"):
        kind = "keeps nothing" if target.protocol == "null" else "is simulated in this process"
        raise UsageError(
            f"target {target.url!r}: it {kind}, so a power cut makes no sense; name a server, a folder or lab:NAME"
        )


def _lab_cutter(target: Target) -> Cutter:
    """Of the lab's server that a lab: target stands for. Raises UsageError without one."""
    if not target.lab:
        raise UsageError(f"--cut lab: {target.url} is no lab:NAME; use ask, or give --cut-command CMD")
    from naslab.lab import session

    server = session.started(target.lab["name"])
    if server is None:
        raise UsageError(f"--cut lab: the lab's {target.lab['name']} is not running; name it again as target")
    # A guest goes with its server's program, and what it had not written to its disks goes with it.
    return LabCutter("power" if server.facts.get("guests") else "process", server.kill, server.restart)


def run_durable(arguments: DurableArguments) -> int:
    """`naslab durable TARGET`."""
    common = Common.of("durable", arguments)
    common.check()
    _check_texts(arguments)
    plan = _plan(arguments, common.seed)
    if arguments.check is not None:
        return _check(arguments, common, arguments.check)
    target = common.target(arguments.target)
    power = cutter(arguments, target, common.timeout_ns() / 1e9)
    _check_journal(arguments.journal or Store(common.store).path, target)
    execution = _start(common, target, plan)
    plan = dataclasses.replace(plan, run_id=execution.run_id, folder=str(execution.spec.folder))
    path = arguments.journal or execution.store.path.absolute().parent / f"durable-{execution.run_id}.journal"
    try:
        journal = journals.Journal.create(path.absolute(), plan, {"url": target.url, "protocol": target.protocol})
    except UsageError as error:
        execution.withdraw(error)
        raise
    proof = _proof(arguments, common, execution, plan, power, journal)
    code = _carry_out(proof, common, execution, lambda keep: proof.carry_out(arguments.repeat, keep))
    if not proof.owes_check and arguments.journal is None:
        path.unlink(missing_ok=True)
    return code


def _start(common: Common, target: Target, plan: Plan) -> Execution:
    """The run in the store. Its cells are there for the room they need; none is measured."""
    spec = common.run_spec()
    spec.cells = [
        CellSpec(
            "random_write", plan.file_bytes, plan.record_bytes, [mode], id=number, queue_depth=plan.queue_depth,
            durability=mode, write_fraction=1.0,
        )
        for number, mode in enumerate(MODES)
    ]  # fmt: skip
    return start(spec, target, Store(common.store), document_extra=common.document_extra())


def _check_journal(path: Path, target: Target) -> None:
    """Raises UsageError where the journal would go down with the target, or cannot be made."""
    folder = path.absolute().parent
    if path.is_dir():
        raise UsageError(f"--journal {path}: this is a folder; name a file in it")
    if target.protocol != "local":
        return
    while not folder.exists():
        folder = folder.parent
    with contextlib.suppress(OSError):
        if os.stat(folder).st_dev == os.stat(target.options["root"]).st_dev:
            raise UsageError(
                f"--journal {path}: it is on the disk under test, {target.options['root']}; name a file on "
                "another disk or machine (a path of a server that is not tested)"
            )


def _proof(
    arguments: DurableArguments, common: Common, execution: Execution, plan: Plan, cutter: Cutter,
    journal: journals.Journal,
) -> Proof:  # fmt: skip
    def say(text: str) -> None:
        if not common.quiet:
            print(f"naslab: {text}", file=sys.stderr, flush=True)

    return Proof(
        execution.target, execution.document["target"].get("dialect"), plan, cutter, journal, _load_s(arguments),
        _wait_s(arguments), common.timeout_ns() / 1e9, say,
    )  # fmt: skip


def _check(arguments: DurableArguments, common: Common, path: Path) -> int:
    """`naslab durable --check JOURNAL TARGET`."""
    recorded = journals.read(path)
    if not recorded.cuts or not recorded.cuts[-1].filled:
        raise UsageError(
            f"--check {path}: its load had not started, so there is nothing to check; "
            f"`naslab clean {arguments.target}` removes its files"
        )
    if recorded.cuts[-1].result is not None:
        raise UsageError(f"--check {path}: its last cut was checked already; see `naslab runs`")
    target = common.target(arguments.target)
    _check_protocol(target)
    if target.protocol != recorded.head.get("protocol"):
        raise UsageError(
            f"target {target.url!r}: the journal belongs to {recorded.head.get('url')!r}; "
            "name the same share, export or folder"
        )
    power = AskCutter(_wait_s(arguments), sys.stdin is not None and sys.stdin.isatty(), how=LATER)
    journal = journals.Journal.reopen(path, recorded.sound_bytes)
    execution = _start(common, target, recorded.plan)
    proof = _proof(arguments, common, execution, recorded.plan, power, journal)
    return _carry_out(proof, common, execution, lambda keep: proof.check_later(recorded, keep))


def _carry_out(
    proof: Proof, common: Common, execution: Execution, work: Callable[[Callable[[Durable], None]], None]
) -> int:
    """Does the work, cleans up unless a check is owed, ends the run; the exit code."""
    failure: NaslabError | None = None
    in_doubt = False
    if execution.target.protocol == "local":
        execution.warn("client_cache", _LOCAL)
    with termination_as_interrupt():
        execution.begun = True
        try:
            with engine_errors(execution.target.url):
                work(lambda part: execution.keep(durable=plain(part)))
        except KeyboardInterrupt:
            execution.status, in_doubt = "partial", True
            execution.warn("interrupted", "the run was interrupted; the cuts checked so far are kept")
        except NaslabError as error:
            failure, execution.status, in_doubt = error, "failed", is_in_doubt(error)
        finally:
            proof.journal.close()
        if proof.owes_check:
            _tell_owed(proof, execution)
        else:
            for left in proof.clean(in_doubt):
                execution.note_left(left)
        violations = proof.part.violations if proof.part else 0
        if violations:
            execution.warn("acknowledges_before_durable", f"{violations} guarantees were broken: see `durable`")
        code = finish(execution, common, failure)
    if violations and not code:
        print(f"naslab: {violations} guarantees were broken; run {execution.run_id} shows which", file=sys.stderr)
    return code or int(bool(violations))


def _tell_owed(proof: Proof, execution: Execution) -> None:
    message = (
        f"a power cut was made but not checked: continue with `naslab durable --check {proof.journal.path} "
        f"{execution.target.url}`; until then the target keeps {proof.plan.folder}"
    )
    execution.warn("unchecked_cut", message)
    print(f"naslab: {message}", file=sys.stderr, flush=True)
