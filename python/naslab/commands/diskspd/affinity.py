"""-a with processors: threads begun while it is in force run on those only.

DiskSpd binds each thread to one of them in turn. Here all threads share the set, and the scheduler places them.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager

from naslab.commands.diskspd.profile import Profile
from naslab.errors import UsageError


def usable() -> set[int] | None:
    """Processors that this process may run on; None where the system does not tell."""
    return set(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None


def chosen(profile: Profile, there: Collection[int] | None) -> frozenset[int]:
    """The processors that -a or Affinity names, empty when neither does. there: those that can be had.

    Raises UsageError for others, and for time spans that differ.
    """
    pairs = [frozenset(span.affinity) for span in profile.spans]
    if not any(pairs):
        return frozenset()
    if len(set(pairs)) > 1:
        raise UsageError("Affinity: time spans with different processors; give each its own profile")
    if there is None:
        raise UsageError("-a with processors: this system binds no threads to processors; leave -a out")
    for group, processor in sorted(pairs[0]):
        if group:
            raise UsageError(f"-ag{group}: affinity assignment to group {group}; system only has 1 groups: leave g out")
        if processor not in there:
            known = ", ".join(map(str, sorted(there)))
            raise UsageError(f"-a{processor}: affinity assignment to group 0 cpu {processor} not possible; use {known}")
    return frozenset(processor for _, processor in pairs[0])


def shared(processors: Collection[int]) -> list[str]:
    """What is told of several processors."""
    listed = ", ".join(map(str, sorted(processors)))
    return [f"-a: all threads share processors {listed}; DiskSpd gives them one each"] if len(processors) > 1 else []


@contextmanager
def bound_to(processors: Collection[int]) -> Iterator[None]:
    """Binds this thread, and those that it begins, to these processors for a while; to all as before when empty."""
    if not processors:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, processors)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
