"""The price list of signing and encryption in sentences, and as tables for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from naslab.commands.plans.security import BLOCKS, LARGE_BYTES, combinations
from naslab.comparison.security import LEAST_ROUNDS
from naslab.results.cell_names import op_words
from naslab.results.parts.security import (
    Security,
    SecurityCombination,
    SecurityContrast,
    SecurityFigure,
    SecurityLoad,
)  # fmt: skip
from naslab.units import duration_text, size_label, three_digits

if TYPE_CHECKING:
    from rich.console import RenderableType

_PRICED = (
    ("encrypted", ("AES-128-GCM", "AES-128-CCM", "AES-256-GCM", "AES-256-CCM")),
    ("signed", ("AES-GMAC", "AES-CMAC", "HMAC-SHA256")),
    ("encrypted", ("TLS",)), ("encrypted", ("krb5p",)), ("signed", ("krb5i",)), ("authenticated", ("krb5",)),
)  # fmt: skip
"""What a sentence tells of: the first of these that the server allows."""
_LEAST_CPU_S = 0.005
"""Less in a GiB is not worth a word."""
_KINDS = {"encrypted": "encryption", "signed": "signing", "authenticated": "authentication"}


def measured(found: Security) -> list[SecurityCombination]:
    """The combinations with figures, the baseline first."""
    return [each for each in found.combinations if each.state == "measured" and each.loads]


def sentences(found: Security) -> list[str]:
    """What encryption and signing cost, one against another, and what was not measured."""
    return [*_context(found), *_prices(found), *_few(found), *_not_measured(found)]


def refusals(found: Security) -> list[tuple[str, str]]:
    """(combination, why it has no figures)."""
    return [(each.name, each.reason) for each in found.combinations if each.reason]


def load_name(load: SecurityLoad) -> str:
    """`large writes`, `small reads`."""
    kind = "writes" if load.op == "write" else "reads"
    return f"{'large' if load.record_bytes == LARGE_BYTES else 'small'} {kind}"


def _context(found: Security) -> list[str]:
    """What the prices are against, where it is not the unprotected combination."""
    rows, baseline = measured(found), found.baseline
    if len(rows) == 1:
        return [f"Only {baseline} can be measured: there is nothing to compare it with."]
    plain = {combinations(protocol)[0].name for protocol in ("smb", "nfs")}
    if not rows or baseline in plain:
        return []
    return [f"The server refuses unprotected sessions: the prices are against {baseline}."]


def _prices(found: Security) -> list[str]:
    rows = {each.name: each for each in measured(found)}
    protected = found.baseline.split()[0]
    told = []
    for kind, algorithms in _PRICED:
        if protected in ("encrypted", kind):
            continue
        name = next((f"{kind} {each}" for each in algorithms if f"{kind} {each}" in rows), None)
        told += [_price(_subject(name), rows[name].loads)] if name else []
    pairs = [each for each in found.contrasts if each.baseline != found.baseline or protected == "encrypted"]
    return [*filter(None, told), *filter(None, (_price(_instead(each), each.loads) for each in pairs))]


def _subject(name: str) -> str:
    """`Encryption (AES-128-GCM)` of `encrypted AES-128-GCM`."""
    kind, _, algorithm = name.partition(" ")
    return f"{_KINDS[kind].capitalize()} ({algorithm})"


def _instead(pair: SecurityContrast) -> str:
    """`AES-256-GCM instead of AES-128-GCM`, `Encryption (AES-128-GCM) instead of signing (AES-GMAC)`."""
    kinds, algorithms = zip(*(each.split(" ", 1) for each in (pair.name, pair.baseline)), strict=True)
    if kinds[0] == kinds[1]:
        return f"{algorithms[0]} instead of {algorithms[1]}"
    return f"{_subject(pair.name)} instead of {_KINDS[kinds[1]]} ({algorithms[1]})"


def _price(subject: str, loads: Sequence[SecurityLoad]) -> str:
    """`Encryption costs 12 % of the read rate (8 to 16 %) and 0.4 CPU s/GiB more.`; empty without reads."""
    found = next(((load, load.throughput.ratio) for load in loads if load.op == "read" and load.throughput.ratio), None)
    if found is None:
        return ""
    load, ratio = found
    rate, more = _rate_change(load, ratio), _cpu_change(load.cpu)
    joined = f" and {more}" if rate.startswith("costs") and more.endswith("more") else f", and takes {more}"
    return f"{subject} {rate}{joined if more else ''}."


def _rate_change(load: SecurityLoad, ratio: float) -> str:
    ends = load.throughput.ratio_ci95
    if ends is None:
        return f"changes the read rate by {_percent(ratio - 1, '+')} % ({_rounds_text(load.n)}, no interval)"
    low, high = ends
    if low <= 1 <= high:
        span = f"{_percent(low - 1, '+')} to {_percent(high - 1, '+')} %"
        return f"makes no measurable difference to the read rate ({span})"
    if ratio < 1:
        return f"costs {_percent(1 - ratio)} % of the read rate ({_percent(1 - high)} to {_percent(1 - low)} %)"
    return f"raises the read rate by {_percent(ratio - 1)} % ({_percent(low - 1)} to {_percent(high - 1)} %)"


def _percent(share: float, sign: str = "") -> str:
    """A share in percent; a digit behind the point below 10."""
    return f"{100 * share:{sign}.{0 if abs(share) >= 0.0995 else 1}f}"


def _cpu_change(cpu: SecurityFigure) -> str:
    """`0.4 CPU s/GiB more`; empty where no difference was detected."""
    ratio, ends = cpu.ratio, cpu.ratio_ci95
    if ratio is None or cpu.value is None or (ends and ends[0] <= 1 <= ends[1]):
        return ""
    more_s = cpu.value * (1 - 1 / ratio) / 1e9
    return "" if abs(more_s) < _LEAST_CPU_S else f"{abs(more_s):.2g} CPU s/GiB {'more' if more_s > 0 else 'less'}"


def _rounds_text(count: int) -> str:
    return f"{count} round{'s' if count != 1 else ''}"


def _rounds(found: Security) -> int:
    """Of the load with the fewest."""
    return min((load.n for row in measured(found) for load in row.loads), default=0)


def _few(found: Security) -> list[str]:
    rounds = _rounds(found)
    if not 0 < rounds < LEAST_ROUNDS or len(measured(found)) == 1:
        return []
    what = "raise --budget" if found.ended == "budget" else f"use --repeat {BLOCKS} or more"
    return [f"{_rounds_text(rounds)}: too few for intervals; {what}."]


def _not_measured(found: Security) -> list[str]:
    """Which combinations are refused, and what naslab does not speak."""
    unspoken = [each for each in found.combinations if each.state == "not_spoken"]
    refused = [each.name for each in found.combinations if each.state == "refused"]
    told = []
    if refused:
        count = len(found.combinations) - len(unspoken)
        told.append(f"{len(refused)} of {count} combinations are refused: {', '.join(refused)}.")
    return [*told, *(f"{each.name}: {each.reason}." for each in unspoken)]


# Tables.


def tables(found: Security) -> list[RenderableType]:
    """The price list for a terminal: a table for each load, and one of what was not measured."""
    from rich.text import Text

    from naslab.text.screen import plain_table

    rows = measured(found)
    parts: list[RenderableType] = []
    for load in rows[0].loads if rows else ():
        parts += [Text(_title(load), style="bold"), _load_table(rows, load), ""]
    if why := refusals(found):
        shown = plain_table(("not measured", "reason"))
        for name, reason in why:
            shown.add_row(name, reason)
        parts += [shown, ""]
    return parts


def _title(load: SecurityLoad) -> str:
    name = load_name(load).capitalize()
    what = f"{op_words(load.op)} {size_label(load.record_bytes)}, depth {load.queue_depth}"
    return f"{name} ({what}), medians of {_rounds_text(load.n)}"


def _load_table(rows: Sequence[SecurityCombination], load: SecurityLoad) -> Any:
    """What one load is measured for, its rate or, one at a time, its latency, and its client CPU."""
    from naslab.text.screen import plain_table

    single = load.queue_depth == 1
    heads = ("combination", "latency" if single else "MB/s", "change, % (95 %)", "CPU s/GiB", "ratio (95 %)")
    shown = plain_table(heads, right=heads[1:])
    shown.columns[0].no_wrap = True
    for row in rows:
        if (same := same_load(row, load)) is not None:
            main, cpu = same.latency if single else same.throughput, same.cpu
            value = "-" if main.value is None else _value(main.value, single)
            used = "-" if cpu.value is None else three_digits(cpu.value / 1e9)
            shown.add_row(row.name, value, _change(main), used, _ratio(cpu))
    return shown


def _value(value: float, single: bool) -> str:
    return duration_text(value) if single else three_digits(value / 1e6)


def same_load(row: SecurityCombination, load: SecurityLoad) -> SecurityLoad | None:
    """A combination's figures of this load; None where it has none."""
    return next((each for each in row.loads if _what(each) == _what(load)), None)


def _what(load: SecurityLoad) -> tuple[str, int, int]:
    return load.op, load.record_bytes, load.queue_depth


def _change(figure: SecurityFigure) -> str:
    """`-12 (-16 to -8)` in percent."""
    if figure.ratio is None:
        return "-"
    value, *ends = (f"{round(100 * (each - 1)):+d}" for each in (figure.ratio, *(figure.ratio_ci95 or ())))
    return value + (f" ({ends[0]} to {ends[1]})" if ends else "")


def _ratio(figure: SecurityFigure) -> str:
    """`4.41 (4.20-4.63)`."""
    if figure.ratio is None:
        return "-"
    digits = 2 if figure.ratio < 9.995 else 1
    value, *ends = (f"{each:.{digits}f}" for each in (figure.ratio, *(figure.ratio_ci95 or ())))
    return value + (f" ({ends[0]}-{ends[1]})" if ends else "")
