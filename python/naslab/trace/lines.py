"""Lines of a file, compressed or not, with bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

import zstandard

from naslab.errors import TraceError
from naslab.trace.format import MAX_LINE_BYTES

_MAGIC = b"\x28\xb5\x2f\xfd"
_CHUNK_BYTES = 1 << 18
_MAX_WINDOW_BYTES = 1 << 27
"""What zstd itself refuses above without being told: a file cannot make the reader take more."""
_FREE_BYTES = 1 << 28
_MOST_TIMES = 200
"""A compressed file may become so long, and beyond that so many times its size: traces become 10 to 100 times."""


def open_stream(path: Path) -> BinaryIO:
    """The file's contents, decompressed if it is zstd. Raises TraceError when it cannot be opened."""
    try:
        stream = path.open("rb")
        compressed = stream.read(len(_MAGIC)) == _MAGIC
        stream.seek(0)
    except OSError as error:
        raise TraceError(f"{path}: cannot be read: {error.strerror or error}; check the name") from error
    if not compressed:
        return stream
    unpacker = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW_BYTES)
    return cast(BinaryIO, unpacker.stream_reader(stream, read_across_frames=True, closefd=True))


def lines_of(path: Path, limit_bytes: int = MAX_LINE_BYTES) -> Iterator[tuple[int, bytes]]:
    """(number from 1, line without its newline). A last line without newline comes too; is it whole?

    Raises TraceError for a line above limit_bytes, for damaged compression and when reading fails.
    """
    number = total = 0
    with open_stream(path) as stream:
        rest = b""
        most = _most_bytes(path, stream)
        while chunk := _read(stream, path, number):
            total += len(chunk)
            if total > most:
                raise TraceError(
                    f"{path}: unpacks to more than {_MOST_TIMES} times its size (after line {number}); this is no "
                    "trace. If you trust it, unpack it first: zstd -d"
                )
            lines = (rest + chunk).split(b"\n") if rest else chunk.split(b"\n")
            rest = lines.pop()
            for line in lines:
                number += 1
                if len(line) > limit_bytes:
                    raise _too_long(path, number, limit_bytes)
                yield number, line
            if len(rest) > limit_bytes:
                raise _too_long(path, number + 1, limit_bytes)
        if rest:
            yield number + 1, rest


def _most_bytes(path: Path, stream: BinaryIO) -> float:
    """How much may come out of the file."""
    compressed = isinstance(stream, zstandard.ZstdDecompressionReader)
    return max(_FREE_BYTES, _MOST_TIMES * path.stat().st_size) if compressed else float("inf")


def _read(stream: BinaryIO, path: Path, number: int) -> bytes:
    try:
        return stream.read(_CHUNK_BYTES)
    except zstandard.ZstdError as error:
        raise TraceError(f"{path}: damaged after line {number}: {error}") from error
    except OSError as error:
        raise TraceError(f"{path}: reading failed after line {number}: {error.strerror or error}") from error


def _too_long(path: Path, number: int, limit_bytes: int) -> TraceError:
    return TraceError(f"{path}, line {number}: longer than {limit_bytes} bytes; this is not a trace")
