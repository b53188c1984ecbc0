"""A Windows domain: Samba as its controller and, joined to it, as the server that is tried.

All files lie in one folder. Names are resolved, and Samba's programs find each other, in the namespaces of `inside.py`
alone: `/etc/hosts`, `/etc/resolv.conf` and `/run` are other files there, and the controller has a `/run` of its own.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

REALM, DOMAIN = "INTEROP.LAN", "INTEROP"
HOST, CONTROLLER, ADDRESS = "member.interop.lan", "dc1.interop.lan", "10.94.0.1"
MADE_S = 60
KERBEROS_PORT, LDAP_PORT, SMB_PORT, DNS_PORT = 88, 389, 445, 53
PROGRAMS = {
    "samba": "samba", "samba-tool": "samba-common-bin", "net": "samba-common-bin", "smbd": "samba",
    "winbindd": "winbind", "kinit": "krb5-user", "ip": "iproute2",
}  # fmt: skip
_SBIN = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
_FOLDERS = ("private", "lock", "state", "cache", "run", "ncalrpc", "bind-dns")


def missing() -> str:
    """The packages that are not here; empty where all are."""
    wanted = [package for program, package in PROGRAMS.items() if shutil.which(program, path=_SBIN) is None]
    if not list(Path("/usr/lib").glob("*/samba/ldb/samba_dsdb.so")):
        wanted.append("samba-dsdb-modules")
    if not Path("/usr/share/samba/setup/provision.ldif").exists():
        wanted.append("samba-ad-provision")
    return " ".join(sorted(set(wanted)))


class Domain:
    """folder: of all files. user, password: who logs in; a domain takes no password of small letters alone.

    port: of the member.
    """

    def __init__(self, folder: Path, user: str, password: str, port: int) -> None:
        self.folder, self.user, self.password, self.port = folder, user, password, port
        self.member, self.controller = folder / "member.conf", folder / "controller.conf"

    @property
    def _environment(self) -> dict[str, str]:
        return {"KRB5_CONFIG": f"{self.folder}/krb5.conf", "KRB5CCNAME": f"FILE:{self.folder}/ticket"}

    def write(self, data: Path) -> list[str]:
        """The files that need no program; the words that start the member, which serves `data`."""
        for name in ("controller", "member"):
            for each in _FOLDERS:
                (self.folder / name / each).mkdir(parents=True, exist_ok=True)
        (self.folder / "users").write_text(f"root = {DOMAIN}\\{self.user}\n")
        scripts = self.folder / "controller" / "state" / "sysvol" / REALM.lower() / "scripts"
        _write(self.controller, {
            "global": {"server role": "active directory domain controller", "netbios name": "DC1",
                       "interfaces": ADDRESS, **self._lines("controller"),
                       "server services": "s3fs, rpc, ldap, cldap, kdc, winbindd, dns",
                       "bind dns directory": f"{self.folder}/controller/bind-dns"},
            "sysvol": {"path": str(scripts.parents[1]), "read only": "no"},
            "netlogon": {"path": str(scripts), "read only": "no"},
        })  # fmt: skip
        _write(self.member, {
            "global": {"server role": "member server", "security": "ads", "netbios name": "MEMBER",
                       "interfaces": "127.0.0.1", "smb ports": str(self.port), **self._lines("member"),
                       "kerberos method": "secrets only", "min domain uid": "0", "username map": f"{self.folder}/users",
                       "idmap config * : backend": "tdb", "idmap config * : range": "100000-199999"},
            "data": {"path": str(data), "read only": "no"},
        })  # fmt: skip
        (self.folder / "krb5.conf").write_text(
            f"[libdefaults]\n default_realm = {REALM}\n dns_lookup_kdc = false\n dns_lookup_realm = false\n"
            f" rdns = false\n dns_canonicalize_hostname = false\n[realms]\n {REALM} = {{\n  kdc = {ADDRESS}\n }}\n"
            f"[domain_realm]\n .{REALM.lower()} = {REALM}\n"
        )
        (self.folder / "hosts").write_text(
            f"127.0.0.1 localhost\n127.0.0.1 {HOST} member\n{ADDRESS} {CONTROLLER} dc1 {REALM.lower()}\n"
        )
        (self.folder / "resolv.conf").write_text(f"nameserver {ADDRESS}\nsearch {REALM.lower()}\n")
        return ["smbd", "-F", "--no-process-group", "-s", str(self.member), "-l", f"{self.folder}/member"]

    def _lines(self, name: str) -> dict[str, str]:
        folder = self.folder / name
        return {
            "realm": REALM, "workgroup": DOMAIN, "bind interfaces only": "yes", "disable netbios": "yes",
            "private dir": f"{folder}/private", "lock directory": f"{folder}/lock",
            "state directory": f"{folder}/state", "cache directory": f"{folder}/cache",
            "pid directory": f"{folder}/run", "ncalrpc dir": f"{folder}/ncalrpc", "log file": f"{folder}/log",
            "load printers": "no", "disable spoolss": "yes",
        }  # fmt: skip

    def start(self) -> dict[str, str]:
        """All but the member's smbd, until the member is in the domain and the user has a ticket; the environment of
        those who know the domain. It ends with the namespace. Raises RuntimeError."""
        for name in ("hosts", "resolv.conf"):
            self._run(["mount", "--bind", str(self.folder / name), os.path.realpath(f"/etc/{name}")])
        self._run(["mount", "-t", "tmpfs", "tmpfs", "/run"])
        Path("/run/samba").mkdir()
        self._run(["samba-tool", "domain", "provision", f"--configfile={self.controller}", f"--realm={REALM}",
                   f"--domain={DOMAIN}", "--server-role=dc", "--dns-backend=SAMBA_INTERNAL", "--host-name=dc1",
                   f"--host-ip={ADDRESS}", f"--adminpass={self.password}"])  # fmt: skip
        self._run(["samba-tool", "user", "create", self.user, self.password, f"--configfile={self.controller}"])
        own_run = 'mount -t tmpfs tmpfs /run && mkdir /run/samba && exec "$@"'
        self._spawn(["unshare", "--mount", "sh", "-c", own_run, "sh", "samba", "-F", "--no-process-group",
                     "-s", str(self.controller), "-l", f"{self.folder}/controller"])  # fmt: skip
        for port in (KERBEROS_PORT, LDAP_PORT, SMB_PORT, DNS_PORT):
            _answers(ADDRESS, port)
        self._run(["net", "ads", "join", "--no-dns-updates", "-s", str(self.member), "-U", "Administrator"],
                  text=f"{self.password}\n")  # fmt: skip
        self._spawn(["winbindd", "-F", "--no-process-group", "-s", str(self.member), "-l", f"{self.folder}/member"])
        self._run(["kinit", f"{self.user}@{REALM}"], text=f"{self.password}\n")
        return self._environment

    def _spawn(self, words: list[str]) -> None:
        with (self.folder / "started.log").open("ab") as out:
            subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=_with(self._environment), cwd=self.folder
            )

    def _run(self, words: list[str], text: str = "") -> None:
        done = subprocess.run(
            words, input=text, capture_output=True, text=True, timeout=MADE_S, check=False,
            env=_with(self._environment),
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError(f"{' '.join(words[:3])}: {(done.stderr + done.stdout).strip()[-800:]}")


def _with(more: Mapping[str, str]) -> dict[str, str]:
    return {**os.environ, "PATH": _SBIN, **more}


def _write(path: Path, sections: Mapping[str, Mapping[str, str]]) -> None:
    lines = (f"[{name}]\n" + "".join(f"\t{key} = {value}\n" for key, value in of.items())
             for name, of in sections.items())  # fmt: skip
    path.write_text("".join(lines), "utf-8")


def _answers(host: str, port: int) -> None:
    """Waits for it."""
    end = time.monotonic() + MADE_S
    while time.monotonic() < end:
        with contextlib.suppress(OSError), socket.create_connection((host, port), 1):
            return
        time.sleep(0.1)
    raise RuntimeError(f"the domain controller does not listen at port {port}")
