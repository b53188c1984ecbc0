"""`naslab report`: the page of one run, or of several over each other, with the lines a reader asks for."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from naslab import load
from naslab.cli import options as o
from naslab.errors import UnknownRunError, UsageError
from naslab.render.report.drawing import Drawing
from naslab.units import parse_size, rate_text

if TYPE_CHECKING:
    from naslab.render.report.drawing import Drawing
    from naslab.results.run import Run

_LINK = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([kmgKMG]?)(?:bit(?:/s|ps)?)?(?::([0-9]+))?\Z")
_FACTOR = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9}
LEAST_MTU, MOST_MTU = 576, 65535

RunsArg = Annotated[list[str], typer.Argument(metavar="RUN...", help="One or more runs.", show_default=False)]
OutputOpt = Annotated[
    Path, typer.Option("--output", "-o", metavar="FILE", help="HTML file to write; .svg or .png: one page.")
]
OnePageOpt = Annotated[
    bool, typer.Option("--one-page", help="One A4 page with one picture and one table, for print: .svg, .png or .html.")
]
LinkOpt = Annotated[
    Optional[list[str]],  # noqa: UP045 - Typer reads this at run time
    typer.Option(
        "--link", metavar="RATE", show_default=False,
        help="Draw the ceiling of a network link: 1g, 100m, or 10g:9000 with its MTU; may be repeated.",
    ),
]  # fmt: skip
LineOpt = Annotated[
    Optional[list[str]],  # noqa: UP045
    typer.Option(
        "--line", metavar="RATE=TEXT", show_default=False,
        help="Draw a line at a rate, with its name: 110MB/s=raw network, published:NAME, or a run; may be repeated.",
    ),
]  # fmt: skip
YMaxOpt = Annotated[
    str, typer.Option("--y-max", metavar="RATE", help="Upper end of the rate axis, e.g. 150MB/s.", show_default=False)
]


def report(
    runs: RunsArg,
    output: OutputOpt = Path("naslab-report.html"),
    link: LinkOpt = None,
    line: LineOpt = None,
    y_max: YMaxOpt = "",
    one_page: OnePageOpt = False,
    redact: o.RedactOpt = False,
    store: o.StoreOpt = None,
) -> int:
    """Write one self-contained HTML file, or one page for print."""
    from naslab.cli.read import write_report

    return write_report(runs, output, store, parse_drawing(link or [], line or [], y_max, store), redact, one_page)


def parse_drawing(links: list[str], lines: list[str], y_max: str, store: Path | None = None) -> Drawing:
    """The reference lines and the limit of the axis from the words of the command line. Raises UsageError.

    store: has the runs that lines are of.
    """
    limit = _rate(y_max, "--y-max", "150MB/s") if y_max else None
    drawn = [each for line in lines for each in _drawn(line, store)]
    return Drawing((*map(parse_link, links), *drawn), limit)


def _drawn(text: str, store: Path | None) -> list[tuple[str, float]]:
    """The lines of one --line: those of a run where it is no rate."""
    try:
        return [parse_line(text)]
    except UsageError:
        found = run_lines(text, store)
        if not found and "=" not in text:
            raise UsageError(
                f"--line {text!r}: no such rate or run; give a rate as 110MB/s=raw network, or a run"
            ) from None
        if not found:
            raise
        return found


MOST_LINES = 6
"""Of a run with more cells than these, other than a published one, the fastest of each operation is a line."""


def run_lines(text: str, store: Path | None = None) -> list[tuple[str, float]]:
    """(text, bytes per second) of each rate of a run: `published:NAME`, `last`, an id; nothing where there is none.

    Raises UnknownRunError for a published one.
    """
    from naslab.results.cell_names import op_words

    name = text.strip()
    if "=" in name:
        return []
    try:
        run = load(name, None if store is None else str(store))
    except UnknownRunError:
        if name.startswith("published:"):
            raise
        return []
    cells = [cell for cell in run.cells if cell["throughput_bytes_per_s"]]
    if len(cells) > MOST_LINES and not name.startswith("published:"):
        best = {cell["op"]: cell for cell in sorted(cells, key=lambda cell: float(cell["throughput_bytes_per_s"]))}
        rates = [(f"fastest {op_words(op)}", float(cell["throughput_bytes_per_s"])) for op, cell in best.items()]
    else:
        rates = [(cell["workload"] or op_words(cell["op"]), float(cell["throughput_bytes_per_s"])) for cell in cells]
    return [(f"{_named(run)}{what}, {rate_text(rate)}", rate) for what, rate in rates]


def _named(run: Run) -> str:
    """What a line's run is called before what it measured."""
    label = run.document["label"] or run.document["target"]["url"]
    return "" if any(str(cell["workload"]).startswith("raw TCP") for cell in run.cells) else f"{label} "


def parse_link(text: str) -> tuple[str, float]:
    """(text, bytes per second) of `1g` or `10g:9000`: bits per second, and the largest packet in bytes."""
    from naslab.analysis.linkrate import payload_bytes_per_s, speed_text

    match = _LINK.match(text.strip())
    speed = float(match.group(1)) * _FACTOR[match.group(2).lower()] if match else 0.0
    if match is None or not 0 < speed < 1e15:
        raise UsageError(f"--link {text!r} is not a link; write its bits per second: 1g, 100m, or 10g:9000 with an MTU")
    mtu = int(match.group(3) or 1500)
    if not LEAST_MTU <= mtu <= MOST_MTU:
        raise UsageError(f"--link {text!r}: the MTU {mtu} is not from {LEAST_MTU} to {MOST_MTU}; write 1g:1500")
    rate = payload_bytes_per_s(speed, mtu)
    packets = f", MTU {mtu:,}" if mtu != 1500 else ""
    return f"{speed_text(speed)} link{packets}, at most {rate_text(rate)}", rate


def parse_line(text: str) -> tuple[str, float]:
    """(text, bytes per second) of `110MB/s=raw network`; without a text the rate is the text."""
    head, _, words = text.partition("=")
    rate = _rate(head, "--line", "110MB/s=raw network")
    return (f"{words.strip()}, {rate_text(rate)}" if words.strip() else rate_text(rate)), rate


def _rate(text: str, option: str, example: str) -> float:
    """Bytes per second from `110MB/s` or `110MB`."""
    try:
        rate = parse_size(text.strip().removesuffix("/s"), option)
    except UsageError as error:
        raise UsageError(f"{option} {text!r} does not begin with a rate; write {example}") from error
    if rate < 1:
        raise UsageError(f"{option} {text!r}: a rate of 0 cannot be drawn; write {example}")
    return float(rate)
