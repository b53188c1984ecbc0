"""IOzone's cluster file: what one run of naslab makes of its lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from naslab.commands.iozone.checks import parse
from naslab.commands.iozone.cluster import Cluster, clients_of, read_cluster
from naslab.commands.iozone.plan import make_plan
from naslab.errors import UsageError

LINES = "# two of each\na /mnt/x /opt/iozone\nb /mnt/x /opt/iozone\n\na /mnt/x /opt/iozone\nb /mnt/x /opt/iozone\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    found = tmp_path / "clients"
    found.write_text(LINES)
    return found


def test_hosts_are_counted_in_the_lines_that_are_used(file: Path) -> None:
    assert read_cluster(str(file), 4) == Cluster(("a", "b"), 2, "/mnt/x")
    assert read_cluster(str(file), 2) == Cluster(("a", "b"), 1, "/mnt/x")
    assert read_cluster(str(file), 1) == Cluster(("a",), 1, "/mnt/x")


@pytest.mark.parametrize(
    ("lines", "count", "said"),
    [
        (LINES, 5, "-t 5 needs as many lines, but there are only 4"),
        (LINES, 3, "a 2, b 1"),
        ("a /mnt/x\n", 1, "'a /mnt/x' is not a line"),
        ("a /mnt/x p\nb /mnt/y p\n", 2, "/mnt/x and /mnt/y are two folders"),
        ("a /mnt/x p file\n", 1, "'file' names a file"),
    ],
)
def test_what_one_run_cannot_do_is_refused(file: Path, lines: str, count: int, said: str) -> None:
    file.write_text(lines)
    with pytest.raises(UsageError, match=r"-[+]m") as caught:
        read_cluster(str(file), count)
    assert said in str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"-\+m .*nothing: cannot be read"):
        read_cluster(str(tmp_path / "nothing"), 1)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("", "needs one -t N"),
        ("-t 1 -t 2", "needs one -t N"),
        ("-t 2 -F a b", "leave out -F"),
        ("-t 2 -w", "leave out -w"),
        ("-t 2 -i 1", "add -i 0"),
    ],
)
def test_options_that_do_not_go_with_it(file: Path, words: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(["-+m", str(file), *words.split()])
    assert said in str(caught.value)


def test_options_of_ssh_need_it() -> None:
    with pytest.raises(UsageError, match=r"add -[+]m FILE"):
        parse(["--ssh-port", "2222"])


def test_the_plan_is_a_clients_and_the_counts_are_of_all(file: Path) -> None:
    args = parse(["-+m", str(file), "-t", "4", "-s", "4m", "-+k", "-i", "0", "--ssh-port", "2222"])
    plan = make_plan(args)
    assert plan.folder == "/mnt/x" and plan.counts == [4]
    assert [cell.workers for cell in plan.cells] == [2, 2]
    assert plan.cells[0].files == ["iozone.DUMMY.0", "iozone.DUMMY.1"]
    assert plan.cells[0].file_bytes == 1 << 20  # 4 MiB shared by four
    assert plan.where[0] == (4, "write")
    assert plan.run_spec().folder == "" and plan.cleanup_files == plan.cells[0].files
    clients = clients_of(args)
    assert clients is not None and clients.count == 2 and clients.wanted.ssh.port == 2222
