"""The agent for any Linux: static, small, and the same digits on every processor."""

from __future__ import annotations

import platform
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_tools import SIM, TESTED, by_agent, by_python, check_parts, digits, peak_kib, specification
from cli_tools import need

MAX_BYTES = 10_000_000
ROOT = Path(__file__).parents[2]
Made = Callable[[str], tuple[Path, ...]]
pytestmark = pytest.mark.timeout(1800)  # the first test builds


def emulator(path: Path) -> list[str]:
    """What runs a program of another processor here: nothing for this machine's own."""
    machine = path.name.split("-")[-2]
    if machine == platform.machine():
        return []
    found = shutil.which(f"qemu-{machine}-static") or shutil.which(f"qemu-{machine}")
    need(found, f"qemu-{machine} (apt install qemu-user-static)")
    return [str(found)]


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_it_is_one_small_static_file(made: Made, machine: str) -> None:
    (path,) = (each for each in made("agent") if each.name.endswith(f"-{machine}-linux"))
    headers = subprocess.run(["readelf", "-hldW", path], check=True, capture_output=True, text=True).stdout
    names = {"x86_64": "Advanced Micro Devices X86-64", "aarch64": "AArch64"}
    assert names[machine] in headers
    assert "INTERP" not in headers and "(NEEDED)" not in headers
    assert path.stat().st_size <= MAX_BYTES
    told = subprocess.run([*emulator(path), path, "--version"], check=True, capture_output=True, text=True).stdout
    assert told.startswith("naslab-agent 0.")


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_a_simulated_server_has_the_same_digits_everywhere(made: Made, machine: str) -> None:
    (path,) = (each for each in made("agent") if each.name.endswith(f"-{machine}-linux"))
    spec = specification(SIM)
    assert digits(by_agent([*emulator(path), path], spec)[1]) == digits(by_python(spec)[1])


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_a_folder_is_measured_and_stays_as_it_was(made: Made, machine: str, tmp_path: Path) -> None:
    (path,) = (each for each in made("agent") if each.name.endswith(f"-{machine}-linux"))
    emulated = emulator(path)
    # qemu's user mode has no io_uring.
    end, cells = by_agent([*emulated, path], specification(str(tmp_path), depth=1 if emulated else 8))
    assert end["status"] == "complete"
    assert cells[1]["verified"] == {"blocks": 1024, "bad": 0, "first_bad": None}
    assert list(tmp_path.iterdir()) == []


def test_a_run_takes_less_than_64_mib(made: Made, tmp_path: Path) -> None:
    (path,) = (each for each in made("agent") if each.name.endswith(f"-{platform.machine()}-linux"))
    peaks = {each: peak_kib([path], specification(each)) for each in (str(tmp_path), SIM)}
    assert max(peaks.values()) < 64 << 10, peaks


def test_the_tests_of_its_parts_pass_on_arm() -> None:
    runner = shutil.which("qemu-aarch64-static") or shutil.which("qemu-aarch64")
    need(runner, "qemu-aarch64 (apt install qemu-user-static)")
    # The emulator starts no program of its own kind, as the agent's own tests do, and has no TCP_INFO.
    crates = [crate for crate in TESTED if crate != "agent"]
    beyond = ("one_byte_outside_ends_the_program", "every_direction_moves_bytes_and_the_listener_ends")
    check_parts("aarch64-unknown-linux-musl", "rust-lld", str(runner), crates, beyond)


def test_kerberos_is_refused_with_the_reason() -> None:
    """No library can be loaded into a static program: the crate's own test, built as the agent is."""
    command = ["cargo", "test", "--locked", "--quiet", "--target", "x86_64-unknown-linux-musl", "-p", "naslab-gss"]
    done = subprocess.run([*command, "a_missing_library"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout
