"""Scripts and styles by name, from the installed packages, read once. A request names one of these or nothing."""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources

from naslab.render.report.chart_library import plotly_js

TYPES = {"js": "text/javascript; charset=utf-8", "css": "text/css; charset=utf-8"}


@dataclass(frozen=True)
class Asset:
    """name: with a digest of its contents, so that it may be kept for ever. packed: with gzip."""

    name: str
    data: bytes
    packed: bytes

    @property
    def media_type(self) -> str:
        """As in Content-Type."""
        return TYPES[self.name.rsplit(".", 1)[1]]


def _text(package: str, name: str) -> str:
    return (resources.files(package) / "assets" / name).read_text(encoding="utf-8")


@lru_cache(maxsize=1)
def assets() -> dict[str, Asset]:
    """All of them, by the plain name: `app.js`, `plotly.js`, `library.js`, `live.js`, `style.css`, `library.css`."""
    texts = {
        "app.js": _text("naslab.render.report", "app.js"),
        "style.css": _text("naslab.render.report", "style.css"),
        "plotly.js": plotly_js(),
        **{name: _text("naslab.render.web", name) for name in ("library.js", "live.js", "library.css")},
    }
    return {name: _asset(name, text.encode("utf-8")) for name, text in texts.items()}


def _asset(name: str, data: bytes) -> Asset:
    stem, ending = name.rsplit(".", 1)
    digest = hashlib.sha256(data).hexdigest()[:12]
    return Asset(f"{stem}-{digest}.{ending}", data, gzip.compress(data, 6, mtime=0))


@lru_cache(maxsize=1)
def by_full_name() -> dict[str, Asset]:
    """The same by the name in an address."""
    return {asset.name: asset for asset in assets().values()}
