"""A server in memory that keeps promises, or breaks them as told, when its power goes; for tests of durability."""

from __future__ import annotations

import json
import random
import threading
from dataclasses import dataclass, field
from typing import Any

from naslab.commands.durable.block import SECTOR_BYTES
from naslab.errors import TargetError


@dataclass
class Content:
    """A file: what is on the disk, and the writes that are not yet, oldest first. length: as all clients see it."""

    disk: bytearray = field(default_factory=bytearray)
    disk_length: int = 0
    cached: list[tuple[int, bytes]] = field(default_factory=list)
    length: int = 0

    def settle(self) -> None:
        """All of it to the disk."""
        for offset, data in self.cached:
            self.put(offset, data)
        self.cached.clear()
        self.disk_length = self.length
        self.disk.extend(bytes(max(0, self.length - len(self.disk))))

    def put(self, offset: int, data: bytes) -> None:
        """Bytes to the disk."""
        self.disk.extend(bytes(max(0, offset + len(data) - len(self.disk))))
        self.disk[offset : offset + len(data)] = data
        self.disk_length = max(self.disk_length, offset + len(data))

    def seen(self) -> bytes:
        """The file as clients read it."""
        view = bytearray(self.disk[: max(self.length, 0)].ljust(self.length, b"\0"))
        for offset, data in self.cached:
            view[offset : offset + len(data)] = data
        return bytes(view)


class FakeServer:
    """Files by path. keep: share of cached sectors that reach the disk at a cut; half of what is left behind are whole
    writes. Names are durable at once.
    """

    def __init__(self, seed: int = 0, keep: float = 0.5, lying_flush: bool = False, lying_stable: bool = False) -> None:
        self.chance = random.Random(seed)
        self.keep, self.lying_flush, self.lying_stable = keep, lying_flush, lying_stable
        self.files: dict[str, Content] = {}
        self.lock = threading.RLock()
        self.up = True
        self.epoch = 0
        self.lost_names: list[tuple[str, str]] = []

    def cut(self) -> None:
        """The power goes: of what is cached each sector reaches the disk or does not."""
        with self.lock:
            self.up = False
            self.epoch += 1
            for content in self.files.values():
                for offset, data in content.cached:
                    if self.chance.random() * 2 > 1 + self.keep:
                        continue
                    for at in range(0, len(data), SECTOR_BYTES):
                        if self.chance.random() < self.keep:
                            content.put(offset + at, data[at : at + SECTOR_BYTES])
                content.cached.clear()
                content.length = content.disk_length

    def start(self) -> None:
        """The power is back."""
        self.up = True


class FakeSession:
    """What naslab._engine.Session does, on a FakeServer."""

    def __init__(self, server: FakeServer) -> None:
        self.server, self.epoch = server, server.epoch
        self.open_files: list[tuple[str, bool]] = []

    def _enter(self) -> FakeServer:
        if not self.server.up or self.epoch != self.server.epoch:
            raise TargetError("receive: the server closed the connection", "disconnected")
        return self.server

    def another(self) -> FakeSession:
        self._enter()
        return FakeSession(self.server)

    def end(self) -> None:
        self.open_files = []

    def mkdir(self, path: str) -> None:
        self._enter()

    def readdir(self, path: str) -> list[tuple[str, bool]]:
        self._enter()
        return []

    def rmdir(self, path: str) -> None:
        self._enter()

    def events(self) -> dict[str, int]:
        return {}

    def open(self, path: str, options: str) -> int:
        chosen = json.loads(options)
        with self.server.lock:
            server = self._enter()
            if chosen.get("create") == "new":
                server.files[path] = Content()
            elif path not in server.files:
                raise TargetError(f"open: no such file, path={path}", "not_found")
            self.open_files.append((path, chosen.get("sync") == "all"))
            return len(self.open_files) - 1

    def close(self, file: int) -> None:
        self._enter()

    def write(self, file: int, offset: int, data: bytes) -> int:
        path, stable = self.open_files[file]
        with self.server.lock:
            content = self._enter().files[path]
            content.cached.append((offset, data))
            content.length = max(content.length, offset + len(data))
            if stable and not self.server.lying_stable:
                content.settle()
            return len(data)

    def read(self, file: int, offset: int, length: int) -> bytes:
        with self.server.lock:
            return self._enter().files[self.open_files[file][0]].seen()[offset : offset + length]

    def run_ops(self, file: int, ops: list[tuple[str, int, Any]], depth: int) -> list[Any]:
        found = []
        for kind, offset, what in ops:
            if kind == "write":
                found.append((self.write(file, offset, what), None, None, 0))
            else:
                data = self.read(file, offset, what)
                found.append((len(data), data, None if len(data) == what else "short", 0))
        return found

    def flush(self, file: int) -> None:
        path, _ = self.open_files[file]
        with self.server.lock:
            content = self._enter().files[path]
            if not (self.server.lying_flush and path.endswith("/end") and content.disk_length):
                content.settle()

    def set_len(self, file: int, length: int) -> None:
        with self.server.lock:
            self._enter().files[self.open_files[file][0]].length = length

    def stat(self, path: str) -> tuple[int, bool]:
        with self.server.lock:
            if path not in self._enter().files:
                raise TargetError("stat: no such file", "not_found")
            return self.server.files[path].length, False

    def rename(self, old: str, new: str) -> None:
        with self.server.lock:
            files = self._enter().files
            files[new] = files.pop(old)
            self.server.lost_names.append((old, new))

    def remove(self, path: str) -> None:
        with self.server.lock:
            del self._enter().files[path]
