"""A front that gives an RPC server on loopback TLS (RFC 9289), with OpenSSL: nothing in it is naslab's.

It answers the NULL call of flavour AUTH_TLS with STARTTLS, shakes hands with ALPN `sunrpc`, and relays what is inside.
Every byte that a client sends after STARTTLS is looked at: it must be part of a TLS record.
"""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import struct
import threading
from collections.abc import Iterator

AUTH_TLS = 7
LAST = 0x80000000
PIECE = 1 << 16
RECORDS = range(20, 24)
"""Kinds of TLS records."""
WAYS = ("offer", "refuse", "ignore", "hang_up", "cut", "half", "mute")
"""offer: TLS. refuse: AUTH_REJECTEDCRED. ignore: an answer without STARTTLS. hang_up: the end instead of an answer.
cut: the end once the handshake has begun. half: half an answer, then nothing. mute: no answer."""


class Front:
    """Passes RPC through. in_the_clear: (program, procedure) of calls without TLS, but for those that ask for it."""

    def __init__(self, port: int, context: ssl.SSLContext, way: str = "offer", at: int = 0) -> None:
        self.way = way
        self.context = context
        self.in_the_clear: list[tuple[int, int]] = []
        self.asked = 0
        self.not_records: list[bytes] = []
        self.raw_bytes = 0
        """That TLS connections received from clients, as they came from the socket."""
        self.inner_bytes = 0
        """What was in them."""
        self._upstream = port
        self._listener = socket.create_server(("127.0.0.1", at))
        self.port = int(self._listener.getsockname()[1])
        self._sockets: list[socket.socket] = []
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Ends all connections and the front."""
        self.cut()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def cut(self) -> None:
        """Ends all connections."""
        with self._lock:
            ended, self._sockets = self._sockets, []
        for each in ended:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client = self._listener.accept()[0]
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                with self._lock:
                    self._sockets.append(client)
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError, ssl.SSLError):
            server = socket.create_connection(("127.0.0.1", self._upstream), timeout=60)
            server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with server:
                while (call := _record(client)) is not None:
                    xid, _, _, program, _, procedure, flavour = struct.unpack_from(">7I", call)
                    if flavour != AUTH_TLS:
                        self.in_the_clear.append((program, procedure))
                        server.sendall(struct.pack(">I", LAST | len(call)) + call)
                        answer = _record(server)
                        client.sendall(struct.pack(">I", LAST | len(answer or b"")) + (answer or b""))
                    elif not self._answer(client, xid):
                        return
                    elif self.way == "offer":
                        _Sealed(self, client, server).relay()
                        return

    def _answer(self, client: socket.socket, xid: int) -> bool:
        """Whether the connection goes on after the question for TLS."""
        self.asked += 1
        refusal = struct.pack(">5I", xid, 1, 1, 1, 2)
        offer = struct.pack(">5I8sI", xid, 1, 0, 0, 8, b"STARTTLS", 0)
        answer = {"refuse": refusal, "ignore": struct.pack(">6I", xid, 1, 0, 0, 0, 0)}.get(self.way, offer)
        framed = struct.pack(">I", LAST | len(answer)) + answer
        if self.way in ("hang_up", "mute"):
            if self.way == "mute":
                client.recv(1)
            return False
        client.sendall(framed[:20] if self.way == "half" else framed)
        if self.way in ("cut", "half"):
            client.recv(PIECE if self.way == "cut" else 1)
            return False
        return True


class _Sealed:
    """One connection under TLS."""

    def __init__(self, front: Front, client: socket.socket, server: socket.socket) -> None:
        self._front, self._client, self._server = front, client, server
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = front.context.wrap_bio(self._in, self._out, server_side=True)
        self._seen = b""

    def relay(self) -> None:
        """Until one side ends."""
        while not self._shaken():
            if not self._receive():
                return
        while True:
            while inner := self._read():
                self._front.inner_bytes += len(inner)
                self._server.sendall(inner)
            self._flush()
            readable, _, _ = select.select([self._client, self._server], [], [])
            if self._client in readable and not self._receive():
                return
            if self._server in readable:
                if not (answer := self._server.recv(PIECE)):
                    return
                self._tls.write(answer)
                self._flush()

    def _shaken(self) -> bool:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        finally:
            self._flush()  # an alert, too
        return True

    def _read(self) -> bytes:
        with contextlib.suppress(ssl.SSLWantReadError):
            return self._tls.read(PIECE)
        return b""

    def _flush(self) -> None:
        if sealed := self._out.read():
            self._client.sendall(sealed)

    def _receive(self) -> bool:
        if not (raw := self._client.recv(PIECE)):
            return False
        self._front.raw_bytes += len(raw)
        self._look(raw)
        self._in.write(raw)
        return True

    def _look(self, raw: bytes) -> None:
        """Follows the heads of records: whatever else comes is kept for the test to see."""
        self._seen += raw
        while len(self._seen) >= 5:
            kind, version, length = struct.unpack_from(">BHH", self._seen)
            if kind not in RECORDS or version not in (0x0301, 0x0303):
                self._front.not_records.append(self._seen[:64])
                return
            if len(self._seen) < 5 + length:
                return
            self._seen = self._seen[5 + length :]


def _record(from_: socket.socket) -> bytes | None:
    """The next RPC record, of one fragment or several; None at the end."""
    whole = b""
    while True:
        head = _exactly(from_, 4)
        if head is None:
            return None
        (mark,) = struct.unpack(">I", head)
        part = _exactly(from_, mark & ~LAST)
        if part is None:
            return None
        whole += part
        if mark & LAST:
            return whole


def _exactly(from_: socket.socket, count: int) -> bytes | None:
    found = b""
    while len(found) < count:
        if not (piece := from_.recv(count - len(found))):
            return None
        found += piece
    return found


@contextlib.contextmanager
def front(port: int, context: ssl.SSLContext, way: str = "offer") -> Iterator[Front]:
    """A front before a port of this machine."""
    made = Front(port, context, way)
    try:
        yield made
    finally:
        made.close()
