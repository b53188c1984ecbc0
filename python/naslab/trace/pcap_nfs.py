"""NFS 3 in captures, and what it shares with NFS 4: RPC calls and replies, file handles and their names.

RFC 5531 (RPC), RFC 1813 (NFS 3 and MOUNT 3), RFC 2203 (RPCSEC_GSS).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from naslab.trace.pcap_emit import AGAIN, BAD_NAME, NO_REQUEST, Context, Exchange, Node
from naslab.trace.pcap_flow import PROGRAMS, Connection, Message
from naslab.trace.pcap_nfs4 import Compound
from naslab.trace.pcap_nfs_errors import data_fields, nfs_error
from naslab.trace.pcap_xdr import FOLDER, Cut, Xdr

CUT = "NFS messages cut short or malformed"
PRIVATE = "encrypted NFS messages (krb5p)"
_OTHER = "NFS calls without a counterpart"
_SETTINGS = "setting of attributes"
_KEPT_BYTES = 1 << 16
_NFS, _MOUNT, _GSS = 100_003, 100_005, 6


@dataclass(slots=True)
class _Call:
    program: int
    version: int
    procedure: int
    args: Xdr
    service: int
    exchange: Exchange | None = None
    squeezed: bool = False


class Nfs:
    """All NFS connections of a capture. A server is one address, whatever the port."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.skip = context.sink.skip
        self._waiting: dict[tuple[int, int], _Call] = {}
        self._handles: dict[tuple[str, bytes], Node] = {}
        self.compound = Compound(self)

    def message(self, connection: Connection, message: Message) -> None:
        """One RPC record: a call or a reply."""
        try:
            xdr = Xdr(message.body)
            xid, kind = xdr.u32(), xdr.u32()
            if kind == 0:
                self._call(connection, message, xid, xdr)
            elif kind == 1:
                self._reply(connection, message, xid, xdr)
            else:
                self.skip(CUT)
        except Cut:
            self.skip(CUT)

    def _call(self, connection: Connection, message: Message, xid: int, xdr: Xdr) -> None:
        version, program, program_version, procedure = xdr.u32(), xdr.u32(), xdr.u32(), xdr.u32()
        if version != 2 or program not in PROGRAMS:
            return
        flavor, credential = xdr.u32(), xdr.opaque()
        xdr.skip(4)
        xdr.opaque()
        service = 0
        if flavor == _GSS:
            gss = Xdr(credential, 4)
            control, _, service = gss.u32(), gss.u32(), gss.u32()
            if control:
                return
            if service == 3:
                self.skip(PRIVATE)
                return
            if service == 2:
                xdr.skip(8)
        key = (connection.number, xid)
        old = self._waiting.pop(key, None)
        if old is not None:
            self.skip(AGAIN)
            if old.exchange is not None:
                self.context.drop(old.exchange)
        args = Xdr(xdr.data[xdr.at :])
        call = self._waiting[key] = _Call(program, program_version, procedure, args, service)
        if program == _NFS and self._matters(call):
            call.exchange = self.context.begin(connection.number, message.start_ns)
            call.exchange.where.append((self._waiting, key))

    def _matters(self, call: _Call) -> bool:
        """Whether the call may be an operation of the trace."""
        data = call.args.data
        if call.version == 3:
            # The data of a write are not kept while its reply is waited for.
            call.args = Xdr(data[:_KEPT_BYTES])
            return call.procedure in _PROCEDURES
        if call.version == 4 and call.procedure == 1:
            matters, at = self.compound.matters(Xdr(data))
            if at:
                (length,) = struct.unpack_from(">I", data, at - 4)
                call.args, call.squeezed = Xdr(data[:at] + data[at + length + -length % 4 :]), True
            return matters
        if call.procedure:
            self.skip(_OTHER)
        return False

    def _reply(self, connection: Connection, message: Message, xid: int, xdr: Xdr) -> None:
        call = self._waiting.pop((connection.number, xid), None)
        if call is None:
            self.skip(NO_REQUEST)
            return
        made = None
        try:
            made = self._answered(call, message.source.rpartition(":")[0], xdr)
        except Cut:
            self.skip(CUT)
        if call.exchange is None:
            return
        if not self.context.known(call.exchange):
            self.skip(NO_REQUEST)
        elif made:
            self.context.end(call.exchange, message.end_ns, made)
        else:
            self.context.drop(call.exchange)

    def _answered(self, call: _Call, server: str, xdr: Xdr) -> list[dict[str, Any]] | None:
        denied, _ = xdr.u32(), xdr.u32()
        if denied:
            self.skip("calls that the server denied")
            return None
        xdr.opaque()
        if xdr.u32():
            self.skip("calls that the server denied")
            return None
        if call.service == 2:
            xdr.skip(8)
        if call.program == _MOUNT:
            if call.procedure == 1 and call.version == 3 and xdr.u32() == 0:
                path = call.args.opaque()
                self.bind(server, xdr.opaque(), self.context.root(server, path.decode("utf-8", "replace")))
            return None
        if call.version == 4:
            return self.compound.answered(server, call.args, xdr, call.squeezed) if call.procedure == 1 else None
        handler = _PROCEDURES.get(call.procedure)
        return None if handler is None else handler(self, server, call.args, xdr)

    # file handles

    def node(self, server: str, handle: bytes) -> Node:
        """What a file handle stands for; a made-up name where the capture never tells."""
        found = self._handles.get((server, handle))
        if found is None:
            found = self._handles[server, handle] = self.context.unnamed((server, handle), handle)
        return found

    def bind(self, server: str, handle: bytes, node: Node) -> None:
        """A server's answer says which handle a name has."""
        self._handles[server, handle] = node
        self.context.named((server, handle), node)

    def child(self, folder: Node, name: bytes) -> Node | None:
        """The node of a name in a folder; None, counted, for names no trace may have."""
        if not name or name in (b".", b"..") or b"/" in name or b"\0" in name:
            self.skip(BAD_NAME)
            return None
        return folder.child(name)

    def text(self, node: Node) -> str:
        """Its path in the trace."""
        return self.context.text(node)

    # procedures of NFS 3: operations of a call and its reply

    def _named(self, server: str, args: Xdr) -> tuple[Node, Node | None]:
        folder = self.node(server, args.opaque())
        return folder, self.child(folder, args.opaque())

    def lookup(self, server: str, args: Xdr, reply: Xdr) -> list[dict[str, Any]] | None:
        """A stat of a name."""
        folder = self.node(server, args.opaque())
        name = args.opaque()
        status = reply.u32()
        node = folder if name == b"." else folder.parent if name == b".." else self.child(folder, name)
        if node is None:
            return None
        made = {"op": "stat", "path": self.text(node), "error": nfs_error(status)}
        if status == 0:
            self.bind(server, reply.opaque(), node)
            made |= _attributes(reply, node)
        return [made]

    def getattr(self, server: str, args: Xdr, reply: Xdr) -> list[dict[str, Any]]:
        """A stat of a handle."""
        node = self.node(server, args.opaque())
        status = reply.u32()
        made = {"op": "stat", "path": self.text(node), "error": nfs_error(status)}
        return [made | (_seen(reply.fixed(84), node) if status == 0 else {})]

    def access(self, server: str, args: Xdr, reply: Xdr) -> list[dict[str, Any]]:
        """A stat of a handle."""
        node = self.node(server, args.opaque())
        return [{"op": "stat", "path": self.text(node), "error": nfs_error(reply.u32())} | _attributes(reply, node)]

    def setattr(self, server: str, args: Xdr, reply: Xdr) -> list[dict[str, Any]] | None:
        """A truncate, if it sets the size."""
        node, size = self.node(server, args.opaque()), _size_set(args)
        if size is None:
            self.skip(_SETTINGS)
            return None
        return [{"op": "truncate", "path": self.text(node), "len_bytes": size, "error": nfs_error(reply.u32())}]

    def read(self, server: str, args: Xdr, reply: Xdr) -> list[dict[str, Any]]:
        """A read."""
        node, offset, asked = self.node(server, args.opaque()), args.u64(), args.u32()
        status, moved = reply.u32(), 0
        if status == 0:
            reply.optional(84)
            moved = reply.u32()
        return [data_fields("read", offset, asked, moved, status) | {"path": self.text(node)}]

    def write(self, server: str, args: Xdr, reply: Xdr) -> list[dict[str, Any]]:
        """A write."""
        node, offset, asked = self.node(server, args.opaque()), args.u64(), args.u32()
        status, moved = reply.u32(), 0
        if status == 0:
            _weak_cache(reply)
            moved = reply.u32()
        return [data_fields("write", offset, asked, moved, status) | {"path": self.text(node)}]

    def create(self, server: str, args: Xdr, reply: Xdr) -> list[dict[str, Any]] | None:
        """A create, closed at once: NFS 3 has no open files."""
        _, node = self._named(server, args)
        mode = args.u32()
        if node is None:
            return None
        flags = "w" + ("e" if mode else "t" if _size_set(args) == 0 else "")
        error = nfs_error(reply.u32())
        made: dict[str, Any] = {"op": "create", "path": self.text(node), "flags": flags, "error": error}
        if error is not None:
            return [made]
        self._made(server, reply, node)
        handle = self.context.new_handle()
        return [made | {"handle": handle}, {"op": "close", "handle": handle}]

    def mkdir(self, server: str, args: Xdr, reply: Xdr) -> list[dict[str, Any]] | None:
        """A new folder."""
        _, node = self._named(server, args)
        if node is None:
            return None
        error = nfs_error(reply.u32())
        if error is None:
            node.folder = True
            self._made(server, reply, node)
        return [{"op": "mkdir", "path": self.text(node), "error": error}]

    def _made(self, server: str, reply: Xdr, node: Node) -> None:
        if reply.u32():
            self.bind(server, reply.opaque(), node)

    def remove(self, op: str, server: str, args: Xdr, reply: Xdr) -> list[dict[str, Any]] | None:
        """A file or folder less."""
        _, node = self._named(server, args)
        if node is None:
            return None
        made = {"op": op, "path": self.text(node), "error": nfs_error(reply.u32())}
        if made["error"] is None:
            node.leave()
        return [made]

    def rename(self, server: str, args: Xdr, reply: Xdr) -> list[dict[str, Any]] | None:
        """Another name."""
        _, node = self._named(server, args)
        folder, name = self.node(server, args.opaque()), args.opaque()
        return self.renamed(node, folder, name, reply.u32())

    def renamed(self, node: Node | None, folder: Node, name: bytes, status: int) -> list[dict[str, Any]] | None:
        """A rename, as NFS 3 and 4 have it."""
        there = self.child(folder, name)
        if node is None or there is None:
            return None
        made = {"op": "rename", "path": self.text(node), "to_path": self.text(there), "error": nfs_error(status)}
        if status == 0 and node is not there:
            node.move(folder, name)
        return [made]

    def link(self, server: str, args: Xdr, reply: Xdr) -> list[dict[str, Any]] | None:
        """A second name."""
        node = self.node(server, args.opaque())
        _, there = self._named(server, args)
        return there and [{"op": "link", "path": self.text(node), "to_path": self.text(there),
                           "error": nfs_error(reply.u32())}]  # type: ignore[return-value]  # fmt: skip

    def readdir(self, plus: bool, server: str, args: Xdr, reply: Xdr) -> list[dict[str, Any]]:
        """One call of a listing. plus: it tells the handles of the names, too."""
        folder = self.node(server, args.opaque())
        folder.folder = True
        status, count = reply.u32(), 0
        made = {"op": "readdir", "path": self.text(folder), "error": nfs_error(status)}
        if status:
            return [made]
        reply.optional(84)
        reply.skip(8)
        try:
            while reply.u32():
                reply.skip(8)
                name = reply.opaque()
                reply.skip(8)
                count += 1
                if plus:
                    attributes = reply.optional(84)
                    handle = reply.opaque() if reply.u32() else None
                    if name not in (b".", b"..") and handle and (node := self.child(folder, name)):
                        self.bind(server, handle, node)
                        if attributes:
                            _seen(attributes, node)
        except Cut:
            self.skip("listings cut short")
            return [made]
        return [made | {"len_bytes": count}]

    def commit(self, server: str, args: Xdr, reply: Xdr) -> list[dict[str, Any]]:
        """A flush."""
        node = self.node(server, args.opaque())
        return [{"op": "flush", "path": self.text(node), "error": nfs_error(reply.u32())}]

    def other(self, _server: str, _args: Xdr, _reply: Xdr) -> None:
        """Links, special files and facts about the file system: counted."""
        self.skip(_OTHER)


def _attributes(reply: Xdr, node: Node) -> dict[str, Any]:
    """Of a stat's answer, if it has attributes."""
    try:
        found = reply.optional(84)
    except Cut:
        return {}
    return {} if found is None else _seen(found, node)


def _seen(attributes: bytes, node: Node) -> dict[str, Any]:
    xdr = Xdr(attributes)
    node.folder = xdr.u32() == FOLDER
    xdr.skip(16)
    size = xdr.u64()
    return {"flags": "f"} if node.folder else {"file_bytes": size} if size >> 63 == 0 else {}


def _weak_cache(reply: Xdr) -> None:
    reply.optional(24)
    reply.optional(84)


def _size_set(args: Xdr) -> int | None:
    """The size in a sattr3."""
    for _ in range(3):
        args.optional(4)
    return min(args.u64(), 1 << 62) if args.u32() else None


_PROCEDURES: dict[int, Callable[[Nfs, str, Xdr, Xdr], list[dict[str, Any]] | None]] = {
    1: Nfs.getattr, 2: Nfs.setattr, 3: Nfs.lookup, 4: Nfs.access, 5: Nfs.other, 6: Nfs.read, 7: Nfs.write,
    8: Nfs.create, 9: Nfs.mkdir, 10: Nfs.other, 11: Nfs.other,
    12: lambda nfs, server, args, reply: nfs.remove("remove", server, args, reply),
    13: lambda nfs, server, args, reply: nfs.remove("rmdir", server, args, reply),
    14: Nfs.rename, 15: Nfs.link,
    16: lambda nfs, server, args, reply: nfs.readdir(False, server, args, reply),
    17: lambda nfs, server, args, reply: nfs.readdir(True, server, args, reply),
    21: Nfs.commit,
}  # fmt: skip
