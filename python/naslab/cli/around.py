"""What stands around the work of every command, its own parser or another tool's: lines for programs that watch it, a
word at its end. Typer is not needed here.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from naslab.cli.registry import Command
from naslab.errors import INTERRUPTED


def around(command: Command, work: Callable[[], Any], live: str = "", notify: str = "", instead: str = "") -> Any:
    """What `work`, the command, returns. live, notify: values of these options. instead: as of `live.watching`.

    Raises UsageError for values that are none, before the work, and what the work raises.
    """
    if not live and not notify:
        return work()
    from naslab.cli.live import watching
    from naslab.cli.notify import check, tell

    words = check(notify) if notify else None
    code: Any = 1
    before = len(_begun_runs())
    with watching(live, instead) as lines:
        if lines is not None:
            lines.say("begun", command=command.name)
        try:
            code = work()
            return code
        except BaseException as error:
            code = INTERRUPTED if isinstance(error, KeyboardInterrupt) else getattr(error, "exit_code", 1)
            raise
        finally:
            code = code if isinstance(code, int) else 0
            run_id = next(iter(_begun_runs()[before:][-1:]), None)
            if lines is not None:
                lines.say("ended", exit_code=code, run_id=run_id)
            if words is not None:
                tell(words, code, run_id, command.name)


def _begun_runs() -> list[str]:
    execute = sys.modules.get("naslab.execution.execute")
    return list(execute.begun_runs) if execute else []
