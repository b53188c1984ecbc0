"""What an IOzone command line may not combine, as tables of rules; what it changes, as warnings."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from pathlib import Path

from naslab.commands.iozone.args import MAX_RECORD_KIB, MIN_FILE_KIB, Args, read, read_names
from naslab.commands.iozone.cluster import read_cluster
from naslab.errors import UsageError
from naslab.targets.forms import PLACELESS, check_local, names_target, scheme_of
from naslab.text.outputs import IOZONE_SHEET, check_output, forcing

WRITING_TESTS = frozenset({0, 2, 4, 6, 8, 9})
"""Tests with a pass that writes."""

CREATING_TESTS = frozenset({0, 6, 9})
"""Tests that make the file when it is missing."""

OF_CLIENTS = ("remote_python", "remote_shell", "agent", "ssh_user", "ssh_port", "ssh_key")
_AUTO_BOUNDS = (("-n", "min_file"), ("-g", "max_file"), ("-y", "min_record"), ("-q", "max_record"))

Rule = tuple[Callable[[Args], object], str]

_REFUSALS: tuple[Rule, ...] = (
    (lambda a: a.throughput and a.has("-f"), "-f names one file, throughput mode (-t) needs one per child: use -F"),
    (lambda a: a.names and not a.throughput, "-F names the files of children: add -t N, or use -f FILE"),
    (lambda a: a.names_file and not a.throughput, "-+R names the files of children: add -t N"),
    (lambda a: a.names and a.names_file, "-F and -+R both name the files: give one of them"),
    (lambda a: a.throughput and a.automatic,
     "throughput mode (-t) takes one size and one record, not -a, -A or lists: give one -s and one -r"),
    (lambda a: a.throughput and a.no_cutoff, "-z belongs to auto mode and does nothing with -t: leave it out"),
    (lambda a: a.throughput and a.mount, "-U cannot remount under several children: leave out -t or -U"),
    (lambda a: a.throughput and a.usec, "-N (microseconds) is not defined for several children: use -O"),
    (lambda a: a.iops and a.usec, "-O and -N ask for two units: give one of them"),
    (lambda a: a.counts and (a.lower is not None or a.upper is not None),
     "-t gives the number of children, -l and -u a range: give one or the other"),
    (lambda a: a.lower is not None and a.upper is not None and a.lower > a.upper, "-l is above -u: swap them"),
    (lambda a: a.sizes and (a.min_file or a.max_file),
     "-s gives the file size, -n and -g a range: give one or the other"),
    (lambda a: a.records and (a.min_record or a.max_record),
     "-r gives the record size, -y and -q a range: give one or the other"),
    (lambda a: a.direct and a.mmap, "-I (O_DIRECT) and -B (mmap) exclude each other: leave one out"),
    (lambda a: a.mmap and a.depth > 1, "-B (mmap) has no queue: leave out -H and -k"),
    (lambda a: a.lock_file and (a.lock_record or a.lock_shared),
     "-W locks the file, -+l and -+L the records: give one of them"),
    (lambda a: a.diagnose and a.dedupe_pct, "-+d needs unique data, -+w duplicates it: give one of them"),
    (lambda a: a.pattern is not None and (a.diagnose or a.iozone_data or a.compress_pct or a.dedupe_pct),
     "-V fixes the data: leave out -+d, --iozone-data, -+a and -+w"),
    (lambda a: a.iozone_data and (a.diagnose or a.compress_pct or a.dedupe_pct or a.verify),
     "--iozone-data fixes the data: leave out -+d, -+a, -+w and --verify"),
    (lambda a: a.verify and (a.dedupe_pct or a.pattern is not None),
     "--verify tags every block, which makes it unique: leave out -+w and -V"),
    (lambda a: a.dedupe_pct > 99 or a.compress_pct > 99, "-+w and -+a take 0 to 99 percent here"),
    (lambda a: a.think_counted and not a.think_ms, "-+J counts think time, but -J gives none: add -J MSEC"),
    (lambda a: (a.umount_command or a.mount_command) and not a.mount,
     "--umount-command and --mount-command need -U MOUNT, the path to remount"),
    (lambda a: a.mount and "://" in a.file, "-U remounts a mounted path, -f is an address: leave out -U"),
    (lambda a: a.foreign and not a.tests, "-+E only reads: choose the tests with -i"),
    (lambda a: a.foreign and WRITING_TESTS & set(a.tests),
     "-+E only reads, but a test given with -i writes: use -i 1, -i 3, -i 5, -i 7, -i 10"),
    (lambda a: a.cluster_file and (not a.throughput or len(a.worker_counts()) != 1),
     "-+m needs one -t N, the number of its lines to use: add -t N, and leave out -l and -u"),
    (lambda a: a.cluster_file and (a.names or a.names_file or a.one_file),
     "-+m: files lie in a folder of each client: leave out -F, -+R, -+V and -+L"),
    (lambda a: a.cluster_file and (a.keep or a.foreign or a.read_existing or a.overwrite),
     "-+m: the clients' folders are removed with the run: leave out -w, -+E, --read-existing and --overwrite"),
    (lambda a: a.cluster_file is None and any(getattr(a, name) for name in OF_CLIENTS),
     "--remote-..., --agent and --ssh-... are for the clients of -+m: add -+m FILE, or leave them out"),
    (lambda a: a.foreign and not (a.has("-f") or a.names or a.names_file), "-+E needs the file: add -f FILE or -F"),
)  # fmt: skip

_WARNINGS: tuple[Rule, ...] = (
    (lambda a: a.auto2, "-A is obsolete: it is carried out as -az -i 0 -i 1"),
    (lambda a: a.mount, "-U gives up after 10 s per step and ends the run; IOzone retries for hours, then continues"),
    (lambda a: a.depth > 1, "-H/-k: queue depth of naslab's engine, not POSIX aio"),
    (lambda a: a.direct and {6, 7} & set(a.tests), "-I: tests 6 and 7 use stdio, which cannot bypass the cache"),
    (lambda a: a.threads and not a.throughput, "-T has no effect without -t"),
    (lambda a: a.children and not a.throughput, "-C has no effect without -t"),
    (lambda a: a.no_stonewall and not a.throughput, "-x has no effect without -t"),
    (lambda a: a.histograms and not a.throughput, "-+z has no effect without -t"),
    (lambda a: a.constant_total and not a.throughput, "-+k has no effect without -t"),
    (lambda a: a.shared_file and not a.throughput, "-+V has no effect without -t"),
    (lambda a: a.children and a.cpu and a.throughput,
     "CPU time is measured for all children together: the lines of -C carry no CPU"),
    (lambda a: a.read_pct is not None and 8 not in a.tests, "-+p has no effect without test 8 and -t"),
    (lambda a: a.sequential_mix and 8 not in a.tests, "-+B has no effect without test 8 and -t"),
    (lambda a: a.no_truncate and 0 not in a.tests, "-+N has no effect without test 0"),
    (lambda a: a.no_cutoff and a.automatic and (a.min_record or a.max_record or a.records or len(a.sizes) > 1),
     "-z has no effect here: -r, -y, -q and lists already switch the cut-off of small records off"),
    (lambda a: a.cpu and not a.throughput and not a.report, "-+u shows nothing without -R or -b"),
    (lambda a: a.pattern is not None or a.diagnose or a.verify, "verifying data takes time: the rates are not "
        "comparable"),
    (lambda a: not a.iozone_data and a.pattern is None and WRITING_TESTS & set(a.tests),
     "data is incompressible; IOzone writes pages of zeros that compress 200x: --iozone-data does the same"),
)  # fmt: skip


def parse(argv: Sequence[str]) -> Args:
    """The validated command line. Raises UsageError."""
    args = read(argv)
    if not (args.help or args.version):
        check(args)
    return args


def check(args: Args) -> None:
    """Completes the defaults, refuses contradictions, collects warnings. Raises UsageError."""
    for option, path in (("-b", args.excel), ("--store", args.store), ("-U", args.mount)):
        if path is not None:
            check_local(path, option)
    _check_bounds(args)
    for broken, message in _REFUSALS:
        if broken(args):
            raise UsageError(message)
    _check_sizes(args)
    _choose_tests(args)
    _check_cluster(args)
    _check_names(args)
    _check_excel(args)
    args.warnings += [message for applies, message in _WARNINGS if applies(args)]


def _check_bounds(args: Args) -> None:
    """-n -g -y -q without auto mode are an error that says so; IOzone accepted and ignored them."""
    for flag, dest in _AUTO_BOUNDS:
        if getattr(args, dest) is None or args.automatic:
            continue
        if args.throughput:
            raise UsageError(f"{flag} belongs to auto mode, which -t excludes: give -s SIZE and -r SIZE")
        raise UsageError(f"{flag} belongs to auto mode and IOzone would ignore it: add -a, or give -s SIZE and -r SIZE")
    if args.no_cutoff and not (args.automatic or args.throughput):
        raise UsageError("-z belongs to auto mode and IOzone would ignore it: add -a")
    if args.auto2:
        args.no_cutoff = True
        args.tests = args.tests or [0, 1]


def _check_sizes(args: Args) -> None:
    for flag, dest in (("-n", "min_file"), ("-g", "max_file")):
        value = getattr(args, dest)
        if value is not None and value < MIN_FILE_KIB:
            args.warnings.append(f"{flag} {value}: files are at least {MIN_FILE_KIB} KiB, as in IOzone")
            setattr(args, dest, MIN_FILE_KIB)
    for flag, values in (("-r", args.records), ("-y", [args.min_record]), ("-q", [args.max_record])):
        for value in values:
            if value is not None and value > MAX_RECORD_KIB:
                raise UsageError(f"{flag} {value}: IOzone's largest record is {MAX_RECORD_KIB} KiB (16m)")
    _ordered("-n", args.min_file or 64, "-g", args.max_file or 524288)
    _ordered("-y", args.min_record or 4, "-q", args.max_record or MAX_RECORD_KIB)
    for flag, sizes in (("-s", args.sizes), ("-r", args.records)):
        if sorted(set(sizes)) != sizes:
            args.warnings.append(f"{flag}: the list is run in ascending order, each size once")
            sizes[:] = sorted(set(sizes))


def _ordered(low_flag: str, low: int, high_flag: str, high: int) -> None:
    if low > high:
        raise UsageError(f"{low_flag} {low} is above {high_flag} {high} (KiB): nothing would be measured; swap them")


def _choose_tests(args: Args) -> None:
    """Default tests; 9 to 12 switch -E on; 8 outside throughput mode, 4 within and stdio under -B are left out."""
    asked = set(args.tests) or set(range(9 if args.throughput else 8)) | ({9, 10} if args.extensions else set())
    for number, instead in ((11, 9), (12, 10)):
        if number in asked:
            args.warnings.append(
                f"test {number} is carried out as test {instead}: Debian's IOzone lacks it, one buffer is one call"
            )
            asked = asked - {number} | {instead}
    if asked & {9, 10} and not args.extensions:
        args.extensions = True
        if not args.throughput:
            args.warnings.append("tests 9 to 12 switch -E on; IOzone would skip them silently")
    dropped = {8: "runs in throughput mode only: add -t N"} if not args.throughput else {}
    dropped |= {4: "does not exist in throughput mode"} if args.throughput and args.tests else {}
    if args.mmap or args.depth > 1:
        dropped |= dict.fromkeys((6, 7), "uses stdio, which has neither mmap (-B) nor a queue (-H, -k)")
    for number, reason in dropped.items():
        if number in asked:
            args.warnings.append(f"test {number} is left out: it {reason}")
    args.tests = sorted(asked - set(dropped) - ({4} if args.throughput else set()))
    if not args.tests:
        raise UsageError("no test is left to run: " + "; ".join(f"test {n} {why}" for n, why in dropped.items()))


def _check_cluster(args: Args) -> None:
    """The cluster file, and a first test that makes the files."""
    if args.cluster_file is None:
        return
    if args.tests[0] not in CREATING_TESTS:
        raise UsageError(f"-+m: test {args.tests[0]} needs files that only this run makes: add -i 0")
    args.cluster = read_cluster(args.cluster_file, args.worker_counts()[0])


def _check_names(args: Args) -> None:
    """Files of throughput mode, and files that reading tests need."""
    if args.names_file:
        args.names = read_names(args.names_file)
    most = max(args.worker_counts(), default=0)
    if args.names and len(args.names) != most and not args.one_file:
        raise UsageError(f"-F names {len(args.names)} files for {most} children: give one per child")
    named = [name for name in args.names if scheme_of(name) not in PLACELESS or "#" in name]
    if len(set(named)) != len(named):
        raise UsageError("-F names a file twice: give each child its own, or share one with -+V")
    names = args.names or ([] if args.throughput else [args.file])
    if CREATING_TESTS & {args.tests[0]} or not names:
        return
    for name in names:
        if not names_target(name) and not Path(name).is_file():
            raise UsageError(f"test {args.tests[0]} needs {name}, which does not exist: add -i 0, or give another -f")


def _check_excel(args: Args) -> None:
    if args.excel is None:
        return
    args.report = True
    path = Path(args.excel)
    with forcing(args.force):
        check_output(path, "-b", IOZONE_SHEET)
    if path.suffix.lower() not in (".xls", ".xlsx"):
        args.warnings.append(f"-b {args.excel}: written as .xls (BIFF8); name it .xlsx for 3D charts")
    if path.suffix.lower() != ".xlsx" and importlib.util.find_spec("xlwt") is None:
        hint = "pip install 'naslab[xls]', or name it .xlsx"
        raise UsageError(f"-b {args.excel}: a .xls is written by the library xlwt, which is not installed: {hint}")
