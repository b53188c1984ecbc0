"""Colours, as pairs of light and dark.

Figures hold the light colours; the page swaps each for its dark partner, so every colour used in a figure
must be a key of `DARK`. Sequential steps are cividis and viridis (safe for colour-blind readers, monotone
in lightness), the run colours Okabe and Ito's.
"""

from __future__ import annotations

from typing import Any

SURFACE, INK, MUTED, GRID, RULE = "#ffffff", "#1d2329", "#5b6670", "#e6e9ec", "#b3261e"
ACCENT, ACCENT_BAND = "#1f5fa8", "rgba(31,95,168,0.16)"
LATENCY = "#a3480d"
HALO = ", ".join([f"0 0 2px {SURFACE}"] * 4)
"""Shadow that keeps words readable on grid lines."""
ON_LIGHT, ON_DARK = "#000000", "#fffffe"
"""Text on colour maps, the same in both themes."""

_VIRIDIS = ("#440154", "#482878", "#3e4989", "#31688e", "#26828e", "#1f9e89", "#35b779", "#6ece58", "#b5de2b")
_LADDER_LIGHT = ("#3b0f70", "#3f4a96", "#2c6fae", "#1486a0", "#0f9486", "#2b9a53", "#6a9a12", "#a38600", "#c26a00")
_LADDER_DARK = ("#b79cf0", "#93a4f2", "#6db5f2", "#4cc6dd", "#44d2b8", "#62d98a", "#a4dc52", "#e0d338", "#ffb24d")
_RUNS_LIGHT = ("#0072b2", "#d55e00", "#009e73", "#a8568a", "#8a6d00", "#3a7ca5", "#444444")
_RUNS_DARK = ("#56b4e9", "#ff9d5c", "#3fd0a4", "#e39ac6", "#f0e442", "#9ad0f5", "#d0d0d0")

CIVIDIS: list[list[Any]] = [
    [0.0, "#00224e"], [0.125, "#123570"], [0.25, "#3b496c"], [0.375, "#575d6d"], [0.5, "#707173"],
    [0.625, "#8a8678"], [0.75, "#a59c74"], [0.875, "#c3b369"], [1.0, "#fee838"],
]  # fmt: skip
VIRIDIS: list[list[Any]] = [[i / (len(_VIRIDIS) - 1), colour] for i, colour in enumerate((*_VIRIDIS[:-1], "#fde725"))]


def _rgba(colour: str, alpha: float) -> str:
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},{alpha})"


def band(colour: str) -> str:
    """The see-through fill that goes with a line colour."""
    return _rgba(colour, 0.16)


def ladder(count: int) -> list[str]:
    """`count` ordered colours (record sizes, percentiles), far apart, repeating only past nine."""
    last = len(_LADDER_LIGHT) - 1
    if count == 1:
        return [ACCENT]
    return [_LADDER_LIGHT[round(i * last / (count - 1))] for i in range(count)]


def _luminance(rgb: tuple[float, float, float]) -> float:
    """Relative luminance, 0 to 1, as WCAG 2.2 defines it."""
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in rgb]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def text_on(scale: list[list[Any]], at: float) -> str:
    """Black or white, whichever reads better on the colour at `at` (0 to 1) of a colour scale."""
    place = min(max(at, 0.0), 1.0) * (len(scale) - 1)
    low = min(int(place), len(scale) - 2)
    ends = [[int(scale[low + step][1][i : i + 2], 16) / 255 for i in (1, 3, 5)] for step in (0, 1)]
    red, green, blue = (a + (b - a) * (place - low) for a, b in zip(*ends, strict=True))
    return ON_LIGHT if _luminance((red, green, blue)) > 0.179 else ON_DARK


def run_colour(index: int) -> str:
    """Colour of the index-th run of an overlay."""
    return _RUNS_LIGHT[index % len(_RUNS_LIGHT)]


DARK = {
    SURFACE: "#161b20", INK: "#e4e8eb", MUTED: "#9ba7b1", GRID: "#2b333a", RULE: "#ff8a80",
    ACCENT: "#7db4f2", ACCENT_BAND: "rgba(125,180,242,0.22)", LATENCY: "#f5a36c",
}  # fmt: skip
DARK[HALO] = HALO.replace(SURFACE, DARK[SURFACE])
DARK.update(zip(_LADDER_LIGHT + _RUNS_LIGHT, _LADDER_DARK + _RUNS_DARK, strict=True))
DARK.update({band(light): _rgba(dark, 0.22) for light, dark in list(DARK.items()) if light.startswith("#")})
"""Dark partner of every colour that a figure uses outside its colour maps."""
