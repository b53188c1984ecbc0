"""Addresses of servers: `//[[domain;]user[:password]@]host[:port]/path`, and UNC names."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote

from naslab.errors import UsageError
from naslab.targets.query import Options
from naslab.targets.target import Secret

_HOST = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9._-]{0,252}[A-Za-z0-9_.])?\Z")
_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
MAX_PATH_CHARS = 4096
MAX_CONNECTIONS = 32
"""Of one session, and so the most addresses that one can use."""
AUTO = "auto"
"""In place of addresses: those that the server lists."""


@dataclass(frozen=True)
class Address:
    """Where a server is and who asks. port: None when not given. path: None when the address ends after the
    host, else its parts, decoded.
    """

    host: str
    port: int | None = None
    path: tuple[str, ...] | None = None
    user: str = ""
    domain: str = ""
    password: Secret | None = None

    def authority(self) -> str:
        """`user@host:port` without the password."""
        name = quote(self.user, safe="")
        domain = quote(self.domain, safe="") + ";" if self.domain else ""
        at = f"{domain}{name}@" if self.user else ""
        host = f"[{quote(self.host, safe=':')}]" if ":" in self.host else self.host
        return f"{at}{host}" + ("" if self.port is None else f":{self.port}")

    def path_text(self) -> str:
        """`/share/dir`, percent-encoded; empty without a path."""
        return "" if self.path is None else "/" + "/".join(quote(part, safe="$!'()*+,=@~") for part in self.path)


def parse_address(shown: str, scheme: str, rest: str) -> Address:
    """The address in `rest`, which begins with `//` and has no query. Raises UsageError."""
    if not rest.startswith("//"):
        place = shown.partition(":")[2].strip("/")
        raise _error(shown, f"write {scheme}://{place or 'host/…'}")
    authority, slash, path = rest[2:].partition("/")
    login, at, place = authority.rpartition("@")
    host, port = _host_and_port(shown, place)
    user, domain, password = _login(shown, login) if at else ("", "", None)
    parts = _parts(shown, path) if slash else None
    return Address(host, port, parts, user, domain, password)


def parse_unc(shown: str, text: str) -> Address:
    r"""The address of `\\host\share\dir`; nothing in it is encoded. Raises UsageError."""
    host, *parts = text[2:].split("\\")
    if "@" in host:
        raise _error(shown, "a UNC name takes neither user nor port; write smb://user@host:port/share")
    if ":" in host or "/" in host:
        raise _error(shown, r"write \\host\share, or smb://host:port/share for another port or an IPv6 address")
    host, _ = _host_and_port(shown, host)
    return Address(host, None, _checked(shown, parts) if parts else None)


def parse_connections(options: Options, lists_addresses: bool) -> dict[str, Any]:
    """The engine's `connections` and `addresses` from `connections=` and `address=A,B`.

    lists_addresses: the protocol can ask a server for its addresses, so that `address=auto` is one. With addresses a
    session has one connection to each unless more are asked for; 0 for as many as the server lists. Raises UsageError.
    """
    connections = options.number("connections", 1, MAX_CONNECTIONS)
    given = options.given("address")
    places = [place.strip() for place in options.text("address").split(",")] if given else []
    if not places:
        return {"connections": connections or 1, "addresses": []}
    if AUTO in places:
        if not lists_addresses:
            raise options.error("address=auto: an NFS server lists no addresses; name them: address=A,B")
        if len(places) > 1:
            raise options.error("address= takes auto alone, or addresses with commas")
        return {"connections": connections or 0, "addresses": [AUTO]}
    places = [_place(options, place) for place in places]
    if twice := next((place for place in places if places.count(place) > 1), ""):
        raise options.error(f"address= names {twice} twice; give each address once")
    if len(places) > MAX_CONNECTIONS:
        raise options.error(f"address= names {len(places)} addresses; give at most {MAX_CONNECTIONS}")
    if connections is not None and connections < len(places):
        raise options.error(
            f"connections={connections} and {len(places)} addresses: a session has a connection to each; give at least "
            f"{len(places)}, or leave connections= out"
        )
    return {"connections": connections or len(places), "addresses": places}


def _place(options: Options, text: str) -> str:
    """One address of several, as the engine takes it. Raises UsageError."""
    bare = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    if _is_ipv6(bare) or _HOST.match(bare):
        return bare
    raise options.error(
        f"address={text!r} is neither a host name nor an address; write address=A,B without ports: the port is that "
        "of the target's name"
    )


def _host_and_port(shown: str, place: str) -> tuple[str, int | None]:
    if place.startswith("["):
        host, bracket, rest = place[1:].partition("]")
        host = unquote(host)
        if not bracket or (rest and not rest.startswith(":")) or not _is_ipv6(host):
            raise _error(shown, "an IPv6 address is written in brackets, as //[fe80::1]:port/…")
        return host, _port(shown, rest[1:]) if rest else None
    host, colon, port = place.partition(":")
    if ":" in port:
        raise _error(shown, "an IPv6 address is written in brackets, as //[fe80::1]:port/…")
    if not _HOST.match(host):
        raise _error(shown, "the host name is missing or invalid; write it after ://")
    return host, _port(shown, port) if colon else None


def _is_ipv6(text: str) -> bool:
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True


def _port(shown: str, text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 6 and 1 <= int(text) <= 65535):
        raise _error(shown, "the port after the host's name must be a number from 1 to 65535; a / in a password is %2F")
    return int(text)


def _login(shown: str, login: str) -> tuple[str, str, Secret | None]:
    """User, domain, password. Domains are written `domain;user` or `domain\\user`."""
    name, colon, password = login.partition(":")
    domain, semicolon, user = name.partition(";")
    if not semicolon:
        domain, user = "", name
    user, domain = _decoded(shown, user), _decoded(shown, domain)
    if not domain and "\\" in user:
        domain, _, user = user.partition("\\")
    if not user:
        raise _error(shown, "the user before @ is missing")
    return user, domain, Secret(_decoded(shown, password)) if colon else None


def _decoded(shown: str, text: str) -> str:
    """Percent-decoded. The text itself is never part of the error: it may be a password."""
    if _ESCAPE.search(text):
        raise _error(shown, "a % is written %25")
    try:
        decoded = unquote(text, errors="strict")
        decoded.encode()
    except UnicodeError:
        raise _error(shown, "percent-encoded characters must be UTF-8") from None
    if "\0" in decoded:
        raise _error(shown, "it contains a zero byte")
    return decoded


def _parts(shown: str, path: str) -> tuple[str, ...]:
    return _checked(shown, [_decoded(shown, part) for part in path.split("/")])


def _checked(shown: str, parts: list[str]) -> tuple[str, ...]:
    """Parts of a path without empty ones. Raises UsageError for those that lead elsewhere."""
    kept = tuple(part for part in parts if part not in ("", "."))
    if ".." in kept:
        raise _error(shown, "a path with .. is not followed; write the folder itself")
    if any("/" in part or "\\" in part for part in kept):
        raise _error(shown, "a name in the path contains / or \\, which no server accepts")
    if sum(map(len, kept)) > MAX_PATH_CHARS:
        raise _error(shown, "the path is too long")
    return kept


def _error(shown: str, message: str) -> UsageError:
    return UsageError(f"target {shown!r}: {message}")
