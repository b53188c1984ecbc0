"""Where a DiskSpd target lies: the folder or share that naslab opens, and the file's name in it."""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path

from naslab.commands.diskspd.options import refusal_of_target
from naslab.errors import UsageError
from naslab.targets import parse_target
from naslab.targets.forms import names_target
from naslab.text.messages import without_secrets

VIRTUAL_FILE = "diskspd.dat"
"""Name of the file on sim: and null:, whose names hold none."""
_ADDRESS = re.compile(r"(smb|nfs|lab):", re.IGNORECASE)
_VIRTUAL = re.compile(r"(sim|null):", re.IGNORECASE)


@dataclass(frozen=True)
class Place:
    """root: a target as other commands take it. name: the file's, within it."""

    root: str
    name: str


def place(target: str) -> Place:
    """Where the file lies. Raises UsageError for what is not a file."""
    shown = without_secrets(target)
    if re.match(r"#[0-9]", target) or target.lower().startswith(("\\\\.\\", "\\\\?\\")):
        raise UsageError(f"target {shown!r}: {refusal_of_target('#n')}; give a file")
    if re.fullmatch(r"[A-Za-z]:", target):
        raise UsageError(f"target {shown!r}: {refusal_of_target('X:')}; give a file")
    if re.match(r"[A-Za-z]:\\", target):
        raise UsageError(f"target {shown!r}: a path of Windows; give a path of this machine, or smb://host/share/file")
    if _VIRTUAL.match(target) and names_target(target):
        root, _, name = target.partition("#")
        return Place(root, _name(name or VIRTUAL_FILE, shown))
    if target.startswith("\\\\"):
        root, _, name = target.rpartition("\\")
        if root.count("\\") < 3:
            raise UsageError(rf"target {shown!r}: give a file on a share, as \\host\share\file")
        return Place(root, _name(name, shown))
    if names_target(target):
        if not _ADDRESS.match(target):
            parse_target(target)  # it says what is wrong with the whole name
        return _address(target, shown)
    folder, name = os.path.split(target)
    return Place(folder or ".", _name(name, shown))


def _address(target: str, shown: str) -> Place:
    """`smb://host/share/dir/file?options`, `lab:NAME/dir/file?options`: the options stay with the folder."""
    path, mark, options = target.partition("?")
    root, _, name = path.rpartition("/")
    parts = root.rstrip("/").split("/")
    if root.lower().startswith(("smb:", "nfs:")) and len(parts) < (4 if root.lower().startswith("smb:") else 3):
        scheme, _, rest = shown.partition(":")
        if not rest.startswith("//"):
            raise UsageError(f"target {shown!r}: write {scheme.lower()}://{rest.strip('/')}")
        raise UsageError(f"target {shown!r}: give a file, as smb://host/share/file or nfs://host/export/file")
    if not root:
        raise UsageError(f"target {shown!r}: give a file, as lab:samba/file")
    return Place(root + mark + options, _name(name, shown))


def _name(name: str, shown: str) -> str:
    if name in ("", ".", ".."):
        raise UsageError(f"target {shown!r}: give a file, not a folder")
    return name


def one_root(targets: list[str]) -> tuple[str, dict[str, str]]:
    """The root that all targets share, and {target: file name within it}. Raises UsageError.

    Local paths in several folders meet at the folder above them all.
    """
    places = {target: place(target) for target in targets}
    roots = {found.root for found in places.values()}
    if len(roots) == 1:
        return roots.pop(), {target: found.name for target, found in places.items()}
    if all(_is_path(found.root) for found in places.values()):
        full = {target: os.path.abspath(os.path.join(found.root, found.name)) for target, found in places.items()}
        common = os.path.commonpath([os.path.dirname(path) for path in full.values()])
        return common, {target: os.path.relpath(path, common) for target, path in full.items()}
    first, second = sorted(without_secrets(root) for root in roots)[:2]
    raise UsageError(
        f"targets on {first} and on {second}: one run measures one folder or share; name files of one, "
        "or give each its own line"
    )


def check_kind(path: Path, shown: str) -> None:
    """Raises UsageError for what is there and neither a file nor a folder: a disk, a pipe, a terminal."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise UsageError(f"target {shown!r}: {refusal_of_target('/dev/…')}; give a file")


def _is_path(root: str) -> bool:
    return not (_VIRTUAL.match(root) or root.startswith("\\\\") or (_ADDRESS.match(root) and not os.path.lexists(root)))
