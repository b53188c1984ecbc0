"""Errors of the engine as sentences for people, and texts without secrets.

The engine tells operation, cause and named facts: `mkdir`, `Permission denied (os error 13)`, path `naslab-x`. Here
that becomes `cannot create the folder naslab-x: Permission denied`, with a next step where one is known.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from naslab.errors import NaslabError

_OS_ERROR = re.compile(r" \(os error \d+\)")
_CELL = re.compile(r"\Acell \d+ \(\w+\): ")
_SECRET = re.compile(r"((?://|\\\\|\b(?:smb|cifs|nfs):/?)[^/@\s:]*):.*@", re.DOTALL | re.IGNORECASE)
_BARE_SECRET = re.compile(
    r"(\A|[\s'\"])(?!(?:sim|lab|null|published|file|smb|cifs|nfs):)([^/@\s:'\"]+):[^\s'\"]*@", re.IGNORECASE
)
"""A login with the kind of target left out: `user:password@host/share`."""
_SECRET_OPTION = re.compile(r"([?&](?:pass(?:word|wd)?|pw)=)[^&\s]*", re.IGNORECASE)
_PRIVATE_OPTIONS = ("--notify", "--cold-command", "--cut-command", "--restore-command")
"""Options whose values are kept nowhere: a command of the user's may hold any password in any form."""
_ACTIONS = {
    "mkdir": "create the folder", "open": "open", "open root": "use", "read": "read", "write": "write",
    "flush": "flush", "connect": "connect to", "stat": "look at", "remove": "remove", "rmdir": "remove the folder",
    "readdir": "list the folder", "set_len": "set the length of", "rename": "rename", "close": "close",
    "evict": "drop the cached pages of", "space": "find the free space of",
    "ping": "reach", "mount": "mount", "listen": "listen on", "server_copy": "copy on the server",
}  # fmt: skip
_LOGINS = ("connect", "mount")
"""A refused login has a reason, and a next step, of its own."""
_STEPS = {
    "permission": "give a folder with write access",
    "read_only": "mount it writable or choose another folder",
    "no_space": "free some space or choose smaller sizes",
    "disconnected": "check the server and the network",
    "timeout": "check the server and the network, or raise --timeout",
    "delayed": "the server is temporarily busy: try again in a minute",
    "protocol": "check that this is the right port and protocol; `naslab doctor` on the target shows what it speaks",
}
_THINGS = ("path", "file", "root", "host", "address")


class Failure(NamedTuple):
    """What the engine says of an error. kind: its class, as `no_space`. status: errno, NTSTATUS or nfsstat. operation:
    the call that failed; empty where the cause says all. facts: path, host, option and the like, by name."""

    kind: str
    status: int
    operation: str
    cause: str
    facts: dict[str, str]


Told = Mapping[str, Any] | str
"""An error in a result of the engine: its parts, or words of Python's own."""


def failure(told: Mapping[str, Any]) -> Failure:
    """The parts of an error in a result of the engine."""
    return Failure(
        str(told["kind"]), int(told["status"]), str(told["operation"]),
        _CELL.sub("", _OS_ERROR.sub("", str(told["cause"]))), dict(told["facts"]),
    )  # fmt: skip


def failure_of(error: NaslabError) -> Failure | None:
    """The parts of an error that the engine raised; None of one that Python raised, or that has its words by now."""
    if error.failure is None:
        return None
    return failure(dict(zip(("kind", "status", "operation", "cause", "facts"), error.failure, strict=True)))


def hand_on(error: NaslabError, told: Mapping[str, Any]) -> None:
    """Gives an error the parts that another process told of it."""
    error.failure = (told["kind"], told["status"], told["operation"], told["cause"], told["facts"])


def sentence(told: Failure | Told, step: bool = True) -> str:
    """An error in one sentence. step: with what to do next, where that is known and the cause does not say all."""
    if isinstance(told, str):
        return told
    found = told if isinstance(told, Failure) else failure(told)
    next_step = _STEPS.get(found.kind, "") if step and found.operation else ""
    if found.operation in _LOGINS and next_step == _STEPS["permission"]:
        next_step = ""
    end = f"; {next_step}" if next_step else ""
    facts = dict(found.facts)
    thing = next((facts.pop(name) for name in _THINGS if facts.get(name)), None)
    extra = "".join(f", {name.replace('_', ' ')} {value}" for name, value in facts.items())
    action = _ACTIONS.get(found.operation)
    if action is None:
        named = f" ({thing})" if thing else ""
        return f"{found.cause}{named}{extra}{end}"
    return f"cannot {f'{action} {thing}' if thing else action.removesuffix(' to')}: {found.cause}{extra}{end}"


def words_of(error: NaslabError, step: bool = True) -> str:
    """An error in one sentence, whoever raised it."""
    found = failure_of(error)
    return str(error) if found is None else sentence(found, step)


def say(error: NaslabError, words: str | None = None) -> None:
    """Gives an error its words; None: those of `words_of`. It has no parts from then on."""
    error.args = (words_of(error) if words is None else words,)
    error.failure = None


def told_of(error: NaslabError) -> dict[str, Any]:
    """An error as a result of the engine has it."""
    kind, status = getattr(error, "kind", "invalid"), getattr(error, "status", 0)
    found = failure_of(error) or Failure(kind, status, "", str(error), {})
    return {**found._asdict(), "facts": list(found.facts.items())}


def left_words(left: Told) -> str:
    """What is left of a run on the target, and why."""
    if isinstance(left, str):
        return left
    path, why = str(left["path"]), left["why"] and sentence(left["why"])
    return f"{path}: {why}" if path and why else why or path


def without_secrets(text: str) -> str:
    """The text with every `//user:password@` shown as `//user:***@`, and `?password=` without its value.

    So are `smb:/user:password@` and `user:password@`, where something was left out. A password may hold any
    character, also / and @ that should have been encoded: all up to the last @ is left out, at the price of a path
    with an @ in it.
    """
    return _SECRET_OPTION.sub(r"\1***", _BARE_SECRET.sub(r"\1\2:***@", _SECRET.sub(r"\1:***@", text)))


def safe_argv(words: Sequence[str]) -> list[str]:
    """A command line that may be stored: each word `without_secrets`, and commands of the user's left out."""
    shown: list[str] = []
    hidden = False
    for word in words:
        option = word.partition("=")[0]
        if hidden:
            shown.append("***")
        elif word != option and option in _PRIVATE_OPTIONS:
            shown.append(f"{option}=***")
        else:
            shown.append(without_secrets(word))
        hidden = not hidden and word in _PRIVATE_OPTIONS
    return shown
