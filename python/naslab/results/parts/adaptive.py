"""What `naslab sweep --adaptive` adds to the run document."""

from typing import Annotated

from naslab.results.describe import Bytes, Count, Ns, Number, Part, about


class AdaptiveDocument(Part):
    """Adaptive sweep."""

    grid_cells: Annotated[Count, about("cells of the grid, repeats not counted")]
    measured_cells: Annotated[Count, about("of those: measured")]
    predicted_cells: Annotated[Count, about("of those: predicted")]
    unknown_cells: Annotated[Count, about("of those: neither")]
    parts: Annotated[Count, about("cells of workload sample: parts of a file, read for the prediction")]
    full_grid_bytes: Annotated[Bytes, about("what the whole grid would have moved")]
    moved_bytes: Annotated[Bytes, about("what was moved")]
    full_grid_ns: Annotated[Ns, about("time of the whole grid's operations, from measured and predicted rates")]
    moved_ns: Annotated[Ns, about("time of the operations that were measured")]
    median_ci90: Annotated[
        Number | None, about("half the 90 % interval over the rate, median of the predicted cells; null: none")
    ]
    p90_ci90: Annotated[Number | None, about("the same, 90th percentile")]
