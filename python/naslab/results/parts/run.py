"""The run document itself."""

from typing import Annotated, Literal

from msgspec import UNSET, UnsetType

from naslab.results.describe import Count, Facts, Number, Part, RunId, Sentence, Timestamp, Version, WallNs, Word, about
from naslab.results.parts import SCHEMA
from naslab.results.parts.adaptive import AdaptiveDocument
from naslab.results.parts.answer import AnswerDocument
from naslab.results.parts.apps import Apps
from naslab.results.parts.cell import CellDocument
from naslab.results.parts.client import ClientCeiling, DoubtDocument
from naslab.results.parts.clients import MonitorDocument, Scaling
from naslab.results.parts.curve import CurveDocument
from naslab.results.parts.durable import Durable
from naslab.results.parts.environment import Environment
from naslab.results.parts.job import JobDocument
from naslab.results.parts.ladder import Ladder, VerdictDocument
from naslab.results.parts.profile import ProfileDocument
from naslab.results.parts.replay import ReplayDocument
from naslab.results.parts.security import Security
from naslab.results.parts.source import SourceDocument
from naslab.results.parts.split import ClientSplit
from naslab.results.parts.stated import Stated
from naslab.results.parts.sustained import Sustained
from naslab.results.parts.target import TargetDocument
from naslab.results.parts.tree import TreeDocument
from naslab.results.parts.warning import RunWarning


class Interleaved(Part):
    """Measured alternately."""

    id: Annotated[str, about("shared by the runs that were measured alternately")]
    position: Annotated[Count, about("this run's place in a round, from 0")]
    level: Annotated[Number, about("significance level of each look")]
    ended: Annotated[str | UnsetType | None, about("why the rounds ended")] = UNSET


class RunDocument(Part):
    """Run."""

    schema: Annotated[Count, about(f"version of this document; this naslab writes {SCHEMA}")]
    naslab_version: Annotated[Version, about("version of naslab that measured")]
    run_id: Annotated[RunId, about("id in the store; ids sort by time")]
    command: Annotated[Word, about("command that measured: run, sweep, apps, sustained, ...")]
    label: Annotated[
        str | None, about("short name for lists and charts: the label `name`, else all labels in one line")
    ]
    labels: Annotated[dict[str, str], about("conditions of the test given by the user, key and value", private=True)]
    note: Annotated[str | None, about("remark given by the user")]
    summary: Annotated[list[Sentence], about("the result in sentences")]
    status: Annotated[
        Literal["complete", "partial", "failed", "running"],
        about("complete: all cells measured; partial: ended early; failed: invalid; running: not yet ended"),
    ]
    warnings: Annotated[list[RunWarning], about("what a reader of the numbers must know, in order of detection")]
    started_at: Annotated[Timestamp, about("start, ISO 8601 in UTC, for people")]
    finished_at: Annotated[Timestamp | None, about("end, ISO 8601 in UTC, for people")]
    start_wall_ns: Annotated[WallNs, about("start on the wall clock")]
    end_wall_ns: Annotated[WallNs | None, about("end on the wall clock")]
    seed: Annotated[int, about("seed of offsets, data and order")]
    argv: Annotated[list[str] | None, about("the command line, without secrets", keep="command_line")]
    target: Annotated[TargetDocument, about("what was measured; more fields as the protocol has them")]
    environment: Annotated[
        Environment, about("client and server at the start: CPU, RAM, kernel, NIC, MTU, server free space")
    ]
    cells: Annotated[list[CellDocument], about("results in the order they were measured")]
    verdict: Annotated[VerdictDocument, about("what limits the target; empty if no limit was detected or looked for")]
    answer: Annotated[
        AnswerDocument | UnsetType, about("the answer in ten lines, as data and as text; of `naslab run`")
    ] = UNSET
    ladder: Annotated[Ladder | UnsetType, about("the steps that the verdict rests on; of `naslab run`")] = UNSET
    adaptive: Annotated[
        AdaptiveDocument | UnsetType, about("what was measured, predicted and saved; of `naslab sweep --adaptive`")
    ] = UNSET
    sustained: Annotated[Sustained | UnsetType, about("naslab sustained: results from the series over time")] = UNSET
    curve: Annotated[CurveDocument | UnsetType, about("latency against offered load; of `naslab curve`")] = UNSET
    profile: Annotated[ProfileDocument | UnsetType, about("rate by position; of `naslab profile`")] = UNSET
    job: Annotated[JobDocument | UnsetType, about("real work on real files; of `naslab job`")] = UNSET
    replay: Annotated[
        ReplayDocument | UnsetType, about("operations issued, compared with those of the trace; of `naslab replay`")
    ] = UNSET
    tree: Annotated[TreeDocument | UnsetType, about("metadata and small files; of `naslab tree`")] = UNSET
    apps: Annotated[Apps | UnsetType, about("application workloads; of `naslab apps`")] = UNSET
    durable: Annotated[Durable | UnsetType, about("which acknowledged writes survived a cut; of `naslab durable`")] = (
        UNSET
    )
    rerun_of: Annotated[RunId | UnsetType, about("id of the run whose cells these are; of `naslab compare rerun`")] = (
        UNSET
    )
    interleaved: Annotated[Interleaved | UnsetType, about("measured alternately with other runs")] = UNSET
    client_ceiling: Annotated[ClientCeiling | UnsetType, about("the client's own ceiling, if it was measured")] = UNSET
    validity: Annotated[
        list[DoubtDocument] | UnsetType, about("what makes numbers doubtful: the figures behind warnings")
    ] = UNSET
    scaling: Annotated[Scaling | UnsetType, about("throughput by number of clients; of --scale")] = UNSET
    monitor: Annotated[MonitorDocument | UnsetType, about("what the server did during the run; of --monitor")] = UNSET
    client_split: Annotated[
        ClientSplit | UnsetType, about("what a kernel's client costs; of `naslab run MOUNT --direct`")
    ] = UNSET
    security: Annotated[Security | UnsetType, about("what signing and encryption cost; of `naslab security`")] = UNSET
    source: Annotated[
        SourceDocument | UnsetType | None,
        about("origin of a run that naslab did not measure; null: measured by naslab"),
    ] = UNSET
    stated: Annotated[Stated | UnsetType, about("what a source states besides its rates")] = UNSET
    blobs: Annotated[
        Facts | UnsetType, about("exported files only: raw data in base64, {cell id: {name: text}}; names below")
    ] = UNSET
