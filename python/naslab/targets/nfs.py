"""`nfs://[user@]host[:port]/export[/dir]?options`."""

from __future__ import annotations

import os
from typing import Any

from naslab.errors import UsageError
from naslab.targets.address import Address, parse_address, parse_connections
from naslab.targets.query import Options
from naslab.targets.target import DEFAULT_TIMEOUT_NS, Target

DEFAULT_PORT = 2049
PORTMAP_PORT = 111
VERSIONS = ("3", "4", "4.0", "4.1", "4.2")
KERBEROS = ("krb5", "krb5i", "krb5p")
SECURITY = ("sys", *KERBEROS)
XPRTSEC = ("none", "tls", "mtls")
"""What protects connections below RPC, in the words of mount.nfs(8)."""
_TLS_FILES = {"tlscacert": "tls_authorities", "tlscert": "tls_certificate", "tlskey": "tls_key"}
"""Options that name files, and what the engine calls them."""
WITHOUT_TLS: dict[str, Any] = {"xprtsec": None, **dict.fromkeys(_TLS_FILES.values()), "tls_verify": True}
"""Engine options of a target that goes in the clear."""
_MAX_ID = (1 << 32) - 2
MAX_GROUPS = 16
"""AUTH_SYS carries no more (RFC 5531, appendix A)."""
_PNFS = ("pnfs", "layout", "layouts")


LOW_PORTS = 359
"""Source ports that only root may use and that connections take (`PRIVILEGED_PORTS` of crates/wire/src/dial.rs)."""


def check_low_ports(target: Target, workers: int) -> None:
    """Raises UsageError where `?privileged=on` asks for more connections than there are source ports below 1024."""
    connections = int(target.options.get("connections", 1))
    needed = workers * connections
    if target.options.get("privileged_port") == "on" and needed > LOW_PORTS:
        raise UsageError(
            f"?privileged=on with {workers} workers of {connections} connections needs {needed} ports below 1024 "
            f"of {LOW_PORTS}: use fewer, or privileged=auto on an export that allows insecure ports"
        )


def parse_nfs(shown: str, rest: str, whole_server: bool) -> Target:
    """The target of what follows `nfs:`. Raises UsageError."""
    place, _, query = rest.partition("?")
    address = parse_address(shown, "nfs", place)
    options = Options(shown, query)
    if address.path is None and not whole_server:
        raise UsageError(
            f"target {shown!r}: the export is missing; write nfs://host/export, "
            f"or list the exports with: naslab doctor nfs://{address.authority()}"
        )
    engine = {**_engine_options(address, options), **_security(address, options), **_protection(options)}
    url = f"nfs://{address.authority()}{address.path_text()}{options.finish()}"
    return Target(url, "nfs", engine, whole_server=address.path is None)


def _engine_options(address: Address, options: Options) -> dict[str, Any]:
    version = _version(options)
    path = "" if address.path is None else "/" + "/".join(address.path)
    mount_port, portmap_port = options.number("mountport", 1, 65535), options.number("portmap", 1, 65535)
    slots = options.number("slots", 1, 1024)
    if slots is not None and version in ("3", "4.0"):
        raise options.error(f"version={version} has no slots; use version=4.1 or 4.2")
    return {
        "host": address.host,
        "port": address.port,
        "path": path,
        "version": version,
        "mount_port": mount_port,
        "portmap_port": portmap_port or PORTMAP_PORT,
        **parse_connections(options, lists_addresses=False),
        **_identity(options),
        "machine": None,
        "privileged_port": options.choice("privileged", "auto", ("auto", "on", "off")),
        "slots": slots,
        "timeout_ns": DEFAULT_TIMEOUT_NS,
    }


def _version(options: Options) -> str | None:
    for name in _PNFS:
        if options.given(name):
            raise options.error(
                f"{name}=: pNFS layouts are not supported, data always go through the server named; "
                "leave it out, or mount the export and give the mount point"
            )
    version = options.text("version")
    if version == "2":
        raise options.error("version=2 is not supported: NFSv2 is obsolete; use version=3 or 4")
    if version not in ("", *VERSIONS):
        raise options.error(f"version={version!r}; use {', '.join(VERSIONS[:-1])} or {VERSIONS[-1]}")
    return version or None


def _security(address: Address, options: Options) -> dict[str, Any]:
    """The security flavour, and with Kerberos the principal; `domain;user` is the user of a realm.

    A domain without a dot is the short name that Windows gives it, which no realm has.
    """
    sec = options.text("sec").lower()
    if sec not in ("", *SECURITY):
        raise options.error(f"sec={sec!r}; use {', '.join(SECURITY[:-1])} or {SECURITY[-1]}")
    kerberos = sec in KERBEROS
    if address.user and not kerberos:
        raise options.error(
            "with sec=sys NFS has no user names: give sec=krb5, krb5i or krb5p to log in with Kerberos, or leave the "
            "user out, and give uid= and gid= if they matter"
        )
    if kerberos and address.password is not None:
        raise options.error(f"sec={sec} logs in with the ticket of kinit; leave the password out")
    given = [name for name in ("uid", "gid", "gids") if options.given(name)]
    if kerberos and given:
        raise options.error(f"sec={sec} takes the user from the Kerberos ticket; leave {'= and '.join(given)}= out")
    realm = address.domain.upper() if "." in address.domain else ""
    principal = f"{address.user}@{realm}" if realm and "@" not in address.user else address.user
    return {"sec": sec or None, "principal": principal or None}


def _protection(options: Options) -> dict[str, Any]:
    """TLS below RPC (RFC 9289). The engine reads the files before anything is sent. Raises UsageError."""
    xprtsec = options.choice("xprtsec", "none", XPRTSEC)
    verify = options.flag("tlsverify", True)
    files = {name: options.text(name) for name in _TLS_FILES}
    given = [name for name in (*files, "tlsverify") if options.given(name)]
    if xprtsec == "none":
        if given:
            raise options.error(f"{' and '.join(f'{name}=' for name in given)} need TLS: give xprtsec=tls or mtls too")
        return dict(WITHOUT_TLS)
    if empty := next((name for name in files if options.given(name) and not files[name]), ""):
        raise options.error(f"{empty}= names no file; give the path of a file in PEM form, or leave it out")
    own = [name for name in ("tlscert", "tlskey") if files[name]]
    if xprtsec == "tls" and own:
        raise options.error(f"{own[0]}= is shown with xprtsec=mtls only: give that, or leave it out")
    if xprtsec == "mtls" and len(own) < 2:
        raise options.error("xprtsec=mtls needs a certificate of this client: give both tlscert=FILE and tlskey=FILE")
    if files["tlscacert"] and not verify:
        raise options.error("tlsverify=off checks no certificate: leave it or tlscacert= out")
    paths = {_TLS_FILES[name]: os.path.abspath(os.path.expanduser(path)) for name, path in files.items() if path}
    return {**WITHOUT_TLS, "xprtsec": xprtsec, "tls_verify": verify, **paths}


def _identity(options: Options) -> dict[str, Any]:
    """Who asks: the calling process, or the numbers given. Its further groups go along only as itself."""
    uid, gid = options.number("uid", 0, _MAX_ID), options.number("gid", 0, _MAX_ID)
    gids = options.numbers("gids", 0, _MAX_ID, MAX_GROUPS)
    if gids is None:
        gids = os.getgroups()[:MAX_GROUPS] if uid is None and gid is None else []
    return {
        "uid": os.geteuid() if uid is None else uid,
        "gid": os.getegid() if gid is None else gid,
        "gids": gids,
    }
