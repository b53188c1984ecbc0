"""A private Kerberos realm on this machine: MIT's KDC on a loopback port, principals, tickets, keytabs."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cli_tools import need
from naslab.lab.place import free_port, new_password

REALM = "TEST.LAB"
PROGRAMS = ("krb5kdc", "kdb5_util", "kadmin.local", "kinit")
_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
_CLIENT = """[libdefaults]
 default_realm = {realm}
 dns_lookup_kdc = false
 dns_lookup_realm = false
 dns_canonicalize_hostname = false
 rdns = false
[realms]
 {realm} = {{
  kdc = 127.0.0.1:{port}
 }}
[domain_realm]
 localhost = {realm}
"""
# A Samba that is in no domain takes only tickets without what domain controllers add (a PAC).
_KDC = """[kdcdefaults]
 kdc_listen = 127.0.0.1:{port}
 kdc_tcp_listen = 127.0.0.1:{port}
[realms]
 {realm} = {{
  database_name = {folder}/principal
  key_stash_file = {folder}/stash
  disable_pac = true
 }}
[logging]
 kdc = FILE:{folder}/kdc.log
"""


@dataclass
class Realm:
    """folder: all of its files. user: a principal with the name of this process's user, and a keytab `user.keytab`.

    `cifs.keytab` holds the key of cifs/localhost, `other.keytab` another key for that name.
    """

    folder: Path
    user: str

    @property
    def env(self) -> dict[str, str]:
        """The environment of its programs and clients; the ticket cache is `cache`, which begins empty."""
        files = {"KRB5_CONFIG": "krb5.conf", "KRB5_KDC_PROFILE": "kdc.conf", "KRB5CCNAME": "cache"}
        return {**os.environ, "PATH": _PATH, **{name: str(self.folder / file) for name, file in files.items()}}

    def run(self, *words: str) -> None:
        subprocess.run(words, env=self.env, check=True, capture_output=True, text=True, timeout=30)

    def admin(self, query: str) -> None:
        self.run("kadmin.local", "-r", REALM, "-q", query)

    def keytab(self, file: str, principal: str) -> None:
        self.admin(f"ktadd -norandkey -k {self.folder / file} {principal}")

    def kinit(self, cache: str, *more: str) -> str:
        """A ticket of the user, by the keytab; the name of its cache."""
        path = f"FILE:{self.folder / cache}"
        self.run("kinit", "-c", path, "-k", "-t", str(self.folder / "user.keytab"), *more, self.user)
        return path

    def outlive(self, cache: str) -> None:
        """Waits until the ticket in the cache has expired."""
        check = ["klist", "-s", "-c", cache]
        deadline = time.monotonic() + 30
        while subprocess.run(check, env=self.env, check=False, timeout=30).returncode == 0:
            assert time.monotonic() < deadline, "the ticket does not expire"
            time.sleep(0.1)


@contextlib.contextmanager
def realm(folder: Path) -> Iterator[Realm]:
    """The realm for the time of a `with` block; its KDC ends with it."""
    need(all(shutil.which(name, path=_PATH) for name in PROGRAMS), "krb5-kdc, krb5-admin-server and krb5-user")
    made, port = Realm(folder, pwd.getpwuid(os.geteuid()).pw_name), free_port()
    for name, text in (("krb5.conf", _CLIENT), ("kdc.conf", _KDC)):
        (folder / name).write_text(text.format(realm=REALM, port=port, folder=folder))
    # The master password is made up here and protects a database that the test throws away.
    made.run("kdb5_util", "create", "-s", "-r", REALM, "-P", new_password())
    for principal in (made.user, "cifs/localhost"):
        made.admin(f"addprinc -randkey {principal}")
    made.keytab("user.keytab", made.user)
    made.keytab("cifs.keytab", "cifs/localhost")
    with (folder / "kdc.out").open("w") as log:
        kdc = subprocess.Popen(["krb5kdc", "-n", "-r", REALM], env=made.env, stdout=log, stderr=log)
    try:
        _await(port, kdc)
        yield made
    finally:
        kdc.terminate()
        kdc.wait(timeout=20)


def _await(port: int, kdc: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and kdc.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.02)
    raise AssertionError("the KDC does not answer")
