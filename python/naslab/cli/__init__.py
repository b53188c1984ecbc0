"""The command line. `main` is the entry point; `commands` lists the commands, `dispatch` chooses one."""

from __future__ import annotations

import _thread
import contextlib
import errno
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from types import CodeType
from typing import Any

from naslab.errors import INTERRUPTED, NaslabError
from naslab.text.printable import fold_for_terminals, guarded

_AGAIN_S, _POLL_S = 0.01, 0.001


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command line (without the program's name); the exit code of DESIGN.md section 4."""
    with guarded(), _interruptions_kept():
        code = _main(list(sys.argv[1:] if argv is None else argv))
        if code == INTERRUPTED:
            _end_stored()
        return code


def carry_out(args: Sequence[str]) -> int:
    """`main` for a Python program: errors and Ctrl-C are raised, not printed. Raises NaslabError, KeyboardInterrupt."""
    with _interruptions_kept():
        try:
            return _in_lab(list(args))
        except BaseException:  # of the program's own, too: the run that it ended is no longer under way
            _end_stored()
            raise


def _end_stored() -> None:
    """Ends in their stores the runs that were interrupted between two steps."""
    if stores := sys.modules.get("naslab.results.store.store"):
        stores.end_interrupted()


@contextlib.contextmanager
def _interruptions_kept() -> Iterator[None]:
    """A Ctrl-C that comes while a library calls back is said and lost by Python: it is made again a moment later."""
    before = sys.unraisablehook

    def made_again(found: Any) -> None:
        if found.exc_type is not KeyboardInterrupt:
            before(found)
            return
        begun = False
        while not begun:
            with contextlib.suppress(KeyboardInterrupt):  # a second one
                _thread.start_new_thread(_interrupt_again, (made_again.__code__,))
                begun = True

    sys.unraisablehook = made_again
    try:
        yield
    finally:
        sys.unraisablehook = before


def _interrupt_again(hook: CodeType) -> None:
    """A signal to the main thread itself, which may wait in the system by then; once it has left the hook.

    What is raised in a hook is lost, and on a busy machine the main thread is in there for long.
    """
    main_thread = threading.main_thread().ident
    assert main_thread is not None
    time.sleep(_AGAIN_S)
    while hook in _running(main_thread):
        time.sleep(_POLL_S)
    signal.pthread_kill(main_thread, signal.SIGINT)


def _running(thread: int) -> Iterator[CodeType]:
    """The code that a thread is in, from the inside out."""
    frame = sys._current_frames().get(thread)
    while frame is not None:
        yield frame.f_code
        frame = frame.f_back


def _main(args: list[str]) -> int:
    try:
        code = _in_lab(args)
        sys.stdout.flush()
        return code
    except NaslabError as error:
        return _fail(f"naslab: {error}", error.exit_code)
    except KeyboardInterrupt:
        return _fail("naslab: interrupted", INTERRUPTED)
    except BrokenPipeError:
        _abandon_stdout()
        return 1
    except OSError as error:  # standard output closed or on a full disk, a folder that vanished
        _abandon_stdout()
        said = "standard output is closed" if error.errno == errno.EBADF else error
        return _fail(f"naslab: {said}", 1)


def _fail(message: str, code: int) -> int:
    """Prints what cannot be said in this terminal's encoding with replacement characters."""
    encoding = sys.stderr.encoding or "utf-8"
    print(message.encode(encoding, "backslashreplace").decode(encoding), file=sys.stderr)
    return code


def _abandon_stdout() -> None:
    """Nobody reads any more: what is still buffered goes nowhere, and Python says nothing about it at exit."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


_DATA = ("iozone", "diskspd", "export", "trace")
"""Commands whose standard output other programs read, on a terminal, too."""


def _in_lab(args: list[str]) -> int:
    """Runs the command, then ends the servers of the lab that it started for its target, if any."""
    if args[:1] and args[0] not in _DATA:
        fold_for_terminals()
    try:
        from naslab.cli.dispatch import run_app

        return run_app(args)
    finally:
        if lab := sys.modules.get("naslab.lab.session"):
            lab.close()


def entry() -> None:
    """Console script."""
    _fill_closed_streams()
    # numpy's library of linear algebra begins a thread for each processor as it is loaded, which takes a third of
    # numpy's start on two processors, and more on more; nothing here multiplies matrices that would need them.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    code = main()
    # What is left is Python's own end, which would print a traceback of it.
    signal.signal(signal.SIGINT, lambda *_: os._exit(code))
    sys.exit(code)


def _fill_closed_streams() -> None:
    """Standard streams that were closed before Python began are nobody's, as no file of a run may be in their place.

    What is printed to a closed standard output fails, as it does for other programs; a closed standard error swallows.
    """
    for number, mode in ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            _put(number, mode)
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", encoding="utf-8", closefd=False)


def _put(number: int, mode: int) -> None:
    """/dev/null in place of a descriptor, for programs that are started, too."""
    nowhere = os.open(os.devnull, mode)
    if nowhere == number:
        os.set_inheritable(number, True)
        return
    os.dup2(nowhere, number)
    os.close(nowhere)
