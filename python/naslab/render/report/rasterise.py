"""SVG to PNG by a program of the machine: librsvg's, resvg, or a browser of Chromium's family without a window."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import tempfile
import zlib
from collections.abc import Sequence
from pathlib import Path

from naslab.errors import UsageError
from naslab.text.outputs import PNG_MARK

SCALE = 2
"""Pixels of the picture for each of the page's: 192 an inch on A4."""
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "microsoft-edge")
MAX_S = 120.0
_BEGIN = b"\x89PNG\r\n\x1a\n"
_AFTER_HEADER = len(_BEGIN) + 25
"""The first chunk of every PNG is 25 bytes long."""


def check_tools(option: str) -> None:
    """Raises UsageError where no program draws a PNG: before anything is read or written."""
    if not any(map(shutil.which, ("rsvg-convert", "resvg", *BROWSERS))):
        raise UsageError(
            f"{option}: a PNG is drawn by rsvg-convert (Debian: librsvg2-bin), resvg or Chromium, and none is in PATH; "
            "install one, or name a file that ends in .svg or .html"
        )


def png(svg: str, width: int, height: int, option: str) -> bytes:
    """The picture of an SVG of this size in pixels, marked as naslab's. Raises UsageError."""
    check_tools(option)
    with tempfile.TemporaryDirectory(prefix="naslab-png-") as folder:
        source, out = Path(folder) / "page.svg", Path(folder) / "page.png"
        source.write_text(svg, encoding="utf-8")
        told = []
        for command in _commands(source, out, folder, width, height):
            told.append(_run(command))
            if out.exists() and (found := out.read_bytes()).startswith(_BEGIN):
                return _marked(found)
    raise UsageError(f"{option}: no PNG was drawn: {'; '.join(told)}; name a file that ends in .svg or .html")


def _commands(source: Path, out: Path, folder: str, width: int, height: int) -> list[Sequence[str]]:
    """Those of the programs that are here, the lightest first."""
    wide = str(width * SCALE)
    known: list[Sequence[str]] = [
        ("rsvg-convert", "--width", wide, "--output", str(out), str(source)),
        ("resvg", "--width", wide, str(source), str(out)),
    ]
    # A browser started by root has no sandbox; it opens nothing but this page.
    unboxed = ("--no-sandbox",) if os.geteuid() == 0 else ()
    known += [
        (
            name, "--headless", *unboxed, "--disable-gpu", "--hide-scrollbars", "--no-first-run",
            f"--user-data-dir={folder}/profile", f"--force-device-scale-factor={SCALE}",
            f"--window-size={width},{height}", f"--screenshot={out}", source.as_uri(),
        )
        for name in BROWSERS
    ]  # fmt: skip
    return [command for command in known if shutil.which(command[0])]


def _run(command: Sequence[str]) -> str:
    """Runs a program; how it ended, for an error."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=MAX_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{command[0]}: {type(error).__name__}"
    last = (done.stderr.strip().splitlines() or ["no message"])[-1][:200]
    return f"{command[0]} ended with {done.returncode}: {last}"


def _marked(data: bytes) -> bytes:
    """The same picture with a text in it that says who drew it."""
    chunk = struct.pack(">I", len(PNG_MARK) - 4) + PNG_MARK + struct.pack(">I", zlib.crc32(PNG_MARK))
    return data[:_AFTER_HEADER] + chunk + data[_AFTER_HEADER:]
