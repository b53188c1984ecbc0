"""`naslab mkfile`: a file for a test."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

from naslab import _engine
from naslab.cli.progress import Progress
from naslab.errors import TargetError, UsageError
from naslab.execution.execute import check_space, engine_errors, probe
from naslab.execution.waits import termination_as_interrupt
from naslab.spec import CellSpec, RunSpec
from naslab.targets import Target, folder_target
from naslab.text.messages import Told, sentence
from naslab.units import parse_size

BLOCK_BYTES, RECORD_BYTES = 4096, 1 << 20


def make_file(path: Path, size: str, sparse: bool, seed: int, as_json: bool, quiet: bool) -> int:
    """A new file, of naslab's tagged incompressible blocks or of holes. Nothing is left when it fails."""
    size_bytes = parse_size(size, "--size")
    if size_bytes < 1:
        raise UsageError(f"--size {size}: give at least 1 byte")
    if path.is_symlink() or path.exists():
        raise UsageError(f"{path} exists; mkfile makes new files only: choose another name")
    if not path.name or path.name == "..":
        raise UsageError(f"{path}: give the name of a file")
    target = folder_target(path.parent)
    if sparse:
        with _removed_on_failure(path), engine_errors(target.url, before_run=True):
            _engine.set_len(target.engine_json(), path.name, size_bytes, True)
    else:
        _write_file(target, path, size_bytes, seed, quiet or as_json)
    if as_json:
        print(json.dumps({"schema": 1, "path": str(path), "bytes": size_bytes, "sparse": sparse}))
    elif not quiet:
        print(f"{path}: {size_bytes} bytes" + (", holes only" if sparse else ""))
    return 0


@contextlib.contextmanager
def _removed_on_failure(path: Path) -> Iterator[None]:
    """Removes the file again when the block fails, unless it was there by then."""
    try:
        yield
    except BaseException as error:
        with contextlib.suppress(OSError):
            if not (isinstance(error, UsageError) or path.is_symlink()):
                path.unlink(missing_ok=True)
        raise


def _write_file(target: Target, path: Path, size_bytes: int, seed: int, quiet: bool) -> None:
    """Whole records, the last of which is then cut to the size."""
    record = min(RECORD_BYTES, -(-size_bytes // BLOCK_BYTES) * BLOCK_BYTES)
    whole = -(-size_bytes // record) * record
    cell = CellSpec("write", whole, record, [path.name], write_fraction=1.0, create="new", seed=seed)
    check_space([cell], probe(target, [cell]))
    spec = RunSpec(target.engine_spec(), [cell], run_id=f"mkfile-{seed}", command="mkfile", seed=seed)
    failed: Told | None = None

    def on_event(kind: str, text: str, _blobs: list[bytes]) -> None:
        nonlocal failed
        event = json.loads(text)
        if kind == "progress" and progress.hooks.progress:
            progress.hooks.progress(event)
        elif kind == "cell" and event["status"] != "complete":
            failed = event["first_error"] or next((e["kind"] for e in event["errors_by_status"]), None)

    with _removed_on_failure(path), Progress([cell], quiet) as progress, termination_as_interrupt():
        with engine_errors(target.url, before_run=True):
            end = json.loads(_engine.run(spec.to_json(), "{}", on_event))
        if end["status"] != "complete":
            reason = sentence(end["error"] or failed or "not all of it could be written")
            raise TargetError(f"{path}: {reason}; nothing of it was left", before_run=True)
        if whole != size_bytes:
            with engine_errors(target.url):
                _engine.set_len(target.engine_json(), path.name, size_bytes, False)
