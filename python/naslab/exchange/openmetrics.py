"""Runs as metrics: OpenMetrics 1.0 text (each value with its time), or Prometheus text 0.0.4 (without times).

Prometheus takes the first by `promtool tsdb create-blocks-from openmetrics`, and the second from a file of
node_exporter's textfile collector, which refuses times. Sources: OpenMetrics specification 1.0; Prometheus,
"Exposition formats".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from naslab.exchange.samples import Family, Sample, kept, of_runs

if TYPE_CHECKING:
    from naslab.results.run import Run


def write_metrics(runs: Sequence[Run], path: Path, *, openmetrics: bool) -> None:
    """Writes the text, family after family. openmetrics: with units, times and the end mark. Raises OSError."""
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(line + "\n" for line in lines(runs, openmetrics))


def lines(runs: Sequence[Run], openmetrics: bool) -> Iterator[str]:
    """The text's lines. A family without a sample is left out."""
    for family, samples in of_runs(runs):
        yield from family_lines(family, samples, openmetrics)
    if openmetrics:
        yield "# EOF"


def family_lines(family: Family, samples: Iterable[Sample], openmetrics: bool = False) -> Iterator[str]:
    """Type, unit and meaning, then a line for each sample; nothing where there is none."""
    head = _head(family, openmetrics)
    for sample in samples:
        yield from head
        head = []
        yield f"{sample.name}{_labels(sample.labels)} {sample.text}{_time(sample.wall_ns, openmetrics)}"


def _head(family: Family, openmetrics: bool) -> list[str]:
    # Only OpenMetrics knows information, whose family is called without the end of its samples' name.
    information = family.kind == "info"
    name = family.name.removesuffix("_info") if information and openmetrics else family.name
    kind = "gauge" if information and not openmetrics else family.kind
    units = [f"# UNIT {name} {family.unit}"] if family.unit and openmetrics else []
    return [f"# TYPE {name} {kind}", *units, f"# HELP {name} {family.about}"]


def _labels(values: Mapping[str, Any]) -> str:
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in kept(values).items()) + "}"


def _escaped(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", " ")


def _time(wall_ns: int | None, openmetrics: bool) -> str:
    """The time in seconds since 1970, to the millisecond; nothing where it is not known or has no place."""
    return f" {wall_ns // 10**9}.{wall_ns % 10**9 // 10**6:03d}" if openmetrics and wall_ns else ""
