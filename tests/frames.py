"""A relay that knows where messages of SMB and NFS begin and end: for servers that lie, and for one wrong field."""

from __future__ import annotations

import contextlib
import random
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from typing import Any

Answers = list[bytes] | None
"""What the client gets in place of an answer; None: the answer as it came."""
Hook = Callable[["Frames", bytearray, dict[Any, Any], socket.socket], Answers]
"""(relay, message, what is kept for the connection, the client's socket)."""
INTERESTING = (0, 1, 2, 3, 8, 64, 255, 256, 4096, 65535, 1 << 20, 1 << 24, (1 << 31) - 1, 1 << 31, (1 << 32) - 1)
_STATUSES = {
    "smb": (0, 0x103, 0x80000005, 0x80000006, 0xC0000001, 0xC000000D, 0xC0000016, 0xC0000022, 0xC0000034, 0xC000007F,
            0xC00000BB, 0xC0000128, 0xC0000203, 0xC000035C),
    "nfs": (0, 1, 2, 5, 13, 22, 28, 70, 10001, 10004, 10006, 10008, 10022, 10023, 10024, 10052, 10063),
}  # fmt: skip


class Frames:
    """Passes messages on; `on_call` and `on_answer` may say what the client gets instead.

    seen: a count for hooks to use.
    """

    def __init__(self, port: int, protocol: str, on_answer: Hook | None = None, on_call: Hook | None = None) -> None:
        self.protocol, self.seen = protocol, 0
        self._upstream, self._on_answer, self._on_call = port, on_answer, on_call
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._sockets: list[socket.socket] = []
        self._closed = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def frame(self, message: bytes) -> bytes:
        """A message with its length before it."""
        last = 1 << 31 if self.protocol == "nfs" else 0
        return struct.pack(">I", len(message) | last) + bytes(message)

    def wait(self, seconds: float) -> bool:
        """Waits; whether the relay was closed meanwhile."""
        return self._closed.wait(seconds)

    def close(self) -> None:
        """Ends all connections and the relay."""
        self._closed.set()
        for each in (self._listener, *self._sockets):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client = self._listener.accept()[0]
                self._sockets.append(client)
                server = socket.create_connection(("127.0.0.1", self._upstream), timeout=10)
                server.settimeout(None)
                self._sockets.append(server)
                kept: dict[Any, Any] = {}
                for ends in ((client, server, self._on_call), (server, client, self._on_answer)):
                    threading.Thread(target=self._pass, args=(*ends, client, kept), daemon=True).start()

    def _pass(
        self, source: socket.socket, to: socket.socket, hook: Hook | None, client: socket.socket, kept: dict[Any, Any]
    ) -> None:
        with contextlib.suppress(OSError, EOFError, struct.error):
            while not self._closed.is_set():
                head = _exactly(source, 4)
                message = _exactly(source, struct.unpack(">I", head)[0] & 0x7FFFFFFF)
                instead = hook(self, message, kept, client) if hook else None
                if instead is None:
                    to.sendall(head + message)
                for piece in instead or ():
                    client.sendall(piece)
        for each in (source, to):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


def _exactly(source: socket.socket, count: int) -> bytearray:
    found = bytearray()
    while len(found) < count:
        if not (piece := source.recv(min(count - len(found), 1 << 18))):
            raise EOFError
        found += piece
    return found


@contextlib.contextmanager
def frames(port: int, protocol: str, on_answer: Hook | None = None, on_call: Hook | None = None) -> Iterator[Frames]:
    """A relay to a port of this machine."""
    found = Frames(port, protocol, on_answer, on_call)
    try:
        yield found
    finally:
        found.close()


class Mutations:
    """A hook that changes some answers: at most three, each in one of many ways, drawn from a seed."""

    def __init__(self, rng: random.Random) -> None:
        self.rng, self.done, self.last = rng, list[str](), b""
        self._skip, self._share = rng.choice((0, 5, 20, 100)), rng.choice((0.02, 0.1, 0.3))
        self._lock = threading.Lock()

    def __call__(self, relay: Frames, message: bytearray, kept: dict[Any, Any], client: socket.socket) -> Answers:
        with self._lock:
            relay.seen += 1
            before, self.last = self.last, relay.frame(message)
            if relay.seen <= self._skip or len(self.done) >= 3 or not message or self.rng.random() > self._share:
                return None
            how = self.rng.choice(_WAYS)
            self.done.append(f"{how.__name__.strip('_')} of answer {relay.seen}, {len(message)} bytes")
            return how(self.rng, relay, message, before)


def _flipped(rng: random.Random, relay: Frames, message: bytearray, before: bytes) -> list[bytes]:
    for _ in range(rng.choice((1, 8))):
        message[rng.randrange(len(message))] ^= 1 << rng.randrange(8)
    return [relay.frame(message)]


def _word(rng: random.Random, relay: Frames, message: bytearray, before: bytes) -> list[bytes]:
    at = rng.randrange(max(1, min(len(message) - 8, rng.choice((64, 128, 400))))) // 4 * 4
    order = "little" if relay.protocol == "smb" else "big"
    message[at : at + 4] = rng.choice(INTERESTING).to_bytes(4, order)  # type: ignore[arg-type]
    return [relay.frame(message)]


def _cut(rng: random.Random, relay: Frames, message: bytearray, before: bytes) -> list[bytes]:
    return [relay.frame(message[: rng.randrange(len(message))])]


def _cut_and_silent(rng: random.Random, relay: Frames, message: bytearray, before: bytes) -> list[bytes]:
    return [relay.frame(message)[: 4 + rng.randrange(len(message))]]


def _other_length(rng: random.Random, relay: Frames, message: bytearray, before: bytes) -> list[bytes]:
    return [struct.pack(">I", rng.choice(INTERESTING)) + message]


def _twice(rng: random.Random, relay: Frames, message: bytearray, before: bytes) -> list[bytes]:
    return [relay.frame(message)] * 2


def _older(rng: random.Random, relay: Frames, message: bytearray, before: bytes) -> list[bytes]:
    return [before or relay.frame(message)]


def _swapped(rng: random.Random, relay: Frames, message: bytearray, before: bytes) -> list[bytes]:
    return [relay.frame(message), before]


def _dropped(rng: random.Random, relay: Frames, message: bytearray, before: bytes) -> list[bytes]:
    return []


def _garbage(rng: random.Random, relay: Frames, message: bytearray, before: bytes) -> list[bytes]:
    return [relay.frame(rng.randbytes(rng.choice((0, 1, 4, 24, 64, 200))))]


def _late(rng: random.Random, relay: Frames, message: bytearray, before: bytes) -> list[bytes]:
    relay.wait(rng.choice((0.1, 0.7, 1.3)))
    return [relay.frame(message)]


def _zeroed(rng: random.Random, relay: Frames, message: bytearray, before: bytes) -> list[bytes]:
    at = rng.randrange(len(message))
    message[at : at + 32] = bytes(len(message[at : at + 32]))
    return [relay.frame(message)]


def _longer(rng: random.Random, relay: Frames, message: bytearray, before: bytes) -> list[bytes]:
    at = rng.randrange(len(message))
    message[at:at] = rng.randbytes(rng.choice((1, 4, 8, 64)))
    return [relay.frame(message)]


def _status(rng: random.Random, relay: Frames, message: bytearray, before: bytes) -> list[bytes]:
    at, code = (8, "<I") if relay.protocol == "smb" else (24, ">I")
    if len(message) >= at + 4:
        struct.pack_into(code, message, at, rng.choice(_STATUSES[relay.protocol]))
    return [relay.frame(message)]


_WAYS = (
    _flipped, _word, _word, _cut, _cut_and_silent, _other_length, _twice, _older, _swapped, _dropped, _garbage, _late,
    _zeroed, _longer, _status, _status,
)  # fmt: skip
