"""The part of the run document about what was measured."""

from typing import Annotated, Literal

from msgspec import UNSET, UnsetType

from naslab.results.describe import TLS_SUITES, Cipher, HostName, OpenPart, Timestamp, Version, Word, about
from naslab.results.parts.lab import PlantedDocument


class TargetDocument(OpenPart):
    """Target."""

    url: Annotated[str, about("the target without secrets", keep="target_url")]
    protocol: Annotated[Word, about("smb, nfs, local, sim or null")]
    dialect: Annotated[Version | None, about("protocol version, e.g. 3.1.1 or 4.1")]
    signing: Annotated[Cipher | None, about("signing algorithm in use, e.g. aes-gmac; null: unsigned")]
    encryption: Annotated[Cipher | None, about("cipher in use; null: not encrypted")]
    sec: Annotated[
        str | UnsetType | None,
        about("of NFS: krb5, krb5i (signed) or krb5p (encrypted); null: sys", keep=("krb5", "krb5i", "krb5p")),
    ] = UNSET
    xprtsec: Annotated[
        str | UnsetType | None,
        about("of NFS: tls or mtls (RFC 9289), as mount.nfs(8) calls it; null: none", keep=("tls", "mtls")),
    ] = UNSET
    tls_version: Annotated[Version | UnsetType, about("of NFS over TLS: its version, 1.3")] = UNSET
    tls_cipher_suite: Annotated[
        str | UnsetType,
        about("of NFS over TLS: the cipher suite as IANA registers it; `encryption` names its cipher", keep=TLS_SUITES),
    ] = UNSET
    auth: Annotated[
        str | UnsetType,
        about(
            "the kind of login: ntlmv2, kerberos, guest or anonymous; of NFS with sec=sys the numbers of user "
            "and group",
            keep=("ntlmv2", "kerberos", "guest", "anonymous"),
        ),
    ] = UNSET
    addresses: Annotated[
        list[HostName] | UnsetType, about("addresses of the server that were used together (--address)")
    ] = UNSET
    address_use: Annotated[
        Literal["multichannel", "session_trunking", "shared_client", "separate_sessions", "separate_mounts"]
        | UnsetType,
        about(
            "how: multichannel: one SMB session over all; session_trunking: one NFS session; "
            "shared_client: one NFS 4.0 client; separate_sessions; separate_mounts"
        ),
    ] = UNSET
    planted: Annotated[list[PlantedDocument] | UnsetType, about("of a system of the lab: its limits")] = UNSET
    calibrated_at: Annotated[
        Timestamp | UnsetType | None, about("when they were measured; null: never on a system of these parts")
    ] = UNSET
