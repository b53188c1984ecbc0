"""Errors of the engine as sentences for people, and texts without secrets.

The engine says `mkdir: Permission denied (os error 13), path=naslab-x`: operation, cause, named facts. Here
that becomes `cannot make the folder naslab-x: Permission denied`, with a next step where one is known.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_SHAPE = re.compile(r"(?P<operation>[a-z_ ]+): (?P<cause>.*)\Z", re.DOTALL)
_FACT = re.compile(r", (?P<name>[a-z_]+)=(?P<value>[^=]*)\Z", re.DOTALL)
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
_SILENT = ("run", "plan", "verify", "choose engine", "receive", "send", "smb", "target", "session", "reap", "clean")
_STEPS = {
    "permission": "give a folder with write access",
    "read_only": "mount it writable or choose another folder",
    "no_space": "free some space or choose smaller sizes",
    "disconnected": "check the server and the network",
    "timeout": "check the server and the network, or raise --timeout",
    "delayed": "the server is temporarily busy: try again in a minute",
    "protocol": "check that this is the right port and protocol; `naslab doctor` on the target shows what it speaks",
}
_KIND_WORDS = (
    ("permission", "Permission denied"), ("permission", "Operation not permitted"),
    ("read_only", "Read-only file system"),
    ("no_space", "No space left"), ("no_space", "quota exceeded"),
)  # fmt: skip
_THINGS = ("path", "file", "root", "host", "address")


def readable(text: str, kind: str | None = None) -> str:
    """One sentence from the engine's error text. kind: class of the error; None to guess it from the text."""
    shape = _SHAPE.match(text.strip())
    if shape is None or shape["operation"] not in (*_ACTIONS, *_SILENT):
        return text
    cause, facts = _facts(_OS_ERROR.sub("", shape["cause"]))
    cause = _CELL.sub("", cause)
    step = _STEPS.get(kind or _kind(cause), "")
    if shape["operation"] in _LOGINS and step == _STEPS["permission"]:
        step = ""
    end = f"; {step}" if step else ""
    thing = next((facts.pop(name) for name in _THINGS if facts.get(name)), None)
    extra = "".join(f", {name.replace('_', ' ')} {value}" for name, value in facts.items())
    action = _ACTIONS.get(shape["operation"])
    if action is None:
        named = f" ({thing})" if thing else ""
        return f"{cause}{named}{extra}{end}"
    return f"cannot {f'{action} {thing}' if thing else action.removesuffix(' to')}: {cause}{extra}{end}"


def parts_of(text: str) -> tuple[str, str, dict[str, str]] | None:
    """Operation, cause and named facts of the engine's error text; None for other texts."""
    shape = _SHAPE.match(text.strip())
    if shape is None or shape["operation"] not in (*_ACTIONS, *_SILENT):
        return None
    return (shape["operation"], *_facts(_OS_ERROR.sub("", shape["cause"])))


def _facts(cause: str) -> tuple[str, dict[str, str]]:
    """The cause without its named facts, and these."""
    facts: dict[str, str] = {}
    while found := _FACT.search(cause):
        facts = {found["name"]: found["value"], **facts}
        cause = cause[: found.start()]
    return cause, facts


def _kind(cause: str) -> str:
    return next((kind for kind, words in _KIND_WORDS if words in cause), "")


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
