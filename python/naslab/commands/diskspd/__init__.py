"""DiskSpd's command line and output over naslab's engine.

`options` (the table of options, as data) -> `args` (the command line) or `profile_xml` (-X) -> `profile` (time
spans and targets, and what may not be combined) -> `plan` (files, cells, RunSpec) -> `run` (carries it out) ->
`figures` -> `text` or `results_xml` (output). DiskSpd's behaviour and formats are facts taken from its published
sources and documents; none of its code is here.
"""

from __future__ import annotations
