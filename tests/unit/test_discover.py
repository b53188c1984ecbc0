"""`naslab discover` against responders on the loopback interface: what is merged, and what is not believed."""

from __future__ import annotations

import contextlib
import http.server
import json
import socket
import struct
import threading
from collections.abc import Callable, Iterator

import dns.flags
import dns.message
import dns.rrset
import pytest

from cli_tools import Done
from naslab.cli.discover import _lines
from naslab.commands.discover import dns_sd, ws_discovery
from naslab.commands.discover.found import Found, discover, document, merged
from naslab.commands.discover.listening import Group, interfaces
from naslab.commands.doctor.nearby import Nearby, Offer
from naslab.errors import UsageError

LO = ["127.0.0.1"]
Answer = Callable[[bytes], list[bytes]]


@contextlib.contextmanager
def responder(group: Group, answer: Answer) -> Iterator[Group]:
    """A responder of a group at a port of its own, in a thread; it ends with the block."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as heard:
        heard.bind(("", 0))
        member = struct.pack("4s4s", socket.inet_aton(group.address), socket.inet_aton("127.0.0.1"))
        heard.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, member)
        heard.settimeout(0.05)
        ended = threading.Event()

        def serve() -> None:
            while not ended.is_set():
                with contextlib.suppress(TimeoutError):
                    data, sender = heard.recvfrom(65535)
                    for each in answer(data):
                        heard.sendto(each, sender)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield Group(group.address, heard.getsockname()[1], 1)
        finally:
            ended.set()
            thread.join()


def dns_answer(*records: tuple[str, str, str]) -> bytes:
    message = dns.message.Message(id=0)
    message.flags = dns.flags.QR | dns.flags.AA
    for name, kind, text in records:
        message.answer.append(dns.rrset.from_text(name, 10, "IN", kind, text))
    return message.to_wire()


NAS = "Disk\\032Station._smb._tcp.local."
INFO = "Disk\\032Station._device-info._tcp.local."


def asked(data: bytes) -> set[tuple[str, str]]:
    return {(str(one.name), dns.rdatatype.to_text(one.rdtype)) for one in dns.message.from_wire(data).question}


def test_a_service_is_asked_for_what_its_first_answer_left_out() -> None:
    questions: list[set[tuple[str, str]]] = []

    def answer(data: bytes) -> list[bytes]:
        questions.append(asked(data))
        if ("_smb._tcp.local.", "PTR") in questions[-1]:
            return [dns_answer(("_smb._tcp.local.", "PTR", NAS))]
        if (NAS, "SRV") in questions[-1]:
            assert (INFO, "TXT") in questions[-1]
            return [dns_answer((NAS, "SRV", "0 0 445 nas.local.")), dns_answer((INFO, "TXT", '"model=Xserve"'))]
        return [dns_answer(("nas.local.", "A", "192.168.1.5"))]

    with responder(dns_sd.GROUP, answer) as group:
        found = dns_sd.services(LO, 0.5, group)
    assert found == [dns_sd.Service("Disk Station", "smb", "127.0.0.1", "nas.local", 445, ["192.168.1.5"], "Xserve")]
    assert {("_smb._tcp.local.", "PTR"), ("_nfs._tcp.local.", "PTR")} <= questions[0]
    assert sum(("nas.local.", "A") in each for each in questions) == 1, "nothing is asked twice"


@pytest.mark.parametrize(
    "spoiled",
    [
        b"", b"\x00" * 11, b"\xff" * 600, dns_answer(("_smb._tcp.local.", "PTR", NAS))[:-7],
        b"\x00\x00\x84\x00\x00\x00\x00\x01\x00\x00\x00\x00\xc0\x0c\x00\x0c\x00\x01\x00\x00\x00\x0a\x00\x02\xc0\x0c",
    ],
    ids=["empty", "short", "ones", "cut", "a name that points at itself"],
)  # fmt: skip
def test_answers_that_are_no_dns_are_left_out(spoiled: bytes) -> None:
    good = dns_answer(("_nfs._tcp.local.", "PTR", "nas._nfs._tcp.local."))
    with responder(dns_sd.GROUP, lambda _: [spoiled, good]) as group:
        assert [one.name for one in dns_sd.services(LO, 0.2, group)] == ["nas"]


def test_a_flood_of_names_is_cut_off() -> None:
    flood = [dns_answer(("_smb._tcp.local.", "PTR", f"nas-{at}._smb._tcp.local.")) for at in range(400)]
    with responder(dns_sd.GROUP, lambda _: flood) as group:
        assert 0 < len(dns_sd.services(LO, 0.5, group)) <= dns_sd.MOST_NAMES


# --- WS-Discovery ---


MATCH = """<?xml version="1.0"?><s:Envelope xmlns:s="http://www.w3.org/2003/05/soap-envelope"
 xmlns:a="http://schemas.xmlsoap.org/ws/2004/08/addressing" xmlns:d="http://schemas.xmlsoap.org/ws/2005/04/discovery">
<s:Body><d:{kind}Matches><d:{kind}Match><a:EndpointReference><a:Address>urn:uuid:1&amp;2</a:Address>
</a:EndpointReference>{transport}</d:{kind}Match></d:{kind}Matches></s:Body></s:Envelope>"""
COMPUTER = """<s:Envelope xmlns:s="http://www.w3.org/2003/05/soap-envelope"><s:Body>
<p:Computer xmlns:p="http://schemas.microsoft.com/windows/pub/2005/07">ANNAS-PC/Workgroup:HOME</p:Computer>
</s:Body></s:Envelope>"""


def match(kind: str, transport: str = "") -> bytes:
    return MATCH.format(kind=kind, transport=f"<d:XAddrs>{transport}</d:XAddrs>" if transport else "").encode()


@contextlib.contextmanager
def metadata(text: str, asked: list[bytes]) -> Iterator[int]:
    """A server of a device's metadata; its port."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def computers(
    text: str, answer: Callable[[int, bytes], list[bytes]]
) -> tuple[list[ws_discovery.Computer], list[bytes]]:
    asked: list[bytes] = []
    with metadata(text, asked) as port, responder(ws_discovery.GROUP, lambda data: answer(port, data)) as group:
        return ws_discovery.computers(LO, 0.3, group), asked


def test_a_computer_tells_its_name_when_it_is_asked_where_it_is() -> None:
    def answer(port: int, data: bytes) -> list[bytes]:
        if b"Resolve" not in data:
            return [match("Probe")]
        assert b"urn:uuid:1&amp;2" in data
        return [match("Resolve", f"http://192.0.2.7:80/x http://127.0.0.1:{port}/id")]

    found, asked = computers(COMPUTER, answer)
    assert found == [ws_discovery.Computer("127.0.0.1", "ANNAS-PC", "HOME")]
    assert len(asked) == 1 and b"urn:uuid:1&amp;2" in asked[0]


@pytest.mark.parametrize(
    "transport", ["http://192.0.2.7:{port}/", "https://127.0.0.1:{port}/", "http://[::/", "file:///etc"]
)
def test_nobody_but_the_sender_is_asked(transport: str) -> None:
    found, asked = computers(COMPUTER, lambda port, _: [match("Probe", transport.format(port=port))])
    assert found == [ws_discovery.Computer("127.0.0.1")] and asked == []


@pytest.mark.parametrize(
    "text",
    [
        "", "no XML <", '<!DOCTYPE x [<!ENTITY a "aaaa">]><x>&a;</x>', COMPUTER + " " * ws_discovery.MOST_XML,
        COMPUTER.replace("ANNAS-PC/Workgroup:HOME", "no name"), COMPUTER.replace("ANNAS-PC", "A" * 65),
    ],
)  # fmt: skip
def test_metadata_that_are_none_give_no_name(text: str) -> None:
    found, _ = computers(text, lambda port, _: [match("Probe", f"http://127.0.0.1:{port}/id")])
    assert found == [ws_discovery.Computer("127.0.0.1")]


def test_probes_are_answered_by_matches_alone() -> None:
    bomb = b'<!DOCTYPE x [<!ENTITY a "b">]>' + match("Probe")
    assert computers(COMPUTER, lambda *_: [b"", b"\xff", b"<a/>", bomb])[0] == []


# --- both together ---


def test_what_both_ways_tell_of_a_machine_is_one() -> None:
    services = [
        dns_sd.Service("Disk Station", "smb", "192.168.1.50", "nas.local", 445, ["192.168.1.50", "10.0.0.1"], "Xserve"),
        dns_sd.Service("Disk Station", "nfs", "192.168.1.50", "nas.local", 12049),
        dns_sd.Service("old", "smb", "192.168.1.9"),
    ]
    known = [ws_discovery.Computer("192.168.1.50", "DISKSTATION", "HOME"), ws_discovery.Computer("192.168.1.10")]
    found = merged(services, known)
    assert [one.address for one in found] == ["192.168.1.9", "192.168.1.10", "192.168.1.50"]
    nas = found[2]
    assert (nas.name, nas.model, nas.group, nas.ports) == ("Disk Station", "Xserve", "HOME", {"smb": 445, "nfs": 12049})
    assert nas.ways == ["DNS-SD", "WS-Discovery"]
    json.dumps(document(found, {"eth0": "192.168.1.2"}))


def test_what_to_type_is_said_of_each_and_nothing_obeyed_by_a_terminal() -> None:
    shares = Nearby("192.168.1.50", offers=[Offer("smb", True, ["media", "ho\x1b[31mme"]), Offer("nfs", False)])
    closed = Nearby("192.168.1.9", offers=[Offer("smb", False), Offer("nfs", False)])
    found = [
        Found("192.168.1.50", "Disk\x1b]0;x\x07", ports={"smb": 445, "nfs": 12049}, nearby=shares),
        Found("192.168.1.9", "old", ports={"smb": 0}, nearby=closed),
        Found("192.168.1.10", group="HOME", nearby=closed),
    ]
    text = "\n".join(_lines(found, {"eth0": "192.168.1.2"}, "3 s"))
    assert "\x1b" not in text and "\x07" not in text
    assert "  naslab run smb://192.168.1.50/media" in text and "  naslab run nfs://192.168.1.50:12049/EXPORT" in text
    assert "  it announces SMB, but nothing answers at port 445" in text
    assert "(no name)  192.168.1.10  workgroup HOME\n  it answers neither SMB nor NFS" in text
    none = "\n".join(_lines([], {"eth0": "192.168.1.2"}, "3 s"))
    assert "No file server announced itself within 3 s on eth0 (192.168.1.2)." in none


def test_only_interfaces_with_an_address_are_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    assert interfaces(["lo"]) == {"lo": "127.0.0.1"} and "lo" not in interfaces()
    with pytest.raises(UsageError, match="--interface nobody: no such interface"):
        discover(0.1, ["lo", "nobody"])
    monkeypatch.setattr("naslab.commands.discover.found.interfaces", lambda names: {})
    with pytest.raises(UsageError, match="no network interface"):
        discover(0.1)


def test_the_command_says_who_was_asked_and_refuses_odd_waits(here: Callable[..., Done]) -> None:
    done = here("discover", "--interface", "lo", "--for", "200ms", "--json")
    assert done.code in (0, 1)  # a responder of this machine may hear it
    assert json.loads(done.out)["interfaces"] == {"lo": "127.0.0.1"}
    for wait in ("0s", "2m"):
        refused = here("discover", "--for", wait)
        assert refused.code == 2 and f"--for {wait}: give 100 ms to 1 min" in refused.err
