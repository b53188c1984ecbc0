"""Behaviours: what the streams of one part of an application do, action by action.

Each gives the files that must be there before, and for each of its streams the actions in order. Sizes were scaled
before. All random choices come from the generator given, so that a seed gives the same actions.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

READ_FLAGS, WRITE_FLAGS = "r", "rw"
MOST_LEVELS = 16


class Action(NamedTuple):
    """One step. Sizes in bytes.

    kind: open, create, read, write, flush, close, stat, readdir, mkdir, rmdir, remove, rename, truncate; end: a read
    that finds the end of the file; miss, miss_open: lookup and open of what is not there.
    """

    kind: str
    path: str
    offset_bytes: int = 0
    len_bytes: int = 0
    path_to: str = ""


@dataclass
class Work:
    """What a part needs and does. files: path and size of those that must be there; folders: those before them."""

    folders: list[str] = field(default_factory=list)
    files: dict[str, int] = field(default_factory=dict)
    streams: list[list[Action]] = field(default_factory=list)


def split_bytes(total_bytes: int, count: int, spread: float, rng: random.Random) -> list[int]:
    """Sizes of `count` files that are exactly `total_bytes` together, each at least 1.

    spread: standard deviation of the sizes' logarithm (a lognormal distribution); 0: all equal.
    """
    total_bytes = max(total_bytes, count)
    weights = [math.exp(rng.gauss(0, spread)) if spread else 1.0 for _ in range(count)]
    whole = sum(weights)
    sizes = [1 + int((total_bytes - count) * weight / whole) for weight in weights]
    left = total_bytes - sum(sizes)
    for at in range(left):  # less than one for each file, by rounding
        sizes[at % count] += 1
    return sizes


def pieces(size_bytes: int, request_bytes: int) -> Iterator[tuple[int, int]]:
    """(offset, length) of the requests that cover a file in order."""
    for at in range(0, size_bytes, request_bytes):
        yield at, min(request_bytes, size_bytes - at)


def read_whole(path: str, size_bytes: int, request_bytes: int) -> list[Action]:
    """Opens, reads from the beginning to the end, closes."""
    reads = [Action("read", path, *piece) for piece in pieces(size_bytes, request_bytes)]
    return [Action("open", path), *reads, Action("close", path)]


def write_whole(path: str, size_bytes: int, request_bytes: int, flush_every: int = 0) -> list[Action]:
    """Makes a new file and writes it from the beginning to the end. flush_every: requests between flushes; 0: none."""
    actions = [Action("create", path)]
    for number, piece in enumerate(pieces(size_bytes, request_bytes), 1):
        actions.append(Action("write", path, *piece))
        if flush_every and number % flush_every == 0:
            actions.append(Action("flush", path))
    return [*actions, Action("close", path)]


def tree(root: str, folders: int, levels: int, files: int) -> tuple[list[str], list[str]]:
    """(folders, paths of files): `folders` below root over at most `levels` levels, the files spread over them."""
    made = [root]
    levels = min(levels, folders, MOST_LEVELS)
    for number in range(folders):
        # The first ones lead down to the deepest level; the others hang from them in turn.
        parent = made[-1] if number < levels else made[number % levels]
        made.append(f"{parent}/folder{number + 1:03}")
    inner = made[1:]
    return made, [f"{inner[number % len(inner)]}/file{number + 1:05}.dat" for number in range(files)]


def play(values: Any, root: str, rng: random.Random) -> Work:
    """Each stream reads a file of its own from beginning to end."""
    work = Work([root])
    for number, size in enumerate(split_bytes(values["bytes"], values["streams"], 0, rng), 1):
        path = f"{root}/film{number}.mpg"
        work.files[path] = size
        work.streams.append(read_whole(path, size, values["request"]))
    return work


def record(values: Any, root: str, rng: random.Random) -> Work:
    """Each stream writes a new file of its own from beginning to end."""
    work = Work([root])
    for number, size in enumerate(split_bytes(values["bytes"], values["streams"], 0, rng), 1):
        path = f"{root}/record{number}.mpg"
        work.streams.append(write_whole(path, size, values["request"], int(values["flush_every"])))
    return work


def copy_in(values: Any, root: str, rng: random.Random) -> Work:
    """A tree is written to the server: each folder made, then each file written whole."""
    folders, paths = tree(root, values["folders"], values["levels"], values["files"])
    sizes = split_bytes(values["bytes"], len(paths), values["spread"], rng)
    actions = [Action("mkdir", folder) for folder in folders[1:]]
    for path, size in zip(paths, sizes, strict=True):
        actions += write_whole(path, size, values["request"])
    return Work([root], {}, [actions])


def copy_out(values: Any, root: str, rng: random.Random) -> Work:
    """A tree is read from the server: each folder listed, then each file looked up and read whole."""
    return _read_tree(values, root, rng, look_first=False)


def view(values: Any, root: str, rng: random.Random) -> Work:
    """An album is looked at: the folder listed and every file looked up, as a viewer does, then each read whole."""
    return _read_tree(values, root, rng, look_first=True)


def _read_tree(values: Any, root: str, rng: random.Random, look_first: bool) -> Work:
    folders, paths = tree(root, values["folders"], values["levels"], values["files"])
    sizes = split_bytes(values["bytes"], len(paths), values["spread"], rng)
    work = Work(folders, dict(zip(paths, sizes, strict=True)))
    actions = [Action("readdir", folder) for folder in folders[1:]]
    if look_first:
        actions += [Action("stat", path) for path in paths]
    for path, size in work.files.items():
        if not look_first:
            actions.append(Action("stat", path))
        actions += read_whole(path, size, values["request"])
    work.streams.append(actions)
    return work


def office(values: Any, root: str, rng: random.Random) -> Work:
    """Documents are opened and read, with some requests out of order; a share of them is saved anew.

    Saving is what office programs do: a lock file, the whole document written to a temporary file, the old one
    removed, the temporary one renamed to it.
    """
    work = Work([root])
    sizes = split_bytes(values["bytes"], values["files"], values["spread"], rng)
    saved = set(rng.sample(range(len(sizes)), round(values["saved"] / 100 * len(sizes))))
    actions: list[Action] = [Action("readdir", root)]
    for number, size in enumerate(sizes):
        path = f"{root}/document{number + 1:05}.doc"
        work.files[path] = size
        actions += [Action("stat", path), Action("open", path)]
        actions += _out_of_order(path, size, values, rng)
        actions.append(Action("close", path))
        if number in saved:
            actions += _save(path, size, values["request"])
    work.streams.append(actions)
    return work


def _out_of_order(path: str, size_bytes: int, values: Any, rng: random.Random) -> list[Action]:
    """All of a document, a share of its requests at another one's place."""
    found = list(pieces(size_bytes, values["request"]))
    moved = round(values["out_of_order"] / 100 * len(found))
    for _ in range(moved):
        found.insert(rng.randrange(len(found)), found.pop(rng.randrange(len(found))))
    return [Action("read", path, *piece) for piece in found]


def _save(path: str, size_bytes: int, request_bytes: int) -> list[Action]:
    lock, temporary = f"{path}.lock", f"{path}.tmp"
    return [
        *write_whole(lock, 162, request_bytes),
        *write_whole(temporary, size_bytes, request_bytes),
        Action("remove", path),
        Action("rename", temporary, path_to=path),
        Action("remove", lock),
    ]


def create(values: Any, root: str, rng: random.Random) -> Work:
    """Files are made by an editing program: written in order, the header written again, parts of a source read.

    writes: percentage of the requests that write; the reads are spread evenly between them.
    """
    source = f"{root}/source.dat"
    sizes = split_bytes(values["bytes"], values["files"], values["spread"], rng)
    request, header = values["request"], values["header"]
    actions: list[Action] = []
    reads, share = 0, values["writes"] / 100
    writes = 0
    for number, size in enumerate(sizes, 1):
        path = f"{root}/output{number:04}.dat"
        made = [*write_whole(path, size, request)]
        made.insert(len(made) - 1, Action("write", path, 0, min(header, size)))
        for action in made:
            actions.append(action)
            writes += action.kind == "write"
            if share and reads < round(writes * (1 - share) / share):
                actions.append(Action("read", source, reads * request, request))
                reads += 1
    if not reads:
        return Work([root], {}, [actions])
    return Work([root], {source: reads * request}, [[Action("open", source), *actions, Action("close", source)]])


def random_requests(values: Any, root: str, rng: random.Random) -> Work:
    """Each stream reads and writes at random places of a file of its own, flushing every so many writes."""
    work = Work([root])
    sizes = split_bytes(values["bytes"], values["streams"], 0, rng)
    each = split_bytes(values["requests"], values["streams"], 0, rng)
    for number, (share, requests) in enumerate(zip(sizes, each, strict=True), 1):
        path = f"{root}/image{number:02}.img"
        size = work.files[path] = max(share, *values["sizes"])
        kinds = ["write"] * round(requests * values["writes"] / 100)
        kinds += ["read"] * (requests - len(kinds))
        rng.shuffle(kinds)
        work.streams.append(_random_stream(path, size, kinds, values, rng))
    return work


def _random_stream(path: str, size_bytes: int, kinds: list[str], values: Any, rng: random.Random) -> list[Action]:
    actions = [Action("open", path, path_to=WRITE_FLAGS if "write" in kinds else READ_FLAGS)]
    writes, every = 0, int(values["flush_every"])
    for kind in kinds:
        length = rng.choice(values["sizes"])
        at = rng.randrange(size_bytes // length) * length
        actions.append(Action(kind, path, at, length))
        writes += kind == "write"
        if kind == "write" and every and writes % every == 0:
            actions.append(Action("flush", path))
    return [*actions, Action("close", path)]


def load(values: Any, root: str, rng: random.Random) -> Work:
    """Samples are read for training: each stream opens, reads whole and closes its share of all files, shuffled."""
    folders, paths = tree(root, values["folders"], 1, values["files"])
    sizes = split_bytes(values["bytes"], len(paths), values["spread"], rng)
    work = Work(folders, dict(zip(paths, sizes, strict=True)))
    shuffled = rng.sample(paths, len(paths))
    for number in range(min(values["streams"], len(paths))):
        actions: list[Action] = []
        for path in shuffled[number :: values["streams"]]:
            actions += read_whole(path, work.files[path], values["request"])
        work.streams.append(actions)
    return work


def build(values: Any, root: str, rng: random.Random) -> Work:
    """A source tree is checked out (each file written to a temporary name and renamed), looked over, and built.

    The build looks other files up (`looks` times for each source, as for headers), reads each source and writes an
    object for `objects` percent of them.
    """
    folders, paths = tree(root, values["folders"], values["levels"], values["files"])
    sizes = split_bytes(values["bytes"], len(paths), values["spread"], rng)
    sources, request = list(zip(paths, sizes, strict=True)), values["request"]
    actions = [Action("mkdir", folder) for folder in folders[1:]]
    for path, size in sources:
        actions += [*write_whole(f"{path}.lock", size, request), Action("rename", f"{path}.lock", path_to=path)]
    actions += [Action("readdir", folder) for folder in folders[1:]]
    actions += [Action("stat", path) for path in paths]
    built = set(rng.sample(range(len(paths)), round(values["objects"] / 100 * len(paths))))
    for number, (path, size) in enumerate(sources):
        actions += [Action("stat", rng.choice(paths)) for _ in range(values["looks"])]
        actions += read_whole(path, size, request)
        if number in built:
            actions += write_whole(f"{path}.o", size, request)
    return Work([root], {}, [actions])


BEHAVE: dict[str, Callable[[Any, str, random.Random], Work]] = {
    "play": play, "record": record, "copy_in": copy_in, "copy_out": copy_out, "view": view, "office": office,
    "create": create, "random": random_requests,
    "load": load, "build": build,
}  # fmt: skip
