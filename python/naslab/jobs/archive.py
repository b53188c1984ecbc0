"""Archives in a file of the target: ZIP with deflate, and tar compressed by zstd; requests of 1 MiB."""

from __future__ import annotations

import contextlib
import io
import tarfile
import zipfile
from collections.abc import Iterator
from typing import Any

import zstandard

from naslab.jobs.pipeline import Stream
from naslab.jobs.source import REQUEST_BYTES

DEFLATE_LEVEL, ZSTD_LEVEL = 6, 3
SUFFIXES = {"deflate": "zip", "zstd": "tar.zst"}
_FIXED_TIME = (2020, 1, 1, 0, 0, 0)


class TargetWriter(io.RawIOBase):
    """A new file of the target as a seekable file object; what is written is sent in requests of 1 MiB.

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
            self._stream.write(self._file, self._at, bytes(view[: self._base - self._at]))
            kept = view[self._base - self._at :]
        else:
            kept = view
        at = self._at + len(view) - len(kept) - self._base
        self._held[at : at + len(kept)] = kept
        self._at += len(view)
        while len(self._held) >= REQUEST_BYTES:
            self._send(REQUEST_BYTES)
        return len(view)

    def _send(self, size: int) -> None:
        part = bytes(self._held[:size])
        self._stream.write(self._file, self._base, part)
        self._base += len(part)
        del self._held[:size]

    def finish(self) -> None:
        """Sends what is held, flushes as the stream's durability asks, and closes."""
        if self._held:
            self._send(len(self._held))
        self._stream.finish(self._file)


class TargetReader(io.RawIOBase):
    """A file of the target as a seekable file object, read in requests of 1 MiB."""

    def __init__(self, stream: Stream, path: str) -> None:
        self._stream = stream
        self.size = stream.stat(path)[0]
        self._file = stream.open(path)
        self._held, self._base, self._at = b"", 0, 0

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
                self._base, self._held = self._at, self._stream.read(self._file, self._at, REQUEST_BYTES)
                if not self._held:
                    break
            part = self._held[self._at - self._base : self._at - self._base + size]
            parts.append(part)
            self._at += len(part)
            size -= len(part)
        return b"".join(parts)

    def finish(self) -> None:
        """Closes the file."""
        self._stream.close(self._file)


class ZipArchive:
    """A ZIP file being written."""

    def __init__(self, stream: Stream, path: str) -> None:
        self._writer = TargetWriter(stream, path)
        self._zip = zipfile.ZipFile(self._writer, "w", zipfile.ZIP_DEFLATED, compresslevel=DEFLATE_LEVEL)

    def add(self, name: str, size: int, data: Any) -> None:
        """One file from a file object."""
        info = zipfile.ZipInfo(name, _FIXED_TIME)
        info.compress_type, info.file_size = zipfile.ZIP_DEFLATED, size
        with self._zip.open(info, "w", force_zip64=size >= 1 << 31) as member:
            while part := data.read(REQUEST_BYTES):
                member.write(part)

    def finish(self) -> None:
        """Writes the directory of the archive and closes it."""
        self._zip.close()
        self._writer.finish()


class ZstdArchive:
    """A tar file compressed by zstd, being written."""

    def __init__(self, stream: Stream, path: str) -> None:
        self._writer = TargetWriter(stream, path)
        packer = zstandard.ZstdCompressor(level=ZSTD_LEVEL)
        self._packed = packer.stream_writer(self._writer, closefd=False)  # type: ignore[arg-type]
        self._tar = tarfile.TarFile(fileobj=_Counting(self._packed), mode="w", copybufsize=REQUEST_BYTES)  # type: ignore[arg-type]

    def add(self, name: str, size: int, data: Any) -> None:
        """One file from a file object."""
        info = tarfile.TarInfo(name)
        info.size = size
        self._tar.addfile(info, data)

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


def new_archive(method: str, stream: Stream, path: str) -> ZipArchive | ZstdArchive:
    """An archive to be written. method: deflate or zstd."""
    return ZipArchive(stream, path) if method == "deflate" else ZstdArchive(stream, path)


@contextlib.contextmanager
def _reading(stream: Stream, path: str) -> Iterator[TargetReader]:
    reader = TargetReader(stream, path)
    yield reader
    reader.finish()


def members(method: str, stream: Stream, path: str) -> Iterator[tuple[str, Any]]:
    """Names and file objects of an archive's files, in order; each is read before the next."""
    with _reading(stream, path) as reader:
        if method == "deflate":
            with zipfile.ZipFile(reader) as found:
                for info in found.infolist():
                    with found.open(info) as data:
                        yield info.filename, data
        else:
            unpacked = zstandard.ZstdDecompressor().stream_reader(reader, read_size=REQUEST_BYTES)  # type: ignore[arg-type]
            with tarfile.open(fileobj=unpacked, mode="r|", bufsize=REQUEST_BYTES) as tar:
                for member in tar:
                    yield member.name, tar.extractfile(member)
