"""Every option of `naslab iozone`, as data: parsing, help, reference and the echo lines come from here.

Order: IOzone's letters, its `-+` letters, naslab's own long options.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

How = Literal["implemented", "changed", "no effect", "refused", "naslab"]
Kind = Literal["flag", "kib", "int", "count", "percent", "text", "names", "bytes"]


@dataclass(frozen=True)
class Option:
    """One option.

    flag: as written. kind: how its operand is read (`kib` = IOzone size, in KiB; `count` = integer >= 1;
    `names` = one or more file names; `bytes` = naslab size). operand: its name in the help, empty for none.
    how: `implemented` as IOzone does it; `changed` = implemented, better than IOzone, `note` says what
    differs; `no effect` = accepted with a warning that carries `note`; `refused` with `note` as reason.
    dest: attribute of `Args`; repeated: values are collected in a list.
    echo: the line IOzone prints in its banner, `{v}` is the value.
    """

    flag: str
    kind: Kind
    operand: str
    meaning: str
    how: How
    dest: str = ""
    note: str = ""
    echo: str = ""
    repeated: bool = False


def _flag(flag: str, dest: str, meaning: str, echo: str = "", how: How = "implemented", note: str = "") -> Option:
    return Option(flag, "flag", "", meaning, how, dest, note, echo)


def _value(
    flag: str, kind: Kind, operand: str, dest: str, meaning: str, echo: str = "",
    how: How = "implemented", note: str = "", repeated: bool = False,
) -> Option:  # fmt: skip
    return Option(flag, kind, operand, meaning, how, dest, note, echo, repeated)


def _refused(flag: str, operand: str, meaning: str, reason: str) -> Option:
    return Option(flag, "text" if operand else "flag", operand, meaning, "refused", "", reason)


_CLUSTER = "naslab uses its own protocol between clients: give only -+m FILE"
_DEDUPE = "only the share of duplicate data can be chosen (-+w PCT); naslab chooses granule, scope and seed"
_TELEMETRY = "naslab does not read telemetry files: convert the trace and use `naslab replay TARGET TRACE`"

IOZONE_LETTERS: tuple[Option, ...] = (
    _flag("-a", "auto", "auto mode: files of 64 KiB to 512 MiB, records of 4 KiB to 16 MiB", "Auto Mode"),
    _flag("-A", "auto2", "the same as -az -i 0 -i 1", "Auto Mode 2. This option is obsolete. Use -az -i0 -i1 ",
          "changed", "obsolete in IOzone too: write -az -i 0 -i 1"),
    _value("-b", "text", "FILE", "excel", "write a spreadsheet: .xls (BIFF8) or .xlsx with 3D charts; implies -R",
           how="changed", note=".xls is BIFF8 (extra `xls`), which today's programs read; IOzone wrote BIFF2"),
    _flag("-B", "mmap", "files are accessed through mmap; tests 6 and 7 are left out", "Using mmap files"),
    _flag("-c", "close_timed", "close() is part of the timed window", "Include close in write timing"),
    _flag("-C", "children", "print a line per child in throughput mode"),
    _refused("-d", "USEC", "delay between releasing children",
             "naslab releases all workers at once; a staggered start distorts what the stonewall measures"),
    _refused("-D", "", "msync(MS_ASYNC) on mmap files", "on Linux MS_ASYNC does nothing: leave it out"),
    _flag("-e", "flush_timed", "fsync() is part of the timed window", "Include fsync in write timing"),
    _flag("-E", "extensions", "extension tests 9 to 12 (pwrite, pread)"),
    _value("-f", "text", "FILE", "file", "the file to test; its folder is the target (default ./iozone.tmp)"),
    _value("-F", "names", "FILE...", "names", "one file per child of throughput mode; before or after -t"),
    _value("-g", "kib", "SIZE", "max_file", "largest file of auto mode", "Using maximum file size of {v} kilobytes."),
    _refused("-G", "", "msync(MS_SYNC) on mmap files", "use -B -e, which flushes once, inside the timed window"),
    _flag("-h", "help", "this help"),
    _value("-H", "count", "DEPTH", "depth", "DEPTH outstanding operations", "POSIX async I/O (with bcopy). Depth {v}",
           "changed", "queue depth of naslab's engine on every test but 6 and 7, not POSIX aio"),
    _value("-i", "int", "TEST", "tests", "a test to run, may be repeated (table below)", repeated=True, how="changed",
           note="a test that does not exist is an error; IOzone ran test 0 instead"),
    _flag("-I", "direct", "O_DIRECT for all files", "O_DIRECT feature enabled", "changed",
          "refused by the target where it is not possible; IOzone went on with cached I/O"),
    _value("-j", "count", "N", "stride", "the stride of test 5 in records (default 17)"),
    _value("-J", "int", "MSEC", "think_ms", "think time before each operation",
           "Compute time {seconds:f} seconds for reads and writes."),
    _value("-k", "count", "DEPTH", "depth", "DEPTH outstanding operations", "POSIX async I/O (no bcopy). Depth {v} ",
           "changed", "the same as -H"),
    _refused("-K", "", "two tiny extra reads every 100 records",
             "it was meant to defeat the read-ahead of the 1990s, and its read rate means nothing: use test 2 "
             "(random)"),
    _value("-l", "count", "N", "lower", "lowest number of children"),
    _value("-L", "count", "BYTES", "line_bytes", "processor cache line", how="no effect",
           note="IOzone uses the cache line size for alignment and purging only; naslab's buffers are page-aligned"),
    _flag("-m", "multi_buffer", "many buffers", how="no effect",
          note="naslab always uses a pool of aligned buffers"),
    _flag("-M", "machine", "print uname", "Machine = {uname}"),
    _value("-n", "kib", "SIZE", "min_file", "smallest file of auto mode", "Using minimum file size of {v} kilobytes."),
    _flag("-N", "usec", "report microseconds per operation",
          "Microseconds/op Mode. Output is in microseconds per operation."),
    _flag("-o", "sync_all", "O_SYNC writes", "SYNC Mode. "),
    _flag("-O", "iops", "report operations per second", "OPS Mode. Output is in operations per second."),
    _flag("-p", "purge", "purge the processor cache", how="no effect",
          note="it purges the processor's cache, not the page cache: use -U, or -I, to measure without a cache"),
    _refused("-P", "CPU", "bind children to processors", "use taskset -c LIST naslab iozone ... instead"),
    _value("-q", "kib", "SIZE", "max_record", "largest record of auto mode", "Using Maximum Record Size {v} kB"),
    _flag("-Q", "offset_files", "write offset/latency files (wol.dat ...)", "Offset/latency files enabled."),
    _value("-r", "kib", "SIZE", "records", "record size; repeated: a list", "Record Size {v} kB", repeated=True),
    _flag("-R", "report", "print the report tables", "Excel chart generation enabled"),
    _value("-s", "kib", "SIZE", "sizes", "file size; repeated: a list", "File size set to {v} kB", repeated=True),
    _value("-S", "count", "KIB", "cache_kib", "processor cache", how="no effect",
           note="IOzone uses the processor cache size for alignment and purging only"),
    _value("-t", "count", "N", "counts", "throughput mode with N children; repeated: one run each", repeated=True),
    _flag("-T", "threads", "children are threads", how="changed",
          note="naslab's workers are always threads; the option only changes the output's wording"),
    _value("-u", "count", "N", "upper", "highest number of children"),
    _value("-U", "text", "MOUNT", "mount", "unmount and mount MOUNT before every pass", how="changed",
           note="gives up after 10 s per step and ends the run; IOzone retries for hours, then continues"),
    _flag("-v", "version", "print the version"),
    _value("-V", "int", "BYTE", "pattern", "fill with BYTE (0 to 255) and verify all data read",
           "Verify Mode. Pattern {hex}\n\tPerformance measurements are invalid in this mode."),
    _flag("-w", "keep", "keep the files", "Setting no_unlink"),
    _flag("-W", "lock_file", "lock the file", "Lock file when reading/writing."),
    _flag("-x", "no_stonewall", "the first child to finish does not stop the others", "Stonewall disabled"),
    _refused("-X", "FILE", "write telemetry", _TELEMETRY),
    _value("-y", "kib", "SIZE", "min_record", "smallest record of auto mode", "Using Minimum Record Size {v} kB"),
    _refused("-Y", "FILE", "read telemetry", _TELEMETRY),
    _flag("-z", "no_cutoff", "small records for large files too", "Cross over of record size disabled."),
    _refused("-Z", "", "mix mmap and file I/O", "run it once with -B and once without"),
)  # fmt: skip

IOZONE_PLUS: tuple[Option, ...] = (
    _value("-+a", "percent", "PCT", "compress_pct", "PCT percent of the data is compressible", "Zero Percent {v}"),
    _refused("-+A", "N", "madvise for mmap", "naslab gives no madvise hints: leave it out"),
    _refused("-+b", "KIB,MSEC", "bursts of writes", "use `naslab curve TARGET`, which sets the request rate"),
    _flag("-+B", "sequential_mix", "the mixed workload is sequential", ">>> Sequential Mixed workload. <<<"),
    _refused("-+c", "HOST", "cluster child (internal)", _CLUSTER),
    _refused("-+C", "PCT", "dedupe within files", _DEDUPE),
    _flag("-+d", "diagnose", "unique data, all of it verified",
          ">>> I/O Diagnostic mode enabled. <<<\n\tPerformance measurements are invalid in this mode."),
    _flag("-+D", "sync_data", "O_DSYNC writes", ">>> O_DSYNC mode enabled. <<<"),
    _flag("-+E", "foreign", "read-only tests on an existing file", ">>> No Verify mode. <<<"),
    _refused("-+F", "", "truncate before the mixed workload", "it makes the readers read holes: leave it out"),
    _refused("-+h", "HOST", "name of the cluster master", _CLUSTER),
    _refused("-+H", "HOST", "PIT time server", "naslab times with the monotonic clock: leave it out"),
    _refused("-+i", "PORT", "cluster port (internal)", _CLUSTER),
    _flag("-+J", "think_counted", "think time counts", ">>> Think time is included in throughput cal. <<<"),
    _flag("-+k", "constant_total", "the size is shared among the children"),
    _refused("-+K", "", "manual control of test 8", "undocumented in IOzone: use -+p PCT"),
    _flag("-+l", "lock_record", "lock each record", ">>> Record locking mode enabled. <<<"),
    _flag("-+L", "lock_shared", "lock each record, one file for all children",
          ">>> Record locking, shared file mode enabled. <<<"),
    _value("-+m", "text", "FILE", "cluster_file", "a client for each line of FILE: host, folder, program; with -t N",
           "Network distribution mode enabled.", "changed",
           "clients are started over ssh with --remote-python, once per host, with a child for each of its lines"),
    _refused("-+M", "", "dedupe and compression", "use -+a PCT and -+w PCT"),
    _flag("-+n", "no_retest", "no second passes; their column shows 0", "No retest option selected"),
    _flag("-+N", "no_truncate", "test 0 overwrites an existing file instead of removing it"),
    _refused("-+O", "N", "operations limit (undocumented)", "set the file size instead"),
    _value("-+p", "percent", "PCT", "read_pct", "share of readers in the mixed workload",
           "Percent read in mix test is {v}"),
    _refused("-+P", "SERVICE", "PIT time service", "naslab times with the monotonic clock: leave it out"),
    _value("-+q", "int", "SEC", "pause_s", "pause before each pass but the first",
           "Delay {v} seconds between tests enabled."),
    _refused("-+Q", "SIZE", "dedupe granule", _DEDUPE),
    _flag("-+r", "sync_reads", "O_RSYNC and O_SYNC", "Read & Write sync mode active."),
    _value("-+R", "text", "FILE", "names_file", "take the names of -F from FILE, one per line",
           "Filenames from a file option enabled. File: {v}"),
    _refused("-+s", "", "cluster slave (internal)", _CLUSTER),
    _refused("-+S", "N", "dedupe seed", _DEDUPE),
    _refused("-+t", "", "network test of a cluster", "use `naslab reference net HOST`"),
    _refused("-+T", "", "time stamps in Child logs", "the start and end of every cell are stored: `naslab show last`"),
    _flag("-+u", "cpu", "CPU use", "CPU utilization Resolution = 0.000 seconds.\n\tCPU utilization Excel chart enabled",
          "changed", "the CPU of the timed window only; IOzone's included remount, open and the untimed fsync"),
    _flag("-+V", "shared_file", "one file for all children, no locks", ">>> Shared file mode enabled. <<<"),
    _value("-+w", "percent", "PCT", "dedupe_pct", "PCT percent of the data is duplicate",
           "Dedup activated {v} percent."),
    _refused("-+W", "N", "dedupe skew", _DEDUPE),
    _value("-+x", "count", "K", "multiplier", "auto mode multiplies sizes by K instead of 2"),
    _refused("-+X", "", "short circuit mode", "it moves no data: `naslab run null:` measures the engine alone"),
    _refused("-+y", "PCT", "dedupe within and across files", _DEDUPE),
    _flag("-+z", "histograms", "write Iozone_histogram_child_N.txt", "Histogram summary enabled."),
    _refused("-+Z", "", "old data sets", "use --iozone-data instead"),
)  # fmt: skip

_OWN: How = "naslab"
NASLAB: tuple[Option, ...] = (
    _flag("--iozone-data", "iozone_data", "write IOzone's data: zeros except for 8 bytes per page (200x)", how=_OWN),
    _flag("--overwrite", "overwrite", "existing files that naslab did not make may be overwritten", how=_OWN),
    _flag("--force", "force", "replace the file of -b, add to those of -Q and -+z, whatever they hold", how=_OWN),
    _flag("--read-existing", "read_existing", "existing files that naslab did not make may be read", how=_OWN),
    _value("--umount-command", "text", "CMD", "umount_command", "run instead of `umount MOUNT`", how=_OWN),
    _value("--mount-command", "text", "CMD", "mount_command", "run instead of `mount MOUNT`", how=_OWN),
    _value("--store", "text", "FILE", "store", "the store of results (default: NASLAB_STORE or the user's data folder)",
           how=_OWN),
    _value("--credentials", "text", "FILE", "credentials",
           "file with username=, password= and domain= for smb:// addresses, in the format of mount.cifs", how=_OWN),
    _value(
        "--label", "text", "KEY=VALUE", "labels", "a condition of the test, kept with the run; may be repeated",
        how=_OWN, repeated=True,
    ),
    _value("--remote-python", "text", "FILE", "remote_python", "Python on the clients of -+m, which has naslab",
           how=_OWN),
    _value("--remote-shell", "text", "COMMAND", "remote_shell",
           "starts naslab-agent on the clients of -+m instead of ssh: 'srun -N1 -n1 -w {host}'", how=_OWN),
    _value("--agent", "text", "FILE", "agent",
           "naslab-agent, or a folder of several: copied to the clients of -+m, used instead of Python", how=_OWN),
    _value("--ssh-user", "text", "NAME", "ssh_user", "user on clients of -+m that name none", how=_OWN),
    _value("--ssh-port", "count", "N", "ssh_port", "port of clients of -+m that name none", how=_OWN),
    _value("--ssh-key", "text", "FILE", "ssh_key", "private key for the clients of -+m", how=_OWN),
    _value("--note", "text", "TEXT", "note", "note kept with the run", how=_OWN),
    _value("--seed", "int", "N", "seed", "seed of data and random order (IOzone's are constant; so is the default)",
           how=_OWN),
    _flag("--quiet", "quiet", "no progress on standard error (shown when rows go to a file or with --json)", how=_OWN),
    _flag("--json", "json", "print the run document instead of IOzone's text", how=_OWN),
    _flag("--verify", "verify", "tag every block and check it when read", how=_OWN),
    _value("--max-bytes", "bytes", "SIZE", "max_bytes", "refuse a plan that moves more (20G = 20 * 2^30)", how=_OWN),
)  # fmt: skip

OPTIONS: tuple[Option, ...] = IOZONE_LETTERS + IOZONE_PLUS + NASLAB
BY_FLAG: dict[str, Option] = {option.flag: option for option in OPTIONS}

TEST_TEXTS: tuple[str, ...] = (
    "write, rewrite", "read, reread", "random read, random write", "backward read", "record rewrite",
    "stride read", "fwrite, frewrite", "fread, freread", "mixed workload (throughput mode only)",
    "pwrite, repwrite", "pread, repread", "pwritev (carried out as 9)", "preadv (carried out as 10)",
)  # fmt: skip


def help_text() -> str:
    """What `naslab iozone -h` prints."""
    lines = ["Usage: naslab iozone [OPTIONS]     IOzone's command line over naslab's engine", ""]
    for option in OPTIONS:
        left = f"{option.flag} {option.operand}".rstrip()
        refused = " [refused]" if option.how == "refused" else " [no effect]" if option.how == "no effect" else ""
        lines.append(f"  {left:<24} {option.meaning}{refused}")
    lines += ["", "Tests (-i):", *(f"  {n:>2}  {text}" for n, text in enumerate(TEST_TEXTS))]
    lines += ["", "Sizes: bare numbers are KiB; k, m, g are KiB, MiB, GiB. -f also takes smb:// and nfs:// addresses."]
    return "\n".join(lines) + "\n"


def reference_text() -> str:
    """docs/reference/iozone.md, made from the table; a test fails when the file is stale."""
    lines = [
        "# `naslab iozone`: the options",
        "",
        "Generated from `naslab.commands.iozone.options`; do not edit. Regenerate it with",
        "`python -m naslab.commands.iozone.options > docs/reference/iozone.md`.",
        "",
        "Every option of IOzone 3.489 is listed. *implemented*: as IOzone does it. *changed*: implemented, the note",
        "says what differs. *no effect*: accepted with a warning. *refused*: an error that says why, and what to use",
        "instead.",
        "Options bundle (`-Rab out.xls`). Sizes are integers in KiB, or end in `k`, `m`, `g` (powers of 1024);",
        "fractions and unknown suffixes, which IOzone cuts off silently, are errors.",
    ]
    for title, options in (("IOzone's letters", IOZONE_LETTERS), ("IOzone's `-+` letters", IOZONE_PLUS)):
        lines += ["", f"## {title}", "", "| option | meaning | here | note |", "|---|---|---|---|"]
        lines += _rows(options, with_how=True)
    lines += ["", "## naslab's own options", "", "| option | meaning |", "|---|---|", *_rows(NASLAB, with_how=False)]
    lines += ["", "## Tests", "", "| `-i` | test |", "|---|---|"]
    lines += [f"| {number} | {text} |" for number, text in enumerate(TEST_TEXTS)]
    return "\n".join(lines) + "\n"


def _rows(options: Iterable[Option], with_how: bool) -> list[str]:
    rows = []
    for option in options:
        name = f"`{option.flag} {option.operand}".rstrip() + "`"
        cells = [name, option.meaning] + ([option.how, option.note] if with_how else [])
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return rows


if __name__ == "__main__":
    print(reference_text(), end="")
