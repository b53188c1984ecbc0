"""Archives in a file of the target: ZIP with deflate, and tar compressed by zstd; requests of 1 MiB."""

from __future__ import annotations

import contextlib
import io
import struct
import tarfile
import time
import zipfile
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import zstandard

from naslab.commands.jobs.pipeline import Stream
from naslab.commands.jobs.source import REQUEST_BYTES

DEFLATE_LEVEL, ZSTD_LEVEL = 6, 3
Method = Literal["deflate", "zstd"]
SUFFIXES: dict[Method, str] = {"deflate": "zip", "zstd": "tar.zst"}
TIME_RESOLUTION_NS = 1_000_000_000
"""Of times in archives of both kinds."""
_FIRST_DOS_TIME = (1980, 1, 1, 0, 0, 0)
_UNIX_TIMES = 0x5455
"""Kind of the extra field with times in seconds since 1970, as Info-ZIP writes it."""


class TargetWriter(io.RawIOBase):
    """A new file of the target as a seekable file object; it is sent in requests of 1 MiB, several in flight.

    A write into what is still held changes it there; one into what was sent is a request of its own.
    """

    def __init__(self, stream: Stream, path: str) -> None:
        self._stream, self._file = stream, stream.create(path)
        self._held, self._base, self._at = bytearray(), 0, 0

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        end = self._base + len(self._held)
        self._at = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: end}[whence] + offset
        return self._at

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        if self._at < self._base:
            self._stream.write(self._file, self._at, [bytes(view[: self._base - self._at])])
            kept = view[self._base - self._at :]
        else:
            kept = view
        at = self._at + len(view) - len(kept) - self._base
        self._held[at : at + len(kept)] = kept
        self._at += len(view)
        at_once = REQUEST_BYTES * self._stream.in_flight
        while len(self._held) >= at_once:
            self._send(at_once)
        return len(view)

    def _send(self, size: int) -> None:
        with memoryview(self._held) as held:
            parts = [bytes(held[at : min(at + REQUEST_BYTES, size)]) for at in range(0, size, REQUEST_BYTES)]
        self._base += self._stream.write(self._file, self._base, parts)
        del self._held[:size]

    def finish(self) -> None:
        """Sends what is held, flushes as the stream's durability asks, and closes."""
        if self._held:
            self._send(len(self._held))
        self._stream.finish(self._file)


class TargetReader(io.RawIOBase):
    """A file of the target as a seekable file object; requests of 1 MiB, more in flight the further it is read."""

    def __init__(self, stream: Stream, path: str) -> None:
        self._stream = stream
        self.size = stream.stat(path)[0]
        self._file = stream.open(path)
        self._held, self._base, self._at = b"", 0, 0
        self._ahead = 1

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = max(0, {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self.size}[whence] + offset)
        return self._at

    def read(self, size: int = -1) -> bytes:
        size = max(0, self.size - self._at) if size is None or size < 0 else size
        parts = []
        while size > 0:
            if not self._base <= self._at < self._base + len(self._held):
                self._fetch()
                if not self._held:
                    break
            part = self._held[self._at - self._base : self._at - self._base + size]
            parts.append(part)
            self._at += len(part)
            size -= len(part)
        return b"".join(parts)

    def _fetch(self) -> None:
        """The next part: longer with every one that follows the one before."""
        follows = self._at == self._base + len(self._held)
        self._ahead = min(self._stream.in_flight, 2 * self._ahead) if follows and self._base + len(self._held) else 1
        wanted = min(self._ahead * REQUEST_BYTES, self.size - self._at)
        parts = self._stream.read(self._file, self._at, wanted)
        self._base, self._held = self._at, parts[0] if len(parts) == 1 else b"".join(parts)

    def finish(self) -> None:
        """Closes the file."""
        self._stream.close(self._file)


class ZipArchive:
    """A ZIP file being written."""

    def __init__(self, stream: Stream, path: str) -> None:
        self._writer = TargetWriter(stream, path)
        self._zip = zipfile.ZipFile(self._writer, "w", zipfile.ZIP_DEFLATED, compresslevel=DEFLATE_LEVEL)

    def add(self, name: str, size: int, data: Any, modified_ns: int) -> None:
        """One file from a file object."""
        info = _zip_info(name, modified_ns)
        info.compress_type, info.file_size = zipfile.ZIP_DEFLATED, size
        with self._zip.open(info, "w", force_zip64=size >= 1 << 31) as member:
            while part := data.read(REQUEST_BYTES):
                member.write(part)

    def add_folder(self, name: str, modified_ns: int) -> None:
        """A folder, without what is in it."""
        self._zip.writestr(_zip_info(name + "/", modified_ns), b"")

    def finish(self) -> None:
        """Writes the directory of the archive and closes it."""
        self._zip.close()
        self._writer.finish()


def _zip_info(name: str, modified_ns: int) -> zipfile.ZipInfo:
    """An entry with its time twice, as Info-ZIP writes it: by DOS (2 s, local), and in seconds since 1970."""
    seconds = modified_ns // 10**9
    date = max(_FIRST_DOS_TIME, time.localtime(seconds)[:6])
    info = zipfile.ZipInfo(name, date if date[0] < 2108 else (2107, 12, 31, 23, 59, 58))
    if -(1 << 31) <= seconds < 1 << 31:
        info.extra = struct.pack("<HHBi", _UNIX_TIMES, 5, 1, seconds)
    return info


def _zip_time_ns(info: zipfile.ZipInfo) -> int:
    """Of an entry: from the extra field, or else by DOS."""
    extra = info.extra
    while len(extra) >= 4:
        kind, size = struct.unpack_from("<HH", extra)
        if kind == _UNIX_TIMES and size >= 5 and len(extra) >= 9 and extra[4] & 1:
            return int(struct.unpack_from("<i", extra, 5)[0]) * 10**9
        extra = extra[4 + size :]
    return int(time.mktime((*info.date_time, 0, 0, -1))) * 10**9


class ZstdArchive:
    """A tar file compressed by zstd, being written."""

    def __init__(self, stream: Stream, path: str) -> None:
        self._writer = TargetWriter(stream, path)
        packer = zstandard.ZstdCompressor(level=ZSTD_LEVEL)
        self._packed = packer.stream_writer(self._writer, closefd=False)  # type: ignore[arg-type]
        self._tar = tarfile.TarFile(fileobj=_Counting(self._packed), mode="w", copybufsize=REQUEST_BYTES)  # type: ignore[arg-type]

    def add(self, name: str, size: int, data: Any, modified_ns: int) -> None:
        """One file from a file object."""
        info = tarfile.TarInfo(name)
        info.size, info.mtime = size, modified_ns // 10**9
        self._tar.addfile(info, data)

    def add_folder(self, name: str, modified_ns: int) -> None:
        """A folder, without what is in it."""
        info = tarfile.TarInfo(name)
        info.type, info.mtime = tarfile.DIRTYPE, modified_ns // 10**9
        self._tar.addfile(info)

    def finish(self) -> None:
        """Writes the end of the archive and closes it."""
        self._tar.close()
        self._packed.close()  # type: ignore[no-untyped-call]
        self._writer.finish()


class _Counting:
    """A file object that only takes data, with the position that tarfile asks for."""

    def __init__(self, out: Any) -> None:
        self._out, self._at = out, 0

    def write(self, data: bytes) -> int:
        """Passes data on."""
        self._out.write(data)
        self._at += len(data)
        return len(data)

    def tell(self) -> int:
        """Bytes so far."""
        return self._at


def new_archive(method: Method, stream: Stream, path: str) -> ZipArchive | ZstdArchive:
    """An archive to be written. method: deflate or zstd."""
    return ZipArchive(stream, path) if method == "deflate" else ZstdArchive(stream, path)


@contextlib.contextmanager
def _reading(stream: Stream, path: str) -> Iterator[TargetReader]:
    reader = TargetReader(stream, path)
    yield reader
    reader.finish()


class Member(NamedTuple):
    """One entry of an archive. data: None for a folder."""

    name: str
    modified_ns: int
    data: Any


def members(method: Method, stream: Stream, path: str) -> Iterator[Member]:
    """An archive's entries in order; each is read before the next."""
    with _reading(stream, path) as reader:
        if method == "deflate":
            with zipfile.ZipFile(reader) as found:
                for info in found.infolist():
                    if info.is_dir():
                        yield Member(info.filename.rstrip("/"), _zip_time_ns(info), None)
                        continue
                    with found.open(info) as data:
                        yield Member(info.filename, _zip_time_ns(info), data)
        else:
            unpacked = zstandard.ZstdDecompressor().stream_reader(reader, read_size=REQUEST_BYTES)  # type: ignore[arg-type]
            with tarfile.open(fileobj=unpacked, mode="r|", bufsize=REQUEST_BYTES) as tar:
                for member in tar:
                    unpacked_file = None if member.isdir() else tar.extractfile(member)
                    yield Member(member.name, int(member.mtime) * 10**9, unpacked_file)
