"""Parts of `naslab job`: corpora, names, the archive's file object, accounting, and who is named as the limit."""

from __future__ import annotations

import io
import os
import signal
import socket
import struct
import time
import zipfile
from multiprocessing.connection import Pipe
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from naslab import _engine
from naslab.client import processors
from naslab.commands.jobs import crew, outcome, work
from naslab.commands.jobs.archive import TargetReader, TargetWriter, members, new_archive
from naslab.commands.jobs.carry import planned
from naslab.commands.jobs.corpus import CORPORA, PAGE_BYTES, CorpusSource, corpus, lognormal_sizes, pool
from naslab.commands.jobs.crew import Phase, Streams
from naslab.commands.jobs.meter import KINDS, Meter, kinds_of, requests, series_of, wire_series_of
from naslab.commands.jobs.pipeline import Board, Queue, Stream
from naslab.commands.jobs.place import names_on
from naslab.commands.jobs.source import REQUEST_BYTES, FolderSource, Item, open_folder, packed_share
from naslab.commands.jobs.work import COPY, Context, Folders, shares_of
from naslab.errors import NaslabError, TargetError, UsageError
from naslab.render.report.job import Quantity, bars, shares
from naslab.results.describe import plain, typed
from naslab.results.parts.job import JobDocument
from naslab.targets import parse_target


def contents(source: CorpusSource, item: Item, request: int = REQUEST_BYTES) -> bytes:
    reader = source.open(item)
    return b"".join(iter(lambda: reader.read(request), b""))


@pytest.mark.parametrize("name", CORPORA)
def test_a_corpus_is_the_same_for_a_seed_and_other_for_another(name: str) -> None:
    one, two, other = (CorpusSource(corpus(name), 0.01, seed) for seed in (1, 1, 2))
    assert one.items == two.items and sum(not i.is_dir for i in one.items) == sum(not i.is_dir for i in other.items)
    assert sum(i.size_bytes for i in one.items) == sum(i.size_bytes for i in other.items)
    files = [item for item in one.items if item.size_bytes > 3 * PAGE_BYTES][:3]
    for item in files:
        assert contents(one, item) == contents(two, item, 4 * PAGE_BYTES)
        assert len(contents(one, item)) == item.size_bytes
    assert contents(one, files[0]) != contents(other, files[0])
    seen: set[str] = {""}
    for item in one.items:
        assert item.path.rpartition("/")[0] in seen
        seen |= {item.path} if item.is_dir else set()


def test_no_two_pages_are_alike() -> None:
    source = CorpusSource(corpus("article"), 0.01, 0)
    files = [item for item in source.items if not item.is_dir]
    pages = [
        data[at : at + PAGE_BYTES]
        for data in (contents(source, item) for item in files[:60])
        for at in range(0, len(data) - PAGE_BYTES + 1, PAGE_BYTES)
    ]
    assert len(set(pages)) == len(pages) > 2000


def test_the_articles_corpus() -> None:
    """757 files, 13.1 GB at scale 1; 5.7 : 1 by deflate within 4 %, at a small scale, too."""
    whole = corpus("article").items(1.0, 0)
    files = [item for item in whole if not item.is_dir]
    assert len(files) == 757 and sum(item.size_bytes for item in files) == pytest.approx(13.1e9, rel=1e-4)
    assert len({item.path for item in whole}) == len(whole)
    for scale, seed in ((1.0, 0), (0.02, 0), (0.02, 5)):
        assert CorpusSource(corpus("article"), scale, seed).ratio() == pytest.approx(13.1 / 2.29, rel=0.04)


def test_sizes_follow_the_distribution_and_kinds_compress_as_said() -> None:
    sizes = lognormal_sizes(2001, 9.48, 2.46, 1 << 40)
    logs = np.log(sizes)
    assert logs.mean() == pytest.approx(9.48, abs=0.01) and logs.std() == pytest.approx(2.46, rel=0.01)
    assert sizes[1000] == round(np.exp(9.48)) and max(lognormal_sizes(500, 9.48, 2.46, 1000)) == 1000
    ratios = {kind: 1 / packed_share(pool(kind, 0)[: 1 << 20]) for kind in ("text", "image", "binary")}
    assert 2.5 < ratios["text"] < 3.3 and 0.99 < ratios["image"] <= 1.01 and 1.7 < ratios["binary"] < 2.3


@pytest.mark.parametrize(("name", "scale"), [("office", 0.03), ("sources", 0.05), ("article", 0.001)])
def test_the_ratio_that_is_told_is_that_of_the_whole(name: str, scale: float, tmp_path: Path) -> None:
    """Against all files in one ZIP; large files count as much as they hold."""
    source = CorpusSource(corpus(name), scale, 0)
    files = [item for item in source.items if not item.is_dir]
    with zipfile.ZipFile(tmp_path / "all.zip", "w", zipfile.ZIP_DEFLATED, compresslevel=6) as made:
        for item in files:
            made.writestr(str(item.number), contents(source, item))
        packed = sum(info.compress_size for info in made.infolist())
    assert source.ratio() == pytest.approx(sum(item.size_bytes for item in files) / packed, rel=0.04)


def test_scale_and_names_of_corpora() -> None:
    assert len([i for i in corpus("office").items(0.01, 0) if not i.is_dir]) == 20
    for scale in (0.0, -1.0, 101.0, float("nan")):
        with pytest.raises(UsageError, match="--scale"):
            corpus("office").items(scale, 0)
    with pytest.raises(UsageError, match=r"--corpus 'x'.*article"):
        corpus("x")


def test_a_folder_as_source_counts_what_it_leaves_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "from"
    (folder / "sub").mkdir(parents=True)
    for name in ("a", "sub/b", "closed"):
        (folder / name).write_bytes(b"x" * 10)
    (folder / "link").symlink_to("a")
    os.mkfifo(folder / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(folder / "socket"))
        monkeypatch.setattr(os, "access", lambda path, mode: not os.fsdecode(path).endswith("closed"))
        source = open_folder(folder)
    assert [item.path for item in source.items] == ["a", "sub", "sub/b"]
    assert source.skipped == {"links": 1, "sockets, pipes and devices": 2, "unreadable files": 1}
    reader = source.open(source.items[0])
    assert reader.read(100) == b"x" * 10
    reader.close()


def test_folders_that_are_no_source(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "empty").mkdir()
    for name, says in (("none", "no such folder"), ("file", "not a folder"), ("empty", "with files")):
        with pytest.raises(UsageError, match=says):
            open_folder(tmp_path / name)


def test_names_a_target_cannot_hold() -> None:
    odd = ["a:b", "con.txt", "end.", "README", "readme", "plain", "\udcff"]
    items = [Item("d?", 0, is_dir=True), *(Item(f"d?/{name}", 1) for name in odd), Item("x" * 300, 1)]
    smb, changed, left = names_on("smb", items)
    assert [smb[f"d?/{n}"] for n in odd] == [
        "d%3f/a%3ab", "d%3f/%63on.txt", "d%3f/end%2e", "d%3f/README", "d%3f/%72eadme", "d%3f/plain", "d%3f/%ff",
    ]  # fmt: skip
    assert changed == 6 and left == ["x" * 300]
    nfs, changed, _ = names_on("nfs", items)
    assert changed == 1 and nfs["d?/a:b"] == "d?/a:b" and nfs["d?/\udcff"] == "d?/%ff"
    assert names_on("nfs", [Item("y" * 256, 0, is_dir=True), Item("y" * 256 + "/f", 1)])[2] == [
        "y" * 256,
        "y" * 256 + "/f",
    ]


def test_plan_makes_what_is_needed_once() -> None:
    def names(*asked: str, repeat: int = 1) -> list[tuple[str, bool]]:
        return [(one.job.name, one.prepares) for one in planned(list(asked), repeat)]

    assert names("copy-in", "copy-out") == [("copy-in", False), ("copy-out", False)]
    assert names("unzip", repeat=2) == [("copy-in", True), ("zip", True), ("unzip", False), ("unzip", False)]
    assert names("checkout") == [("checkout", False)]


def test_shares_are_even() -> None:
    items = [Item(str(at), size) for at, size in enumerate([100, 1, 1, 1, 50, 50])]
    shares = shares_of(items, 2)
    assert sorted(i.path for share in shares for i in share) == list("012345")
    assert abs(sum(i.size_bytes for i in shares[0]) - sum(i.size_bytes for i in shares[1])) <= 50


class FakeSession:
    """A session that keeps one file in memory."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.writes: list[tuple[int, int]] = []
        self.depths: list[int] = []

    def open(self, _path: str, _options: str) -> int:
        return 1

    def write(self, _file: int, offset: int, data: bytes) -> int:
        assert offset <= len(self.data)
        self.data[offset : offset + len(data)] = data
        self.writes.append((offset, len(data)))
        return len(data)

    def read(self, _file: int, offset: int, length: int) -> bytes:
        return bytes(self.data[offset : offset + length])

    def stat(self, _path: str) -> tuple[int, bool]:
        return len(self.data), False

    def run_ops(self, file: int, ops: list[tuple[str, int, Any]], depth: int) -> list[Any]:
        self.depths.append(depth)
        if ops[0][0] == "read":
            parts = [self.read(file, at, what) for _, at, what in ops]
            return [
                (len(part), part, "short" if len(part) < op[2] else None, 0)
                for part, op in zip(parts, ops, strict=True)
            ]
        return [(self.write(file, at, what), None, None, 0) for _, at, what in ops]

    def explain(self, kind: str, status: int) -> str:
        return {("no_space", 28): "No space left"}[kind, status]

    def flush(self, _file: int) -> None: ...

    def close(self, _file: int) -> None: ...


def fake_stream(session: Any, in_flight: int = 1) -> Stream:
    stream = Stream(session, Board([0, 0]), in_flight=in_flight)
    stream.meter.begin()
    return stream


def test_an_archive_is_written_in_requests_of_a_mebibyte() -> None:
    session = FakeSession()
    stream = fake_stream(session)
    writer = TargetWriter(stream, "a.zip")
    noise = np.random.default_rng(1).bytes(3 * REQUEST_BYTES + 123)
    with zipfile.ZipFile(writer, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("noise", noise)
        with made.open("parts", "w") as member:
            for at in range(0, len(noise), 1000):
                member.write(noise[at : at + 1000])
    writer.finish()
    with zipfile.ZipFile(io.BytesIO(bytes(session.data))) as found:
        assert found.testzip() is None and found.read("noise") == found.read("parts") == noise
    sequential = [length for offset, length in session.writes if length > 100]
    assert set(sequential[:-1]) == {REQUEST_BYTES} and len(session.writes) <= 10
    reader = TargetReader(stream, "a.zip")
    with zipfile.ZipFile(reader) as found:
        assert found.read("parts") == noise


def test_several_requests_are_in_flight_once_a_file_is_long() -> None:
    session = FakeSession()
    stream = fake_stream(session, in_flight=4)
    noise = np.random.default_rng(1).bytes(10 * REQUEST_BYTES + 5)
    parts = [noise[at : at + REQUEST_BYTES] for at in range(0, len(noise), REQUEST_BYTES)]
    assert stream.write(1, 0, parts) == len(noise)
    assert session.depths == [4] and {length for _, length in session.writes} == {REQUEST_BYTES, 5}
    found: list[bytes] = []
    work.each_part(stream, "x", len(noise), found.append)
    assert found == parts and session.depths == [4] * 4
    rows = stream.meter.rows()
    assert rows[rows[:, 1] == KINDS.index("read"), 2].sum() == len(noise)
    reader = TargetReader(stream, "x")
    assert reader.read(5 * REQUEST_BYTES) + reader.read() == noise
    assert rows[rows[:, 1] == KINDS.index("read"), 2].max() == REQUEST_BYTES
    session.run_ops = lambda *_: [(0, None, "no_space", 28), (0, None, "no_space", 28)]  # type: ignore[method-assign]
    with pytest.raises(TargetError, match="write: No space left after 0 bytes"):
        stream.write(1, 0, parts[:2])


@pytest.mark.parametrize("method", ["deflate", "zstd"])
def test_archives_keep_times_to_the_second(method: str) -> None:
    session = FakeSession()
    stream = fake_stream(session)
    times = [0, 1_234_567_891_987_654_321, 4_102_444_800_500_000_000]
    archive = new_archive(method, stream, "a")
    archive.add_folder("folder", times[1])
    for number, at in enumerate(times):
        archive.add(f"folder/{number}", 3, io.BytesIO(b"abc"), at)
    archive.finish()
    found = [(one.name, one.modified_ns, one.data and one.data.read()) for one in members(method, stream, "a")]
    assert [name for name, _, _ in found] == ["folder", "folder/0", "folder/1", "folder/2"]
    assert [data for _, _, data in found] == [None, b"abc", b"abc", b"abc"]
    near = 2 if method == "deflate" else 1  # from 2038 on a ZIP file has only the time of DOS
    assert [at // 10**9 for _, at, _ in found[:3]] == [1_234_567_891, 0, 1_234_567_891]
    assert 0 <= times[2] - found[3][1] < near * 10**9
    if method == "deflate":
        with zipfile.ZipFile(io.BytesIO(bytes(session.data))) as made:
            assert made.infolist()[2].extra == struct.pack("<HHBi", 0x5455, 5, 1, 1_234_567_891)


class SlowSource:
    """A source that takes a while for every read."""

    skipped: dict[str, int] = {}
    label = "slow"

    def __init__(self, wait_s: float, broken: str = "") -> None:
        self.items = [Item(f"f{at}", 3000) for at in range(6)]
        self._wait_s, self._broken = wait_s, broken

    def ratio(self) -> float:
        return 1.0

    def changed(self, _item: Item) -> bool:
        return False

    def open(self, item: Item) -> Any:
        outer, left = self, [b"a" * 3000]

        class Reader:
            def read(self, _size: int) -> bytes:
                time.sleep(outer._wait_s)
                if item.path == outer._broken and not left:
                    raise OSError("a bad sector")
                return left.pop() if left else b""

            def close(self) -> None: ...

        return Reader()


def copied(source: Any, folder: Path, streams: int = 2) -> tuple[Context, list[Meter], dict[str, Any]]:
    folder.mkdir()
    paths = {"": "", **{item.path: item.path for item in source.items}}
    context = Context(Streams(parse_target(str(folder)), streams, "none"), source, ".", paths)
    began = outcome.before()
    ended = work.copy_in(context)
    event, _ = outcome.cell_event(0, began, ended)
    meters = [one.meter for one in ended]
    return context, meters, plain(outcome.step_of("copy-in", 0, event, meters))


def test_a_slow_source_is_named_and_not_blamed_on_the_target(tmp_path: Path) -> None:
    _, meters, step = copied(SlowSource(0.05), tmp_path / "to")
    assert step["limit"] == "source" and step["shares"]["source"] > 0.5
    assert step["source_bytes"] == step["write_bytes"] == 18000 and step["files"] == 6
    assert "the source delivered" in step["evidence"] and "was the limit" in step["evidence"]
    # Two reads of 50 ms for each file, one of which says that it ended: two streams deliver 18000 bytes in 300 ms.
    assert step["source_bytes_per_s"] == pytest.approx(18000 / 0.3, rel=0.08)
    assert all(sum(meter.shares_ns().values()) == pytest.approx(meter.busy_ns, rel=0.01) for meter in meters)
    assert sorted(p.name for p in (tmp_path / "to" / COPY).iterdir()) == [f"f{at}" for at in range(6)]


class SlowSession:
    """A session whose writes and stats take a while longer."""

    wait_s = 0.05

    def __init__(self, *words: Any) -> None:
        self._session = _engine.Session(*words)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    def write(self, file: int, offset: int, data: bytes) -> int:
        time.sleep(self.wait_s)
        return self._session.write(file, offset, data)

    def stat(self, path: str) -> tuple[int, bool]:
        time.sleep(self.wait_s)
        return self._session.stat(path)


def test_a_slow_target_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crew, "_engine", SimpleNamespace(Session=SlowSession))
    _, _, step = copied(SlowSource(0.0), tmp_path / "to", streams=1)
    assert step["limit"] == "target" and step["shares"]["target"] > 0.5 and step["wall_ns"] >= 300_000_000
    assert "waited for the target" in step["evidence"]


def spin(seconds: float) -> None:
    """Uses the processor, with the interpreter's lock held, for so much of its time."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


@pytest.mark.parametrize("wait_s", [0.0, 0.004])
def test_the_target_has_its_own_time_when_streams_outnumber_processors(
    wait_s: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The truth is known: each request waits so long, and between two of them 4 ms are computed.

    A wait that ends while its stream stands without a processor anyway is partly counted as that, never the reverse:
    what streams waited for each other's processor here is some 480 ms of each.
    """
    monkeypatch.setattr(crew, "_engine", SimpleNamespace(Session=SlowSession))
    monkeypatch.setattr(SlowSession, "wait_s", wait_s)
    streams = Streams(parse_target(str(tmp_path)), 2 * processors(), "none")

    def each(stream: Stream) -> None:
        for _ in range(40):
            stream.stat(".")
            spin(0.004)

    for ended in streams.carry_out(Phase(each)):
        found, computed = ended.meter.shares_ns(), ended.meter.compute_cpu_ns
        assert computed == pytest.approx(160e6, rel=0.1)
        assert 40 * wait_s * 1e9 * 0.7 <= found["target"] <= 40 * wait_s * 1e9 * 1.08 + 40e6, ended.meter
        assert found["cpu"] >= 150e6 and sum(found.values()) == pytest.approx(ended.meter.busy_ns, rel=0.001)


def test_a_file_that_breaks_off_is_counted_and_leaves_no_half(tmp_path: Path) -> None:
    context, meters, step = copied(SlowSource(0.0, broken="f3"), tmp_path / "to")
    assert context.unreadable == {"f3"} and step["files"] == 5 == sum(meter.files for meter in meters)
    assert not (tmp_path / "to" / COPY / "f3").exists()
    assert "f3" not in [item.path for item in context.files]


def test_repeats_are_told_by_their_median_and_drawn_one_by_one(tmp_path: Path) -> None:
    step = {**copied(SlowSource(0.0), tmp_path / "to")[2], "prepares": False}
    steps = [{**step, "wall_ns": wall, "repeat": at} for at, wall in enumerate((5_000_000, 1_000_000, 3_000_000))]
    document = {
        "source": "slow", "source_ratio": 1.0, "files": 6, "folders": 0, "bytes": 18000, "streams": 2,
        "archives": None, "method": "deflate", "steps": [{**step, "prepares": True}, *steps], "durability": "end",
        "request_bytes": 1 << 20, "skipped": {}, "names_changed": 0, "times_preserved": True,
    }  # fmt: skip
    part = typed(document, JobDocument)
    told = outcome.sentences(part)
    assert len(told) == 2 and told[1].startswith("copy-in: 6 files in 3 ms (median of 3, 1 ms to 5 ms), write ")
    assert [row[2] for row in outcome.rows(part)][1:] == ["5 ms", "1 ms", "3 ms"]
    figure = shares(part)
    labels = ["1. copy-in (prepares)", "2. copy-in", "3. copy-in, repeat 2", "4. copy-in, repeat 3"]
    assert all(trace["y"] == labels for trace in figure["data"])
    assert sum(trace["x"][1] for trace in figure["data"]) == pytest.approx(100, abs=0.5)
    (median, repeats) = bars(part, "Time (s)", [Quantity("Time", "wall_ns", 1e-9, "s", str)])["data"]
    assert median["y"] == ["copy-in (prepares)", "copy-in"] and median["x"][1] == 0.003
    assert repeats["x"] == [0.005, 0.001, 0.003] and set(repeats["y"]) == {"copy-in"}


@pytest.mark.parametrize(
    ("sides", "busy", "limit"),
    [
        ({"source": 0.6, "target": 0.3, "local": 0.0, "cpu": 0.1}, 0.2, "source"),
        ({"source": 0.1, "target": 0.8, "local": 0.0, "cpu": 0.1}, 0.2, "target"),
        ({"source": 0.1, "target": 0.8, "local": 0.0, "cpu": 0.1}, 0.95, "client_cpu"),
        ({"source": 0.1, "target": 0.2, "local": 0.0, "cpu": 0.7}, 0.2, "client_cpu"),
        ({"source": 0.0, "target": 0.4, "local": 0.6, "cpu": 0.0}, 0.2, "local"),
        ({"source": 0.3, "target": 0.4, "local": 0.0, "cpu": 0.3}, 0.2, "mixed"),
    ],
)
def test_who_is_the_limit(sides: dict[str, float], busy: float, limit: str) -> None:
    assert outcome.limit_of(sides, busy) == limit


def test_requests_become_kinds_and_a_series() -> None:
    meter = Meter()
    for end, kind, moved, latency in ((50, "write", 10, 5), (150_000_000, "read", 7, 9), (160_000_000, "stat", 0, 3)):
        meter.log.extend((end, KINDS.index(kind), moved, latency))
    rows = requests([meter, Meter()])
    blobs: list[bytes] = []
    kinds = kinds_of(rows, blobs)
    assert set(kinds) == {"write", "read", "stat"} and len(blobs) == 3
    assert kinds["read"]["bytes"] == 7 and kinds["write"]["latency_ns"]["max"] == 5
    series = np.frombuffer(series_of(rows, 0, 160_000_001), "<i8").reshape(-1, 7)
    assert series.tolist() == [[0, 0, 1, 10, 0, 0, 5], [1, 7, 0, 0, 0, 0, 9]]


def test_bytes_on_the_wire_become_a_series() -> None:
    """Spread evenly between two looks; what a session counted before its first look is not the job's."""
    steady, late, local = Meter(), Meter(), Meter()
    steady.wire_log.extend((0, 500, 7, 200_000_000, 700, 7))
    late.wire_log.extend((150_000_000, 0, 0, 250_000_000, 0, 11))
    blob = wire_series_of([steady, late, local], 0, 260_000_000)
    assert blob is not None and np.frombuffer(blob, "<i8").reshape(-1, 2).tolist() == [[100, 0], [100, 6], [0, 5]]
    assert wire_series_of([local], 0, 1) is None


def test_no_byte_on_the_wire_is_lost_where_the_phase_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream that loses its processor between the first look and its first request still has all of its bytes."""
    clock = iter(range(1_000_000_000, 2_000_000_000, 5_000_000))
    monkeypatch.setattr("naslab.commands.jobs.meter.time.perf_counter_ns", lambda: next(clock))
    counts = iter([(0, 0), (1_000_000, 9_000)])
    meter = Meter()
    meter.count_wire(lambda: next(counts))
    meter.begin()
    meter.end()
    blob = wire_series_of([meter], meter.begun_ns, meter.ended_ns)
    assert blob is not None and np.frombuffer(blob, "<i8").reshape(-1, 2).sum(axis=0).tolist() == [1_000_000, 9_000]


def test_a_session_that_breaks_is_asked_no_more() -> None:
    counts = iter([(1, 2), (3, 4)])

    def ask() -> tuple[int, int]:
        found = next(counts, None)
        if found is None:
            raise TargetError("gone")
        return found

    meter = Meter()
    meter.count_wire(ask)
    meter.begin()
    meter._wire_due_ns = 0
    meter.target("stat", lambda: None)
    assert [meter.wire_log[at] for at in (1, 2, 4, 5)] == [1, 2, 3, 4]
    meter.end()
    assert len(meter.wire_log) == 6 and meter._wire is None


def test_an_error_of_one_stream_ends_all_and_what_was_done_is_kept(tmp_path: Path) -> None:
    streams = Streams(parse_target(str(tmp_path)), 3, "none")

    def each(stream: Stream) -> None:
        stream.is_missing("x")
        (tmp_path / f"began-{stream.number}").touch()
        if stream.number == 1:
            while len(list(tmp_path.glob("began-*"))) < 3:  # the others would end before their first request
                time.sleep(0.001)
            raise ValueError("broken")
        while True:
            stream.is_missing("x")

    with pytest.raises(ValueError, match="broken"):
        streams.carry_out(Phase(each))
    assert [ended.number for ended in streams.ended] == [0, 1, 2]
    assert all(len(ended.meter.rows()) >= 1 for ended in streams.ended)
    event, _ = outcome.cell_event(0, outcome.before(), streams.ended, ValueError("broken"))
    assert event["status"] == "failed" and event["ops"] >= 3 and event["first_error"] == "broken"


def test_a_target_that_is_lost_is_told_with_the_path(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match="at nowhere") as caught:
        Streams(parse_target(str(tmp_path)), 2, "none").carry_out(Phase(lambda stream: stream.stat("nowhere")))  # type: ignore[arg-type,return-value]
    assert caught.value.kind == "not_found"
    (tmp_path / "gone").mkdir()
    target = parse_target(str(tmp_path / "gone"))
    (tmp_path / "gone").rmdir()
    with pytest.raises(TargetError):
        Streams(target, 2, "none").carry_out(Phase(lambda _stream: None))


def test_a_stream_that_is_killed_ends_the_job(tmp_path: Path) -> None:
    def each(stream: Stream) -> None:
        if stream.number == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        while True:
            stream.is_missing("x")

    with pytest.raises(NaslabError, match="stream 2"):
        Streams(parse_target(str(tmp_path)), 2, "none").carry_out(Phase(each))


def test_a_signal_amid_a_message_ends_the_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a stream sends after the half that was read makes no sense: nobody may wait for the rest of it."""

    def pipe() -> tuple[Any, Any]:
        ours, theirs = Pipe()
        whole = ours.recv

        def first() -> Any:
            ours.recv = half
            return whole()

        def half() -> Any:
            os.read(ours.fileno(), 2)
            ours.recv = whole
            raise KeyboardInterrupt

        ours.recv = first
        return ours, theirs

    monkeypatch.setattr(crew, "Pipe", pipe)
    with pytest.raises(KeyboardInterrupt):
        Streams(parse_target(str(tmp_path)), 2, "none").carry_out(Phase(lambda stream: stream.is_missing("x")))  # type: ignore[arg-type,return-value]


def test_phases_follow_each_other_and_work_is_handed_out_once(tmp_path: Path) -> None:
    queue = Queue([str(at) for at in range(1000)])

    def alone(stream: Stream) -> None:
        time.sleep(0.1)
        stream.note("first", time.perf_counter_ns())

    def shared(stream: Stream) -> None:
        for one in queue:
            stream.note("took", one)
            stream.is_missing(one)

    ended = Streams(parse_target(str(tmp_path)), 3, "none").carry_out(Phase(alone, alone=True), Phase(shared))
    assert ended[0].notes[0][0] == "first" and ended[1].meter.begun_ns >= ended[0].notes[0][1]
    took = [what for one in ended for kind, what in one.notes if kind == "took"]
    assert sorted(took, key=int) == [str(at) for at in range(1000)]
    assert ended[1].meter.busy_ns < ended[0].meter.busy_ns


def test_folders_are_handed_to_those_who_ask() -> None:
    folders = Folders("root")
    assert folders(0, None) == [(0, "root")] and folders(1, None) == []
    assert folders(0, ["a", "b"]) == [(1, "b"), (0, "a")]
    assert folders(1, []) == [] and folders(0, []) == [(1, None), (0, None)]


def test_a_source_that_vanished_is_skipped(tmp_path: Path) -> None:
    (tmp_path / "from").mkdir()
    (tmp_path / "from" / "a").write_bytes(b"1")
    (tmp_path / "from" / "b").write_bytes(b"2")
    source = FolderSource(tmp_path / "from")
    (tmp_path / "from" / "a").unlink()
    context, _, step = copied(source, tmp_path / "to")
    assert context.unreadable == {"a"} and step["files"] == 1
