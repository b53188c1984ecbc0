"""WS-Discovery, as Windows and wsdd speak it: computers that share files answer a probe, and tell their names.

Sources: OASIS WS-Discovery 1.1 and its 2005 draft (which Windows sends), MS-PBSD for the computer's name.
"""

from __future__ import annotations

import http.client
import re
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from urllib.parse import urlsplit
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from naslab.commands.discover.listening import Asking, Group

GROUP = Group("239.255.255.250", 3702, 1)
AGAIN_S = 1.0
GET_S = 2.0
MOST_DEVICES, MOST_XML = 256, 65_536
_ADDRESSING = "http://schemas.xmlsoap.org/ws/2004/08/addressing"
_DISCOVERY = "http://schemas.xmlsoap.org/ws/2005/04/discovery"
_ALL = "urn:schemas-xmlsoap-org:ws:2005:04:discovery"
_PROFILE = "http://schemas.xmlsoap.org/ws/2006/02/devprof"
_ENVELOPE = """<?xml version="1.0" encoding="utf-8"?>
<soap:Envelope xmlns:soap="http://www.w3.org/2003/05/soap-envelope" xmlns:wsa="{addressing}" xmlns:wsd="{discovery}"
 xmlns:wsdp="{profile}"><soap:Header><wsa:To>{to}</wsa:To><wsa:Action>{action}</wsa:Action>
<wsa:MessageID>urn:uuid:{message}</wsa:MessageID>{reply}</soap:Header><soap:Body>{body}</soap:Body></soap:Envelope>"""


@dataclass(frozen=True)
class Computer:
    """A computer that answered. name: its own; empty where it did not tell. workgroup: or its domain."""

    address: str
    name: str = ""
    workgroup: str = ""


def computers(addresses: Sequence[str], wait_s: float, group: Group = GROUP) -> list[Computer]:
    """Who answers within `wait_s` on the interfaces with these addresses, by address."""
    probe = _message(_ALL, f"{_DISCOVERY}/Probe", "<wsd:Probe><wsd:Types>wsdp:Device</wsd:Types></wsd:Probe>")
    devices: dict[str, tuple[str, str]] = {}
    with Asking(group, addresses) as asking:
        for sender, data in asking.answers([(0.0, probe), (min(AGAIN_S, wait_s / 2), probe)], wait_s):
            for endpoint, transports in _matches(data):
                own = next((each for each in transports if _place(each)[0] == sender), "")
                if sender not in devices and len(devices) < MOST_DEVICES:
                    devices[sender] = (endpoint, own)
                    if not own:  # a match of a probe need not tell the transport
                        asking.ask(_resolve(endpoint))
                elif own and sender in devices:
                    devices[sender] = (endpoint, own)
    if not devices:
        return []
    with ThreadPoolExecutor(min(len(devices), 16)) as pool:
        found = pool.map(lambda each: _named(each[0], *each[1]), devices.items())
        return sorted(found, key=lambda each: each.address)


def _resolve(endpoint: str) -> bytes:
    name = f"<wsa:EndpointReference><wsa:Address>{escape(endpoint)}</wsa:Address></wsa:EndpointReference>"
    return _message(_ALL, f"{_DISCOVERY}/Resolve", f"<wsd:Resolve>{name}</wsd:Resolve>")


def _message(to: str, action: str, body: str) -> bytes:
    reply = f"<wsa:ReplyTo><wsa:Address>{_ADDRESSING}/role/anonymous</wsa:Address></wsa:ReplyTo>"
    return _ENVELOPE.format(
        addressing=_ADDRESSING, discovery=_DISCOVERY, profile=_PROFILE, to=to, action=action, message=uuid.uuid4(),
        reply=reply, body=body,
    ).encode()  # fmt: skip


def _xml(data: bytes) -> ElementTree.Element | None:
    """The document; None for what is none, or would make its reader unfold entities."""
    if len(data) > MOST_XML or b"<!" in data:
        return None
    try:
        return ElementTree.fromstring(data)  # no entities: `<!` was refused
    except (ElementTree.ParseError, ValueError, LookupError):
        return None


def _matches(data: bytes) -> Iterator[tuple[str, list[str]]]:
    """(endpoint, addresses of its transport) of each match of a probe or of a question for the transport."""
    root = _xml(data)
    found = [] if root is None else [each for kind in ("Probe", "Resolve") for each in root.iter(_tag(f"{kind}Match"))]
    for match in found:
        endpoint = match.find(f"{{{_ADDRESSING}}}EndpointReference/{{{_ADDRESSING}}}Address")
        transports = match.find(_tag("XAddrs"))
        if endpoint is not None and endpoint.text:
            yield endpoint.text.strip(), ((transports.text or "") if transports is not None else "").split()


def _tag(name: str) -> str:
    return f"{{{_DISCOVERY}}}{name}"


def _named(address: str, endpoint: str, transport: str) -> Computer:
    """Asks a device for its name, at its own address only."""
    host, port, path = _place(transport)
    if host != address:
        return Computer(address)
    get = _message(escape(endpoint), "http://schemas.xmlsoap.org/ws/2004/09/transfer/Get", "")
    try:
        link = http.client.HTTPConnection(address, port, timeout=GET_S)
        try:
            link.request("POST", path, get, {"Content-Type": "application/soap+xml"})
            answer = link.getresponse().read(MOST_XML + 1)
        finally:
            link.close()
    except (OSError, ValueError, http.client.HTTPException):
        return Computer(address)
    return Computer(address, *_computer(answer))


def _place(transport: str) -> tuple[str, int, str]:
    """(host, port, path) of a transport's address; an empty host where it is none by HTTP."""
    try:
        parts = urlsplit(transport)
        if parts.scheme == "http" and parts.hostname:
            return parts.hostname, parts.port or 80, parts.path or "/"
    except ValueError:
        pass
    return "", 0, ""


def _computer(data: bytes) -> tuple[str, str]:
    """(name, workgroup or domain) of `NAS/Workgroup:HOME`; MS-PBSD, section 2.2.1."""
    root = _xml(data)
    for each in [] if root is None else root.iter():
        if each.tag.endswith("}Computer") and each.text:
            found = re.fullmatch(r"\s*([^/\\]{1,64})[/\\](?:Workgroup|Domain):(.{1,256}?)\s*", each.text)
            if found:
                return found[1], found[2]
    return "", ""
