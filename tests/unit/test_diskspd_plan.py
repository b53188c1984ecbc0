"""From DiskSpd's options to cells: offsets, files, cache modes, limits, profiles."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from diskspd_fixtures import planned
from naslab.commands.diskspd.args import parse
from naslab.commands.diskspd.places import Place, one_root, place
from naslab.commands.diskspd.plan import CREATING, positions
from naslab.commands.diskspd.profile_xml import load, profile_text
from naslab.commands.plans.caching import file_system
from naslab.errors import UsageError
from naslab.spec import CellSpec

GIB = 1 << 30


def cell_of(line: str, size: int = GIB, **more: Any) -> CellSpec:
    """The measuring cell of a line on one file `f`."""
    return planned(f"{line} f", {"f": size}, **more).cells[-1]


def refused(line: str, size: int = GIB, **more: Any) -> str:
    with pytest.raises(UsageError) as caught:
        cell_of(line, size, **more)
    return str(caught.value)


def test_the_articles_write_line() -> None:
    cell = cell_of("-d900 -s1M -w100 -t1 -o32 -b1M -Sr -L", 8 * GIB)
    assert (cell.op, cell.file_bytes, cell.record_bytes, cell.queue_depth, cell.workers) == (
        "write",
        8 * GIB,
        1 << 20,
        32,
        1,
    )
    assert (cell.duration_ns, cell.warmup_ns, cell.cooldown_ns) == (900 * 10**9, 5 * 10**9, 0)
    assert cell.walk is not None and cell.create == "never" and not cell.direct and cell.sync == "none"
    assert (cell.walk.order, cell.walk.stride_bytes, cell.walk.len_bytes) == ("sequential", 1 << 20, 8 * GIB)
    assert cell.write_fraction == 1.0 and cell.durability == "end"


def test_the_articles_read_line_as_2_0_21a_ran_it() -> None:
    plan = planned("--compat 2.0.21 -d900 -s1M -r100 -t1 -o32 -b1M -Sr -L f", {"f": 2_000_000_000})
    cell = plan.cells[0]
    assert cell.walk is not None and (cell.op, cell.write_fraction) == ("random_read", 0.0)
    assert (cell.walk.order, cell.walk.align_bytes, cell.walk.len_bytes) == ("random", 100, 2_000_000_000)
    assert positions(plan.spans[0].span.targets[0], 2_000_000_000) == 19_989_515
    assert any("19,989,515 positions" in note and "-w is absent" in note for note in plan.notes)


def test_offsets() -> None:
    walk = cell_of("-b4K -B1M:64M -T8M -t2").walk
    assert walk is not None
    assert (walk.base_bytes, walk.len_bytes, walk.separation_bytes, walk.stride_bytes) == (
        1 << 20,
        64 << 20,
        8 << 20,
        4096,
    )
    walk = cell_of("-b4K -B1M -f5M -s8K").walk
    assert walk is not None and (walk.base_bytes, walk.len_bytes, walk.stride_bytes) == (1 << 20, 4 << 20, 8192)
    assert cell_of("-si64K -t4").walk.order == "interlocked"  # type: ignore[union-attr]
    assert cell_of("-si64K").walk.order == "sequential"  # type: ignore[union-attr]
    blend = cell_of("-rs30").walk
    assert blend is not None and (blend.order, blend.random_share, blend.align_bytes) == ("blend", 0.3, 65536)
    assert cell_of("-rs100 -r4K").walk.order == "random"  # type: ignore[union-attr]
    still = cell_of("-s0 -b4K").walk
    assert still is not None and (still.stride_bytes, still.len_bytes) == (4096, 4096)


def test_too_small_and_missing_files() -> None:
    assert "The file is too small" in refused("-b1M", 4096)
    assert "relative thread 3" in refused("-t4 -T512M -b4K")
    assert "Error opening file: f" in _error("-d1 f", {})
    assert "size could not be determined" in _error("-d1 f", {"f": 0})
    assert any("less than MaxFileSize" in note for note in planned("-f2G f", {"f": GIB}).notes)


def _error(line: str, sizes: dict[str, int], **more: Any) -> str:
    with pytest.raises(UsageError) as caught:
        planned(line, sizes, **more)
    return str(caught.value)


def test_distributions() -> None:
    walk = cell_of("-b4K -r -rdpct90/10:0/10:5/20", 100 * 4096).walk
    assert walk is not None and walk.spread == "ranges"
    assert walk.ranges == [(0.9, 0, 40960), (0.05, 20 * 4096, 20 * 4096), (0.05, 40 * 4096, 60 * 4096)]
    walk = cell_of("-b4K -r -rdabs90/10G:0/10G:5/20G", 20 * GIB).walk
    assert walk is not None and walk.ranges == [(0.9, 0, 10 * GIB)]
    walk = cell_of("-b4K -r -rdabs60/1M", 1 << 24).walk
    assert walk is not None and walk.ranges == [(0.6, 0, 1 << 20), (0.4, 1 << 20, 15 << 20)]
    assert "hold no position" in refused("-b4K -r -rdpct50/1", 16384)
    assert "-rd with -rs" in refused("-rs50 -rdpct90/10 -r")


def test_limits_are_per_thread_and_target() -> None:
    pace = cell_of("-b64K -g65536 -t3").pace
    assert pace is not None and pace.limit and pace.rate_per_s == pytest.approx(3000)
    pace = planned("-g100i -t2 f g", {"f": GIB, "g": GIB}).cells[0].pace
    assert pace is not None and pace.rate_per_s == 400 and pace.limit
    cell = cell_of("-i8 -j20 -C3")
    assert (cell.burst_ops, cell.burst_gap_ns, cell.cooldown_ns) == (8, 20_000_000, 3_000_000_000)


def test_threads_and_targets() -> None:
    plan = planned("-t2 -o4 f g", {"f": GIB, "g": GIB})
    assert plan.cells[0].files == ["f", "f", "g", "g"] and plan.cells[0].workers == 4
    assert [(thread, target.path) for thread, target in plan.spans[0].workers] == [
        (0, "f"),
        (1, "f"),
        (2, "g"),
        (3, "g"),
    ]
    plan = planned("-F2 -o4 f g", {"f": GIB, "g": GIB})
    assert plan.cells[0].files == ["f", "g", "f", "g"] and plan.cells[0].queue_depth == 4
    assert [thread for thread, _ in plan.spans[0].workers] == [0, 0, 1, 1]
    assert cell_of("-F3 -O16").queue_depth == 16 and cell_of("-F3 -O16").workers == 3
    assert "-O with several targets" in _error("-F2 -O4 f g", {"f": GIB, "g": GIB})
    assert "differ in size" in _error("-d1 f g", {"f": GIB, "g": 2 * GIB})
    assert planned("-f512M f g", {"f": GIB, "g": 2 * GIB}).cells[0].walk.len_bytes == 512 << 20  # type: ignore[union-attr]


def test_created_files_are_written_whole() -> None:
    plan = planned("-c2000000000 -b1M -r100 f g")
    head, tail, cell = plan.cells
    assert head.files == tail.files == ["f", "g"] and head.remove_before and head.workload == CREATING
    assert head.record_bytes == 1 << 20 and head.file_bytes == 1907 << 20 and head.write_fraction == 1.0
    assert tail.walk is not None and not tail.remove_before and tail.stop_ops == 2
    assert tail.walk.base_bytes + tail.record_bytes == tail.file_bytes == 2_000_000_000
    assert cell.file_bytes == 2_000_000_000 and cell.create == "never"
    assert len(planned("-c8M f").cells) == 2 and len(planned("-c64K f").cells) == 2


def test_data() -> None:
    assert cell_of("-w100 -Z").data.kind == "fill" and cell_of("-w100 -Z").data.fill == 0
    assert all(cell_of(f"-w100 {data}").data.kind == "random" for data in ("", "-Zr", "-Z1M"))
    assert any("0 to 255" in note for note in planned("-w100 f", {"f": GIB}).notes)


CACHES: dict[tuple[str, str], tuple[bool, str, str]] = {
    ("", "local"): (False, "none", "positioned"), ("-Sb", "local"): (False, "none", "positioned"),
    ("-Su", "local"): (True, "none", "positioned"), ("-Sh", "local"): (True, "all", "positioned"),
    ("-Sw", "local"): (False, "all", "positioned"), ("-Sm", "local"): (False, "none", "mmap"),
    ("-Sm -Nv", "local"): (False, "all", "mmap"),
    ("", "smb"): (False, "none", "positioned"), ("-Sr", "smb"): (False, "none", "positioned"),
    ("-Su", "smb"): (True, "none", "positioned"), ("-h", "smb"): (True, "all", "positioned"),
    ("-Srw", "smb"): (False, "all", "positioned"), ("-Sw", "nfs"): (False, "all", "positioned"),
    ("-Sr", "nfs"): (False, "none", "positioned"), ("-Su", "nfs"): (False, "none", "positioned"),
    ("", "sim"): (False, "none", "positioned"), ("-Su", "sim"): (True, "none", "positioned"),
}  # fmt: skip


@pytest.mark.parametrize(("line", "protocol"), CACHES)
def test_cache_modes_by_target(line: str, protocol: str) -> None:
    cell = cell_of(f"-w100 {line}", protocol=protocol)
    assert (cell.direct, cell.sync, cell.access) == CACHES[line, protocol]
    assert cell.durability == ("each" if cell.sync == "all" else "end")


REFUSED_CACHES = {
    ("-Sb", "smb"): "no client cache to enable", ("-Sb", "nfs"): "no client cache to enable",
    ("-Sb", "sim"): "no client cache", ("-Sm", "smb"): "cannot be mapped", ("-Sm", "nfs"): "cannot be mapped",
    ("-Smw", "local"): "non-temporal", ("-Smr", "local"): "-Smr",
}  # fmt: skip


@pytest.mark.parametrize(("line", "protocol"), REFUSED_CACHES)
def test_cache_modes_without_meaning_are_refused_when_asked_for(line: str, protocol: str) -> None:
    assert REFUSED_CACHES[line, protocol] in refused(line, protocol=protocol)


def test_remote_cache_on_paths_depends_on_the_mount(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("naslab.commands.plans.caching.file_system", lambda root: "ext4")
    assert "only supported on remote file systems" in refused("-Sr", protocol="local")
    monkeypatch.setattr("naslab.commands.plans.caching.file_system", lambda root: "nfs4")
    assert cell_of("-Sr", protocol="local").direct
    mounts = "rootfs / ext4 rw 0 0\nnas:/x /mnt/my\\040nas nfs4 rw 0 0\nx /mnt/my\\040nas/tmp tmpfs rw 0 0\n"
    for path, kind in {
        "/mnt/my nas/a": "nfs4",
        "/mnt/my nas": "nfs4",
        "/mnt/my nas/tmp": "tmpfs",
        "/mnt": "ext4",
    }.items():
        assert file_system(Path(path), mounts) == kind


def test_default_caching_runs_with_a_note_on_servers() -> None:
    assert any("no client cache" in note for note in planned("f", {"f": GIB}).notes)
    assert not planned("f", {"f": GIB}, protocol="local").notes


def test_what_the_target_cannot_do_is_refused_in_diskspds_words() -> None:
    assert "-Su: this" in refused("-Su", protocol="local", caps={"direct": False})
    assert "-o32: this" in refused("-o32", caps={"max_depth": 1})
    assert "-r100: unbuffered" in refused("-Su -r100 -b4K", protocol="local", caps={"alignment_offset_bytes": 512})
    assert cell_of("-Su -b4K", protocol="local", caps={"alignment_offset_bytes": 512}).direct


def test_series_interval() -> None:
    assert cell_of("-D100").interval_ns == 100_000_000
    assert cell_of("-D").interval_ns == cell_of("").interval_ns == 1_000_000_000


PLACES = {
    "f.dat": Place(".", "f.dat"), "/srv/d/f.dat": Place("/srv/d", "f.dat"), "f": Place(".", "f"),
    "smb://me@nas:445/share/f.dat": Place("smb://me@nas:445/share", "f.dat"),
    "smb://nas/share/d/f.dat?sign=on": Place("smb://nas/share/d?sign=on", "f.dat"),
    "nfs://nas/export/f.dat?version=3": Place("nfs://nas/export?version=3", "f.dat"),
    "lab:samba/f.dat?share=secret": Place("lab:samba?share=secret", "f.dat"),
    r"\\nas\share\d\f.dat": Place(r"\\nas\share\d", "f.dat"),
    "sim:?latency_ns=1ms": Place("sim:?latency_ns=1ms", "diskspd.dat"), "null:#g": Place("null:", "g"),
}  # fmt: skip


@pytest.mark.parametrize("target", PLACES)
def test_places(target: str) -> None:
    assert place(target) == PLACES[target]


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("#0", "physical drives"), ("#12", "physical drives"), (r"\\.\PhysicalDrive1", "physical drives"),
        ("C:", "volumes"), (r"C:\f.dat", "Windows"), ("smb://nas/share", "give a file"),
        (r"\\nas\share", "give a file"),
        ("nfs://nas", "give a file"), ("lab:samba", "give a file"), ("/srv/", "not a folder"),
        ("smb://me:secret@nas/share/", "not a folder"),
    ],
)  # fmt: skip
def test_what_is_no_file_is_refused(target: str, words: str) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        place(target)
    assert "secret" not in str(caught.value)


def test_several_targets_lie_on_one_root(tmp_path: Path) -> None:
    assert one_root(["smb://n/s/a", "smb://n/s/b"]) == ("smb://n/s", {"smb://n/s/a": "a", "smb://n/s/b": "b"})
    root, names = one_root([f"{tmp_path}/a/f", f"{tmp_path}/b/f"])
    assert root == str(tmp_path) and set(names.values()) == {"a/f", "b/f"}
    for pair in (["smb://n/s/a", "smb://n/t/a"], ["smb://n/s/a", "/tmp/a"], ["smb://u:geheim@n/s/a", "smb://m/s/a"]):
        with pytest.raises(UsageError, match="one folder or share") as caught:
            one_root(pair)
        assert "geheim" not in str(caught.value)


# profiles

PROFILE = """<?xml version="1.0"?>
<Profile>
  <ResultFormat>xml</ResultFormat><Verbose>true</Verbose><Progress>0</Progress>
  <TimeSpans>
    <TimeSpan>
      <Duration>3</Duration><Warmup>1</Warmup><RandSeed>9</RandSeed><MeasureLatency>true</MeasureLatency>
      <CalculateIopsStdDev>true</CalculateIopsStdDev><IoBucketDuration>250</IoBucketDuration>
      <Targets>
        <Target><Path>*1</Path><BlockSize>4096</BlockSize><Random>512</Random><WriteRatio>30</WriteRatio>
          <Distribution><Percent><Range IO="90">10</Range><Range IO="10">90</Range></Percent></Distribution>
          <DisableOSCache>true</DisableOSCache><WriteThrough>true</WriteThrough><RequestCount>8</RequestCount>
          <Throughput unit="IOPS">50</Throughput><ThreadsPerFile>2</ThreadsPerFile><FileSize>1048576</FileSize></Target>
        <Target><Path>*2</Path><BlockSize>4096</BlockSize><Random>512</Random><WriteRatio>30</WriteRatio>
          <Distribution><Percent><Range IO="90">10</Range><Range IO="10">90</Range></Percent></Distribution>
          <DisableOSCache>true</DisableOSCache><WriteThrough>true</WriteThrough><RequestCount>8</RequestCount>
          <Throughput unit="IOPS">50</Throughput><ThreadsPerFile>2</ThreadsPerFile><FileSize>1048576</FileSize></Target>
      </Targets>
    </TimeSpan>
    <TimeSpan><Duration>2</Duration><Warmup>0</Warmup>
      <Targets><Target><Path>*1</Path><WriteRatio>100</WriteRatio>
        <WriteBufferContent><Pattern>zero</Pattern></WriteBufferContent></Target></Targets>
    </TimeSpan>
  </TimeSpans>
</Profile>
"""


@pytest.fixture
def profile_file(tmp_path: Path) -> Path:
    path = tmp_path / "p.xml"
    path.write_text(PROFILE)
    return path


def test_profile_files_run_span_after_span(profile_file: Path) -> None:
    plan = planned(f"-X{profile_file} -d7 -z3 f g")
    create, first, second = plan.cells
    assert create.workload == CREATING and create.files == ["f", "g"]
    assert (first.op, first.duration_ns, first.warmup_ns, first.workers) == ("mixed", 7 * 10**9, 10**9, 4)
    assert (first.seed, first.direct, first.sync, first.interval_ns) == (3, True, "all", 250_000_000)
    assert first.pace is not None and first.pace.rate_per_s == 200
    assert (second.op, second.duration_ns, second.data.kind, second.seed) == ("write", 7 * 10**9, "fill", 3)
    assert second.file_bytes == 1 << 20 and len(plan.spans) == 2 and plan.profile.xml_output


def test_written_profiles_read_back_the_same(tmp_path: Path, profile_file: Path) -> None:
    lines = [
        "-b8K -c1G -r4K -w30 -t2 -o8 -Suw -L -D250 -z5 f", "-si64K -t4 -f1G -B1M -Sr -g100i f g", "-rs40 -h -Z f",
        "-r -rdabs90/10G:5/1G -Z1M -i5 -j7 f", "-F2 -O4 -n -Sm -Nv -frs f", "-T1M -t2 -I3 -a0,1,g1,3 -l -Zr f",
    ]  # fmt: skip
    profiles = [parse(line.split()).profile for line in lines] + [load(profile_file, ["f", "a & b"]).profile]
    for number, profile in enumerate(profiles):
        path = tmp_path / f"{number}.xml"
        path.write_text(profile_text(profile))
        again = load(path, []).profile
        assert profile_text(again) == path.read_text()
        for span in again.spans:
            span.targets.sort(key=lambda target: target.path)
        assert [len(span.targets) for span in again.spans] == [len(span.targets) for span in profile.spans]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("<Profile>", "not XML"), ("<A/>", "not Profile"), ("<Profile><Nonsense/></Profile>", "Nonsense is not known"),
        ("<Profile/>", "no timespans specified"), ("<!DOCTYPE a><Profile/>", "DOCTYPE"),
        (PROFILE.replace("<Duration>3", "<Duration>x"), "give a whole number"),
        (PROFILE.replace("<Verbose>true", "<Verbose>maybe"), "use true, false"),
        (PROFILE.replace("<Warmup>1", "<ThreadCount>2</ThreadCount><Warmup>1"), "-F and -t"),
        (PROFILE.replace("<Path>*2</Path><BlockSize>4096", "<Path>*2</Path><BlockSize>8192"), "different parameters"),
        (PROFILE.replace("<Path>*2</Path>", "<Path>*2</Path><Weight>3</Weight>"), "no weights"),
        (PROFILE.replace("<Path>*2</Path>", "<Path>*3</Path>"), "no template"),
        (PROFILE.replace("<Verbose>true</Verbose>", "<ETW/>"), "ETW"),
        (PROFILE.replace('IO="90"', 'IO="x"'), "attribute IO"),
    ],
)  # fmt: skip
def test_profiles_are_refused_by_name(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "p.xml"
    path.write_text(text)
    targets = "" if text.startswith(("<Profile/>", "<A", "<!", "<Profile>")) and "*1" not in text else " f g"
    assert words in _error(f"-X{path}{targets}", {"f": GIB, "g": GIB})


def test_templates_must_be_given(profile_file: Path) -> None:
    assert "'*2' was not substituted" in _error(f"-X{profile_file} f", {"f": GIB})
    assert "no template of" in _error(f"-X{profile_file} f g h", {"f": GIB})
    assert "cannot be read" in _error("-X/nonexistent.xml f", {})
    assert parse([f"-X{profile_file}", "-Rpxml"]).profile.only
