"""`tools/interop [NAME ...]`: tries all or these servers, prints what came of them, and writes the page.

The rows of those that are not named, or cannot be had here, stay as they are.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from interop.inside import Outcome
from interop.servers import SERVERS, MissingError
from interop.trying import kept, page, tried, wrong

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "interop.md"


def main() -> int:
    """The exit code."""
    wanted = sys.argv[1:] or [server.name for server in SERVERS]
    if unknown := set(wanted) - {server.name for server in SERVERS}:
        print(f"no server {', '.join(sorted(unknown))}; there are {', '.join(server.name for server in SERVERS)}")
        return 2
    outcomes: dict[str, dict[str, Outcome]] = kept(PAGE.read_text("utf-8"))
    failed = False
    for server in (each for each in SERVERS if each.name in wanted):
        with tempfile.TemporaryDirectory(prefix="naslab-interop-") as folder:
            try:
                outcomes[server.name] = tried(server, Path(folder))
            except (MissingError, RuntimeError) as error:
                print(f"{server.name}: not tried: {error}", flush=True)
                failed = True
                continue
        said = wrong(server.name, outcomes[server.name])
        failed |= bool(said)
        print(f"{server.name}: {'; '.join(said) or 'as expected'}", flush=True)
    PAGE.write_text(page(outcomes), encoding="utf-8")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
