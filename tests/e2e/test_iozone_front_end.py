"""The front end as a user runs it: both command lines of the seeds, and the real IOzone beside it."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import cli_tools
from cli_tools import HANG_S, called, need
from iozone_parser import COLUMNS, parse, parse_throughput, parse_throughput_report

PROGRAM = [*cli_tools.PROGRAM, "iozone"]


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return dict(os.environ, NASLAB_STORE=str(tmp_path / "store.db"))


def run(words: list[str], cwd: Path, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    done = called(["iozone", *words], cwd, env, 100)
    return subprocess.CompletedProcess(words, done.code, done.out, done.err)


def ended_well(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_wiki_line(tmp_path: Path, env: dict[str, str]) -> None:
    """`-Rab out.xls -i 0 -i 1 -+u -f DIR/f -q 64k -n 2M -g 1G -z`, scaled down to 4 MiB."""
    xlrd = pytest.importorskip("xlrd")
    line = f"-Rab out.xls -i 0 -i 1 -+u -f {tmp_path}/f -q 64k -n 2M -g 4M -z"
    text = ended_well(run(line.split(), tmp_path, env))
    found = parse(text)
    assert found.complete and found.command == "iozone " + line
    grid = [(size, record) for size in (2048, 4096) for record in (4, 8, 16, 32, 64)]
    assert [(row["kB"], row["reclen"]) for row in found.rows] == grid
    for row in found.rows:
        assert all(row[op] for op in ("write", "rewrite", "read", "reread")) and row["random_read"] is None
    names = ["Writer", "Re-writer", "Reader", "Re-Reader"]
    cpu = "CPU utilization report (Zero values should be ignored)"
    assert list(found.reports) == [f"{name} report" for name in names] + [f"{name} {cpu}" for name in names]
    for name, op in zip(names, ("write", "rewrite", "read", "reread"), strict=True):
        assert found.headers[f"{name} report"] == [4, 8, 16, 32, 64]
        table = found.reports[f"{name} report"]
        assert [value for size in (2048, 4096) for value in table[size]] == [row[op] for row in found.rows]
        assert all(value >= 0 for values in found.reports[f"{name} {cpu}"].values() for value in values)
    sheet = xlrd.open_workbook(str(tmp_path / "out.xls")).sheet_by_index(0)
    assert sheet.cell_value(0, 0).strip() == "iozone " + line and sheet.cell_value(3, 0) == "Writer Report"
    assert sheet.row_values(5)[1:6] == found.reports["Writer report"][2048]
    assert not (tmp_path / "f").exists(), "the test file is removed"


@pytest.mark.lab
def test_the_rootusers_line_on_a_loop_mount(tmp_path: Path, env: dict[str, str]) -> None:
    """`-Racz -g 2G -i 0 -i 1 -i 2 -U MNT -f MNT/testfile -b out.xls`, scaled down to 128 KiB, remounting by fstab."""
    need(os.geteuid() == 0 and shutil.which("mkfs.ext4") and shutil.which("unshare"), "root, mkfs.ext4 and unshare")
    mount = loop_mount(tmp_path)
    line = f"-Racz -g 128 -i 0 -i 1 -i 2 -U {mount} -f {mount}/testfile -b out.xls"
    done = in_namespace(tmp_path, env, mount, line)
    if "failed to setup loop device" in done.stderr or "must be superuser" in done.stderr:
        need(False, "a loop device")
    found = parse(ended_well(done))
    assert found.complete and [(row["kB"], row["reclen"]) for row in found.rows] == [
        *((64, 4 << n) for n in range(5)), *((128, 4 << n) for n in range(6)),
    ]  # fmt: skip
    for row in found.rows:
        assert all(row[op] for op in ("write", "rewrite", "read", "reread", "random_read", "random_write"))
        assert row["backward_read"] is None
    assert found.headers["Random write report"] == [4 << n for n in range(13)]
    assert "Include close in write timing" in done.stdout
    assert "-U gives up" in done.stderr
    assert (tmp_path / "out.xls").stat().st_size > 4096


def loop_mount(folder: Path) -> Path:
    """An ext4 image and an fstab that knows it; mounted by the tests' own mount namespace."""
    image, mount = folder / "image", folder / "mnt"
    mount.mkdir()
    with image.open("wb") as file:
        file.truncate(64 << 20)
    subprocess.run(["mkfs.ext4", "-q", "-F", str(image)], check=True, capture_output=True)
    (folder / "fstab").write_text(f"{image} {mount} ext4 loop,noauto 0 0\n")
    return mount


def in_namespace(folder: Path, env: dict[str, str], mount: Path, line: str) -> subprocess.CompletedProcess[str]:
    script = f'mount --bind "{folder}/fstab" /etc/fstab && mount "{mount}" && exec "$@"'
    return subprocess.run(
        ["unshare", "-m", "sh", "-c", script, "sh", *PROGRAM, *line.split()],
        cwd=folder, env=env, capture_output=True, text=True, timeout=HANG_S, check=False,
    )  # fmt: skip


@pytest.mark.lab
def test_remount_commands_and_a_busy_mount(tmp_path: Path, env: dict[str, str]) -> None:
    line = ["-s", "64", "-i", "0", "-U", str(tmp_path), "-f", str(tmp_path / "t"), "--mount-command", "true"]
    elsewhere = tmp_path.parent
    ended_well(run([*line, "--umount-command", "true"], elsewhere, env))
    begun = time.monotonic()
    done = run([*line, "--umount-command", "sh -c 'echo target is busy; exit 32'"], elsewhere, env)
    assert done.returncode == 1 and "target is busy" in done.stderr and time.monotonic() - begun < 30
    assert run(line, elsewhere, env).returncode == 2, "not a mount point, and no command to unmount it"


@pytest.mark.lab
def test_spreadsheets_open_in_libreoffice(tmp_path: Path, env: dict[str, str]) -> None:
    need(shutil.which("soffice"), "LibreOffice (soffice)")
    names = {"old": "old.xls", "new": "new.xlsx"}
    texts = {
        stem: ended_well(run(f"-Rab {name} -i 0 -i 1 -f {tmp_path}/f -n 64 -g 256".split(), tmp_path, env))
        for stem, name in names.items()
    }
    profile = f"-env:UserInstallation=file://{tmp_path}/profile"
    convert = ["soffice", profile, "--headless", "--convert-to", "csv", "--outdir", str(tmp_path), *names.values()]
    subprocess.run(convert, cwd=tmp_path, check=True, capture_output=True, timeout=HANG_S)
    for stem, text in texts.items():
        rows = list(csv.reader((tmp_path / f"{stem}.csv").read_text().splitlines()))
        label = next(n for n, row in enumerate(rows) if row[0] == "Writer Report")
        assert [int(cell) for cell in rows[label + 1][1:]] == [4 << n for n in range(13)]
        assert [float(cell) for cell in rows[label + 2] if cell][1:] == parse(text).reports["Writer report"][64]


def test_an_existing_file_is_left_alone(tmp_path: Path, env: dict[str, str]) -> None:
    precious = tmp_path / "precious"
    precious.write_bytes(b"precious" * 8192)
    done = run(["-s", "64", "-i", "0", "-f", str(precious)], tmp_path, env)
    assert done.returncode == 2 and "--overwrite" in done.stderr and done.stdout == ""
    assert run(["-s", "64", "-i", "1", "-f", str(precious)], tmp_path, env).returncode == 2
    row = parse(ended_well(run(["-s", "64", "-i", "1", "-+E", "-f", str(precious)], tmp_path, env))).rows[0]
    assert row["read"] and row["write"] is None
    assert precious.read_bytes() == b"precious" * 8192
    ended_well(run(["-s", "64", "-i", "0", "--overwrite", "-f", str(precious)], tmp_path, env))


def test_a_kept_file_can_be_read_again(tmp_path: Path, env: dict[str, str]) -> None:
    ended_well(run(["-s", "64", "-i", "0", "-w", "-f", "kept"], tmp_path, env))
    assert (tmp_path / "kept").stat().st_size == 65536
    row = parse(ended_well(run(["-s", "64", "-i", "1", "-f", "kept"], tmp_path, env))).rows[0]
    assert row["reread"] and (tmp_path / "kept").exists()


def test_json_is_one_document_and_the_run_is_stored(tmp_path: Path, env: dict[str, str]) -> None:
    done = run(["-s", "64", "-r", "4", "-i", "0", "-i", "2", "--json", "--label", "where=here"], tmp_path, env)
    document = json.loads(ended_well(done))
    assert (
        document["command"] == "iozone" and document["status"] == "complete" and document["labels"] == {"where": "here"}
    )
    assert [cell["op"] for cell in document["cells"]] == ["write", "rewrite", "random_read", "random_write"]
    assert all(cell["bytes"] == 65536 and cell["ops"] == 16 for cell in document["cells"])
    assert any("incompressible" in warning["message"] for warning in document["warnings"])


def test_bad_input_writes_nothing(tmp_path: Path, env: dict[str, str]) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    for line in ("-n 64 -g 128", "-+m clients -t 2", "-s 1.5m", "-K", "-s 4 -r 16"):
        done = run(line.split(), empty, env)
        assert done.returncode == 2 and done.stdout == "" and done.stderr.startswith("naslab iozone: error: -" if
               not line.startswith("-s 4") else "naslab iozone: error: ")  # fmt: skip
    assert not list(empty.iterdir())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interruption_reports_what_was_measured(number: signal.Signals, tmp_path: Path, env: dict[str, str]) -> None:
    words = ["-Ra", "-n", "64", "-g", "64", "-i", "0", "-i", "1", "-J", "20", "-f", "f", "-b", "out.xls"]
    child = subprocess.Popen(
        [*PROGRAM, *words], cwd=tmp_path, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    head = ""
    for line in child.stdout:
        head += line
        if re.match(r" +64 +4 +\d+ +\d+ +\d+ +\d+", line):
            break
    child.send_signal(number)
    rest, _ = child.communicate(timeout=HANG_S)
    found = parse(head + rest)
    assert child.returncode == 130 and "iozone: interrupted" in rest and not found.complete
    assert found.reports["Writer report"][64][0] > 0 and (tmp_path / "out.xls").exists()
    assert not (tmp_path / "f").exists()


REAL_TEST = "test_text_is_that_of_the_real_iozone"
REAL_LINES = [
    "-s 512 -r 64", "-s 512 -r 64 -i 0", "-s 512 -r 64 -i 0 -i 1", "-s 512 -r 64 -i 0 -i 2 -i 4 -i 7",
    "-s 512 -r 64 -i 0 -i 6", "-s 512 -r 64 -E", "-s 512 -r 64 -i 0 -i 7 -i 9 -E", "-s 512 -r 64 -+n -E -R",
    "-Ra -n 64 -g 256 -i 0 -i 1 -+u", "-A -g 64", "-Ra -n 48 -g 200 -y 12 -i 0", "-R -s 64 -s 1m -r 16 -r 128 -i 0",
    "-s 512 -O -R -i 0", "-s 512 -N -R -i 0", "-s 64 -c -e -o -+r -+D -W -w -x -j 5 -C -T -+p 50 -+B -i 0",
    "-t 2 -s 4m -r 64 -i 0 -i 1 -R", "-t 2 -s 4m -r 64 -i 0 -i 2 -i 3 -i 5 -O -R",
    "-t 2 -s 4m -i 0 -i 6 -i 7 -R -+n",
    "-l 1 -u 3 -T -C -i 0 -s 4m -r 16", "-t 2 -s 4m -i 0 -i 9 -i 10 -R",
]  # fmt: skip


@pytest.fixture(scope="module")
def real_ones(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, tuple[subprocess.Popen[str], Path]]]:
    """The real program with each line that was asked for, all begun at once: it sleeps between its tests."""
    if shutil.which("iozone") is None:
        pytest.skip("the real iozone is not installed: Debian has it outside its free part (iozone3)")
    lines = {item.callspec.params["line"] for item in request.session.items if item.name.startswith(REAL_TEST)}
    begun = {line: begin(line, tmp_path_factory.mktemp("real")) for line in REAL_LINES if line in lines}
    yield begun
    for child, _ in begun.values():
        child.kill()
        child.wait()


def begin(line: str, folder: Path) -> tuple[subprocess.Popen[str], Path]:
    """The process, and the file its text goes to."""
    with (folder / "said").open("w") as said:
        child = subprocess.Popen(
            ["iozone", *line.split()], cwd=folder, stdout=said, stderr=subprocess.DEVNULL, text=True
        )
    return child, folder / "said"


@pytest.mark.lab
@pytest.mark.parametrize("line", REAL_LINES)
def test_text_is_that_of_the_real_iozone(
    line: str, tmp_path: Path, env: dict[str, str], real_ones: dict[str, tuple[subprocess.Popen[str], Path]]
) -> None:
    """Line by line from the option echoes on, figures replaced by a mark in their last place."""
    child, said = real_ones[line]
    ours = ended_well(run([*line.split(), "--overwrite"], tmp_path, env)).replace(" --overwrite", "")
    try:
        assert child.wait(timeout=60) == 0
    except subprocess.TimeoutExpired:
        pytest.skip("the real iozone hung, as its stonewall does now and then with short passes")
    assert comparable(ours) == comparable(said.read_text())


def comparable(text: str) -> list[str]:
    """Figures in fixed columns keep their last place; free ones are replaced whole."""
    text = text.partition("Run began")[2].partition("\n")[2]
    text = re.sub(r"Timer resolution is poor.*\n.*\n", "", text)
    text = re.sub(r"Machine = .*", "Machine", text)
    return [_without_figures(line) for line in text.splitlines()]


def _without_figures(line: str) -> str:
    if re.match(r"\t(Children|Parent|Min|Max|Avg|CPU [Uu]tilization:|Child\[).* ", line):
        return re.sub(r" *\d+\.\d+", " #", line)
    if re.match(r'"\d+"  |" *[A-Z][\w -]+ " ', line):
        return re.sub(r" +[\d.]+", " #", line)
    if re.match(r" +\d+ +\d+ ", line):
        fields = [line[start:end] for _, start, end in COLUMNS[2:]]
        marked = [" " * (len(field) - 1) + "#" if field.strip() else field for field in fields]
        return line[:24] + "".join(marked)
    return line


def test_throughput_mode(tmp_path: Path, env: dict[str, str]) -> None:
    text = ended_well(
        run(
            ["-t", "2", "-s", "1m", "-r", "64", "-i", "0", "-i", "1", "-i", "8", "-C", "-R", "-+u", "-x"], tmp_path, env
        )
    )
    blocks = parse_throughput(text)
    assert [block.name for block in blocks] == [
        "initial writers",
        "rewriters",
        "readers",
        "re-readers",
        "mixed workload",
    ]
    for block in blocks:
        assert [moved for moved, _ in block.children] == [1024.0, 1024.0]
        assert block.values["Children"] == pytest.approx(sum(rate for _, rate in block.children), abs=0.02)
        assert block.values["Min"] <= block.values["Avg"] <= block.values["Max"]
    assert list(parse_throughput_report(text)) == ["Initial write", "Rewrite", "Read", "Re-read", "Mixed workload"]
    assert not list(tmp_path.glob("iozone.DUMMY*"))


def test_offset_files(tmp_path: Path, env: dict[str, str]) -> None:
    ended_well(run(["-s", "64", "-r", "16", "-i", "0", "-i", "1", "-Q"], tmp_path, env))
    for name in ("wol", "rwol", "rol", "rrol"):
        lines = (tmp_path / f"{name}.dat").read_text().splitlines()
        assert [line.split()[0] for line in lines[1:5]] == ["0", "16", "32", "48"]
        assert {line.split()[2] for line in lines[1:5]} == {"16384"}
