"""Any target by its name: a server of the lab, which may have to be started, or one that is there."""

from __future__ import annotations

import os
from pathlib import Path

from naslab.errors import UsageError
from naslab.targets import Target, parse_target
from naslab.targets.credentials import log_in


def open_target(
    text: str,
    credentials: Path | None = None,
    *,
    whole_server: bool = False,
    timeout_ns: int | None = None,
    seed: int | None = None,
) -> Target:
    """The target that `text` names, with its password and the command's timeout and seed.

    May ask on the terminal. Raises UsageError.
    """
    if text[:4].lower() == "lab:" and not os.path.lexists(text):
        if credentials is not None:
            raise UsageError(f"--credentials {credentials}: the lab's servers have users of their own; leave it out")
        from naslab.lab.session import open_lab_target

        target = open_lab_target(text)
    else:
        target = log_in(parse_target(text, whole_server=whole_server), credentials)
    if timeout_ns is not None:
        target = target.with_timeout(timeout_ns)
    return target if seed is None else target.seeded(seed)
