"""What `naslab sweep --adaptive` adds to the run document."""

from __future__ import annotations

from naslab.results.fields import field as _f

PREDICTED_CI90 = _f(
    "predicted_ci90_bytes_per_s", "array", "of a predicted cell: ends of the 90 % interval of its rate", "bytes/s",
    required=False,
)  # fmt: skip

ADAPTIVE = (
    _f("grid_cells", "integer", "cells of the grid, repeats not counted"),
    _f("measured_cells", "integer", "of those: measured"),
    _f("predicted_cells", "integer", "of those: predicted"),
    _f("unknown_cells", "integer", "of those: neither"),
    _f("parts", "integer", "cells of workload sample: parts of a file, read for the prediction"),
    _f("full_grid_bytes", "integer", "what the whole grid would have moved", "bytes"),
    _f("moved_bytes", "integer", "what was moved", "bytes"),
    _f("full_grid_ns", "integer", "time of the whole grid's operations, from measured and predicted rates", "ns"),
    _f("moved_ns", "integer", "time of the operations that were measured", "ns"),
    _f("median_ci90", "number?", "half the 90 % interval over the rate, median of the predicted cells; null: none"),
    _f("p90_ci90", "number?", "the same, 90th percentile"),
)
