"""`make site`: every page, a search index, the Python reference; a link that leads nowhere ends it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import naslab
from cli_tools import HANG_S
from docs_pages import ROOT, pages

pytestmark = pytest.mark.lab


def built(*words: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, ROOT / "tools" / "make-site", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=HANG_S)


def test_the_site_is_whole_and_strict(tmp_path: Path) -> None:
    docs = tmp_path / "project" / "docs"
    shutil.copytree(ROOT / "docs", docs)
    for name in ("README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md"):
        if (ROOT / name).exists():
            shutil.copyfile(ROOT / name, tmp_path / "project" / name)
    with (docs / "guide" / "tree.md").open("a") as file:
        file.write("\n[nothing](no-such-page.md)\n")
    done = built(docs)
    assert done.returncode != 0 and "no-such-page.md" in done.stderr + done.stdout

    done = built()
    assert done.returncode == 0, done.stderr
    site = ROOT / "target" / "site"
    for page in pages()[1:]:
        path = (site / page.removeprefix("docs/")).with_suffix(".html")
        assert (path.with_name("index.html") if path.name == "README.html" else path).is_file(), page
    found = json.loads((site / "search" / "search_index.json").read_text("utf-8"))["docs"]
    assert any("guide/prometheus.html" in each["location"] for each in found)
    text = (site / "reference" / "python.html").read_text("utf-8")
    for name in set(naslab.__all__) - {"__version__"}:
        thing = getattr(naslab, name)
        assert f'id="{thing.__module__}.{thing.__name__}"' in text, name
