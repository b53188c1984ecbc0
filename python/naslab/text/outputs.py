"""Every file that naslab writes for somebody: nothing of others is overwritten, and it is written whole or not at all.

A place for an output must be free, hold nothing (an empty file), be no file at all (a pipe, a terminal, /dev/null), or
hold what naslab itself wrote of the same kind, which each `Kind` recognises by a mark in the file. Everything else is
refused, unless `--force`. Commands call `check_output` before they measure, and `written` when they have something to
write; both take the same view. Traces and exported runs are data that may be nowhere else: those are not replaced even
by their own kind.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import stat
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

from naslab.errors import StoreError, UsageError

HEAD_BYTES = 16 << 10
"""How much of a file's beginning a mark may be in."""
_forced: ContextVar[bool] = ContextVar("force", default=False)
_STREAMS = re.compile(r"/dev/(stdin|stdout|stderr|fd/\d+)|/proc/(self|\d+)/fd/\d+")


@dataclass(frozen=True)
class Kind:
    """A kind of output. what: what a reader calls it. own: whether this file was written by naslab as this kind.

    replaced: naslab's own one is written over without asking.
    """

    what: str
    own: Callable[[Path], bool]
    replaced: bool = True


def _head(path: Path, size: int = HEAD_BYTES) -> bytes:
    with path.open("rb") as file:
        return file.read(size)


def _marked(pattern: bytes) -> Callable[[Path], bool]:
    """Whether the pattern is in the file's beginning."""
    found = re.compile(pattern)
    return lambda path: found.search(_head(path)) is not None


def _is_workbook(path: Path) -> bool:
    """An .xlsx whose properties name naslab as its author."""
    return b"<dc:creator>naslab</dc:creator>" in _part(path, "docProps/core.xml")


def _part(path: Path, name: str) -> bytes:
    """A part of a zipped document, its beginning; empty where there is none."""
    import zipfile

    try:
        with zipfile.ZipFile(path) as parts, parts.open(name) as part:
            return part.read(1 << 20)
    except (zipfile.BadZipFile, KeyError, ValueError, NotImplementedError, RuntimeError, zlib.error):
        return b""


def _is_iozone_sheet(path: Path) -> bool:
    """A spreadsheet of IOzone's layout, by IOzone or naslab: its first cell is IOzone's command line."""
    if any(b"iozone -" in _part(path, part) for part in ("xl/worksheets/sheet1.xml", "xl/sharedStrings.xml")):
        return True
    head = _head(path, 4)
    if head[:4] == b"\xd0\xcf\x11\xe0":  # an OLE file: BIFF8, as xlwt writes it
        data = path.read_bytes() if path.stat().st_size < 64 << 20 else b""
        return b"iozone -" in data and (b"records sizes" in data or b"Throughput report" in data)
    # BIFF2, as IOzone itself writes it: its beginning, then cells of text.
    return head[:2] == b"\x09\x00" and b"iozone -" in _head(path)


def _is_trace(path: Path) -> bool:
    """A trace in naslab's format, packed or not."""
    head = _head(path, 1 << 10)
    if head[:4] == b"\x28\xb5\x2f\xfd":
        import zstandard

        try:
            with path.open("rb") as file, zstandard.ZstdDecompressor().stream_reader(file) as unpacked:
                head = unpacked.read(1 << 10)
        except zstandard.ZstdError:
            return False
    return b'"naslab_trace"' in head


def _never(path: Path) -> bool:
    return False


PNG_MARK = b"tEXtSoftware\x00naslab one-page report"
"""A chunk of text in a PNG of naslab's; whoever draws one writes it."""
HTML = Kind("naslab report", _marked(rb'<meta name="generator" content="naslab[ "]'))
ONE_PAGE_SVG = Kind("one-page naslab report", _marked(rb"<!-- naslab one-page report "))
ONE_PAGE_PNG = Kind("one-page naslab report", _marked(re.escape(PNG_MARK)))
JUNIT = Kind("JUnit file of naslab check", _marked(rb'<testsuite name="naslab check: '))
APPS_CSV = Kind("CSV file of naslab apps", _marked(rb"\ANASPT-class applications by naslab, "))
IOZONE_SHEET = Kind("spreadsheet in IOzone's layout", _is_iozone_sheet)
LIVE = Kind("file of naslab --live", _marked(rb'\A\{"naslab_live": '))
IOZONE_OFFSETS = Kind("offset file in IOzone's layout", _marked(rb"\AOffset in kBytes +Latency in microseconds "))
IOZONE_HISTOGRAM = Kind("latency histogram in IOzone's layout", _marked(rb"\AChild: \d+ Op: "))
EXPERIMENT = Kind("experiment's result", _marked(rb'\A\{"schema": \d+, "kind": "experiment"'))
WORKBOOK = Kind("naslab workbook", _is_workbook)
TRACE = Kind("trace", _is_trace)
NEW_TRACE = Kind("trace", _is_trace, replaced=False)
EXPORT = Kind("exported run", _never, replaced=False)
APP = Kind("application's definition", _never, replaced=False)


@contextlib.contextmanager
def forcing(force: bool) -> Iterator[None]:
    """Within it files of others may be replaced: the command's `--force`."""
    token = _forced.set(force)
    try:
        yield
    finally:
        _forced.reset(token)


def check_output(path: Path, option: str, kind: Kind) -> None:
    """Raises UsageError when this output cannot or may not be written there, before hours are spent on its contents."""
    _place(path, option, kind)


def _place(path: Path, option: str, kind: Kind, force: bool = False) -> Path | None:
    """Where the file goes, links followed; None for what is written to as it is: a pipe, a terminal, /dev/null."""
    if str(path) == "-":
        raise UsageError(f"{option} -: this output needs a file, not standard output; name one")
    place = _followed(path, option)
    try:
        there = os.stat(path)
    except FileNotFoundError:
        there = None
    except (OSError, ValueError) as error:
        raise UsageError(f"{option} {path}: {_reason(error)}; name another file") from None
    if there is not None and (stat.S_ISCHR(there.st_mode) or stat.S_ISFIFO(there.st_mode) or _is_stream(path)):
        return None
    if there is not None:
        _check_there(path, there, option, kind, force)
    _check_folder(path, place.parent, option)
    return place


def _followed(path: Path, option: str) -> Path:
    try:
        return Path(os.path.realpath(path))
    except (OSError, ValueError) as error:
        raise UsageError(f"{option} {str(path)!r}: {_reason(error)}; name another file") from None


def _is_stream(path: Path) -> bool:
    """A descriptor of this process by its name: replacing the file behind it would write beside it."""
    return _STREAMS.fullmatch(str(path)) is not None


def _check_there(path: Path, there: os.stat_result, option: str, kind: Kind, force: bool) -> None:
    """Raises UsageError for something that may not be replaced."""
    if stat.S_ISDIR(there.st_mode):
        raise UsageError(f"{option} {path}: this is a folder; name a file in it")
    if not stat.S_ISREG(there.st_mode):
        raise UsageError(f"{option} {path}: this is not a regular file; name another")
    if there.st_size == 0 or force or _forced.get():
        return
    if not kind.replaced:
        raise UsageError(f"{option} {path}: the file exists; name another, or give --force to replace it")
    try:
        own = kind.own(path)
    except OSError as error:
        raise UsageError(f"{option} {path}: the file exists and {_reason(error)}; name another") from None
    if not own:
        raise UsageError(
            f"{option} {path}: the file exists and is not a {kind.what}; name another, or give --force to replace it"
        )


def _check_folder(path: Path, folder: Path, option: str) -> None:
    if not folder.is_dir():
        what = (
            f"{folder} is not a folder; " if folder.exists() else f"there is no folder {folder}; create it first, or "
        )
        raise UsageError(f"{option} {path}: {what}name another file")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UsageError(f"{option} {path}: the folder {folder} cannot be written to; name a file in another")
    try:
        os.stat(folder / f".{path.name}.12345678.part")
    except FileNotFoundError:
        pass
    except (OSError, ValueError) as error:
        raise UsageError(f"{option} {path}: {_reason(error)}; name another file") from None


def _reason(error: Exception) -> str:
    return (error.strerror or str(error)).lower() if isinstance(error, OSError) else str(error)


class Output:
    """One file while it is written: `begin` gives a temporary one beside it, then `commit`, or `drop` at any time."""

    def __init__(self, path: Path, option: str, kind: Kind, force: bool = False) -> None:
        self._path, self._option, self._kind, self._force = path, option, kind, force
        self._place: Path | None = None
        self._temporary: Path | None = None

    def begin(self) -> Path:
        """The file to write. Raises UsageError as `check_output` does, StoreError."""
        self._place = _place(self._path, self._option, self._kind, self._force)
        try:
            self._temporary = _temporary(self._place)
        except OSError as error:
            raise self._failed(error) from error
        return self._temporary

    def commit(self) -> None:
        """Gives it the name, or pours it into what is no file. Raises StoreError."""
        assert self._temporary is not None
        try:
            if self._place is None:
                _pour(self._temporary, self._path)
            else:
                _take_name(self._temporary, self._place)
        except OSError as error:
            raise self._failed(error) from error
        finally:
            self.drop()

    def drop(self) -> None:
        """Removes what was written and not committed."""
        if self._temporary is not None:
            with contextlib.suppress(OSError):
                self._temporary.unlink(missing_ok=True)

    def _failed(self, error: OSError) -> StoreError:
        return StoreError(f"{self._option} {self._path}: it cannot be written: {_reason(error)}; name another file")


@contextlib.contextmanager
def written(path: Path, option: str, kind: Kind, force: bool = False) -> Iterator[Path]:
    """A temporary file to write; when the block ends well its contents are at `path`, else nothing changed there.

    force: replace a file of others, which the command's `--force` says, too.
    Raises UsageError as `check_output` does, StoreError where it cannot be written.
    """
    output = Output(path, option, kind, force)
    try:
        yield output.begin()
        output.commit()
    except OSError as error:
        raise output._failed(error) from error
    finally:
        output.drop()


def write_output(text: str, path: Path, option: str, kind: Kind) -> Path:
    """Writes a text as `written` does, and returns the path."""
    with written(path, option, kind) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="")
    return path


def _temporary(place: Path | None) -> Path:
    """A new file beside the place, which keeps the end of its name: libraries go by it."""
    if place is None:
        handle, name = tempfile.mkstemp(prefix="naslab-", suffix=".part")
    else:
        handle, name = tempfile.mkstemp(prefix=f".{place.name[:60]}.", suffix=".part", dir=place.parent)
    os.close(handle)
    return Path(name)


def _pour(temporary: Path, path: Path) -> None:
    if str(path) == "/dev/stdout":
        sys.stdout.flush()
    with temporary.open("rb") as source, path.open("wb", buffering=0) as out:
        shutil.copyfileobj(source, out)


def _take_name(temporary: Path, place: Path) -> None:
    """With the access rights of the file that it replaces, or those that a new file has."""
    try:
        mode = stat.S_IMODE(place.stat().st_mode)
    except FileNotFoundError:
        mask = os.umask(0)
        os.umask(mask)
        mode = 0o666 & ~mask
    temporary.chmod(mode)
    with temporary.open("rb+") as file:
        os.fsync(file.fileno())
    os.replace(temporary, place)
