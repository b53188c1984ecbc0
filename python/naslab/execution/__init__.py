"""Carries a run out: probe, folder, the engine or many clients, validity, each cell stored as it ends."""
