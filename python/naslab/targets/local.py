"""`/path`, `./path`: a local or mounted folder."""

from __future__ import annotations

import os
import re
from pathlib import Path

from naslab.errors import UsageError
from naslab.targets.query import flag, parse_query
from naslab.targets.target import Target
from naslab.text.messages import without_secrets

_HOST = re.compile(
    r"[0-9]{1,3}(\.[0-9]{1,3}){3}|[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*\.(local|lan|home|internal|net|com|org)"
)


def folder_target(folder: Path) -> Target:
    """A local folder, whatever its name looks like. Raises UsageError when it is none."""
    root = _folder(str(folder), folder)
    return Target(str(root), "local", {"root": str(root), "engine": "auto"})


def parse_path(text: str, shown: str) -> Target:
    """The folder of this name, with its options. Raises UsageError."""
    path_text, query, options = text, "", {}
    if "?" in text and not _exists(Path(text)):
        path_text, _, query = text.partition("?")
        options = parse_query(shown, query)
    root = _folder(without_secrets(path_text), Path(path_text))
    engine = options.pop("engine", "auto")
    if engine not in ("auto", "posix", "uring"):
        raise UsageError(f"target {shown!r}: engine={engine!r}; use auto, posix or uring")
    direct = flag(shown, "direct", options.pop("direct", "0"))
    if options:
        unknown = ", ".join(options)
        raise UsageError(f"target {shown!r}: unknown option {unknown}; a path takes engine= and direct=")
    return Target(f"{root}?{query}" if query else str(root), "local", {"root": str(root), "engine": engine}, direct)


def _exists(path: Path) -> bool:
    """Whether there is such a path; a name no file system takes is none."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def _folder(shown: str, path: Path) -> Path:
    """The absolute path of a folder that is there. Raises UsageError."""
    try:
        root = Path(os.path.abspath(path.expanduser()))
        str(root).encode()
        is_there, is_folder = root.exists(), root.is_dir()
    except (OSError, ValueError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or "not a valid folder name"
        raise UsageError(f"target {shown!r}: {reason}; give another folder") from None
    if not is_there:
        server = (
            f", or for a server write smb://{shown}/SHARE or nfs://{shown}/EXPORT" if _HOST.fullmatch(shown) else ""
        )
        raise UsageError(f"target {shown!r}: there is no such folder; create it or mount the share first{server}")
    if not is_folder:
        raise UsageError(f"target {shown!r} is not a folder; give the folder to work in")
    return root
