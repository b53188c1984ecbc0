"""`naslab export`: a run as .json (whole), .csv and .parquet (its cells), .xlsx (tidy sheets and charts)."""

from __future__ import annotations

import csv
import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from naslab.errors import UsageError
from naslab.exchange.files import safe_text, written_whole
from naslab.exchange.json_file import json_text
from naslab.results.columns import CELL_COLUMNS, cell_row

if TYPE_CHECKING:
    from naslab.results.run import Run


def export(run: Run, path: str | Path, format: str | None = None, *, force: bool = False) -> Path:
    """Writes the run to `path`, atomically; returns the path.

    format: json, csv, xlsx or parquet; None takes the file's ending. force: replace a file that is there.
    Raises UsageError for an unknown format, one whose library is missing, or a file that is there already;
    StoreError when the file cannot be written or the run's raw data is damaged.
    """
    path = Path(path)
    writer = _writer(path, format)
    with written_whole(path, force) as temporary:
        writer(run, temporary)
    return path


def _writer(path: Path, format: str | None) -> Callable[[Run, Path], None]:
    wanted = (format or path.suffix.removeprefix(".")).lower()
    if wanted not in _WRITERS:
        option = "--format" if format else "-o"
        raise UsageError(f"{option} {format or path}: {wanted!r} is not a format; choose {', '.join(_WRITERS)}")
    if wanted == "parquet":
        _parquet_library()
    return _WRITERS[wanted]


def _write_json(run: Run, path: Path) -> None:
    path.write_text(json_text(run), encoding="utf-8")


def _write_csv(run: Run, path: Path) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([column.name for column in CELL_COLUMNS])
        for cell in run.cells:
            writer.writerow([_csv_value(value) for value in cell_row(run.document, cell)])


def _csv_value(value: Any) -> Any:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return safe_text(value) if isinstance(value, str) else value


def _write_xlsx(run: Run, path: Path) -> None:
    from naslab.exchange.excel import write_workbook

    write_workbook(run, path)


def _parquet_library() -> str:
    for name in ("polars", "pyarrow"):
        if importlib.util.find_spec(name) is not None:
            return name
    raise UsageError(
        "parquet needs a library that is not installed: pip install polars (or pyarrow); or export to .csv"
    )


def _write_parquet(run: Run, path: Path) -> None:
    if _parquet_library() == "polars":
        run.to_polars().write_parquet(path)
        return
    arrow: Any = importlib.import_module("pyarrow")
    types = {"int": arrow.int64(), "float": arrow.float64(), "str": arrow.string(), "bool": arrow.bool_()}
    schema = arrow.schema([(column.name, types[column.kind]) for column in CELL_COLUMNS])
    importlib.import_module("pyarrow.parquet").write_table(arrow.table(run.columns(), schema=schema), path)


_WRITERS: dict[str, Callable[[Run, Path], None]] = {
    "json": _write_json, "csv": _write_csv, "xlsx": _write_xlsx, "parquet": _write_parquet,
}  # fmt: skip
FORMATS = tuple(_WRITERS)
