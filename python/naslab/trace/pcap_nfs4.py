"""NFS 4.0, 4.1 and 4.2 in captures: a COMPOUND and its reply, operation by operation.

RFC 7530 and 7531, RFC 8881 and 5662, RFC 7863. Arguments and results are walked side by side, with the current and
the saved file handle, until the first operation that failed, is not known here, or is not in the capture.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from naslab.trace.pcap_emit import Node
from naslab.trace.pcap_nfs_errors import data_fields, nfs_error
from naslab.trace.pcap_xdr import FILEHANDLE, FOLDER, KIND, SIZE, Cut, Xdr

if TYPE_CHECKING:
    from naslab.trace.pcap_nfs import Nfs

_UNKNOWN = "NFS 4 operations that are not decoded, and those after them: number"
_CUT = "rest of an NFS 4 compound that is not in the capture"
_ILLEGAL = 10044
"""OP_ILLEGAL in a reply."""
_SETUP = frozenset((33, 35, 40, 42, 43, 52, 54, 56))
"""SECINFO, SETCLIENTID, EXCHANGE_ID, CREATE_SESSION and the like: stand at the end of their compound."""
_PUTFH, _WRITE = 22, 38
_OTHER = "NFS calls without a counterpart"


@dataclass(slots=True)
class _State:
    """Of one compound while it is walked."""

    server: str
    current: Node | None = None
    saved: Node | None = None
    made: list[dict[str, Any]] = field(default_factory=list)
    looked: dict[str, Any] | None = None
    more: bool = True
    """Other operations follow the one that is walked."""
    squeezed: bool = False
    """The data of the first WRITE were taken out of the arguments."""


class Compound:
    """COMPOUND of NFS 4, and the files that are open."""

    def __init__(self, nfs: Nfs) -> None:
        self._nfs = nfs
        self._open: dict[tuple[str, bytes], list[int]] = {}
        """Handles by the part of a stateid that stays."""
        self._alias: dict[tuple[str, bytes], tuple[str, bytes]] = {}
        """Stateids of locks and delegations: whose open they belong to."""
        self._files: dict[Node, list[int]] = {}
        """Handles of a file, for what is done without a stateid."""

    def matters(self, args: Xdr) -> tuple[bool, int]:
        """Whether a call has more than the session's own operations; where the data of a WRITE begin, or 0."""
        matters = False
        try:
            args.opaque()
            args.skip(4)
            for _ in range(min(args.u32(), 256)):
                op = args.u32()
                if op not in _PLAIN:
                    matters = matters or op in _WALK
                    if op == _PUTFH:
                        args.opaque()
                    elif op == _WRITE:
                        args.skip(32)
                        return True, args.at
                    else:
                        break
                else:
                    _PLAIN[op][0](args)
        except Cut:
            pass
        return matters, 0

    def answered(self, server: str, args: Xdr, reply: Xdr, squeezed: bool) -> list[dict[str, Any]]:
        """The operations of a call and its reply. squeezed: the data of the first WRITE are not in the call."""
        reply.u32()
        reply.opaque()
        answers = reply.u32()
        args.opaque()
        args.skip(4)
        asked = args.u32()
        state = _State(server, squeezed=squeezed)
        try:
            for index in range(min(asked, answers, 1024)):
                state.more = index + 1 < min(asked, answers)
                op, answer = args.u32(), reply.u32()
                if answer not in (op, _ILLEGAL) or not self._step(state, op, args, reply):
                    if state.more or op not in _SETUP:
                        self._nfs.skip(f"{_UNKNOWN} {min(op, 99)}")
                    break
        except Cut:
            self._nfs.skip(_CUT)
        if not state.made and state.looked is not None:
            state.made.append({"op": "stat", **state.looked})
        return state.made

    def _step(self, state: _State, op: int, args: Xdr, reply: Xdr) -> bool:
        """One operation. False: what follows cannot be read; a failed one is the last of its reply anyway."""
        status = reply.u32()
        if op in _PLAIN:
            read_args, read_reply = _PLAIN[op]
            read_args(args)
            if status == 0:
                read_reply(reply)
            return True
        walk = _WALK.get(op)
        if walk is None:
            return False
        walk(self, state, args, reply, status)
        return True

    # helpers

    def _here(self, state: _State) -> Node:
        if state.current is None:
            state.current = self._nfs.node(state.server, b"")
        return state.current

    def _emit(self, state: _State, op: str, node: Node, status: int, **more: Any) -> None:
        state.made.append({"op": op, "path": self._nfs.text(node), "error": nfs_error(status), **more})

    def _look(self, state: _State, node: Node, status: int, attributes: dict[int, int | bytes] | None = None) -> None:
        found = state.looked = {"path": self._nfs.text(node), "error": nfs_error(status)}
        size = (attributes or {}).get(SIZE)
        if node.folder and status == 0:
            found["flags"] = "f"
        elif isinstance(size, int) and size >> 63 == 0:
            found["file_bytes"] = size

    def _about(self, state: _State, stateid: bytes) -> dict[str, Any]:
        """The open file that a stateid, or else the current file handle, is of."""
        key = (state.server, stateid[4:])
        handles = self._open.get(self._alias.get(key, key)) or self._files.get(self._here(state))
        return {"handle": handles[0]} if handles else {}

    # operations

    def putfh(self, state: _State, args: Xdr, _reply: Xdr, status: int) -> None:
        handle = args.opaque()
        if status == 0:
            state.current = self._nfs.node(state.server, handle)

    def putroot(self, state: _State, _args: Xdr, _reply: Xdr, _status: int) -> None:
        state.current = self._nfs.context.root(state.server, "/")

    def getfh(self, state: _State, _args: Xdr, reply: Xdr, status: int) -> None:
        if status == 0:
            handle = reply.opaque()
            if state.current is not None:
                self._nfs.bind(state.server, handle, state.current)

    def savefh(self, state: _State, _args: Xdr, _reply: Xdr, _status: int) -> None:
        state.saved = state.current

    def restorefh(self, state: _State, _args: Xdr, _reply: Xdr, _status: int) -> None:
        state.current = state.saved

    def lookup(self, state: _State, args: Xdr, _reply: Xdr, status: int) -> None:
        here = self._here(state)
        node = self._nfs.child(here, args.opaque())
        if node is not None:
            here.folder = True
            self._look(state, node, status)
            if status == 0:
                state.current = node

    def lookupp(self, state: _State, _args: Xdr, _reply: Xdr, status: int) -> None:
        node = self._here(state).parent
        if node is not None:
            self._look(state, node, status)
            state.current = node

    def getattr(self, state: _State, args: Xdr, reply: Xdr, status: int) -> None:
        args.words()
        found = reply.attributes4() if status == 0 else None
        node = self._here(state)
        if found and KIND in found:
            node.folder = found[KIND] == FOLDER
        self._look(state, node, status, found)

    def access(self, state: _State, args: Xdr, reply: Xdr, status: int) -> None:
        args.skip(4)
        if status == 0:
            reply.skip(8)
        if state.looked is None or status:
            self._look(state, self._here(state), status)

    def readlink(self, _state: _State, _args: Xdr, reply: Xdr, status: int) -> None:
        self._nfs.skip(_OTHER)
        if status == 0:
            reply.opaque()

    def open(self, state: _State, args: Xdr, reply: Xdr, status: int) -> None:
        args.skip(4)
        access = args.u32()
        args.skip(12)
        args.opaque()
        flags = ("r" if access & 1 else "") + ("w" if access & 2 else "")
        creates = args.u32() == 1
        if creates:
            mode = args.u32()
            if mode >= 2:
                args.skip(8)
            size = args.attributes4().get(SIZE) if mode != 2 else None
            flags += "e" if mode else "t" if size == 0 else ""
        node = self._claimed(state, args)
        if node is None:
            state.current = None
            return
        handle = self._nfs.context.new_handle() if status == 0 else None
        more = {} if handle is None else {"handle": handle}
        self._emit(state, "create" if creates else "open", node, status, flags=flags, **more)
        if handle is not None:
            state.current = node
            key = (state.server, reply.fixed(16)[4:])
            self._open.setdefault(key, []).append(handle)
            self._files.setdefault(node, []).append(handle)
            _opened(reply, lambda stateid: self._alias.update({(state.server, stateid[4:]): key}))

    def _claimed(self, state: _State, args: Xdr) -> Node | None:
        claim = args.u32()
        here = self._here(state)
        if claim in (1, 4, 5, 6):
            args.skip({1: 4, 5: 16}.get(claim, 0))
            return here
        if claim == 2:
            args.skip(16)
        return self._nfs.child(here, args.opaque())

    def close(self, state: _State, args: Xdr, reply: Xdr, status: int) -> None:
        args.skip(4)
        key = (state.server, args.fixed(16)[4:])
        if status == 0:
            reply.skip(16)
            closed = self._open.pop(key, [])
            state.made += [{"op": "close", "handle": handle} for handle in closed]
            here = self._here(state)
            left = [handle for handle in self._files.pop(here, []) if handle not in closed]
            if left:
                self._files[here] = left

    def commit(self, state: _State, args: Xdr, reply: Xdr, status: int) -> None:
        args.skip(12)
        if status == 0:
            reply.skip(8)
        self._emit(state, "flush", self._here(state), status, **self._about(state, b""))

    def create(self, state: _State, args: Xdr, reply: Xdr, status: int) -> None:
        kind = args.u32()
        if kind == 5:
            args.opaque()
        elif kind in (3, 4):
            args.skip(8)
        here, name = self._here(state), args.opaque()
        args.attributes4()
        if status == 0:
            reply.skip(20)
            reply.words()
        node = self._nfs.child(here, name)
        if kind != FOLDER or node is None:
            self._nfs.skip(_OTHER)
        else:
            node.folder = status == 0
            self._emit(state, "mkdir", node, status)
        state.current = node

    def link(self, state: _State, args: Xdr, reply: Xdr, status: int) -> None:
        node = self._nfs.child(self._here(state), args.opaque())
        if status == 0:
            reply.skip(20)
        if node is not None and state.saved is not None:
            self._emit(state, "link", state.saved, status, to_path=self._nfs.text(node))

    def remove(self, state: _State, args: Xdr, reply: Xdr, status: int) -> None:
        node = self._nfs.child(self._here(state), args.opaque())
        if status == 0:
            reply.skip(20)
        if node is not None:
            self._emit(state, "rmdir" if node.folder else "remove", node, status)
            if status == 0:
                node.leave()

    def rename(self, state: _State, args: Xdr, reply: Xdr, status: int) -> None:
        old, new = args.opaque(), args.opaque()
        if status == 0:
            reply.skip(40)
        node = None if state.saved is None else self._nfs.child(state.saved, old)
        state.made += self._nfs.renamed(node, self._here(state), new, status) or []

    def read(self, state: _State, args: Xdr, reply: Xdr, status: int) -> None:
        stateid, offset, asked = args.fixed(16), args.u64(), args.u32()
        moved = 0
        if status == 0:
            reply.skip(4)
            moved = reply.u32()
        self._data(state, "read", (stateid, offset, asked, moved, status))
        if status == 0 and state.more:
            reply.skip(moved + -moved % 4)

    def write(self, state: _State, args: Xdr, reply: Xdr, status: int) -> None:
        stateid, offset = args.fixed(16), args.u64()
        args.skip(4)
        asked, moved = args.u32(), 0
        if status == 0:
            moved = reply.u32()
            reply.skip(12)
        self._data(state, "write", (stateid, offset, asked, moved, status))
        if state.more and not state.squeezed:
            args.skip(asked + -asked % 4)
        state.squeezed = False

    def _data(self, state: _State, op: str, what: tuple[bytes, int, int, int, int]) -> None:
        stateid, *numbers = what
        path = self._nfs.text(self._here(state))
        state.made.append({**data_fields(op, *numbers), "path": path, **self._about(state, stateid)})

    def readdir(self, state: _State, args: Xdr, reply: Xdr, status: int) -> None:
        args.skip(24)
        args.words()
        folder = self._here(state)
        folder.folder = True
        if status:
            self._emit(state, "readdir", folder, status)
            return
        reply.skip(8)
        count = 0
        try:
            while reply.u32():
                reply.skip(8)
                name, found = reply.opaque(), reply.attributes4()
                count += 1
                node = self._nfs.child(folder, name)
                if node is None:
                    continue
                if KIND in found:
                    node.folder = found[KIND] == FOLDER
                handle = found.get(FILEHANDLE)
                if isinstance(handle, bytes):
                    self._nfs.bind(state.server, handle, node)
            reply.skip(4)
        except Cut:
            self._emit(state, "readdir", folder, status)
            raise
        self._emit(state, "readdir", folder, status, len_bytes=count)

    def setattr(self, state: _State, args: Xdr, reply: Xdr, status: int) -> None:
        stateid, size = args.fixed(16), args.attributes4().get(SIZE)
        reply.words()
        if not isinstance(size, int):
            self._nfs.skip("setting of attributes")
            return
        more = self._about(state, stateid)
        self._emit(state, "truncate", self._here(state), status, len_bytes=min(size, 1 << 62), **more)

    def lock(self, state: _State, args: Xdr, reply: Xdr, status: int) -> None:
        self._nfs.skip("locks")
        args.skip(24)
        if args.u32():
            args.skip(4)
            stateid = args.fixed(16)
            args.skip(12)
            args.opaque()
        else:
            stateid = args.fixed(16)
            args.skip(4)
        if status == 0:
            key = (state.server, stateid[4:])
            self._alias[state.server, reply.fixed(16)[4:]] = self._alias.get(key, key)


def _opened(reply: Xdr, delegated: Callable[[bytes], None]) -> None:
    """The rest of OPEN's answer."""
    reply.skip(24)
    reply.words()
    kind = reply.u32()
    if kind in (1, 2):
        delegated(reply.fixed(16))
        reply.skip(4 if kind == 1 else 16)
        reply.skip(12)
        reply.opaque()
    elif kind == 3 and reply.u32() in (1, 2):
        reply.skip(4)


_Reader = Callable[[Xdr], object]


def _bytes(length: int) -> _Reader:
    return lambda xdr: xdr.skip(length)


def _nothing(_xdr: Xdr) -> None:
    return None


def _bytes_and_opaque(length: int) -> _Reader:
    def read(xdr: Xdr) -> None:
        xdr.skip(length)
        xdr.opaque()

    return read


_PLAIN: dict[int, tuple[_Reader, _Reader]] = {
    7: (_bytes(8), _nothing), 8: (_bytes(16), _nothing), 13: (_bytes_and_opaque(28), _nothing),
    14: (_bytes(40), _bytes(16)), 17: (Xdr.attributes4, _nothing), 19: (_bytes(4), _nothing),
    20: (_bytes(20), _bytes(16)), 21: (_bytes(28), _bytes(16)), 30: (_bytes(8), _nothing),
    36: (_bytes(16), _nothing), 37: (Xdr.attributes4, _nothing), 39: (_bytes_and_opaque(8), _nothing),
    44: (_bytes(16), _nothing), 45: (_bytes(16), _nothing), 53: (_bytes(32), _bytes(36)),
    55: (lambda xdr: xdr.skip(16 * xdr.u32()), Xdr.words), 57: (_bytes(8), _nothing), 58: (_bytes(4), _nothing),
}  # fmt: skip
"""Operations without a counterpart: how to pass over their arguments and results."""

_Walk = Callable[[Compound, _State, Xdr, Xdr, int], None]
_WALK: dict[int, _Walk] = {
    3: Compound.access, 4: Compound.close, 5: Compound.commit, 6: Compound.create, 9: Compound.getattr,
    10: Compound.getfh, 11: Compound.link, 12: Compound.lock, 15: Compound.lookup, 16: Compound.lookupp,
    18: Compound.open, 22: Compound.putfh, 23: Compound.putroot, 24: Compound.putroot, 25: Compound.read,
    26: Compound.readdir, 27: Compound.readlink, 28: Compound.remove, 29: Compound.rename, 31: Compound.restorefh,
    32: Compound.savefh, 34: Compound.setattr, 38: Compound.write,
}  # fmt: skip
