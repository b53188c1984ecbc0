"""DNS-SD over multicast DNS (RFC 6763, RFC 6762): services of SMB and NFS, with the names that servers were given.

One-shot questions from a port of our own, which every responder answers directly (RFC 6762, section 6.7), so nothing
of this machine's own responder is needed or disturbed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from naslab.commands.discover.listening import Asking, Group

GROUP = Group("224.0.0.251", 5353, 255)
TYPES = {"_smb._tcp.local.": "smb", "_nfs._tcp.local.": "nfs"}
USUAL = {"smb": 445, "nfs": 2049}
MODELS = "_device-info._tcp.local."
AGAIN_S = 1.0
MOST_NAMES = 256


@dataclass
class Service:
    """One server's announcement. sender: the address it came from. scheme: smb or nfs. model: as it calls itself."""

    name: str
    scheme: str
    sender: str
    host: str = ""
    port: int = 0
    addresses: list[str] = field(default_factory=list)
    model: str = ""


def services(addresses: Sequence[str], wait_s: float, group: Group = GROUP) -> list[Service]:
    """What answers within `wait_s` on the interfaces with these addresses. Answers that are no DNS are left out."""
    heard = _Heard()
    questions = _question([(name, "PTR") for name in (*TYPES, MODELS)])
    with Asking(group, addresses) as asking:
        for sender, data in asking.answers([(0.0, questions), (min(AGAIN_S, wait_s / 2), questions)], wait_s):
            new = heard.take(sender, data)
            if new:
                asking.ask(_question(new))
    return heard.services()


def _question(asked: Sequence[tuple[str, str]]) -> bytes:
    import dns.message
    import dns.rrset

    message = dns.message.Message(id=0)
    message.flags = 0
    for name, kind in asked:
        message.question.append(dns.rrset.from_text(name, 0, "IN", kind))
    return message.to_wire()


class _Heard:
    """Records by name, as they come in."""

    def __init__(self) -> None:
        self.senders: dict[tuple[str, str], str] = {}
        self.places: dict[str, tuple[str, int]] = {}
        self.addresses: dict[str, list[str]] = {}
        self.models: dict[str, str] = {}
        self.asked: set[tuple[str, str]] = set()

    def take(self, sender: str, data: bytes) -> list[tuple[str, str]]:
        """Keeps the records of an answer; what is to be asked next: (name, kind)."""
        import dns.exception
        import dns.message

        try:
            message = dns.message.from_wire(data, ignore_trailing=True)
        except (dns.exception.DNSException, ValueError, IndexError):
            return []
        for record in [*message.answer, *message.additional]:
            if len(self.places) + len(self.senders) < MOST_NAMES:
                self._keep(sender, record)
        wanted = [(name, "SRV") for name, _ in self.senders if name not in self.places]
        wanted += [(name.removesuffix(kind) + MODELS, "TXT") for name, kind in self.senders]
        wanted += [(host, "A") for host, _ in self.places.values() if host not in self.addresses]
        new = [each for each in dict.fromkeys(wanted) if each not in self.asked][:16]
        self.asked.update(new)
        return new

    def _keep(self, sender: str, record: object) -> None:
        import dns.rdatatype
        from dns.rrset import RRset

        assert isinstance(record, RRset)
        name = str(record.name)
        for each in record:
            if record.rdtype == dns.rdatatype.PTR and name in TYPES:
                self.senders.setdefault((str(each.target), name), sender)
            elif record.rdtype == dns.rdatatype.SRV:
                self.places.setdefault(name, (str(each.target), each.port))
            elif record.rdtype == dns.rdatatype.A:
                found = self.addresses.setdefault(name, [])
                found += [each.address] if each.address not in found else []
            elif record.rdtype == dns.rdatatype.TXT and name.endswith(MODELS):
                self.models |= {_label(name): model for model in _models(each.strings)}

    def services(self) -> list[Service]:
        """All that were announced, by name."""
        found = []
        for (name, kind), sender in sorted(self.senders.items()):
            host, port = self.places.get(name, ("", 0))
            label = _label(name)
            found.append(
                Service(
                    label, TYPES[kind], sender, host.rstrip("."), port, self.addresses.get(host, []),
                    self.models.get(label, ""),
                )
            )  # fmt: skip
        return found


def _models(strings: Sequence[bytes]) -> Iterator[str]:
    for each in strings:
        if each.lower().startswith(b"model="):
            yield each[6:].decode("utf-8", "replace")


def _label(name: str) -> str:
    """`DiskStation` of `DiskStation._smb._tcp.local.`, with its escapes undone."""
    import dns.name

    return dns.name.from_text(name).labels[0].decode("utf-8", "replace")
