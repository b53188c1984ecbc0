"""The parts of the documents: one `msgspec.Struct` for each table, one module for each feature."""

SCHEMA = 1
"""Version of the run document. Raised when a field changes its meaning or goes away."""
