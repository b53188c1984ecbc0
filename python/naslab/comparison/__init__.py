"""Whether targets differ: what two sets of runs have in common, the ratio of each, a verdict, and why not."""
