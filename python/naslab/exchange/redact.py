"""Takes names out of a run before it leaves the machine: hosts, users, addresses, shares, paths, labels, free text.

It works by a list of what may stay: numbers, words of naslab's own, versions, times. Every other text goes, known to
naslab or not. Hosts and shares become stable names, so that two runs of one server still match within one output.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.inspect import (
    AnyType,
    DictType,
    ListType,
    LiteralType,
    Metadata,
    StrType,
    StructType,
    Type,
    UnionType,
)

from naslab.errors import NaslabError
from naslab.results.describe import MACHINES, OpenPart
from naslab.results.fields import Field, extra_of, fields_of, without_null
from naslab.results.parts.client import DoubtDocument
from naslab.results.parts.run import RunDocument
from naslab.results.parts.warning import RunWarning
from naslab.results.run import BlobSource, Run
from naslab.results.store import Store
from naslab.results.store.store import RunSummary

REMOVED = "(removed)"
_TOKEN = re.compile(r"^([(\[\"']*)(.*?)([)\]\"'.,;:!?]*)$", re.DOTALL)
_UNITS = (
    "b|kb|mb|gb|tb|kib|mib|gib|tib|kbit|mbit|gbit|bit|ns|us|µs|ms|s|min|h|d|k|m|g|t|x|%|ops|iops|hz|mhz|ghz|cpu|cells?"
)
_NUMBER = re.compile(
    rf"^[+\-~<>=]*\d{{1,3}}(?:,\d{{3}}|\d){{0,18}}(?:\.\d{{1,12}})?(?:\^\d{{1,2}})?(?:{_UNITS})?(?:/s)?$", re.IGNORECASE
)
_UNIT = re.compile(rf"^(?:{_UNITS})(?:/s)?$", re.IGNORECASE)
_VERSION = re.compile(r"^v?\d{1,4}(?:\.\d{1,5}){0,2}(?:-\d{1,3})?$")
_TIME = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
_RUN_ID = re.compile(r"^\d{8}-\d{6}-[a-z0-9]{4}$")
_KERNEL = re.compile(r"^(Linux|Windows|Darwin|FreeBSD) ?(\d+(?:\.\d+){0,2})?")
_MODEL = re.compile(r"^(?:[EWNJi]\d?-?)?\d{3,5}[A-Z]{0,3}$|^[iM]\d$|^v\d$|^\d+-Core$|^\d+(?:\.\d+)?GHz$")
_CPU_WORDS = frozenset(
    (
        "intel(r)", "intel", "amd", "arm", "apple", "xeon(r)", "xeon", "core(tm)", "core", "epyc", "ryzen",
        "pentium(r)", "threadripper", "celeron(r)", "atom(tm)", "cortex", "neoverse", "graviton", "platinum", "gold",
        "silver", "bronze", "cpu", "processor", "@", "ghz", "pro", "max", "ultra", "with", "qemu", "virtual", "version",
        "kvm",
    )
)  # fmt: skip
"""What names of processors are made of, beside model numbers."""
_PRIVATE_OPTIONS = (
    "--label",
    "--note",
    "--report",
    "--output",
    "-o",
    "--store",
    "--credentials",
    "--address",
    "--cold-command",
    "--app",
)
_OTHERS_WORDS = ("error", "errors", "unwritten", "corrupt", "unfinished")
"""Kinds of warning with a server's or a system's own words, or with names of files."""
_VALUE = re.compile(r"^[0-9a-z.,%/]{1,64}$")


class Names:
    """Stable names of one output: the same host is `host-1` in all its runs."""

    def __init__(self) -> None:
        self._given: dict[tuple[str, str], str] = {}
        self._counts: dict[str, int] = {}

    def of(self, kind: str, value: str) -> str:
        """`host-1` for the first host, and again for the same one."""
        key = (kind, value.lower() if kind == "host" else value)
        if key not in self._given:
            self._counts[kind] = self._counts.get(kind, 0) + 1
            self._given[key] = f"{kind}-{self._counts[kind]}"
        return self._given[key]

    def made(self, text: str) -> bool:
        """Whether this is a name given here."""
        return text in self._given.values()


class RedactedRun(Run):
    """A run that nothing tells whose it is."""


def redact(run: Run, names: Names | None = None) -> Run:
    """The run without anything that tells whose it is; its raw data, which are numbers, stay.

    names: of the output that the run becomes part of; None for an output of its own. What comes with naslab as a
    published result stays as it is: everybody has it.
    """
    if isinstance(run, RedactedRun) or _is_public(run):
        return run
    redaction = _Redaction(run.document, names or Names())
    document = redaction.document()
    return RedactedRun(cast("Any", document), cast("BlobSource", _NumbersOnly(run)))


def words_about(run: Run, names: Names) -> Callable[[str], str]:
    """What takes the names out of sentences about this run. names: of the output that they become part of."""
    return (lambda text: text) if _is_public(run) else _Redaction(run.document, names).sentence


def _is_public(run: Run) -> bool:
    if not run.run_id.startswith("published:"):
        return False
    from naslab.published import load

    try:
        return bool(load(run.run_id).document == run.document)
    except NaslabError:
        return False


class _NumbersOnly:
    """The raw data of a run, which hold numbers; whatever has another name is left out."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def names(self, cell_id: int) -> list[str]:
        """Names of the cell's blobs, sorted."""
        return [name for name in self._run.blob_names(cell_id) if all(map(_is_word, name.split(":")))]

    def get(self, cell_id: int, name: str) -> bytes | None:
        """One blob, or None."""
        return self._run.blob(cell_id, name) if name in self.names(cell_id) else None


class Outgoing(Store):
    """A store whose runs have no names: what reads them cannot write any."""

    def __init__(self, path: str | Path | None = None) -> None:
        """path: as for `Store`."""
        super().__init__(path)
        self.names = Names()

    def given(self, run: Run) -> Run:
        """A run that came from elsewhere, redacted."""
        return redact(run, self.names)

    def load_id(self, run_id: str) -> Run:
        """The stored run with this whole id, redacted. Raises UnknownRunError, StoreError."""
        return redact(super().load_id(run_id), self.names)

    def list_runs(
        self, limit: int | None = None, label: str | None = None, target: str | None = None
    ) -> list[RunSummary]:
        """Runs, newest first, without labels; label, target: as they are in the store."""
        found = super().list_runs(limit, label, target)
        return [
            RunSummary(
                each.run_id, each.command, None, target_name(each.target, "", self.names), each.status,
                each.start_wall_ns, each.cells,
            )
            for each in found
        ]  # fmt: skip


def store_for(path: Path | None, redacted: bool) -> Store:
    """The store that what leaves the machine is read from: the one place where `--redact` takes effect."""
    return Outgoing(path) if redacted else Store(path)


@cache
def _words() -> frozenset[str]:
    return frozenset(resources.files("naslab.exchange").joinpath("redact_words.txt").read_text("utf-8").split())


def _is_word(text: str) -> bool:
    return text.lower() in _words()


def target_name(url: str, protocol: str, names: Names) -> str:
    """A target's name without host, share, user and path: `smb://host-1/share-1`, `folder-1`, `sim:`."""
    scheme, colon, rest = url.partition(":")
    if scheme == "sim" and colon:
        return "sim:" + _sim_options(rest)
    if url in ("null:", ""):
        return url
    if scheme in ("smb", "nfs") and rest.startswith("//"):
        place = rest[2:].partition("?")[0].rpartition("@")[2]
        host, _, path = place.partition("/")
        share, _, folder = path.partition("/") if scheme == "smb" else (path, "", "")
        host = _without_port(host)
        shared = f"{host.lower()}/{share}"
        parts = [names.of("host", host)]
        parts += [names.of("share", shared)] if share else []
        parts += [names.of("folder", f"{shared}/{folder}")] if folder else []
        return f"{scheme}://{'/'.join(parts)}"
    if scheme == "lab" and colon:
        return f"lab:{names.of('system', rest)}"
    return names.of("folder" if protocol == "local" or url.startswith(("/", ".", "~")) else "target", url)


def _without_port(place: str) -> str:
    if place.startswith("["):
        return place[1:].partition("]")[0]
    return place.partition(":")[0]


def _sim_options(rest: str) -> str:
    """Numbers of a simulated server; files and lists go."""
    query = rest.partition("?")[2]
    parts = [part.partition("=") for part in query.split("&")]
    kept = [f"{key}={value}" for key, _, value in parts if _is_word(key) and _NUMBER.match(value)]
    return "?" + "&".join(kept) if kept else ""


class _Redaction:
    """Of one document."""

    def __init__(self, document: Mapping[str, Any], names: Names) -> None:
        self._whole, self._names = document, names
        self._known, self._giveaway = self._identifiers()

    def document(self) -> dict[str, Any]:
        """The document with what may stay."""
        return self._part(RunDocument, self._whole)

    def _identifiers(self) -> tuple[dict[str, str], set[str]]:
        """(names with what stands for them, names that are plain words: a sentence with one goes as a whole)."""
        found: dict[str, str] = {}
        target = self._whole.get("target") or {}
        environment = self._whole.get("environment") or {}
        client = environment.get("client") if isinstance(environment, Mapping) else None
        hosts = [str(client["host"])] if isinstance(client, Mapping) and client.get("host") else []
        try:
            parts = urlsplit(str(target.get("url") or ""))
            hosts += [parts.hostname] if parts.hostname else []
            users = [parts.username] if parts.username else []
        except ValueError:
            users = []
        hosts += [each for each in target.get("addresses") or [] if isinstance(each, str)]
        found |= {host: self._names.of("host", host) for host in hosts}
        found |= {user: self._names.of("user", user) for user in users}
        route = environment.get("route") if isinstance(environment, Mapping) else None
        if isinstance(route, Mapping):
            names = [route.get("interface"), *(route.get("interfaces") or [])]
            found |= {name: self._names.of("interface", name) for name in names if isinstance(name, str)}
        cores = {name: _parted(name)[1] for name in found}
        plain = {core.lower() for core in cores.values() if _is_word(core)}
        return {name: given for name, given in found.items() if not _is_word(cores[name])}, plain

    def _part(self, part: type[Struct], value: Any) -> dict[str, Any]:
        """What the types of its fields let stay; of facts that nobody described, what their names let stay."""
        if not isinstance(value, Mapping):
            return {}
        fields = {each.name: each for each in fields_of(part)}
        if issubclass(part, OpenPart):
            return {
                key: self._field(fields[key], each) if key in fields else self._keyed(str(key), each)
                for key, each in value.items()
                if key in fields or _is_word(str(key))
            }
        kept = {name: self._field(field, value[name]) for name, field in fields.items() if name in value}
        if part in (RunWarning, DoubtDocument) and value.get("kind") in _OTHERS_WORDS:
            kept["message"] = f"{value['kind']}: {REMOVED}"
        return kept

    def _field(self, field: Field, value: Any) -> Any:
        if value is None:
            return None
        if field.extra.get("private"):
            return _gone(value)
        if keep := field.extra.get("keep"):
            return self.kept(keep, value)
        if isinstance(field.type, LiteralType) and value in field.type.values:
            return value
        if isinstance(field.type, LiteralType | StrType):
            return None if field.nullable else REMOVED
        return self._typed(field.type, value)

    def _typed(self, type_: Type, value: Any) -> Any:
        match type_:
            case Metadata() if keep := extra_of(type_).get("keep"):
                kept = self.kept(keep, value) if isinstance(value, str) else _number(value)
            case Metadata(type=inner):
                kept = self._typed(inner, value)
            case UnionType():
                kept = None if value is None else self._typed(without_null(type_)[0], value)
            case ListType(item_type=inner):
                kept = [self._typed(inner, each) for each in value] if isinstance(value, list) else []
            case DictType(value_type=AnyType()):
                kept = self._free(value)
            case DictType(value_type=inner):
                items = value.items() if isinstance(value, Mapping) else ()
                kept = {self.key(key): self._typed(inner, each) for key, each in items}
            case StructType(cls=part):
                kept = self._part(part, value)
            case StrType():
                kept = REMOVED
            case _:
                kept = _number(value)
        return kept

    def kept(self, keep: str | tuple[str, ...], value: Any) -> Any:
        """keep: as `naslab.results.describe.about` tells it."""
        if isinstance(keep, tuple):
            return str(value) if str(value).lower() in keep else REMOVED
        return _RULES[keep](self, value)

    def _free(self, value: Any) -> Any:
        """Parts that the schema leaves open: numbers under naslab's own keys; texts only where a key allows it."""
        if isinstance(value, Mapping):
            return {self.key(key): self._keyed(str(key), each) for key, each in value.items() if _is_word(str(key))}
        if isinstance(value, list | tuple):
            return [self._free(each) for each in value]
        return _number(value)

    def _keyed(self, key: str, value: Any) -> Any:
        if not isinstance(value, str):
            return self._free(value)
        rule = _TEXT_KEYS.get(key)
        return rule(self, value) if rule else None

    def key(self, key: Any) -> str:
        """A key of an open part: naslab's own word or number, else a name in its place."""
        text = str(key)
        return text if _is_word(text) or _NUMBER.match(text) else self._names.of("name", text)

    # rules for texts

    def word(self, value: Any) -> str:
        """One of naslab's own words."""
        text = str(value)
        return text if not text or _is_word(text) or _NUMBER.match(text) else REMOVED

    def sentence(self, value: Any) -> str:
        """A sentence with the words and numbers that may stay."""
        tokens = [self._token(token) for token in str(value).split()]
        if any(token is None for token in tokens):
            return REMOVED
        joined = " ".join(str(token) for token in tokens)
        return re.sub(rf"{re.escape(REMOVED)}(?: {re.escape(REMOVED)})+", REMOVED, joined)

    def _token(self, token: str) -> str | None:
        """None: the whole sentence must go."""
        before, core, after = _parted(token)
        if core.lower() in self._giveaway:
            return None
        if core in self._known:
            return f"{before}{self._known[core]}{after}"
        numeric = _NUMBER.match(core) or _UNIT.match(core)
        plain = numeric or _is_word(core.lstrip("-")) or core in ("", "-", "=", "/", "->") or self._names.made(core)
        return token if plain else f"{before}{REMOVED}{after}"

    def told(self, value: Any) -> str:
        """A tool's version, which may begin with the tool's name."""
        return str(value) if _VERSION.match(str(value)) else " ".join(map(self._told, str(value).split()))

    def _told(self, word: str) -> str:
        return word if _VERSION.match(word) else self.sentence(word)

    def form(self, value: Any) -> str:
        """A file's format: a word, perhaps with fio's plus behind it."""
        text = str(value)
        return text if _is_word(text.removesuffix("+")) else REMOVED

    def untold(self, value: Any) -> list[str]:
        """Names of fields, with a dot for parts, or words about what a source does not tell."""
        named = [each for each in value if isinstance(each, str)] if isinstance(value, list) else []
        return [each if all(map(_is_word, each.split("."))) else self.sentence(each) for each in named]

    def named(self, value: Any) -> str:
        """A load's name: naslab's own, or a name in its place."""
        text = str(value)
        return text if _is_word(text) else self._names.of("workload", text)

    def run_id(self, value: Any) -> str:
        """An id as naslab makes them tells a time only."""
        text = str(value)
        return text if _RUN_ID.match(text) else self._names.of("run", text)

    def host(self, value: Any) -> str:
        """A host's name or address."""
        return self._names.of("host", str(value))

    def interface(self, value: Any) -> str:
        """A network interface's name, which may tell its address."""
        return str(value) if value == "lo" else self._names.of("interface", str(value))

    def target_url(self, value: Any) -> str:
        """The target's name."""
        target = self._whole.get("target") or {}
        return target_name(str(value), str(target.get("protocol") or ""), self._names)

    def argv(self, value: Any) -> list[str]:
        """The command line: its options, sizes and times; targets by name, the rest removed."""
        out: list[str] = []
        private = False
        for token in value if isinstance(value, list) else []:
            text, hidden = str(token), private
            private = text in _PRIVATE_OPTIONS
            out.append(REMOVED if hidden else self._argument(text))
        return out

    def _argument(self, text: str) -> str:
        option, equals, value = text.partition("=")
        if option.startswith("-") and _is_word(option.lstrip("-")):
            public = option not in _PRIVATE_OPTIONS and self._is_value(value)
            return f"{option}{equals}{value if public or not equals else REMOVED}"
        if ":" in text or text == (self._whole.get("target") or {}).get("url"):
            return target_name(text, "", self._names)
        return text if self._is_value(text) else REMOVED

    def _is_value(self, text: str) -> bool:
        """A number, a size, a time, or a list or range of these or of naslab's own words."""
        parts = re.split(r",|\.\.", text)
        return bool(_VALUE.match(text) or _is_word(text)) and all(_is_word(p) or _NUMBER.match(p) for p in parts)


def _parted(token: str) -> tuple[str, str, str]:
    """(marks before, what they stand around, marks after)."""
    match = _TOKEN.match(token)
    return (match[1], match[2], match[3]) if match else ("", token, "")


def _number(value: Any) -> Any:
    """A number or a yes or no; None for all else."""
    return value if isinstance(value, bool | int | float) else None


def _matching(pattern: re.Pattern[str]) -> Rule:
    def rule(_: _Redaction, value: Any) -> str:
        found = pattern.match(str(value))
        return found.group(0) if found else REMOVED

    return rule


def _cpu(_: _Redaction, value: Any) -> str:
    kept = [t for t in str(value).split() if t.lower() in _CPU_WORDS or _MODEL.match(t) or _VERSION.match(t)]
    return " ".join(kept) or REMOVED


def _gone(value: Any) -> Any:
    """Nothing of it stays."""
    return {} if isinstance(value, Mapping) else [] if isinstance(value, list) else None


Rule = Callable[[_Redaction, Any], Any]
_version, _time = _matching(_VERSION), _matching(_TIME)
_kernel = _matching(_KERNEL)


def _machine(redaction: _Redaction, value: Any) -> Any:
    return redaction.kept(MACHINES, value)


_RULES: dict[str, Rule] = {
    "word": _Redaction.word, "sentence": _Redaction.sentence, "load_name": _Redaction.named,
    "run_id": _Redaction.run_id, "host_name": _Redaction.host, "interface": _Redaction.interface,
    "timestamp": _time, "version": _version, "kernel": _kernel, "cpu": _cpu, "target_url": _Redaction.target_url,
    "command_line": _Redaction.argv, "format": _Redaction.form, "tool_version": _Redaction.told,
    "field_names": _Redaction.untold,
}  # fmt: skip
"""What may stay of the texts of a field, by `keep` of its type. A text without a rule goes."""
_TEXT_KEYS: dict[str, Rule] = {
    "host": _Redaction.host, "interface": _Redaction.interface, "system": _kernel, "kernel": _kernel, "machine":
    _machine, "cpu": _cpu, "python": _version, "filesystem": _Redaction.word,
    "says": _Redaction.sentence, "unit": _Redaction.word, "kind": _Redaction.word, "op": _Redaction.word,
    "protocol": _Redaction.word, "limit": _Redaction.word, "run_id": _Redaction.run_id,
    "what": _Redaction.sentence, "ended": _Redaction.sentence, "reason": _Redaction.sentence,
}  # fmt: skip
"""The same for the parts that the schema leaves open, by key: facts about client and target."""
