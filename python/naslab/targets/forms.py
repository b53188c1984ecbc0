"""Whether a name is a target's and not a file's of this machine, so that nothing is done in place of what was named.

`sim:x` or `nas:/export` could be a local file, and is one where such a file exists; else a target was meant.
"""

from __future__ import annotations

import os
import re
from urllib.parse import quote

from naslab.errors import UsageError
from naslab.text.messages import without_secrets

PLACELESS = ("sim", "null")
"""Targets without files of their own names: the whole name is the target."""
SCHEMES = frozenset(
    (
        *("smb", "cifs", "smb1", "smb2", "smb3", "nfs", "nfs3", "nfs4", "pnfs", "sim", "null", "lab", "published"),
        *("file", "iscsi", "afp", "ftp", "ftps", "sftp", "ssh", "http", "https", "webdav", "webdavs", "dav", "davs"),
    )
)
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")
_HOST_EXPORT = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_.-]{2,}):/")
_DRIVE = re.compile(r"[A-Za-z]:[\\/]")


def scheme_of(text: str) -> str:
    """The kind before the colon, in small letters, where it is one that naslab knows; else nothing."""
    match = _SCHEME.match(text)
    return match.group(1).lower() if match and match.group(1).lower() in SCHEMES else ""


def names_target(text: str) -> bool:
    """Whether the text has the form of a target or of an address, and no file here has this name."""
    parent = os.path.dirname(text)
    if _exists(text.partition("?")[0]) or _exists(text) or (parent.strip("/") and _exists(parent)):
        return False
    if text.startswith("\\") or _DRIVE.match(text) or scheme_of(text) or _HOST_EXPORT.match(text):
        return True
    return text.startswith("//") and not _exists(parent)


def _exists(text: str) -> bool:
    try:
        return os.path.lexists(text)
    except ValueError:  # a zero byte
        return False


def with_addresses(text: str, addresses: str) -> str:
    """A target's name with `address=` behind its `?`, as `--address` writes it. Raises UsageError."""
    shown = without_secrets(text)
    scheme = scheme_of(text)
    if not text.startswith("\\\\") and scheme not in ("smb", "nfs", "lab"):
        raise UsageError(
            f"--address {addresses}: {shown} is reached by no network address; only smb:// and nfs:// targets have "
            "several: leave --address out"
        )
    place, mark, query = text.partition("?")
    if any(part.partition("=")[0] == "address" for part in query.split("&")):
        raise UsageError(f"--address {addresses}: the target's name has address= too; give one of them")
    pair = f"address={quote(addresses, safe=',:[]')}"
    return f"{place}?{query}&{pair}" if mark and query else f"{place}?{pair}"


def check_local(text: str, option: str) -> None:
    """Raises UsageError where a file or folder of this machine is meant and a target is named."""
    if not names_target(text):
        return
    scheme = scheme_of(text)
    if scheme == "file":
        path = "/" + text.partition(":")[2].lstrip("/")
        raise UsageError(f"{option} {text}: write the path alone, without file: {path}")
    if scheme in (*PLACELESS, "lab", "published"):
        raise UsageError(f"{option} {text}: {scheme}: has no place for it; give a path of this machine")
    raise UsageError(
        f"{option} {without_secrets(text)}: this names a server, but a local path is needed; "
        "give one, or mount the share and give a path below the mount point"
    )
