"""`naslab trace ...`: record what an application does, convert what other tools recorded, describe it."""

from __future__ import annotations

import gc
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from naslab.cli import options as o
from naslab.errors import INTERRUPTED, UsageError
from naslab.text.outputs import APP, HTML, NEW_TRACE, check_output, write_output

if TYPE_CHECKING:
    from naslab.trace.described import DescribedTrace
    from naslab.trace.names import Anonymiser
    from naslab.trace.reader import Trace

TraceOutOpt = Annotated[
    Path, typer.Option("--output", "-o", metavar="FILE", help="Trace to write: FILE.trace.zst, or FILE.trace.")
]
AnonymiseOpt = Annotated[
    bool, typer.Option("--anonymise", help="Replace each name by a keyed hash; the key is not kept.")
]
DropOpt = Annotated[bool, typer.Option("--drop-extensions", help="With --anonymise: hide .jpg and the like too.")]


def record(
    command: Annotated[
        list[str],
        typer.Argument(metavar="CMD...", help="The command, after -- and after all options.", show_default=False),
    ],
    output: TraceOutOpt = Path("recorded.trace.zst"),
    root: Annotated[
        Path, typer.Option("--root", metavar="DIR", help="Trace only files below this folder; count the others.")
    ] = Path("."),
    anonymise: AnonymiseOpt = False,
    drop_extensions: DropOpt = False,
    as_json: o.JsonOpt = False,
    quiet: o.QuietOpt = False,
) -> int:
    """Run a command under strace and record every file operation; exit code 1 if the command failed."""
    from naslab.trace.record import record as run

    check_output(output, "-o", NEW_TRACE)
    hide = _anonymiser(anonymise, drop_extensions)
    done = run(command, output, root, hide, stdout=sys.stderr.fileno() if as_json else None)
    told = {"trace": str(output), "exit_code": done.exit_code, "operations": done.operations,
            "skipped": done.skipped, "notes": done.notes}  # fmt: skip
    _say(told, as_json, quiet, f"The command ended with exit code {done.exit_code}.")
    if not done.exit_code:
        return 0
    return INTERRUPTED if done.interrupted else 1


def convert(
    source: Annotated[Path, typer.Argument(metavar="IN", help="File that another tool wrote.", show_default=False)],
    output: TraceOutOpt,
    kind: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="strace|fio|dbench|pcap",
            help="strace: its text; fio: a write_iolog file; dbench: a load file; pcap: packets of SMB or NFS.",
            show_default="what IN looks like",
        ),
    ] = "",
    root: Annotated[
        Optional[Path],  # noqa: UP045 - Typer reads this at run time
        typer.Option(
            "--root",
            metavar="DIR",
            help="strace, fio: trace only files below this folder; count the others.",
            show_default="the folder that all files share; strace: required",
        ),
    ] = None,
    cwd: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option("--cwd", metavar="DIR", help="strace: where the command ran.", show_default="the --root"),
    ] = None,
    anonymise: AnonymiseOpt = False,
    drop_extensions: DropOpt = False,
    as_json: o.JsonOpt = False,
    quiet: o.QuietOpt = False,
) -> int:
    """Create a trace from strace's output, fio's I/O logs (version 2 or 3), dbench's load files or captured packets."""
    from naslab.trace.convert import convert as run

    check_output(output, "-o", NEW_TRACE)
    done = run(source, output, kind, root, cwd, _anonymiser(anonymise, drop_extensions))
    _say({"trace": str(output), **done}, as_json, quiet, "")
    return 0


def show(
    trace: Annotated[Path, typer.Argument(metavar="FILE", help="A trace.", show_default=False)],
    output: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(
            "--output", "-o", metavar="FILE.html", help="Also write an HTML file with its charts.", show_default=False
        ),
    ] = None,
    emit_app: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(
            "--emit-app",
            metavar="FILE.toml",
            help="Also write an application with this profile, for naslab apps --app.",
            show_default=False,
        ),
    ] = None,
    as_json: o.JsonOpt = False,
) -> int:
    """The profile of a trace: kinds, sizes, sequentiality, mix, concurrency, think time, files."""
    from msgspec import to_builtins

    from naslab.trace.reader import Trace
    from naslab.trace.text import profile_text

    if output is not None:
        check_output(output, "-o", HTML)
        if output.suffix != ".html":
            raise UsageError(f"-o {output}: pictures are HTML; name it FILE.html")
    if emit_app is not None:
        if emit_app.suffix != ".toml":
            raise UsageError(f"--emit-app {emit_app}: definitions are TOML; name it FILE.toml")
        check_output(emit_app, "--emit-app", APP)
    opened = Trace(trace)
    document = _described(opened)
    if output is not None:
        from naslab.trace.picture import picture

        write_output(picture(document), output, "-o", HTML)
    if emit_app is not None:
        from naslab.commands.apps.from_trace import definition_of

        gc.collect()  # the profile's tree of files has references in circles
        write_output(definition_of(opened), emit_app, "--emit-app", APP)
    print(json.dumps(to_builtins(document)) if as_json else profile_text(document), end="\n" if as_json else "")
    return 0


def _described(trace: Trace) -> DescribedTrace:
    """The document of `naslab trace show --json`."""
    from naslab.trace.described import DescribedTrace
    from naslab.trace.profile import Profile

    profile = Profile()
    for operation in trace:
        profile.add(operation)
    assert trace.end is not None  # it was read to its end
    return DescribedTrace(1, str(trace.path), trace.header, trace.end, profile.document())


def _anonymiser(wanted: bool, drop_extensions: bool) -> Anonymiser | None:
    from naslab.trace.names import Anonymiser

    if drop_extensions and not wanted:
        raise UsageError("--drop-extensions: names are hidden with --anonymise; give it too, or leave this out")
    return Anonymiser(keep_extension=not drop_extensions) if wanted else None


def _say(told: dict[str, object], as_json: bool, quiet: bool, first: str) -> None:
    if as_json:
        print(json.dumps({"schema": 1, **told}))
        return
    if quiet:
        return
    skipped: dict[str, int] = told["skipped"]  # type: ignore[assignment]
    notes: list[str] = told["notes"]  # type: ignore[assignment]
    lines = [first] if first else []
    lines.append(f"{told['operations']:,} operations are in {told['trace']}; see them: naslab trace show FILE")
    lines += [f"not in the trace: {count:,} x {reason}" for reason, count in sorted(skipped.items())]
    lines += [f"note: {note}" for note in notes]
    print("\n".join(lines), file=sys.stderr)
