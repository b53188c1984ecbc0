"""Plotly's script from its package, changed in two places so that a page can be used sooner.

It is a bundle of modules that run when first asked for, and it ends with a list that asks for every kind of chart,
maps and WebGL included: two thirds of the time it takes to start. Here the list keeps what most pages draw at once;
the other kinds wait in `Plotly.kinds` by name until app.js draws one. A script of another form is left as it is.
"""

from __future__ import annotations

import importlib.util
import re
from bisect import bisect
from pathlib import Path

from naslab.errors import UsageError

AT_ONCE = ("bar", "heatmap")
"""Kinds that are ready as soon as the script has run; `scatter` always is."""
_LIST = re.compile(r"([\w$]+)\.register\(\[((?:[\w$]+\(\),?)+)\]\)")
_MODULE = re.compile(r'var ([\w$]+)=W\((?:\(\w+,(\w+)\)=>\{"use strict";\2\.exports=([\w$]+)\(\)\}\))?')
_KIND = re.compile(r'moduleType:"trace",name:"(\w+)"')
_FACTORY = '() => {\n"use strict";var Plotly='
_END = "return Plotly;\n}));"


def plotly_js() -> str:
    """Plotly's script, found without importing its Python package, which is slow. Raises UsageError without it."""
    return _eager(_kinds_later(_packaged()))


def _packaged() -> str:
    spec = importlib.util.find_spec("plotly")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        path = Path(folder) / "package_data" / "plotly.min.js"
        if path.is_file():
            return path.read_text(encoding="utf-8")
    raise UsageError("report: the charts need the package plotly: pip install plotly")


def _kinds_later(script: str) -> str:
    """The script with the list shortened to `AT_ONCE`, and the kinds it had besides in `Plotly.kinds`."""
    found = list(_LIST.finditer(script, max(script.rfind(".register([") - 100, 0)))
    if len(found) != 1:
        return script
    library, wanted = found[0].groups()
    named = _kinds(script)
    kinds = {named[one]: one for one in wanted.replace("()", "").split(",") if one in named}
    if not all(name in kinds for name in AT_ONCE):
        return script
    first = ",".join(f"{kinds.pop(name)}()" for name in AT_ONCE)
    later = ",".join(f"{name}:{one}" for name, one in kinds.items())
    begin, end = found[0].span()
    return f"{script[:begin]}{library}.register([{first}]),{library}.kinds={{{later}}}{script[end:]}"


def _kinds(script: str) -> dict[str, str]:
    """The kind of chart by the name of the module in the list, which only hands out the module that tells it."""
    starts, names, handed = [], [], {}
    for found in _MODULE.finditer(script):
        starts.append(found.start())
        names.append(found[1])
        if found[3]:
            handed[found[3]] = found[1]
    told = (
        (names[bisect(starts, one.start()) - 1], one[1]) for one in _KIND.finditer(script, starts[0] if starts else 0)
    )
    return {handed[name]: kind for name, kind in told if name in handed}


def _eager(script: str) -> str:
    """The script with its one outer function in parentheses: browsers then compile it once, not twice."""
    begin, end = script.find(_FACTORY), script.rfind(_END)
    if begin < 0 or end < begin:
        return script
    return f"{script[:begin]}({script[begin:end]}{_END[:-2]}){_END[-2:]}{script[end + len(_END) :]}"
