"""What the cuts say together: totals, a table, and sentences that claim no more than was seen. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from naslab.results.parts.durable import Durable, DurableAge, DurableCut, DurableMetadata, DurableMode
from naslab.units import duration_text, percent_text, size_text

if TYPE_CHECKING:
    from naslab.commands.durable.plan import Plan

_COUNTS = (
    "acknowledged", "promised", "unacknowledged", "unacknowledged_found", "survived", "overwritten", "lost", "torn",
    "damaged", "violations", "at_risk",
)  # fmt: skip
_METADATA_COUNTS = ("acknowledged", "promised", "survived", "lost", "violations")
KIND_WORDS = {
    "power": "the server's power was cut",
    "process": "the server program was killed and restarted: a crash of the program, not a power cut, because the "
    "machine it runs on kept its cache",
    "unknown": "the power cut was not confirmed: the result is about power cuts only if it was one",
}
_CUT_NOUNS = {
    "power": ("power cut", "power cuts"),
    "process": ("crash of the server program", "crashes of the server program"),
    "unknown": ("cut", "cuts"),
}
_ENOUGH_CUTS = 30
_ON_WHOSE_WORD = {
    "command": ", if the given command does that", "ask": ", as was confirmed", "later": ", as was confirmed",
}  # fmt: skip
_MODE_WORDS = {
    "none": "never flushed", "end": "flushed after every {flush_writes:,} writes", "each": "every write durable",
}  # fmt: skip
_OP_WORDS = {
    "create": "files created", "contents": "flushed contents of new files", "rename": "files renamed",
    "extend": "files extended", "remove": "files removed",
}  # fmt: skip


def totals(cuts: list[DurableCut], plan: Plan, checked_run: str | None = None) -> Durable:
    """Sums over the cuts. loss_bound95: without a violation, the share of cuts that may break a promise all the same.

    Source of the bound: none of n independent trials; the exact upper limit 1 - 0.05^(1/n), about 3/n (the rule of
    three; Hanley and Lippman-Hand, JAMA 249, 1983). The trial is the cut: writes of one cut are lost together.
    """
    modes = [_sum(rows) for rows in zip(*(cut.modes for cut in cuts), strict=True)]
    metadata = [
        DurableMetadata(op=rows[0].op, **_added(rows, _METADATA_COUNTS))
        for rows in zip(*(cut.metadata for cut in cuts), strict=True)
    ]
    broken = [row.violations for row in modes] + [row.violations for row in metadata]
    violations = sum(broken) + sum(cut.verifier_violation for cut in cuts)
    kinds = {cut.kind for cut in cuts}
    return Durable(
        kind=next(iter(kinds)) if len(kinds) == 1 else "unknown",
        file_bytes=plan.file_bytes, record_bytes=plan.record_bytes, queue_depth=plan.queue_depth,
        flush_writes=plan.flush_batches * plan.queue_depth, violations=violations,
        loss_bound95=1 - 0.05 ** (1 / len(cuts)) if cuts and not violations else None,
        modes=modes, metadata=metadata, cuts=cuts, checked_run=checked_run,
    )  # fmt: skip


def _added(rows: Sequence[DurableMode] | Sequence[DurableMetadata], names: Sequence[str]) -> dict[str, int]:
    return {name: sum(getattr(row, name) for row in rows) for name in names}


def _sum(rows: Sequence[DurableMode]) -> DurableMode:
    """One mode over all cuts."""
    ages: dict[int, DurableAge] = {}
    for age in (age for row in rows for age in row.ages):
        known = ages.setdefault(age.from_ns, DurableAge(age.from_ns, age.to_ns, 0, 0))
        known.judged += age.judged
        known.survived += age.survived
    kinds = rows[0].violations_by_kind
    return DurableMode(
        mode=rows[0].mode, **_added(rows, _COUNTS),
        violations_by_kind={kind: sum(row.violations_by_kind[kind] for row in rows) for kind in kinds},
        reach_ns=max((row.reach_ns for row in rows if row.reach_ns is not None), default=None),
        ages=[ages[at] for at in sorted(ages)],
    )  # fmt: skip


HEADER = (
    "mode", "acknowledged", "guaranteed", "survived", "overwritten", "lost", "torn", "damaged", "violations",
)  # fmt: skip
METADATA_HEADER = ("metadata", "acknowledged", "guaranteed", "survived", "lost", "violations")


def rows(part: Durable) -> Iterator[tuple[str, ...]]:
    """A row for each mode, in the columns of HEADER."""
    for row in part.modes:
        known = row.acknowledged, row.promised, row.survived, row.overwritten
        counts = *known, row.lost, row.torn, row.damaged, row.violations
        yield row.mode, *(f"{number:,}" for number in counts)


def metadata_rows(part: Durable) -> Iterator[tuple[str, ...]]:
    """A row for each kind of metadata, in the columns of METADATA_HEADER."""
    for row in part.metadata:
        counts = row.acknowledged, row.promised, row.survived, row.lost, row.violations
        yield _OP_WORDS[row.op], *(f"{number:,}" for number in counts)


def sentences(part: Durable) -> list[str]:
    """The result in words, what matters most first."""
    if not part.cuts:
        return ["No power cut was checked, so there is no result."]
    by = _ON_WHOSE_WORD.get(part.cuts[-1].how, "") if part.kind == "power" else ""
    told = [verdict(part), f"What happened: {KIND_WORDS[part.kind]}{by}.", *_control(part)]
    told += [_mode(row, part) for row in part.modes]
    told += list(_metadata(part))
    told += list(_verifier(part))
    return told


def verdict(part: Durable) -> str:
    """Whether promises were kept, and how much that says."""
    count = len(part.cuts)
    cuts = f"1 {_CUT_NOUNS[part.kind][0]}" if count == 1 else f"{count} {_CUT_NOUNS[part.kind][1]}"
    if part.violations:
        were = "1 guarantee was" if part.violations == 1 else f"{part.violations:,} guarantees were"
        return f"VIOLATION: the server acknowledged data before they were durable: {were} broken in {cuts}."
    if not any(row.promised for row in part.modes) and not any(row.promised for row in part.metadata):
        return "No guarantee was tested: the protocol guaranteed none of the data acknowledged before the cut."
    at_risk = sum(row.at_risk for row in part.modes)
    each = (
        f" {at_risk:,} guaranteed writes of the last 30 s were at risk; if independent, that would bound their loss by "
        f"{percent_text(3 / at_risk, 1)}, but writes of one cut are lost together."
        if at_risk
        else ""
    )
    more = " More cuts (--repeat) narrow this." if count < _ENOUGH_CUTS else ""
    return (
        f"No guarantee was broken in {cuts}. This does not prove durability: with 95 % confidence fewer "
        f"than {100 * (part.loss_bound95 or 0.0):.0f} % of such cuts break a guarantee (rule of three: about "
        f"3/cuts).{each}{more}"
    )


def _control(part: Durable) -> Iterator[str]:
    """Unflushed writes are the control: a cut that took none of them may have been none."""
    free = [age for row in part.modes for age in row.ages]
    judged, survived = sum(age.judged for age in free), sum(age.survived for age in free)
    if part.kind != "process" and judged and judged == survived:
        yield (
            f"CAUTION: none of {judged:,} writes without a guarantee was lost either. The server may make all "
            "writes durable or keep its cache through a cut (battery, flash); or its power was not cut, and nothing "
            "was tested."
        )


def _mode(row: DurableMode, part: Durable) -> str:
    how = _MODE_WORDS[row.mode].format(flush_writes=part.flush_writes)
    head = f"{row.mode} ({how}): {row.acknowledged:,} writes of {size_text(part.record_bytes)} acknowledged"
    judged = row.acknowledged - row.overwritten
    if row.mode != "none":
        head += f", {row.promised:,} of them guaranteed"
    head += f"; {row.survived:,} of {judged:,} not overwritten later survived"
    counted = (("lost", row.lost), ("torn", row.torn), ("damaged", row.damaged))
    gone = [f"{count:,} {name}" for name, count in counted if count]
    if gone:
        back = f", back to {duration_text(row.reach_ns)} before the last acknowledgement" if row.reach_ns else ""
        head += f"; {', '.join(gone)}{back}"
    kinds = {"lost": "lost", "torn": "torn", "damaged": "damaged"}
    broken = [
        f"{row.violations_by_kind[kind]:,} {word}" for kind, word in kinds.items() if row.violations_by_kind[kind]
    ]
    told = [f"{', '.join(broken)} of those guaranteed"] if broken else []
    if row.violations_by_kind["first_contents"]:
        told.append(f"{row.violations_by_kind['first_contents']:,} records without their flushed first contents")
    if told:
        return f"{head}. VIOLATION: {'; '.join(told)}."
    return head + ("; that breaks no guarantee." if gone else ".")


def _metadata(part: Durable) -> Iterator[str]:
    broken = [row for row in part.metadata if row.violations]
    allowed = [row for row in part.metadata if row.lost > row.violations]
    for row in broken:
        gone = f"{row.violations:,} of {row.promised:,} {_OP_WORDS[row.op]}"
        yield f"Metadata: {gone} were lost although guaranteed."
    for row in allowed:
        lost = row.lost - row.violations
        yield (
            f"Metadata: {lost:,} of {row.acknowledged:,} {_OP_WORDS[row.op]} were lost; the protocol does "
            "not guarantee them."
        )
    if not broken and not allowed and part.metadata:
        counted = ", ".join(f"{row.acknowledged:,} {_OP_WORDS[row.op]}" for row in part.metadata)
        yield f"Metadata: everything checked is as acknowledged ({counted})."


def _verifier(part: Durable) -> Iterator[str]:
    cuts = [cut for cut in part.cuts if cut.to_send_again is not None]
    if not cuts:
        return
    changed, same = (sum(cut.verifier_changed is value for cut in cuts) for value in (True, False))
    again = sum(cut.to_send_again or 0 for cut in cuts)
    unknown = len(cuts) - changed - same
    seen = [f"changed at {changed}" if changed else "", f"stayed at {same}" if same else ""]
    seen += [f"was unknown at {unknown}" if unknown else ""]
    yield (
        f"NFS write verifier: {', '.join(filter(None, seen))} of {len(cuts)} cuts. {again:,} acknowledged writes were "
        "not committed: a client sends these again when the verifier changes."
    )
    if any(cut.verifier_violation for cut in cuts):
        yield "VIOLATION: uncommitted writes were lost, but the verifier stayed the same: no client sends them again."
