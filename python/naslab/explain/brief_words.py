"""The answer of a run in at most ten lines of at most 80 columns. Pure functions of `brief.Brief`."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from naslab.explain import tell, trust
from naslab.explain.brief import Bottleneck, Brief, Measured
from naslab.explain.gains import Effect, Gain
from naslab.explain.normal import Normal
from naslab.units import count_text, rate_text

WIDTH, MAX_LINES, MAX_ACTIONS = 80, 10, 3
LONGER = "15m"
"""The budget to decide with, where no other is known."""
CERTAIN = trust.CERTAIN
"""A limit of a smaller probability is called probable, and the probability is printed."""
BY_MODEL = tell.BY_MODEL
_PLURAL = frozenset(("disk", "disk_iops", "shared_machine", "protocol"))
_NAMES = {
    "link": "the link",
    "latency": "the round-trip time", "disk_iops": "the disk IOPS", "unknown": "an unknown bottleneck",
    "protocol": "the protocol's window or slots", "client_nic": "the client's network interface",
    "shared_machine": "the processors that client and server share",
}  # fmt: skip
_DOING = {("read", "large"): "Copying large files from {}", ("write", "large"): "Copying large files to {}"}


def document_of(brief: Brief) -> dict[str, Any]:
    """As in the run document: `answer`, with its lines."""
    return {**msgspec.to_builtins(brief), "lines": lines(brief)}


def lines(brief: Brief, last: str = "", width: int = WIDTH) -> list[str]:
    """At most MAX_LINES, the last of which says where the report is. The least important ones are left out."""
    wanted = actions(brief)
    ways = ((trust.TELLING, False), (1, False), (1, True))
    tries = [_lines(brief, wanted, last, width, telling, known) for telling, known in ways]
    return next((found for found, acts in tries if acts or not wanted), tries[0][0])


def _lines(
    brief: Brief, wanted: Sequence[str], last: str, width: int, telling: int, known: bool
) -> tuple[list[str], list[str]]:  # fmt: skip
    """(all lines, those of actions). telling: doubts that are named at most. known: of what is normal only that."""
    end = folded(last, width)[:1]
    room = MAX_LINES - 1
    head = [line for sentence in bottlenecks(brief) for line in folded(sentence, width)][: room - 1]
    works = (folded(work_sentence(brief, paced), width) for paced in (True, False))
    head += next((work for work in works if len(head) + len(work) < room), [])
    trusted = folded(trust.words(brief.trust, brief.doubts, telling), width)[: max(room - len(head), 1)]
    room -= len(head) + len(trusted)
    usual = folded(normal_sentence(brief, known), width)
    usual = usual if len(usual) <= room else []
    acts = _fitting(wanted, room - len(usual), width)
    return [*head, *usual, *acts, *trusted, *end], acts


def _fitting(found: Sequence[str], room: int, width: int) -> list[str]:
    """Numbered actions as long as there is room: each whole, or not at all."""
    shown: list[str] = []
    for at, text in enumerate(found[:MAX_ACTIONS], 1):
        more = folded(f"{at}. {text}", width, indent=3)
        if len(shown) + len(more) > room:
            break
        shown += more
    return shown


def folded(text: str, width: int = WIDTH, indent: int = 2) -> list[str]:
    """A sentence in lines; what is longer than a line is cut in two."""
    return textwrap.wrap(text, width, subsequent_indent=" " * indent, break_on_hyphens=False) if text else []


def ending(run_id: str, report: Path | None = None) -> str:
    """Where the rest is: in one line."""
    if report is None:
        return f"Run {run_id}: naslab show last, naslab report last -o report.html"
    room = WIDTH - len(f"Report:  (run {run_id})")
    path = str(report)
    shown = path if len(path) <= room else f"...{path[-(room - 3) :]}"
    return f"Report: {shown} (run {run_id})"


@dataclass(frozen=True)
class Sections:
    """All of it for places without a bound on lines, a sentence each."""

    bottlenecks: list[str]
    normal: str
    actions: list[str]
    trust: str


def sections(brief: Brief) -> Sections:
    """The answer in parts."""
    told = [*bottlenecks(brief, "probability "), *filter(None, [work_sentence(brief)])]
    return Sections(told, normal_sentence(brief), actions(brief)[:MAX_ACTIONS], trust_sentence(brief))


# What limits.


def bottlenecks(brief: Brief, word: str = "") -> list[str]:
    """A sentence for large reads, one for large writes, one for small files. word: before a probability."""
    by_class = {(each.op, each.size): each for each in brief.bottlenecks}
    if not by_class:
        return [f"What limits {brief.place} is not clear: too little was measured."]
    told = [
        _large(doing.format(brief.place), by_class.get(where), word)
        for where, doing in _DOING.items()
    ]  # fmt: skip
    small = [found for where in (("read", "small"), ("write", "small")) if (found := by_class.get(where))]
    return [*told, _small(small, word)]


def _large(doing: str, found: Bottleneck | None, word: str) -> str:
    if found is None:
        return f"{doing}: not measured."
    at = f", at {stop(found)}" if found.ceiling is not None and found.decided else ""
    return f"{doing}: {amount(found)}; {limit_clause(found, word=word)}{at}."


def limit_clause(found: Bottleneck, it: str = "it", word: str = "") -> str:
    """`the disks limit it`, `the disks probably limit it (0.83)`, `not clear: the disks (0.50) or ...`."""
    first = found.limits[0]
    if not found.decided:
        named = " or ".join(f"{name(each.kind)} ({word}{each.probability:.2f})" for each in found.limits)
        return f"not clear: {named}"
    if first.kind == "client_cache":
        verb, it = "answered", "alone"
    else:
        verb = "limit" if first.kind in _PLURAL else "limits"
    if first.probability >= CERTAIN:
        return f"{name(first.kind)} {verb} {it}"
    return f"{name(first.kind)} probably {verb} {it} ({word}{first.probability:.2f})"


def name(kind: str) -> str:
    """A limit in a few words."""
    return _NAMES.get(kind, tell.kind_name(kind))


def amount(found: Bottleneck) -> str:
    """`60.2 MB/s`, `60.2 MB/s by the model`."""
    return tell.value_text(found.value, found.unit) + (BY_MODEL if found.modelled else "")


def stop(found: Bottleneck) -> str:
    """Where the limit stops it: what was measured, or the model's ceiling where that was not reached."""
    return amount(found) if found.ceiling is None else tell.value_text(found.ceiling, found.unit) + BY_MODEL


def _small(found: Sequence[Bottleneck], word: str) -> str:
    """Reads and writes of 4 KiB in one sentence; one clause where the same limits both."""
    if not found:
        return "Small files: not measured."
    counts = [f"{count_text(each.value)} {each.op}s/s{BY_MODEL if each.modelled else ''}" for each in found]
    clauses = [limit_clause(each, "both" if len(found) == 2 else "it", word) for each in found]
    if len(set(clauses)) == 1:
        return f"Small files of 4 KiB: {', '.join(counts)}; {clauses[0]}."
    told = [f"{count}, {limit_clause(each, 'them', word)}" for count, each in zip(counts, found, strict=True)]
    return f"Small files of 4 KiB: {'; '.join(told)}."


def work_sentence(brief: Brief, paced: bool = True) -> str:
    """`Applications: PhotoAlbum 12.1 MB/s (slowest) to FileCopyToNAS 112 MB/s. Films get at least 34 times the rate
    they need.`; empty without applications. paced: with the films.
    """
    if not brief.work:
        return ""
    first, last = brief.work[0], brief.work[-1]
    text = f"Applications: {first.name} {rate_text(first.rate)}"
    text += f" (slowest) to {last.name} {rate_text(last.rate)}." if len(brief.work) > 1 else "."
    own = min(((each.rate / each.needs, each.name) for each in brief.work if each.needs), default=None)
    if own is None or not paced:
        return text
    times, who = own
    if times < 1:
        return f"{text} {who} gets only {times:.2g} times the rate it needs."
    least = count_text(math.floor(times)) if times >= 10 else f"{math.floor(10 * times) / 10:g}"
    if least == "1":
        return f"{text} Films get just the rate they need."
    return f"{text} Films get at least {least} times the rate they need."


# Whether that is normal.


def normal_sentence(brief: Brief, known: bool = False) -> str:
    """`Is this normal? No, it is slow: a single hard disk does 80 to 300 MB/s.`; of reads and writes where they differ.

    known: leaves out what cannot be told, where the other can.
    """
    if not brief.normal:
        return ""
    same = len({(each.state, each.text) for each in brief.normal}) == 1
    shown = list(brief.normal[:1] if same else brief.normal)
    if known:
        shown = [each for each in shown if each.state != "unknown"] or shown[:1]
    told = [_normal(each, "" if same else f"{each.op}s: ") for each in shown]
    text = "; ".join(told)
    return f"Is this normal? {text[:1].upper()}{text[1:]}."


def _normal(each: Normal, who: str) -> str:
    word = _STATES[each.state]
    return f"{who}{word if who else word[:1].upper() + word[1:]} {each.text}"


_STATES = {"normal": "yes,", "slow": "no, it is slow:", "unknown": "unknown:"}


# What to do.


def actions(brief: Brief) -> list[str]:
    """What would decide, what would help, the most effective first, and what would not."""
    first = {found.limits[0].kind for found in brief.bottlenecks if found.decided}
    deciding = list(_deciding(brief))
    helping = [gain_sentence(gain, brief.place) for gain in brief.gains if gain.helps]
    tried = [measured_sentence(each) for each in brief.measured]
    own = [text for kind, text in _OF_KIND.items() if kind in first]
    wanted = [*own, *deciding, *tried, *helping]
    useless = no_help_sentence(brief)
    return [*wanted[: MAX_ACTIONS - 1], useless, *wanted[MAX_ACTIONS - 1 :]] if useless else wanted


_OF_KIND = {
    "client_cache": "Name the server itself (smb:// or nfs://), or use --direct: a cache answered.",
    "shared_machine": "Measure from another machine: client and server share these processors.",
    "unknown": "Look at the server's log and tasks at the time of the run before you buy anything.",
    "client_cpu": "Use a faster client, or several: this client's CPU is busy.",
    "burst_credit": "Plan with the rate without burst credit; only a higher baseline raises it.",
}
"""Where no part of the server is to be changed."""


def _deciding(brief: Brief) -> Iterator[str]:
    open_ = {(each.op, each.size) for each in brief.bottlenecks if not each.decided}
    for each in brief.questions:
        if (each.op, each.size) in open_:
            one, other = map(name, each.between)
            yield f"To tell {one} from {other}: {each.command}"
            return
    if open_ or not brief.bottlenecks:
        yield f"To decide what limits it: naslab run TARGET --budget {LONGER}"


def gain_sentence(gain: Gain, place: str) -> str:
    """`Disks twice as fast: from the NAS 91.5 to 120 MB/s, to it 94.5 to 106 MB/s.`"""
    head = gain.words[:1].upper() + gain.words[1:]
    shown = [each for each in gain.helps if each.size == "large"] or gain.helps
    ops = [each.op for each in shown]
    whose = {"read": f"from {place}", "write": "to it" if "read" in ops else f"to {place}"}
    told = [f"{whose[each.op] if each.size == 'large' else f'small {each.op}s'} {_then(each)}" for each in shown]
    return f"{head}: {', '.join(told)}."


def _then(effect: Effect) -> str:
    """`106 MB/s`, `91.5 to 120 MB/s`, `at least 500 MB/s`."""
    low = _value(effect.low, effect.unit)
    if effect.high is None:
        return f"at least {low}"
    high = _value(effect.high, effect.unit)
    return low if low == high else f"{_bare(low)} to {high}"


def _value(value: float, unit: str) -> str:
    return rate_text(value) if unit == "bytes_per_s" else f"{count_text(value)}/s"


def _bare(text: str) -> str:
    return text.removesuffix(" MB/s").removesuffix("/s")


def measured_sentence(each: Measured) -> str:
    """What was tried, and brought more."""
    rates = f"{rate_text(each.then)} instead of {rate_text(each.now)}, as measured"
    if each.kind == "connections":
        return f"{each.count} connections (SMB multichannel, NFS nconnect): large reads {rates}."
    return f"Without {'encryption' if each.kind == 'encrypted' else 'signing'}: large reads {rates}."


def no_help_sentence(brief: Brief) -> str:
    """`A 10 GbE link will not help with large files: the disks stop at 60.2 MB/s.`; empty where none is certain."""
    large = [
        each for each in brief.bottlenecks
        if each.size == "large" and each.decided and each.limits[0].kind not in _OF_KIND
    ]  # fmt: skip
    for of in (large, *([each] for each in large)):
        useless = [
            gain for gain in brief.gains if not gain.helps and of and all(f"{e.op} large" in gain.unchanged for e in of)
        ]  # fmt: skip
        if useless:
            return _no_help(sorted(useless, key=_popular), of, brief.place, len(of) == len(large))
    return ""


def _popular(gain: Gain) -> int:
    """What people buy first, first."""
    order = ("link", "cpu", "ram", "disk", "ssd", "latency", "connections")
    return order.index(gain.change) if gain.change in order else len(order)


def _no_help(useless: Sequence[Gain], of: Sequence[Bottleneck], place: str, whole: bool) -> str:
    words = " or ".join(_SHORT.get(gain.change, gain.words) for gain in useless[:2])
    where = "with large files" if whole else f"when you copy {'from' if of[0].op == 'read' else 'to'} {place}"
    kinds = list(dict.fromkeys(each.limits[0].kind for each in of))
    rates = {kind: tell.joined([stop(each) for each in of if each.limits[0].kind == kind]) for kind in kinds}
    why = tell.joined([f"{name(kind)} {'stop' if kind in _PLURAL else 'stops'} at {rates[kind]}" for kind in kinds])
    return f"{words[:1].upper()}{words[1:]} will not help {where}: {why}."


_SHORT = {"cpu": "a faster server CPU", "ram": "more memory", "disk": "faster disks", "ssd": "SSDs"}


# How far to trust it.


def trust_sentence(brief: Brief) -> str:
    """As everywhere."""
    return trust.words(brief.trust, brief.doubts)
