"""Replaying traces: a trace becomes two scripts, one that prepares the files and one that does the operations.

What is carried out, in which order, and what is not: docs/guide/trace.md.
"""

from __future__ import annotations

from naslab.commands.replay.convert import Converter
from naslab.commands.replay.names import Names
from naslab.commands.replay.prepare import write_files
from naslab.commands.replay.streams import StreamTimes, join
from naslab.commands.replay.tally import Tally
from naslab.commands.replay.tree import Tree

__all__ = ["Converter", "Names", "StreamTimes", "Tally", "Tree", "join", "write_files"]
