"""IOzone's command line and output over naslab's engine.

`options` (the table of options, as data) -> `args` (getopt) -> `plan` (rows, cells, RunSpec) -> `run`
(carries it out) -> `text`, `throughput`, `sheet`, `oplog` (output). IOzone's behaviour and formats are
facts taken from running it; none of its code is here.
"""

from __future__ import annotations
