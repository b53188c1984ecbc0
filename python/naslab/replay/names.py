"""Names of a trace as names on a target."""

from __future__ import annotations

import re

_FORBIDDEN = re.compile(r'[\x00-\x1f"*:<>?|]|[. ]\Z')
"""What SMB has no names with: [MS-FSCC] 2.1.5.2, and a last dot or blank, which Windows drops."""


class Names:
    """Makes the name on the target from one component of a trace's path; `escaped` counts those that differ.

    smb: characters that SMB forbids become %XX, as docs/reference/trace.md writes bytes that are no text.
    """

    def __init__(self, smb: bool) -> None:
        self._smb = smb
        self.escaped = 0

    def __call__(self, component: str) -> str:
        """The name. Call it once for each name: it counts."""
        if not self._smb or not _FORBIDDEN.search(component):
            return component
        self.escaped += 1
        return _FORBIDDEN.sub(lambda found: f"%{ord(found[0]):02X}", component)
