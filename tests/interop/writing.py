"""`tools/interop`: tries all servers, prints what came of them, and writes the page."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from interop.inside import Outcome
from interop.servers import SERVERS, MissingError
from interop.trying import page, tried, wrong

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "interop.md"


def main() -> int:
    """The exit code."""
    outcomes: dict[str, dict[str, Outcome]] = {}
    failed = False
    for server in SERVERS:
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
