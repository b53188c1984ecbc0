"""A relay between client and server that breaks connections in chosen ways, on loopback only."""

from __future__ import annotations

import contextlib
import random
import socket
import struct
import threading
from collections.abc import Callable, Iterator

MODES = ("close", "reset", "freeze", "half", "garbage", "noise", "endless")
"""close and reset: the connection ends. freeze: nothing comes any more. half: part of a reply, then silence.
garbage: random bytes instead of a reply. noise: single bytes of replies changed. endless: a reply that claims to
be 4 GiB long."""


class Relay:
    """Passes bytes through until `break_down` names a mode; new connections are then broken as well."""

    def __init__(self, port: int, at: tuple[str, int] = ("127.0.0.1", 0)) -> None:
        self.rewrite: Callable[[bytes], bytes] = bytes
        """What becomes of each piece that the client sends."""
        self.rewrite_answer: Callable[[bytes], bytes] = bytes
        """The same of those that the server answers."""
        self.tells_the_server = True
        """Whether the server learns that a client's connection has ended; in a network that drops all, it does not."""
        self._left_bytes: int | None = None
        self._then = ""
        self._upstream = port
        self._listener = socket.create_server(at)
        self.port = int(self._listener.getsockname()[1])
        self._mode: str | None = None
        self._sockets: list[socket.socket] = []
        self._closings: list[int] = []
        self._hold_bytes: int | None = None
        self._silent: list[socket.socket] = []
        self._lock = threading.Lock()
        self._closed = False
        self._random = random.Random(7)
        threading.Thread(target=self._accept, daemon=True).start()

    def break_down(self, mode: str) -> None:
        """From the next reply on, connections break like this."""
        self._mode = mode

    def break_after(self, answered_bytes: int, mode: str) -> None:
        """As `break_down`, once the server has answered so many bytes more."""
        self._then, self._left_bytes = mode, answered_bytes

    def close_every(self, answered_bytes: int, times: int) -> None:
        """Closes one connection each time the server has answered so many bytes; new ones work at once."""
        self._closings = [answered_bytes] * times

    def hold_after(self, answered_bytes: int) -> None:
        """Once the server has answered so many bytes, the connection of the next answer is silent; new ones work."""
        self._hold_bytes = answered_bytes

    @property
    def closings_left(self) -> int:
        """Of those that `close_every` asked for."""
        return len(self._closings)

    @property
    def broken(self) -> bool:
        """Whether connections break by now."""
        return self._mode is not None

    def heal(self) -> None:
        """New connections work again."""
        self._mode = None

    def close(self) -> None:
        """Ends all connections and the relay."""
        with self._lock:
            self._closed = True
            all_of_them = [self._listener, *self._sockets]
        for each in all_of_them:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client = self._keep(self._listener.accept()[0])
                server = self._keep(socket.create_connection(("127.0.0.1", self._upstream), timeout=10))
                server.settimeout(None)
                threading.Thread(target=self._forward, args=(client, server), daemon=True).start()
                threading.Thread(target=self._answer, args=(server, client), daemon=True).start()

    def _keep(self, made: socket.socket) -> socket.socket:
        """Remembers a socket for `close`. Raises OSError, closing it, once the relay is closed."""
        with self._lock:
            if self._closed:
                made.close()
                raise OSError("the relay is closed")
            self._sockets.append(made)
        return made

    def _forward(self, client: socket.socket, server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := client.recv(1 << 16):
                server.sendall(self.rewrite(data))
        with contextlib.suppress(OSError):
            if self.tells_the_server:
                server.shutdown(socket.SHUT_WR)

    def _answer(self, server: socket.socket, client: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := server.recv(1 << 16):
                if not self._is_silent(data, client) and not self._pass(data, client):
                    break
        if self._mode not in ("freeze", "half"):
            with contextlib.suppress(OSError):
                if self._mode != "reset":
                    client.shutdown(
                        socket.SHUT_RDWR
                    )  # the other thread waits in it: without this nothing would be sent
            client.close()

    def _is_silent(self, data: bytes, client: socket.socket) -> bool:
        """Whether nothing comes any more of this connection, see `hold_after`."""
        if self._hold_bytes is not None:
            self._hold_bytes -= len(data)
            if self._hold_bytes < 0:
                self._hold_bytes = None
                self._silent.append(client)
        return client in self._silent

    def _pass(self, data: bytes, client: socket.socket) -> bool:
        """Whether the connection goes on."""
        data = self.rewrite_answer(data)
        if self._closings:
            self._closings[0] -= len(data)
            if self._closings[0] < 0:
                del self._closings[0]
                return False
        if self._left_bytes is not None:
            self._left_bytes -= len(data)
            if self._left_bytes < 0:
                self._mode, self._left_bytes = self._then, None
        if self._mode is None:
            client.sendall(data)
        elif self._mode == "close":
            return False
        elif self._mode == "reset":
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            return False
        elif self._mode == "half":
            client.sendall(data[: max(1, len(data) // 2)])
            self._mode = "freeze"
        elif self._mode == "garbage":
            client.sendall(self._random.randbytes(len(data) + 100))
        elif self._mode == "noise":
            broken = bytearray(data)
            for _ in range(1 + len(data) // 200):
                broken[self._random.randrange(len(broken))] ^= 1 << self._random.randrange(8)
            client.sendall(broken)
        elif self._mode == "endless":
            client.sendall(b"\x00\xff\xff\xff" + data[4:])
        return True


@contextlib.contextmanager
def relay(port: int, at: tuple[str, int] = ("127.0.0.1", 0)) -> Iterator[Relay]:
    """A relay to a port of this machine. at: where it listens; port 0 for any."""
    found = Relay(port, at)
    try:
        yield found
    finally:
        found.close()
