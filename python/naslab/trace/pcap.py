"""Packet captures of SMB 2/3 and NFS 3/4 as traces.

tshark, a program of its own, reads the file: formats of captures, link layers, tunnels and IP fragments are its
business. It hands over the payload of TCP segments; messages are cut out of those here (pcap_flow.py), so that
captures with a short snap length and with missing packets work as well as they can.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from naslab.errors import TraceError, UsageError
from naslab.trace.format import Header
from naslab.trace.names import Anonymiser
from naslab.trace.pcap_emit import Context, Nothing, prefixes
from naslab.trace.pcap_flow import Connection, Flow, Message, Segment
from naslab.trace.pcap_nfs import PRIVATE, Nfs
from naslab.trace.pcap_smb import ENCRYPTED, Smb
from naslab.trace.writer import TraceWriter

MAGICS = (
    b"\xd4\xc3\xb2\xa1", b"\xa1\xb2\xc3\xd4", b"\x4d\x3c\xb2\xa1", b"\xa1\xb2\x3c\x4d", b"\x0a\x0d\x0d\x0a",
)  # fmt: skip
"""What pcap files begin with, of both byte orders and both resolutions, and pcapng files."""
CAPTURE_CUT = "the capture file ends within a packet"
OTHERS = "connections that are neither SMB nor NFS"
_FIELDS = (
    "frame.number", "frame.time_epoch", "tcp.stream", "ip.src", "ipv6.src", "tcp.srcport", "ip.dst", "ipv6.dst",
    "tcp.dstport", "tcp.seq_raw", "tcp.len", "tcp.flags", "tcp.ack_raw", "tcp.payload",
)  # fmt: skip
_TIME = re.compile(rb"(\d{1,11})\.(\d{1,9})\d*\Z")
_MAX_LINE_BYTES = 4 << 20
_RELEASE_NS = 500_000_000
_SYN, _ACK = 0x02, 0x10


def convert_pcap(source: Path, output: Path, anonymise: Anonymiser | None) -> TraceWriter:
    """Writes the trace of all file operations in a capture; the writer, closed, with its counts.

    Reads the capture twice: names that are told late, and how many shares there are, are known the second time.
    Raises UsageError when tshark is missing, TraceError for what is no capture and for captures without any
    operation; nothing is written then.
    """
    program = _tshark()
    first = _Reading(Context(Nothing()))
    first.all(program, source)
    again = prefixes(first.context.used)
    header = Header(source="pcap", started_at=_moment(first.started_ns))
    with TraceWriter(output, header, anonymise) as writer:
        context = Context(writer, again)
        context.learned = first.context.learned
        reading = _Reading(context)
        reading.all(program, source)
        if not context.operations:
            raise TraceError(f"{source}: {_nothing_found(writer, reading)}")
        for reason, what in ((ENCRYPTED, "SMB"), (PRIVATE, "NFS")):
            if writer.skipped.get(reason):
                writer.note(f"part of the {what} traffic is encrypted and is not in the trace")
    return writer


def _tshark() -> str:
    found = shutil.which("tshark")
    if found is None:
        raise UsageError(
            "tshark is needed to read captures; install the package tshark (Debian, Ubuntu: apt install tshark)"
        )
    return found


def _moment(time_ns: int | None) -> str | None:
    if time_ns is None:
        return None
    return datetime.fromtimestamp(time_ns // 10**9, UTC).replace(microsecond=time_ns // 1000 % 10**6).isoformat(
        timespec="milliseconds"
    )  # fmt: skip


def _nothing_found(writer: TraceWriter, reading: _Reading) -> str:
    skipped = writer.skipped
    if skipped.get(ENCRYPTED) or skipped.get(PRIVATE):
        return (
            "its SMB or NFS traffic is encrypted and cannot be read; capture a session without encryption "
            "(smbclient --client-protection=sign, NFS sec=sys)"
        )
    if not reading.segments:
        return "it contains no TCP packets with data; capture the server's port, 445 for SMB or 2049 for NFS"
    told = ", ".join(f"{count} {reason}" for reason, count in sorted(skipped.items())) or "nothing was skipped"
    return f"it contains no file operations of SMB 2/3 or NFS 3/4 over TCP ({told})"


class _Reading:
    """One pass over the capture."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.segments = 0
        self.started_ns: int | None = None
        self._connections: dict[int, Connection] = {}
        self._flow = Flow()
        self._smb = Smb(context)
        self._nfs = Nfs(context)

    def all(self, program: str, source: Path) -> None:
        """Every segment of the file. Raises TraceError."""
        connections, released_ns = self._connections, 0
        for segment in segments_of(program, source, self.context.sink.skip):
            self.segments += bool(segment.length)
            if self.started_ns is None:
                self.started_ns = segment.time_ns
            if segment.time_ns > released_ns + _RELEASE_NS:
                released_ns = segment.time_ns
                for known in connections.values():
                    known.release(released_ns)
            self.context.tick(segment.time_ns)
            connection = connections.get(segment.connection)
            if connection is None:
                connection = connections[segment.connection] = Connection(
                    segment.connection, self._message, self.context.sink.skip
                )
            self._flow.add(connection, segment)
        self._flow.finish()
        for connection in connections.values():
            connection.finish()
        self.context.finish()
        others = sum(connection.protocol is None for connection in connections.values())
        if others:
            self.context.sink.skip(OTHERS, others)

    def _message(self, connection: Connection, message: Message) -> None:
        (self._smb if connection.protocol == "smb" else self._nfs).message(connection, message)


def segments_of(program: str, source: Path, skip: Callable[[str], None]) -> Iterator[Segment]:
    """TCP segments of a capture, one after the other, as tshark tells them. Raises TraceError."""
    try:
        source.open("rb").close()
    except OSError as error:
        raise TraceError(f"{source}: cannot be read: {error.strerror or error}; check the name") from error
    command = [program, "-r", os.fspath(source.absolute()), "-n", "-Q", "-T", "fields", "-E", "occurrence=l"]
    command += ["-Y", "tcp && !icmp && !icmpv6 && (tcp.len > 0 || tcp.flags.syn == 1)"]
    # What tshark would remember of each segment: its memory then stays as it is.
    for preference in ("desegment_tcp_streams", "analyze_sequence_numbers", "calculate_timestamps"):
        command += ["-o", f"tcp.{preference}:FALSE"]
    for protocol in ("nbss", "smb2", "smb", "rpc"):
        command += ["--disable-protocol", protocol]
    for name in _FIELDS:
        command += ["-e", name]
    with tempfile.TemporaryDirectory(prefix="naslab-pcap-") as folder, tempfile.TemporaryFile(dir=folder) as said:
        # A configuration of its own: the user's own settings of Wireshark change nothing.
        env = {**os.environ, "WIRESHARK_CONFIG_DIR": folder, "XDG_CONFIG_HOME": folder, "LC_ALL": "C.UTF-8"}
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=said, env=env) as child:
            assert child.stdout is not None
            number = 0
            try:
                while line := child.stdout.readline(_MAX_LINE_BYTES):
                    segment = parse_line(source, line)
                    number = segment.frame
                    yield segment
            except BaseException:
                child.kill()
                raise
        said.seek(0)
        _ended(source, child.returncode, said.read(1 << 16).decode("utf-8", "replace"), number, skip)


def _ended(source: Path, code: int, said: str, number: int, skip: Callable[[str], None]) -> None:
    """How tshark ended. A file that ends within a packet is counted; all else that is wrong is an error."""
    lines = [line.removeprefix("tshark: ") for line in said.splitlines() if "Running as user" not in line]
    if any("cut short in the middle of a packet" in line for line in lines) and number:
        skip(CAPTURE_CUT)
    elif code:
        after = f" after packet {number}" if number else ""
        told = next((line for line in lines if line.strip()), f"tshark ended with exit code {code}")
        raise TraceError(f"{source}: not a capture that tshark can read{after}: {told[:300]!a}")


def parse_line(source: Path, line: bytes) -> Segment:
    """One line of tshark's, fields between tabs. Raises TraceError naming the packet."""
    words = line.rstrip(b"\r\n").split(b"\t")
    try:
        if len(words) != len(_FIELDS):
            raise ValueError("fields")
        time = _TIME.match(words[1])
        if time is None:
            raise ValueError("time")
        source_address, target = ((words[at] or words[at + 1]).decode() + ":" + words[at + 2].decode() for at in (3, 6))
        flags = int(words[11], 16)
        return Segment(
            int(words[0]), int(time[1]) * 10**9 + int(time[2].ljust(9, b"0")), int(words[2]), source_address, target,
            int(words[9]), int(words[10]), bool(flags & _SYN), int(words[12]) if flags & _ACK else None,
            bytes.fromhex(words[13].decode()),
        )  # fmt: skip
    except ValueError as error:
        packet = words[0].decode("ascii", "replace")[:20] if len(words) > 1 else "unknown"
        raise TraceError(f"{source}, packet {packet}: naslab does not understand tshark's output ({error})") from error
