"""`Run`: one stored run, its document and its raw data as arrays and tables.

NumPy, pandas and polars are imported when a method needs them.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, cast

from naslab.errors import StoreError, UsageError
from naslab.results.cell import Cell
from naslab.results.columns import CELL_COLUMNS, cell_row, lookup

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from naslab.results.document import Document
    from naslab.results.histogram import Histogram

SERIES_COLUMNS = (
    "read_ops", "read_bytes", "write_ops", "write_bytes", "flush_ops", "errors", "max_latency_ns",
)  # fmt: skip
STEP_LOG_COLUMNS = ("step", "start_ns", "latency_ns", "worker")
OP_LOG_COLUMNS = ("offset_bytes", "latency_ns", "len_bytes", "worker")


class BlobSource(Protocol):
    """Where the raw data of a run's cells is kept."""

    def names(self, cell_id: int) -> list[str]:
        """Names of the cell's blobs, sorted."""

    def get(self, cell_id: int, name: str) -> bytes | None:
        """One blob, or None. Raises StoreError when it is damaged."""


class MemoryBlobs:
    """Blobs held in memory: {cell id: {name: bytes}}."""

    def __init__(self, blobs: Mapping[int, Mapping[str, bytes]] | None = None) -> None:
        self._blobs = {cell: dict(named) for cell, named in (blobs or {}).items()}

    def names(self, cell_id: int) -> list[str]:
        """Names of the cell's blobs, sorted."""
        return sorted(self._blobs.get(cell_id, {}))

    def get(self, cell_id: int, name: str) -> bytes | None:
        """One blob, or None."""
        return self._blobs.get(cell_id, {}).get(name)


class Run:
    """One run. Cells are named by their dict or their id; raw data is read when asked for."""

    cell_type: ClassVar[type[Cell]] = Cell

    def __init__(self, document: Document, blobs: BlobSource | None = None) -> None:
        cells: Any = document.get("cells", [])
        if cells and not isinstance(cells[0], self.cell_type):
            cells[:] = map(self.cell_type, cells)  # in its place: the document and its list are their maker's, too
        self.document = document
        self.blobs: BlobSource = blobs or MemoryBlobs()

    def __repr__(self) -> str:
        target = self.document["target"].get("url", "")
        return f"<Run {self.run_id}: {self.document['command']} {target}, {len(self.cells)} cells>"

    @property
    def run_id(self) -> str:
        """The run's id."""
        return str(self.document["run_id"])

    @property
    def cells(self) -> list[Cell]:
        """The document's cells in the order they were measured; fields are in docs/reference/run-document.md."""
        return cast("list[Cell]", self.document["cells"])

    def cell(self, cell: Mapping[str, Any] | int) -> dict[str, Any]:
        """The cell with this id; a cell itself is given back. Raises UsageError when there is none."""
        if not isinstance(cell, int):
            return dict(cell)
        wanted = cell
        for found in self.cells:
            if found["id"] == wanted:
                return found
        raise UsageError(f"run {self.run_id} has no cell {wanted}")

    def blob_names(self, cell: Mapping[str, Any] | int) -> list[str]:
        """What raw data the cell has, sorted: `latency:read`, `response:read`, `series`, `latency_series:read` ..."""
        return self.blobs.names(_cell_id(cell))

    def blob(self, cell: Mapping[str, Any] | int, name: str) -> bytes:
        """Raw bytes. Raises UsageError naming what there is when the cell has no such blob, StoreError if damaged."""
        data = self.blobs.get(_cell_id(cell), name)
        if data is None:
            there = ", ".join(self.blob_names(cell)) or "nothing"
            raise UsageError(f"cell {_cell_id(cell)} of run {self.run_id} has no {name!r}; it has {there}")
        return data

    def histogram_of(self, cell: Mapping[str, Any] | int, name: str | None = None) -> Histogram:
        """The histogram object, which merges and gives quantiles.

        name: `latency:KIND` or `response:KIND`; None merges the latency of all kinds but `flush` (from the
        due time where the cell has it), as `latency_ns` of the document does. Raises UsageError, StoreError.
        """
        from naslab.results.histogram import decode, merge

        if name is not None:
            return decode(self.blob(cell, name))
        there = [n for n in self.blob_names(cell) if n.startswith(("latency:", "response:"))]
        data = [n for n in there if not n.endswith(":flush")] or there
        wanted = [n for n in data if n.startswith("response:")] or data
        if not wanted:
            raise UsageError(f"cell {_cell_id(cell)} of run {self.run_id} has no latency histogram")
        return merge(decode(self.blob(cell, n)) for n in wanted)

    def histogram(
        self, cell: Mapping[str, Any] | int, name: str | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(values_ns, counts), both (n,) int64: the largest value of each bucket that holds something, ascending.

        A bucket is at most 0.1 % of its value wide. `name` and errors as for `histogram_of`.
        """
        found = self.histogram_of(cell, name)
        return found.values_ns, found.counts

    def quantiles(
        self, cell: Mapping[str, Any] | int, qs: Iterable[float], name: str | None = None
    ) -> NDArray[np.float64]:
        """Latency at each q of `qs` (0 to 1), nanoseconds; NaN without samples. Errors as for `histogram_of`."""
        return self.histogram_of(cell, name).quantiles(qs)

    def series(self, cell: Mapping[str, Any] | int) -> NDArray[np.void]:
        """The interval series: a structured array, one row per interval.

        Columns: t_s (float64, start of the interval in seconds from the cell's start), then int64 read_ops,
        read_bytes, write_ops, write_bytes, flush_ops, errors, max_latency_ns. Empty when none was recorded.
        """
        import numpy as np

        found = self.cell(cell)
        rows = self._int_rows(found, "series", len(SERIES_COLUMNS))
        out = np.zeros(len(rows), dtype=[("t_s", "f8"), *((name, "i8") for name in SERIES_COLUMNS)])
        out["t_s"] = np.arange(len(rows)) * (found["interval_ns"] / 1e9)
        for at, name in enumerate(SERIES_COLUMNS):
            out[name] = rows[:, at]
        return cast("NDArray[np.void]", out)

    def wire_series(self, cell: Mapping[str, Any] | int) -> NDArray[np.int64]:
        """Bytes (sent, received) on the wire in each interval of `series`: (n, 2) int64.

        Empty where the target does not count them or the cell had one interval only. Bytes count in the interval
        in which the worker next saw an operation end.
        """
        import numpy as np

        rows = self._int_rows(self.cell(cell), "wire_series", 2)
        if not len(rows):
            return rows
        out = np.zeros((len(self.series(cell)), 2), np.int64)
        out[: len(rows)] = rows[: len(out)]
        return out

    def latency_series(
        self, cell: Mapping[str, Any] | int, kind: str = "all"
    ) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """How slow operations were over time: (edges_ns (m + 1,), counts (n, m)), n intervals of `series`.

        Four buckets to each power of two of nanoseconds, from the lowest to the highest that holds something. In an
        open loop latency counts from the due time. kind: `read`, `write`, or `all` for both. Empty where the cell
        had one interval only, or intervals below 10 ms. Raises StoreError for damaged data.
        """
        import numpy as np

        found = self.cell(cell)
        names = [n for n in self.blob_names(found) if n.startswith("latency_series:")]
        wanted = [n for n in names if kind == "all" or n.endswith(f":{kind}")]
        rows = np.concatenate([np.empty((0, 3), np.int64), *(self._latency_rows(found, n) for n in wanted)])
        if not len(rows):
            return np.empty(0), np.empty((0, 0), np.int64)
        intervals = max(int(rows[:, 0].max()) + 1, len(self.series(found)))
        first, last = int(rows[:, 1].min()), int(rows[:, 1].max())
        counts = np.zeros((intervals, last - first + 1), np.int64)
        np.add.at(counts, (rows[:, 0], rows[:, 1] - first), rows[:, 2])
        return latency_edges_ns(first, last), counts

    def _latency_rows(self, cell: Mapping[str, Any], name: str) -> NDArray[np.int64]:
        import numpy as np

        data = self.blob(cell, name)
        if len(data) % 12:
            raise StoreError(
                f"{name} of cell {_cell_id(cell)}, run {self.run_id}: {len(data)} bytes are not whole rows"
            )
        return np.frombuffer(data, dtype="<u4").reshape(-1, 3).astype(np.int64)

    def step_log(self, cell: Mapping[str, Any] | int) -> NDArray[np.void]:
        """Steps of a script that were carried out: worker, step (number in its stream), start_ns (from the window's
        start), latency_ns (int64), worker after worker in order. Pauses and failed steps are left out. May be empty.
        """
        return self._log(cell, "step_log", STEP_LOG_COLUMNS)

    def op_log(self, cell: Mapping[str, Any] | int) -> NDArray[np.void]:
        """Every operation in completion order: offset_bytes, latency_ns, len_bytes, worker (int64). May be empty."""
        return self._log(cell, "op_log", OP_LOG_COLUMNS)

    def _log(self, cell: Mapping[str, Any] | int, blob: str, columns: tuple[str, ...]) -> NDArray[np.void]:
        import numpy as np

        rows = self._int_rows(self.cell(cell), blob, len(columns))
        out = np.zeros(len(rows), dtype=[(name, "i8") for name in columns])
        for at, name in enumerate(columns):
            out[name] = rows[:, at]
        return cast("NDArray[np.void]", out)

    def _int_rows(self, cell: Mapping[str, Any], name: str, width: int) -> NDArray[np.int64]:
        import numpy as np

        data = self.blobs.get(_cell_id(cell), name)
        if data is None:
            return np.empty((0, width), np.int64)
        if len(data) % (8 * width):
            what = f"{name} of cell {_cell_id(cell)}, run {self.run_id}"
            raise StoreError(f"{what}: {len(data)} bytes are not whole rows")
        return np.frombuffer(data, dtype="<i8").reshape(-1, width)

    def columns(self) -> dict[str, list[Any]]:
        """The cells by column, {name: values}; names, units as in docs/reference/run-document.md, None: no value."""
        rows = [cell_row(self.document, cell) for cell in self.cells]
        return {column.name: [row[at] for row in rows] for at, column in enumerate(CELL_COLUMNS)}

    def table(self) -> NDArray[np.void]:
        """The cells as a structured array, one row per cell, columns as in `columns()`.

        Numbers that may be missing are float64 with NaN, other integers int64; missing text is "". What the source
        of an imported or published run does not tell is NaN, too.
        """
        import numpy as np

        data = self.columns()
        arrays = {c.name: _array(data[c.name], c.kind, c.nullable) for c in CELL_COLUMNS}
        out = np.zeros(len(self.cells), dtype=[(name, array.dtype) for name, array in arrays.items()])
        for name, array in arrays.items():
            out[name] = array
        return cast("NDArray[np.void]", out)

    def to_pandas(self) -> Any:
        """The cells as a pandas DataFrame, columns as in `columns()`. Raises UsageError without pandas."""
        return _import("pandas").DataFrame(self.columns())

    def to_polars(self) -> Any:
        """The cells as a polars DataFrame, columns as in `columns()`. Raises UsageError without polars."""
        polars = _import("polars")
        types = {"int": polars.Int64, "float": polars.Float64, "str": polars.String, "bool": polars.Boolean}
        return polars.DataFrame(self.columns(), schema={c.name: types[c.kind] for c in CELL_COLUMNS})

    def ops(self) -> list[str]:
        """Operation names in the run, in the order they were first measured."""
        return list(dict.fromkeys(cell["op"] for cell in self.cells))

    def sweep_ops(self) -> list[str]:
        """Operations measured over file and record sizes, all else equal: those `grid` shows whole.

        Cells of a workload are no part of it: applications, loads over time, the steps that look for a limit.
        """
        shapes: dict[str, set[tuple[int, int]]] = {}
        others: dict[str, set[tuple[Any, ...]]] = {}
        for cell in self.cells:
            if cell.get("workload") or cell["file_bytes"] is None or cell["record_bytes"] is None:
                continue  # a size that its source does not give is no point of a surface
            shapes.setdefault(cell["op"], set()).add((cell["file_bytes"], cell["record_bytes"]))
            other = tuple(cell.get(n) for n in ("queue_depth", "workers", "durability", "offered_per_s"))
            others.setdefault(cell["op"], set()).add(other)
        return [op for op in self.ops() if len(shapes.get(op, ())) > 1 and len(others[op]) == 1]

    def grid(
        self,
        op: str,
        value: str = "throughput_bytes_per_s",
        where: Mapping[str, Any] | Callable[[dict[str, Any]], bool] | None = None,
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
        """(file_bytes (f,), record_bytes (r,), matrix (f, r)) of one operation; the median over repeats.

        value: a number of the cell, with a dot for parts: `iops`, `latency_ns.p99`. where: only cells with
        these values, e.g. {"queue_depth": 8}, or for which it is true; None: cells of no workload, where the
        operation has such. Failed cells are left out, and those whose source does not give their sizes; predicted
        ones are in; NaN where nothing was measured. Raises UsageError naming the operations there are.
        """
        import numpy as np

        if where is None and any(c["op"] == op and not c.get("workload") for c in self.cells):
            where = {"workload": None}
        cells = [
            c for c in self.cells
            if c["op"] == op and c["status"] != "failed" and _matches(c, where)
            and c["file_bytes"] is not None and c["record_bytes"] is not None
        ]  # fmt: skip
        if not cells and op not in self.ops():
            raise UsageError(f"run {self.run_id} did not measure {op!r}; it has {', '.join(self.ops()) or 'no cells'}")
        files = np.array(sorted({c["file_bytes"] for c in cells}), np.int64)
        records = np.array(sorted({c["record_bytes"] for c in cells}), np.int64)
        repeats: dict[tuple[int, int], list[float]] = {}
        for cell in cells:
            found = lookup(cell, value)
            if isinstance(found, int | float):
                repeats.setdefault((cell["file_bytes"], cell["record_bytes"]), []).append(float(found))
        matrix = np.full((len(files), len(records)), np.nan)
        for (file_bytes, record_bytes), values in repeats.items():
            at = np.searchsorted(files, file_bytes), np.searchsorted(records, record_bytes)
            matrix[at] = np.median(values)
        return files, records, matrix

    def to_json(self, indent: int | None = None) -> str:
        """The document as JSON, without raw data. Raises StoreError for a number JSON cannot hold."""
        try:
            return json.dumps(self.document, indent=indent, allow_nan=False, ensure_ascii=False)
        except ValueError as error:
            raise StoreError(f"run {self.run_id} has a number that JSON cannot represent: {error}") from error


def latency_edges_ns(first: int, last: int) -> NDArray[np.float64]:
    """Edges of the engine's latency buckets `first` to `last`, in nanoseconds: four to each power of two.

    (last - first + 2,): the upper edge of the last one included. Source: crates/engine/src/timeline.rs.
    """
    import numpy as np

    buckets = np.arange(first, last + 2)
    return cast("NDArray[np.float64]", (1 + buckets % 4 / 4) * 2.0 ** (buckets // 4))


def _cell_id(cell: Mapping[str, Any] | int) -> int:
    return cell if isinstance(cell, int) else cast("int", cell["id"])


def _matches(cell: dict[str, Any], where: Mapping[str, Any] | Callable[[dict[str, Any]], bool] | None) -> bool:
    if where is None:
        return True
    if callable(where):
        return where(cell)
    return all(lookup(cell, name) == wanted for name, wanted in where.items())


def _array(values: list[Any], kind: str, nullable: bool) -> NDArray[Any]:
    import numpy as np

    if kind == "str":
        return np.array(["" if v is None else v for v in values], dtype=np.str_)
    untold = any(v is None for v in values)  # only runs that naslab did not measure have such
    if kind == "bool" and not untold:
        return np.array(values, dtype=np.bool_)
    if kind == "float" or nullable or untold:
        return np.array([np.nan if v is None else v for v in values], dtype=np.float64)
    return np.array(values, dtype=np.int64)


def _import(name: str) -> Any:

    try:
        return importlib.import_module(name)
    except ImportError as error:
        hint = f"pip install {name}; or use Run.table(), which needs NumPy only"
        raise UsageError(f"this table needs {name}: {hint}") from error
