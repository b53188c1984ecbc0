"""Which kind of target a name is, and which are refused by name."""

from __future__ import annotations

import difflib
import os
import re

from naslab.errors import UsageError
from naslab.targets.local import parse_path
from naslab.targets.nfs import parse_nfs
from naslab.targets.sim import parse_sim
from naslab.targets.smb import parse_smb, parse_unc_target
from naslab.targets.target import Target
from naslab.text.messages import without_secrets

FORMS = "give a folder, smb://host/share, nfs://host/export, lab:NAME, sim:… or null:"
_MOUNT = "mount it and give the mount point"
_ELSE = "give a folder, smb:// or nfs://"
_REFUSED = {
    "published": "these are results printed in an article; see them: naslab show published:NAME",
    "lab": "a command that measures a server of the lab starts and ends it; it has no address before",
    "cifs": "write smb:// instead of cifs://",
    "smb1": "SMB1 is not supported: enable SMB 2 or 3 on the server and write smb://",
    "nfs3": "write nfs://host/export?version=3",
    "nfs4": "write nfs://host/export?version=4",
    "pnfs": "pNFS layouts are not supported: write nfs://host/export; data then go through that server",
    "iscsi": "iSCSI is not supported: mount a file system on it and give the mount point",
    "afp": f"AFP is not supported: {_MOUNT}, or use smb:// if the server has it",
    "ftp": f"FTP is not supported: {_ELSE}",
    "ftps": f"FTP is not supported: {_ELSE}",
    "sftp": f"SFTP is not supported: {_ELSE}, or {_MOUNT} (sshfs)",
    "ssh": f"SSH is not supported: {_ELSE}",
    "http": f"HTTP servers are not supported: {_ELSE}",
    "https": f"HTTP servers are not supported: {_ELSE}",
    **dict.fromkeys(("webdav", "webdavs", "dav", "davs"), f"WebDAV is not supported: {_ELSE}, or {_MOUNT} (davfs2)"),
}
_HOST_EXPORT = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_.-]+):/(?!/)")


def parse_target(text: str, *, whole_server: bool = False) -> Target:
    """The target that `text` names. Raises UsageError naming the text, without secrets, and the next step.

    whole_server: also a server without share or export is taken, as `naslab doctor` does.
    """
    shown = without_secrets(text)
    if not text.strip() or "\0" in text:
        raise UsageError(f"target {shown!r}: {FORMS}")
    if text.startswith("\\\\"):
        return parse_unc_target(shown, text, whole_server)
    scheme, colon, rest = text.partition(":")
    is_scheme = colon and len(scheme) > 1 and "/" not in scheme and not os.path.lexists(text)
    if is_scheme and not scheme.startswith((".", "~")):
        return _parse_scheme(text, shown, scheme.lower(), rest, whole_server)
    if text.startswith("\\") and not os.path.lexists(text):
        raise UsageError(
            f"target {shown!r}: there is no such folder; for a share write smb://host/share, or quote it: "
            r"'\\host\share'"
        )
    if re.match(r"[A-Za-z]:[\\/]", text) and not os.path.lexists(text):
        raise UsageError(
            f"target {shown!r}: this is a path of Windows; give a path of this machine, or smb://host/share"
        )
    if text.startswith("//") and not os.path.lexists(text.partition("?")[0]):
        raise UsageError(
            f"target {shown!r} is a local path, and there is no such folder; "
            r"a share is written smb://host/share or \\host\share"
        )
    return parse_path(text, shown)


def _parse_scheme(text: str, shown: str, scheme: str, rest: str, whole_server: bool) -> Target:
    if scheme == "null":
        if rest.strip("/"):
            raise UsageError(f"target {shown!r}: null: takes no options; write null:")
        return Target("null:", "null")
    if scheme == "sim":
        return parse_sim(shown, rest)
    if scheme == "smb":
        return parse_smb(shown, rest, whole_server)
    if scheme == "nfs":
        return parse_nfs(shown, rest, whole_server)
    if scheme == "file":
        path = "/" + rest.lstrip("/")
        raise UsageError(f"target {shown!r}: a folder is named by its path alone: write {path}")
    if scheme in _REFUSED:
        raise UsageError(f"target {scheme}: {_REFUSED[scheme]}")
    if _HOST_EXPORT.match(text):
        host, _, path = text.partition(":/")
        raise UsageError(f"target {shown!r}: HOST:/EXPORT is the form of mount; write nfs://{host}/{path}")
    if "@" in rest:  # a login whose kind was left out: all before the last @ may be a password
        shown = f"{without_secrets(scheme)}:***@{rest.rpartition('@')[2]}"
    if near := difflib.get_close_matches(scheme, ("smb", "nfs", "sim", "null", "lab"), 1):
        raise UsageError(f"target {shown!r}: unknown kind {scheme!r}; did you mean {near[0]}:{without_secrets(rest)}?")
    raise UsageError(f"target {shown!r}: unknown kind {scheme!r}; {FORMS}")
