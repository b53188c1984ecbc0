"""The run's folder on the target: made and marked as the engine does, used, and removed with all in it."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from naslab import _engine
from naslab.errors import TargetError
from naslab.execution import workspace
from naslab.execution.waits import is_in_doubt
from naslab.execution.workspace import FILES

if TYPE_CHECKING:
    from naslab.commands.jobs.source import Item
    from naslab.execution.execute import Execution

_SMB_FORBIDDEN = '<>:"|?*\\'
_SMB_DEVICES = {"con", "prn", "aux", "nul", *(f"com{n}" for n in range(1, 10)), *(f"lpt{n}" for n in range(1, 10))}
_MOST_NAME_BYTES = 255


@contextlib.contextmanager
def run_folder(execution: Execution) -> Iterator[str]:
    """The path of the run's folder of files, made and marked; removed at the end, however that comes."""
    target, folder = execution.target.engine_json(), str(execution.spec.folder)
    session, in_doubt = _engine.Session(target, 1), False
    try:
        workspace.make(session, folder, execution.run_id)
        execution.begun = True
        yield f"{folder}/{FILES}"
    except BaseException as error:
        in_doubt = is_in_doubt(error)
        raise
    finally:
        session.end()
        for path in workspace.remove(target, folder, execution.run_id, in_doubt=in_doubt):
            execution.note_left(path)


RESOLUTIONS_NS = (1, 100, 1_000, 1_000_000, 10_000_000, 1_000_000_000, 2_000_000_000)
"""Of times that file systems keep: nanoseconds, SMB and NTFS, micro- and milliseconds, exFAT, seconds, FAT."""
_ODD_NS = 1_234_567_891_987_654_321


def time_resolution_ns(session: _engine.Session, folder: str) -> int | None:
    """How exactly files in a folder keep a time that was set; None where none can be set or it does not last.

    A file is made for it and removed. Raises TargetError where that fails.
    """
    path = f"{folder}/times"
    session.close(session.open(path, json.dumps({"write": True, "read": False, "create": "new"})))
    try:
        session.set_times(path, _ODD_NS, _ODD_NS)
        found = session.modified_ns(path)
    except TargetError as error:
        if error.kind in ("disconnected", "timeout"):
            raise
        found = None
    session.discard(path)
    if found is None:
        return None
    return next((one for one in RESOLUTIONS_NS if abs(found - _ODD_NS) < one), None)


def remove_tree(session: _engine.Session, path: str) -> None:
    """A folder below the run's folder with all in it; a missing one is fine. Raises TargetError."""
    try:
        entries = session.readdir(path)
    except TargetError as error:
        if error.kind == "not_found":
            return
        raise
    for name, is_dir in entries:
        if is_dir:
            remove_tree(session, f"{path}/{name}")
        else:
            session.discard(f"{path}/{name}")
    session.rmdir(path)


def names_on(protocol: str, items: Iterable[Item]) -> tuple[dict[str, str], int, list[str]]:
    """For each item's path its path on the target; how many names had to be written otherwise; items left out.

    A name the target cannot hold has the offending characters as %XX of their bytes. One that differs from another
    only in case, where the target does not tell case apart (smb), has its first character so. Left out is what has
    a name of more than 255 bytes then, with all below it.
    """
    paths: dict[str, str] = {"": ""}
    taken: set[str] = set()
    changed = 0
    left_out: list[str] = []
    for item in items:
        parent, _, name = item.path.rpartition("/")
        if parent not in paths:
            left_out.append(item.path)
            continue
        written = _written(name, protocol)
        prefix = f"{paths[parent]}/" if parent else ""
        if _key(prefix + written, protocol) in taken:
            written = "".join(f"%{byte:02x}" for byte in written[0].encode()) + written[1:]
        if len(written.encode()) > _MOST_NAME_BYTES or _key(prefix + written, protocol) in taken:
            left_out.append(item.path)
            continue
        changed += written != name
        taken.add(_key(prefix + written, protocol))
        paths[item.path] = prefix + written
    return paths, changed, left_out


def _key(path: str, protocol: str) -> str:
    return path.casefold() if protocol == "smb" else path


def _written(name: str, protocol: str) -> str:
    text = "".join(_character(c, protocol) for c in name)
    if protocol != "smb":
        return text
    if text[-1] in ". ":
        text = f"{text[:-1]}%{ord(text[-1]):02x}"
    if text.split(".")[0].casefold() in _SMB_DEVICES:
        text = f"%{ord(text[0]):02x}{text[1:]}"
    return text


def _character(c: str, protocol: str) -> str:
    if 0xDC80 <= ord(c) <= 0xDCFF:  # a byte that is no UTF-8
        return f"%{ord(c) - 0xDC00:02x}"
    if protocol == "smb" and (c in _SMB_FORBIDDEN or ord(c) < 32):
        return f"%{ord(c):02x}"
    return c
