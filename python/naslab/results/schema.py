"""The run document described as data: its parts by name, its JSON schema and its reference page.

docs/reference/run.schema.json and docs/reference/run-document.md are made from here:

    python -m naslab.results.schema docs/reference
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from naslab.results import schema_maker
from naslab.results.columns import CELL_COLUMNS
from naslab.results.describe import Part
from naslab.results.fields import fields_of
from naslab.results.parts import SCHEMA
from naslab.results.parts.adaptive import AdaptiveDocument
from naslab.results.parts.answer import (
    AnswerBottleneck,
    AnswerDocument,
    AnswerEffect,
    AnswerGain,
    AnswerLimit,
    AnswerMeasured,
    AnswerNormal,
    AnswerQuestion,
    AnswerWork,
)
from naslab.results.parts.apps import App, Apps, StreamsHeld, StreamsTried
from naslab.results.parts.cached import Cached, CachedStep, WorkingSet, WorkingSetStep
from naslab.results.parts.cell import (
    AddressBytes,
    CellDocument,
    ClientStall,
    DirectProof,
    ErrorCount,
    KindDocument,
    Latency,
    Outage,
    Verified,
    WorkerDocument,
    WorkerKind,
)
from naslab.results.parts.client import (
    CellClient,
    ClientCeiling,
    ClientCipher,
    ClientLoopback,
    ClientMemory,
    ClientZlib,
    DoubtDocument,
    MemoryRates,
    NullRate,
)
from naslab.results.parts.clients import (
    CellClients,
    ClientPart,
    DiskRates,
    MonitorDocument,
    MonitorSample,
    NetRates,
    Scaling,
    ScalingRung,
)
from naslab.results.parts.curve import (
    CurveComparison,
    CurveDocument,
    CurveLoadRatio,
    CurveRatio,
    CurveStep,
    ProbeDocument,
)
from naslab.results.parts.durable import Durable, DurableAge, DurableCut, DurableMetadata, DurableMode
from naslab.results.parts.environment import (
    Environment,
    EnvironmentClient,
    EnvironmentDuring,
    EnvironmentInterface,
    EnvironmentOfClient,
    EnvironmentRoute,
    EnvironmentSpace,
)
from naslab.results.parts.job import Archives, JobDocument, JobShares, JobStep, JobStream
from naslab.results.parts.lab import PlantedDocument
from naslab.results.parts.ladder import (
    IoClass,
    Ladder,
    LadderBurst,
    LadderConditions,
    LadderFigure,
    LadderPoint,
    LadderQuestion,
    LadderStalls,
    LadderStep,
    LimitDocument,
    VerdictDocument,
)
from naslab.results.parts.profile import ProfileDocument, Zone
from naslab.results.parts.replay import ReplayDocument, ReplayKind, ReplayNote
from naslab.results.parts.run import Interleaved, RunDocument
from naslab.results.parts.security import Security, SecurityCombination, SecurityContrast, SecurityFigure, SecurityLoad
from naslab.results.parts.source import SourceDocument
from naslab.results.parts.split import ClientSplit, ClientSplitCell, ClientSplitSide
from naslab.results.parts.stated import Stated, StatedLimit, StatedNumber, StatedPart
from naslab.results.parts.sustained import (
    Bucket,
    BurstDocument,
    CacheModeDocument,
    ChangeDocument,
    CostDocument,
    EstimateDocument,
    FindingDocument,
    RateCostDocument,
    Regimes,
    SegmentDocument,
    Steady,
    Sustained,
)
from naslab.results.parts.target import TargetDocument
from naslab.results.parts.tree import TreeDocument, TreePhase
from naslab.results.parts.warning import RunWarning
from naslab.results.schema_maker import Tables

TABLES: Tables = {
    "run": RunDocument,
    "target": TargetDocument,
    "cell": CellDocument,
    "latency": Latency,
    "kind": KindDocument,
    "worker": WorkerDocument,
    "error_count": ErrorCount,
    "client_stall": ClientStall,
    "warning": RunWarning,
    "verdict": VerdictDocument,
    "limit": LimitDocument,
    "io_class": IoClass,
    "ladder": Ladder,
    "ladder_step": LadderStep,
    "ladder_figure": LadderFigure,
    "ladder_point": LadderPoint,
    "ladder_stalls": LadderStalls,
    "ladder_conditions": LadderConditions,
    "ladder_burst": LadderBurst,
    "ladder_question": LadderQuestion,
    "answer": AnswerDocument,
    "answer_bottleneck": AnswerBottleneck,
    "answer_limit": AnswerLimit,
    "answer_normal": AnswerNormal,
    "answer_gain": AnswerGain,
    "answer_effect": AnswerEffect,
    "answer_measured": AnswerMeasured,
    "answer_question": AnswerQuestion,
    "answer_work": AnswerWork,
    "sustained": Sustained,
    "regimes": Regimes,
    "segment": SegmentDocument,
    "change": ChangeDocument,
    "steady": Steady,
    "burst": BurstDocument,
    "finding": FindingDocument,
    "bucket": Bucket,
    "estimate": EstimateDocument,
    "cache_mode": CacheModeDocument,
    "adaptive": AdaptiveDocument,
    "cached": Cached,
    "cached_step": CachedStep,
    "working_set": WorkingSet,
    "working_set_step": WorkingSetStep,
    "cost": CostDocument,
    "rate_cost": RateCostDocument,
    "curve": CurveDocument,
    "curve_step": CurveStep,
    "probe": ProbeDocument,
    "profile": ProfileDocument,
    "job": JobDocument,
    "archives": Archives,
    "job_step": JobStep,
    "replay": ReplayDocument,
    "replay_kind": ReplayKind,
    "replay_note": ReplayNote,
    "tree": TreeDocument,
    "tree_phase": TreePhase,
    "durable": Durable,
    "durable_mode": DurableMode,
    "durable_age": DurableAge,
    "durable_metadata": DurableMetadata,
    "durable_cut": DurableCut,
    "planted": PlantedDocument,
    "zone": Zone,
    "apps": Apps,
    "app": App,
    "streams_held": StreamsHeld,
    "streams_tried": StreamsTried,
    "curve_comparison": CurveComparison,
    "curve_ratio": CurveRatio,
    "curve_load_ratio": CurveLoadRatio,
    "scaling": Scaling,
    "scaling_rung": ScalingRung,
    "monitor": MonitorDocument,
    "monitor_sample": MonitorSample,
    "cell_clients": CellClients,
    "client_part": ClientPart,
    "client_split": ClientSplit,
    "client_split_cell": ClientSplitCell,
    "client_split_side": ClientSplitSide,
    "security": Security,
    "security_combination": SecurityCombination,
    "security_contrast": SecurityContrast,
    "security_load": SecurityLoad,
    "security_figure": SecurityFigure,
    "stated": Stated,
    "stated_limit": StatedLimit,
    "stated_number": StatedNumber,
    "stated_part": StatedPart,
    "source": SourceDocument,
    "cell_client": CellClient,
    "client_ceiling": ClientCeiling,
    "null_rate": NullRate,
    "client_memory": ClientMemory,
    "memory_rates": MemoryRates,
    "client_zlib": ClientZlib,
    "client_cipher": ClientCipher,
    "client_loopback": ClientLoopback,
    "doubt": DoubtDocument,
    "environment": Environment,
    "environment_client": EnvironmentClient,
    "environment_interface": EnvironmentInterface,
    "environment_space": EnvironmentSpace,
    "environment_during": EnvironmentDuring,
    "environment_route": EnvironmentRoute,
    "environment_of_client": EnvironmentOfClient,
    "address_bytes": AddressBytes,
    "outage": Outage,
    "verified": Verified,
    "direct_proof": DirectProof,
    "interleaved": Interleaved,
    "worker_kind": WorkerKind,
    "job_shares": JobShares,
    "job_stream": JobStream,
    "disk_rates": DiskRates,
    "net_rates": NetRates,
}
"""The parts, in the order of the reference."""

RAW_DATA = (
    ("latency:KIND", "service time of one kind of operation", "HdrHistogram V2 compressed, ns"),
    ("response:KIND", "response time from the due time (open loop)", "HdrHistogram V2 compressed, ns"),
    (
        "series", "one row per interval of interval_ns",
        "int64 little-endian, rows of 7: read_ops, read_bytes, write_ops, write_bytes, flush_ops, errors, "
        "max_latency_ns",
    ),
    (
        "op_log", "one row per operation, in completion order",
        "int64 little-endian, rows of 4: offset_bytes, latency_ns, len_bytes, worker",
    ),
)  # fmt: skip


def json_schema(strict: bool = False) -> dict[str, Any]:
    """JSON schema (draft 2020-12) of a run document. strict: fields not described here are refused, for tests."""
    return schema_maker.json_schema(TABLES, SCHEMA, strict)


def reference_page() -> str:
    """docs/reference/run-document.md."""
    lines = [
        "# The run document",
        "",
        "<!-- Made by `python -m naslab.results.schema docs/reference`; edit naslab/results/parts instead. -->",
        "",
        f"What `--json` prints and `naslab export RUN -o FILE.json` writes; schema {SCHEMA}, as JSON schema in",
        "[run.schema.json](run.schema.json). Sizes are bytes, times nanoseconds, rates bytes per second. Readers",
        "must allow fields they do not know; a field that changes its meaning raises `schema`.",
    ]
    for name, part in TABLES.items():
        lines += schema_maker.table_lines(part, TABLES)
        if name == "run":
            lines += ["", 'Commands that give several runs print `{"schema": 1, "runs": [document, ...]}`.']
    lines += ["", "## Raw data", ""]
    lines += ["Kept beside the document by cell and name, and under `blobs` in exported files.", ""]
    lines += ["| name | what | format |", "|---|---|---|"]
    lines += [f"| `{name}` | {what} | {form} |" for name, what, form in RAW_DATA]
    return "\n".join(lines + _tables_section()) + "\n"


_TABLES_INTRO = """
## Tables for your own charts

```python
import naslab

run = naslab.load("last")             # an id, a prefix, "last" or an exported file
table = run.table()                   # NumPy structured array, one row per cell; also run.to_pandas(), run.to_polars()
files, records, matrix = run.grid("read", "latency_ns.p99")  # median over repeats, NaN where nothing was measured
cell = next(cell for cell in run.cells if cell["op"] == "read")
series = run.series(cell)             # structured array, one row per interval: t_s and the columns above
values_ns, counts = run.histogram(cell, "latency:read")
p50, p99 = run.quantiles(cell, [0.5, 0.99])          # ns
```

The columns of the cells table, which .csv, .xlsx and .parquet hold too:

| column | type | unit | field |
|---|---|---|---|"""


def _tables_section() -> list[str]:
    parts: tuple[tuple[str, type[Part]], ...] = (("", CellDocument), ("latency_ns.", Latency))
    units = {f"{prefix}{each.name}": each.unit for prefix, part in parts for each in fields_of(part)}
    rows = [
        f"| `{c.name}` | {c.kind}{' or missing' if c.nullable else ''} | {units.get(c.path) or ''} | `{c.path}` |"
        for c in CELL_COLUMNS
    ]
    return [*_TABLES_INTRO.split("\n"), *rows]


def files() -> dict[str, str]:
    """The generated files by name."""
    schema = json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"
    return {"run.schema.json": schema, "run-document.md": reference_page()}


def main(arguments: list[str]) -> int:
    """Writes the generated files to the folder named. Exit code 2 without one."""
    if len(arguments) != 1:
        print("usage: python -m naslab.results.schema DIR", file=sys.stderr)
        return 2
    folder = Path(arguments[0])
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files().items():
        (folder / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
