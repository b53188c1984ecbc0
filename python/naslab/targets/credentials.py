"""Passwords for servers: where they come from, in which order, and never where they stay.

Order: the target's name, `--credentials FILE`, `NASLAB_PASSWORD`, the keyring, a prompt on the terminal. Only
smb:// targets log in. A target that names no user logs in as a guest when no credentials are found. With auth=kerberos
none are looked for: the system's library has the ticket.
"""

from __future__ import annotations

import contextlib
import dataclasses
import getpass
import os
import stat
import sys
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from naslab.errors import UsageError
from naslab.targets import Secret, Target
from naslab.text.printable import printable

PASSWORD_VARIABLE = "NASLAB_PASSWORD"
KEYRING_SERVICE = "naslab"
_MAX_FILE_BYTES = 1 << 16
_KEYS = {
    "username": "user", "user": "user", "password": "password", "pass": "password", "domain": "domain", "dom": "domain",
}  # fmt: skip


@dataclass(frozen=True)
class Credentials:
    """What a credentials file says. open_to_others: its permissions let others read it."""

    user: str = ""
    domain: str = ""
    password: Secret | None = None
    open_to_others: bool = False


def log_in(target: Target, credentials: Path | None = None) -> Target:
    """The target with a password where it needs one. Raises UsageError when none is found.

    credentials: a file in the format of mount.cifs; refused for targets that do not log in.
    """
    if target.protocol != "smb":
        if credentials is not None:
            raise UsageError(f"--credentials {credentials}: only smb:// targets log in with a password; leave it out")
        return target
    if target.password is not None and target.password.reveal():
        target = target.warned(
            "password_in_name",
            "the password is part of the target's name, where shells and process lists show it; "
            f"use {PASSWORD_VARIABLE}, --credentials FILE or the keyring",
        )
    if credentials is not None:
        target = _with_file(target, credentials)
    if target.may_log_in and _of_environment() is not None:
        target = _as_user(target, getpass.getuser())
    if target.options["auth"] != "ntlm" or target.password is not None:
        return target
    if not target.options["user"]:
        target = _as_user(target, getpass.getuser())
    return dataclasses.replace(target, password=_find_password(target))


def _as_user(target: Target, user: str) -> Target:
    """The same, logging in as this user."""
    rest = target.url.removeprefix("smb://")
    url = target.url if target.options["user"] else f"smb://{quote(user, safe='')}@{rest}"
    return dataclasses.replace(target.with_options(user=user, auth="ntlm"), may_log_in=False, url=url)


def _with_file(target: Target, path: Path) -> Target:
    """The target with what the file adds. Raises UsageError for what contradicts the target's name."""
    found = read_credentials(path)
    options = target.options
    if options["auth"] != "ntlm" and not target.may_log_in:
        raise UsageError(f"--credentials {path}: auth={options['auth']} logs in without them; leave one out")
    if target.password is not None and found.password is not None:
        raise UsageError(f"--credentials {path}: the target's name holds a password too; give one of them")
    for name, theirs in (("user", found.user), ("domain", found.domain)):
        if theirs and options[name] and theirs != options[name]:
            raise UsageError(f"--credentials {path}: the file is for {name} {theirs}, the target names {options[name]}")
    user = options["user"] or found.user
    if user:
        target = _as_user(target, user)
    if found.domain:
        target = target.with_options(domain=found.domain)
    if found.open_to_others:
        message = f"the credentials file {path} can be read by others; set its permissions: chmod 600 {path}"
        target = target.warned("open_credentials", message)
    return dataclasses.replace(target, password=target.password or found.password)


def read_credentials(path: Path) -> Credentials:
    """A file of `username=`, `password=` and `domain=` lines, as mount.cifs takes it; `#` begins a comment line.

    A password is all behind the first `=`, spaces and further `=` too. Raises UsageError that names the line,
    never its text.
    """
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            raw = file.read(_MAX_FILE_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not a valid file name"
        raise UsageError(f"--credentials {path}: {reason}; give a file with username=, password= and domain=") from None
    if len(raw) > _MAX_FILE_BYTES:
        raise UsageError(f"--credentials {path}: the file is too long for a credentials file")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        raise UsageError(f"--credentials {path}: the file is not UTF-8 text") from None
    found = _parse_lines(text, path)
    domain, backslash, user = found.get("user", "").rpartition("\\")
    password = found.get("password")
    return Credentials(
        user=user,
        domain=found.get("domain", domain if backslash else ""),
        password=None if password is None else Secret(password),
        open_to_others=bool(stat.S_ISREG(mode) and mode & (stat.S_IRGRP | stat.S_IROTH)),
    )


def _parse_lines(text: str, path: Path) -> dict[str, str]:
    found: dict[str, str] = {}
    for number, line in enumerate(text.split("\n"), 1):
        plain = line.removesuffix("\r").lstrip(" \t")
        if not plain.strip() or plain.startswith("#"):
            continue
        name, equals, value = plain.partition("=")
        key = _KEYS.get(name.strip().lower())
        if not equals or key is None:
            raise UsageError(
                f"--credentials {path}: line {number} is not understood; write username=, password= or domain="
            )
        if key in found:
            raise UsageError(f"--credentials {path}: line {number} gives the {key} a second time; give it once")
        found[key] = value if key == "password" else value.strip()
    return found


_taken: Secret | None = None
"""The password that the environment held when it was first asked for."""


def _of_environment() -> Secret | None:
    """The password of the environment, which is taken out of it: what naslab starts later does not inherit it."""
    global _taken
    given = os.environ.pop(PASSWORD_VARIABLE, None)
    if given is not None:
        _taken = Secret(given)
    return _taken


def _find_password(target: Target) -> Secret:
    """From the environment, the keyring or the terminal. Raises UsageError that names the ways."""
    user, host = target.options["user"], target.options["host"]
    given = _of_environment()
    if given is not None:
        return given
    kept = _from_keyring(f"{user}@{host}")
    if kept is not None:
        return Secret(kept)
    if sys.stdin is not None and sys.stdin.isatty():
        with contextlib.suppress(EOFError):
            return Secret(
                getpass.getpass(printable(f"Password of {user} on {host}: ", one_line=True), stream=sys.stderr)
            )
    raise UsageError(
        f"target {target.url!r}: a password for {user} is needed; set {PASSWORD_VARIABLE}, give --credentials FILE "
        f"(username=, password=), or keep it in the keyring: keyring set {KEYRING_SERVICE} {user}@{host}"
    )


def _from_keyring(key: str) -> str | None:
    """From the `keyring` package, where it is installed and has a store that opens."""
    try:
        import keyring
    except ImportError:
        return None
    try:
        found = keyring.get_password(KEYRING_SERVICE, key)
    except Exception:  # back ends raise errors of their own: locked, no session bus, ...
        return None
    return str(found) if found is not None else None
