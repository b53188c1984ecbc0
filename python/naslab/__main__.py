"""`python -m naslab`."""

from naslab.cli import entry

entry()
