"""`naslab whatif`: what a measured server would do with other parts, by the posterior of its run."""

from __future__ import annotations

import dataclasses
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from naslab.cli import options as o
from naslab.cli.groups import with_arguments
from naslab.errors import UsageError
from naslab.exchange.references import load
from naslab.units import parse_duration, parse_size, size_label

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import RenderableType

    from naslab.explain.fitted import Fitted
    from naslab.explain.loads import Asked
    from naslab.explain.predict import Change, Prediction, Scale
    from naslab.results.run import Run

_FACTOR = re.compile(r"([0-9]+(?:\.[0-9]+)?)[xX]\Z")
_BITS = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([kmgKMG]?)(?:bit(?:/s|ps)?)?\Z")
_BITS_FACTOR = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9}
_COUNT = re.compile(r"[0-9]+\Z")
MOST_RECORD_BYTES = 64 << 20
_PARTS = ("link", "disk", "disk-iops", "ram", "latency", "cpu")
"""Options that change a part."""


def _text(name: str, metavar: str, words: str) -> Any:
    return typer.Option(name, metavar=metavar, help=words, show_default=False)


@dataclass(frozen=True)
class WhatifArguments:
    """Of `naslab whatif`."""

    run: o.RunArg = "last"
    link: Annotated[str, _text("--link", "RATE", "Another link, in bits per second: 10g, 2.5g, 100m; or 10x.")] = ""
    disk: Annotated[str, _text("--disk", "RATE", "Another disk: 2x as fast, or 400MB per second.")] = ""
    disk_iops: Annotated[str, _text("--disk-iops", "N", "Another number of disk requests per second: 2x or 20000.")] = (
        ""
    )
    ram: Annotated[str, _text("--ram", "SIZE", "Another server cache (memory): 2x or 8g.")] = ""
    latency: Annotated[str, _text("--latency", "TIME", "Another round-trip time of the network: 5ms or 0.5x.")] = ""
    cpu: Annotated[str, _text("--cpu", "NNx", "Another processor in the server: 2x.")] = ""
    depth: Annotated[
        Optional[int],  # noqa: UP045 - Typer reads this at run time
        typer.Option(
            "--depth",
            metavar="N",
            help="Queue depth of each connection.",
            min=1,
            max=4096,
            show_default="as measured",
        ),
    ] = None
    connections: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(
            "--connections", metavar="N", help="Number of connections.", min=1, max=4096, show_default="as measured"
        ),
    ] = None
    record: Annotated[str, _text("--record", "SIZE", "Bytes of one request, e.g. 64k, for all loads.")] = ""
    data: Annotated[str, _text("--set", "SIZE", "Size of the working set, e.g. 20g.")] = ""
    store: o.StoreOpt = None
    as_json: o.JsonOpt = False


@with_arguments
def whatif(arguments: WhatifArguments) -> int:
    """Predict from a run what another link, disk or memory would change. Measures nothing."""
    return run(arguments)


def run(arguments: WhatifArguments) -> int:
    """`naslab whatif`. Raises UsageError, UnknownRunError."""
    from naslab.explain.loads import Asked

    a = arguments
    words = {name: getattr(a, name.replace("-", "_")) for name in _PARTS}
    asked = Asked(a.depth, a.connections, _size(a.record, "--record", MOST_RECORD_BYTES), _size(a.data, "--set"))
    return run_whatif(a.run, words, asked, a.store, a.as_json)


def run_whatif(reference: str, words: Mapping[str, str], asked: Asked, store: Path | None, as_json: bool) -> int:
    """`naslab whatif`. words: of the options that change a part. Raises UsageError, UnknownRunError."""
    from naslab.explain import trust
    from naslab.explain.evidence import Evidence
    from naslab.explain.loads import Asked
    from naslab.explain.predict import Change, predictions
    from naslab.results.store import Store

    scales = {name: _scale(words.get(name, ""), f"--{name}", parse) for name, parse in _PARSERS.items()}
    if not any(scales.values()) and asked == Asked():
        raise UsageError("whatif: no change is given; give one of --link, --disk, --ram, --depth, e.g. --link 10g")
    loaded = load(Store(store), reference)
    ladder = loaded.document.get("ladder")
    if not ladder:
        raise UsageError(f"whatif {reference}: that run has no ladder; make one with `naslab run TARGET`")
    evidence = Evidence.from_document(ladder)
    if evidence.local_disk and (scales["link"] or scales["latency"]):
        raise UsageError("whatif: that run was of a local disk, which has no link; change --disk, --depth or --record")
    scales["link"] = _payload(scales["link"], loaded, evidence)
    change = Change(**{name.replace("-", "_"): scale for name, scale in scales.items()})
    doubts = trust.doubts(loaded.document)
    fitted, found = predictions(evidence, change, asked)
    found = [dataclasses.replace(each, certainty=min(each.certainty, trust.most(doubts))) for each in found]
    if fitted is None:
        raise UsageError(f"whatif {reference}: that run's ladder measured nothing; run it again: naslab run TARGET")
    if as_json:
        json.dump(document_of(loaded, change, asked, fitted, found), sys.stdout)
        print()
    else:
        print(text_of(loaded, change, asked, fitted, found), end="")
    return 0


# Options.


def _scale(text: str, option: str, parse: Callable[[str, str], float]) -> Scale | None:
    """A changed part from `2x`, or a value of its own as `parse` reads it."""
    from naslab.explain.predict import Scale

    if not text:
        return None
    factor = _FACTOR.match(text.strip())
    scale = Scale(factor=float(factor.group(1))) if factor else Scale(value=float(parse(text, option)))
    if not (scale.factor or scale.value):
        raise UsageError(f"{option}: {text!r} leaves nothing; give more than 0")
    return scale


def _no_value(text: str, option: str) -> float:
    raise UsageError(f"{option}: {text!r} is not a factor; write 2x for twice as fast, 0.5x for half")


def _count(text: str, option: str) -> float:
    if not _COUNT.match(text.strip()):
        raise UsageError(f"{option}: {text!r} is not a number of requests per second; write 20000 or 2x")
    return float(text)


def _bytes_rate(text: str, option: str) -> float:
    return float(parse_size(text.strip().removesuffix("/s"), option))


def _bits(text: str, option: str) -> float:
    match = _BITS.match(text.strip())
    if match is None:
        raise UsageError(f"{option}: {text!r} is not a rate of a link; write 10g or 100m (bits per second), or 10x")
    return float(match.group(1)) * _BITS_FACTOR[match.group(2).lower()]


_PARSERS: dict[str, Callable[[str, str], float]] = {
    "link": _bits, "disk": _bytes_rate, "disk-iops": _count, "ram": parse_size, "latency": parse_duration,
    "cpu": _no_value,
}  # fmt: skip


def _size(text: str, option: str, most: int | None = None) -> int | None:
    if not text:
        return None
    size = parse_size(text, option)
    if size < 1 or (most is not None and size > most):
        raise UsageError(
            f"{option}: {text!r} is not a size; give 1 byte{f' to {size_label(most)}' if most else ' or more'}"
        )
    return size


def _payload(scale: Scale | None, run: Run, evidence: Any) -> Scale | None:
    """Bytes of data per second of a link of so many bits; of its share that carries data, today's link tells."""
    from naslab.analysis.linkrate import known_link, payload_bytes_per_s
    from naslab.explain.fitted import fit
    from naslab.explain.predict import Scale

    if scale is None or scale.value is None:
        return scale
    if evidence.simulated:
        return Scale(value=scale.value / 8)
    known, fitted = known_link(run.document), fit(evidence)
    part = fitted.parts["link_read_bytes_per_s"] if fitted and known else None
    bits = known.bits_per_s if known else None
    if bits and part and part.known and 0.5 < (share := part.value * 8 / bits) <= 1.0:
        return Scale(value=scale.value / 8 * share)
    return Scale(value=payload_bytes_per_s(scale.value, timestamps=True))


# What is told.


def document_of(run: Run, change: Change, asked: Asked, fitted: Fitted, found: list[Prediction]) -> dict[str, Any]:
    """The JSON document. A prediction that is not known has `at_least` instead of a value."""
    from naslab.explain import trust
    from naslab.explain.whatif_words import notes

    doubts = trust.doubts(run.document)
    return {
        "schema": 1, "run_id": run.document["run_id"], "change": change.document(),
        "asked": {name: value for name, value in vars(asked).items() if value is not None},
        "model": fitted.document(), "predictions": [each.document() for each in found],
        "notes": notes(fitted, change, doubts),
        "trust": trust.level(doubts),
    }  # fmt: skip


def text_of(
    run: Run, change: Change, asked: Asked, fitted: Fitted, found: list[Prediction], width: int | None = None
) -> str:
    """The predictions for a terminal."""
    from naslab.render.terminal.show import columns_of, render

    columns = columns_of(width)
    return render(list(_parts(run, change, asked, fitted, found, columns)), columns, None)


def _parts(
    run: Run, change: Change, asked: Asked, fitted: Fitted, found: list[Prediction], columns: int
) -> Iterator[RenderableType]:
    from rich.table import Table
    from rich.text import Text

    from naslab.explain import trust
    from naslab.explain import whatif_words as words
    from naslab.render.terminal.show import in_middle

    document = run.document
    what = words.change_text(change, asked_words(asked))
    yield Text(f"What if: {what}", style="bold")
    by = f", by run {document['run_id']}"
    yield Text(f"of {in_middle(document['target'].get('url') or 'the target', columns - len(f'of {by}'))}{by}")
    yield ""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("", "now", "then", "limit then"):
        table.add_column(name)
    for each in found:
        now = each.measured or each.now
        table.add_row(
            words.load_text(each.load), words.figure_text(now.value, now.unit), words.then_text(each),
            words.then_limit(each),
        )  # fmt: skip
    yield table
    yield ""
    for sentence in words.notes(fitted, change, trust.doubts(document)):
        yield Text(sentence)


def asked_words(asked: Asked) -> list[str]:
    """What is asked for besides changed parts."""
    found = []
    if asked.depth:
        found.append(f"queue depth {asked.depth}")
    if asked.connections:
        found.append(f"{asked.connections} connections")
    if asked.record_bytes:
        found.append(f"requests of {size_label(asked.record_bytes)}")
    if asked.set_bytes:
        found.append(f"{size_label(asked.set_bytes)} of data")
    return found
