"""Plans: what a command will measure, as cells, before anything runs."""
