"""The reference page of the fitted model: its parameters and stations, as the tables of `hypotheses.py` have them."""

from __future__ import annotations

from naslab.explain.hypotheses import PARAMETERS, STATIONS, SWITCHES, Parameter
from naslab.units import percent_text

_HEAD = """\
<!-- Made by tools/make-docs from python/naslab/explain/hypotheses.py; edit there. -->
# The model of a file server

What `naslab run` fits to the rates of its ladder. How it works: [the model](../concepts/model.md); how
reliable its probabilities are: [calibration](../concepts/calibration.md).

## Parameters

Each has a log-uniform prior between its ends, which are wider than any server's.

| parameter | from | to | what it is |
|---|---|---|---|
"""
_STATIONS = """
## Stations

An operation visits each. `memory` and `disk` depend on earlier operations and are not in this table: a read
is answered by the server cache or the disks, a write by the write-back or the disks.

| limit | what it is | the step that separates it from others |
|---|---|---|
"""
_SWITCHES = """
## Optional parts

Each exists with a prior probability, and is kept only if it explains what no other part does.

| part | prior probability |
|---|---|
"""


def page() -> str:
    """The page as Markdown."""
    parameters = "".join(f"| `{p.name}` | {_end(p, p.low)} | {_end(p, p.high)} | {p.what} |\n"
                         for p in PARAMETERS)  # fmt: skip
    stations = "".join(f"| `{each.kind}` | {each.words} | `{each.by}` |\n" for each in STATIONS)
    named = {p.name: p.what for p in PARAMETERS}
    parts = "".join(
        f"| {named[name].removeprefix('switch: ')} | {percent_text(share)} |\n" for name, share in SWITCHES.items()
    )
    return _HEAD + parameters + _STATIONS + stations + _SWITCHES + parts


def _end(parameter: Parameter, value: float) -> str:
    """An end of a prior as people write it: `100 ns`, `3 MB/s`."""
    if parameter.unit not in _SCALES:
        return f"{value:g} {parameter.unit}".strip()
    least = min(_SCALES[parameter.unit])
    scale = max((each for each in _SCALES[parameter.unit] if each <= value * (1 + 1e-9)), default=least)
    return f"{value / scale:.3g} {_SCALES[parameter.unit][scale]}"


_SECONDS = {1e-9: "ns", 1e-6: "\u00b5s", 1e-3: "ms", 1.0: "s"}
_BYTES = {1.0: "B", 1e3: "kB", 1e6: "MB", 1e9: "GB", 1e12: "TB"}
_SCALES: dict[str, dict[float, str]] = {
    "s": _SECONDS, "B": _BYTES, "B/s": {scale: f"{name}/s" for scale, name in _BYTES.items()},
    "s/B": {1e-15: "fs/B", 1e-12: "ps/B", 1e-9: "ns/B"},
}  # fmt: skip
