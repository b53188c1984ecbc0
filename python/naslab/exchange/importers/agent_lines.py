"""Runs that `naslab-agent` measured: its events, one JSON object a line (docs/guide/agent.md).

They are naslab's own measurements, made by the same engine, so a run comes out as `naslab` would have stored it, but
for what only the machine knows that measured: its processors, its other load, its cost of a ceiling.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import json
from collections.abc import Iterator, Mapping
from typing import Any

from naslab.errors import NaslabError
from naslab.exchange.importers.base import Input
from naslab.explain.regimes import regimes_of
from naslab.results.document import cell_blobs, cell_document, iso_utc, negotiated, new_document, typed_facts, warning
from naslab.results.run import MemoryBlobs, Run
from naslab.spec import CellSpec
from naslab.text.messages import left_words, sentence

STATUS = {"complete": "complete", "interrupted": "partial", "failed": "failed"}
_LETTERS = "abcdefghijkmnpqrstuvwxyz23456789"


def parse(source: Input) -> list[Run]:
    """The run in the file; what is missing at its end makes it partial. Raises ForeignFileError."""
    source.values(b",{")
    try:
        return [_run(source, list(_events(source)))]
    except (NaslabError, ValueError, TypeError, LookupError, RecursionError, binascii.Error) as error:
        raise source.broken(f"is not what naslab-agent writes: {type(error).__name__}: {str(error)[:200]}") from error


def _events(source: Input) -> Iterator[tuple[str, dict[str, Any], list[str]]]:
    """(kind, data, blobs) of each line. The last may be cut off: the machine may have been."""
    lines = [line for line in source.text.split("\n") if line.strip()]
    for number, line in enumerate(lines):
        try:
            found = json.loads(line)
        except ValueError:
            if number and number == len(lines) - 1:
                return
            raise
        yield str(found["event"]), dict(found["data"]), list(found.get("blobs") or ())


def _run(source: Input, events: list[tuple[str, dict[str, Any], list[str]]]) -> Run:
    kind, begin, _ = events[0]
    if kind != "begin" or "spec" not in begin:
        raise ValueError("the first line does not begin a run with its specification: measure again with this version")
    spec, probed = begin["spec"], begin["target"]
    planned = {cell["id"]: CellSpec.from_dict(cell) for cell in spec["cells"]}
    cells, blobs = [], {}
    for kind, data, texts in events:
        if kind == "cell":
            raw = [base64.b64decode(text, validate=True) for text in texts]
            cell = cell_document(dataclasses.asdict(planned[data["id"]]), data, raw)
            cell["first_error"] = cell["first_error"] and sentence(cell["first_error"])
            cells.append(cell)
            blobs[int(cell["id"])] = cell_blobs(data, raw)
    if not cells:
        raise ValueError("no cell was measured")
    begun_ns = min(cell["start_wall_ns"] for cell in cells)
    end = next((data for kind, data, _ in events if kind == "end"), None)
    facts = typed_facts((end or {}).get("facts") or probed["facts"])
    document = new_document(
        _id(begun_ns, source.sha256), str(spec.get("command") or "sweep"), _target(spec["target"], facts),
        environment={"target": facts, "space": probed.get("space")}, seed=int(spec.get("seed") or 0),
        start_wall_ns=begun_ns,
    )  # fmt: skip
    document["cells"] = cells
    _end(document, end)
    run = Run(document, MemoryBlobs(blobs))
    regimes = regimes_of(run)
    for cell in cells:
        found = regimes[cell["id"]]
        cell["regime"], cell["regime_evidence"] = found.word, found.evidence
    return run


def _end(document: dict[str, Any], end: Mapping[str, Any] | None) -> None:
    """Status, end and warnings. end: the last line; None where there is none."""
    last_ns = max(cell["start_wall_ns"] + cell["end_ns"] - cell["start_ns"] for cell in document["cells"])
    document["end_wall_ns"], document["finished_at"] = last_ns, iso_utc(last_ns)
    document["status"] = STATUS[end["status"]] if end else "partial"
    if end is None:
        document["warnings"].append(warning("interrupted", "the agent's lines end before the run does"))
        return
    if end.get("error"):
        document["warnings"].append(warning("error", sentence(end["error"])))
    for left in end.get("left_behind") or ():
        text = f"left on the target: {left_words(left)}; look at it, then run `naslab clean` on the target"
        document["warnings"].append(warning("left_behind", text))


def _id(begun_ns: int, sha256: str) -> str:
    """The same for the same file: it is stored once."""
    when = iso_utc(begun_ns).translate(str.maketrans("", "", "-:Z")).replace("T", "-")
    letters = (_LETTERS[int(sha256[at : at + 2], 16) % len(_LETTERS)] for at in range(0, 8, 2))
    return f"{when}-{''.join(letters)}"


def _target(target: Mapping[str, Any], facts: Mapping[str, Any]) -> dict[str, Any]:
    """The target's part of the document."""
    protocol, options = str(target["protocol"]), target.get("options") or {}
    place = {
        "smb": f"smb://{options.get('host')}/{options.get('share')}",
        "nfs": f"nfs://{options.get('host')}{options.get('path') or '/'}",
        "local": str(options.get("root")),
    }.get(protocol, f"{protocol}:")
    return {"url": place, "protocol": protocol, **negotiated(facts)}
