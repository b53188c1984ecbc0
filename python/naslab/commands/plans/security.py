"""What `naslab security` tries on a server, and the load that it measures each combination with.

The load is small and fixed: large writes and reads of several requests at once, small reads one at a time, in files
that stay in the server's memory, so that what signing and encryption cost is what differs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from naslab.commands.plans.sweep import worker_files
from naslab.errors import UsageError
from naslab.spec import CellSpec
from naslab.targets.nfs import WITHOUT_TLS
from naslab.units import size_text

WORKLOAD = "security"
FILE_NAME = "naslab.security"
LARGE_BYTES, SMALL_BYTES = 1 << 20, 4 << 10
DEPTH = 8
LOADS: tuple[tuple[str, int, int], ...] = (
    ("write", LARGE_BYTES, DEPTH), ("read", LARGE_BYTES, DEPTH), ("random_read", SMALL_BYTES, 1),
)  # fmt: skip
"""(operation, record size, queue depth)."""
BLOCKS = 6
"""Rounds without --repeat."""
BUDGET_NS = 120_000_000_000
MAX_CELL_NS, MIN_CELL_NS = 500_000_000, 50_000_000
CELL_SHARE = 0.7
"""Of the budget, what timed windows may take; opening, writing the files and cleaning up take the rest."""
MAX_FILE_BYTES = 64 << 20
MIN_CELL_BYTES = DEPTH * LARGE_BYTES
UNSET = (None, "auto")
"""Values of options that leave the choice to the server."""


@dataclass(frozen=True)
class Combination:
    """A row of the price list. options: of the engine's target. facts: what the session must then say of itself."""

    name: str
    protocol: str
    options: Mapping[str, Any] = field(default_factory=dict)
    facts: Mapping[str, str] = field(default_factory=dict)


def _signed(algorithm: str) -> Combination:
    options = {"sign": "on", "encrypt": "off", "signing_algorithm": algorithm}
    return Combination(f"signed {algorithm.upper()}", "smb", options, {"signing": algorithm, "encryption": "none"})


def _encrypted(cipher: str) -> Combination:
    options = {"encrypt": "required", "cipher": cipher}
    return Combination(f"encrypted {cipher.upper()}", "smb", options, {"encryption": cipher})


def _kerberos(what: str, sec: str) -> Combination:
    return Combination(f"{what} {sec}", "nfs", {"sec": sec, **WITHOUT_TLS}, {"sec": sec, "xprtsec": "none"})


COMBINATIONS: tuple[Combination, ...] = (
    Combination("plain", "smb", {"sign": "off", "encrypt": "off"}, {"signing": "none", "encryption": "none"}),
    _signed("hmac-sha256"), _signed("aes-cmac"), _signed("aes-gmac"),
    _encrypted("aes-128-ccm"), _encrypted("aes-128-gcm"), _encrypted("aes-256-ccm"), _encrypted("aes-256-gcm"),
    Combination("plain (sec=sys)", "nfs", {"sec": "sys", **WITHOUT_TLS}, {"sec": "sys", "xprtsec": "none"}),
    Combination("encrypted TLS", "nfs", {"sec": "sys", "xprtsec": "tls"}, {"sec": "sys", "tls_version": "1.3"}),
    _kerberos("authenticated", "krb5"), _kerberos("signed", "krb5i"), _kerberos("encrypted", "krb5p"),
)  # fmt: skip
"""Every combination that naslab's own clients speak, the unprotected one of each protocol first."""

CONTRASTS = (
    ("encrypted AES-128-GCM", "encrypted AES-256-GCM"), ("signed AES-GMAC", "encrypted AES-128-GCM"),
    ("signed krb5i", "encrypted krb5p"), ("encrypted TLS", "encrypted krb5p"),
)  # fmt: skip
"""Pairs that people choose between; each has its own ratios, of the second to the first."""

NOT_SPOKEN: tuple[tuple[str, str, str], ...] = (("smb", "SMB over QUIC (TLS 1.3)", "not spoken by naslab"),)
"""(protocol, name, why): what servers may offer and naslab cannot use."""


def combinations(protocol: str) -> list[Combination]:
    """The rows of a protocol, in the order of the table."""
    return [each for each in COMBINATIONS if each.protocol == protocol]


def tried(combination: Combination, given: Mapping[str, Any]) -> dict[str, Any]:
    """Engine options of a combination on a target whose name has the options `given`.

    How TLS checks certificates, and with which of its own, is the name's to say.
    """
    options = dict(combination.options)
    if options.get("xprtsec"):
        options["xprtsec"] = given.get("xprtsec") or options["xprtsec"]
    return options


def usual(protocol: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Engine options of the first login, which tells a wrong name or password: in the clear, whatever the name says."""
    return dict(WITHOUT_TLS) if protocol == "nfs" and given.get("xprtsec") else {}


def pinned(protocol: str, options: Mapping[str, Any]) -> list[str]:
    """Engine options that the target's name sets although this command tries all their values."""
    names = dict.fromkeys(name for each in combinations(protocol) for name in each.options if name not in WITHOUT_TLS)
    return [name for name in names if options.get(name) not in UNSET]


def demanded(combination: Combination, usual: Mapping[str, Any]) -> str:
    """What the server requires that a combination goes without; empty where it is not that.

    usual: facts of a session as the target is named. A server that requires encryption says no more than that it
    refuses the share.
    """
    sealed = any(usual.get(f"{whose}encryption_required") == "yes" for whose in ("", "session_", "share_"))
    if sealed and combination.options.get("encrypt") == "off":
        return "the server requires encryption"
    if usual.get("signing_required") == "yes" and combination.options.get("sign") == "off":
        return "the server requires signed messages"
    return ""


@dataclass(frozen=True)
class Plan:
    """What is repeated. duration_ns: of each cell. stop_bytes: most that a cell may move; None for no bound."""

    blocks: int
    duration_ns: int
    stop_bytes: int | None = None

    @classmethod
    def of(cls, blocks: int, count: int, budget_ns: int, most_bytes: int | None) -> Plan:
        """Fitted to a budget. count: combinations. Raises UsageError where the bytes are too few for the rounds."""
        cells = count * blocks * len(LOADS)
        duration_ns = min(max(int(budget_ns * CELL_SHARE / cells), MIN_CELL_NS), MAX_CELL_NS)
        if most_bytes is None:
            return cls(blocks, duration_ns)
        parts = cells + count  # each cell, and the file of each combination
        if most_bytes < parts * MIN_CELL_BYTES:
            least = size_text(parts * MIN_CELL_BYTES)
            raise UsageError(f"--max-bytes: {blocks} rounds need at least {least}; raise it, or lower --repeat")
        return cls(blocks, duration_ns, most_bytes // parts)


def file_bytes(room_bytes: int, count: int, plan: Plan) -> int:
    """Size of each combination's file: whole MiB within bounds and, all together, within a quarter of the room."""
    most = min(MAX_FILE_BYTES, room_bytes // 4 // count, plan.stop_bytes or MAX_FILE_BYTES)
    return max(most >> 20, 1) << 20


def written(size_bytes: int, seed: int) -> CellSpec:
    """Writes the file once, anew; says nothing by itself. As deep as it gets: a run is opened for a depth."""
    return CellSpec(
        op="write", file_bytes=size_bytes, record_bytes=LARGE_BYTES, queue_depth=DEPTH, write_fraction=1.0, seed=seed,
        files=worker_files(FILE_NAME, 1), workers=1, sync="none", flush="all", durability="end", workload="probe",
        create="if_missing", remove_before=True, cache_state="warm",
    )  # fmt: skip


def timed(plan: Plan, size_bytes: int, seed: int) -> list[CellSpec]:
    """The cells of a round, to be numbered and put in order."""
    return [_timed(plan, size_bytes, seed, *load) for load in LOADS]


def _timed(plan: Plan, size_bytes: int, seed: int, op: str, record: int, depth: int) -> CellSpec:
    more: dict[str, Any] = {"pattern": "random"} if record == SMALL_BYTES else {}
    return CellSpec(
        op=op, file_bytes=size_bytes, record_bytes=record, queue_depth=depth, write_fraction=float(op == "write"),
        seed=seed, files=worker_files(FILE_NAME, 1), workers=1, sync="none", flush="none", durability="none",
        workload=WORKLOAD, duration_ns=plan.duration_ns, stop_bytes=plan.stop_bytes, cache_state="warm", **more,
    )  # fmt: skip
