"""Durability: which acknowledged writes survive a cut of the server's power (docs/guide/durable.md)."""
