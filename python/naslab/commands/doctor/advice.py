"""Findings as sentences, each with what to do. Pure: facts in, sentences out."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from naslab.targets import Target
from naslab.targets.first_contact import FEWER_CONNECTIONS
from naslab.targets.nfs import KERBEROS
from naslab.units import amount_text, duration_text

Severity = Literal["error", "warning", "hint"]
LITTLE_SPACE_BYTES = 10**9
SMALL_TRANSFER_BYTES = 1 << 20
SLOW_NS, UNEVEN = 2_000_000, 50
"""A null operation slower than this is no local network; p99 above so many p50 is uneven."""
SLOW_SERVER = 10
"""A null operation may take so many times the round trip of TCP."""
SMALL_PACKET_BYTES = 1500
WRONG_CLOCK_NS = 3_000_000_000
"""Times of files may be whole seconds, or of FAT, two."""


@dataclass(frozen=True)
class Advice:
    """One thing to know. error: prevents measuring. warning: makes results doubtful. hint: may be wanted so."""

    severity: Severity
    kind: str
    message: str


@dataclass(frozen=True)
class Refusal:
    """An error of the engine: class, raw status, words."""

    kind: str
    status: int
    message: str


@dataclass(frozen=True)
class RoundTrip:
    """How long null operations took, in ns; p50 and others: the smallest sample at or above each share."""

    count: int
    min: int
    mean: int
    p50: int
    p90: int
    p99: int
    max: int


_LOGON_FAILED = (0xC000006D, 0xC000006A, 0xC0000064)
_ACCOUNT = {
    0xC0000072: "the account is disabled: enable it on the server",
    0xC0000234: "the account is locked after wrong passwords: unlock it on the server or wait",
    0xC0000071: "the password has expired: set a new one on the server",
    0xC0000224: "the password must be changed first: set a new one on the server",
    0xC000006E: "the account may not log in this way; often its password is empty: set one on the server",
    0xC000006F: "the account may not log in at this hour",
    0xC0000070: "the account may not log in from this machine",
    0xC000015B: "the account may not log in over the network: allow it on the server",
}
_BAD_SHARE = 0xC00000CC
_WRONG_SECURITY = 10016


def connect_advice(target: Target, kind: str, port: int) -> Advice:
    """Why no TCP connection could be made."""
    host, name = target.options["host"], target.protocol.upper()
    if kind == "timeout":
        message = f"{host} does not answer on port {port}: check that it is on, and that no firewall blocks it"
    elif kind == "refused":
        message = f"nothing listens on port {port} of {host}: enable {name} there, or give its port as {host}:PORT"
    else:
        message = f"{host} cannot be reached: check the network and the route to it"
    return Advice("error", "connect", message)


def version_advice(target: Target, versions: Sequence[str]) -> list[Advice]:
    """What a server goes without that speaks none but old versions of its protocol."""
    if target.protocol == "smb" and versions and not any(each.startswith("3") for each in versions):
        message = "the server speaks no SMB 3: nothing can be encrypted; turn SMB 3 on there"
        return [Advice("hint", "old_dialect", message)]
    return []


def tls_advice(target: Target, offered: bool) -> list[Advice]:
    """What it means that an NFS server offers TLS, or does not. Of one that has none, and was asked for it, the login
    says it."""
    if offered and not target.options["xprtsec"]:
        message = (
            "the server offers RPC-with-TLS and data go in the clear: ?xprtsec=tls encrypts them; `naslab security` "
            "measures what that costs"
        )
        return [Advice("hint", "tls", message)]
    return []


def clock_advice(ahead_ns: int | None) -> list[Advice]:
    """What a wrong clock of the server does."""
    if ahead_ns is None or abs(ahead_ns) < WRONG_CLOCK_NS:
        return []
    way = "ahead of" if ahead_ns > 0 else "behind"
    message = (
        f"the server's clock is {duration_text(abs(ahead_ns))} {way} this machine's: set both by NTP; times of files "
        "are wrong, and Kerberos refuses logins from 5 min on"
    )
    return [Advice("hint", "clock", message)]


def login_advice(target: Target, error: Refusal, names: list[str] | None) -> Advice:
    """Why the session could not be set up. names: shares or exports of the server, when they could be listed."""
    if "TLS" in error.message:
        return Advice("error", "tls", error.message)
    if "takes no more connections" in error.message:
        return Advice("error", "connections", f"{error.message}: {FEWER_CONNECTIONS}")
    if error.kind in ("timeout", "disconnected", "protocol"):
        message = f"{error.message}; check that this is the port of {target.protocol.upper()} there"
        return Advice("error", error.kind, message)
    if target.protocol == "smb":
        return _smb_login(target, error, names)
    if target.protocol == "nfs":
        return _nfs_login(target, error, names)
    return Advice("error", "open", error.message)


def _smb_login(target: Target, error: Refusal, names: list[str] | None) -> Advice:
    status, options = error.status & 0xFFFFFFFF, target.options
    user, share = _user(options), options["share"]
    if status in _LOGON_FAILED or status in _ACCOUNT:
        return _refused_user(options, user, status, error.message)
    if status == _BAD_SHARE and names and share.casefold() in (name.casefold() for name in names):
        message = f"the server lists the share {share} and cannot open it: check there that its folder exists"
        return Advice("error", "share", message)
    if status == _BAD_SHARE:
        return Advice("error", "share", f"there is no share {share}; {_there_are(names, 'shares')}")
    if error.kind == "permission" and status:
        why = "the share refuses this identity, or requires encryption or signing that was turned off"
        return Advice("error", "permission", f"user {user} may not use share {share}: {why}; give another user")
    if error.kind == "not_found":
        message = (
            f"share {share} has no folder {options['root']!r}: create it, or leave it out "
            "(Samba hides a symbolic link that leads out of the share)"
        )
        return Advice("error", "folder", message)
    message = error.message
    if error.kind == "unsupported" and options["dialect"]:
        message = f"{message}; leave dialect={options['dialect']} out to let the server choose"
    return Advice("error", error.kind, message)


def _user(options: Mapping[str, Any]) -> str:
    return str(options["user"] or ("of the Kerberos ticket" if options["auth"] == "kerberos" else "guest"))


def _refused_user(options: Mapping[str, Any], user: str, status: int, message: str) -> Advice:
    if status in _ACCOUNT:
        return Advice("error", "account", f"user {user}: {_ACCOUNT[status]}")
    if options["auth"] == "kerberos":
        return Advice("error", "kerberos", f"{message}: see the server's log")
    if options["auth"] != "ntlm":
        return Advice("error", "guest", "the server accepts no guests: give a user as smb://USER@host/share")
    domain = f" in domain {options['domain']}" if options["domain"] else " (no domain= given)"
    return Advice("error", "password", f"the server refuses user {user}{domain}: check name, password and domain")


def _nfs_login(target: Target, error: Refusal, names: list[str] | None) -> Advice:
    options = target.options
    path = options["path"]
    if error.status == _WRONG_SECURITY:
        return Advice("error", "security", _other_security(options, error.message))
    if error.kind == "permission" and not error.status and _is_kerberos(options):
        return Advice("error", "kerberos", error.message)
    if error.kind == "not_found":
        message = f"{path} is not exported or does not exist; {_there_are(names, 'exports')}"
        if str(options["version"] or "").startswith("4"):
            message += " (with NFS 4 by their real paths, not by those of symbolic links to them)"
        return Advice("error", "export", message)
    if error.kind == "permission":
        port = "" if options["privileged_port"] == "on" else _privileged(options["uid"])
        message = f"the server refuses {path} to this host: add its address to the export{port}; "
        return Advice("error", "permission", message + _there_are(names, "exports"))
    if error.kind == "unsupported" and options["version"]:
        message = f"leave version={options['version']} out to let the server choose"
        return Advice("error", "version", f"{error.message}; {message}")
    return Advice("error", error.kind, error.message)


def _other_security(options: Mapping[str, Any], message: str) -> str:
    used = options["sec"] or "sys"
    taken = re.search(r"the export takes (.+), not sec=", message)
    which = f"takes {taken[1]}, not sec={used}" if taken else f"does not take sec={used}"
    step = taken[1] if taken else "krb5, krb5i or krb5p (Kerberos), or sec=sys"
    return f"{options['path']} {which}: give ?sec={step}, or allow sec={used} for this host on the server"


def _is_kerberos(options: Mapping[str, Any]) -> bool:
    return options["sec"] in KERBEROS


def _privileged(uid: int) -> str:
    if uid == 0:
        return ", or it requires a source port below 1024: run as root with privileged=on"
    return ", or it requires a source port below 1024: run naslab as root, or export it with the option insecure"


def _there_are(names: list[str] | None, what: str) -> str:
    if names is None:
        return f"the server does not list its {what} to this identity"
    return f"the server's {what}: {', '.join(names)}" if names else f"the server lists no {what}"


def right_advice(target: Target, refused: Mapping[str, Refusal]) -> list[Advice]:
    """What the identity may not do, from the first thing that was refused. refused: right -> error."""
    for name, error in refused.items():
        what = f"this identity may not {_WORDS[name]}"
        if error.kind == "not_found" and name == "make_folder" and "list" not in refused:
            message = "the server accepts no folder of the name naslab-…: allow it there (Samba: veto files)"
            return [Advice("error", name, message)]
        if error.kind == "not_found":
            return [Advice("error", "folder", "the folder is not there: create it on the server, or check its name")]
        if error.kind == "read_only":
            step = "export it read-write" if target.protocol == "nfs" else "give a share with write access"
            message = f"the target is read-only: {step}"
        elif error.kind == "permission" and target.protocol == "nfs":
            message = f"{what}: {_squashed(target.options)}"
        elif error.kind == "permission" and target.protocol == "smb":
            user = _user(target.options)
            message = f"{what}: give user {user} write access to the share and to its folder, or name another user"
        elif error.kind == "permission":
            message = f"{what}: give a folder with write access"
        elif error.kind == "no_space":
            message = "no space or quota is left: free some"
        else:
            message = f"{what}: {error.message}"
        return [Advice("error", name, message)]
    return []


_WORDS = {
    "list": "list the folder", "make_folder": "create a folder", "write": "write a file", "flush": "flush a file",
    "read": "read back written data", "set_length": "set a file's length", "rename": "rename a file",
    "delete": "delete a file", "remove_folder": "remove a folder",
}  # fmt: skip


def _squashed(options: Mapping[str, Any]) -> str:
    uid = options["uid"]
    if _is_kerberos(options):
        return (
            "the user of the Kerberos ticket has no write access there: check to which user the server maps it "
            "(idmapd, root squash), or change the folder's mode"
        )
    if uid == 0:
        return (
            "the server maps root to nobody (root squash): give the folder's owner as ?uid=N&gid=N, "
            "or export it with no_root_squash"
        )
    return f"uid {uid} has no write access there: give the folder's owner as ?uid=N&gid=N, or change its mode"


def negotiated_advice(target: Target, facts: Mapping[str, str]) -> list[Advice]:
    """What the negotiated facts mean for results."""
    found = _smb_advice(target, facts) if target.protocol == "smb" else []
    for name, what in (("max_read_bytes", "read"), ("max_write_bytes", "write")):
        value = facts.get(name, "")
        if value.isdigit() and int(value) < SMALL_TRANSFER_BYTES:
            message = f"one {what} request moves at most {amount_text(int(value))}: larger records are split"
            found.append(Advice("hint", "transfer_size", message))
    return found


def _smb_advice(target: Target, facts: Mapping[str, str]) -> list[Advice]:
    found = []
    dialect = facts.get("dialect", "")
    if dialect.startswith("2"):
        message = f"SMB {dialect} has neither encryption nor multichannel: enable SMB 3 on the server"
        found.append(Advice("warning", "dialect", message))
    for name, option in (("encryption", "encrypt"), ("signing", "sign")):
        if facts.get(name, "none") != "none":
            demanded = facts.get(f"{name}_required") == "yes"
            compare = "the server or the share requires it" if demanded else f"compare with ?{option}=off"
            found.append(Advice("hint", name, f"{facts[name]} {name} costs CPU on both sides: {compare}"))
            break
    if target.options["auth"] not in ("ntlm", "kerberos"):
        found.append(Advice("hint", "guest", "no user was given: to log in, use smb://USER@host/share"))
    return found


def bin_advice(name: str) -> Advice:
    """What a recycle bin means for tests."""
    message = (
        f"the share has a recycle bin ({name}): a removed file is moved there, so the rates of removing are those of "
        "renaming. naslab empties its files before it removes them; `naslab clean --recycle-bin` removes what is left"
    )
    return Advice("warning", "recycle_bin", message)


def space_advice(free_bytes: int) -> list[Advice]:
    """Whether there is room to measure in."""
    if free_bytes >= LITTLE_SPACE_BYTES:
        return []
    return [
        Advice("warning", "space", f"only {amount_text(free_bytes)} are free: files will be small and stay in caches")
    ]


def latency_advice(ping: RoundTrip, tcp_ns: int | None) -> list[Advice]:
    """What the time of a null operation says of network and server."""
    found = []
    p50, p99 = ping.p50, ping.p99
    if p50 > SLOW_NS:
        message = (
            f"a null operation takes {duration_text(p50)}: the server is not on the local network, or is reached over "
            "Wi-Fi or a VPN, or was asleep"
        )
        found.append(Advice("hint", "round_trip", f"{message}; small files and queue depth 1 will be slow"))
    elif tcp_ns and p50 > SLOW_SERVER * tcp_ns:
        message = (
            f"the network answers in {duration_text(tcp_ns)}, but the server's null operation takes "
            f"{duration_text(p50)}"
        )
        found.append(Advice("hint", "slow_server", f"{message}: the server is busy or slow"))
    if p99 > UNEVEN * p50:
        message = f"null operations are uneven: p50 {duration_text(p50)}, p99 {duration_text(p99)}"
        found.append(Advice("hint", "uneven", f"{message}; look for other traffic, power saving or a busy server"))
    return found


def path_advice(mtu_bytes: int | None, interface_mtu_bytes: int | None) -> list[Advice]:
    """What the size of packets says. mtu_bytes: of the whole way; interface_mtu_bytes: of the interface taken."""
    if mtu_bytes is None:
        return []
    if interface_mtu_bytes is not None and mtu_bytes < interface_mtu_bytes:
        message = (
            f"the interface carries packets of {interface_mtu_bytes} bytes, the path to the server only {mtu_bytes}: "
            "set the same MTU on all devices of the path"
        )
        return [Advice("warning", "mtu", message)]
    if mtu_bytes < SMALL_PACKET_BYTES:
        message = f"packets of {mtu_bytes} bytes indicate a tunnel (VPN, PPPoE) on the path"
        return [Advice("hint", "mtu", message)]
    return []
