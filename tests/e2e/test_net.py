"""`naslab reference net`: two programs, one measures the other."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import socket
from pathlib import Path
from typing import Any

import pytest

from cli_tools import HANG_S, Cli


class Far:
    """`naslab reference net --listen` on a free port of this machine."""

    def __init__(self, cli: Cli, *options: str) -> None:
        self.process = cli.start("reference", "net", "--listen", "127.0.0.1:0", *options)
        assert self.process.stderr is not None
        line = self.process.stderr.readline()
        found = re.search(r"naslab reference net (127\.0\.0\.1:(\d+))", line)
        assert found, line
        self.place, self.port = found[1], int(found[2])

    def end(self) -> tuple[int, str, str]:
        out, err = self.process.communicate(timeout=HANG_S)
        return self.process.returncode, out, err


def test_once(cli: Cli) -> None:
    far = Far(cli, "--once", "--json")
    done = cli("reference", "net", far.place, "--duration", "200ms", "--connections", "2", "--json").ok()
    result: dict[str, Any] = done.json()
    assert result["schema"] == 1 and (result["host"], result["port"]) == ("127.0.0.1", far.port)
    assert result["connections"] == 2 and result["duration_ns"] == 200_000_000
    for name in ("upload", "download", "both_upload", "both_download"):
        flow = result["flows"][name]
        assert flow["duration_ns"] >= 200_000_000
        assert result[f"{name}_bytes_per_s"] == pytest.approx(flow["bytes"] * 1e9 / flow["duration_ns"])
        assert flow["bytes"] > 0
    trip = result["round_trip_ns"]
    assert 0 < trip["min"] <= trip["p50"] <= trip["p90"] <= trip["p99"] <= trip["p99_9"] <= trip["max"]
    assert result["wire"]["mss_bytes"] > 0
    assert "sending" in done.err and "round trips" in done.err
    code, out, err = far.end()
    assert code == 0 and len(json.loads(out)["served"]) == 1 and "is done" in err


def test_ctrl_c_ends_either_side(cli: Cli) -> None:
    far = Far(cli)
    near = cli.start("reference", "net", far.place, "--duration", "60s")
    assert near.stderr is not None and "sending" in near.stderr.readline()
    near.send_signal(signal.SIGINT)
    _, err = near.communicate(timeout=HANG_S)
    assert near.returncode == 130 and "interrupted" in err and "Traceback" not in err
    cli("reference", "net", far.place, "--duration", "50ms", "--quiet").ok()
    assert far.process.stderr is not None
    for _ in range(2):
        while "is done" not in far.process.stderr.readline():
            assert far.process.poll() is None
    far.process.send_signal(signal.SIGINT)
    code, _, err = far.end()
    assert code == 0 and "stopped; 2 served" in err


def test_the_far_side_ends_in_the_middle(cli: Cli) -> None:
    far = Far(cli)
    near = cli.start("reference", "net", far.place, "--duration", "10m")
    assert near.stderr is not None and "sending" in near.stderr.readline()
    far.process.kill()
    far.end()
    _, err = near.communicate(timeout=HANG_S)
    assert near.returncode == 1 and "Traceback" not in err and err.startswith("naslab: ")


def test_idle_and_strangers(cli: Cli) -> None:
    far = Far(cli, "--idle", "1s")
    with socket.create_connection(("127.0.0.1", far.port)) as stranger:
        stranger.settimeout(10)
        stranger.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nAccept: */*\r\n\r\n")
        with contextlib.suppress(ConnectionResetError):
            assert stranger.recv(100) == b""
    code, _, err = far.end()
    assert code == 0 and "measures" not in err


def test_nobody_there(cli: Cli) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    done = cli("reference", "net", f"127.0.0.1:{port}").sound()
    assert done.code == 2 and done.out == "" and "net --listen" in done.err and str(port) in done.err
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        done = cli("reference", "net", "--listen", f"127.0.0.1:{port}").sound()
        assert done.code == 1 and "choose another port" in done.err and str(port) in done.err
        done = cli("reference", "net", f"127.0.0.1:{port}", "--timeout", "500ms").sound()
        assert done.code == 1 and "answer" in done.err


def test_readable_on_the_terminal(cli: Cli) -> None:
    far = Far(cli, "--once", "--quiet")
    done = cli("reference", "net", far.place, "--duration", "50ms", "--quiet").ok()
    assert done.err == "" and all(word in done.out for word in ("upload", "download", "both", "round trip"))
    assert far.end() == (0, "", "")


def test_a_measurement_is_a_run_and_a_line_of_reports(cli: Cli, tmp_path: Path) -> None:
    far = Far(cli, "--once")
    result = cli("reference", "net", far.place, "--duration", "100ms", "--json", "--quiet").ok().json()
    far.end()
    shown = cli("show", result["run_id"]).ok().out
    assert "raw TCP, upload" in shown and "naslab did not measure" not in shown
    document = cli("show", result["run_id"], "--json").ok().json()
    rates = {cell["workload"]: cell["throughput_bytes_per_s"] for cell in document["cells"]}
    assert rates["raw TCP, download"] == pytest.approx(result["download_bytes_per_s"])
    cli.sweep("sim:")
    page = tmp_path / "page.html"
    cli("report", "last", "--line", result["run_id"], "-o", page).ok()
    assert all(name in page.read_text("utf-8") for name in rates)
    refused = cli("report", "last", "--line", "nothing", "-o", tmp_path / "none.html")
    assert refused.code == 2 and "give a rate as" in refused.err and not (tmp_path / "none.html").exists()
