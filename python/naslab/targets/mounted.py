"""Which server lies behind a folder that a kernel mounted, as a name that naslab's own client takes.

Source of the fields: proc_pid_mountinfo(5); what the file systems write into them: `nfs_show_options` and
`nfs_show_devname` (fs/nfs/super.c), `cifs_show_options` and `cifs_show_devname` (fs/smb/client/cifsfs.c) of Linux.
"""

from __future__ import annotations

import ipaddress
import os
import re
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlencode

from naslab.targets.address import Address
from naslab.targets.nfs import KERBEROS

KINDS = {"nfs": "nfs", "nfs4": "nfs", "cifs": "smb", "smb3": "smb"}
"""Types of file systems, and the scheme of naslab's own client for each."""
_DIALECTS = {"2.0": "2.0.2", "2.1": "2.1", "3.0": "3.0", "3.02": "3.0.2", "3.1.1": "3.1.1"}
_ESCAPED = re.compile(r"\\([0-7]{3})")
_SECRETS = ("password", "pass", "password2", "credentials")
_NFS_PORT, _SMB_PORT, _PORTMAP_PORT = 2049, 445, 111
_MAX_CONNECTIONS = 32
_ESTABLISHED = "01"


@dataclass(frozen=True)
class Mount:
    """A line of mountinfo. root: the folder of the file system that is mounted. options: of the superblock."""

    point: str
    root: str
    type: str
    source: str
    options: dict[str, str]


@dataclass(frozen=True)
class Behind:
    """The server behind a folder. kind: `nfs` or `smb`. url: for naslab's own client; None where it speaks no such
    version. left_out: what the mount has and the URL has not, in words. options: what tells how it is mounted.
    """

    mount: Mount
    kind: str
    url: str | None
    left_out: tuple[str, ...]

    @property
    def options(self) -> dict[str, str]:
        """Options that change the speed, for the record."""
        told = (
            "vers", "sec", "xprtsec", "proto", "rsize", "wsize", "cache", "seal", "nconnect", "max_channels", "sync",
        )  # fmt: skip
        return {name: self.mount.options[name] for name in told if name in self.mount.options}


def behind(mountinfo: str, path: str, tcp: str = "") -> Behind | None:
    """The server behind a folder; None where it lies on no mount of NFS or CIFS.

    mountinfo: text of /proc/self/mountinfo. path: absolute, without links. tcp: text of /proc/self/net/tcp and tcp6,
    for CIFS, whose options do not tell the port.
    """
    mount = _mount_of(mountinfo, path)
    if mount is None or mount.type not in KINDS:
        return None
    below = _parts(path)[len(_parts(mount.point)) :]
    return (_nfs if KINDS[mount.type] == "nfs" else _smb)(mount, below, tcp)


def mounts(mountinfo: str) -> Iterator[Mount]:
    """Every line that can be read, in order: a later one lies over earlier ones of the same point."""
    for line in mountinfo.splitlines():
        own, separator, rest = line.partition(" - ")
        fields, last = own.split(" "), rest.split(" ")
        if not separator or len(fields) < 6 or len(last) < 3:
            continue
        pairs = (option.partition("=") for option in last[2].split(","))
        options = {name: _plain(value) for name, _, value in pairs if name not in _SECRETS}
        yield Mount(_plain(fields[4]), _plain(fields[3]), last[0], _plain(last[1]), options)


def _mount_of(mountinfo: str, path: str) -> Mount | None:
    """The mount that a path lies on: that of the longest point, the last of those there."""
    wanted = _parts(path)
    found: Mount | None = None
    for mount in mounts(mountinfo):
        point = _parts(mount.point)
        if wanted[: len(point)] == point and (found is None or len(point) >= len(_parts(found.point))):
            found = mount
    return found


def _plain(text: str) -> str:
    """Without the kernel's octal escapes, which stand for bytes of UTF-8."""
    pieces, at = [], 0
    for match in _ESCAPED.finditer(text):
        pieces += [os.fsencode(text[at : match.start()]), bytes([int(match[1], 8) & 0xFF])]
        at = match.end()
    return os.fsdecode(b"".join([*pieces, os.fsencode(text[at:])]))


def _parts(path: str) -> tuple[str, ...]:
    return tuple(part for part in path.split("/") if part)


def _nfs(mount: Mount, below: tuple[str, ...], _tcp: str) -> Behind | None:
    """Its source is the whole path, also of a folder that was bound elsewhere; its root is always /."""
    host, export = _host_and_path(mount.source)
    options = mount.options
    left_out = list(_nfs_left_out(options))
    version = options.get("vers", "3")
    query = {"version": version}
    if version == "3" and options.get("mountport", "0") != "0":
        query["mountport"] = options["mountport"]
    if _number(options.get("nconnect"), _MAX_CONNECTIONS) > 1:
        query["connections"] = options["nconnect"]
    if "noresvport" in options:
        query["privileged"] = "off"
    kerberos = options.get("sec", "") in KERBEROS
    if kerberos:
        query["sec"] = options["sec"]
    if tls := options.get("xprtsec") == "tls":
        query["xprtsec"] = "tls"
    port = _number(options.get("port"), 65535)
    place = (*_parts(export), *_parts(mount.root), *below)
    # A ticket is for a name, not for an address; so is a certificate, most often.
    server = host if kerberos or tls else _address(options, host)
    address = Address(server, None if port in (0, _NFS_PORT) else port, place)
    url = f"nfs://{address.authority()}{address.path_text()}?{urlencode(query)}"
    if version not in ("3", "4", "4.0", "4.1", "4.2"):
        left_out.append(f"vers={version}: naslab's own client has no such version")
    return Behind(mount, "nfs", None if version.startswith("2") else url, tuple(left_out))


def _nfs_left_out(options: dict[str, str]) -> Iterator[str]:
    security = options.get("sec", "sys")
    if security not in ("sys", "null", "none", *KERBEROS):
        yield f"sec={security}: naslab's own client sends user numbers (sec=sys), unsigned and unencrypted"
    if options.get("proto", "tcp") not in ("tcp", "tcp6"):
        yield f"proto={options['proto']}: naslab's own client speaks TCP"
    if (protection := options.get("xprtsec", "none")) not in ("none", "tls"):
        yield f"xprtsec={protection}: naslab cannot see the certificate of this client; name it in the server's target"
    if "fsc" in options:
        yield "fsc: the mount keeps data on a disk of this machine"


def _smb(mount: Mount, below: tuple[str, ...], tcp: str) -> Behind | None:
    """The source is `//host/share/prefix`; the prefix may be in the root, too, and then is not doubled."""
    host, *places = _parts(mount.source)
    host = host.removeprefix("[").removesuffix("]")
    options = mount.options
    share, prefix = places[:1], tuple(places[1:])
    root = _parts(mount.root)
    inside = root if root[: len(prefix)] == prefix else (*prefix, *root)
    left_out = list(_smb_left_out(options))
    query: dict[str, str] = {}
    dialect = _DIALECTS.get(options.get("vers", ""))
    if dialect:
        query["dialect"] = dialect
    if "seal" in options:
        query["encrypt"] = "on"
    elif options.get("sec", "").endswith("i"):
        query["sign"] = "on"
    if _number(options.get("max_channels"), _MAX_CONNECTIONS) > 1:
        query["connections"] = options["max_channels"]
    server = _address(options, host)
    port = _smb_port(tcp, server)
    user, domain = options.get("username", ""), options.get("domain", "")
    if options.get("sec", "") in KERBEROS:
        # A ticket is for a name, not for an address; the mount's domain is none of Kerberos' realms.
        query["auth"], server, domain = "kerberos", host, ""
    address = Address(server, None if port == _SMB_PORT else port, (*share, *inside, *below), user,
                      domain if user else "")  # fmt: skip
    url = f"smb://{address.authority()}{address.path_text()}" + (f"?{urlencode(query)}" if query else "")
    if options.get("vers", "").startswith("1"):
        return Behind(mount, "smb", None, (*left_out, "vers=1.0: naslab's own client does not speak SMB 1"))
    return Behind(mount, "smb", url if share else None, tuple(left_out))


def _smb_left_out(options: dict[str, str]) -> Iterator[str]:
    if "multiuser" in options:
        yield "multiuser: the mount logs in as each user, naslab's own client as one"
    if "rdma" in options:
        yield "rdma: naslab's own client speaks TCP"


def _host_and_path(source: str) -> tuple[str, str]:
    """`host:/export`, `[fe80::1]:/export`."""
    if source.startswith("["):
        host, _, rest = source[1:].partition("]")
        return host, rest.removeprefix(":")
    host, _, path = source.partition(":")
    return host, path


def _address(options: dict[str, str], host: str) -> str:
    """The address that the kernel connected to; the name in the source may stand for several servers."""
    text = options.get("addr", "")
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        return host


def _number(text: str | None, most: int) -> int:
    """A whole number up to `most`; 0 for anything else."""
    found = int(text) if text is not None and text.isascii() and text.isdecimal() and len(text) < 6 else 0
    return found if found <= most else 0


def _smb_port(tcp: str, server: str) -> int:
    """The port that this machine is connected to at the server: 445, or the only one that is not of NFS."""
    ports = {port for host, port in _connections(tcp) if host == server} - {_NFS_PORT, _PORTMAP_PORT}
    return ports.pop() if len(ports) == 1 and _SMB_PORT not in ports else _SMB_PORT


def _connections(tcp: str) -> Iterator[tuple[str, int]]:
    """Address and port of the other end of each connection in /proc/net/tcp and tcp6 (little-endian words)."""
    for line in tcp.splitlines():
        fields = line.split()
        if len(fields) < 4 or fields[3] != _ESTABLISHED:
            continue
        words, _, port = fields[2].partition(":")
        try:
            raw = b"".join(bytes.fromhex(words[at : at + 8])[::-1] for at in range(0, len(words), 8))
            host = ipaddress.ip_address(socket.inet_ntop(socket.AF_INET if len(raw) == 4 else socket.AF_INET6, raw))
            yield str(getattr(host, "ipv4_mapped", None) or host), int(port, 16)
        except ValueError:
            continue
