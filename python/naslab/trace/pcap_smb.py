"""SMB 2 and 3 in captures: requests and replies as operations of a trace.

Layouts: [MS-SMB2] 2.2, [MS-FSCC] 2.4. Of a message only what a trace needs is read; each field is bounds-checked by
`struct`, and what does not fit is counted.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Any

from naslab.trace.pcap_emit import AGAIN, BAD_NAME, NO_REQUEST, UNNAMED, Context, Exchange, Node
from naslab.trace.pcap_flow import Connection, Message

ENCRYPTED = "encrypted SMB messages"
_COMPRESSED = "compressed SMB messages"
_OLD = "SMB 1 messages"
_CUT = "SMB messages cut short or malformed"
_PIPES = "requests to named pipes"
_STREAMS = "alternate data streams"
_SETTINGS = "setting of attributes"
_COPIES = "server-side copies (copychunk)"

_TREE_CONNECT, _CREATE, _CLOSE, _FLUSH, _READ, _WRITE, _IOCTL = 3, 5, 6, 7, 8, 9, 11
_QUERY_DIRECTORY, _QUERY_INFO, _SET_INFO = 14, 16, 17
_COUNTED = {10: "locks", 15: "change notifications", 18: "oplock and lease breaks"}
_PENDING = 0x103
_END_OF_FILE, _BUFFER_OVERFLOW, _NO_MORE_FILES = 0xC0000011, 0x80000005, 0x80000006
_SAME = b"\xff" * 16
_HEADER = struct.Struct("<4sHHIHHIIQIIQ")
_COPYCHUNK = (0x1440F2, 0x1480F2)
_STATUS = {
    0xC0000001: "UNSUCCESSFUL", 0xC0000008: "INVALID_HANDLE", 0xC000000D: "INVALID_PARAMETER",
    0xC000000F: "NO_SUCH_FILE", 0xC0000010: "INVALID_DEVICE_REQUEST", 0xC0000022: "ACCESS_DENIED",
    0xC0000033: "OBJECT_NAME_INVALID", 0xC0000034: "OBJECT_NAME_NOT_FOUND", 0xC0000035: "OBJECT_NAME_COLLISION",
    0xC000003A: "OBJECT_PATH_NOT_FOUND", 0xC0000043: "SHARING_VIOLATION", 0xC0000044: "QUOTA_EXCEEDED",
    0xC0000054: "FILE_LOCK_CONFLICT", 0xC0000056: "DELETE_PENDING", 0xC000007F: "DISK_FULL",
    0xC00000BA: "FILE_IS_A_DIRECTORY", 0xC00000BB: "NOT_SUPPORTED", 0xC0000101: "DIRECTORY_NOT_EMPTY",
    0xC0000103: "NOT_A_DIRECTORY", 0xC0000120: "CANCELLED", 0xC0000121: "CANNOT_DELETE",
    0xC0000128: "FILE_CLOSED", 0x8000002D: "STOPPED_ON_SYMLINK",
}  # fmt: skip


def status_name(status: int) -> str | None:
    """NT_STATUS_ and its name, or its number in hexadecimal; None for success and the end of a listing."""
    if status < 0x80000000 or status in (_BUFFER_OVERFLOW, _NO_MORE_FILES):
        return None
    return "NT_STATUS_" + _STATUS.get(status, f"0X{status:08X}")


@dataclass(slots=True)
class _Open:
    """A file that is open. delete: it goes when it is closed."""

    node: Node
    handle: int
    folder: bool = False
    delete: bool = False


@dataclass(slots=True)
class _Chain:
    """What the requests of one compound share: a stream, and the file that the last of them was about."""

    fid: bytes | None = None
    tree: Any = None
    exchange: Exchange | None = None
    left: int = 0
    made: list[dict[str, Any]] = field(default_factory=list)


@dataclass(slots=True)
class _Request:
    command: int
    body: bytes
    chain: _Chain
    tree: Any


@dataclass(slots=True)
class _Server:
    """What one server's answers gave out."""

    trees: dict[Any, str | None] = field(default_factory=dict)
    """The share of a tree; None for pipes."""
    opens: dict[bytes, _Open] = field(default_factory=dict)


class Smb:
    """All SMB connections of a capture."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._skip = context.sink.skip
        self._servers: dict[str, _Server] = {}
        self._waiting: dict[tuple[int, int], _Request] = {}

    def message(self, connection: Connection, message: Message) -> None:
        """One message: a request or reply, or several as a compound."""
        body, at = message.body, 0
        chain = _Chain()
        if body[:4] != b"\xfeSMB":
            self._skip({b"\xfd": ENCRYPTED, b"\xfc": _COMPRESSED}.get(body[:1], _OLD if body[:1] == b"\xff" else _CUT))
            return
        while True:
            try:
                fields = _HEADER.unpack_from(body, at)
            except struct.error:
                self._skip(_CUT)
                return
            after = fields[7]
            part = body[at : at + after if after else None]
            if fields[0] != b"\xfeSMB":
                self._skip(_CUT)
                return
            if fields[6] & 1:
                self._reply(connection, message, fields, part)
            else:
                chain = chain if fields[6] & 4 else _Chain()
                self._request(connection, message, fields, part, chain)
            if not after:
                return
            at += max(after, 64)

    def _request(self, connection: Connection, message: Message, fields: Any, part: bytes, chain: _Chain) -> None:
        command = fields[4]
        if command in _COUNTED:
            self._skip(_COUNTED[command])
        if command != _TREE_CONNECT and command not in _HANDLERS:
            return
        server = self._server(message.target)
        tree = chain.tree = chain.tree if fields[6] & 4 and chain.tree else (fields[11], fields[10])
        if command != _TREE_CONNECT:
            if tree in server.trees and server.trees[tree] is None:
                self._skip(_PIPES)
                return
            if chain.exchange is None:
                chain.exchange = self._context.begin(connection.number, message.start_ns)
            chain.left += 1
        key = (connection.number, fields[8])
        if chain.exchange is not None:
            chain.exchange.where.append((self._waiting, key))
        if key in self._waiting:
            self._skip(AGAIN)
            self._done(self._waiting.pop(key).chain, message)
        # The data of a write are not kept.
        self._waiting[key] = _Request(command, part[: 128 if command == _WRITE else 1 << 17], chain, tree)

    def _done(self, chain: _Chain, message: Message) -> None:
        """One request of a compound has its reply, or will never have it; after the last all are written."""
        chain.left -= 1
        if chain.left == 0 and chain.exchange is not None:
            if chain.made:
                self._context.end(chain.exchange, message.end_ns, chain.made)
            else:
                self._context.drop(chain.exchange)

    def _reply(self, connection: Connection, message: Message, fields: Any, part: bytes) -> None:
        status, command = fields[3], fields[4]
        if status == _PENDING and fields[6] & 2:
            return
        server = self._server(message.source)
        request = self._waiting.pop((connection.number, fields[8]), None)
        if request is None:
            tree = (fields[11], fields[10])
            if command in _HANDLERS and not (tree in server.trees and server.trees[tree] is None):
                self._skip(NO_REQUEST)
            return
        try:
            if request.command == _TREE_CONNECT:
                if status == 0:
                    self._tree(server, fields[11], fields[10], request.body, part)
                return
            if request.chain.exchange is None or not self._context.known(request.chain.exchange):
                self._skip(NO_REQUEST)
                return
            made = _HANDLERS[request.command](self, server, message.source, request, part, status)
        except (struct.error, IndexError, UnicodeDecodeError):
            self._skip(_CUT)
            made = None
        if request.command != _TREE_CONNECT:
            request.chain.made += made or []
            self._done(request.chain, message)

    def _server(self, address: str) -> _Server:
        found = self._servers.get(address)
        if found is None:
            found = self._servers[address] = _Server()
        return found

    @staticmethod
    def _tree(server: _Server, session: int, tree: int, request: bytes, reply: bytes) -> None:
        offset, length = struct.unpack_from("<HH", request, 68)
        path = _utf16(request[offset : offset + length])
        share = path.decode("utf-8", "replace").rsplit("\\", 1)[-1]
        server.trees[session, tree] = share if reply[66:67] == b"\x01" else None

    # names and open files

    def _named(self, server: _Server, address: str, request: _Request) -> Node | None:
        """The node that a CREATE names; None, counted, for what a trace cannot have."""
        offset, length = struct.unpack_from("<HH", request.body, 64 + 44)
        raw = request.body[offset : offset + length]
        if len(raw) < length:
            raise IndexError
        parts = [part for part in _utf16(raw).split(b"\\") if part]
        (flags,) = struct.unpack_from("<I", request.body, 16)
        if flags & 0x10000000:  # names of DFS begin with server and share
            parts = parts[2:]
        return self._below(self._share(server, address, request.tree), parts)

    def _share(self, server: _Server, address: str, tree: Any) -> Node:
        share = server.trees.get(tree) or f"tree-{tree[1]:x}"
        return self._context.root(address, share)

    def _below(self, node: Node, parts: list[bytes]) -> Node | None:
        for part in parts:
            if b":" in part:
                self._skip(_STREAMS)
                return None
            if part in (b".", b"..") or b"\0" in part or b"/" in part:
                self._skip(BAD_NAME)
                return None
            node = node.child(part, fold=True)
        return node

    def _file(self, server: _Server, address: str, request: _Request, at: int) -> _Open | None:
        """The open file of a request; None for one that its compound failed to open."""
        fid = request.body[64 + at : 64 + at + 16]
        if len(fid) < 16:
            raise IndexError
        if fid == _SAME:
            if request.chain.fid is None:
                return None
            fid = request.chain.fid
        request.chain.fid = fid
        found = server.opens.get(fid)
        if found is None:
            node = self._context.unnamed((address, fid), fid)
            found = server.opens[fid] = _Open(node, self._context.new_handle())
        return found

    # commands: operations of a request and its reply

    def create(
        self, server: _Server, address: str, request: _Request, reply: bytes, status: int
    ) -> list[dict[str, Any]] | None:
        """An open, and a mkdir before it where one made a folder."""
        access, _, _, disposition, options = struct.unpack_from("<5I", request.body, 64 + 24)
        node = self._named(server, address, request)
        if node is None:
            return None
        path, error = self._context.text(node), status_name(status)
        op = "open" if disposition in (1, 4) else "create"
        if error is not None:
            if options & 1:
                return [{"op": "mkdir", "path": path, "error": error} if disposition == 2
                        else {"op": "open", "path": path, "flags": "f", "error": error}]  # fmt: skip
            return [{"op": op, "path": path, "flags": _flags(access, disposition, options), "error": error}]
        (action,) = struct.unpack_from("<I", reply, 64 + 4)
        length, attributes = struct.unpack_from("<QI", reply, 64 + 48)
        fid = reply[64 + 64 : 64 + 80]
        if len(fid) < 16:
            raise IndexError
        folder = bool(attributes & 0x10)
        node.folder = folder
        handle = self._context.new_handle()
        server.opens[fid] = _Open(node, handle, folder, bool(options & 0x1000))
        request.chain.fid = fid
        if folder:
            opened = {"op": "open", "path": path, "handle": handle, "flags": "rf"}
            return [{"op": "mkdir", "path": path}, opened] if action == 2 else [opened]
        return [{
            "op": op, "path": path, "handle": handle, "flags": _flags(access, disposition, options),
            "file_bytes": length if length >> 63 == 0 else None,
        }]  # fmt: skip

    def close(
        self, server: _Server, address: str, request: _Request, _reply: bytes, status: int
    ) -> list[dict[str, Any]] | None:
        """A close, and the removal of what was to go with it."""
        fid = request.body[72:88]
        opened = server.opens.get(request.chain.fid or b"" if fid == _SAME else fid)
        if opened is None:
            # Opened before the capture and not used in it, or its compound failed to open it.
            if fid != _SAME:
                self._skip(UNNAMED)
            return None
        if status_name(status) is not None:
            return [{"op": "close", "handle": opened.handle, "error": status_name(status)}]
        server.opens.pop(request.chain.fid or b"" if fid == _SAME else fid, None)
        request.chain.fid = None
        path = self._context.text(opened.node)
        made: list[dict[str, Any]] = [{"op": "close", "handle": opened.handle}]
        if opened.delete and opened.node.parent is not None:
            made.append({"op": "rmdir" if opened.folder else "remove", "path": path})
            opened.node.leave()
        return made

    def data(
        self, server: _Server, address: str, request: _Request, reply: bytes, status: int
    ) -> list[dict[str, Any]] | None:
        """A read or write."""
        asked, offset = struct.unpack_from("<IQ", request.body, 64 + 4)
        opened = self._file(server, address, request, 16)
        if opened is None:
            return None
        error = status_name(status) if status != _END_OF_FILE else None
        moved = 0
        if status in (0, _BUFFER_OVERFLOW):
            (moved,) = struct.unpack_from("<I", reply, 64 + 4)
        return [{
            **self._about(opened), "op": "read" if request.command == _READ else "write", "offset_bytes": offset,
            "len_bytes": moved, "asked_bytes": asked if asked != moved else None, "error": error,
        }]  # fmt: skip

    def _about(self, opened: _Open) -> dict[str, Any]:
        return {"handle": opened.handle, "path": self._context.text(opened.node)}

    def flush(
        self, server: _Server, address: str, request: _Request, _reply: bytes, status: int
    ) -> list[dict[str, Any]] | None:
        """A flush."""
        opened = self._file(server, address, request, 8)
        return opened and [{**self._about(opened), "op": "flush", "error": status_name(status)}]  # type: ignore[return-value]

    def query_directory(
        self, server: _Server, address: str, request: _Request, reply: bytes, status: int
    ) -> list[dict[str, Any]] | None:
        """One call of a folder's listing, with its number of entries."""
        opened = self._file(server, address, request, 8)
        if opened is None:
            return None
        entries: int | None = 0
        if status == 0:
            offset, length = struct.unpack_from("<HI", reply, 64 + 2)
            listing = reply[offset : offset + length]
            entries = _entries(listing) if len(listing) == length else None
        error = status_name(status)
        return [{
            **self._about(opened), "op": "readdir", "error": error, "len_bytes": entries if error is None else None,
        }]  # fmt: skip

    def query_info(
        self, server: _Server, address: str, request: _Request, reply: bytes, status: int
    ) -> list[dict[str, Any]] | None:
        """A stat, with the length where the answer has it."""
        kind, level = request.body[66], request.body[67]
        opened = self._file(server, address, request, 24)
        if opened is None:
            return None
        if kind != 1:
            self._skip("file system information" if kind == 2 else "security descriptors and quotas")
            return None
        at = {5: 8, 18: 48, 34: 40}.get(level)
        length = None
        if status == 0 and at is not None and not opened.folder:
            (offset,) = struct.unpack_from("<H", reply, 64 + 2)
            (length,) = struct.unpack_from("<Q", reply, offset + at)
        flags = "f" if opened.folder else ""
        return [{
            **self._about(opened), "op": "stat", "flags": flags, "error": status_name(status),
            "file_bytes": length if length is not None and length >> 63 == 0 else None,
        }]  # fmt: skip

    def set_info(
        self, server: _Server, address: str, request: _Request, _reply: bytes, status: int
    ) -> list[dict[str, Any]] | None:
        """A rename, link or truncate; a disposition takes effect with the close."""
        kind, level, length, offset = struct.unpack_from("<BBIH", request.body, 66)
        opened = self._file(server, address, request, 16)
        if opened is None:
            return None
        data, error = request.body[offset : offset + length], status_name(status)
        if kind != 1 or level not in (10, 11, 13, 20, 64):
            self._skip(_SETTINGS)
            return None
        if level in (13, 64):
            if error is None:
                opened.delete = bool(data[0] & 1)
                return None
            return [{"op": "rmdir" if opened.folder else "remove", "path": self._context.text(opened.node),
                     "error": error}]  # fmt: skip
        if level == 20:
            (size,) = struct.unpack_from("<Q", data)
            return [{**self._about(opened), "op": "truncate", "len_bytes": min(size, 1 << 62), "error": error}]
        return self._rename(server, address, request, opened, data, error)

    def _rename(
        self, server: _Server, address: str, request: _Request, opened: _Open, data: bytes, error: str | None
    ) -> list[dict[str, Any]] | None:
        (length,) = struct.unpack_from("<I", data, 16)
        parts = [part for part in _utf16(data[20 : 20 + length]).split(b"\\") if part]
        if len(data) < 20 + length or not parts:
            raise IndexError
        folder = self._below(self._share(server, address, request.tree), parts[:-1])
        if folder is None or self._below(Node(""), parts[-1:]) is None:
            return None
        old = self._context.text(opened.node)
        new = self._context.text(Node(folder.child(parts[-1], fold=True).name, folder))
        linked = request.body[67] == 11
        if error is None and not linked:
            opened.node.move(folder, parts[-1], fold=True)
            new = self._context.text(opened.node)
        return [{"op": "link" if linked else "rename", "path": old, "to_path": new, "error": error}]

    def ioctl(
        self, _server: _Server, _address: str, request: _Request, _reply: bytes, _status: int
    ) -> list[dict[str, Any]] | None:
        """Counted; nothing of it has a place in a trace."""
        (code,) = struct.unpack_from("<I", request.body, 64 + 4)
        self._skip(_COPIES if code in _COPYCHUNK else "other ioctls")
        return None


_HANDLERS = {
    _CREATE: Smb.create, _CLOSE: Smb.close, _FLUSH: Smb.flush, _READ: Smb.data, _WRITE: Smb.data,
    _IOCTL: Smb.ioctl, _QUERY_DIRECTORY: Smb.query_directory, _QUERY_INFO: Smb.query_info, _SET_INFO: Smb.set_info,
}  # fmt: skip


def _utf16(raw: bytes) -> bytes:
    """UTF-16 of the wire as UTF-8; halves of pairs that stand alone stay as bytes that are no UTF-8."""
    return raw.decode("utf-16-le", "surrogatepass").encode("utf-8", "surrogatepass")


def _flags(access: int, disposition: int, options: int) -> str:
    flags = "r" if access & 0x92000001 else ""
    flags += "w" if access & 0x52000006 else ""
    flags += "t" if disposition in (0, 4, 5) else ""
    flags += "e" if disposition == 2 else ""
    flags += "d" if options & 0x8 else ""
    return flags + ("s" if options & 0x2 else "")


def _entries(data: bytes) -> int:
    """How many entries a listing has: each begins with the distance to the next."""
    count = at = 0
    while at + 4 <= len(data):
        (after,) = struct.unpack_from("<I", data, at)
        count += 1
        if not after:
            break
        at += after
    return count
