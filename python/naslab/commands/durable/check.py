"""Judges every write of a file by its content after the cut.

A record holds sectors of the generations `low` to `high`. A write that was acknowledged, of generation g, then

- survived where low = high = g;
- was overwritten where low > g: all its sectors gave way to later writes, and nothing can be said about it;
- is lost where high < g: all of the record is older;
- is torn where low <= g <= high, low < high: some sectors are older or newer;
- is damaged where sectors of the record hold nothing that was written there, and no earlier rule says where it went.

It was promised where a flush that began after it was acknowledged was acknowledged, too, or where it was itself a
durable write. Then a loss is a violation, and so are sectors older than it. Damage is one where no later write of the
record was issued: a sector that was being written when the power went may be neither old nor new. The first contents
of all records were flushed before the load: a record without them that nothing promised replaced is a violation, too.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from naslab import _engine
from naslab.commands.durable.block import UNREADABLE, Found, Tagger
from naslab.commands.durable.metadata import AWAY
from naslab.commands.durable.plan import FILL, FIRST, MODES, Mode
from naslab.errors import TargetError
from naslab.results.parts.durable import DurableAge, DurableMode

if TYPE_CHECKING:
    from naslab.commands.durable.journal import CutFacts, ModeFacts
    from naslab.commands.durable.plan import Plan

AT_RISK_NS = 30_000_000_000
"""Writes acknowledged so shortly before the end are where a loss is to be looked for: older ones are mostly on the disk
anyway (Linux writes back what is older than 30 s, vm.dirty_expire_centisecs)."""
AGES_NS = (0, 10**9, 5 * 10**9, 10 * 10**9, 30 * 10**9, 1 << 62)
"""Bounds of the ages by which survival of writes without a promise is told."""
_READ_RECORDS = 64
_READ = json.dumps({"read": True})

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Writes:
    """Writes of the load on one file, in the order of their generations. ack_ns: 0 where not acknowledged."""

    record: Ints
    generation: Ints
    ack_ns: Ints
    promised: Flags


@dataclass(frozen=True)
class Records:
    """What a file holds, for each of its records: see `block.Found`. bad: it has a sector that is not sound."""

    low: Ints
    high: Ints
    bad: Flags


def writes_of(plan: Plan, cut: int, mode: str, facts: ModeFacts, further: int = 1) -> Writes:
    """All writes that may have been issued: those of the journal, and so many `further` batches after the last."""
    count = max((batch for batch, _, _ in facts.batches), default=-1) + 1 + further
    order = plan.batches(cut, mode)
    record = np.array([next(order) for _ in range(count)], np.int64).reshape(-1)
    ack_ns = np.zeros((count, plan.queue_depth), np.int64)
    for batch, only, at in facts.batches:
        ack_ns[batch, slice(None) if only is None else only] = at
    covered = max((batch for batch, _ in facts.flushes), default=-1)
    promised = np.zeros((count, plan.queue_depth), np.bool_)
    promised[: count if mode == "each" else covered + 1] = True
    ack = ack_ns.reshape(-1)
    return Writes(record, np.arange(len(record), dtype=np.int64) + FIRST, ack, promised.reshape(-1) & (ack > 0))


def read_records(session: _engine.Session, plan: Plan, cut: int, mode: str) -> Records:
    """Reads a mode's whole file; a missing one holds nothing, and one that cannot be opened or read nothing sound.

    Raises TargetError when the server is lost.
    """
    length, tagger = plan.record_bytes, Tagger(plan.tag(cut), MODES.index(mode))
    found: list[Found] = []
    try:
        file = session.open(plan.path(cut, mode), _READ)
    except TargetError as error:
        if error.kind in AWAY:
            raise
        return records([Found(0, 0, 0) if error.kind == "not_found" else UNREADABLE] * plan.records)
    for first in range(0, plan.records, _READ_RECORDS):
        offsets = [record * length for record in range(first, min(first + _READ_RECORDS, plan.records))]
        outcomes = session.run_ops(file, [("read", offset, length) for offset in offsets], plan.queue_depth)
        for offset, (_, data, kind, status) in zip(offsets, outcomes, strict=True):
            if kind in AWAY:
                raise TargetError(f"read: {session.explain(kind or 'io', status)}", kind, status)
            readable = kind in (None, "short")
            found.append(tagger.look(data or b"", offset, length) if readable else UNREADABLE)
    session.close(file)
    return records(found)


def records(found: list[Found]) -> Records:
    """As arrays."""
    low, high, bad = (np.array([getattr(one, name) for one in found], np.int64) for name in ("low", "high", "bad"))
    return Records(low, high, bad > 0)


def judge(mode: Mode, writes: Writes, found: Records) -> DurableMode:
    """Every acknowledged write in exactly one class."""
    acked = writes.ack_ns > 0
    at, generation = writes.record, writes.generation
    low, high, bad = found.low[at], found.high[at], found.bad[at]
    over = acked & (low > generation) & ~bad
    lost = acked & (high < generation) & ~bad
    survived = acked & (low == generation) & (high == generation) & ~bad
    torn = acked & ~(over | lost | survived) & ~bad
    newest = _newest(writes, np.ones(len(at), np.bool_), len(found.low))
    kept = _newest(writes, writes.promised, len(found.low))
    hurt_over = acked & bad & (generation < kept[at])
    damaged = acked & bad & ~hurt_over
    guilty_damage = damaged & writes.promised & (generation == kept[at])
    guilty_damage &= (newest[at] == generation) | (low < generation)
    torn_old = torn & writes.promised & (low < generation)
    emptied = (kept <= FILL) & ((found.low < FILL) | found.bad & (newest <= FILL))
    violations = {
        "lost": int((lost & writes.promised).sum()), "torn": int(torn_old.sum()),
        "damaged": int(guilty_damage.sum()), "first_contents": int(emptied.sum()),
    }  # fmt: skip
    counts = {
        "survived": survived, "overwritten": over | hurt_over, "lost": lost, "torn": torn, "damaged": damaged
    }  # fmt: skip
    age, judged = _ages(writes), acked & ~(over | hurt_over)
    gone = judged & ~survived
    return DurableMode(
        mode=mode,
        acknowledged=int(acked.sum()),
        promised=int(writes.promised.sum()),
        unacknowledged=int((~acked).sum()),
        unacknowledged_found=_unacknowledged(writes, found),
        **{name: int(flags.sum()) for name, flags in counts.items()},
        violations=sum(violations.values()),
        violations_by_kind=violations,
        at_risk=int((judged & writes.promised & (age <= AT_RISK_NS)).sum()),
        reach_ns=int(age[gone].max()) if gone.any() else None,
        ages=list(_by_age(age, judged & ~writes.promised, survived)),
    )


def _newest(writes: Writes, chosen: Flags, count: int) -> Ints:
    """For each record the newest generation of the chosen writes, FILL without one."""
    newest = np.full(count, FILL, np.int64)
    np.maximum.at(newest, writes.record[chosen], writes.generation[chosen])
    return newest


def _unacknowledged(writes: Writes, found: Records) -> int:
    """How many writes that nobody had acknowledged are there all the same, whole."""
    pending = writes.ack_ns == 0
    here = (found.low[writes.record] == writes.generation) & (found.high[writes.record] == writes.generation)
    return int((pending & here & ~found.bad[writes.record]).sum())


def _ages(writes: Writes) -> Ints:
    """From each write's acknowledgement to the last acknowledgement of the mode; 0 of the others."""
    return np.where(writes.ack_ns > 0, int(writes.ack_ns.max(initial=0)) - writes.ack_ns, 0)


def _by_age(age: Ints, free: Flags, survived: Flags) -> Iterator[DurableAge]:
    for low, high in itertools.pairwise(AGES_NS):
        inside = free & (age >= low) & (age < high)
        if inside.any():
            bound = None if high == AGES_NS[-1] else high
            yield DurableAge(low, bound, int(inside.sum()), int((inside & survived).sum()))


def check(session: _engine.Session, plan: Plan, facts: CutFacts, further: int = 1) -> list[DurableMode]:
    """Reads and judges the files of a cut; a row for each mode. further: as of `writes_of`. Raises TargetError."""
    found = []
    for mode in plan.modes:
        writes = writes_of(plan, facts.number, mode, facts.modes[mode], further)
        found.append(judge(mode, writes, read_records(session, plan, facts.number, mode)))
    return found
