"""The addresses of a server that were used together, in a line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from naslab.units import amount_text, percent_text

_USES = {
    "multichannel": "one SMB session over all of them (multichannel)",
    "session_trunking": "one NFS session over all of them (trunking)",
    "shared_client": "one NFS 4.0 client over all of them",
    "separate_sessions": "an SMB session of its own at each",
    "separate_mounts": "the export mounted at each",
}


def bytes_by_address(document: Mapping[str, Any]) -> dict[str, int]:
    """Bytes on the wire to and from each address, over all cells; 0 for one that none used, or that was not counted."""
    found = dict.fromkeys((document.get("target") or {}).get("addresses") or [], 0)
    for cell in document.get("cells") or []:
        for each in cell.get("wire_by_address") or []:
            found[each["address"]] = found.get(each["address"], 0) + each["sent_bytes"] + each["received_bytes"]
    return found


def address_line(document: Mapping[str, Any]) -> str:
    """`10.0.0.1 1.2 GB (50 %), 10.0.0.2 1.2 GB (50 %); one SMB session …`; empty where no addresses were given."""
    found = bytes_by_address(document)
    total = sum(found.values())
    shares = [
        f"{address} {amount_text(moved)} ({percent_text(moved / total)})" if total else address
        for address, moved in found.items()
    ]
    how = _USES.get(str((document.get("target") or {}).get("address_use")), "")
    return "; ".join(part for part in (", ".join(shares), how) if part)
