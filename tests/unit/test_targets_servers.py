"""smb:// and nfs:// names: every option reaches the engine, contradictions are refused, passwords stay out."""

from __future__ import annotations

import copy
import dataclasses
import json
import os
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from naslab.errors import UsageError
from naslab.targets import Secret, Target, parse_target
from naslab.targets.nfs import WITHOUT_TLS, check_low_ports

SMB: dict[str, Any] = {
    "host": "nas", "port": 445, "share": "data", "root": "", "user": None, "domain": "", "auth": "guest",
    "dialect": None, "sign": "auto", "signing_algorithm": None, "encrypt": "auto", "cipher": None, "connections": 1,
    "addresses": [], "multichannel": True, "lease": "none", "dfs": True, "timeout_ns": 30_000_000_000,
}  # fmt: skip
NFS: dict[str, Any] = {
    "host": "nas", "port": None, "path": "/data", "version": None, "mount_port": None, "portmap_port": 111,
    "connections": 1, "addresses": [], "uid": os.geteuid(), "gid": os.getegid(), "gids": os.getgroups()[:16],
    "machine": None, "privileged_port": "auto", "sec": None, "principal": None, "slots": None, **WITHOUT_TLS,
    "timeout_ns": 30_000_000_000,
}  # fmt: skip
USER = {"user": "ann", "auth": "ntlm"}


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        ("smb://nas/data", {}),
        ("smb://nas/data/", {}),
        ("SMB://nas//data//a/./b/", {"root": "a/b"}),
        ("smb://nas/my%20data/%C3%A9t%C3%A9", {"share": "my data", "root": "été"}),
        ("smb://nas/my data/été", {"share": "my data", "root": "été"}),
        ("smb://nas/data?auth=anonymous", {"auth": "anonymous"}),
        ("smb://nas/data?auth=kerberos", {"auth": "kerberos", "user": None}),
        ("smb://corp.lab;ann@nas/data?auth=kerberos", {"auth": "kerberos", "user": "ann", "domain": "corp.lab"}),
        ("smb://nas:8445/data", {"port": 8445}),
        ("smb://[::1]:8445/data", {"host": "::1", "port": 8445}),
        ("smb://[fe80::1%25eth0]/data", {"host": "fe80::1%eth0"}),
        ("smb://ann@nas/data", USER),
        ("smb://corp;ann@nas/data", {**USER, "domain": "corp"}),
        ("smb://corp%5Cann@nas/data", {**USER, "domain": "corp"}),
        ("smb://ann@nas/data?domain=corp", {**USER, "domain": "corp"}),
        ("smb://ann@nas/data?auth=guest", {"user": "ann", "auth": "guest"}),
        ("smb://nas/data?dialect=2.0.2", {"dialect": "2.0.2"}),
        ("smb://nas/data?dialect=3.1.1&sign=on&signing=aes-gmac",
         {"dialect": "3.1.1", "sign": "on", "signing_algorithm": "aes-gmac"}),
        ("smb://nas/data?dialect=2.1&signing=hmac-sha256", {"dialect": "2.1", "signing_algorithm": "hmac-sha256"}),
        ("smb://nas/data?dialect=3.0&signing=aes-cmac", {"dialect": "3.0", "signing_algorithm": "aes-cmac"}),
        ("smb://nas/data?sign=off", {"sign": "off"}),
        ("smb://nas/data?encrypt=off", {"encrypt": "off"}),
        ("smb://nas/data?encrypt=preferred", {"encrypt": "preferred"}),
        ("smb://nas/data?encrypt=on", {"encrypt": "required"}),
        ("smb://nas/data?encrypt=required", {"encrypt": "required"}),
        ("smb://nas/data?encrypt=aes128gcm", {"encrypt": "required", "cipher": "aes-128-gcm"}),
        ("smb://nas/data?encrypt=AES256CCM", {"encrypt": "required", "cipher": "aes-256-ccm"}),
        ("smb://nas/data?dialect=3.0&encrypt=aes128ccm",
         {"dialect": "3.0", "encrypt": "required", "cipher": "aes-128-ccm"}),
        ("smb://nas/ns/link?dfs=off", {"share": "ns", "root": "link", "dfs": False}),
        ("smb://nas/data?connections=4&multichannel=off&lease=rwh",
         {"connections": 4, "multichannel": False, "lease": "rwh"}),
        ("smb://nas/data?address=10.0.0.1,10.0.0.2", {"addresses": ["10.0.0.1", "10.0.0.2"], "connections": 2}),
        ("smb://nas/data?address=a,%5B2001:db8::7%5D&connections=5",
         {"addresses": ["a", "2001:db8::7"], "connections": 5}),
        ("smb://nas/data?address=auto", {"addresses": ["auto"], "connections": 0}),
        ("smb://nas/data?address=auto&connections=4", {"addresses": ["auto"], "connections": 4}),
        (r"\\nas\data", {}),
        (r"\\nas\data\a b\100%41", {"root": "a b/100%41"}),
        (r"\\nas\data?dialect=3.0", {"dialect": "3.0"}),
    ],
)  # fmt: skip
def test_smb(text: str, changed: dict[str, Any]) -> None:
    target = parse_target(text)
    assert target.engine_spec() == {"protocol": "smb", "options": {**SMB, **changed}}
    assert target.password is None and not target.whole_server
    again = parse_target(target.url)
    assert again.engine_spec() == target.engine_spec(), "the name in results means the same"


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        ("nfs://nas/data", {}),
        ("nfs://nas/", {"path": "/"}),
        ("nfs://nas:22049/data/a%20b/", {"port": 22049, "path": "/data/a b"}),
        ("nfs://[fe80::1]/data", {"host": "fe80::1"}),
        ("nfs://nas/data?version=3&mountport=635&portmap=1111",
         {"version": "3", "mount_port": 635, "portmap_port": 1111}),
        ("nfs://nas/data?version=4", {"version": "4"}),
        ("nfs://nas/data?mountport=635&version=4.1", {"version": "4.1", "mount_port": 635}),
        ("nfs://nas/data?version=4.1&slots=16&connections=2", {"version": "4.1", "slots": 16, "connections": 2}),
        ("nfs://nas/data?uid=1000&gid=100", {"uid": 1000, "gid": 100, "gids": []}),
        ("nfs://nas/data?uid=0&gids=1,2", {"uid": 0, "gids": [1, 2]}),
        ("nfs://nas/data?gids=7", {"gids": [7]}),
        ("nfs://nas/data?privileged=off", {"privileged_port": "off"}),
        ("nfs://nas/data?sec=sys&uid=7", {"sec": "sys", "uid": 7, "gids": []}),
        ("nfs://nas/data?xprtsec=none", {}),
        ("nfs://nas/data?xprtsec=TLS&tlsverify=off", {"xprtsec": "tls", "tls_verify": False}),
        ("nfs://nas/data?xprtsec=tls&tlscacert=/etc/ca.pem", {"xprtsec": "tls", "tls_authorities": "/etc/ca.pem"}),
        (
            "nfs://nas/data?xprtsec=mtls&tlscert=/c&tlskey=/k",
            {"xprtsec": "mtls", "tls_certificate": "/c", "tls_key": "/k"},
        ),
        ("nfs://nas/data?sec=KRB5", {"sec": "krb5"}),
        ("nfs://ann@nas/data?sec=krb5i", {"sec": "krb5i", "principal": "ann"}),
        ("nfs://corp.lab;ann@nas/data?sec=krb5p", {"sec": "krb5p", "principal": "ann@CORP.LAB"}),
        ("nfs://CORP;ann@nas/data?sec=krb5p", {"sec": "krb5p", "principal": "ann"}),
        ("nfs://ann%40CORP.LAB@nas/data?sec=krb5p", {"sec": "krb5p", "principal": "ann@CORP.LAB"}),
    ],
)  # fmt: skip
def test_nfs(text: str, changed: dict[str, Any]) -> None:
    target = parse_target(text)
    assert target.engine_spec() == {"protocol": "nfs", "options": {**NFS, **changed}}
    assert parse_target(target.url).engine_spec() == target.engine_spec()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("smb://nas", ("share is missing", "naslab doctor smb://nas")),
        ("smb://nas/", ("share is missing", "naslab doctor smb://nas")),
        ("smb://ann@nas:1445", ("naslab doctor smb://ann@nas:1445",)),
        ("nfs://nas", ("export is missing", "naslab doctor nfs://nas")),
        ("smb:nas/data", ("smb://nas/data",)),
        ("smb:///data", ("host",)),
        ("smb://a b/data", ("host",)),
        ("smb://fe80::1/data", ("brackets",)),
        ("smb://[nas]/data", ("brackets",)),
        ("smb://nas:0/data", ("1 to 65535",)),
        ("smb://nas:99999/data", ("1 to 65535",)),
        ("smb://@nas/data", ("user before @",)),
        ("smb://nas/data/../etc", ("..",)),
        ("smb://nas/data/a%2Fb", ("/ or \\",)),
        ("smb://nas/data/a%5Cb", ("/ or \\",)),
        ("smb://nas/data/%zz", ("%25",)),
        ("smb://nas/data/%ff", ("UTF-8",)),
        ("smb://nas/data/%00", ("zero byte",)),
        ("smb://nas/IPC$", ("IPC$",)),
        ("smb://nas/data?speed=1", ("speed", "dialect", "encrypt")),
        ("smb://nas/data?sign=on&sign=off", ("twice",)),
        ("smb://nas/data?dialect=4", ("'4'", "3.1.1")),
        *((f"smb://nas/data?dialect={name}", ("SMB1", "vers=1.0")) for name in ("1", "1.0", "NT1", "smb1")),
        ("smb1://nas/data", ("SMB1", "smb://")),
        ("smb://nas/data?sign=maybe", ("sign='maybe'", "auto, on or off")),
        ("smb://nas/data?sign=off&signing=aes-cmac", ("signing=", "sign=off")),
        ("smb://nas/data?dialect=2.1&encrypt=on", ("2.1", "no encryption", "3.0")),
        ("smb://nas/data?dialect=3.0.2&encrypt=aes256gcm", ("aes128ccm", "3.1.1")),
        ("smb://nas/data?dialect=2.1&signing=aes-gmac", ("hmac-sha256", "3.1.1")),
        ("smb://nas/data?dialect=3.0&signing=hmac-sha256", ("aes-cmac",)),
        ("smb://nas/data?dialect=2.1&multichannel=on", ("multichannel", "3.0")),
        ("smb://nas/data?dialect=2.0.2&lease=rwh", ("leases", "2.1")),
        ("smb://nas/data?connections=0", ("connections='0'", "1 to 32")),
        ("smb://nas/data?connections=33", ("1 to 32",)),
        ("smb://nas/data?address=a,a", ("address=", "a twice")),
        ("smb://nas/data?address=", ("address=''", "host name")),
        ("smb://nas/data?address=a:445,b", ("address='a:445'", "without ports")),
        ("smb://nas/data?address=auto,b", ("auto alone",)),
        ("smb://nas/data?address=" + ",".join(f"h{n}" for n in range(33)), ("33 addresses", "at most 32")),
        ("smb://nas/data?address=a,b&connections=1", ("connections=1", "2 addresses", "at least 2")),
        ("smb://nas/data?address=auto&dialect=2.1", ("2.1", "3.0")),
        ("nfs://nas/data?address=auto", ("address=auto", "address=A,B")),
        ("smb://ann:secret@nas/data?auth=kerberos", ("kinit", "leave the password out")),
        ("smb://nas/data?auth=kerberos&domain=corp", ("realm", "name the user")),
        ("smb://nas/data?auth=plain", ("'plain'", "kerberos", "guest")),
        ("smb://ann@nas/data?auth=anonymous", ("anonymous", "guest")),
        ("smb://a;ann@nas/data?domain=b", ("domain", "twice")),
        ("\\\\nas", ("share is missing",)),
        (r"\\nas@8445\data", ("smb://user@host:port/share",)),
        (r"\\nas:8445\data", ("smb://host:port/share",)),
        (r"\\nas\data\..", ("..",)),
        ("//nas/data", ("is a local path", "smb://host/share")),
        ("nas:/data", ("nfs://nas/data",)),
        ("192.168.1.5:/data", ("nfs://192.168.1.5/data",)),
        ("nfs://ann@nas/data", ("sec=krb5", "uid=")),
        ("nfs://ann@nas/data?sec=sys", ("sec=krb5", "uid=")),
        ("nfs://nas/data?sec=lkey", ("sec='lkey'", "sys, krb5, krb5i or krb5p")),
        ("nfs://ann:secret@nas/data?sec=krb5", ("kinit", "leave the password out")),
        ("nfs://nas/data?sec=krb5&uid=7&gids=1,2", ("ticket", "leave uid= and gids= out")),
        ("nfs://nas/data?version=2", ("NFSv2", "version=3")),
        ("nfs://nas/data?version=5", ("'5'", "4.2")),
        ("nfs://nas/data?version=3&slots=4", ("slots", "4.1")),
        ("nfs://nas/data?pnfs=1", ("pNFS", "mount")),
        ("nfs://nas/data?version=4.1&layout=files", ("pNFS", "mount")),
        ("pnfs://nas/data", ("pNFS", "nfs://")),
        ("nfs://nas/data?uid=-1", ("uid='-1'",)),
        ("nfs://nas/data?uid=4294967295", ("4294967294",)),
        ("nfs://nas/data?gids=" + ",".join("1" * 17), ("at most 16",)),
        ("nfs://nas/data?privileged=yes", ("auto, on or off",)),
        ("cifs://nas/data", ("smb://",)),
        ("nfs4://nas/data", ("version=4",)),
        *((f"{name}://nas/x", (name.upper()[:3],)) for name in ("http", "https", "afp", "ftp", "sftp")),
        ("webdav://nas/x", ("WebDAV",)),
        ("davs://nas/x", ("WebDAV",)),
        ("iscsi://nas/x", ("iSCSI", "mount")),
    ],
)  # fmt: skip
def test_refused_by_name(text: str, words: tuple[str, ...]) -> None:
    with pytest.raises(UsageError) as caught:
        parse_target(text)
    for word in ("target", *words):
        assert word in str(caught.value)


def test_whole_servers_are_for_doctor_only() -> None:
    smb = parse_target("smb://ann@nas:1445", whole_server=True)
    assert smb.whole_server and smb.options["share"] is None and smb.url == "smb://ann@nas:1445"
    assert parse_target("smb://nas/", whole_server=True).whole_server
    nfs = parse_target("nfs://nas?version=3", whole_server=True)
    assert nfs.whole_server and nfs.options["path"] == "" and nfs.url == "nfs://nas?version=3"
    assert not parse_target("nfs://nas/", whole_server=True).whole_server, "the root of NFSv4 is an export"
    assert not parse_target("smb://nas/data", whole_server=True).whole_server


def test_timeout_reaches_servers_only(tmp_path: Any) -> None:
    assert parse_target("smb://nas/data").with_timeout(5).options["timeout_ns"] == 5
    assert parse_target("nfs://nas/data").with_timeout(5).options["timeout_ns"] == 5
    for text in ("null:", "sim:", str(tmp_path)):
        assert parse_target(text).with_timeout(5) == parse_target(text)


@pytest.mark.parametrize("written", ["sw%2Fordfi%40sh", "sw:ordfi@sh", "sw?ordfi"])
def test_password_of_a_name(written: str) -> None:
    """Parsed where it can be, and never in a text either way."""
    text = f"smb://ann:{written}@nas/data"
    try:
        target = parse_target(text)
    except UsageError as error:
        assert "ordfi" not in str(error)
        return
    assert target.password is not None and "ordfi" in target.password.reveal()
    assert target.engine_spec()["options"]["password"] == target.password.reveal()
    assert target.options["auth"] == "ntlm" and target.url == "smb://ann@nas/data"
    for shown in (repr(target), str(target.stored_spec()), repr(target.password), f"{target.password}"):
        assert "ordfi" not in shown
    assert "ordfi" not in repr(dataclasses.asdict(target))
    assert "ordfi" not in repr(dataclasses.replace(target, direct=True))


def test_secrets_cannot_be_written() -> None:
    secret = Secret("swordfish")
    with pytest.raises(TypeError):
        pickle.dumps(secret)
    with pytest.raises(TypeError):
        json.dumps(secret)
    assert copy.deepcopy(Target("x", "smb", password=secret)).password == secret
    assert secret == Secret("swordfish") != Secret("other") and secret != "swordfish"
    assert len({secret, Secret("swordfish")}) == 1


NAMES = st.text(st.characters(exclude_characters="/\\\0?", exclude_categories=["Cs"]), min_size=1, max_size=20).filter(
    lambda name: name not in (".", "..") and name.lower() != "ipc$"
)


@given(NAMES, st.lists(NAMES, max_size=3))
def test_any_names_survive_the_url(share: str, folders: list[str]) -> None:
    unc = "\\".join(["", "", "nas", share, *folders])
    target = parse_target(unc)
    assert (target.options["share"], target.options["root"]) == (share, "/".join(folders))
    assert parse_target(target.url).options == target.options


def test_more_privileged_connections_than_ports_are_refused_beforehand() -> None:
    asked = parse_target("nfs://nas/data?privileged=on&connections=8")
    check_low_ports(asked, 44)
    with pytest.raises(UsageError, match=r"privileged=on.*360 ports.*of 359"):
        check_low_ports(asked, 45)
    check_low_ports(parse_target("nfs://nas/data?connections=8"), 1000)  # from any port then
