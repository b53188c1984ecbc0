"""Writing an exported file: whole or not at all, and safe to open in a spreadsheet."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from naslab.errors import StoreError, UsageError

_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def without_control(text: str) -> str:
    """Text without characters that XML cannot hold; half of a surrogate pair becomes a question mark."""
    return _CONTROL.sub("", text).encode("utf-8", "replace").decode("utf-8")


def safe_text(text: str) -> str:
    """Text a spreadsheet takes as text: no control characters, an apostrophe before what would be a formula."""
    clean = without_control(text)
    return "'" + clean if clean.startswith(_FORMULA) else clean


def plain_text(text: str) -> str:
    """What `safe_text` made its text of, but for control characters."""
    return text[1:] if text.startswith("'") and text[1:].startswith(_FORMULA) else text


@contextmanager
def written_whole(path: Path, force: bool = False) -> Iterator[Path]:
    """A temporary file beside `path` to write; it takes the name when the block ends well, and goes otherwise.

    Raises UsageError when something is there already and not `force`, StoreError when the file cannot be
    written.
    """
    if path.is_dir():
        raise UsageError(f"-o {path} is a folder; name a file")
    if path.exists() and not force:
        raise UsageError(f"-o {path} is there already; name another file, or give --force to replace it")
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    except OSError as error:
        raise StoreError(f"-o {path} cannot be written: {error}") from error
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        _take_name(temporary, path)
    except OSError as error:
        raise StoreError(f"-o {path} cannot be written: {error}") from error
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def _take_name(temporary: Path, path: Path) -> None:
    mask = os.umask(0)
    os.umask(mask)
    temporary.chmod(0o666 & ~mask)
    with temporary.open("rb+") as file:
        os.fsync(file.fileno())
    os.replace(temporary, path)
