"""IOzone's getopt: argument vector in, `Args` out, or a UsageError that names option, value and next step."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from naslab.commands.iozone.cluster import Cluster
from naslab.commands.iozone.options import BY_FLAG, TEST_TEXTS, Option
from naslab.errors import UsageError
from naslab.units import parse_size

MAX_RECORD_KIB = 16 * 1024
"""IOzone's largest record, 16 MiB."""

MIN_FILE_KIB = 4
_SIZE = re.compile(r"(\d+)([kKmMgG]?)\Z")
_KIB = {"": 1, "k": 1, "m": 1 << 10, "g": 1 << 20}


@dataclass
class Args:
    """The command line, validated. Sizes in KiB; -t counts in the order given; `echoes` in the order given.

    warnings: what differs from IOzone or has no effect, one sentence each.
    """

    argv: list[str] = field(default_factory=list)
    echoes: list[tuple[Option, str]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    # what to run
    auto: bool = False
    auto2: bool = False
    no_cutoff: bool = False
    extensions: bool = False
    no_retest: bool = False
    tests: list[int] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    records: list[int] = field(default_factory=list)
    min_file: int | None = None
    max_file: int | None = None
    min_record: int | None = None
    max_record: int | None = None
    multiplier: int = 2
    stride: int = 17
    depth: int = 1
    # files
    file: str = "iozone.tmp"
    names: list[str] = field(default_factory=list)
    names_file: str | None = None
    mount: str | None = None
    umount_command: str | None = None
    mount_command: str | None = None
    keep: bool = False
    no_truncate: bool = False
    foreign: bool = False
    overwrite: bool = False
    force: bool = False
    read_existing: bool = False
    # how files are used
    mmap: bool = False
    direct: bool = False
    sync_all: bool = False
    sync_data: bool = False
    sync_reads: bool = False
    lock_file: bool = False
    lock_record: bool = False
    lock_shared: bool = False
    shared_file: bool = False
    # what is timed
    close_timed: bool = False
    flush_timed: bool = False
    think_ms: int = 0
    think_counted: bool = False
    pause_s: int = 0
    # data
    iozone_data: bool = False
    pattern: int | None = None
    diagnose: bool = False
    verify: bool = False
    compress_pct: int = 0
    dedupe_pct: int = 0
    # throughput mode
    counts: list[int] = field(default_factory=list)
    lower: int | None = None
    upper: int | None = None
    threads: bool = False
    no_stonewall: bool = False
    children: bool = False
    constant_total: bool = False
    read_pct: int | None = None
    sequential_mix: bool = False
    cluster_file: str | None = None
    cluster: Cluster | None = None
    # output
    report: bool = False
    excel: str | None = None
    cpu: bool = False
    iops: bool = False
    usec: bool = False
    machine: bool = False
    offset_files: bool = False
    histograms: bool = False
    help: bool = False
    version: bool = False
    # accepted, without effect
    multi_buffer: bool = False
    purge: bool = False
    cache_kib: int = 1024
    line_bytes: int = 32
    # naslab
    store: str | None = None
    credentials: str | None = None
    remote_python: str | None = None
    remote_shell: str = ""
    agent: str | None = None
    ssh_user: str | None = None
    ssh_port: int | None = None
    ssh_key: str | None = None
    labels: list[str] = field(default_factory=list)
    note: str | None = None
    seed: int | None = None
    quiet: bool = False
    json: bool = False
    max_bytes: int | None = None

    @property
    def throughput(self) -> bool:
        """Whether -t, -l or -u ask for throughput mode."""
        return bool(self.counts) or self.lower is not None or self.upper is not None

    def worker_counts(self) -> list[int]:
        """Numbers of children, one run each."""
        if self.lower is None and self.upper is None:
            return list(self.counts)
        low = self.lower if self.lower is not None else 1
        return list(range(low, (self.upper if self.upper is not None else low) + 1))

    @property
    def automatic(self) -> bool:
        """Whether sizes and records are swept: -a, -A, or a list of either."""
        return self.auto or self.auto2 or len(self.sizes) > 1 or len(self.records) > 1

    @property
    def one_file(self) -> bool:
        """Whether all children of throughput mode share the first file."""
        return self.lock_shared or self.shared_file

    def has(self, flag: str) -> bool:
        """Whether the flag was given."""
        return any(option.flag == flag for option, _ in self.echoes)


def read(argv: Sequence[str]) -> Args:
    """The command line, option by option; `checks.parse` also says what may not be combined. Raises UsageError."""
    args = Args(argv=list(argv))
    for option, operand in _tokens(args.argv):
        _store(args, option, operand)
    return args


def forms(argv: Sequence[str]) -> tuple[dict[str, str], set[str]]:
    """For files of options: how a value follows each option, and the options that this line has."""
    known = {
        option.flag: {"flag": "flag", "names": "words"}.get(option.kind, "value") for option in BY_FLAG.values()
    }  # fmt: skip
    given = set()
    with contextlib.suppress(UsageError):  # said when the line itself is read
        for option, _ in _tokens(list(argv)):
            given.add(option.flag)
    return known, given


def _tokens(argv: list[str]) -> Iterator[tuple[Option, str]]:
    """(option, operand) in order; operands of `names` are joined by NUL."""
    rest = list(argv)
    while rest:
        token = rest.pop(0)
        if token.startswith("--") and len(token) > 2:
            yield _long(token, rest)
        elif token.startswith("-") and token not in ("-", "--"):
            yield from _bundle(token, rest)
        else:
            raise UsageError(f"{token!r} is not an option and no option takes it; see `naslab iozone -h`")


def _long(token: str, rest: list[str]) -> tuple[Option, str]:
    flag, has_value, value = token.partition("=")
    option = _find(flag)
    if option.kind == "flag":
        if has_value:
            raise UsageError(f"{flag} takes no value, but {value!r} was given: write {flag}")
        return option, ""
    return option, value if has_value else _next(option, rest)


def _bundle(token: str, rest: list[str]) -> Iterator[tuple[Option, str]]:
    """Letters of one argument, as getopt reads them."""
    letters = token[1:]
    while letters:
        if letters[0] == "+":
            yield _plus(letters, rest)
            return
        option, letters = _find("-" + letters[0]), letters[1:]
        if option.kind == "flag":
            yield option, ""
            continue
        value, letters = letters or _next(option, rest), ""
        yield option, _all_names(value, rest) if option.kind == "names" else value


def _plus(letters: str, rest: list[str]) -> tuple[Option, str]:
    option = _find("-" + letters[:2])
    if len(letters) > 2:
        raise UsageError(
            f"-{letters}: {letters[2:]!r} after {option.flag} would be ignored by IOzone; write "
            + (f"{option.flag} and the next option apart" if option.kind == "flag" else f"{option.flag} {letters[2:]}")
        )
    return option, "" if option.kind == "flag" else _next(option, rest)


def _all_names(first: str, rest: list[str]) -> str:
    names = [first]
    while rest and not rest[0].startswith("-"):
        names.append(rest.pop(0))
    return "\0".join(names)


def _find(flag: str) -> Option:
    option = BY_FLAG.get(flag)
    if option is None:
        raise UsageError(f"{flag}: unknown option; `naslab iozone -h` lists all")
    if option.how == "refused":
        raise UsageError(f"{flag} ({option.meaning}) is refused: {option.note}")
    return option


def _next(option: Option, rest: list[str]) -> str:
    if not rest:
        raise UsageError(f"{option.flag}: {option.operand} is missing; write {option.flag} {option.operand}")
    return rest.pop(0)


def _store(args: Args, option: Option, operand: str) -> None:
    value = _READERS[option.kind](option, operand)
    if option.repeated:
        getattr(args, option.dest).append(value)
    else:
        setattr(args, option.dest, value)
    args.echoes.append((option, operand))
    if option.how == "no effect":
        args.warnings.append(f"{option.flag} has no effect: {option.note}")


def parse_kib(option: Option, text: str) -> int:
    """KiB of an IOzone size. Raises UsageError for what IOzone would cut off silently, and for zero."""
    match = _SIZE.match(text)
    if not match:
        raise UsageError(
            f"{option.flag} {text}: IOzone sizes are whole numbers, in KiB or with k, m, g (`1536k`, not `1.5m`)"
        )
    size = int(match.group(1)) * _KIB[match.group(2).lower()]
    if size < 1:
        raise UsageError(f"{option.flag} {text}: give at least 1 (KiB)")
    return size


def _integer(option: Option, text: str, low: int, high: int | None = None) -> int:
    limits = f"at least {low}" if high is None else f"{low} to {high}"
    if not re.fullmatch(r"\d+", text) or int(text) < low or (high is not None and int(text) > high):
        raise UsageError(f"{option.flag} {text}: give a whole number, {limits}")
    return int(text)


def _text(option: Option, text: str) -> str:
    if not text:
        raise UsageError(f"{option.flag}: {option.operand} is empty")
    return text


_HIGHEST = {
    "-i": len(TEST_TEXTS) - 1, "-V": 255, "-t": 4096, "-l": 4096, "-u": 4096, "-H": 4096, "-k": 4096,
    "--ssh-port": 65535,
}  # fmt: skip

_READERS: dict[str, Callable[[Option, str], object]] = {
    "flag": lambda option, text: True,
    "kib": parse_kib,
    "int": lambda option, text: _integer(option, text, 0, _HIGHEST.get(option.flag)),
    "count": lambda option, text: _integer(option, text, 2 if option.flag == "-+x" else 1, _HIGHEST.get(option.flag)),
    "percent": lambda option, text: _integer(option, text, 0, 100),
    "text": _text,
    "names": lambda option, text: text.split("\0"),
    "bytes": lambda option, text: parse_size(text, option.flag),
}


def read_names(path: str) -> list[str]:
    """File names of -+R: one a line, blank lines dropped. Raises UsageError."""
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"-+R {path}: cannot be read ({getattr(error, 'strerror', None) or error}); "
            "give a text file with one name per line"
        ) from error
    return [line.strip() for line in lines if line.strip()]
