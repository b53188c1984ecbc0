"""Cache modes in words of each front end, and when reads are said to come from a server's memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from naslab.analysis.cached import cached_part, pushed_out, steps_of, words
from naslab.commands.plans import cached, caching
from naslab.commands.plans.caching import Access, Place, parse_mode, sustained_access
from naslab.commands.plans.sustained import LoadOptions
from naslab.errors import UsageError
from naslab.results.parts.cached import Cached

MB = 1_000_000
GIB = 1 << 30
CAPS = {"alignment_offset_bytes": 4096, "evict": False}
LOCAL, SMB, NFS, SIM, NULL = (Place(name) for name in ("local", "smb", "nfs", "sim", "null"))


def options(**more: Any) -> LoadOptions:
    return LoadOptions(**{"size_bytes": 64 << 20, "block_bytes": 1 << 20, **more})


def way(text: str, place: Place, direct: str = "", durability: str = "end") -> Access:
    return sustained_access(text, parse_mode(text, direct, durability), place)


@pytest.mark.parametrize(
    ("text", "place", "name"),
    [
        ("cached", LOCAL, "cached"), ("none", LOCAL, "none"), ("mmap", LOCAL, "mmap"), ("none", SMB, "none"),
        ("none", NFS, "remote"), ("remote", SMB, "remote"), ("remote", NFS, "remote"), ("", NFS, "remote"),
        ("", SMB, "remote"), ("", LOCAL, "cached"), ("write-through", SMB, "remote+write-through"),
        ("write-through", LOCAL, "write-through"), ("none+write-through", SMB, "none+write-through"),
    ],
)  # fmt: skip
def test_what_a_mode_comes_to(text: str, place: Place, name: str) -> None:
    found = way(text, place)
    assert found.name == name and found.direct == name.startswith("none") and found.mmap == (name == "mmap")
    assert found.sync == name.endswith("write-through")
    assert bool(found.notes) == (text == "remote" or (text, place) in (("none", NFS), ("write-through", SMB)))


@pytest.mark.parametrize("place", [SMB, NFS, SIM, NULL])
@pytest.mark.parametrize("text", ["cached", "mmap"])
def test_modes_without_meaning_are_refused_by_name(text: str, place: Place) -> None:
    with pytest.raises(UsageError, match=f"^--cache {text}: {place.protocol} targets"):
        way(text, place)


def test_options_agree_or_are_refused() -> None:
    assert way("", LOCAL, "--direct").name == "none" and way("none", LOCAL, "--direct").name == "none"
    assert way("", SMB, "", "each").name == "remote+write-through"
    assert way("mmap", LOCAL, "", "each").name == "mmap+write-through"
    for text, direct, durability, word in (
        ("remote", "--direct", "end", "--direct"), ("mmap", "the target's", "end", "the target's"),
        ("write-through", "--direct", "end", "none.write-through"), ("none+write-through", "", "none", "--durability"),
        ("uncached", "", "end", "write-through, none"),
    ):  # fmt: skip
        with pytest.raises(UsageError, match=word):
            parse_mode(text, direct, durability)


def test_remote_on_a_path_depends_on_the_mount(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind, fine in (("cifs", True), ("ext4", False)):
        monkeypatch.setattr(caching, "file_system", lambda root, kind=kind: kind)
        place = Place("local", Path("/mnt"))
        if fine:
            assert way("remote", place) == Access(True, remote=True, notes=way("remote", place).notes)
        else:
            with pytest.raises(UsageError, match=r"--cache remote: .*'/mnt' lies on ext4; use --cache none"):
                way("remote", place)


def test_other_data_grow_until_the_bound() -> None:
    assert cached.steps(64 << 20, 16 * GIB) == [GIB * n for n in (1, 2, 4, 8, 16)]
    assert cached.steps(64 << 20, 17 * GIB) == [GIB * n for n in (1, 2, 4, 8, 17)]
    assert cached.steps(64 << 20, GIB // 2) == [GIB // 2]
    assert cached.steps(GIB, 100 * GIB) == [GIB * n for n in (16, 32, 64, 100)]


def test_every_file_is_read_first_only_once() -> None:
    cells = cached.cached_cells(options(workers=2), CAPS, 4 * GIB)
    filled = [name for cell in cells if cell.workload == "fill" for name in cell.files]
    firsts = [name for cell in cells if cell.workload in ("first", "cold") for name in cell.files]
    assert sorted(filled) == sorted(firsts) and len(set(firsts)) == len(firsts) == 2 * (1 + 2 * 2)
    evict = [cell for cell in cells if cell.workload == "evict"]
    assert [cell.file_bytes * len(cell.files) for cell in evict] == [2 * GIB, 2 * GIB]
    names = [cell.workload for cell in cells[5:]]
    assert names == ["first", "warm"] + 2 * (["evict"] + 2 * ["cold", "again", "again", "again"])
    assert [cell.id for cell in cells] == list(range(len(cells)))


def test_bounds_of_the_other_data() -> None:
    load = options()
    assert cached.room(load, None, None, None) == cached.Room(16 * GIB)
    assert cached.room(load, 4 * GIB, None, 100 * GIB) == cached.Room(4 * GIB)
    found = cached.room(load, None, None, 8 * GIB)
    assert found.by == "space" and found.evict_bytes < 4 * GIB
    assert cached.room(load, 100 * GIB, None, 12 * GIB).evict_bytes > 8 * GIB
    assert found.evict_bytes == 4 * GIB - 7 * load.size_bytes, "three steps have seven files"
    found = cached.room(load, None, 12 * GIB, None)
    cells = cached.cached_cells(load, CAPS, found.evict_bytes)
    moved = sum(cell.planned_bytes() for cell in cells if not cell.duration_ns)
    assert found.by == "--max-bytes" and 8 * GIB < moved <= 12 * GIB - load.size_bytes
    for asked, most, free, word in (
        (100 << 20, None, None, "--evict-size"), (None, GIB, None, "--max-bytes"), (None, None, GIB, "free space"),
    ):  # fmt: skip
        with pytest.raises(UsageError, match=word):
            cached.room(load, asked, most, free)


def cells_of(first: float, warm: float, *steps: tuple[float, float], regime: str | None = None) -> list[dict[str, Any]]:
    """first, warm: MB/s; steps: (cold, again), each after 1 GB more."""
    found: list[dict[str, Any]] = []

    def add(workload: str, mb_per_s: float, moved: int = 64 * MB) -> None:
        found.append({
            "id": len(found), "workload": workload, "status": "complete", "bytes": moved, "file_bytes": 64 << 20,
            "throughput_bytes_per_s": mb_per_s * MB, "regime": regime, "duration_ns": round(moved * 1000 / mb_per_s),
        })  # fmt: skip

    add("first", first)
    add("warm", warm)
    for cold, again in steps:
        add("evict", 100, 1000 * MB)
        for _ in range(2):
            add("cold", cold)
            for factor in (1, 1.1, 0.9):
                add("again", again * factor)
    return found


def part(cells: list[dict[str, Any]], own_memory: bool = False, ended_by: str = "--evict-size") -> Cached:
    found = cached_part(cells, own_memory, ended_by)
    assert found is not None
    return found


def test_contrast_decides_what_a_cache_is() -> None:
    found = part(cells_of(118, 120, (117, 118), (50, 118)))
    assert found.separable and found.network_only_bytes_per_s == 120 * MB and found.reason is None
    assert found.cold_bytes_per_s == 50 * MB and found.evicted_bytes == 2000 * MB
    assert "after 1 GB" in words(found) and "50 MB/s" in words(found)
    for cells, own, reason in (
        (cells_of(118, 120, (100, 120)), False, "1 GB of other data"),
        (cells_of(50, 120, (50, 120)), False, "first read of a file is slow even right after"),
        (cells_of(118, 120, (50, 120)), True, "own memory"),
        (cells_of(118, 120, (50, 120), regime="client_cache"), False, "own memory"),
        (cells_of(118, 120), False, "nothing was written"),
    ):
        found = part(cells, own)
        assert not found.separable and found.network_only_bytes_per_s is None and reason in found.reason
        assert "not separable" in words(found)
    assert "--budget" in part(cells_of(118, 120, (100, 120)), ended_by="--budget").reason
    assert cached_part(cells_of(118, 120)[:1], False, "space") is None


def test_short_reads_need_more_contrast() -> None:
    """64 MB take 64 ms at 1 GB/s: 1.4 times that is noise, 1.4 times 100 MB/s is not."""
    assert not part(cells_of(1400, 1400, (1000, 1400))).separable
    assert part(cells_of(1700, 1700, (1000, 1700))).separable
    assert part(cells_of(140, 140, (100, 140))).separable


def test_all_files_of_a_step_must_tell() -> None:
    """One slow first read, or one slow second one, is noise."""
    cells = cells_of(118, 120, (50, 120))
    cells[3]["throughput_bytes_per_s"] = 119 * MB
    assert not part(cells).separable
    cells = cells_of(118, 120, (50, 120))
    cells[-1]["throughput_bytes_per_s"] = 55 * MB
    (step,) = steps_of(cells)
    assert pushed_out(step, 118 * MB), "the first pass after it was still taken in"
    cells[-2]["throughput_bytes_per_s"] = 55 * MB
    (step,) = steps_of(cells)
    assert not pushed_out(step, 118 * MB) and "smaller --size" in part(cells).reason
    cells = cells_of(118, 120, (100, 120), (50, 120))
    cells[-2]["status"] = "partial"
    assert len(steps_of(cells)) == 1, "a step that was cut is none"
