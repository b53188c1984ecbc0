"""The engine, compiled from crates/py."""

from collections.abc import Callable

__version__: str

def run(spec_json: str, owner_mark: str, on_event: Callable[[str, str, list[bytes]], None]) -> str:
    """Carry out a run. Events and the returned JSON are described in docs/notes/0001-seams.md.

    Raises UsageError, TargetError, SpaceError before anything ran; what `on_event` or a signal handler
    raised, after the run was ended and cleaned up.
    """

def probe(target_json: str, depth: int) -> str:
    """Protocol, facts, abilities and space of a target, as JSON. Raises UsageError, TargetError."""

def find_folders(target_json: str) -> str:
    """Run folders left under the target's root: JSON list of {folder, owner}. Raises TargetError."""

def clean(target_json: str, folder: str) -> list[str]:
    """Remove a run folder; returns paths in it that naslab did not make (then the folder stays)."""

def stat(target_json: str, path: str) -> tuple[int, bool] | None:
    """Length in bytes and whether it is a folder; None if missing. Raises TargetError."""

def set_len(target_json: str, path: str, size_bytes: int, create: bool) -> None:
    """Set a file's length; `create` makes it first. Raises UsageError if it exists, SpaceError, TargetError."""
