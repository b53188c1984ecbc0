"""Recording: runs a command under strace and makes a trace of what it did below one folder."""

from __future__ import annotations

import math
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from naslab.errors import NaslabError, UsageError
from naslab.text.messages import without_secrets
from naslab.trace.format import Header
from naslab.trace.names import Anonymiser
from naslab.trace.strace import convert_strace
from naslab.trace.strace_calls import HANDLERS
from naslab.trace.strace_tasks import FORKS
from naslab.trace.writer import TraceWriter

_OLDEST = (5, 10)
"""Earlier versions of strace lack times in nanoseconds."""
_OVERHEAD = (
    "recorded with strace, which stops the command twice in each call (typically 20 to 100 us): durations and pauses "
    "are longer than without it, the order, offsets and lengths are not changed"
)
_SECRET_NAME = re.compile(r"(?:pass|secret|token|credential|api[-_]?key)", re.IGNORECASE)


@dataclass(frozen=True)
class Recorded:
    """What a recording was. exit_code: the command's, as a shell tells it (128 + signal). interrupted: by Ctrl-C or
    SIGTERM to naslab.
    """

    path: Path
    exit_code: int
    operations: int
    skipped: dict[str, int]
    notes: list[str]
    interrupted: bool = False


def record(
    command: Sequence[str], path: Path, root: Path, anonymise: Anonymiser | None = None, stdout: int | None = None
) -> Recorded:
    """Runs the command, waits for it and its children, and writes the trace. stdout: a descriptor for its output.

    Raises UsageError when strace or the command is missing and when the root is no folder: nothing ran then.
    Raises NaslabError when strace may not trace here.
    """
    if not root.is_dir():
        raise UsageError(f"--root {root}: there is no such folder; check the name")
    if shutil.which(command[0]) is None:
        raise UsageError(f"{command[0]}: there is no such program; give a command after --")
    strace = _strace()
    try:
        here, real = os.getcwd(), Path(os.path.realpath(root))
    except OSError as error:
        raise UsageError("the current folder is gone; change to another") from error
    header = Header(
        source="strace", command=command_text(command), started_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
        root=os.fsencode(real).decode("utf-8", "backslashreplace"), notes=[_OVERHEAD],
    )  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="naslab-trace-") as folder:
        text = Path(folder) / "strace.txt"
        code, interrupted = _run([*strace, "-o", str(text), "--", *command], stdout)
        if not text.exists() or not text.stat().st_size:
            raise NaslabError(
                "strace could not run the command (see its message above); may this user trace processes?"
            )
        # The trace is begun only now: a file of ours that appears under the root would be seen by the command.
        with TraceWriter(path, header, anonymise) as writer:
            convert_strace(text, writer, os.fsencode(real), os.fsencode(here), os.fsencode(_as_named(root)))
            if code:
                writer.note(f"the command ended with exit code {code}")
    return Recorded(path, code, writer.operations, dict(writer.skipped), writer.notes, interrupted)


def _as_named(root: Path) -> Path:
    """The root as the user's shell names it: symbolic links on the way to it stay."""
    shell = Path(os.environ.get("PWD", ""))
    with suppress(OSError):
        if shell.is_absolute() and shell.samefile("."):
            return shell / root
    return root.absolute()


def _strace() -> list[str]:
    """strace with the options whose output is read back: all strings in hexadecimal, so that no name of a file can
    look like anything else, descriptors with their paths, no data. Raises UsageError.
    """
    found = shutil.which("strace")
    if found is None:
        raise UsageError("strace is needed to record; install the package strace (Debian, Ubuntu: apt install strace)")
    told = subprocess.run([found, "--version"], capture_output=True, text=True, check=False).stdout
    version = re.search(r"version (\d+)\.(\d+)", told)
    if version is None or (int(version[1]), int(version[2])) < _OLDEST:
        raise UsageError(f"{found} is version {version[0] if version else 'unknown'}; 5.10 or later is needed")
    calls = ",".join(f"?{name}" for name in sorted({*HANDLERS, *FORKS}))
    return [
        found, "--follow-forks", "--seccomp-bpf", "--decode-fds=path", "-xx", "--string-limit=0", "--signal=none",
        "--absolute-timestamps=format:unix,precision:ns", "--syscall-times=ns", "--quiet=attach,personality",
        f"--trace={calls}",
    ]  # fmt: skip


def _run(command: list[str], stdout: int | None) -> tuple[int, bool]:
    """The exit code, and whether it was interrupted. Ctrl-C and SIGTERM end the command, not the recording of what it
    did until then.
    """
    started: list[subprocess.Popen[bytes]] = []
    ended = threading.Event()
    heard: list[int] = []

    def pass_on(number: int, _frame: object) -> None:
        heard.append(number)
        threading.Thread(target=_end_traced, args=(number, started, ended), daemon=True).start()

    # A terminal sends Ctrl-C to the command by itself; naslab only has to live on.
    before = [(signal.SIGTERM, signal.signal(signal.SIGTERM, pass_on))]
    before.append((signal.SIGINT, signal.signal(signal.SIGINT, lambda number, _frame: heard.append(number))))
    try:
        started.append(subprocess.Popen(command, stdout=stdout))
        code = started[0].wait()
    finally:
        ended.set()
        for number, handler in before:
            signal.signal(number, handler)
    return code if code >= 0 else 128 - code, bool(heard)


def _end_traced(number: int, started: Sequence[subprocess.Popen[bytes]], ended: threading.Event) -> None:
    """Sends a signal to each process that strace follows, once; strace itself holds it back until they have ended.

    A process may be forked while the others are looked for, and its parent be gone before it is found, so that those
    looked for are what strace traces, again until there is no other. What begins after the signal was sent, as the
    clean-up of a shell's trap, is left alone, to the 10 ms in which the kernel tells when a process began.
    """
    told: dict[int, float] = {}
    until = math.inf
    while not ended.is_set():
        found = _traced(started[0].pid) if started else {}
        new = {pid: began for pid, began in found.items() if told.get(pid) != began and began <= until}
        for pid in new:
            with suppress(ProcessLookupError):
                os.kill(pid, number)
        told |= new
        if told and not new:
            return
        if new:
            until = time.clock_gettime(time.CLOCK_BOOTTIME)
        else:
            ended.wait(0.02)


def _traced(tracer: int) -> dict[int, float]:
    """Processes that another one traces, and when each began, seconds since the machine's start."""
    found: dict[int, float] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if re.search(rf"^TracerPid:\t{tracer}$", (folder / "status").read_text("utf-8", "replace"), re.MULTILINE):
                began = (folder / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()[19]
                found[int(folder.name)] = int(began) / os.sysconf("SC_CLK_TCK")
    return found


def command_text(command: Sequence[str]) -> str:
    """The command as it may be stored: without passwords in URLs, in NAME=value and after options of such names."""
    words: list[str] = []
    hide = False
    for word in command:
        name, equals, _ = word.partition("=")
        if hide:
            words.append("***")
            hide = False
        elif _SECRET_NAME.search(name) and "/" not in name:
            words.append(f"{name}=***" if equals else word)
            hide = not equals and word.startswith("-")
        else:
            words.append(without_secrets(word))
    return " ".join(word if re.fullmatch(r"[\w@%+=:,./*-]+", word) else repr(word) for word in words)
