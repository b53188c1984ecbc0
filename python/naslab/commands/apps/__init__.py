"""Application workloads: definitions with the origin of every number, made into scripts for the engine."""
