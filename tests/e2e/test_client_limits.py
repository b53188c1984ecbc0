"""naslab in a control group of 15 % of a processor: the limit, the throttling and the words, of real runs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from cli_tools import Cli, need

pytestmark = pytest.mark.lab

QUOTA = 0.15


@pytest.fixture
def small_group() -> Iterator[Path]:
    """A control group with that quota, of whichever version this machine has; ends with the test."""
    need(os.geteuid() == 0, "root, to make a control group")
    group = _make(f"naslab-test-{os.getpid()}")
    need(group is not None, "a control group whose processor quota can be set")
    assert group is not None
    yield group
    group.rmdir()


def _make(name: str) -> Path | None:
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        left, _, right = line.partition(" - ")
        kind, _, options = right.split(" ")[:3]
        mount = Path(left.split(" ")[4])
        files = None
        if kind == "cgroup" and "cpu" in options.split(","):
            files = {"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": str(round(QUOTA * 1e5))}
        elif kind == "cgroup2":
            files = {"cpu.max": f"{round(QUOTA * 1e5)} 100000"}
            with suppress(OSError):
                (mount / "cgroup.subtree_control").write_text("+cpu")
        if files is None:
            continue
        group = mount / name
        with suppress(OSError):
            group.mkdir()
        try:
            for file, text in files.items():
                if not (group / file).exists():  # in version 2 the controller may be elsewhere
                    raise FileNotFoundError(file)
                (group / file).write_text(text)
        except OSError:
            with suppress(OSError):
                group.rmdir()
            continue
        return group
    return None


def within(group: Path) -> list[str]:
    """The start of a command line that runs the rest in a control group."""
    return ["sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "sh"]


def test_a_quota_is_seen_in_every_cell_and_told(cli: Cli, small_group: Path) -> None:
    words = ("sustained", "null:", "--size", "64m", "--duration", "1s", "--json")
    done = cli(*words, prefix=within(small_group), timeout=300).ok().json()
    assert done["environment"]["client"]["cpu_quota_cores"] == pytest.approx(QUOTA)
    assert done["environment"]["client"]["cpu_limit_cores"] == pytest.approx(QUOTA)
    cells = done["cells"]
    assert cells and all(cell["client"]["cpu_limit_cores"] == pytest.approx(QUOTA) for cell in cells)
    most = max(cells, key=lambda cell: cell["client"]["throttled_fraction"])
    assert most["client"]["throttled_fraction"] > 0.05
    assert most["client"]["throttled_periods_fraction"] > 0
    assert "client_throttled" in {each["kind"] for each in most["warnings"]}


def test_doctor_tells_of_a_quota(cli: Cli, small_group: Path) -> None:
    assert "a control group allows 0.15" in cli("doctor", prefix=within(small_group), timeout=300).out
