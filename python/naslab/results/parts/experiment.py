"""The document of an experiment: what `naslab lab run EXPERIMENT --json` prints."""

from typing import Annotated, Literal

from msgspec import UNSET, UnsetType

from naslab.results.describe import Bytes, Count, Facts, Number, Part, about
from naslab.results.parts.lab import PlantedDocument

SCHEMA = 1


class ExperimentCalibration(Part):
    """Calibration."""

    system: Annotated[str, about("its name")]
    built: Annotated[str, about("what it is made of")]
    conditions: Annotated[list[str], about("ids of the conditions measured on it")]
    calibrated_at: Annotated[str | None, about("when; null: never on a system of these parts")]
    limits: Annotated[list[PlantedDocument], about("its limits")]


class ExperimentContrast(Part):
    """Contrast."""

    words: Annotated[str, about("what is divided by what")]
    value: Annotated[Number | None, about("the ratio; null: none")]
    low: Annotated[Number | None, about("of its 95 % interval")]
    high: Annotated[Number | None, about("of its 95 % interval")]
    n: Annotated[Count, about("repeats")]
    detectable: Annotated[
        Number | None, about("a true ratio this factor away from the edge is detected in 80 of 100 cases")
    ]


class ExperimentClaim(Part, kw_only=True):
    """Claim."""

    id: Annotated[str, about("its name")]
    words: Annotated[str, about("the conclusion, in our words")]
    place: Annotated[str, about("where in the article")]
    verdict: Annotated[
        Literal["reproduced", "contradicted", "undecided", "too few repeats", "not testable here"], about("the verdict")
    ]
    why: Annotated[str, about("one sentence")]
    p: Annotated[Number | None, about("of the verdict, adjusted over the experiment; null: none")]
    repeats_needed: Annotated[
        Number | None,
        about(
            "of an undecided claim: repeats that would decide it in 80 of 100 cases; null: not known, or no "
            "number would"
        ),
    ] = None
    published: Annotated[Number | None, about("the same ratio in the article; null: it gives none")]
    stand_in: Annotated[str, about("the stand-in for a machine that cannot be rebuilt")]
    region: Annotated[
        list[Number | None] | None, about("ratios that the conclusion states: lowest and highest, null for no bound")
    ]
    contrasts: Annotated[list[ExperimentContrast], about("the ratios it was judged by")]


class ExperimentCost(Part):
    """Cost."""

    condition: Annotated[str, about("id of the condition")]
    test: Annotated[str, about("name of the test")]
    name: Annotated[
        Literal["per_hour", "per_month", "sustained_per_tib", "burst_per_tib"],
        about("which figure; per_tib: of the time that 2^40 bytes take at the sustained or the burst rate"),
    ]
    values: Annotated[list[Number], about("of each repeat, in the currency of the price")]
    published: Annotated[Number | None, about("the same from the article's price and rates; null: none")]


class ExperimentPublished(Part):
    """Published number."""

    id: Annotated[str, about("its name")]
    what: Annotated[str, about("as text")]
    value: Annotated[float, about("as published")]
    unit: Annotated[str, about("as published")]
    scaled: Annotated[float, about("the same in bytes, bytes per second, nanoseconds, or as it is")]
    place: Annotated[str, about("where in the article")]
    chart: Annotated[str, about("where it is drawn; empty: nowhere")]
    condition: Annotated[str, about("beside which condition")]
    group: Annotated[str, about("in which group of bars")]
    size_bytes: Annotated[Bytes, about("at which file size; 0: at none")]
    column: Annotated[str, about("of a table")]


class ExperimentDip(Part):
    """Dip."""

    file_bytes: Annotated[Bytes, about("file size")]
    record_bytes: Annotated[Bytes, about("record size")]
    share: Annotated[Number, about("of its neighbours' median, geometric mean over the repeats")]
    low: Annotated[Number, about("of its 95 % interval")]
    high: Annotated[Number, about("of its 95 % interval")]


class ExperimentPoint(Part, kw_only=True):
    """Point."""

    size_bytes: Annotated[Bytes, about("of lines: the file size")] = 0
    group: Annotated[str, about("of bars: the group")] = ""
    values: Annotated[list[Number], about("of each repeat, in the chart's unit")]


class ExperimentSeries(Part):
    """Series."""

    condition: Annotated[str, about("id of the condition")]
    points: Annotated[list[ExperimentPoint], about("of lines and bars")] = []
    files: Annotated[list[Count], about("of surfaces: file sizes in bytes")] = []
    records: Annotated[list[Count], about("of surfaces: record sizes in bytes")] = []
    rates: Annotated[
        list[list[Number | None]],
        about("of surfaces: rows of medians over the repeats, null where not measured"),
    ] = []
    roughness: Annotated[list[Number | None], about("of surfaces: of each repeat")] = []
    dips: Annotated[list[ExperimentDip], about("of surfaces: spots below their neighbours")] = []
    block: Annotated[Count, about("over time: the repeat shown, from 0, which has the median rate")] = 0
    repeats: Annotated[Count, about("over time: how many there are")] = 0
    run_id: Annotated[str | None, about("over time: its run in the store")] = None
    times_ns: Annotated[list[Count], about("over time: start of each interval since the first")] = []
    values: Annotated[
        list[Number | None],
        about("over time: rate of each interval in the chart's unit, null between two cells"),
    ] = []


class ExperimentChart(Part, kw_only=True):
    """Chart."""

    id: Annotated[str, about("its name")]
    title: Annotated[str, about("its title")]
    kind: Annotated[Literal["line", "bars", "surface", "time"], about("how it is drawn")]
    unit: Annotated[str, about("of the values")]
    limits: Annotated[list[str], about("names of limits drawn as lines")]
    published: Annotated[list[str], about("over time: ids of published numbers drawn as lines")] = []
    series: Annotated[list[ExperimentSeries], about("one for each condition that was measured")]


class ExperimentMeasurement(Part):
    """Measurement."""

    condition: Annotated[str, about("id of the condition")]
    test: Annotated[str, about("name of the test")]
    block: Annotated[Count, about("which repeat, from 0")]
    run_id: Annotated[str | None, about("the run in the store")]
    status: Annotated[str | None, about("of that run")]
    place: Annotated[str, about("where naslab ran")] = ""


class ExperimentLimit(Part):
    """Limit."""

    name: Annotated[str, about("its name")]
    what: Annotated[str, about("as text")]
    value: Annotated[Number, about("planted: bytes per second or bytes")]
    condition: Annotated[str, about("the only condition that has it; empty: all")]
    line: Annotated[bool, about("a reference line of the charts")]
    measured: Annotated[Number | None, about("by another tool, or the planted value where none did; null: not known")]


class ExperimentTest(Part):
    """Test."""

    name: Annotated[str, about("its name")]
    what: Annotated[str, about("as text")]
    words: Annotated[str, about("the command line")]


class ExperimentCondition(Part):
    """Condition."""

    id: Annotated[str, about("its name")]
    what: Annotated[str, about("as text")]
    system: Annotated[str, about("the system it is measured on; empty: measured elsewhere")]
    built: Annotated[str, about("what that system is made of")]
    stands_for: Annotated[str, about("the article's machine that it represents")]
    tests: Annotated[list[str], about("names of its tests")]
    options: Annotated[str, about("what its commands have in addition")]
    beside: Annotated[list[str], about("what runs beside its tests")]
    place: Annotated[str, about("where naslab ran; places are not compared with each other")]
    missing: Annotated[str, about("why it was not measured; empty: it was")]


class ExperimentSequential(Part):
    """Looks at the repeats."""

    looks: Annotated[list[Count], about("numbers of repeats after which all claims are judged")]
    level: Annotated[Number, about("chance of any wrong verdict over all looks and claims")]


class ExperimentDocument(Part, kw_only=True):
    """Experiment."""

    schema: Annotated[Count, about(f"version of this document; this naslab writes {SCHEMA}")]
    kind: Annotated[Literal["experiment"], about("distinguishes it from a run document")]
    naslab_version: Annotated[str, about("version of naslab that measured")]
    name: Annotated[str, about("of the experiment")]
    scale: Annotated[Literal["quick", "scaled", "full"], about("full: the article's own sizes; quick: the smallest")]
    title: Annotated[str, about("the article's subject")]
    source: Annotated[Facts, about("the article: title, author, year and address, as far as they are known")]
    about: Annotated[str, about("what was built and what differs from the article")]
    margin: Annotated[Number, about("a contrast of less than this share counts as none")]
    seed: Annotated[int, about("seed of order, offsets and data")]
    started_at: Annotated[str, about("start, ISO 8601 in UTC")]
    finished_at: Annotated[str, about("end, ISO 8601 in UTC")]
    interrupted: Annotated[bool, about("it was ended before all repeats were measured")]
    summary: Annotated[list[str], about("the result in sentences")]
    conditions: Annotated[list[ExperimentCondition], about("what was measured, in order")]
    tests: Annotated[list[ExperimentTest], about("the commands that measured")]
    limits: Annotated[list[ExperimentLimit], about("limits that the systems have")]
    measurements: Annotated[list[ExperimentMeasurement], about("the runs, by their ids in the store")]
    charts: Annotated[list[ExperimentChart], about("what the report draws")]
    published: Annotated[list[ExperimentPublished], about("the article's own numbers")]
    speed: Annotated[Number, about("so many times as fast as the article's systems these are; 1 if left out")] = 1.0
    costs: Annotated[list[ExperimentCost], about("what the servers cost, of tests that were given a price")] = []
    claims: Annotated[list[ExperimentClaim], about("the article's conclusions and their verdicts")]
    calibrations: Annotated[
        list[ExperimentCalibration],
        about("systems from parts: planted limits and what other tools measured"),
    ] = []
    notes: Annotated[list[str], about("what else must be known, one sentence each")]
    sequential: Annotated[ExperimentSequential | UnsetType, about("of a run with --until decided")] = UNSET
