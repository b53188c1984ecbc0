"""`naslab export`: .json (one run, whole), .csv and .parquet (cells), .series.csv and .series.parquet (intervals),
.xlsx (tidy sheets and charts), .prom and .om (metrics), .fio.json."""

from __future__ import annotations

import csv
import importlib.util
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from naslab.errors import UsageError
from naslab.exchange import series_table
from naslab.exchange.files import safe_text
from naslab.exchange.fio_json import write_fio
from naslab.exchange.json_file import json_text
from naslab.exchange.series_table import write_csv
from naslab.results.columns import CELL_COLUMNS, cell_row
from naslab.text.outputs import EXPORT, written

if TYPE_CHECKING:
    from naslab.results.run import Run

Say = Callable[[str], None]


def export(
    run: Run | Sequence[Run],
    path: str | Path,
    format: str | None = None,
    *,
    force: bool = False,
    say: Say = lambda text: None,
) -> Path:
    """Writes the run, or several runs, to `path`, atomically; returns the path.

    format: one of FORMATS; None takes the file's ending. force: replace a file that is there. say: gets a
    sentence for what the format has no place for. A .json file holds one run.
    Raises UsageError for an unknown format, one whose library is missing, several runs in a format of one, a
    run given twice, or a file that is there already; StoreError when the file cannot be written or the run's
    raw data is damaged.
    """
    if str(path) == "-":
        raise UsageError("-o -: the export needs a file; name one, e.g. -o run.csv")
    path = Path(path)
    runs = list(run) if isinstance(run, Sequence) else [run]
    writer = _writer(path, format, len(runs))
    ids = [one.run_id for one in runs]
    if twice := next((found for found in ids if ids.count(found) > 1), None):
        raise UsageError(f"run {twice} is named twice; name each run once")
    with written(path, "-o", EXPORT, force) as temporary:
        writer(runs, temporary, say)
    return path


def _writer(path: Path, format: str | None, runs: int) -> Callable[[list[Run], Path, Say], None]:
    name = path.name.lower()
    double = ".".join(name.split(".")[-2:])
    ending = double if double in ("fio.json", "series.csv", "series.parquet") else path.suffix.removeprefix(".")
    wanted = (format or ending).lower()
    wanted = _OTHER_NAMES.get(wanted, wanted)
    if wanted not in _WRITERS:
        where = f"--format {format}" if format else f"-o {path}: {wanted!r}"
        raise UsageError(f"{where} is not a format; choose {', '.join(FORMATS)}")
    if wanted == "json" and runs > 1:
        raise UsageError(f"-o {path}: a JSON file holds one run, and {runs} are named; export each, or write .xlsx")
    if wanted.endswith("parquet"):
        _check_parquet()
    return _WRITERS[wanted]


def _write_json(runs: list[Run], path: Path, say: Say) -> None:
    path.write_text(json_text(runs[0]), encoding="utf-8")


def _write_csv(runs: list[Run], path: Path, say: Say) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([column.name for column in CELL_COLUMNS])
        for run in runs:
            for cell in run.cells:
                writer.writerow([csv_value(value) for value in cell_row(run.document, cell)])


def csv_value(value: Any) -> Any:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return safe_text(value) if isinstance(value, str) else value


def _write_xlsx(runs: list[Run], path: Path, say: Say) -> None:
    from naslab.exchange.excel import write_workbook

    write_workbook(runs, path)


def _write_prometheus(runs: list[Run], path: Path, say: Say) -> None:
    from naslab.exchange.openmetrics import write_metrics

    write_metrics(runs, path, openmetrics=False)


def _write_openmetrics(runs: list[Run], path: Path, say: Say) -> None:
    from naslab.exchange.openmetrics import write_metrics

    write_metrics(runs, path, openmetrics=True)


def _write_fio(runs: list[Run], path: Path, say: Say) -> None:

    write_fio(runs, path, say)


def _check_parquet() -> None:
    if importlib.util.find_spec("polars") is None:
        raise UsageError("parquet needs a library that is not installed: pip install polars; or export to .csv")


def _write_parquet(runs: list[Run], path: Path, say: Say) -> None:
    columns: dict[str, list[Any]] = {column.name: [] for column in CELL_COLUMNS}
    for run in runs:
        for name, values in run.columns().items():
            columns[name] += values
    kinds = {column.name: column.kind for column in CELL_COLUMNS}
    _write_columns(columns, kinds, path)


def _write_columns(columns: dict[str, Any], kinds: Mapping[str, str], path: Path) -> None:
    import polars

    types = {"int": polars.Int64, "float": polars.Float64, "str": polars.String, "bool": polars.Boolean}
    schema = {name: types[kind] for name, kind in kinds.items()}
    polars.DataFrame(columns, schema=schema, nan_to_null=True).write_parquet(path)


def _write_series_csv(runs: list[Run], path: Path, say: Say) -> None:

    write_csv(runs, path)


def _write_series_parquet(runs: list[Run], path: Path, say: Say) -> None:

    kinds = {"run_id": "str", "t_s": "float", "bytes_per_s": "float"}
    _write_columns(series_table.columns(runs), {name: kinds.get(name, "int") for name in series_table.HEADER}, path)


_WRITERS: dict[str, Callable[[list[Run], Path, Say], None]] = {
    "json": _write_json, "csv": _write_csv, "xlsx": _write_xlsx, "parquet": _write_parquet,
    "prometheus": _write_prometheus, "openmetrics": _write_openmetrics, "fio": _write_fio,
    "series.csv": _write_series_csv, "series.parquet": _write_series_parquet,
}  # fmt: skip
_OTHER_NAMES = {"prom": "prometheus", "om": "openmetrics", "fio.json": "fio"}
FORMATS = tuple(_WRITERS)
