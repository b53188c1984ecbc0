"""The test bed as a table: one row for each fact that decides what numbers mean, one column for each run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from naslab.analysis.linkrate import speed_text
from naslab.render.report.labels import esc, plain, tight
from naslab.results.addresses import address_line
from naslab.results.outages import outage_sentences
from naslab.units import duration_text, rate_text, size_label

Document = Mapping[str, Any]

UNTOLD = "not reported"
_MOST_SIZES = 4


def section(runs: Sequence[tuple[str, Document]]) -> str:
    """The table as HTML. runs: (name, document); facts that no run knows are left out."""
    found = [dict(rows(document)) for _, document in runs]
    names = sorted(dict.fromkeys(name for each in found for name in each), key=ORDER.index)
    heads = "".join(f'<th scope="col">{esc(name)}</th>' for name, _ in runs)
    hidden = "" if len(runs) > 1 else ' class="hidden"'
    head = f'<thead{hidden}><tr><th scope="col">Part</th>{heads}</tr></thead>'
    body = "".join(
        f'<tr><th scope="row">{esc(name)}</th>'
        + "".join(f"<td>{esc(tight(each.get(name, UNTOLD)))}</td>" for each in found) + "</tr>"
        for name in names
    )  # fmt: skip
    return (
        '<section id="testbed"><h2>Test bed</h2><div class="scroll"><table class="testbed">'
        '<caption class="hidden">Test bed</caption>'
        f"{head}<tbody>{body}</tbody></table></div></section>"
    )


ORDER = (
    "Source", "Not reported by the source", "Server", "Protocol", "Addresses", "Outages", "Connections",
    "Free space",
    "Lab system", "Network", "Client", "Client's system", "Files", "Records", "Load", "Durability", "Caches", "Repeats",
    "Seed", "Conditions",
)  # fmt: skip


def rows(document: Document) -> Iterator[tuple[str, str]]:
    """(fact, text) of one run, in words; what is not known is left out."""
    target, environment = document.get("target") or {}, document.get("environment") or {}
    yield from _source(document.get("source") or {})
    yield from _server(target, environment, document.get("cells") or [])
    client = environment.get("client") or {}
    route = _network(environment.get("route") or {})
    if route:
        yield "Network", route
    machine = [client.get("cpu"), _processors(client),
               f"{size_label(client['memory_bytes'])} of memory" if client.get("memory_bytes") else None]  # fmt: skip
    if any(machine):
        yield "Client", ", ".join(str(part) for part in machine if part)
    if client.get("system"):
        yield "Client's system", str(client["system"])
    yield from _settings(document)
    labels = document.get("labels") or {}
    if isinstance(labels, Mapping) and labels:
        yield "Conditions", ", ".join(f"{key} = {plain(value)}" for key, value in labels.items())


def _processors(client: Mapping[str, Any]) -> str | None:
    """`64 processors`, with what a control group leaves of them."""
    if not client.get("cpus"):
        return None
    quota = client.get("cpu_quota_cores")
    return f"{client['cpus']} processors" + (f" ({quota:g} allowed)" if quota else "")


def _source(source: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if not source:
        return
    yield "Source", source_text(source)
    if source.get("unknown"):
        names = [str(name).replace("_", " ").replace(".", " ") for name in source["unknown"]]
        yield "Not reported by the source", ", ".join(names[:12]) + (f" and {len(names) - 12} more" * (len(names) > 12))


def source_text(source: Mapping[str, Any]) -> str:
    """Where a run is from that naslab did not measure: `published: iozone 3.39, TITLE, page 3`."""
    tool = " ".join(str(source[key]) for key in ("tool", "tool_version") if source.get(key))
    found = [str(source[key]) for key in ("title", "place", "file", "url") if source.get(key)]
    return f"{source.get('kind') or 'imported'}: {', '.join(part for part in [tool, *found] if part)}"


def _server(
    target: Mapping[str, Any], environment: Mapping[str, Any], cells: Sequence[Mapping[str, Any]]
) -> Iterator[tuple[str, str]]:
    facts, space = environment.get("target") or {}, environment.get("space") or {}
    name = str(target.get("url") or "")
    software = facts.get("server_name") or facts.get("implementation")
    if name or software:
        yield "Server", ", ".join(str(part) for part in (name, software) if part)
    protocol = " ".join(str(target[key]) for key in ("protocol", "dialect") if target.get(key))
    parts = [protocol.upper() if target.get("protocol") in ("smb", "nfs") else protocol]
    parts += [f"{key} {target[key]}" for key in ("sec", "xprtsec", "signing", "encryption") if target.get(key)]
    if any(parts):
        yield "Protocol", ", ".join(part for part in parts if part)
    if facts.get("dfs_target"):
        yield "DFS", f"{facts['dfs_path']} leads to {facts['dfs_target']}"
    if addresses := address_line({"target": target, "cells": cells}):
        yield "Addresses", addresses
    if outages := outage_sentences({"cells": cells}):
        yield "Outages", "; ".join(outages)
    if facts.get("connections"):
        yield "Connections", plain(facts["connections"])
    if space.get("free_bytes"):
        total = f" of {size_label(space['total_bytes'])}" if space.get("total_bytes") else ""
        yield "Free space", size_label(space["free_bytes"]) + total
    if target.get("planted"):
        found = [f"{one['name']} {_planted(one)}" for one in target["planted"]]
        yield "Lab system", f"planted: {', '.join(found)}"


_TEXTS: dict[str, Callable[[Any], str]] = {
    "bytes_per_s": rate_text, "bits_per_s": speed_text, "bytes": size_label, "ns": duration_text,
}  # fmt: skip


def _planted(one: Mapping[str, Any]) -> str:
    return _TEXTS.get(str(one.get("unit")), plain)(one["planted"])


def _network(route: Mapping[str, Any]) -> str:
    """`eth0, 1 Gbit/s, MTU 1,500`; where the speed is not known, why not."""
    speed, mtu = route.get("speed_bits_per_s"), route.get("mtu_bytes")
    names = " and ".join(route.get("interfaces") or [str(route.get("interface"))])
    head = f"{names}, {speed_text(speed)}" if speed else str(route.get("says") or "")
    return ", ".join(part for part in (head, f"MTU {mtu:,}" if mtu else "") if part)


def _settings(document: Document) -> Iterator[tuple[str, str]]:
    """What the measured cells have in common, or from where to where they go."""
    cells = [cell for cell in document.get("cells") or [] if cell.get("workload") not in ("fill", "idle", "drain")]
    for name, key in (("Files", "file_bytes"), ("Records", "record_bytes")):
        sizes = sorted({cell[key] for cell in cells if cell.get(key)})
        if sizes:
            few = len(sizes) <= _MOST_SIZES
            yield (
                name,
                ", ".join(map(size_label, sizes)) if few else f"{size_label(sizes[0])} to {size_label(sizes[-1])}",
            )
    load = [(key, _span(cells, key)) for key in ("queue_depth", "workers")]
    if any(text for _, text in load):
        names = {"queue_depth": "depth", "workers": "workers"}
        yield "Load", ", ".join(f"{names[key]} {text}" for key, text in load if text)
    for name, key in (("Durability", "durability"), ("Caches", "cache_state")):
        found = list(dict.fromkeys(str(cell[key]) for cell in cells if cell.get(key)))
        if found and found != ["unknown"]:
            yield name, ", ".join(found)
    repeats = max((int(cell.get("block") or 0) for cell in cells), default=0) + 1
    if repeats > 1:
        yield "Repeats", str(repeats)
    if document.get("seed") is not None and not document.get("source"):
        yield "Seed", str(document["seed"])


def _span(cells: Sequence[Mapping[str, Any]], key: str) -> str:
    found = sorted({cell[key] for cell in cells if cell.get(key)})
    return "" if not found else str(found[0]) if len(found) == 1 else f"{found[0]} to {found[-1]}"
