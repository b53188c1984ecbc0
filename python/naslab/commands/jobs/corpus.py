"""Generated source trees: documented, the same for the same seed, unlike each other in every 4 KiB page.

Sizes are taken at even quantiles of a distribution, not drawn, so that every run has the same ones; only their order
comes from the seed. Contents come from a pool of a few MiB for each kind, cut at a place of each file's own, with 8
bytes of their own at the head of each 4 KiB page. Only raw PCG64 output is used, which NumPy keeps stable.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from naslab.commands.jobs.source import Item, sampled_ratio
from naslab.errors import UsageError

PAGE_BYTES = 4096
POOL_BYTES = 4 << 20
_SOURCE_FILE_BYTES, _ARTICLE_FILE_BYTES = 64 << 10, 17_305_152
_LARGEST_BYTES = 512 << 20
_TAG_BYTES = 8
_FIRST_NS, _STEP_NS = 1_546_300_800_123_456_700, 7_654_321_098_700
"""Times of generated files: from the first day of 2019 on, each two hours after the one before; in units of 100 ns."""


@dataclass(frozen=True)
class Corpus:
    """What a corpus holds at scale 1. scales: what --scale changes, `sizes` or `files`."""

    name: str
    about: str
    source: str
    files: int
    scales: str
    make: Callable[[int, float, int], list[Item]]

    def items(self, scale: float, seed: int) -> list[Item]:
        """Folders and files in tree order. scale: above 0. Raises UsageError."""
        if not 0 < scale <= 100:
            raise UsageError(f"--scale {scale:g}: give more than 0 and at most 100")
        files = self.files if self.scales == "sizes" else max(1, round(self.files * scale))
        return self.make(files, scale, seed)


def _article(files: int, scale: float, _seed: int) -> list[Item]:
    size = max(PAGE_BYTES, round(_ARTICLE_FILE_BYTES * scale))
    named = [
        (f"gimms/{at // 189:02d}/geo{1981 + at // 24}{at % 24:02d}.n07-V13g", size, "raster") for at in range(files)
    ]
    return _tree(named)


def lognormal_sizes(files: int, mu: float, sigma: float, largest_bytes: int) -> list[int]:
    """Sizes in bytes at the quantiles (i + 1/2) / files of a lognormal distribution, none above `largest_bytes`."""
    normal = NormalDist(mu, sigma)
    return [min(largest_bytes, round(math.exp(normal.inv_cdf((at + 0.5) / files)))) for at in range(files)]


def _office(files: int, _scale: float, seed: int) -> list[Item]:
    sizes = lognormal_sizes(files, 9.48, 2.46, _LARGEST_BYTES)
    kinds = ("text", "image", "text", "binary", "image", "text", "binary", "text", "image", "binary")
    suffix = {"text": "txt", "image": "jpg", "binary": "bin"}
    named = []
    for at, pick in enumerate(_order(files, seed)):
        kind = kinds[pick % len(kinds)]  # by rank in size: each kind has its share of the bytes at every scale
        named.append((f"office/d{at // 160:03d}/e{at // 20 % 8}/{kind}{at:06d}.{suffix[kind]}", sizes[pick], kind))
    return _tree(named)


def _sources(files: int, _scale: float, seed: int) -> list[Item]:
    sizes = lognormal_sizes(files, math.log(4096), 1.6, _SOURCE_FILE_BYTES)
    named = [
        (f"src/m{at // 200:03d}/p{at // 25 % 8}/unit{at:06d}.c", sizes[pick], "text")
        for at, pick in enumerate(_order(files, seed))
    ]
    return _tree(named)


CORPORA = {
    corpus.name: corpus
    for corpus in (
        Corpus(
            "article", "757 rasters of 17.3 MB, 13.1 GB in all, 5.7 : 1 by deflate",
            "Amazon's FSx article: 757 GIMMS NDVI files, 13.1 GB, 2.29 GB zipped; equal sizes: chosen",
            757, "sizes", _article,
        ),
        Corpus(
            "office", "text, images and binaries of up to 69 MB, 498 MB in all",
            "sizes: lognormal, mu 9.48, sigma 2.46 (Agrawal, Arpaci-Dusseau, Arpaci-Dusseau, Generating Realistic "
            "Impressions, FAST 2009, fitted to the Five-Year Study of File-System Metadata, FAST 2007); 40 % text, "
            "30 % images, 30 % binaries: chosen",
            2000, "files", _office,
        ),
        Corpus(
            "sources", "program text: many small files, median 4 KiB, at most 64 KiB",
            "chosen: lognormal about 4 KiB with sigma 1.6, 25 files in a folder",
            4000, "files", _sources,
        ),
    )
}  # fmt: skip


def corpus(name: str) -> Corpus:
    """The corpus of this name. Raises UsageError."""
    if name not in CORPORA:
        raise UsageError(f"--corpus {name!r}: there are {', '.join(CORPORA)}")
    return CORPORA[name]


def _tree(named: list[tuple[str, int, str]]) -> list[Item]:
    """Files with the folders they need, each folder before what lies in it."""
    items: list[Item] = []
    seen: set[str] = set()

    def add(path: str, size: int, **more: Any) -> None:
        at = _FIRST_NS + len(items) * _STEP_NS
        items.append(Item(path, size, accessed_ns=at, modified_ns=at, **more))

    for number, (path, size, kind) in enumerate(named):
        parts = path.split("/")[:-1]
        for depth in range(1, len(parts) + 1):
            folder = "/".join(parts[:depth])
            if folder not in seen:
                seen.add(folder)
                add(folder, 0, is_dir=True)
        add(path, size, kind=kind, number=number)
    return items


def _raw(seed: int, stream: str, count: int) -> NDArray[np.uint64]:
    generator = np.random.PCG64(np.random.SeedSequence([seed, zlib.crc32(stream.encode())]))
    return np.asarray(generator.random_raw(count), np.uint64)


def _order(count: int, seed: int) -> list[int]:
    return [int(at) for at in np.argsort(_raw(seed, "order", count), kind="stable")]


@lru_cache(maxsize=8)
def pool(kind: str, seed: int) -> bytes:
    """POOL_BYTES of contents of a kind: text, image, binary or raster."""
    return {"text": _text, "image": _noise, "binary": _binary, "raster": _raster}[kind](seed)


def _noise(seed: int) -> bytes:
    """As what is compressed already."""
    return _raw(seed, "noise", POOL_BYTES // 8).tobytes()


def _text(seed: int) -> bytes:
    """Words of a vocabulary of 4096, the k-th most frequent with probability about 1/k, in lines."""
    letters = b"etaoinshrdlucmfwypvbgkqjxz"
    picks = _raw(seed, "letters", 4096 * 12)
    words = []
    for at in range(4096):
        part = picks[at * 12 : at * 12 + 12]
        length = 2 + int(part[0] % np.uint64(9))
        words.append(
            bytes(letters[min(int(p % np.uint64(26)), int(p >> np.uint64(32)) % 26)] for p in part[1 : 1 + length])
        )
    uniform = (_raw(seed, "words", POOL_BYTES // 4) >> np.uint64(11)) * 2.0**-53
    chosen = (np.power(4096.0, uniform) - 1).astype(np.int64)
    out = bytearray()
    for at, word in enumerate(chosen):
        out += words[word] + (b"\n" if at % 11 == 10 else b" ")
        if len(out) >= POOL_BYTES:
            break
    return bytes(out[:POOL_BYTES])


def _binary(seed: int) -> bytes:
    """Records of 32 bytes: a counter, a small number, a kind, zeros, and 12 bytes of noise."""
    count = POOL_BYTES // 32
    records = np.zeros((count, 32), np.uint8)
    records[:, 0:4] = np.arange(count, dtype="<u4").view(np.uint8).reshape(count, 4)
    raw = _raw(seed, "records", count * 2).view(np.uint8).reshape(count, 16)
    records[:, 4] = raw[:, 0] & 15
    records[:, 8] = raw[:, 1] & 3
    records[:, 20:32] = raw[:, 2:14]
    return records.tobytes()


_LAND = 0.281
"""Share of runs with land; the rest is one value. Chosen so that deflate at level 6 reaches the article's ratio."""


def _raster(seed: int) -> bytes:
    """16-bit cells, big endian: runs of 64 that are water (one value) or land (a base and 4 bits of noise)."""
    cells = POOL_BYTES // 2
    runs = cells // 64
    land = np.repeat((_raw(seed, "land", runs) >> np.uint64(11)) * 2.0**-53 < _LAND, 64)
    base = np.repeat((_raw(seed, "base", runs) & np.uint64(0x1FFF)).astype(np.int32), 64)
    noise = (_raw(seed, "cells", cells) & np.uint64(15)).astype(np.int32)
    return np.where(land, base + noise, -10000).astype(">i2").tobytes()


class CorpusSource:
    """A generated tree as a source. What it delivers is made as it is read, from memory."""

    def __init__(self, made: Corpus, scale: float, seed: int) -> None:
        self.corpus, self.scale, self.seed = made, scale, seed
        self.items = made.items(scale, seed)
        self.skipped: dict[str, int] = {}
        self.label = f"corpus {made.name}" + ("" if scale == 1 else f" at scale {scale:g}")
        for kind in {item.kind for item in self.items if not item.is_dir}:
            pool(kind, seed)  # made before any clock runs

    def open(self, item: Item) -> GeneratedFile:
        """A reader of a file's contents."""
        return GeneratedFile(item, self.seed)

    def ratio(self) -> float:
        """Raw size over size by deflate."""
        return sampled_ratio(self)

    def changed(self, item: Item) -> bool:
        """Never."""
        return False


class GeneratedFile:
    """Reads a generated file from its start."""

    def __init__(self, item: Item, seed: int) -> None:
        self._item, self._seed, self._at = item, seed, 0
        self._pool = memoryview(pool(item.kind, seed))
        self._start = (item.number * 1_000_003 * PAGE_BYTES + seed) % len(self._pool)

    def read(self, size: int) -> bytes:
        """Up to `size` bytes; none at the end."""
        size = min(size, self._item.size_bytes - self._at)
        if size <= 0:
            return b""
        first = self._at // PAGE_BYTES * PAGE_BYTES
        end = self._at + size
        data = np.empty(-(-(end - first) // PAGE_BYTES) * PAGE_BYTES, np.uint8)
        self._fill(data, first)
        self._tag(data.reshape(-1, PAGE_BYTES), first // PAGE_BYTES)
        found = data[self._at - first : end - first].tobytes()
        self._at = end
        return found

    def _fill(self, data: NDArray[np.uint8], first: int) -> None:
        at, place = 0, (self._start + first) % len(self._pool)
        while at < len(data):
            part = self._pool[place : place + len(data) - at]
            data[at : at + len(part)] = np.frombuffer(part, np.uint8)
            at, place = at + len(part), 0

    def _tag(self, pages: NDArray[np.uint8], first_page: int) -> None:
        """A number that no other page of the corpus has, mixed so that it does not compress."""
        number = np.uint64((self._item.number << 32) ^ (self._seed * 0x9E3779B97F4A7C15) & 0xFFFFFFFFFFFFFFFF)
        tags = np.arange(first_page, first_page + len(pages), dtype=np.uint64) + number
        tags = (tags ^ (tags >> np.uint64(31))) * np.uint64(0xBF58476D1CE4E5B9)
        tags = (tags ^ (tags >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        tags = np.ascontiguousarray(tags ^ (tags >> np.uint64(31)))
        found = tags.view(np.uint8).reshape(-1, _TAG_BYTES)
        pages[:, :_TAG_BYTES] = found if self._item.kind != "text" else (found & 15) + 97

    def close(self) -> None:
        """Nothing is held."""
