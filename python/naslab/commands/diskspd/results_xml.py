"""-Rxml: DiskSpd 2.2's elements in its order, with what naslab measures. Text is escaped, which DiskSpd leaves out.

Left out, because it is not measured: intervals of each thread when there are several.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from naslab import __version__
from naslab.commands.diskspd import profile_xml
from naslab.commands.diskspd.figures import KINDS, Cpu, Figures, Interval, Part, Row
from naslab.commands.diskspd.machine import Machine
from naslab.commands.diskspd.plan import ranges
from naslab.commands.diskspd.processors import Usage
from naslab.commands.diskspd.profile import Profile
from naslab.commands.diskspd.text import INTERRUPTED
from naslab.commands.diskspd.xml_lines import XmlLines

LAYOUT_VERSION, LAYOUT_DATE = "2.2.0", "2024/6/3"
_PERCENTS = (*(str(percent) for percent in range(1, 100)), *("99." + "9" * nines for nines in range(1, 8)))
_NAMES = {"read": "Read", "write": "Write", "total": "Total"}


def results_xml(profile: Profile, machine: Machine, results: Sequence[Figures], notes: Sequence[str] = ()) -> str:
    """The whole of it. notes: comments in the profile."""
    lines = XmlLines()
    with lines.within("Results"):
        _system(machine, lines)
        profile_xml.write(profile, lines, notes)
        for figures in results:
            with lines.within("TimeSpan"):
                if figures.seconds > 0:
                    _span(figures, machine, lines)
                else:
                    lines.add("Error", INTERRUPTED.strip())
    return lines.text()


def _system(machine: Machine, lines: XmlLines) -> None:
    count = len(machine.processors)
    everyone = hex((1 << count) - 1)
    with lines.within("System"):
        lines.add("ComputerName", machine.name)
        lines.comment(f"naslab {__version__}, in the layout of DiskSpd")
        with lines.within("Tool"):
            lines.add("Version", LAYOUT_VERSION)
            lines.add("VersionDate", LAYOUT_DATE)
        lines.add("RunTime", machine.start)
        lines.empty("PowerScheme", Name="<unknown>", Guid="")
        with lines.within("ProcessorTopology", Heterogeneous="false"):
            lines.empty(
                "Group", Group=0, MaximumProcessors=count, ActiveProcessors=count, ActiveProcessorMask=everyone
            )  # fmt: skip
            for name, parts in (("Node", machine.nodes), ("Socket", machine.sockets)):
                for number, mask in parts:
                    with lines.within(name, **{name: number}):
                        lines.empty("Group", Group=0, Mask=hex(mask))
            for number, mask in machine.cores:
                lines.empty("Core", Group=0, Core=number, Mask=hex(mask), EfficiencyClass=0)


def _span(figures: Figures, machine: Machine, lines: XmlLines) -> None:
    span = figures.planned.span
    lines.add("TestTimeSeconds", f"{figures.seconds:.2f}")
    lines.add("ThreadCount", figures.threads)
    lines.add("RequestCount", span.outstanding)
    lines.add("ProcCount", len(machine.processors))
    _cpu(figures, machine, lines)
    if span.latency:
        _latency(figures, lines)
    if span.iops:
        _iops(figures, lines)
    threads: dict[int, list[Row]] = {}
    for row in figures.rows:
        threads.setdefault(row.thread, []).append(row)
    for number, rows in threads.items():
        with lines.within("Thread"):
            lines.add("Id", number)
            for row in rows:
                with lines.within("Target"):
                    _row(figures, row, lines)


def _cpu(figures: Figures, machine: Machine, lines: XmlLines) -> None:
    with lines.within("CpuUtilization"):
        for one in figures.processors:
            socket, node, core = machine.place_of(one.number)
            with lines.within("CPU"):
                for name, value in (
                    ("Socket", socket), ("Node", node), ("Group", 0), ("Core", core), ("EfficiencyClass", 0),
                    ("Id", one.number),
                ):  # fmt: skip
                    lines.add(name, value)
                _shares(one, lines)
        with lines.within("Average"):
            _shares(figures.cpu, lines)


def _shares(cpu: Cpu | Usage, lines: XmlLines) -> None:
    for name in ("usage", "user", "kernel", "idle"):
        lines.add(f"{name.capitalize()}Percent", f"{getattr(cpu, name):.2f}")


def _latency(figures: Figures, lines: XmlLines) -> None:
    found = figures.latencies
    buckets = {
        f"{name}HistoBuckets": len(found[kind].histogram.counts) if kind in found else 0
        for kind, name in _NAMES.items()
    }
    with lines.within("Latency", **buckets):
        for kind, name, deviation in (
            ("read", "Read", "ReadLatencyStdev"), ("write", "Write", "WriteLatencyStdev"),
            ("total", "Total", "LatencyStdev"),
        ):  # fmt: skip
            part = figures.total(kind)  # type: ignore[arg-type]
            if part.ops:
                lines.add(f"Average{name}Milliseconds", _ms(part.mean_ns))
                lines.add(deviation, _ms(part.stddev_ns))
        for percent in ("0", *_PERCENTS, "100"):
            with lines.within("Bucket"):
                lines.add("Percentile", percent)
                for kind, name in _NAMES.items():
                    if kind in found:
                        lines.add(f"{name}Milliseconds", _ms(found[kind].at(float(percent) / 100)))


def _iops(figures: Figures, lines: XmlLines) -> None:
    """Of all threads: deviations, and every interval."""
    with lines.within("Iops"):
        _deviations({kind: figures.iops_stddev(kind) for kind in _NAMES}, lines)  # type: ignore[arg-type]
        if any(figures.intervals.values()):
            lines.comment("naslab: latencies of intervals are counted in buckets a quarter of a power of two wide")
        for at in range(max((len(counts) for counts in figures.counts.values()), default=0)):
            _bucket(figures, at, lines)


def _bucket(figures: Figures, at: int, lines: XmlLines) -> None:
    """One interval. Latencies of a kind that did not occur are 0, as in DiskSpd; unrecorded ones are left out."""
    span_ms = figures.planned.span.bucket_ms
    rates = {kind: figures.counts[kind][at] / (span_ms / 1000) if kind in figures.counts else 0.0 for kind in KINDS}
    latencies: dict[str, str] = {}
    if all(len(each) > at for each in figures.intervals.values()):
        for kind in KINDS:
            found = figures.intervals[kind][at] if kind in figures.intervals else Interval()
            for name, value in (
                ("MinLatencyMilliseconds", found.lowest_ns), ("MaxLatencyMilliseconds", found.highest_ns),
                ("AvgLatencyMilliseconds", found.mean_ns), ("LatencyStdDev", found.stddev_ns),
            ):  # fmt: skip
                latencies[f"{_NAMES[kind]}{name}"] = _ms(value)
    lines.empty(
        "Bucket", SampleMillisecond=span_ms * (at + 1), Read=f"{rates['read']:.0f}", Write=f"{rates['write']:.0f}",
        Total=f"{sum(rates.values()):.0f}", **latencies,
    )  # fmt: skip


def _deviations(found: Mapping[str, float | None], lines: XmlLines) -> None:
    for kind, name in (("read", "ReadIopsStdDev"), ("write", "WriteIopsStdDev"), ("total", "IopsStdDev")):
        value = found[kind]
        if value is not None:
            lines.add(name, f"{value:.3f}")


def _row(figures: Figures, row: Row, lines: XmlLines) -> None:
    read, write, total = row.part("read"), row.part("write"), row.part("total")
    lines.add("Path", row.path)
    lines.add("BytesCount", total.bytes)
    lines.add("FileSize", row.file_bytes)
    lines.add("IOCount", total.ops)
    for name, part in (("Read", read), ("Write", write)):
        lines.add(f"{name}Bytes", part.bytes)
        lines.add(f"{name}Count", part.ops)
    if figures.planned.span.targets[0].distribution is not None:
        _effective(figures, lines)
    if figures.planned.span.latency:
        for name, part in (("Read", read), ("Write", write), ("", total)):
            _row_latency(name, part, lines)
    if figures.planned.span.iops and len(figures.rows) == 1:
        _iops(figures, lines)
    elif figures.planned.span.iops:
        with lines.within("Iops"):
            _deviations({kind: figures.row_iops_stddev(row, kind) for kind in _NAMES}, lines)  # type: ignore[arg-type]


def _effective(figures: Figures, lines: XmlLines) -> None:
    """Where -rd put the operations; parts of the target without any have IO 0."""
    at = 0
    with lines.within("Distribution"), lines.within("Absolute"):
        for share, start, length in ranges(figures.planned.span.targets[0], figures.planned.region[1]):
            if start != at:
                lines.add("Range", start - at, IO=0)
            lines.add("Range", length, IO=share)
            at = start + length


def _row_latency(name: str, part: Part, lines: XmlLines) -> None:
    if part.ops:
        lines.add(f"Average{name}LatencyMilliseconds", _ms(part.mean_ns))
        lines.add(f"{name}LatencyStdev", _ms(part.stddev_ns))


def _ms(nanoseconds: float) -> str:
    return f"{nanoseconds / 1e6:.3f}"
