"""Addresses of the pages: the same tree served and as files, every link relative to the page it stands on."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from urllib.parse import quote, urlencode

_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}\Z")


def folder_of(run_id: str) -> str:
    """A run's folder in a site: its id, or its digest where that is no plain name (ids come from imported files)."""
    if _PLAIN.match(run_id):
        return run_id
    return f"run-{hashlib.sha256(run_id.encode('utf-8', 'replace')).hexdigest()[:24]}"


@dataclass(frozen=True)
class Links:
    """depth: of the page below the library's root. files: written as files, where a folder must name its index and
    nothing answers queries."""

    depth: int = 0
    files: bool = False

    @property
    def root(self) -> str:
        """The way to the library's root."""
        return "../" * self.depth or "./"

    def page(self, name: str = "", **query: str | list[str]) -> str:
        """A page by its folder: ``, `overlay`, `rank`, `compare`, `live`."""
        folder = f"{self.root}{name}/" if name else self.root
        if self.files:
            return f"{folder}index.html"
        asked = {key: value for key, value in query.items() if value}
        return folder + (f"?{urlencode(asked, doseq=True)}" if asked else "")

    def run(self, run_id: str) -> str:
        """The permanent page of a run."""
        if self.files:
            return f"{self.root}run/{folder_of(run_id)}/index.html"
        return f"{self.root}run/{quote(run_id, safe='')}/"

    def live(self, run_id: str) -> str:
        """The page that follows a run being measured; served only, so a site links to the run itself."""
        return self.run(run_id) if self.files else f"{self.root}live/{quote(run_id, safe='')}/"

    def asset(self, name: str) -> str:
        """A script or style; its name changes with its contents."""
        return f"{self.root}static/{name}"
