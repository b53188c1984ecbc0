"""Many clients at once, in a cluster of Dask: where they run, how a cell is divided, and its results merged."""
