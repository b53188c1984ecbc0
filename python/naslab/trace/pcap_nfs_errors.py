"""What reads, writes and errors of any NFS version have in a trace."""

from __future__ import annotations

from typing import Any

_ERRORS = {
    1: "EPERM", 2: "ENOENT", 5: "EIO", 6: "ENXIO", 13: "EACCES", 17: "EEXIST", 18: "EXDEV", 19: "ENODEV",
    20: "ENOTDIR", 21: "EISDIR", 22: "EINVAL", 27: "EFBIG", 28: "ENOSPC", 30: "EROFS", 31: "EMLINK",
    63: "ENAMETOOLONG", 66: "ENOTEMPTY", 69: "EDQUOT", 70: "ESTALE", 10004: "ENOTSUPP", 10008: "EDELAY",
    10013: "EGRACE", 10026: "EOPENMODE",
}  # fmt: skip


def nfs_error(status: int) -> str | None:
    """As errno names it where it has a name; None for success."""
    return None if status == 0 else _ERRORS.get(status, f"NFS_{status}")


def data_fields(op: str, offset: int, asked: int, moved: int, status: int) -> dict[str, Any]:
    """What a read or write has in a trace, but for its file."""
    return {
        "op": op, "offset_bytes": offset, "len_bytes": moved, "asked_bytes": asked if asked != moved else None,
        "error": nfs_error(status),
    }  # fmt: skip
