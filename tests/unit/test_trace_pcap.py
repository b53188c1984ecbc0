"""Captures as traces: messages written byte by byte here, as lines that tshark would print."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from lengths import inputs
from naslab.cli import main
from naslab.errors import TraceError, UsageError
from naslab.trace import Anonymiser, Operation, Trace
from naslab.trace import pcap as module
from naslab.trace.convert import _kind as looks_like
from naslab.trace.convert import convert
from naslab.trace.pcap_emit import Context
from naslab.trace.pcap_flow import Connection, Flow, Message, Segment, rpc_start, smb_start

CLIENT, SERVER = "10.0.0.1", "10.0.0.2"


class Wire:
    """Packets of one connection between a client and a server, 1 ms apart."""

    clock_ns = 1_700_000_000 * 10**9

    def __init__(self, port: int = 445, number: int = 0) -> None:
        self.lines: list[bytes] = []
        self.port, self.number = port, number
        self.sequence = {True: 0xFFFFFF00, False: 77}  # wraps around soon

    def send(self, data: bytes, from_client: bool = True, seen: int | None = None, size: int = 1460) -> None:
        """A message as segments; seen: bytes of each that the capture kept."""
        for at in range(0, len(data), size):
            part = data[at : at + size]
            self.line(part, from_client, self.sequence[from_client], seen)
            self.sequence[from_client] = (self.sequence[from_client] + len(part)) & 0xFFFFFFFF

    def line(self, data: bytes, from_client: bool, sequence: int, seen: int | None = None) -> None:
        Wire.clock_ns += 1_000_000
        ends = [(CLIENT, "", "50000"), (SERVER, "", str(self.port))]
        source, target = ends if from_client else ends[::-1]
        time = f"{Wire.clock_ns // 10**9}.{Wire.clock_ns % 10**9:09d}"
        words = (len(self.lines) + 1, time, self.number, *source, *target, sequence, len(data), "0x0018",
                 self.sequence[not from_client],
                 data[:seen].hex())  # fmt: skip
        self.lines.append("\t".join(map(str, words)).encode() + b"\n")


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Converts packets: a program called tshark prints their lines, says `said` and ends with `code`."""

    def run(lines: list[bytes], code: int = 0, said: str = "", anonymise: Anonymiser | None = None) -> Any:
        (tmp_path / "lines").write_bytes(b"".join(lines))
        (tmp_path / "said").write_text(said)
        program = tmp_path / "bin" / "tshark"
        program.parent.mkdir(exist_ok=True)
        program.write_text(f"#!/bin/sh\ncat {tmp_path}/lines\ncat {tmp_path}/said >&2\nexit {code}\n")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
        (tmp_path / "a.pcap").write_bytes(module.MAGICS[0] + b"the rest is tshark's business")
        told = convert(tmp_path / "a.pcap", tmp_path / "a.trace", "", None, None, anonymise)
        return told, list(Trace(tmp_path / "a.trace"))

    return run


def short(operations: list[Operation]) -> list[tuple[Any, ...]]:
    """Kind, path, then offset, length, new name, flags and error where there are any."""
    return [
        tuple(
            x for x in (o.op, o.path, o.offset_bytes, o.len_bytes, o.to_path, o.flags, o.error) if x not in (None, "")
        )
        for o in operations
    ]


# SMB


class Smb(Wire):
    """Messages of SMB: each request with its reply, unless `reply` is None."""

    def __init__(self, **more: Any) -> None:
        super().__init__(**more)
        self.next_id = 1
        self.tree = 7

    def part(self, command: int, body: bytes, message_id: int, reply: bool, status: int = 0, flags: int = 0,
             after: int = 0) -> bytes:  # fmt: skip
        return struct.pack("<4sHHIHHIIQIIQ16s", b"\xfeSMB", 64, 1, status, command, 1, flags | reply, after, message_id,
                           0, self.tree, 99, b"") + body  # fmt: skip

    @staticmethod
    def framed(message: bytes) -> bytes:
        return struct.pack(">I", len(message)) + message

    def call(self, command: int, body: bytes, reply: bytes = b"", status: int = 0) -> int:
        number, self.next_id = self.next_id, self.next_id + 1
        self.send(self.framed(self.part(command, body, number, False)))
        self.send(self.framed(self.part(command, reply, number, True, status)), False)
        return number

    def connect(self, share: str) -> None:
        path = f"\\\\server\\{share}".encode("utf-16-le")
        self.call(3, struct.pack("<HHHH", 9, 0, 72, len(path)) + path, struct.pack("<HBB", 16, 1, 0) + bytes(12))

    @staticmethod
    def creating(name: str, access: int = 3, disposition: int = 1, options: int = 0) -> bytes:
        raw = name.encode("utf-16-le")
        return struct.pack("<HBBIQQIIIIIHHII", 57, 0, 0, 2, 0, 0, access, 0, 7, disposition, options, 120, len(raw),
                           0, 0) + raw  # fmt: skip

    @staticmethod
    def created(fid: int, length: int = 0, action: int = 1, folder: bool = False) -> bytes:
        return struct.pack("<HBBI32sQQII16s", 89, 0, 0, action, b"", length, length, 0x10 if folder else 0x20, 0,
                           struct.pack("<QQ", fid, fid)) + bytes(8)  # fmt: skip

    def create(self, name: str, fid: int, **more: Any) -> None:
        answer = {key: more.pop(key) for key in ("length", "action", "folder") if key in more}
        self.call(5, self.creating(name, **more), self.created(fid, **answer))

    @staticmethod
    def reading(fid: int, offset: int, length: int) -> bytes:
        return struct.pack("<HBBIQQQIIIHH", 49, 0, 0, length, offset, fid, fid, 0, 0, 0, 0, 0)

    @staticmethod
    def read_reply(data: bytes) -> bytes:
        return struct.pack("<HBBIII", 17, 80, 0, len(data), 0, 0) + data

    @staticmethod
    def writing(fid: int, offset: int, data: bytes) -> bytes:
        return struct.pack("<HHIQQQIIHHI", 49, 112, len(data), offset, fid, fid, 0, 0, 0, 0, 0) + data

    written = staticmethod(lambda length: struct.pack("<HHIIHH", 17, 0, length, 0, 0, 0))

    def close(self, fid: int) -> None:
        self.call(6, struct.pack("<HHIQQ", 24, 0, 0, fid, fid), bytes(60))

    def set_info(self, fid: int, level: int, data: bytes) -> None:
        self.call(17, struct.pack("<HBBIHHIQQ", 33, 1, level, len(data), 96, 0, 0, fid, fid) + data, bytes(2))


def test_smb(made: Any) -> None:
    wire = Smb()
    wire.connect("data")
    wire.create("d", 1, disposition=2, options=1, action=2, folder=True)
    wire.create("d\\ü", 2, disposition=5, action=2)
    wire.call(9, wire.writing(2, 0, bytes(5000)), wire.written(5000))
    wire.call(7, struct.pack("<HHIQQ", 24, 0, 0, 2, 2), bytes(4))
    wire.set_info(2, 20, struct.pack("<Q", 4000))
    to = "D\\b".encode("utf-16-le")
    wire.set_info(2, 10, struct.pack("<QQI", 0, 0, len(to)) + to)
    wire.call(8, wire.reading(2, 1000, 8192), wire.read_reply(bytes(3000)))
    wire.call(8, wire.reading(2, 4000, 8192), b"", 0xC0000011)
    wire.close(2)
    listing = struct.pack("<I60s", 64, b"") + struct.pack("<I60s", 0, b"")
    query = struct.pack("<HBBIQQHHI", 33, 37, 0, 0, 1, 1, 96, 2, 65536) + b"*\0"
    wire.call(14, query, struct.pack("<HHI", 9, 72, len(listing)) + listing)
    wire.call(14, query, b"", 0x80000006)
    wire.call(5, wire.creating("none", access=1), bytes(8), 0xC0000034)
    wire.set_info(1, 13, b"\1")
    wire.close(1)
    wire.call(11, struct.pack("<HHIQQ", 57, 0, 0x1440F2, 1, 1))
    told, operations = made(wire.lines)
    assert short(operations) == [
        ("mkdir", "d"), ("open", "d", "rf"), ("create", "d/ü", "rwt"), ("write", "d/ü", 0, 5000), ("flush", "d/ü"),
        ("truncate", "d/ü", 4000), ("rename", "d/ü", "d/b"), ("read", "d/ü", 1000, 3000), ("read", "d/ü", 4000, 0),
        ("close", "d/ü"), ("readdir", "d", 2), ("readdir", "d", 0),
        ("open", "none", "r", "NT_STATUS_OBJECT_NAME_NOT_FOUND"), ("close", "d"), ("rmdir", "d"),
    ]  # fmt: skip
    assert told["skipped"] == {"server-side copies (copychunk)": 1} and {o.stream for o in operations} == {0}
    write = operations[3]
    # 5116 bytes are four segments; the reply comes 1 ms after the last of them.
    assert write.duration_ns == 4_000_000 and operations[7].asked_bytes == 8192


def test_smb_requests_in_flight_are_streams_of_their_own(made: Any) -> None:
    """Out of order, with an interim answer; a third request takes a free stream."""
    wire = Smb()
    wire.connect("data")
    wire.create("f", 5, length=1 << 20)
    for number, offset in ((11, 0), (12, 4096), (13, 8192)):
        wire.send(wire.framed(wire.part(8, wire.reading(5, offset, 4096), number, False)))
    wire.send(wire.framed(wire.part(8, bytes(9), 11, True, 0x103, 2)), False)
    wire.send(wire.framed(wire.part(8, wire.read_reply(bytes(4096)), 12, True)), False)
    wire.send(wire.framed(wire.part(8, wire.read_reply(bytes(4096)), 11, True, 0, 2)), False)
    wire.call(8, wire.reading(5, 0, 1), wire.read_reply(b"x"))
    wire.send(wire.framed(wire.part(8, wire.read_reply(bytes(4096)), 13, True)), False)
    told, operations = made(wire.lines)
    assert told["skipped"] == {}
    assert [(o.stream, o.offset_bytes) for o in operations if o.op == "read"] == [(0, 0), (1, 4096), (2, 8192), (0, 0)]
    last: dict[int, int] = {}
    for o in operations:
        assert o.start_ns >= last.get(o.stream, 0), "one operation at a time"
        last[o.stream] = o.start_ns + (o.duration_ns or 0)


def test_smb_compounds(made: Any) -> None:
    """CREATE, READ and CLOSE in one message: one stream, one after the other, the handle not known before."""
    wire = Smb()
    wire.connect("data")
    same = 0xFFFFFFFFFFFFFFFF
    bodies = [(5, wire.creating("a\\f")), (8, wire.reading(same, 0, 100)),
              (6, struct.pack("<HHIQQ", 24, 0, 0, same, same))]  # fmt: skip
    replies = [(5, wire.created(3, length=60)), (8, wire.read_reply(bytes(60))), (6, bytes(60))]

    def compound(parts: list[tuple[int, bytes]], reply: bool, status: int = 0) -> bytes:
        whole = b""
        for index, (command, bare) in enumerate(parts):
            body = bare + bytes(-len(bare) % 8)
            after = 64 + len(body) if index + 1 < len(parts) else 0
            whole += wire.part(command, body, 20 + index, reply, status, 4 if index else 0, after)
        return wire.framed(whole)

    for answers, status in ((replies, 0), ([(command, bytes(8)) for command, _ in replies], 0xC0000022)):
        wire.send(compound(bodies, False))
        wire.send(compound(answers, True, status), False)
    told, operations = made(wire.lines)
    assert short(operations) == [
        ("open", "a/f", "rw"), ("read", "a/f", 0, 60), ("close", "a/f"),
        ("open", "a/f", "rw", "NT_STATUS_ACCESS_DENIED"),
    ]  # fmt: skip
    assert told["skipped"] == {} and {o.stream for o in operations} == {0}
    assert operations[1].start_ns == operations[0].start_ns + (operations[0].duration_ns or 0)


def test_smb_shares_pipes_and_what_cannot_be_named(made: Any) -> None:
    wire = Smb()
    wire.connect("one")
    wire.create("f", 1)
    wire.close(1)
    wire.tree = 8
    wire.connect("two")
    wire.create("F", 2)
    wire.create("..\\f", 3)
    wire.create("f:stream", 4)
    wire.create("g", 5)
    wire.create("G", 6)
    wire.tree = 9
    path = "\\\\server\\IPC$".encode("utf-16-le")
    wire.call(3, struct.pack("<HHHH", 9, 0, 72, len(path)) + path, struct.pack("<HBB", 16, 2, 0) + bytes(12))
    wire.create("srvsvc", 7)
    told, operations = made(wire.lines)
    assert [o.path for o in operations] == ["one/f", "one/f", "two/F", "two/g", "two/g"], "case is one on SMB"
    assert told["skipped"] == {
        "alternate data streams": 1, "names that are not allowed in a trace": 1, "requests to named pipes": 1,
    }  # fmt: skip


def test_smb_a_capture_cut_at_both_ends(made: Any) -> None:
    """Open before it began, request before it began, no reply any more."""
    wire = Smb()
    wire.send(wire.framed(wire.part(8, wire.read_reply(bytes(50)), 3, True)), False)
    wire.call(8, wire.reading(42, 0, 100), wire.read_reply(bytes(100)))
    wire.call(8, wire.reading(42, 100, 100), wire.read_reply(bytes(100)))
    wire.send(wire.framed(wire.part(8, wire.reading(42, 200, 100), 90, False)))
    told, operations = made(
        wire.lines, 2, 'tshark: The file "x" appears to have been cut short in the middle of a packet.'
    )
    assert [(o.op, o.offset_bytes, o.flags) for o in operations] == [
        ("open", None, "rwi"), ("read", 0, ""), ("read", 100, "")
    ]  # fmt: skip
    assert str(operations[0].path).startswith("unnamed-")
    assert told["skipped"] == {
        "files whose names are not in the capture": 1, "replies without a request": 1, "requests without a reply": 1,
        "the capture file ends within a packet": 1,
    }  # fmt: skip


def test_smb_no_reply_in_two_minutes(made: Any) -> None:
    """The request is given up, so that the trace goes on; its late reply is one without a request."""
    wire = Smb()
    wire.connect("data")
    wire.create("f", 1)
    wire.send(wire.framed(wire.part(8, wire.reading(1, 0, 10), 50, False)))
    Wire.clock_ns += 121 * 10**9
    wire.call(8, wire.reading(1, 10, 10), wire.read_reply(bytes(10)))
    wire.send(wire.framed(wire.part(8, wire.read_reply(bytes(10)), 50, True)), False)
    told, operations = made(wire.lines)
    assert short(operations) == [("open", "f", "rw"), ("read", "f", 10, 10)] and operations[1].stream == 0
    assert told["skipped"] == {"requests without a reply": 1, "replies without a request": 1}


def test_smb_statuses(made: Any) -> None:
    """A symbolic link's answer is a warning by its number and still no open file; a full buffer is no error."""
    wire = Smb()
    wire.connect("data")
    wire.call(5, wire.creating("link", access=1), bytes(100), 0x8000002D)
    wire.call(5, wire.creating("odd", access=1), bytes(8), 0xC0001234)
    wire.create("f", 1)
    wire.call(8, wire.reading(1, 0, 10), wire.read_reply(bytes(4)), 0x80000005)
    wire.call(8, wire.reading(1, 0, 10), bytes(9), 0xC0000054)
    _, operations = made(wire.lines)
    assert [(o.op, o.len_bytes, o.error) for o in operations] == [
        ("open", None, "NT_STATUS_STOPPED_ON_SYMLINK"), ("open", None, "NT_STATUS_0XC0001234"), ("open", None, None),
        ("read", 4, None), ("read", 0, "NT_STATUS_FILE_LOCK_CONFLICT"),
    ]  # fmt: skip


def test_smb_encrypted(made: Any, tmp_path: Path) -> None:
    wire = Smb()
    wire.send(wire.framed(b"\xfdSMB" + bytes(100)))
    with pytest.raises(TraceError, match=r"a\.pcap: its SMB or NFS traffic is encrypted"):
        made(wire.lines)
    assert not (tmp_path / "a.trace").exists()
    wire.connect("data")
    wire.create("f", 1)
    told, _ = made(wire.lines)
    assert told["skipped"] == {"encrypted SMB messages": 1} and "encrypted" in told["notes"][0]


# what networks and captures do


def transfer() -> Smb:
    """A file written and read, in many segments."""
    wire = Smb()
    wire.connect("data")
    wire.create("f", 1)
    for index in range(8):
        wire.call(9, wire.writing(1, index * 20_000, bytes(20_000)), wire.written(20_000))
        wire.call(8, wire.reading(1, index * 20_000, 20_000), wire.read_reply(bytes(20_000)))
    wire.close(1)
    return wire


def moved(operations: list[Operation]) -> tuple[int, int]:
    """Bytes read and written."""
    sums = [sum(o.len_bytes or 0 for o in operations if o.op == kind) for kind in ("read", "write")]
    return sums[0], sums[1]


def test_short_snap_length(made: Any) -> None:
    lines = []
    for line in transfer().lines:
        words = line.split(b"\t")
        lines.append(b"\t".join([*words[:-1], words[-1].strip()[:400] + b"\n"]))
    told, operations = made(lines)
    assert moved(operations) == (160_000, 160_000) and told["skipped"] == {}


def test_segments_out_of_order_and_twice(made: Any) -> None:
    lines = transfer().lines
    length = len(lines)
    for at in range(8, length - 1, 5):
        lines[at], lines[at + 1] = lines[at + 1], lines[at]
    for at in range(10, length, 7):
        lines.insert(at, lines[at - 1])
    told, operations = made(lines)
    assert moved(operations) == (160_000, 160_000)
    assert told["skipped"]["segments sent again"] == len(lines) - length


def test_missing_packets(made: Any) -> None:
    """One with a request's start, one within the data of another: the first is lost, the second is not."""
    lines = transfer().lines
    starts = [at for at, line in enumerate(lines) if b"fe534d42" in line.split(b"\t")[-1][:20]]
    write, other = starts[4], starts[8]
    missing = {write, other + 2}
    told, operations = made([line for at, line in enumerate(lines) if at not in missing])
    assert moved(operations) == (160_000, 140_000)
    assert told["skipped"]["gaps where packets are missing in the capture"] == 2
    assert told["skipped"]["replies without a request"] == 1


def test_a_missing_packet_costs_its_exchange_only(made: Any) -> None:
    """Eight reads in quick succession: what comes after the packet that is missing is read where it stands."""
    for missing in range(3, 15):
        wire = Nfs()
        wire.call(1, opaque(b"/e"), xdr(0, opaque(b"root"), 0), program=100_005)
        for offset in range(8):
            wire.call(6, xdr(opaque(b"root"), u64(offset), 5), xdr(0, 0, 5, 1, opaque(bytes(5))))
        told, operations = made(wire.lines[:missing] + wire.lines[missing + 1 :])
        lost = (missing - 2) // 2
        assert [o.offset_bytes for o in operations if o.op == "read"] == [at for at in range(8) if at != lost], missing
        reason = "replies without a request" if missing % 2 == 0 else "requests without a reply"
        assert told["skipped"][reason] == 1


def test_other_traffic(made: Any) -> None:
    wire = Wire(port=80)
    wire.send(b"GET / HTTP/1.1\r\n" * 400)
    with pytest.raises(TraceError, match=r"no file operations of SMB 2/3 or NFS 3/4 .* connections that are neither"):
        made(wire.lines)
    smb = Smb(number=1)
    smb.connect("data")
    smb.create("f", 1)
    told, _ = made(wire.lines + smb.lines)
    assert told["skipped"] == {"connections that are neither SMB nor NFS": 1}


@pytest.mark.parametrize(
    ("lines", "code", "said", "words"),
    [
        ([], 2, 'tshark: The file "a" isn\'t a capture file', "not a capture that tshark can read"),
        ([b"1\tx\n"], 0, "", "packet 1: naslab does not understand tshark's output"),
        ([b"nonsense\n"], 0, "", "packet unknown: naslab does not understand tshark's output"),
        ([], 0, "", "no TCP packets with data"),
    ],
)
def test_bad_captures(lines: list[bytes], code: int, said: str, words: str, made: Any, tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=words) as caught:
        made(lines, code, said)
    assert str(tmp_path / "a.pcap") in str(caught.value) and not (tmp_path / "a.trace").exists()


def test_compressed_captures_are_known_by_their_look(tmp_path: Path) -> None:
    path = tmp_path / "x"
    for data in (module.MAGICS[0] + bytes(40), module.MAGICS[-1] + bytes(40)):
        for pack in (bytes, gzip.compress, zstandard.compress):
            path.write_bytes(pack(data))
            assert looks_like(path, "") == "pcap"
    for damaged in (gzip.compress(module.MAGICS[0])[:12], b"\x1f\x8b", b"\x1f\x8b" + bytes(40), gzip.compress(b"text")):
        path.write_bytes(damaged)
        with pytest.raises(TraceError, match="unknown format"):
            looks_like(path, "")


def test_damaged_after_some_packets(made: Any) -> None:
    with pytest.raises(TraceError, match="after packet 2"):
        made(transfer().lines[:2], 2, "tshark: the file is damaged: record too large")


def test_without_tshark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.pcap").write_bytes(module.MAGICS[4] + bytes(40))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="apt install tshark"):
        convert(tmp_path / "a.pcap", tmp_path / "a.trace", "", None, None)
    command = ["trace", "convert", str(tmp_path / "a.pcap"), "--from", "pcap", "-o", str(tmp_path / "a.trace")]
    assert main(command) == 2 and "apt install tshark" in capsys.readouterr().err
    with pytest.raises(UsageError, match="names in captures have no folder"):
        convert(tmp_path / "a.pcap", tmp_path / "a.trace", "", tmp_path, None)


def test_anonymised(made: Any) -> None:
    wire = Smb()
    wire.connect("secret-share")
    wire.create("private\\letter.txt", 1)
    told, operations = made(wire.lines, anonymise=Anonymiser())
    assert told["operations"] == 1 and str(operations[0].path).endswith(".txt")
    assert "letter" not in str(operations[0].path)


# NFS


def xdr(*values: int | bytes) -> bytes:
    """Numbers as 32 bits, bytes as they stand."""
    return b"".join(struct.pack(">I", value) if isinstance(value, int) else value for value in values)


def opaque(data: bytes) -> bytes:
    return xdr(len(data), data, bytes(-len(data) % 4))


def u64(value: int) -> bytes:
    return struct.pack(">Q", value)


def attributes(size: int = 0, kind: int = 1) -> bytes:
    return xdr(kind, 0o644, 1, 0, 0, u64(size)) + bytes(56)


class Nfs(Wire):
    """Calls of NFS and their replies."""

    def __init__(self, **more: Any) -> None:
        super().__init__(port=2049, **more)
        self.xid = 0x1000

    @staticmethod
    def record(message: bytes, cut_at: int = 0) -> bytes:
        """With record marks, as two fragments where cut_at says so."""
        parts = [message[:cut_at], message[cut_at:]] if cut_at else [message]
        return b"".join(xdr(len(p) | (0x80000000 if p is parts[-1] else 0), p) for p in parts)

    def request(self, procedure: int, args: bytes, version: int = 3, program: int = 100_003) -> bytes:
        self.xid += 1
        credentials = xdr(1, opaque(bytes(20)), 0, 0)
        return self.record(xdr(self.xid, 0, 2, program, version, procedure, credentials, args))

    def reply(self, result: bytes, cut_at: int = 0) -> bytes:
        return self.record(xdr(self.xid, 1, 0, 0, 0, 0, result), cut_at)

    def call(self, procedure: int, args: bytes, result: bytes, cut_at: int = 0, **more: Any) -> None:
        self.send(self.request(procedure, args, **more))
        self.send(self.reply(result, cut_at), False)

    def compound(self, ops: list[bytes], results: list[bytes], status: int = 0) -> None:
        self.call(1, xdr(opaque(b""), 1, len(ops), *ops), xdr(status, opaque(b""), len(results), *results), version=4)


def test_nfs3(made: Any) -> None:
    wire = Nfs()
    root, folder, file = (opaque(name) for name in (b"root", b"folder", b"file"))
    none = xdr(0, 0)
    post = xdr(1, attributes(0, 2))
    wire.call(1, opaque(b"/export/home"), xdr(0, root, 1, 1), program=100_005)
    wire.call(9, xdr(root, opaque(b"d"), 0, 0, 0, 0, 0, 0), xdr(0, 1, folder, post, none))
    wire.call(8, xdr(folder, opaque(b"f\xff"), 1, 0, 0, 0, 1, u64(0), 0, 0), xdr(0, 1, file, 0, none))
    wire.call(7, xdr(file, u64(4096), 5000, 0, opaque(bytes(5000))), xdr(0, none, 5000, 0, u64(1)))
    wire.call(21, xdr(file, u64(0), 0), xdr(0, none, u64(1)))
    wire.call(6, xdr(file, u64(4096), 8192), xdr(0, 0, 5000, 1, opaque(bytes(5000))), cut_at=600)
    wire.call(1, file, xdr(0, attributes(9096)))
    wire.call(2, xdr(file, 0, 0, 0, 1, u64(100), 0, 0, 0), xdr(0, none))
    wire.call(2, xdr(file, 1, 0o600, 0, 0, 0, 0, 0, 0), xdr(0, none))
    wire.call(3, xdr(folder, opaque(b"none")), xdr(2, 0))
    entries = xdr(1, u64(1), opaque(b"."), u64(1), 0, 0, 1, u64(2), opaque(b"g"), u64(2), 1, attributes(7), 1,
                  opaque(b"other"), 0, 1)  # fmt: skip
    wire.call(17, xdr(folder, u64(0), u64(0), 1000, 1000), xdr(0, post, u64(0), entries))
    wire.call(6, xdr(opaque(b"other"), u64(0), 7), xdr(0, 0, 7, 1, opaque(bytes(7))))
    wire.call(14, xdr(folder, opaque(b"g"), root, opaque(b"h")), xdr(0, none, none))
    wire.call(6, xdr(opaque(b"other"), u64(0), 7), xdr(0, 0, 7, 1, opaque(bytes(7))))
    wire.call(12, xdr(root, opaque(b"h")), xdr(0, none))
    wire.call(13, xdr(root, opaque(b"d")), xdr(66, none))
    told, operations = made(wire.lines)
    plain = [x for x in short(operations) if "rwi" not in x and x[0] not in ("open", "close")]
    assert plain == [
        ("mkdir", "d"), ("create", "d/f%FF", "we"), ("write", "d/f%FF", 4096, 5000), ("flush", "d/f%FF"),
        ("read", "d/f%FF", 4096, 5000), ("stat", "d/f%FF"), ("truncate", "d/f%FF", 100), ("stat", "d/none", "ENOENT"),
        ("readdir", "d", 2), ("read", "d/g", 0, 7), ("rename", "d/g", "h"), ("read", "h", 0, 7), ("remove", "h"),
        ("rmdir", "d", "ENOTEMPTY"),
    ]  # fmt: skip
    assert told["skipped"] == {"setting of attributes": 1}
    assert next(o.file_bytes for o in operations if o.op == "stat") == 9096


def test_nfs4(made: Any) -> None:
    """A session's compounds: names, opens by stateid, data, close; one set of attributes is one stat."""
    wire = Nfs()
    sequence, sequenced = xdr(53, bytes(32)), xdr(53, 0, bytes(36))
    state, bitmap = b"\0\0\0\1" + b"S" * 12, xdr(1, 1 << 1 | 1 << 4)
    attrs = xdr(bitmap, opaque(xdr(1, u64(12))))
    getattr_, got = xdr(9, bitmap), xdr(9, 0, attrs)

    def at(handle: bytes) -> tuple[list[bytes], list[bytes]]:
        return [sequence, xdr(22, opaque(handle))], [sequenced, xdr(22, 0)]

    def compound(handle: bytes, ops: list[bytes], results: list[bytes]) -> None:
        before, after = at(handle)
        wire.compound(before + ops, after + results)

    wire.compound([sequence, xdr(24), xdr(15, opaque(b"data")), xdr(10), getattr_],
                  [sequenced, xdr(24, 0), xdr(15, 0), xdr(10, 0, opaque(b"D")),
                   xdr(9, 0, bitmap, opaque(xdr(2, u64(4096))))])  # fmt: skip
    creating = xdr(18, 0, 3, 0, u64(1), opaque(b"me"), 1, 1, xdr(1, 1 << 4), opaque(u64(0)), 0, opaque(b"f"))
    opened = xdr(18, 0, state, bytes(20), 0, 0, 2, b"D" * 16, 0, 1, u64(0), bytes(12), opaque(b"who"))
    compound(b"D", [creating, xdr(10), getattr_], [opened, xdr(10, 0, opaque(b"F")), got])
    compound(b"F", [xdr(38, state, u64(8192), 2, opaque(bytes(5000))), getattr_],
             [xdr(38, 0, 5000, 2, u64(0)), got])  # fmt: skip
    compound(b"F", [xdr(25, b"\0\0\0\0" + b"D" * 12, u64(0), 100), getattr_], [xdr(25, 0, 1, opaque(bytes(12))), got])
    compound(b"F", [xdr(5, u64(0), 0)], [xdr(5, 0, u64(0))])
    compound(b"F", [xdr(34, state, xdr(1, 1 << 4), opaque(u64(5)))], [xdr(34, 0, 0)])
    compound(b"F", [xdr(4, 0, state)], [xdr(4, 0, state)])
    wire.compound([*at(b"D")[0], xdr(32), xdr(22, opaque(b"D")), xdr(29, opaque(b"f"), opaque(b"g"))],
                  [*at(b"D")[1], xdr(32, 0), xdr(22, 0), xdr(29, 0, bytes(40))])  # fmt: skip
    compound(b"F", [getattr_], [got])
    entry = xdr(1, u64(3), opaque(b"sub"), bitmap, opaque(xdr(2, u64(0))), 0, 1)
    compound(b"D", [xdr(26, u64(0), u64(0), 100, 100, bitmap)], [xdr(26, 0, u64(0), entry)])
    compound(b"D", [xdr(28, opaque(b"sub"))], [xdr(28, 0, bytes(20))])
    compound(b"D", [xdr(18, 0, 1, 0, u64(1), opaque(b"me"), 0, 0, opaque(b"none"))], [xdr(18, 2)])
    told, operations = made(wire.lines)
    assert short(operations) == [
        ("stat", "data", "f"), ("create", "data/f", "rwe"), ("write", "data/f", 8192, 5000), ("read", "data/f", 0, 12),
        ("flush", "data/f"), ("truncate", "data/f", 5), ("close", "data/f"), ("rename", "data/f", "data/g"),
        ("stat", "data/g"), ("readdir", "data", 1), ("rmdir", "data/sub"), ("open", "data/none", "r", "ENOENT"),
    ]  # fmt: skip
    assert told["skipped"] == {} and len({o.handle for o in operations[1:7]}) == 1, "the delegation is of the same open"


def test_nfs_names_that_come_late(made: Any) -> None:
    """A handle is read before a LOOKUP names it: the second reading knows. One that is never named keeps one name."""
    wire = Nfs()
    wire.call(6, xdr(opaque(b"late"), u64(0), 5), xdr(0, 0, 5, 1, opaque(bytes(5))))
    for _ in range(2):
        wire.call(6, xdr(opaque(b"never"), u64(0), 5), xdr(0, 0, 5, 1, opaque(bytes(5))))
    wire.call(1, opaque(b"/e"), xdr(0, opaque(b"root"), 0), program=100_005)
    wire.call(3, xdr(opaque(b"root"), opaque(b"name")), xdr(0, opaque(b"late"), 0, 0))
    told, operations = made(wire.lines)
    reads = [str(o.path) for o in operations if o.op == "read"]
    assert reads[0] == "name" and reads[1] == reads[2] and reads[1].startswith("unnamed-")
    assert told["skipped"] == {"files whose names are not in the capture": 1}


def test_nfs_names_that_come_late_below_each_other(made: Any) -> None:
    """A file's name in a folder whose own name comes later still; two that name each other have none."""
    wire = Nfs()
    wire.call(6, xdr(opaque(b"F"), u64(0), 5), xdr(0, 0, 5, 1, opaque(bytes(5))))
    wire.call(3, xdr(opaque(b"D"), opaque(b"f")), xdr(0, opaque(b"F"), 0, 0))
    wire.call(1, opaque(b"/e"), xdr(0, opaque(b"root"), 0), program=100_005)
    wire.call(3, xdr(opaque(b"root"), opaque(b"d")), xdr(0, opaque(b"D"), 0, 0))
    wire.call(6, xdr(opaque(b"X"), u64(0), 5), xdr(0, 0, 5, 1, opaque(bytes(5))))
    for above, name, below in ((b"Y", b"x", b"X"), (b"X", b"y", b"Y")):
        wire.call(3, xdr(opaque(above), opaque(name)), xdr(0, opaque(below), 0, 0))
    told, operations = made(wire.lines)
    reads = [str(o.path) for o in operations if o.op == "read"]
    assert reads[0] == "d/f" and reads[1].startswith("unnamed-") and len(reads) == 2
    assert told["skipped"] == {"files whose names are not in the capture": 2}


def test_nfs_a_file_renamed_before_another_connection_finds_it(made: Any) -> None:
    """Connections are read in the order of the capture, quiet ones too: a write before a rename has the old name."""
    quiet, busy = Nfs(), Nfs(number=1)
    none = xdr(0, 0)
    quiet.call(1, opaque(b"/e"), xdr(0, opaque(b"root"), 0), program=100_005)
    quiet.call(8, xdr(opaque(b"root"), opaque(b"lock"), 0, 0, 0, 0, 0, 0, 0), xdr(0, 1, opaque(b"L"), 0, none))
    for _ in range(10):
        quiet.call(1, opaque(b"L"), xdr(0, attributes(0)))
    quiet.call(7, xdr(opaque(b"L"), u64(0), 5, 2, opaque(bytes(5))), xdr(0, none, 5, 2, bytes(8)))
    quiet.call(14, xdr(opaque(b"root"), opaque(b"lock"), opaque(b"root"), opaque(b"index")), xdr(0, none, none))
    busy.call(3, xdr(opaque(b"root"), opaque(b"index")), xdr(0, opaque(b"L"), 0, 0))
    for _ in range(40):
        busy.call(1, opaque(b"L"), xdr(0, attributes(5)))
    busy.call(7, xdr(opaque(b"L"), u64(5), 5, 2, opaque(bytes(5))), xdr(0, none, 5, 2, bytes(8)))
    told, operations = made(sorted(quiet.lines + busy.lines, key=lambda line: line.split(b"\t")[1]))
    assert [o.path for o in operations if o.op == "write"] == ["lock", "index"] and told["skipped"] == {}


def test_nfs_several_exports_and_renamed_folders(made: Any) -> None:
    wire = Nfs()
    for path, handle in ((b"/srv/a", b"A"), (b"/srv/b", b"B")):
        wire.call(1, opaque(path), xdr(0, opaque(handle), 0), program=100_005)
    none = xdr(0, 0)
    wire.call(9, xdr(opaque(b"A"), opaque(b"d"), 0, 0, 0, 0, 0, 0), xdr(0, 1, opaque(b"D"), 0, none))
    wire.call(8, xdr(opaque(b"D"), opaque(b"f"), 0, 0, 0, 0, 0, 0, 0), xdr(0, 1, opaque(b"F"), 0, none))
    wire.call(14, xdr(opaque(b"A"), opaque(b"d"), opaque(b"A"), opaque(b"e")), xdr(0, none, none))
    wire.call(1, opaque(b"F"), xdr(0, attributes(5)))
    wire.call(1, opaque(b"B"), xdr(0, attributes(0, 2)))
    wire.call(14, xdr(opaque(b"A"), opaque(b"e"), opaque(b"D"), opaque(b"in itself")), xdr(0, none, none))
    wire.call(1, opaque(b"F"), xdr(0, attributes(5)))
    _, operations = made(wire.lines)
    assert [o.path for o in operations if o.op == "stat"] == ["srv_a/e/f", "srv_b", "srv_a/e/f"]


def test_nfs_denied_private_and_sent_again(made: Any) -> None:
    wire = Nfs()
    wire.call(1, opaque(b"/e"), xdr(0, opaque(b"root"), 0), program=100_005)
    request = wire.request(1, opaque(b"root"))
    wire.send(request)
    wire.send(request)
    wire.send(wire.reply(xdr(0, attributes(0, 2))), False)
    wire.send(wire.request(1, opaque(b"root")))
    wire.send(wire.record(xdr(wire.xid, 1, 1, 1, 1, 0)), False)
    gss = xdr(6, opaque(xdr(1, 0, 9, 3, 0)), 0, 0)
    wire.send(wire.record(xdr(5, 0, 2, 100_003, 4, 1, gss, opaque(bytes(100)))))
    told, operations = made(wire.lines)
    assert short(operations) == [("stat", ".", "f")]
    assert told["skipped"] == {
        "calls that the server denied": 1, "encrypted NFS messages (krb5p)": 1, "requests sent again": 1,
    }  # fmt: skip


# hostile captures


class Sink:
    """Takes operations as a TraceWriter does, and is as strict."""

    def __init__(self) -> None:
        self.operations: list[Operation] = []

    def write(self, operation: Operation) -> None:
        from naslab.trace.format import problem

        assert problem(operation) is None
        self.operations.append(operation)

    def settle(self, before_ns: int | None) -> None:
        """Nothing is kept back."""

    def skip(self, reason: str, count: int = 1) -> None:
        assert count > 0 and reason

    def note(self, text: str) -> None:
        """Not looked at."""


def samples() -> list[Segment]:
    """Segments of both protocols."""
    wire, other = transfer(), Nfs(number=1)
    other.compound([xdr(24), xdr(15, opaque(b"data"))], [xdr(24, 0), xdr(15, 0)])
    other.call(6, xdr(opaque(b"late"), u64(0), 5), xdr(0, 0, 5, 1, opaque(bytes(5))))
    return [module.parse_line(Path("x"), line) for line in wire.lines[:12] + other.lines]


@pytest.mark.lab
@settings(max_examples=inputs(300), deadline=None)
@given(data=st.data())
def test_damage_is_never_a_crash(data: st.DataObject) -> None:
    """Bytes changed, segments cut, dropped and swapped: no exception, and only what the format allows."""
    sink = Sink()
    reading = module._Reading(Context(sink))
    connections: dict[int, Connection] = {}
    flow = Flow()
    for segment in samples():
        change = data.draw(st.sampled_from(("keep", "keep", "flip", "cut", "drop", "junk")))
        if change == "drop":
            continue
        raw = bytearray(segment.data)
        if change == "flip":
            for at in data.draw(st.lists(st.integers(0, max(len(raw) - 1, 0)), max_size=6)):
                raw[at] = data.draw(st.integers(0, 255))
        elif change == "cut":
            raw = raw[: data.draw(st.integers(0, len(raw)))]
        elif change == "junk":
            raw = bytearray(data.draw(st.binary(max_size=200)))[: len(raw)]
        reading.context.tick(segment.time_ns)
        connection = connections.setdefault(
            segment.connection, Connection(segment.connection, reading._message, sink.skip)
        )
        flow.add(connection, segment._replace(data=bytes(raw)))
    flow.finish()
    for connection in connections.values():
        connection.finish()


@settings(max_examples=inputs(200), deadline=None)
@given(body=st.binary(max_size=400), smb=st.booleans())
def test_any_message_is_never_a_crash(body: bytes, smb: bool) -> None:
    sink = Sink()
    reading = module._Reading(Context(sink))
    connection = Connection(0, reading._message, sink.skip)
    connection.protocol = "smb" if smb else "rpc"
    raw = (b"\xfeSMB" if smb else b"\0\0\0\1\0\0\0\0\0\0\0\2\0\1\x86\xa3\0\0\0\4\0\0\0\1") + body
    for source in ("a:1", "b:2"):
        reading._message(connection, Message(raw, False, 0, 1, source, "c:3", 1))


def test_starts_of_messages() -> None:
    assert smb_start(b"xxx\0\0\0\x10\xfeSMB") == 3 and smb_start(b"xSMB" * 9) is None
    call = xdr(0x80000020, 7, 0, 2, 100_003, 3, 1) + bytes(12)
    assert rpc_start(call) == 0 and rpc_start(b"abc" + call) == 3
    assert rpc_start(xdr(0x80000020, 7, 0, 2, 100_000, 3, 1)) is None
