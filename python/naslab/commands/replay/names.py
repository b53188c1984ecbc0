"""Names of a trace as names on a target."""

from __future__ import annotations

import re
from collections.abc import Callable

_FORBIDDEN = re.compile(r'[\x00-\x1f"*:<>?|]|[. ]\Z')
"""What SMB has no names with: [MS-FSCC] 2.1.5.2, and a last dot or blank, which Windows drops."""


class Names:
    """Makes the name on the target from one component of a trace's path.

    smb: characters that SMB forbids become %XX, as docs/reference/trace.md writes bytes that are no text; `escaped`
    counts the names that have some. Of two names in one folder that differ in case only the second gets its first
    letters as %XX, as many as it takes; `told_apart` counts those.
    """

    def __init__(self, smb: bool) -> None:
        self._smb = smb
        self.escaped = 0
        self.told_apart = 0

    def __call__(self, component: str, taken: Callable[[str], bool] = lambda _key: False) -> str:
        """The name. Call it once for each name: it counts. taken: whether a name is in the folder, by its `folded`."""
        if not self._smb:
            return component
        name = _FORBIDDEN.sub(lambda found: _hex(found[0]), component)
        if not taken(folded(name)):
            self.escaped += name != component
            return name
        self.told_apart += 1
        letters = 0
        while taken(folded(name)) and letters < len(component):
            letters += 1
            name = _hex(component[:letters]) + _FORBIDDEN.sub(lambda found: _hex(found[0]), component[letters:])
        return name

    @property
    def folds(self) -> bool:
        """Whether the target takes names for the same that differ in case only."""
        return self._smb


def folded(name: str) -> str:
    """What two names have in common that differ in case only. Rather too much than too little: servers differ."""
    return name.upper().casefold()


def _hex(text: str) -> str:
    return "".join(f"%{byte:02X}" for byte in text.encode())
