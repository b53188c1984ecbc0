"""A target, looked at step by step. Each step that fails ends the checkup with advice on it."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from msgspec import to_builtins

from naslab import _engine
from naslab.commands.doctor import advice as words
from naslab.commands.doctor.advice import Advice, Refusal, RoundTrip
from naslab.commands.doctor.network import Reached, Unreached, ports, reach, resolve
from naslab.errors import NaslabError, TargetError
from naslab.execution import recycle
from naslab.execution.workspace import MARK, owner_mark
from naslab.results.store import new_run_id
from naslab.targets import Target, smb
from naslab.targets.nfs import WITHOUT_TLS
from naslab.targets.target import SERVERS
from naslab.text.messages import words_of
from naslab.units import duration_text

PINGS, PING_NS = 1000, 2_000_000_000
"""A null operation is timed so often, or so long."""
VERSIONS_OF = {"smb": ("dialect", smb.DIALECTS), "nfs": ("version", ("3", "4.0", "4.1", "4.2"))}
"""The option that asks for a version of a protocol, and the versions."""
VERSION_NS = 3_000_000_000
"""How long one version is waited for: some servers leave questions in an unknown one unanswered."""
PROBE_BYTES, LONGER_BYTES = 64 << 10, 100_000


_NOT_IN_DOCUMENT = ("target", "steps", "rights", "advice", "probe_folder")
"""Parts of a checkup that its document has in another form, or not at all."""


@dataclass(frozen=True)
class Step:
    """One step: what was tried, whether it went well, what was seen."""

    name: str
    ok: bool
    detail: str
    duration_ns: int = 0
    kind: str | None = None
    status: int = 0


@dataclass(frozen=True)
class Right:
    """Whether something may be done. allowed: None when it could not be tried."""

    allowed: bool | None
    error: str | None = None


@dataclass(frozen=True)
class Space:
    """On the target."""

    free_bytes: int
    total_bytes: int


@dataclass
class Checkup:
    """All that was found out about a target. usable: nothing found prevents measuring.

    versions: of the protocol that the server accepts; None where one was asked for. clock_ahead_ns: by how much the
    server's clock is ahead of this machine's; None where it was not seen. offers_tls: of an NFS server, whether it
    offers RPC-with-TLS (RFC 9289); None where it did not say.
    """

    target: Target
    steps: list[Step] = field(default_factory=list)
    negotiated: dict[str, str] = field(default_factory=dict)
    abilities: dict[str, Any] = field(default_factory=dict)
    rights: dict[str, Right] = field(default_factory=dict)
    exports: list[dict[str, str]] | None = None
    space: Space | None = None
    probe_folder: str | None = field(default=None, repr=False)
    round_trip_ns: RoundTrip | None = None
    versions: list[str] | None = None
    clock_ahead_ns: int | None = None
    offers_tls: bool | None = None
    left_behind: str | None = None
    recycle_bin: str | None = None
    advice: list[Advice] = field(default_factory=list)

    @property
    def usable(self) -> bool:
        """Whether the target can be measured, or for a whole server, asked."""
        return not any(one.severity == "error" for one in self.advice)

    def document(self) -> dict[str, Any]:
        """As one JSON document."""
        others = {name: value for name, value in vars(self).items() if name not in _NOT_IN_DOCUMENT}
        found: dict[str, Any] = to_builtins({
            "schema": 1, "target": {"url": self.target.url, "protocol": self.target.protocol}, "usable": self.usable,
            "steps": self.steps, "rights": self.rights, **others, "advice": self.advice,
        })  # fmt: skip
        return found


def check_target(target: Target, timeout_ns: int, on_step: Callable[[Step], None] = lambda step: None) -> Checkup:
    """Looks at a target; writes and removes a few small files in a folder of its own. Never raises TargetError.

    on_step: hears every step as it ends.
    """
    return _Doctor(target, timeout_ns, on_step).check()


class _Doctor:
    def __init__(self, target: Target, timeout_ns: int, on_step: Callable[[Step], None]) -> None:
        self.found = Checkup(target)
        self.target = target
        self._timeout_s = timeout_ns / 1e9
        self._on_step = on_step
        self._tcp_ns: int | None = None
        for kind, message in target.warnings:
            self.found.advice.append(Advice("warning", kind, message))

    def check(self) -> Checkup:
        if self.target.protocol in SERVERS and not self._network():
            return self.found
        if self.target.protocol == "nfs":
            self._ask_for_tls()
        if self.target.whole_server:
            self._list_server()
            return self.found
        session = self._open()
        if session is not None:
            try:
                self._look(session)
            finally:
                session.end()
        return self.found

    def _step(self, name: str, ok: bool, detail: str, since: int, error: NaslabError | None = None) -> None:
        kind, status = getattr(error, "kind", None), getattr(error, "status", 0)
        step = Step(name, ok, detail, time.perf_counter_ns() - since, kind, status)
        self.found.steps.append(step)
        self._on_step(step)

    def _network(self) -> bool:
        """Name and connection."""
        host, since = self.target.options["host"], time.perf_counter_ns()
        addresses = resolve(host)
        if isinstance(addresses, Unreached):
            self._step("name", False, addresses.message, since)
            self.found.advice.append(Advice("error", "name", addresses.message))
            return False
        self._step("name", True, f"{host} is {', '.join(addresses)}", since)
        since = time.perf_counter_ns()
        tried = ports(self.target)
        reached = reach(addresses, tried, self._timeout_s)
        if isinstance(reached, Unreached):
            self._step("connect", False, f"port {tried[0]}: {reached.message}", since)
            self.found.advice.append(words.connect_advice(self.target, reached.kind, tried[0]))
            return False
        self._tell_connection(reached, since)
        return True

    def _tell_connection(self, reached: Reached, since: int) -> None:
        packets = f", packets of {reached.mtu_bytes} bytes" if reached.mtu_bytes else ""
        detail = f"{reached.address} port {reached.port} answers in {duration_text(reached.connect_ns)}{packets}"
        self._step("connect", True, detail, since)
        self._tcp_ns = reached.connect_ns
        self.found.advice += words.path_advice(reached.mtu_bytes, reached.interface_mtu_bytes)

    def _ask_for_tls(self) -> None:
        """One call that does nothing, which the server may refuse; on a connection of its own."""
        since = time.perf_counter_ns()
        hurried = self.target.with_options(**WITHOUT_TLS).with_timeout(min(round(self._timeout_s * 1e9), VERSION_NS))
        with contextlib.suppress(NaslabError):
            self.found.offers_tls = _engine.offers_tls(hurried.engine_json())
        if self.found.offers_tls is not None:
            offered = "is" if self.found.offers_tls else "is not"
            self._step("tls", True, f"RPC-with-TLS (RFC 9289) {offered} offered", since)
            self.found.advice += words.tls_advice(self.target, self.found.offers_tls)

    def _list_server(self) -> None:
        since = time.perf_counter_ns()
        try:
            self.found.exports = json.loads(_engine.list_exports(self.target.engine_json()))
        except NaslabError as error:
            told = _told(error)
            self._step("list", False, told.message, since, error)
            self.found.advice.append(words.login_advice(self.target, told, None))
            return
        self._ask_versions(lambda target: _engine.list_exports(target.engine_json()))
        self._step("list", True, f"{len(self.found.exports or [])} {self._plural()}", since)

    def _plural(self) -> str:
        return "shares" if self.target.protocol == "smb" else "exports"

    def _open(self) -> _engine.Session | None:
        """Negotiation, login, share or export, folder: one session as a worker would have it."""
        since = time.perf_counter_ns()
        name = {"smb": "log in", "nfs": "mount"}.get(self.target.protocol, "open")
        try:
            session = _engine.Session(self.target.engine_json())
        except NaslabError as error:
            told = _told(error)
            self._step(name, False, told.message, since, error)
            self.found.advice.append(words.login_advice(self.target, told, self._names()))
            return None
        self.found.negotiated = session.facts()
        self.found.abilities = json.loads(session.caps())
        self._step(name, True, self._who(), since)
        return session

    def _names(self) -> list[str] | None:
        """Shares or exports, where the server tells."""
        if self.target.protocol not in SERVERS:
            return None
        try:
            self.found.exports = json.loads(_engine.list_exports(self.target.engine_json()))
        except NaslabError:
            return None
        return [entry["name"] for entry in self.found.exports or []]

    def _ask_versions(self, ask: Callable[[Target], object]) -> None:
        """Which versions of its protocol the server accepts, one after the other; `ask` raises where it does not."""
        option, every = VERSIONS_OF.get(self.target.protocol, ("", ()))
        if not option or self.target.options[option] is not None:
            return
        self.found.versions = []
        hurried = self.target.with_timeout(min(round(self._timeout_s * 1e9), VERSION_NS))
        for version in every:
            with contextlib.suppress(NaslabError):
                ask(hurried.with_options(**{option: version}))
                self.found.versions.append(version)
        self.found.advice += words.version_advice(self.target, self.found.versions)

    def _who(self) -> str:
        options = self.target.options
        if self.target.protocol == "smb":
            who = options["user"] or options["auth"]
            return f"as {who}, share {options['share']}" + (f", folder {options['root']}" if options["root"] else "")
        if self.target.protocol == "nfs":
            return f"{options['path']} as uid {options['uid']}, gid {options['gid']}"
        return self.target.url

    def _look(self, session: _engine.Session) -> None:
        found = self.found
        found.advice += words.negotiated_advice(self.target, found.negotiated)
        self._ask_versions(lambda target: _engine.Session(target.engine_json()).end())
        refused = _Rights(session, found).try_all()
        found.advice += words.right_advice(self.target, refused)
        if found.left_behind:
            message = f"left on the target: {found.left_behind}; remove it with naslab clean"
            found.advice.append(Advice("warning", "left_behind", message))
        found.advice += words.clock_advice(found.clock_ahead_ns)
        self._look_for_a_bin()
        try:
            free, total = session.space()
            if total:  # a file system of no size is one whose server does not say
                found.space = Space(free, total)
                found.advice += words.space_advice(free)
        except NaslabError:
            pass  # not every server tells; a plan then asks for no room either
        if found.abilities.get("ping"):
            self._ping(session)

    def _look_for_a_bin(self) -> None:
        """Whether the share has kept the file that was removed just now; what is kept of it is removed for good."""
        if self.target.protocol != "smb" or not self.found.probe_folder:
            return
        with contextlib.suppress(NaslabError), recycle.bins_of(self.target, self.found.probe_folder) as (session, bins):
            for kept in bins:
                self.found.recycle_bin = kept.bin
                kept.files = [path for path in kept.files if path.endswith(("naslab.doctor", "naslab.renamed"))]
                recycle.empty(session, kept)
        if self.found.recycle_bin:
            self.found.advice.append(words.bin_advice(self.found.recycle_bin))

    def _ping(self, session: _engine.Session) -> None:
        """Null operations one after the other, as often or as long as the bounds say."""
        samples: list[int] = []
        begin = time.perf_counter_ns()
        start = begin
        try:
            while len(samples) < PINGS and start - begin < PING_NS:
                session.ping()
                end = time.perf_counter_ns()
                samples.append(end - start)
                start = time.perf_counter_ns()
        except NaslabError as error:
            self._step("ping", False, _told(error).message, begin, error)
            self.found.advice.append(Advice("error", "ping", _told(error).message))
            return
        trip = percentiles(samples)
        self.found.round_trip_ns = trip
        self._step("ping", True, f"a null operation takes {duration_text(trip.p50)} (p50 of {trip.count})", begin)
        self.found.advice += words.latency_advice(trip, self._tcp_ns)


def percentiles(samples_ns: list[int]) -> RoundTrip:
    """Of at least one sample."""
    ordered = sorted(samples_ns)
    count = len(ordered)

    def at(hundredths: int) -> int:
        return ordered[max(0, -(-count * hundredths // 100) - 1)]

    return RoundTrip(count, ordered[0], sum(ordered) // count, at(50), at(90), at(99), ordered[-1])


def _told(error: NaslabError) -> Refusal:
    return Refusal(getattr(error, "kind", "io"), getattr(error, "status", 0), words_of(error, step=False))


class _Rights:
    """Tries everything a run does, in a marked folder of its own that is removed again."""

    ORDER = ("list", "make_folder", "write", "flush", "read", "set_length", "rename", "delete", "remove_folder")

    def __init__(self, session: _engine.Session, found: Checkup) -> None:
        self._session = session
        self._found = found
        self._refused: dict[str, Refusal] = {}
        self._run_id = new_run_id()
        self._folder = f"naslab-{self._run_id}"
        self._file: int | None = None
        self._data = os.urandom(PROBE_BYTES)

    def try_all(self) -> dict[str, Refusal]:
        """Fills in the checkup's rights; errors of those refused, in order."""
        self._found.rights = {name: Right(None) for name in self.ORDER}
        self._try("list", lambda: self._session.readdir(""))
        if self._try("make_folder", self._make_folder):
            try:
                self._try_file()
            finally:
                if not self._try("remove_folder", self._remove_folder):
                    self._found.left_behind = self._folder
        return self._refused

    def _try(self, name: str, work: Callable[[], object]) -> bool:
        try:
            work()
        except NaslabError as error:
            told = _told(error)
            self._refused[name] = told
            self._found.rights[name] = Right(False, told.message)
            return False
        self._found.rights[name] = Right(True)
        return True

    def _make_folder(self) -> None:
        """With the mark, so that `naslab clean` finds it whatever happens next. Without the right to write, the
        folder is still one that may be made.
        """
        self._session.mkdir(self._folder)
        self._found.probe_folder = self._folder

    def _try_file(self) -> None:
        session, first, second = self._session, f"{self._folder}/naslab.doctor", f"{self._folder}/naslab.renamed"
        if not self._try("write", lambda: self._write(first)):
            return
        self._try("flush", lambda: session.flush(self._open_file()))
        self._try("read", self._read_back)
        self._try("set_length", lambda: self._set_length(first))
        self._close()
        renamed = self._try("rename", lambda: session.rename(first, second))
        self._try("delete", lambda: session.remove(second if renamed else first))

    def _write(self, path: str) -> None:
        mark = f"{self._folder}/{MARK}"
        new = json.dumps({"read": True, "write": True, "create": "new"})
        handle = self._session.open(mark, new)
        before = time.time_ns()
        self._session.write(handle, 0, owner_mark(self._run_id).encode())
        self._session.close(handle)
        self._compare_clocks(mark, before, time.time_ns())
        self._file = self._session.open(path, new)
        self._session.write(self._file, 0, self._data)

    def _compare_clocks(self, path: str, before_ns: int, after_ns: int) -> None:
        """By the time that the server gave a file that was written between these two times of ours."""
        with contextlib.suppress(NaslabError):
            written_ns = self._session.modified_ns(path)
            if written_ns is not None:
                early, late = written_ns - after_ns, written_ns - before_ns
                self._found.clock_ahead_ns = early if early > 0 else late if late < 0 else 0

    def _open_file(self) -> int:
        if self._file is None:
            raise TargetError("open: the file is closed", "io")
        return self._file

    def _read_back(self) -> None:
        keeps = self._found.abilities.get("keeps_data", True)
        found = self._session.read(self._open_file(), 0, PROBE_BYTES)
        if keeps and found != self._data:
            raise TargetError("read: the data read back differ from the data written", "corrupt")

    def _set_length(self, path: str) -> None:
        self._session.set_len(self._open_file(), LONGER_BYTES)
        length, _ = self._session.stat(path)
        if length != LONGER_BYTES:
            raise TargetError(f"set_len: the file is {length} bytes long instead of {LONGER_BYTES}", "io")

    def _close(self) -> None:
        if self._file is not None:
            handle, self._file = self._file, None
            try:
                self._session.close(handle)
            except NaslabError as error:
                self._refused.setdefault("flush", _told(error))

    def _remove_folder(self) -> None:
        """Only what this checkup made; the mark last, so that an unfinished removal can be found again."""
        self._close()
        names = [name for name, is_folder in self._session.readdir(self._folder) if not is_folder]
        for name in sorted(names, key=lambda name: name == MARK):
            if name == MARK or name.startswith("naslab."):
                self._session.remove(f"{self._folder}/{name}")
        self._session.rmdir(self._folder)
