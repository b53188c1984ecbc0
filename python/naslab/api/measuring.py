"""`naslab.measure`: a measuring command of the command line, carried out for a Python program."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING

from naslab.api.arguments import Kind, Option, command_line
from naslab.errors import INTERRUPTED, Interrupted, NaslabError, RunFailedError

if TYPE_CHECKING:
    from naslab.api.runs import Run
    from naslab.results.progress import Progress

Amount = str | int
Time = str | float | timedelta


def measure(
    target: str | os.PathLike[str],
    *,
    kind: Kind = "run",
    budget: Time | None = None,
    max_bytes: Amount | None = None,
    credentials: str | os.PathLike[str] | None = None,
    label: Mapping[str, object] | None = None,
    note: str = "",
    seed: int | None = None,
    store: str | os.PathLike[str] | None = None,
    progress: bool | Callable[[Progress], None] = False,
    **options: Option,
) -> Run:
    """Measures a target as the command line does, stores the run and returns it.

    target: a folder, `smb://[user@]host/share`, `nfs://host/export`, `lab:NAME`, `sim:` or `null:`. kind: the command,
    `run` by default: find what limits the target. budget, max_bytes: what it may take at most; sizes are bytes or text
    as on the command line (`1 << 20`, `"1m"`), times seconds, text (`"5m"`) or a timedelta. credentials: a file with
    username= and password=; else the password comes from NASLAB_PASSWORD or the keyring, and is never stored. label:
    what to remember of the conditions, {"ram": "4g"}. store: a file for the results; None takes the user's.
    progress: False says nothing, True tells on stderr as the command line does, a function is called with a `Progress`
    some times a second. options: every other option of the command by its long name, `queue` of `--queue` and
    `file_size` of `--file-size`; lists stand for commas, True and False for a switch.

    Raises Interrupted after Ctrl-C (no Error; its `run` holds what was measured), RunFailedError for a run that failed
    (`run`, too), UsageError for an option or a target that cannot be, TargetError for one that refuses, StoreError.
    The messages are the command line's.

        run = naslab.measure("sim:", kind="sweep", file_size=["1m", "16m"], record=65536, tests="write,read")
        files, records, rates = run.grid("read")     # rates: bytes per second, file sizes by record sizes
    """
    common = {
        "budget": budget, "max_bytes": max_bytes, "credentials": credentials, "label": label, "note": note or None,
        "seed": seed, "store": store,
    }  # fmt: skip
    given = {name: value for name, value in common.items() if value is not None}  # not every command has all
    words = command_line(kind, os.fspath(target), {**options, **given})
    return _carried_out(words, progress)


def _carried_out(words: list[str], progress: bool | Callable[[Progress], None]) -> Run:
    """The run of a command line. Raises as `measure`."""
    from naslab.api.runs import Run
    from naslab.cli import carry_out
    from naslab.cli.caller import Caller, called_by

    program = Caller(words, progress if callable(progress) else None, quiet=progress is not True)
    with called_by(program):
        try:
            carry_out(words)
        except KeyboardInterrupt as error:
            if program.run is None:
                raise Interrupted("interrupted before anything was measured", None) from error
    run = Run.of(program.run) if program.run else None
    if program.code == INTERRUPTED:
        raise Interrupted(program.message, run)
    if run is None:
        raise NaslabError(f"naslab {' '.join(words)}: nothing was measured; run it on the command line for details")
    if program.code:
        raise RunFailedError(program.message, run)
    return run
