"""Every option of `naslab diskspd`, as data: help and reference come from here, and the parser's refusals.

Order: DiskSpd 2.2's options by letter, its forms of targets, naslab's own long options.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

How = Literal["implemented", "changed", "no effect", "refused", "naslab"]


@dataclass(frozen=True)
class Option:
    """One form of an option.

    flag: as written. operand: what follows it without a blank. default: when it is not given.
    how: `implemented` as DiskSpd 2.2 does it; `changed`: implemented, `note` says what differs; `no effect`:
    accepted with a note; `refused` with `note` as reason and next step; `naslab`: its own.
    since: False for what 2.0.21a lacks.
    """

    flag: str
    operand: str
    meaning: str
    default: str
    how: How = "implemented"
    note: str = ""
    since: bool = True


_EVENTS = "Windows events have no counterpart here: start runs one after the other in a script"
_WINDOWS_CACHE = "hints to the Windows cache manager; naslab passes none on"

DISKSPD: tuple[Option, ...] = (
    Option("-?", "", "this help", "–"),
    Option("-:", "FLAGS", "experimental behaviours", "none", "refused",
           "naslab's limiter never oversleeps: leave it out"),
    Option("-a", "", "affinity: threads to all processors in turn (also -ag)", "on", "no effect",
           "the scheduler places naslab's workers"),
    Option("-a", "[g#,]#[,#,...]", "affinity: threads to these processors in turn", "–", "changed",
           "all threads share these processors, and the scheduler places them; group 0 only, on Linux"),
    Option("-b", "SIZE", "block size; also the unit `b` of sizes", "64K"),
    Option("-B", "BASE[:LENGTH]", "first byte of the range that is used, and its length (2.2)", "whole target"),
    Option("-c", "SIZE", "create the files with this size", "–", "changed",
           "every byte is written before the test; an existing file that naslab did not make needs --overwrite"),
    Option("-C", "SECONDS", "cool-down: the load continues unmeasured", "0"),
    Option("-d", "SECONDS", "measured time", "10"),
    Option("-D", "[MS]", "statistics of I/O per second over intervals of MS milliseconds", "off; 1000", "changed",
           "with several threads and a mix, IopsStdDev of a thread's reads and writes together is N/A"),
    Option("-e", "...", "event tracing", "off", "refused", "ETW is Windows's tracing: leave it out"),
    Option("-f", "SIZE", "upper end of the range that is used", "whole target"),
    Option("-f", "rst", "hints: random, sequential, temporary", "none", "no effect", _WINDOWS_CACHE),
    Option("-F", "COUNT", "threads in total, each on every target", "–", "changed",
           "one worker per thread and target, with -o outstanding operations each"),
    Option("-g", "VALUE", "limit per thread and target in bytes per millisecond", "none"),
    Option("-g", "VALUEi", "limit per thread and target in operations per second", "none", since=False),
    Option("-h", "", "the same as -Sh", "–"),
    Option("-i", "COUNT", "operations of a burst; needs -j", "off"),
    Option("-I", "3", "priority of I/O: normal", "3", "no effect", "naslab always uses this one"),
    Option("-I", "1, -I2", "priority of I/O: very low, low", "3", "refused",
           "file protocols carry no priority: use ionice -c3 naslab diskspd ... for a local path"),
    Option("-j", "MS", "pause between bursts; needs -i", "off"),
    Option("-l", "", "large pages for buffers", "off", "no effect",
           "naslab's buffers come from a pool made before the run"),
    Option("-L", "", "report latency", "off"),
    Option("-n", "", "no affinity", "off", "no effect", "the scheduler places naslab's workers"),
    Option("-N", "v", "with -Sm: flush the view after each write (msync)", "none"),
    Option("-N", "n, -Ni", "with -Sm: flush as non-volatile memory", "none", "refused",
           "Linux has no such call for files: use -Nv, which calls msync"),
    Option("-o", "COUNT", "outstanding operations per thread and target", "2"),
    Option("-O", "COUNT", "outstanding operations per thread; with -F", "–", "changed",
           "one target only: naslab has no weights between targets"),
    Option("-p", "", "outstanding operations start at the same offset", "off", "refused",
           "with more than -o1 it measures one block again and again: use -o1, or -r to spread them"),
    Option("-P", "[COUNT]", "a dot for each COUNT operations", "off; 65536", "changed",
           "counted over all threads, and printed on standard error"),
    Option("-r", "[ALIGN]", "random offsets, multiples of ALIGN (not a share of reads)", "off; block"),
    Option("-rs", "PERCENT", "share of random offsets, the others follow the last one", "–", "changed",
           "reads and writes of a mix are drawn one by one, also within a sequential stretch", since=False),
    Option("-rd", "pct|abs...", "random offsets by ranges: share of operations / share or length of the target",
           "uniform", since=False),
    Option("-R", "text|xml", "form of the output", "text"),
    Option("-Rp", "[text|xml]", "print the profile and run nothing", "–", since=False),
    Option("-s", "[STRIDE]", "sequential offsets, STRIDE apart", "block"),
    Option("-si", "[STRIDE]", "the same, all threads taking turns on one position", "block"),
    Option("-S", "", "the same as -Su", "cached"),
    Option("-S", "b", "normal caching, stated explicitly", "cached", "changed",
           "refused for smb://, nfs://, lab:, sim: and null:, which have no client cache"),
    Option("-S", "u", "no client cache: O_DIRECT, SMB no-intermediate-buffering", "cached"),
    Option("-S", "w", "write-through: O_SYNC, SMB write-through, NFS FILE_SYNC", "off"),
    Option("-S", "h", "the same as -Suw", "cached"),
    Option("-S", "m", "memory-mapped I/O", "off", "changed",
           "local and mounted paths only; one outstanding operation per thread"),
    Option("-S", "r", "no client cache, but the server's", "cached", "changed",
           "the default of every smb:// and nfs:// target; on a mounted share it is O_DIRECT; refused on a local disk"),
    Option("-t", "COUNT", "threads per target", "1"),
    Option("-T", "OFFSET", "distance between the first offsets of a target's threads", "0"),
    Option("-v", "", "verbose", "off"),
    Option("-v", "s", "statistics of waits", "off", "refused",
           "they belong to Windows completion ports: leave out the s", since=False),
    Option("-w", "PERCENT", "share of writes", "0"),
    Option("-W", "SECONDS", "warm-up: the load runs unmeasured first", "5"),
    Option("-x", "", "completion routines", "off", "no effect", "naslab completes operations in its own way"),
    Option("-X", "FILE", "take time spans and targets from an XML profile", "–", "changed",
           "the targets of one time span may differ only in their paths"),
    Option("-y", "s|f|r|p|e NAME", "events", "–", "refused", _EVENTS),
    Option("-z", "[SEED]", "seed; without a value, from the time since start-up", "0"),
    Option("-Z", "", "write zeros", "pattern", "changed",
           "naslab recognises its files by their data, so these need --overwrite"),
    Option("-Z", "r", "new random data for each write", "pattern", "changed", "naslab does so without -Z, too"),
    Option("-Z", "SIZE", "write from a buffer of random data of this size", "pattern", "changed",
           "the data are new for each write instead of repeating"),
    Option("-Z", "SIZE,FILE", "write from a buffer filled from a file", "pattern", "refused",
           "naslab does not write the contents of files: use -ZSIZE, or -Z"),
)  # fmt: skip
"""DiskSpd 2.2's options. `default`: a value after `;` is the operand's when the option stands alone."""

TARGETS: tuple[tuple[str, str, str], ...] = (
    ("PATH", "implemented", "a file on a local or mounted folder"),
    (r"\\host\share\file", "implemented", "a file on a share, accessed directly"),
    ("smb://… nfs://… lab:…", "implemented", "a file on a server; the last part of the path is the file's name"),
    ("sim:…[#file] null:[#file]", "implemented", "a file on the simulated server or nowhere; create it with -c"),
    ("*1 *2 …", "implemented", "in profiles: replaced by the targets of the command line"),
    ("#n", "refused", "physical drives are not opened: naslab writes to files it was given, never to whole disks"),
    (
        "/dev/…",
        "refused",
        "devices are not opened: naslab writes to files it was given, never to whole disks; naslab profile reads one",
    ),
    ("X:", "refused", "volumes are not opened: naslab writes to files it was given, never to whole disks"),
)

NASLAB: tuple[Option, ...] = (
    Option("--compat", "2.0.21", "parse options as DiskSpd 2.0.21a does, and print its layout", "2.2", "naslab"),
    Option("--overwrite", "", "existing files that naslab did not make may be written to", "off", "naslab"),
    Option("--store", "FILE", "file that keeps results", "NASLAB_STORE, else the user's data folder", "naslab"),
    Option("--credentials", "FILE", "username=, password= and domain= for the server", "NASLAB_PASSWORD, keyring",
           "naslab"),
    Option("--timeout", "TIME", "give up if no operation ends within this time", "30s", "naslab"),
    Option("--label", "KEY=VALUE", "a condition of the test, kept with the run; may be repeated", "none", "naslab"),
    Option("--note", "TEXT", "a remark kept with the run", "none", "naslab"),
    Option("--json", "", "print the run document instead of DiskSpd's output", "off", "naslab"),
    Option("--quiet", "", "no progress and no notes on standard error", "off", "naslab"),
)  # fmt: skip

LONG: dict[str, Option] = {option.flag: option for option in NASLAB}


def refusal(flag: str, operand: str) -> str:
    """The error's text for a form of an option that the table refuses."""
    found = next(o for o in DISKSPD if o.flag == flag and o.how == "refused" and o.operand == operand)
    return f"({found.meaning}) is refused: {found.note}"


def refusal_of_target(form: str) -> str:
    """Why a form of target is refused."""
    return next(text for known, _, text in TARGETS if known == form)


def note(flag: str, operand: str = "") -> str:
    """The table's remark about a form of an option."""
    return next(o.note for o in DISKSPD if o.flag == flag and o.operand == operand)


def help_text() -> str:
    """What `naslab diskspd -?` prints."""
    lines = [
        "Usage: naslab diskspd [OPTIONS] TARGET...     DiskSpd's command line over naslab's engine", "",
        "Values follow their letter without a blank; options precede targets.", "",
    ]  # fmt: skip
    for option in (*DISKSPD, *NASLAB):
        mark = {"refused": " [refused]", "no effect": " [no effect]"}.get(option.how, "")
        lines.append(f"  {_written(option):<24} {option.meaning} [{option.default}]{mark}")
    lines += ["", "Targets:", *(f"  {form:<26} {text}" for form, how, text in TARGETS if how != "refused")]
    lines += ["", "Sizes: digits, then nothing (bytes), K, M, G, T (powers of 1024) or b (blocks, -b)."]
    return "\n".join(lines) + "\n"


def reference_text() -> str:
    """docs/reference/diskspd.md, made from the table; a test fails when the file is stale."""
    lines = [
        "# `naslab diskspd`: the options",
        "",
        "<!-- Made by tools/make-docs from naslab.commands.diskspd.options; edit the table there instead. -->",
        "",
        "Every option of DiskSpd 2.2 is listed. *implemented*: as DiskSpd does it. *changed*: implemented, the note",
        "says what differs. *no effect*: accepted with a note. *refused*: an error that says why, and what to use",
        "instead. A default after `;` is the value of the option without an operand. [The guide](../guide/diskspd.md)",
        "has examples.",
        "",
        "Sizes are digits, then nothing (bytes), `K`, `M`, `G`, `T` (powers of 1024, any case) or `b` (blocks of",
        "`-b`). Values follow their letter without a blank, and options precede targets. What DiskSpd drops silently",
        "(`-d10s`, `-o2x`) is an error.",
        "",
        "| option | meaning | default | here | note |",
        "|---|---|---|---|---|",
        *_rows([_written(o), o.meaning, o.default, o.how, _remark(o)] for o in DISKSPD),
        "",
        "## Targets",
        "",
        "| form | here | meaning |",
        "|---|---|---|",
        *_rows([form, how, text] for form, how, text in TARGETS),
        "",
        "## naslab's own options",
        "",
        "| option | meaning | default |",
        "|---|---|---|",
        *_rows([_written(o), o.meaning, o.default] for o in NASLAB),
    ]
    return "\n".join(lines) + "\n"


def _written(option: Option) -> str:
    blank = " " if option.flag.startswith("--") else ""
    return f"{option.flag}{blank}{option.operand}".rstrip()


def _remark(option: Option) -> str:
    return "; ".join(part for part in (option.note, "" if option.since else "not in 2.0.21a") if part)


def _rows(rows: Iterable[list[str]]) -> list[str]:
    escaped = ([cell.replace("|", "\\|") for cell in cells] for cells in rows)
    return ["| " + " | ".join([f"`{cells[0]}`", *cells[1:]]) + " |" for cells in escaped]
