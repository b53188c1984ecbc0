r"""`smb://[[domain;]user[:password]@]host[:port]/share[/dir]?options` and `\\host\share[\dir]?options`."""

from __future__ import annotations

from typing import Any

from naslab.errors import UsageError
from naslab.targets.address import AUTO, Address, parse_address, parse_connections, parse_unc
from naslab.targets.query import Options
from naslab.targets.target import DEFAULT_TIMEOUT_NS, Target

DEFAULT_PORT = 445
DIALECTS = ("2.0.2", "2.1", "3.0", "3.0.2", "3.1.1")
LOGINS = ("ntlm", "kerberos", "guest", "anonymous")
_SMB1 = ("1", "1.0", "nt1", "nt lm 0.12", "smb1", "cifs", "core")
_CIPHERS = {f"aes{bits}{mode}": f"aes-{bits}-{mode}" for bits in (128, 256) for mode in ("gcm", "ccm")}


def parse_smb(shown: str, rest: str, whole_server: bool) -> Target:
    """The target of what follows `smb:`. Raises UsageError."""
    place, _, query = rest.partition("?")
    return _target(shown, parse_address(shown, "smb", place), Options(shown, query), whole_server)


def parse_unc_target(shown: str, text: str, whole_server: bool) -> Target:
    r"""The target of `\\host\share`. Raises UsageError."""
    place, _, query = text.partition("?")
    return _target(shown, parse_unc(shown, place), Options(shown, query), whole_server)


def _target(shown: str, address: Address, options: Options, whole_server: bool) -> Target:
    share, *folders = address.path or ("",)
    if not share and not whole_server:
        raise UsageError(
            f"target {shown!r}: the share is missing; write smb://host/share, "
            f"or list the shares with: naslab doctor smb://{address.authority()}"
        )
    if share.lower() == "ipc$":
        raise UsageError(f"target {shown!r}: IPC$ holds no files; name a share with files")
    auth = _auth(options)
    engine: dict[str, Any] = {
        "host": address.host,
        "port": address.port or DEFAULT_PORT,
        "share": share or None,
        "root": "/".join(folders),
        "user": address.user or None,
        "domain": _domain(address, options),
        "auth": auth or ("ntlm" if address.user else "guest"),
        **_dialect_and_crypto(options),
        **parse_connections(options, lists_addresses=True),
        "multichannel": options.flag("multichannel", True),
        "lease": options.choice("lease", "none", ("none", "rwh")),
        "dfs": options.flag("dfs", True),
        "timeout_ns": DEFAULT_TIMEOUT_NS,
    }
    query = options.finish()
    _check_together(options, engine)
    _check_login(options, address, engine)
    url = f"smb://{address.authority()}{address.path_text()}{query}"
    may_log_in = not auth and not address.user
    return Target(url, "smb", engine, password=address.password, whole_server=not share, may_log_in=may_log_in)


def _domain(address: Address, options: Options) -> str:
    given = options.text("domain")
    if given and address.domain and given != address.domain:
        raise options.error("the domain is given twice; give it before the user or as domain=")
    return given or address.domain


def _auth(options: Options) -> str:
    """How to log in; empty when not given."""
    value = options.text("auth").lower()
    if value not in ("", *LOGINS):
        raise options.error(f"auth={value!r}; use {', '.join(LOGINS[:-1])} or {LOGINS[-1]}")
    return value


def _dialect_and_crypto(options: Options) -> dict[str, Any]:
    if options.given("xprtsec"):
        raise options.error("xprtsec= is an option of nfs://; SMB encrypts by itself: encrypt=on")
    dialect = options.text("dialect").lower()
    if dialect in _SMB1:
        raise options.error(
            "SMB1 is not supported: it is unsafe and obsolete; enable SMB 2 or 3 on the server, "
            "or mount the share with vers=1.0 and give the mount point"
        )
    if dialect not in ("", *DIALECTS):
        raise options.error(f"dialect={dialect!r}; use {', '.join(DIALECTS[:-1])} or {DIALECTS[-1]}")
    algorithms = ("", "hmac-sha256", "aes-cmac", "aes-gmac")
    encrypt = options.choice("encrypt", "auto", ("auto", "off", "preferred", "on", "required", *_CIPHERS))
    return {
        "dialect": dialect or None,
        "sign": options.choice("sign", "auto", ("auto", "on", "off")),
        "signing_algorithm": (options.choice("signing", "", algorithms) or None),
        "encrypt": "required" if encrypt == "on" or encrypt in _CIPHERS else encrypt,
        "cipher": _CIPHERS.get(encrypt),
    }


def _check_together(options: Options, engine: dict[str, Any]) -> None:
    """Refuses options that no connection can have at once."""
    dialect, algorithm, cipher = engine["dialect"], engine["signing_algorithm"], engine["cipher"]
    if algorithm and engine["sign"] == "off":
        raise options.error("signing= and sign=off contradict each other; leave one out")
    if dialect is None:
        return
    new, newest = dialect.startswith("3"), dialect == "3.1.1"
    if engine["encrypt"] in ("preferred", "required") and not new:
        raise options.error(f"dialect {dialect} has no encryption; use 3.0 or later, or encrypt=off")
    if cipher and not newest and cipher != "aes-128-ccm":
        raise options.error(f"dialect {dialect} encrypts with aes128ccm only; use dialect=3.1.1 for {cipher}")
    if algorithm and not newest and algorithm != ("aes-cmac" if new else "hmac-sha256"):
        only = "aes-cmac" if new else "hmac-sha256"
        raise options.error(f"dialect {dialect} signs with {only} only; use dialect=3.1.1 for {algorithm}")
    if engine["multichannel"] and options.given("multichannel") and not new:
        raise options.error(f"dialect {dialect} has no multichannel; use 3.0 or later")
    if engine["addresses"] == [AUTO] and not new:
        raise options.error(f"dialect {dialect} does not list a server's addresses; name them, or use 3.0 or later")
    if engine["lease"] != "none" and dialect == "2.0.2":
        raise options.error("dialect 2.0.2 has no leases; use 2.1 or later")


def _check_login(options: Options, address: Address, engine: dict[str, Any]) -> None:
    auth = engine["auth"]
    if auth in ("guest", "anonymous") and address.password is not None:
        raise options.error(f"auth={auth} logs in without a password; leave the password out")
    if auth == "kerberos" and address.password is not None:
        raise options.error("auth=kerberos logs in with the ticket of kinit; leave the password out")
    if auth == "kerberos" and engine["domain"] and not address.user:
        raise options.error("the domain is the realm of a user; name the user too, or leave the domain out")
    if auth == "anonymous" and address.user:
        raise options.error("auth=anonymous has no user; leave the user out or use auth=guest")
