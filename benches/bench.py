#!/usr/bin/env python3
"""`make bench`: naslab beside its peers, interleaved in one run, against the bars of the design.

Every round runs ours and the peer one after the other, in an order that alternates; what counts is the
median over rounds of the ratio within a round, since machines are noisy and ratios of neighbours hold.
Exit 1 when a bar is missed. A peer that is not installed is reported as skipped.

Usage: bench.py [--rounds N] [--only WORD] [--folder DIR] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from comparison import Row, Skip, print_table
from peers import engine_floor, help_time, iozone_parity, local_io, script_floor, series_cost, small_files
from servers import nfs, raw_tcp, smb

GROUPS = {
    "floor": engine_floor, "series": series_cost, "script": script_floor, "local": local_io, "smb": smb, "nfs": nfs,
    "tcp": raw_tcp, "iozone": iozone_parity, "small": small_files, "start": help_time,
}  # fmt: skip


def main() -> int:
    """Runs the groups; 0 if every bar was met or skipped."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="interleaved rounds, at least 5 for a verdict")
    parser.add_argument("--only", choices=sorted(GROUPS), help="one group")
    parser.add_argument("--folder", type=Path, help="where files are made (default: a temporary folder)")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="naslab-bench-", dir=options.folder or "/var/tmp") as folder:
        for name, group in GROUPS.items():
            if options.only in (None, name):
                print(f"bench: {name} ...", file=sys.stderr, flush=True)
                try:
                    rows += group(Path(folder), options.rounds)
                except Skip as skip:
                    rows.append(Row.skipped(name, str(skip)))
    print_table(rows, options.rounds)
    if options.json:
        options.json.write_text(json.dumps(_document(rows, options.rounds), indent=1))
    return 0 if all(row.met is not False for row in rows) else 1


def _document(rows: list[Row], rounds: int) -> dict[str, Any]:
    machine = {"system": platform.platform(), "cpus": os.cpu_count(), "python": platform.python_version()}
    return {"schema": 1, "machine": machine, "rounds": rounds, "rows": [row.as_dict() for row in rows]}


if __name__ == "__main__":
    sys.exit(main())
