"""Cut after cut: fill, load, cut, wait for the server, check; and what that says together."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from naslab import _engine
from naslab.commands.durable import check, metadata, place, words
from naslab.commands.durable.journal import CutFacts, Journal, Recorded, read
from naslab.commands.durable.load import MOST_WRITES_PER_S, Load, end_quietly, fill
from naslab.commands.durable.plan import METADATA
from naslab.commands.durable.verifier import Sentinel
from naslab.commands.jobs.place import remove_tree
from naslab.errors import TargetError
from naslab.execution import workspace
from naslab.results.describe import plain, typed
from naslab.results.parts.durable import Durable, DurableCut, DurableMetadata
from naslab.units import duration_text

if TYPE_CHECKING:
    from naslab.commands.durable.cutters import Cutter
    from naslab.commands.durable.plan import Plan
    from naslab.targets import Target

RETRY_S = 0.5


@dataclass
class Proof:
    """One run of cuts. part: the run document's `durable`, up to date after every cut. owes_check: a cut was made and
    not checked, so that folder and journal must stay.
    """

    target: Target
    dialect: str | None
    plan: Plan
    cutter: Cutter
    journal: Journal
    load_s: float
    wait_s: float
    timeout_s: float
    say: Callable[[str], None] = lambda text: None
    part: Durable | None = None
    owes_check: bool = False

    def carry_out(self, cuts: int, on_part: Callable[[Durable], None]) -> None:
        """All cuts; `on_part` hears the part after each. Raises NaslabError, KeyboardInterrupt."""
        for number in range(cuts):
            with self._session() as session:
                sentinel = self._prepare(session, number)
            facts, load_ns = self._load_and_cut(number, sentinel)
            on_part(self._after(facts, load_ns, sentinel))

    def check_later(self, recorded: Recorded, on_part: Callable[[Durable], None]) -> None:
        """Checks the last cut of a journal that another process wrote. Raises NaslabError."""
        cuts = [typed(cut.result, DurableCut) for cut in recorded.cuts if cut.result is not None]
        self.part = words.totals(cuts, self.plan, recorded.plan.run_id)
        self.owes_check = True
        on_part(self._after(recorded.cuts[-1], None, None))

    def _prepare(self, session: _engine.Session, number: int) -> Sentinel | None:
        self.say(f"writing and flushing {len(self.plan.modes)} files of {self.plan.file_bytes:,} bytes")
        self.journal.write(cut=number)
        if number == 0:
            place.make(session, self.target, self.plan.folder, self.plan.run_id)
        else:
            remove_tree(session, self.plan.place(number - 1))
        fill(session, self.plan, number)
        place.sync_folders(self.target, [self.plan.folder, self.plan.place(number)])
        return Sentinel(session, self.plan, number) if metadata.is_nfs3(self.target.protocol, self.dialect) else None

    def _load_and_cut(self, number: int, sentinel: Sentinel | None) -> tuple[CutFacts, int]:
        with self._session() as session:
            load = Load(session, self.plan, number, self.journal)
            self.journal.write(filled=True)
            began = time.monotonic_ns()
            try:
                load.start()
                self._cut(load)
                self.owes_check = True
            except BaseException:
                self.owes_check = load.lost.is_set() and load.failure is None
                load.stop()
                if sentinel is not None:
                    sentinel.end()
                raise
            if self.target.protocol != "local":
                load.join()
            lost_ns = load.lost_ns or time.monotonic_ns()
            self.journal.write(lost=lost_ns)
            self.cutter.restore()
            load.stop()
        self.journal.settle()
        return read(self.journal.path).cuts[-1], lost_ns - began

    def _cut(self, load: Load) -> None:
        """Raises TargetError where the load ended before the cut, or goes on after it."""
        if self.cutter.how != "ask":
            self.say(f"load for {duration_text(int(self.load_s * 1e9))}, then the cut")
            if load.lost.wait(self.load_s):
                raise load.failure or TargetError("the server was lost before the power cut: check it first", "lost")
        self.cutter.cut(load.lost)
        if self.target.protocol == "local":
            return
        if not load.lost.wait(2 * self.timeout_s + 1):
            raise TargetError(
                "the power cut did not reach the server, which kept answering; check what was switched off", "no_cut"
            )
        if load.failure is not None:
            raise load.failure

    def _after(self, facts: CutFacts, load_ns: int | None, sentinel: Sentinel | None) -> Durable:
        """Waits for the server and checks. Keeps the result in the journal, too."""
        self.say("waiting for the server")
        self._wait()
        away_ns = None if load_ns is None or facts.lost_ns is None else time.monotonic_ns() - facts.lost_ns
        self.cutter.confirm()
        self.say("reading everything back")
        place.drop_cached(self.target, self.plan.place(facts.number))
        # Another process may have lost the end of its journal with its machine.
        further = 1 if load_ns is not None else 1 + -(-MOST_WRITES_PER_S // self.plan.queue_depth)
        with self._session() as session:
            modes = check.check(session, self.plan, facts, further)
            rows: list[DurableMetadata] = []
            if METADATA in self.plan.loads:
                promised = metadata.promises(self.target.protocol, self.dialect)
                rows = metadata.judge(session, self.plan, facts, promised)
        changed = self._verifier_changed(sentinel)
        uncommitted = sum(row.acknowledged - row.promised for row in modes if row.mode != "each")
        # An NFS server that lost uncommitted writes and kept its verifier keeps that from its clients.
        lost = any(row.lost + row.torn + row.damaged for row in modes)
        result = DurableCut(
            kind=self.cutter.kind, how=self.cutter.how, load_ns=load_ns, away_ns=away_ns, modes=modes, metadata=rows,
            verifier_changed=changed, to_send_again=uncommitted if self.target.protocol == "nfs" else None,
            verifier_violation=changed is False and lost,
        )  # fmt: skip
        self.journal.write(result=plain(result))
        known, checked_run = (self.part.cuts, self.part.checked_run) if self.part else ([], None)
        self.part = words.totals([*known, result], self.plan, checked_run)
        self.owes_check = False
        return self.part

    @staticmethod
    def _verifier_changed(sentinel: Sentinel | None) -> bool | None:
        if sentinel is None:
            return None
        changed = sentinel.changed()
        sentinel.end()
        return changed

    def _wait(self) -> None:
        end = time.monotonic() + self.wait_s
        while True:
            try:
                with self._session() as session:
                    session.readdir("")
                return
            except TargetError as error:
                if time.monotonic() > end:
                    raise TargetError(f"--wait: the server does not answer: {error}", error.kind) from error
            time.sleep(RETRY_S)

    @contextlib.contextmanager
    def _session(self) -> Iterator[_engine.Session]:
        session = _engine.Session(self.target.engine_json(), self.plan.queue_depth)
        try:
            yield session
        finally:
            end_quietly(session)

    def clean(self, in_doubt: bool = False) -> list[str]:
        """Removes the folder on the target; what is left of it. in_doubt: see `workspace.remove`."""
        return workspace.remove(self.target.engine_json(), self.plan.folder, self.plan.run_id, in_doubt=in_doubt)
