"""TCP segments of a capture as whole messages: SMB over direct TCP and ONC RPC records.

tshark delivers segments with their sequence numbers. Here each direction of a connection is put in order, and its
messages are cut out of it. Bytes that the capture has not (a snap length, packets it dropped) leave holes of known
length: a hole inside the data of a read or write harms nothing, as all that a trace needs stands before the data.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import Literal, NamedTuple

Protocol = Literal["smb", "rpc"]
MAX_MESSAGE_BYTES = 1 << 24
_HOLD_BYTES = 4 << 20
_HOLD_SEGMENTS = 512
HOLD_NS = 1_000_000_000
"""A segment that others overtook is waited for as long, in time of the capture."""
LOOK_AHEAD = 16
_LOOK_AHEAD_NS = 20_000_000
_MOST_WAITING = 4096
"""Cards with several queues hand packets of both directions over in a slightly wrong order: when a packet confirms
data that have not come, they are looked for in the next so many packets of the connection.
"""
_UNKNOWN_SEGMENTS = 64
_MASK = 0xFFFFFFFF
_SMB_MAGICS = (b"\xfeSMB", b"\xfdSMB", b"\xfcSMB", b"\xffSMB")
_NFS_CALL = struct.pack(">III", 0, 2, 100_003)
PROGRAMS = frozenset((100_003, 100_005))
"""NFS, and the MOUNT protocol that names the roots of NFS 3."""

RETRANSMITTED = "segments sent again"
MISSING = "gaps where packets are missing in the capture"
UNREADABLE = "messages whose start is missing"


class Segment(NamedTuple):
    """Payload of one packet. length: what it had on the wire; `data` may be shorter or empty."""

    frame: int
    time_ns: int
    connection: int
    source: str
    target: str
    sequence: int
    length: int
    syn: bool
    acknowledged: int | None
    """Up to where its sender has the other direction."""
    data: bytes


class Message(NamedTuple):
    """One SMB message or RPC record. cut: `body` is only what stands before the first hole.

    start_ns, end_ns: of the first and of the last segment that it came in. source, target: addresses with port.
    """

    body: bytes
    cut: bool
    start_ns: int
    end_ns: int
    source: str
    target: str
    frame: int


def smb_start(data: bytes) -> int | None:
    """Where a message with its length begins in data; None: nowhere."""
    at = data.find(b"SMB", 5)
    while at >= 0:
        if data[at - 5] == 0 and data[at - 1 : at + 3] in _SMB_MAGICS:
            return at - 5
        at = data.find(b"SMB", at + 1)
    return None


def rpc_start(data: bytes) -> int | None:
    """Where an RPC record of NFS begins in data: a call anywhere, a reply at its start only."""
    if len(data) >= 28:
        mark, _, kind, first, second, third = struct.unpack_from(">6I", data)
        if mark >> 31 and 24 <= mark & 0x7FFFFFFF <= MAX_MESSAGE_BYTES:
            if kind == 0 and first == 2 and second in PROGRAMS and 1 <= third <= 4:
                return 0
            if kind == 1 and first == 0 and second in (0, 1, 6) and third <= 400:
                return 0
    at = data.find(_NFS_CALL)
    return at - 8 if at >= 8 and data[at - 8] & 0x80 else None


_STARTS: dict[Protocol, Callable[[bytes], int | None]] = {"smb": smb_start, "rpc": rpc_start}


class Connection:
    """Both directions of one TCP connection. protocol: None until a first message is recognised."""

    def __init__(self, number: int, on_message: Callable[[Connection, Message], None], skip: Callable[[str], None]):
        self.number = number
        self.protocol: Protocol | None = None
        self.on_message = on_message
        self.skip = skip
        self._halves: dict[str, _Half] = {}
        self._unknown = 0
        self._ahead: deque[Segment] = deque()
        """What was announced and not yet read, in the order of the capture."""
        self._taken: set[int] = set()
        """Frames of these that were read before their turn."""

    def announce(self, segment: Segment) -> bool:
        """A segment that will be read soon; False for one that nobody needs, as its protocol is not known."""
        if self.protocol is None:
            if self._unknown > _UNKNOWN_SEGMENTS:
                return False
            self.protocol = next((name for name, find in _STARTS.items() if find(segment.data) is not None), None)
            self._unknown += bool(segment.length)
            if self.protocol is None:
                return False
        if segment.source not in self._halves:
            self._halves[segment.source] = _Half(self, segment)
        self._ahead.append(segment)
        return True

    def read(self, segment: Segment) -> None:
        """The turn of the segment that was announced first of those that are left."""
        self._ahead.popleft()
        if self._taken and segment.frame in self._taken:
            self._taken.discard(segment.frame)
            return
        if segment.acknowledged is not None:
            for source, other in self._halves.items():
                if source != segment.source and other.lacks(segment.acknowledged):
                    self._look_ahead(source, other, segment.acknowledged)
                    other.acknowledged(segment.acknowledged)
        self._halves[segment.source].segment(segment)

    def _look_ahead(self, source: str, half: _Half, sequence: int) -> None:
        """Reads what was confirmed and comes only now in the capture."""
        for late in islice(self._ahead, LOOK_AHEAD):
            wanted = late.source == source and late.length and half.begins_before(late, sequence)
            if wanted and late.frame not in self._taken and half.lacks(sequence):
                self._taken.add(late.frame)
                half.segment(late)

    def release(self, now_ns: int) -> None:
        """Gives up waiting for segments that have not come for too long at this time of the capture."""
        for half in self._halves.values():
            if half.waits_since(now_ns) > HOLD_NS:
                half.give_up_waiting()

    def finish(self) -> None:
        """Nothing more comes: what was held back for missing segments is read without them."""
        for half in self._halves.values():
            half.give_up_waiting()


class Flow:
    """Segments of all connections, each read a little after it came, in the order of the capture.

    So late packets of a connection are found, and a name that one connection learns or changes is known, or not yet
    known, to the others as it was to the server.
    """

    def __init__(self) -> None:
        self._waiting: deque[tuple[Connection, Segment]] = deque()
        self._bytes = 0

    def add(self, connection: Connection, segment: Segment) -> None:
        """The next segment of the capture."""
        if connection.announce(segment):
            self._waiting.append((connection, segment))
            self._bytes += len(segment.data)
        while self._waiting and (
            self._waiting[0][1].time_ns + _LOOK_AHEAD_NS < segment.time_ns
            or len(self._waiting) > _MOST_WAITING or self._bytes > _HOLD_BYTES
        ):  # fmt: skip
            self._read()

    def finish(self) -> None:
        """Reads all that is left."""
        while self._waiting:
            self._read()

    def _read(self) -> None:
        connection, segment = self._waiting.popleft()
        self._bytes -= len(segment.data)
        connection.read(segment)


class _Half:
    """One direction: segments in order, retransmissions left out, holes told apart."""

    def __init__(self, connection: Connection, first: Segment) -> None:
        self._connection = connection
        self._expected = first.sequence + (1 << 32)
        self._held: dict[int, Segment] = {}
        self._held_bytes = 0
        self._messages = _Messages(connection)

    def segment(self, segment: Segment) -> None:
        if segment.syn:
            self._expected = segment.sequence + 1 + (1 << 32)
            return
        if not segment.length:
            return
        at = self._position(segment.sequence)
        if at + segment.length <= self._expected or at in self._held:
            self._connection.skip(RETRANSMITTED)
            return
        if at > self._expected:
            self._held[at] = segment
            self._held_bytes += len(segment.data)
            if (
                self._held_bytes > _HOLD_BYTES or len(self._held) > _HOLD_SEGMENTS
                or self.waits_since(segment.time_ns) > HOLD_NS
            ):  # fmt: skip
                self.give_up_waiting()
            return
        self._take(at, segment)
        self._take_held()

    def waits_since(self, now_ns: int) -> int:
        """How long segments have been held back, in nanoseconds; 0: none are."""
        return now_ns - next(iter(self._held.values())).time_ns if self._held else 0

    def lacks(self, sequence: int) -> bool:
        """Whether bytes before this have not been seen."""
        return self._position(sequence) > self._expected

    def begins_before(self, segment: Segment, sequence: int) -> bool:
        """Whether a segment has bytes before this."""
        return self._position(segment.sequence) < self._position(sequence)

    def acknowledged(self, sequence: int) -> None:
        """The receiver has all up to here: what the capture has not of it will not come."""
        until = self._position(sequence)
        while until > self._expected:
            self._missing(min([until, *self._held]))
            self._take_held()

    def give_up_waiting(self) -> None:
        """Reads what was held back without what it was held back for."""
        while self._held:
            self._missing(min(self._held))
            self._take_held()

    def _position(self, sequence: int) -> int:
        """A sequence number, which wraps around, as a place in the whole stream."""
        ahead = (sequence - self._expected) & _MASK
        return self._expected + (ahead - (1 << 32) if ahead >> 31 else ahead)

    def _missing(self, until: int) -> None:
        self._connection.skip(MISSING)
        self._messages.hole(until - self._expected)
        self._expected = until

    def _take_held(self) -> None:
        while self._held and (at := min(self._held)) <= self._expected:
            self._held_bytes -= len(self._held[at].data)
            self._take(at, self._held.pop(at))

    def _take(self, at: int, segment: Segment) -> None:
        old = self._expected - at
        length = segment.length - old
        if length <= 0:
            return
        data = segment.data[old:] if old else segment.data
        self._expected += length
        self._messages.data(data, segment)
        if len(data) < length:
            self._messages.hole(length - len(data))


class _Messages:
    """Cuts one direction into messages. After a hole that took a message's start it looks for the next one."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._lost = True
        self._told = True
        self._reset()

    def _reset(self) -> None:
        self._mark = b""
        self._left = 0
        self._last = True
        self._body = bytearray()
        self._cut = False
        self._first: Segment | None = None
        self._latest: Segment | None = None

    def data(self, data: bytes, segment: Segment) -> None:
        rest = memoryview(data)
        while rest:
            if self._lost:
                at = _STARTS[self._connection.protocol](bytes(rest))  # type: ignore[index]
                if at is None:
                    self._lose()
                    return
                self._lost, rest = False, rest[at:]
            if self._first is None:
                self._first = segment
            self._latest = segment
            if len(self._mark) < 4:
                take = 4 - len(self._mark)
                self._mark, rest = self._mark + bytes(rest[:take]), rest[take:]
                if len(self._mark) == 4 and not self._begun():
                    return
                if len(self._mark) < 4 or self._left:
                    continue
            take = min(self._left, len(rest))
            if not self._cut:
                self._body += rest[:take]
            self._left -= take
            rest = rest[take:]
            if not self._left:
                self._fragment_done()

    def hole(self, length: int) -> None:
        """So many bytes are not in the capture."""
        if self._lost:
            return
        if len(self._mark) == 4 and length <= self._left:
            self._cut = True
            self._left -= length
            if not self._left:
                self._fragment_done()
            return
        if self._body:
            self._cut = True
            self._deliver()
        self._lose()

    def _lose(self) -> None:
        """No start of a message is known any more; told once until the next is found."""
        if not self._lost or not self._told:
            self._connection.skip(UNREADABLE)
        self._told = True
        self._lost = True
        self._reset()

    def _begun(self) -> bool:
        (mark,) = struct.unpack(">I", self._mark)
        if self._connection.protocol == "smb":
            self._left, self._last = mark & 0xFFFFFF, True
            wrong = mark >> 24 not in (0, 0x85)
        else:
            self._left, self._last = mark & 0x7FFFFFFF, bool(mark >> 31)
            wrong = self._left + len(self._body) > MAX_MESSAGE_BYTES
        if wrong:
            self._lose()
            return False
        if not self._left:
            self._fragment_done()
        return True

    def _fragment_done(self) -> None:
        self._mark = b""
        if self._last:
            self._deliver()
            self._reset()

    def _deliver(self) -> None:
        if not self._body:
            return
        first, latest = self._first, self._latest
        assert first is not None and latest is not None
        self._told = False
        self._connection.on_message(self._connection, Message(
            bytes(self._body), self._cut, first.time_ns, latest.time_ns, first.source, first.target, first.frame,
        ))  # fmt: skip
