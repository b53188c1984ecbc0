"""What cannot be true in a result, from any tool (docs/guide/audit.md).

`table.CHECKS` lists the checks; each looks at a `Subject` and yields `Finding`s. Nothing here measures or stores.
"""

from __future__ import annotations

from naslab.audit.finding import Finding
from naslab.audit.subject import Subject
from naslab.audit.table import CHECKS, audit

__all__ = ["CHECKS", "Finding", "Subject", "audit"]
