"""DiskSpd's text, in the layout of 2.2 or of 2.0.21a."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from naslab.commands.diskspd.figures import Cpu, Figures, Latencies, Part, Section
from naslab.commands.diskspd.machine import Machine
from naslab.commands.diskspd.plan import ranges
from naslab.commands.diskspd.processors import Usage
from naslab.commands.diskspd.profile import Distribution, Profile, TargetSpec, TimeSpan
from naslab.commands.diskspd.sizes import shown, shown_old

STARS = "*" * 79
INTERRUPTED = "The test was interrupted before the measurements began. No results are displayed.\n"
PERCENTILES = (
    (0.25, "25th"), (0.50, "50th"), (0.75, "75th"), (0.90, "90th"), (0.95, "95th"), (0.99, "99th"),
    *((1 - 10.0**-nines, f"{nines}-nines") for nines in range(3, 10)),
)  # fmt: skip
_SECTIONS: tuple[tuple[str, Section], ...] = (("Total IO", "total"), ("Read IO", "read"), ("Write IO", "write"))
_PRIORITIES = {1: "very low", 2: "low", 3: "normal"}
_CACHES = {
    "cached": "using software cache",
    "remote": "local software cache disabled, remote cache enabled",
    "none": "software cache disabled",
}


def results_text(profile: Profile, machine: Machine, results: Sequence[Figures], notes: Sequence[str] = ()) -> str:
    """All that DiskSpd prints after a run. notes: what differs from DiskSpd, in the input parameters."""
    old = profile.compat == "2.0.21"
    parts = [profile_text(profile, notes), _system(machine, old)]
    for number, figures in enumerate(results, 1):
        parts.append(("\n\n" if old else "\n") + f"Results for timespan {number}:\n{STARS}\n")
        parts.append("".join(_span_results(figures, machine, old)))
    if len(results) > 1:
        parts.append("".join(_totals(results)))
    return "".join(parts)


def profile_text(profile: Profile, notes: Sequence[str] = ()) -> str:
    """Command line and input parameters."""
    old = profile.compat == "2.0.21"
    lines = [f"\nCommand Line: {profile.command_line}\n", "\nInput parameters:\n\n"]
    if profile.verbose:
        lines.append("\tusing verbose mode\n")
    for number, span in enumerate(profile.spans, 1):
        lines.append(f"\ttimespan: {number:>3}\n\t-------------\n")
        lines += _span(span, old)
        lines.append("\n")
    lines += [f"\tnaslab: {text}\n" for text in notes]
    return "".join(lines) + ("\n" if notes else "")


def _span(span: TimeSpan, old: bool) -> Iterator[str]:
    yield f"\tduration: {span.duration_s}s\n\twarm up time: {span.warmup_s}s\n\tcool down time: {span.cooldown_s}s\n"
    if span.no_affinity:
        yield "\taffinity disabled\n"
    if span.latency:
        yield "\tmeasuring latency\n"
    if span.iops:
        yield f"\tgathering IOPS at intervals of {span.bucket_ms}ms\n"
    yield f"\trandom seed: {span.seed}\n"
    if span.threads and not old:
        yield f"\tthread pool with {span.threads} threads\n"
        yield f"\tnumber of outstanding I/O operations per thread: {span.outstanding}\n"
    if span.affinity:
        pairs = ", ".join(f"{group}/{processor}" for group, processor in span.affinity)
        yield f"\tadvanced affinity round robin (group/core): {pairs}\n"
    if span.random_data:
        yield "\tgenerating random data for each write IO\n"
    for target in span.targets:
        yield from (f"\t{line}\n" for line in _target(target, span, old))


def _target(target: TargetSpec, span: TimeSpan, old: bool) -> Iterator[str]:
    template = target.path.startswith("*") and not old
    yield f"path: template target '{target.shown[1:]}'" if template else f"path: '{target.shown}'"
    for line in (*_caching(target), *_load(target, span, old), *_rest(target, span, old)):
        yield "\t" + line


def _caching(target: TargetSpec) -> Iterator[str]:
    yield f"think time: {target.think_ms}ms"
    yield f"burst size: {target.burst}"
    yield _CACHES[target.cache]
    if target.write_through:
        what = "hardware write cache" if target.cache == "none" else "hardware and software write caches"
        yield f"{what} disabled, writethrough on"
    else:
        yield "using hardware write cache, writethrough off"
    if target.mmap:
        yield "memory mapped I/O enabled" + (", flush mode: FlushViewOfFile" if target.map_flush == "v" else "")
    if target.pattern == "zero":
        yield "zeroing write buffers"
    if target.source_bytes:
        yield f"write buffer size: {shown(target.source_bytes)}"
        yield (
            f"write buffer source: {target.source_path!r}" if target.source_path else "write buffer source: random fill"
        )
    if target.parallel:
        yield "using parallel async I/O"


def _load(target: TargetSpec, span: TimeSpan, old: bool) -> Iterator[str]:
    written = target.write_pct
    if written in (0, 100):
        yield f"performing {'write' if written else 'read'} test"
    else:
        yield f"performing mix test (read/write ratio: {100 - written}/{written})"
    size = str if old else shown
    yield f"block size: {size(target.block_bytes)}"
    step = size(target.step_bytes)
    if target.random_pct == 100:
        yield f"using random I/O (alignment: {step})"
    elif target.random_pct:
        yield f"using mixed random/sequential I/O ({target.random_pct}% random) (alignment/stride: {step})"
    else:
        yield f"using{' interlocked' if target.interlocked else ''} sequential I/O (stride: {step})"
    if not span.threads or not span.outstanding:
        yield f"number of outstanding I/O operations{'' if old else ' per thread'}: {target.outstanding}"
    elif not old:
        yield "relative IO weight in thread pool: 1"
    for text, value in (("base file offset", target.base_bytes), ("max file size", target.max_bytes)):
        if value:
            yield f"{text}: {size(value)}"
    if target.separation_bytes or old:
        yield f"thread stride size: {size(target.separation_bytes)}"


def _rest(target: TargetSpec, span: TimeSpan, old: bool) -> Iterator[str]:
    for letter, hint in (
        ("s", "FILE_FLAG_SEQUENTIAL_SCAN"), ("r", "FILE_FLAG_RANDOM_ACCESS"), ("t", "FILE_ATTRIBUTE_TEMPORARY"),
    ):  # fmt: skip
        if letter in target.hints:
            yield f"using {hint} hint"
    if not span.threads:
        yield f"threads per file: {target.threads}"
        if target.outstanding > 1:
            ways = (
                "completion routines (ReadFileEx/WriteFileEx)" if span.completion_routines else "I/O Completion Ports"
            )
            yield f"using {ways}"
    yield f"IO priority: {_PRIORITIES.get(target.priority, 'unknown')}"
    if target.limit_per_s:
        yield f"throughput rate-limited to {target.limit_per_s} IOPS"
    elif target.limit_bytes_per_ms and not old:
        yield f"throughput rate-limited to {target.limit_bytes_per_ms} B/ms"
    if target.distribution is not None:
        yield "IO Distribution:"
        yield from _distribution(target.distribution.completed())


def _distribution(found: Distribution) -> Iterator[str]:
    at = 0
    for share, span in found.parts:
        if found.kind == "pct":
            yield f"   {share:>3}% of IO => [{at:>2}% - {at + span:>3}%) of target"
        else:
            first = shown(at, 6) if at else "     0   "
            yield f"   {share:>3}% of IO => [{first} - " + (f"{shown(at + span, 6)})" if span else "      end)")
        at += span


def _system(machine: Machine, old: bool) -> str:
    text = f"System information:\n\n\tcomputer name: {machine.name}\n\tstart time: {machine.start}"
    if old:
        return text
    for name, count in (
        ("cpu", len(machine.processors)), ("core", len(machine.cores)), ("group", 1), ("node", len(machine.nodes)),
        ("socket", len(machine.sockets)),
    ):  # fmt: skip
        text += ("\n" if name == "cpu" else "") + f"\n\t{name} count:\t\t{count}"
    return text + "\n\theterogeneous cores:\tn\n\n\tactive power scheme:\t<unknown>\n"


def _span_results(figures: Figures, machine: Machine, old: bool) -> Iterator[str]:
    if figures.seconds <= 0:
        yield INTERRUPTED
        return
    span = figures.planned.span
    yield f"\nactual test time:\t{figures.seconds:.2f}s\nthread count:\t\t{figures.threads}\n"
    if span.threads and span.outstanding:
        yield f"request count:\t\t{span.outstanding}\n"
    if old:
        yield f"proc count:\t\t{len(machine.processors)}\n"
    yield from _cpu(figures, machine, old)
    if figures.planned.span.targets[0].distribution is not None:
        yield from _effective(figures)
    for title, section in _SECTIONS:
        yield f"\n{title}\n"
        yield from _section(figures, section, old)
    if span.latency:
        yield "\n\n\ntotal:\n" if old else "\nTotal latency distribution:\n"
        yield from _percentiles(figures)


def _cpu(figures: Figures, machine: Machine, old: bool) -> Iterator[str]:
    """A row for each processor where the system tells them apart, and the average.

    2.2 puts columns for sockets, nodes and cores before, where there are several (cores: with several threads).
    """
    several = () if old else (len(machine.sockets) > 1, len(machine.nodes) > 1, machine.threaded)
    columns = [
        column for column, there in zip((("Socket", 9), ("Node", 7), ("Core", 7)), several, strict=False) if there
    ]
    head = "".join(f"{name} | " for name, _ in columns)
    width = sum(wide for _, wide in columns)
    line = "-" * (width + (43 if old else 40)) + "\n"
    gap = " " if old else ""
    yield f"\n{head}CPU |  Usage |  User  | {gap}Kernel |  Idle\n{line}"
    for one in figures.processors:
        place = [number for number, there in zip(machine.place_of(one.number), several, strict=False) if there]
        cells = "".join(f"{number:>{wide - 2}}| " for number, (_, wide) in zip(place, columns, strict=True))
        yield f"{cells}{one.number:>4}| {_shares(one, gap)}"
    yield f"{line}{' ' * width}avg.| {_shares(figures.cpu, gap)}"


def _shares(cpu: Cpu | Usage, gap: str) -> str:
    return f"{cpu.usage:6.2f}%| {cpu.user:6.2f}%| {gap}{cpu.kernel:6.2f}%| {cpu.idle:6.2f}%\n"


def _effective(figures: Figures) -> Iterator[str]:
    """Where -rd put the operations: one set of ranges, since targets of a span share all but their path."""
    yield "\nEffective IO Distributions\n--------------------------\n"
    threads: dict[str, list[int]] = {}
    for row in figures.rows:
        threads.setdefault(row.path, []).append(row.thread)
    for path in sorted(threads):
        yield f"target: {path} [thread:{_runs(threads[path])}]\n"
    found = ranges(figures.planned.span.targets[0], figures.planned.region[1])
    total = sum(share for share, _, _ in found)
    for share, start, length in found:
        percent = f"   {share:>3}" if total == 100 else f"    {100 * share / total:.1f}"
        first = shown(start, 6) if start else "     0   "
        yield f"{percent}% of IO => [{first} - {shown(start + length, 6)})\n"


def _runs(numbers: Sequence[int]) -> str:
    """` 0 - 2 4`: three and more in a row are shortened."""
    text = ""
    for at, number in enumerate(numbers):
        before, after = numbers[at - 1 : at] == [number - 1], numbers[at + 1 : at + 2] == [number + 1]
        if not (before and after):
            text += f" {number}"
        elif numbers[at - 2 : at - 1] != [number - 2] or at < 2:
            text += " -"
    return text


def _section(figures: Figures, section: Section, old: bool) -> Iterator[str]:
    span = figures.planned.span
    latency, iops = span.latency, span.iops
    border = "-" * (66 + 11 * latency + 13 * iops + 12 * latency + 12) + "\n"
    yield (
        "thread |       bytes     |     I/Os     |    MiB/s   |  I/O per s "
        + "|  AvgLat  " * latency + "| IopsStdDev " * iops + "| LatStdDev " * latency + "|  file\n"
    )  # fmt: skip
    yield border
    deviation = figures.iops_stddev(section)
    size = shown_old if old else shown
    for row in figures.rows:
        columns = _columns(figures, row.part(section), figures.row_iops_stddev(row, section))
        yield f"{row.thread:>6} | {columns} | {row.path} ({size(row.file_bytes)})\n"
    yield border
    yield f"total:   {_columns(figures, figures.total(section), deviation)}\n"


def _columns(figures: Figures, part: Part, iops_stddev: float | None) -> str:
    span, seconds = figures.planned.span, figures.seconds
    text = f"{part.bytes:>15} | {part.ops:>12} | {part.bytes / (1 << 20) / seconds:10.2f} | {part.ops / seconds:10.2f}"
    if span.latency:
        text += f" | {part.mean_ns / 1e6:8.3f}"
    if span.iops:
        # Operations of a kind that did not occur deviate by nothing.
        value = 0.0 if iops_stddev is None and not part.ops else iops_stddev
        text += " |        N/A" if value is None else f" | {value:10.2f}"
    if span.latency:
        text += f" |  {part.stddev_ns / 1e6:8.3f}" if part.ops else " |       N/A"
    return text


def _percentiles(figures: Figures) -> Iterator[str]:
    yield "  %-ile |  Read (ms) | Write (ms) | Total (ms)\n" + "-" * 46 + "\n"
    found = [figures.latencies.get(kind) for kind in ("read", "write", "total")]
    for share, name in ((0.0, "min"), *PERCENTILES, (1.0, "max")):
        yield f"{name:>7} | " + " | ".join(_milliseconds(each, share) for each in found) + "\n"


def _milliseconds(latencies: Latencies | None, share: float) -> str:
    return f"{'N/A':>10}" if latencies is None else f"{latencies.at(share) / 1e6:10.3f}"


def _totals(results: Sequence[Figures]) -> Iterator[str]:
    """All time spans together; interrupted ones are left out."""
    known = [figures for figures in results if figures.seconds > 0]
    seconds = sum(figures.seconds for figures in known)
    yield f"\n\nTotals:\n{STARS}\n\n"
    yield "type   |       bytes     |     I/Os     |    MiB/s   |  I/O per s\n" + "-" * 79 + "\n"
    sections: tuple[Section, ...] = ("write", "read", "total")
    for section in sections:
        parts = [figures.total(section) for figures in known]
        moved, ops = sum(part.bytes for part in parts), sum(part.ops for part in parts)
        if section == "total":
            yield "-" * 79 + "\n"
        rate, per_s = (moved / (1 << 20) / seconds, ops / seconds) if seconds else (0.0, 0.0)
        yield f"{section:<6} | {moved:>15} | {ops:>12} | {rate:10.2f} | {per_s:10.2f}\n"
    yield f"\ntotal test time:\t{seconds:.2f}s\n"
