"""A DiskSpd profile: time spans of targets, whichever way they were written, and what may not be combined."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from naslab.commands.plans.caching import Cache
from naslab.errors import UsageError
from naslab.text.messages import without_secrets

Compat = Literal["2.2", "2.0.21"]
TEMPLATE = "*"
"""What the path of a target begins with that stands for one given when the profile is run."""


@dataclass
class Distribution:
    """-rd: (share of operations in per cent, span) one after the other from the range's start.

    kind: `pct`, spans in per cent of the target; `abs`, spans in bytes, 0 as the last: to the target's end.
    """

    kind: Literal["pct", "abs"]
    parts: list[tuple[int, int]]

    def completed(self) -> Distribution:
        """With the rest of the operations on the rest of the target, as DiskSpd adds it."""
        used = sum(share for share, _ in self.parts)
        covered = sum(span for _, span in self.parts)
        if used >= 100:
            return self
        rest = 100 - covered if self.kind == "pct" and covered < 100 else 0
        return Distribution(self.kind, [*self.parts, (100 - used, rest)])


@dataclass
class TargetSpec:
    """One target and its load. Names and defaults are DiskSpd's where they say something.

    stride_bytes: alignment of random or step of sequential offsets; None: the block. random_pct: 100 all random,
    0 sequential. max_bytes: upper end of the range (-f), 0: the file's. file_bytes: to be created with (-c).
    cache_given: the cache mode was asked for, not just left as it is.
    """

    path: str = ""
    block_bytes: int = 64 << 10
    base_bytes: int = 0
    max_bytes: int = 0
    stride_bytes: int | None = None
    random_pct: int = 0
    distribution: Distribution | None = None
    interlocked: bool = False
    separation_bytes: int = 0
    cache: Cache = "cached"
    cache_given: bool = False
    write_through: bool = False
    mmap: bool = False
    map_flush: str = ""
    pattern: Literal["sequential", "zero", "random"] = "sequential"
    source_bytes: int = 0
    source_path: str = ""
    parallel: bool = False
    burst: int = 0
    think_ms: int = 0
    file_bytes: int | None = None
    outstanding: int = 2
    write_pct: int = 0
    limit_bytes_per_ms: int = 0
    limit_per_s: int = 0
    threads: int = 1
    priority: int = 3
    large_pages: bool = False
    hints: str = ""

    @property
    def shown(self) -> str:
        """The path for output: without a password."""
        return without_secrets(self.path)

    @property
    def step_bytes(self) -> int:
        """Alignment or stride in force."""
        return self.block_bytes if self.stride_bytes is None else self.stride_bytes

    @property
    def limited(self) -> bool:
        """Whether -g holds it back."""
        return bool(self.limit_bytes_per_ms or self.limit_per_s)


@dataclass
class TimeSpan:
    """One test. threads, outstanding: -F and -O, 0 when not given. affinity: (group, processor) pairs of -a."""

    targets: list[TargetSpec] = field(default_factory=list)
    duration_s: int = 10
    warmup_s: int = 5
    cooldown_s: int = 0
    threads: int = 0
    outstanding: int = 0
    seed: int = 0
    latency: bool = False
    iops: bool = False
    bucket_ms: int = 1000
    no_affinity: bool = False
    affinity: list[tuple[int, int]] = field(default_factory=list)
    completion_routines: bool = False
    random_data: bool = False

    def several_threads(self, target: TargetSpec) -> bool:
        """Whether more than one thread works on the target."""
        return self.threads > 1 or target.threads > 1

    def workers(self) -> list[tuple[int, TargetSpec]]:
        """(thread, target) in the order of DiskSpd's rows: -t threads of each target, or -F threads on every one."""
        if self.threads:
            return [(thread, target) for thread in range(self.threads) for target in self.targets]
        return list(enumerate(target for target in self.targets for _ in range(target.threads)))


@dataclass
class Profile:
    """All of a run. progress: -P. command_line: as printed, without secrets."""

    spans: list[TimeSpan] = field(default_factory=list)
    command_line: str = ""
    progress: int = 0
    xml_output: bool = False
    verbose: bool = False
    only: bool = False
    precreate: str = ""
    compat: Compat = "2.2"


Rule = tuple[Callable[[TimeSpan, TargetSpec], object], str]

_ERRORS: tuple[Rule, ...] = (
    (lambda s, t: s.no_affinity and s.affinity,
     "-n and -a parameters cannot be used together: leave one out"),
    (lambda s, t: s.threads and t.threads > 1,
     "-F and -t parameters cannot be used together: -t counts threads per target, -F all threads; give one of them"),
    (lambda s, t: s.outstanding and not s.threads,
     "-O belongs to -F and would be ignored without it: give -F, or -o instead of -O"),
    (lambda s, t: t.limited and s.completion_routines,
     "-g throughput control cannot be used with -x completion routines: leave -x out"),
    (lambda s, t: bool(t.burst) != bool(t.think_ms),
     "need to specify -j<think time> with -i<burst size>: give both or neither"),
    (lambda s, t: s.outstanding and t.limited,
     "-g throughput control cannot be used with -O outstanding requests per thread: use -o instead of -O"),
    (lambda s, t: s.outstanding and t.think_ms,
     "-j think time cannot be used with -O outstanding requests per thread: use -o instead of -O"),
    (lambda s, t: s.outstanding and t.parallel,
     "-p parallel IO cannot be used with -O outstanding requests per thread: leave -p out"),
    (lambda s, t: t.random_pct and t.separation_bytes,
     "-T conflicts with -r: it separates sequential threads; leave one out"),
    (lambda s, t: t.random_pct and t.interlocked,
     "-si conflicts with -r: threads cannot share a position that is drawn; leave one out"),
    (lambda s, t: t.random_pct and t.parallel, "-p conflicts with -r: leave one out"),
    (lambda s, t: not t.random_pct and t.distribution,
     "random distribution ranges (-rd) do not apply to sequential-only IO patterns: add -r or -rs"),
    (lambda s, t: t.interlocked and t.separation_bytes,
     "-si conflicts with -T: interlocked threads share one position; leave one out"),
    (lambda s, t: t.interlocked and t.parallel, "-si conflicts with -p: leave one out"),
    (lambda s, t: t.separation_bytes and not t.random_pct and not s.several_threads(t),
     "-T has no effect unless multiple threads per target are used: add -t, or leave -T out"),
    (lambda s, t: t.source_bytes and t.source_bytes < t.block_bytes,
     "custom write buffer (-Z) is smaller than the block size: give at least one block (-b)"),
    (lambda s, t: t.mmap and s.completion_routines,
     "completion routines (-x) can't be used with memory mapped IO (-Sm): leave -x out"),
    (lambda s, t: t.mmap and t.cache == "none",
     "unbuffered IO (-Su or -Sh) can't be used with memory mapped IO (-Sm): a map is a cache; leave one out"),
    (lambda s, t: t.map_flush and not t.mmap,
     "memory mapped flush mode (-N) can only be specified with memory mapped IO (-Sm): add -Sm"),
    (lambda s, t: t.max_bytes and t.max_bytes <= t.base_bytes,
     "maximum (-f) target offset must be greater than base (-B): swap them"),
)  # fmt: skip

_WARNINGS: tuple[Rule, ...] = (
    (lambda s, t: t.parallel and t.outstanding < 2,
     "-p does not have effect unless outstanding I/O count (-o) is > 1"),
    (lambda s, t: t.interlocked and not s.several_threads(t), "single-threaded test, -si ignored"),
    (lambda s, t: not (t.random_pct or t.interlocked or t.separation_bytes) and s.several_threads(t),
     "target access pattern will not be sequential, consider -si: every thread begins at the same offset"),
)  # fmt: skip


def check(profile: Profile) -> list[str]:
    """DiskSpd's own rules over a whole profile; its warnings. Raises UsageError for the first error."""
    if not profile.spans:
        raise UsageError("no timespans specified: the profile needs a TimeSpan with a Target")
    warnings: dict[str, None] = {}
    for span, target in _each(profile):
        for broken, message in _ERRORS:
            if broken(span, target):
                raise UsageError(message)
        if target.distribution is not None:
            _check_distribution(target.distribution.completed(), target.block_bytes)
        if not profile.only and target.path.startswith(TEMPLATE):
            raise UsageError(
                f"template target {target.path!r} was not substituted: give a target on the command line for each"
            )
        warnings |= dict.fromkeys(message for applies, message in _WARNINGS if applies(span, target))
    return list(warnings)


def _each(profile: Profile) -> Iterator[tuple[TimeSpan, TargetSpec]]:
    for span in profile.spans:
        if not span.targets:
            raise UsageError("need to provide at least one filename: name a target after the options")
        for target in span.targets:
            yield span, target


def _check_distribution(found: Distribution, block_bytes: int) -> None:
    used = covered = 0
    for at, (share, span) in enumerate(found.parts):
        if used + share > 100:
            raise UsageError(f"-rd: invalid IO% {share}: can be at most {100 - used}; the total must be <= 100%")
        if found.kind == "abs" and span < block_bytes and not (span == 0 and at == len(found.parts) - 1):
            raise UsageError(
                f"-rd: invalid target range {span}: must be a minimum of the block size ({block_bytes} bytes)"
            )
        used, covered = used + share, covered + span
        if found.kind == "pct" and covered > 100:
            raise UsageError(
                f"-rd: invalid Target% {span}: can be at most {100 - covered + span}; the total must be 100%"
            )
        if found.kind == "pct" and covered == 100 and used < 100:
            raise UsageError(f"-rd: the target is covered with {100 - used}% IO left to distribute: give it to a range")
    if found.kind == "pct" and covered != 100:
        raise UsageError(f"-rd: Target% ({covered}%) must total 100%: leave a share of IO for the rest")
