"""A trace as an application: what is issued has the statistics of the trace."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from apps_issued import DURATION_NS, GAP_NS, issued, planned, profile, write_trace
from naslab.cli import main
from naslab.cli.apps import run_apps
from naslab.cli.arguments import AppsArguments, CommonArguments
from naslab.commands.apps.actions import Action
from naslab.commands.apps.from_trace import MOST_ROWS, Sizes, definition_of
from naslab.commands.apps.generate import Plan, plan
from naslab.commands.apps.mix import Share
from naslab.commands.apps.model import definitions, parse
from naslab.errors import UsageError
from naslab.results import Run
from naslab.results.describe import typed
from naslab.results.parts.apps import Apps
from naslab.results.store import Store
from naslab.trace import Header, Trace, TraceWriter
from trace_actor import Actor, start

SIM = "sim:?link_bytes_per_s=118MB&latency_ns=200us"


def tree_copy(chance: random.Random) -> Plan:
    """A tree copied within a server by one program: each file looked up, read and written in turns."""
    made = Plan(definitions()["DirectoryCopyToNAS"], 1.0, ["src", *(f"src/d{n}" for n in range(12))])
    actions = [Action("mkdir", "dst"), Action("readdir", "src")]
    for number in range(12):
        actions += [Action("mkdir", f"dst/d{number}"), Action("readdir", f"src/d{number}")]
    for number in range(150):
        name, size = f"d{number % 12}/f{number}", int(chance.lognormvariate(10, 1.8))
        made.files[f"src/{name}"] = size
        actions += [Action("stat", f"src/{name}"), Action("miss", f"dst/{name}")]
        actions += [Action("open", f"src/{name}"), Action("create", f"dst/{name}")]
        for at in range(0, size, 131_072):
            length = min(131_072, size - at)
            actions += [Action("read", f"src/{name}", at, length), Action("write", f"dst/{name}", at, length)]
        actions += [Action("end", f"src/{name}", size, 131_072), Action("close", f"src/{name}")]
        actions.append(Action("close", f"dst/{name}"))
    made.streams = [actions]
    return made


def archive(chance: random.Random) -> Plan:
    """Many small files read by a program that writes all of them to one."""
    made = Plan(definitions()["DirectoryCopyToNAS"], 1.0, ["src"])
    actions = [Action("create", "out.tar")]
    for number in range(120):
        name, size = f"src/f{number}", int(chance.lognormvariate(9, 1.2))
        made.files[name] = size
        actions += [Action("stat", name), Action("open", name)]
        for at in range(0, size, 10_240):
            actions.append(Action("read", name, at, min(10_240, size - at)))
            actions.append(Action("write", "out.tar", 10_240 * sum(a.kind == "write" for a in actions), 10_240))
        actions.append(Action("close", name))
    made.streams = [[*actions, Action("close", "out.tar")]]
    return made


def of_definition(name: str, scale: float) -> Callable[[], Plan]:
    return lambda: plan(definitions()[name], 7, scale)


TRACES = {
    "two players": of_definition("HDVideo_2Play", 0.1),
    "four players": of_definition("HDVideo_4Play", 0.1),
    "database with log": of_definition("Database", 0.1),
    "machines with flushes": of_definition("VirtualMachines", 0.05),
    "tree copy": lambda: tree_copy(random.Random(3)),
    "archive": lambda: archive(random.Random(6)),
    "office": of_definition("OfficeProductivity", 0.2),
    "film beside office": of_definition("HDVideo_1Play_Office", 0.1),
    "photos and thumbnails": of_definition("PhotoImport", 0.05),
    "training": of_definition("TrainingReader", 0.05),
    "tree checked out and built": of_definition("SourceTree", 0.1),
}


@pytest.fixture
def run_app(tmp_path: Path) -> Callable[..., Run]:
    """Runs a definition as the command does; the run, which ended well."""

    def go(text: str, **options: Any) -> Run:
        (tmp_path / "own.toml").write_text(text)
        store = tmp_path / "store.sqlite"
        common = CommonArguments(store=store, quiet=True)
        assert run_apps(AppsArguments(SIM, app_=[tmp_path / "own.toml"], **options, common=common)) == 0
        return Store(store).load("last")

    return go


def close(a: float | None, b: float | None, points: float = 2.0) -> bool:
    """Shares of 0 to 1 within so many points, or both none."""
    return a is b is None or (a is not None and b is not None and abs(a - b) <= points / 100)


def compare(then: dict[str, Any], now: dict[str, Any]) -> None:
    """The tolerances that the guide states. then: the trace's profile; now: that of the operations issued."""
    for key in ("per_handle", "per_handle_read", "per_handle_write", "per_stream", "global"):
        assert close(then["sequential"][key], now["sequential"][key]), (key, then["sequential"], now["sequential"])
    for key in ("read_share_of_requests", "read_share_of_bytes"):
        assert close(then[key], now[key]), (key, then[key], now[key])
    assert now["operations"] == pytest.approx(then["operations"], rel=0.02)
    for kind in {*then["kinds"], *now["kinds"]}:
        shares = [p["kinds"].get(kind, {"operations": 0})["operations"] / p["operations"] for p in (then, now)]
        assert close(*shares), (kind, shares)
    for key in ("read_bytes", "written_bytes"):
        assert now[key] == pytest.approx(then[key], rel=0.03), key
    for op in ("read", "write"):
        assert shifted(then["requests"][op]["histogram"], now["requests"][op]["histogram"]) <= 0.05, op
    files, mine = then["files"], now["files"]
    assert (mine["needed_files"], mine["created_files"]) == (files["needed_files"], files["created_files"])
    assert mine["removed"] == files["removed"] and mine["unreadable"] == 0
    assert mine["needed_bytes"] == pytest.approx(files["needed_bytes"], rel=0.05)
    assert shifted(files["needed_sizes"], mine["needed_sizes"]) <= 0.1
    assert now["streams"]["count"] == then["streams"]["count"]


def shifted(one: list[dict[str, int]], other: list[dict[str, int]]) -> float:
    """How much of a histogram would have to be moved to get the other: half the sum of the differences."""
    shares = []
    for rows in (one, other):
        every = sum(row["count"] for row in rows)
        shares.append({row["up_to_bytes"]: row["count"] / every for row in rows})
    return sum(abs(shares[0].get(key, 0) - shares[1].get(key, 0)) for key in {*shares[0], *shares[1]}) / 2


@pytest.mark.parametrize("name", TRACES)
def test_what_is_issued_is_like_the_trace(name: str, tmp_path: Path, run_app: Callable[..., Run]) -> None:
    """Recorded, described, run on a simulated server, recorded again by what the engine issued: the same statistics."""
    work = TRACES[name]()
    trace = write_trace(tmp_path / "then.trace", work, planned(work))
    text = definition_of(trace)
    run = run_app(text)
    (cell,) = [one for one in run.cells if one["workload"] not in ("prepare", "clean")]
    assert cell["status"] == "complete" and not cell["errors"]
    mine = plan(parse(text, "own.toml"))
    steps = issued(mine, run.step_log(cell))
    assert sorted(steps) == [(n, at) for n, stream in enumerate(mine.streams) for at in range(len(stream))]
    now = profile(write_trace(tmp_path / "now.trace", mine, steps))
    compare(profile(trace), now)
    done = {kind: told["ops"] for kind, told in cell["kinds"].items() if told["ops"]}
    assert done == {kind: told["operations"] for kind, told in now["kinds"].items()}
    assert cell["bytes"] == now["read_bytes"] + now["written_bytes"]


def test_other_seeds_and_scales_are_like_it_too(tmp_path: Path) -> None:
    work = TRACES["office"]()
    trace = write_trace(tmp_path / "then.trace", work, planned(work))
    one = parse(definition_of(trace), "x.toml")
    found = [plan(one, seed) for seed in range(4)]
    assert found[0].streams != found[1].streams
    for number, again in enumerate(found):
        compare(profile(trace), profile(write_trace(tmp_path / f"{number}.trace", again, planned(again))))
    small = plan(one, 1, 0.25)
    told = profile(write_trace(tmp_path / "small.trace", small, planned(small)))
    assert told["operations"] == pytest.approx(profile(trace)["operations"] / 4, rel=0.05)
    assert told["read_bytes"] == pytest.approx(profile(trace)["read_bytes"] / 4, rel=0.1)


def test_every_number_is_the_traces(tmp_path: Path) -> None:
    work = TRACES["database with log"]()
    text = definition_of(write_trace(tmp_path / "My app.trace.zst", work, planned(work)))
    one = parse(text, "x.toml")
    assert (
        one.name == "Like-My-app" and one.set == "own" and one.sources["trace"] == "trace: My app.trace.zst, measured"
    )
    assert one.sequential == 0 and one.sequential_published is None
    numbers = [*one.whole.items(), *(pair for part in one.parts for pair in part.values.items())]
    assert {key for key, value in numbers if value.source != "trace"} == {"buffer"}
    pages, log = one.parts
    assert (pages["streams"], log["streams"], log["flushes"]) == (4, 1, 205) and "flushes" not in pages.values
    assert pages["reads"] == ((8192, 1600),) and log["writes"] == ((8192, 204), (6554, 1))
    duration = one.whole["duration"].is_
    assert duration == profile(Trace(tmp_path / "My app.trace.zst"))["duration_ns"]


def test_recorded_pace(tmp_path: Path, run_app: Callable[..., Run]) -> None:
    """The requests are spread over as much time as the trace took."""
    work = TRACES["two players"]()
    trace = write_trace(tmp_path / "then.trace", work, planned(work))
    text = definition_of(trace).replace('duration = { is = "0.05', 'duration = { is = "5.05')
    run = run_app(text, pace="recorded")
    assert run.cells[1]["window_ns"] == pytest.approx(5.054e9, rel=0.02)
    (told,) = typed(run.document["apps"], Apps).results
    assert told.paced and told.missed_starts == 0 and told.streams_kept_up == 2 and told.set == "own"


def test_think_time_is_offered(tmp_path: Path) -> None:
    work = TRACES["tree copy"]()
    text = definition_of(write_trace(tmp_path / "x.trace", work, planned(work)))
    assert "think" not in parse(text, "x").whole
    steps = sum(map(len, work.streams))
    think = parse(text.replace("# think", "think"), "x").whole["think"]
    assert think.is_ == (steps - 1) * (GAP_NS - DURATION_NS) and think.source == "trace"


def test_what_a_mix_cannot_say_is_told(tmp_path: Path) -> None:
    from naslab.trace import Operation

    rows: list[dict[str, Any]] = [
        {"op": "create", "path": "a", "handle": 0, "flags": "w"},
        {"op": "write", "handle": 0, "path": "a", "offset_bytes": 0, "len_bytes": 100 << 20},
        {"op": "link", "path": "a", "to_path": "b"},
        {"op": "remove", "path": "c", "error": "EACCES"},
        {"op": "open", "path": "d", "error": "ENOENT"},
        {"op": "open", "path": "e", "handle": 1, "flags": "f"},
        {"op": "readdir", "handle": 1, "path": "e", "len_bytes": 3},
        {"op": "readdir", "handle": 1, "path": "e", "len_bytes": 0},
    ]
    with TraceWriter(tmp_path / "x.trace", Header(source="naslab")) as writer:
        for at, row in enumerate(rows):
            writer.write(Operation(start_ns=at * 1000, stream=0, **row))
    one = parse(definition_of(Trace(tmp_path / "x.trace")), "x")
    (part,) = one.parts
    assert part["writes"] == ((64 << 20, 1), (36 << 20, 1)) and part["lists"] == 1 and "opens" not in part.values
    assert part["makes"] == ((100 << 20, 1), (0, 1)) and (part["missing"], part["missing_opens"]) == (1, 1)
    assert "1 x remove that failed" in one.rationale and "1 x second names" in one.rationale


def test_no_data_no_definition(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made, out = tmp_path / "x.trace", tmp_path / "x.toml"
    with TraceWriter(made, Header(source="naslab")):
        pass
    assert main(["trace", "show", str(made), "--emit-app", str(out)]) == 2
    assert "contains no operations" in capsys.readouterr().err and not out.exists()
    assert main(["trace", "show", str(made), "--emit-app", str(tmp_path / "x.json")]) == 2
    assert "name it FILE.toml" in capsys.readouterr().err
    out.write_text("mine")
    assert main(["trace", "show", str(made), "--emit-app", str(out)]) == 2
    assert "--emit-app" in (told := capsys.readouterr().err) and "exists" in told and out.read_text() == "mine"


def test_tables_of_sizes() -> None:
    sizes, chance = Sizes(), random.Random(2)
    every = [int(chance.lognormvariate(9, 2)) for _ in range(20_000)] + [65536] * 3000 + [0] * 5
    for size in every:
        sizes.add(size)
    rows = sizes.rows()
    assert len(rows) <= MOST_ROWS and rows == sorted(rows, reverse=True)
    assert sum(count for _, count in rows) == len(every) and dict(rows)[65536] >= 3000
    assert sum(size * count for size, count in rows) == pytest.approx(sum(every), rel=0.001)
    assert (0, 5) in rows


@pytest.mark.parametrize("percent", [0, 18.1, 50, 99.5, 100])
def test_a_share_holds_from_the_first_decisions_on(percent: float) -> None:
    share, hits = Share(percent), 0
    for number in range(1, 400):
        hit = share.wanted()
        share.count(hit)
        hits += hit
        assert abs(hits - number * percent / 100) <= 1


HAND = """
name = "Mine"
set = "own"
about = "By hand."
[sources]
me = "seen with my own eyes"
[[part]]
does = "mix"
streams = { is = 3, from = "me" }
files = { is = [["1m", 6]], from = "me", scales = true }
reads = { is = [["64k", 96]], from = "me", scales = true }
"""


def test_by_hand(run_app: Callable[..., Run]) -> None:
    """Few numbers are enough: files that are read are opened, each once, and read in order."""
    one = plan(parse(HAND, "x"))
    assert [len(stream) for stream in one.streams] == [36] * 3 and one.prepared_bytes() == 6 << 20
    assert one.moved_bytes("read") == 6 << 20
    run = run_app(HAND)
    (told,) = run.document["apps"]["results"]
    assert told["name"] == "Mine" and told["set"] == "own" and told["sequential_published"] is None


def bad(old: str, new: str) -> str:
    assert old in HAND
    return HAND.replace(old, new)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (bad('["64k", 96]', '["0", 96]'), "reads: a request of 0: give 1 byte to 64m"),
        (bad('["64k", 96]', '["65m", 96]'), "reads: a request of 65m"),
        (bad('["64k", 96]', '["64k"]'), "a row is a size and a count"),
        (bad('[["64k", 96]]', '"64k"'), "reads: give 1 to 1000 rows"),
        (bad('["64k", 96]', '["64k", -1]'), "reads: -1: give 1 to"),
        (bad("streams =", "streems ="), "streems: unknown"),
        (bad('streams = { is = 3, from = "me" }', ""), "part 1: streams is missing"),
        (bad('name = "Mine"', 'name = "../Mine"'), "name: '../Mine': give at most 64 letters"),
        (bad('name = "Mine"', 'name = "prepare"'), "name: 'prepare'"),
        (bad('name = "Mine"', 'name = "PhotoAlbum"'), "there is another application named PhotoAlbum"),
        (bad('set = "own"', 'set = "older"'), 'write set = "own"'),
        (bad('files = { is = [["1m", 6]], from = "me", scales = true }', ""), "need `files`, `makes` or both"),
        (bad('["64k", 96]', '["64k", 5000000]'), "5,000,006 operations, at most 3,000,000; use a smaller --scale"),
        (bad("is = 3,", "is = 5000,"), "5000 streams, at most 1024"),
        (bad("is = 3,", "is = 1,") + '[whole]\nsequential = { is = 3, from = "me" }\n', "one stream's is its onward"),
    ],
)  # fmt: skip
def test_bad_definitions_are_refused(text: str, says: str, run_app: Callable[..., Run]) -> None:
    with pytest.raises(UsageError) as caught:
        run_app(text)
    assert says in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (bad('["1m", 6]', '["1000t", 6]'), "6,600 TB, at most 17.6 TB; use a smaller --scale"),
        (bad('["1m", 6]', '["1m", 1000000000]'), "at most 17.6 TB"),
        (bad('["1m", 6]', '["1k", 25000000]'), "25,000,099 steps or more, at most 20,000,000"),
        (HAND.split("files =", maxsplit=1)[0].replace('"mix"', '"play"')
         + 'bytes = { is = "10TB", from = "me" }\nrequest = { is = "4k", from = "me" }', "2,441,406,253 steps or more"),
    ],
)  # fmt: skip
def test_what_would_not_fit_is_refused_before_it_is_planned(text: str, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        plan(parse(text, "x"))
    assert says in str(caught.value)


@pytest.mark.parametrize("seed", range(12))
def test_random_work_has_a_definition(seed: int, tmp_path: Path) -> None:
    """Whatever streams did with a tree, failures included: it can be described, planned, and done."""
    here = tmp_path / "here"
    here.mkdir()
    start(here, seed)
    with TraceWriter(tmp_path / "x.trace", Header(source="naslab")) as writer:
        actor = Actor(here, seed, writer, 1 + seed % 4)
        for _ in range(300):
            actor.step()
        for handle in sorted(actor.open):
            actor.on_handle("close", handle)
    trace = Trace(tmp_path / "x.trace")
    made = plan(parse(definition_of(trace), "x"), seed)
    then, now = profile(trace), profile(write_trace(tmp_path / "again.trace", made, planned(made)))
    assert now["files"]["unreadable"] == 0
    assert now["operations"] == pytest.approx(then["operations"], rel=0.15)
    assert now["written_bytes"] == then["written_bytes"]


def mixes() -> Iterator[str]:
    """Parts with numbers drawn at random, sensible or not."""
    chance = random.Random(11)
    for _ in range(60):
        rows = {name: chance.randrange(1, 30) for name in (
            "opens", "idle", "ends", "flushes", "truncates", "stats", "missing", "missing_opens", "lists", "mkdirs",
            "rmdirs", "removes", "renames", "folders", "levels", "at_once",
        ) if chance.random() < 0.6}  # fmt: skip
        names = [name for name in ("makes", "reads", "writes") if chance.random() < 0.7]
        sized = {
            name: [[str(chance.choice((1, 700, 4096, 50_000))), chance.randrange(1, 20)] for _ in range(3)]
            for name in ("files", *names)
        }
        shares = {name: chance.choice((0, 30, 80, 100)) for name in ("sequential_reads", "sequential_writes", "onward")}
        lines = [f'{name} = {{ is = {value}, from = "me" }}' for name, value in (rows | shares | sized).items()]
        head = HAND.split("files =", maxsplit=1)[0].replace("is = 3", f"is = {chance.choice((1, 2, 7, 40))}")
        yield head + "\n".join(lines).replace("'", '"')


@pytest.mark.parametrize("text", list(mixes()))
def test_whatever_is_asked_for_can_be_done(text: str, tmp_path: Path) -> None:
    """No step needs what is not there; requests are all issued, and of the others none more than asked for."""
    one = parse(text, "x")
    values = {name: value.is_ for name, value in one.parts[0].values.items()}
    made = plan(one, 3)
    told = profile(write_trace(tmp_path / "x.trace", made, planned(made)))
    assert told["files"]["unreadable"] == 0
    kinds = {kind: row["operations"] - row["failed"] for kind, row in told["kinds"].items()}
    for op in ("write",):
        assert kinds.get(op, 0) == sum(count for _, count in values.get(f"{op}s", ()))
    for name, op in (("stats", "stat"), ("lists", "readdir"), ("mkdirs", "mkdir")):
        assert kinds.get(op, 0) == values.get(name, 0)
    for name, op in (("removes", "remove"), ("renames", "rename"), ("rmdirs", "rmdir"), ("flushes", "flush")):
        assert kinds.get(op, 0) <= values.get(name, 0)
    assert kinds.get("open", 0) + kinds.get("create", 0) == kinds.get("close", 0)
