"""Names of files in traces: bytes of any kind as safe text, and names that tell nothing."""

from __future__ import annotations

import hashlib
import re
import secrets
from functools import lru_cache

_LITERAL = re.compile(r"%(?=[0-9A-Fa-f]{2})")
_UNSAFE = re.compile("[\\\\\x00\udc80-\udcff]")
_EXTENSION = re.compile(r".(\.[A-Za-z0-9]{1,8})\Z", re.DOTALL)
MAX_PATH = 4096
"""Bytes of a path in a trace."""


def name_text(raw: bytes) -> str:
    """A name or path as text. Bytes that are not UTF-8, and backslashes, become %XX; so does a % before two
    hexadecimal digits, so that every %XX stands for one byte.

    A backslash separates folders on SMB: left as it is, a name could point out of the folder of a replay.
    """
    text = raw.decode("utf-8", "surrogateescape")
    if "%" in text:
        text = _LITERAL.sub("%25", text)
    return _UNSAFE.sub(lambda found: f"%{ord(found[0]) & 0xFF:02X}", text)


def too_long(path: str) -> bool:
    """Whether a path has more bytes than a trace may hold."""
    return len(path) * 4 > MAX_PATH and len(path.encode("utf-8", "surrogatepass")) > MAX_PATH


@lru_cache(maxsize=1 << 13)
def path_problem(path: str) -> str | None:
    """Why a path must not be in a trace; None if it may."""
    if path == ".":
        return None
    if not path:
        return 'is empty; the root itself is "."'
    if too_long(path):
        return f"is longer than {MAX_PATH} bytes"
    for character, escape in (("\0", "%00"), ("\\", "%5C")):
        if character in path:
            return f"{shown(path)} holds {shown(character)}; write it as {escape}"
    if path.startswith("/"):
        return f"{shown(path)} is absolute; paths are relative to the trace's root"
    bad = next((part for part in path.split("/") if part in ("", ".", "..")), None)
    return None if bad is None else f"{shown(path)} has the component {bad!r}; write plain names between single slashes"


def shown(text: str) -> str:
    """A text of a stranger for an error message: quoted, short, printable."""
    return ascii(text if len(text) <= 80 else text[:77] + "...")


class Anonymiser:
    """Replaces each component of a path by a keyed hash; equal names stay equal within one trace.

    keep_extension: `.jpg` and the like stay (at most eight letters or digits). The key is made anew each time and
    is stored nowhere, so the names cannot be found again by hashing guesses.
    """

    def __init__(self, keep_extension: bool = True, key: bytes | None = None) -> None:
        self._key = key or secrets.token_bytes(32)
        self._keep = keep_extension
        self._component = lru_cache(maxsize=1 << 16)(self._hashed)

    def path(self, path: str) -> str:
        """The path with every component replaced; "." stays."""
        return path if path == "." else "/".join(map(self._component, path.split("/")))

    def _hashed(self, name: str) -> str:
        digest = hashlib.blake2b(name.encode(), key=self._key, digest_size=8).hexdigest()
        extension = _EXTENSION.search(name) if self._keep else None
        return digest + (extension[1] if extension else "")
