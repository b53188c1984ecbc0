r"""What to measure: target names of the command line turned into what the engine needs.

Forms (DESIGN.md section 3): `/path`, `./path` with `?engine=posix|uring&direct=1`; `smb://host/share/dir`
and `\\host\share\dir`; `nfs://host/export/dir`; `sim:` with the simulator's fields as a query,
`sim:FILE.toml`; `null:`. What cannot be measured is refused by name, with the next step.
"""

from naslab.targets.local import folder_target
from naslab.targets.names import parse_target
from naslab.targets.target import Secret, Target

__all__ = ["Secret", "Target", "folder_target", "parse_target"]
