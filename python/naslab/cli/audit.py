"""`naslab audit`: what cannot be true in a result, whoever measured it."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from naslab.cli import options as o
from naslab.cli.report import parse_link
from naslab.units import parse_size

if TYPE_CHECKING:
    from naslab.audit import Finding, Subject
    from naslab.exchange.redact import Names

IMPOSSIBLE = 1
"""Exit code where something was found that cannot be true."""

RunsArg = Annotated[
    list[str],
    typer.Argument(
        metavar="RUN...", show_default=False,
        help="Runs, exported files, published:NAME, or files of tools that `naslab import` reads.",
    ),
]  # fmt: skip
AuditLinkOpt = Annotated[
    str,
    typer.Option(
        "--link", metavar="RATE", show_default=False,
        help="The network link, if no run has recorded it: 1g, 100m, or 10g:9000 with its MTU.",
    ),
]  # fmt: skip
ClientMemoryOpt = Annotated[
    str, typer.Option("--client-memory", metavar="SIZE", help="Memory of the client, e.g. 4g.", show_default=False)
]
ServerMemoryOpt = Annotated[
    str,
    typer.Option("--server-memory", metavar="SIZE", help="RAM of the server, e.g. 4g.", show_default=False),
]


def audit(
    runs: RunsArg,
    link: AuditLinkOpt = "",
    client_memory: ClientMemoryOpt = "",
    server_memory: ServerMemoryOpt = "",
    redact: o.RedactOpt = False,
    store: o.StoreOpt = None,
    as_json: o.JsonOpt = False,
) -> int:
    """Check results, own, imported or published, for impossible values; exit code 1 if there are any."""
    from naslab.audit import audit as look
    from naslab.audit.redacted import without_names
    from naslab.audit.words import as_json as entry
    from naslab.audit.words import as_text
    from naslab.exchange.redact import Names

    names = Names() if redact else None
    subjects = _subjects(runs, (link, client_memory, server_memory), store, names)
    found = [(subject, look(subject)) for subject in subjects]
    found = found if names is None else without_names(found, names)
    if as_json:
        json.dump({"schema": 1, "audits": [entry(s.name, s.run.run_id, each) for s, each in found]}, sys.stdout)
        print()
    else:
        width = shutil.get_terminal_size((100, 24)).columns
        print("\n".join(as_text(s.name, len(s.document["cells"]), each, width) for s, each in found), end="")
    return IMPOSSIBLE if any(_impossible(each) for _, each in found) else 0


def _impossible(found: list[Finding]) -> bool:
    return any(each.grade == "impossible" for each in found)


def _subjects(
    references: list[str], given: tuple[str, str, str], store: Path | None, names: Names | None
) -> list[Subject]:
    """given: the words after --link, --client-memory and --server-memory. names: of an output that names nobody."""
    from naslab.audit import Subject
    from naslab.audit.opening import open_runs
    from naslab.audit.redacted import nameless
    from naslab.results.store import Store

    link, client_memory, server_memory = given
    rate = _link(link) if link else None
    client = parse_size(client_memory, "--client-memory") if client_memory else None
    server = parse_size(server_memory, "--server-memory") if server_memory else None
    opened = Store(store)
    runs = [each for reference in references for each in open_runs(reference, opened)]
    runs = runs if names is None else nameless(runs, names)
    # Each pair is compared once: a run with those before it.
    return [Subject(run, name, rate, client, server, runs[:at]) for at, (name, run) in enumerate(runs)]


def _link(text: str) -> tuple[str, float]:

    words, rate = parse_link(text)
    return f"{words.split(',')[0]}, given", rate
