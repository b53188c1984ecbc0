"""What a server says in the first minutes, before anything is measured, as one line: thing, reason, what to do.

The engine tells operation, cause and named facts (`naslab.text.messages`); here the causes that everybody meets once (a
wrong password, a share that is not there, a machine that is off) become a sentence with the target's own names.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from urllib.parse import unquote, urlsplit

from naslab.targets import nfs, smb
from naslab.text.messages import Failure

FEWER_CONNECTIONS = "end other connections to it, or raise its limit (Samba: max connections, max smbd processes)"
"""What helps with a server that takes no more connections."""


@dataclass(frozen=True)
class _Place:
    """The target's names. scheme: smb or nfs. host: with its port where the name gives one.
    name: the host alone."""

    url: str
    scheme: str
    host: str
    port: int
    path: str
    name: str = ""

    @property
    def what(self) -> str:
        """SMB or NFS."""
        return self.scheme.upper()

    @property
    def share(self) -> str:
        """The first part of the path."""
        return self.path.strip("/").partition("/")[0]

    @property
    def server(self) -> str:
        """The server alone, as `naslab doctor` takes it."""
        return f"{self.scheme}://{self.host}"


Line = Callable[[_Place, dict[str, str]], str]


def _login(place: _Place, facts: dict[str, str]) -> str:
    user = facts.get("user") or "guest"
    return (
        f"{place.host} refuses the login of user {user}: check the user name and the password, and give the password "
        "with NASLAB_PASSWORD, --credentials FILE or at the prompt"
    )


def _unknown_user(place: _Place, facts: dict[str, str]) -> str:
    return (
        f"{place.host} has no user {facts.get('user', '')}: check the name, "
        f"or measure as a guest: {place.server}{place.path}?auth=guest"
    )


def _no_share(place: _Place, facts: dict[str, str]) -> str:
    name = facts.get("share") or place.share
    return (
        f"{place.host} has no share {name}, or not the folder behind it: naslab doctor {place.server} lists its shares"
    )


def _share_closed(place: _Place, facts: dict[str, str]) -> str:
    return (
        f"{place.host} does not let this user use the share {facts.get('share') or place.share}: "
        "allow it on the server, or log in as another user (smb://USER@HOST/SHARE)"
    )


def _no_folder(place: _Place, facts: dict[str, str]) -> str:
    return f"the folder {facts['folder']} is not on {place.server}/{place.share}: create it there, or name another"


def _no_export(place: _Place, facts: dict[str, str]) -> str:
    name = facts.get("path") or place.path
    return f"{place.host} has no export or folder {name}: list its exports with naslab doctor {place.server}"


def _export_closed(place: _Place, facts: dict[str, str]) -> str:
    return (
        f"{place.host} does not let this client use {facts.get('path') or place.path}: "
        "add this machine to the export's clients on the server (with insecure, unless naslab runs as root)"
    )


def _other_security(place: _Place, facts: dict[str, str]) -> str:
    return f"{place.host}: {facts.get('path') or place.path} {facts['cause'].removeprefix('the export ')}"


def _link(place: _Place, facts: dict[str, str]) -> str:
    return f"{place.host}: {facts['cause']}"


def _closed_port(place: _Place, facts: dict[str, str]) -> str:
    port = facts.get("port") or place.port
    return (
        f"nothing answers at port {port} of {place.name}: enable {place.what} there, "
        f"or give its port as {place.scheme}://HOST:PORT/…"
    )


def _unknown_host(place: _Place, facts: dict[str, str]) -> str:
    return f"the host name {place.host} cannot be resolved: check its spelling, or give the server's IP address"


def _unreachable(place: _Place, facts: dict[str, str]) -> str:
    return f"{place.host} cannot be reached: check its address, the network, and that it is switched on"


def _other_server(place: _Place, facts: dict[str, str]) -> str:
    return (
        f"the service on port {place.port} of {place.name} does not speak {place.what}: "
        f"check protocol and port; naslab doctor {place.url} shows more"
    )


def _hangs_up(place: _Place, facts: dict[str, str]) -> str:
    return (
        f"the service on port {place.port} of {place.name} ends the connection at once: it does not speak "
        f"{place.what}, or takes no more connections; naslab doctor {place.url} shows more"
    )


def _no_more(place: _Place, facts: dict[str, str]) -> str:
    return f"{place.host} takes no more connections: {FEWER_CONNECTIONS}"


def _silent(place: _Place, facts: dict[str, str]) -> str:
    return (
        f"port {place.port} of {place.name} gives no complete answer to {place.what} in time: check that it is "
        f"the port of a {place.what} server, or raise --timeout; naslab doctor {place.url} shows more"
    )


def _read_only(place: _Place, facts: dict[str, str]) -> str:
    return f"cannot create a folder on {place.url}: it is read-only: make it writable, or name another"


def _not_writable(place: _Place, facts: dict[str, str]) -> str:
    allow = "allow it on the server, or name another folder or user" if place.scheme else "allow it, or name another"
    return f"cannot create a folder on {place.url}: this user has no write access: {allow}"


def _forbidden_name(place: _Place, facts: dict[str, str]) -> str:
    name = facts.get("path", "naslab-…")
    return f"{place.url} accepts no folder of the name {name}: allow names that begin with naslab- (Samba: veto files)"


def _full(place: _Place, facts: dict[str, str]) -> str:
    return f"{place.url} is full or its quota is used up: free some space there, or name another folder"


_RULES: tuple[tuple[str, str, Line], ...] = (
    ("connect", r"STATUS_LOGON_FAILURE|STATUS_WRONG_PASSWORD|STATUS_ACCOUNT|STATUS_PASSWORD", _login),
    ("connect", r"would let us in as a guest", _unknown_user),
    ("connect", r"STATUS_BAD_NETWORK_NAME", _no_share),
    ("connect", r"STATUS_ACCESS_DENIED", _share_closed),
    ("connect", r"STATUS_OBJECT_(NAME|PATH)_NOT_FOUND", _no_folder),
    ("connect|mount", r"(NFS3|NFS4|MNT3?)ERR_NOENT|no export of the server is this path", _no_export),
    ("connect|mount", r"(NFS3|NFS4|MNT3?)ERR_(ACCES|PERM)", _export_closed),
    ("connect|mount", r"the export takes .*, not sec=", _other_security),
    ("connect", r"is a symbolic link", _link),
    ("connect", r"Connection refused", _closed_port),
    ("connect", r"host name is not known", _unknown_host),
    ("connect", r"No route to host|unreachable|Host is down", _unreachable),
    ("connect|receive|session", r"takes no more connections|STATUS_REQUEST_NOT_ACCEPTED", _no_more),
    ("connect|receive|session", r"is this an SMB server", _hangs_up),
    ("connect|receive|session", r"breaks the protocol|closed the connection", _other_server),
    ("connect|receive", r"no complete answer", _silent),
    ("mkdir", r"STATUS_ACCESS_DENIED|Permission denied|ERR_ACCES|ERR_PERM|not permitted", _not_writable),
    ("mkdir", r"STATUS_OBJECT_NAME_(NOT_FOUND|INVALID)", _forbidden_name),
    ("mkdir", r"Read-only|ERR_ROFS|STATUS_MEDIA_WRITE_PROTECTED", _read_only),
    ("mkdir", r"No space left|quota|ERR_NOSPC|STATUS_DISK_FULL|ERR_DQUOT", _full),
)  # fmt: skip


def first_contact(url: str, error: Failure | None, before_run: bool) -> str | None:
    """The line for an error of the engine; None for one that is not of these. before_run: nothing had worked yet."""
    if error is None:
        return None
    if url.startswith("lab:") and re.search(r"ERR_NOENT|STATUS_(BAD_NETWORK_NAME|OBJECT)", error.cause):
        name, _, folder = url.partition("/")
        return f"{name} serves no folder {folder}: leave it out, or name one that is there (naslab lab show)"
    place = _place(url)
    if place is None:
        return None
    operation, cause, facts = error.operation, error.cause, error.facts
    if facts.get("host") and "address=" in url:
        place = _at(place, facts["host"])
    for wanted, pattern, line in _RULES:
        if not (before_run or wanted == "mkdir") or (line is _no_folder and "folder" not in facts):
            continue
        if re.fullmatch(wanted, operation) and re.search(pattern, cause):
            return line(place, {**facts, "cause": cause})
    return None


def _at(place: _Place, address: str) -> _Place:
    """The same where one of several addresses is what the error is about."""
    bare = address.strip("[]")
    host = f"[{bare}]" if ":" in bare else bare
    return place if place.name == host else replace(place, host=host, name=host)


def _place(url: str) -> _Place | None:
    """The parts of a server's or a folder's name; None for other targets."""
    if "://" not in url:
        return _Place(url, "", "this machine", 0, url) if url.startswith("/") else None
    parts = urlsplit(url)
    if parts.scheme not in ("smb", "nfs") or not parts.hostname:
        return None
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    try:
        given = parts.port
    except ValueError:
        return None
    port = given or (smb if parts.scheme == "smb" else nfs).DEFAULT_PORT
    return _Place(url, parts.scheme, f"{host}:{given}" if given else host, port, unquote(parts.path), host)
