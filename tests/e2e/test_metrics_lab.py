"""The real Prometheus scrapes the real `naslab serve --metrics`, and answers every query of the dashboard."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import naslab
from cli_tools import HANG_S, default_signals, need
from unit.test_metrics_page import SIM, TOKEN, queries

pytestmark = pytest.mark.lab
CONFIG = """\
global: {{scrape_interval: 1s}}
scrape_configs:
  - job_name: naslab
    authorization: {{credentials_file: {token}}}
    static_configs: [{{targets: ["127.0.0.1:{port}"]}}]
  - job_name: without
    static_configs: [{{targets: ["127.0.0.1:{port}"]}}]
"""


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@contextmanager
def running(command: list[str], log: Path, **more: Any) -> Iterator[subprocess.Popen[str]]:
    """The program, ended when the context is."""
    with log.open("w") as file:
        child = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, text=True, **more)
    try:
        yield child
    finally:
        child.terminate()
        try:
            child.wait(20)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def asked(port: int, path: str, **query: str) -> Any:
    """Prometheus's own answer."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}?{urllib.parse.urlencode(query)}", timeout=10) as answer:
        return json.load(answer)["data"]


def until(found: Any, what: str, child: subprocess.Popen[str], log: Path) -> Any:
    """What `found` gives, once it gives something."""
    deadline = time.monotonic() + HANG_S
    while time.monotonic() < deadline:
        assert child.poll() is None, log.read_text()
        try:
            if value := found():
                return value
        except OSError:
            pass
        time.sleep(0.2)
    raise AssertionError(f"no {what} after a minute:\n{log.read_text()}")


def test_prometheus_scrapes_and_answers_the_dashboard(tmp_path: Path) -> None:
    prometheus = shutil.which("prometheus")
    need(prometheus, "prometheus")
    store = tmp_path / "runs.sqlite"
    naslab.measure(SIM, kind="sweep", file_size="1m,16m", record="64k", tests="write,read", store=store)
    (tmp_path / "files").mkdir()
    for _ in range(2):  # on a local folder the client's cache answers, which is a warning
        run = naslab.measure(
            tmp_path / "files", kind="sweep", file_size="1m", record="64k", tests="write,read", store=store
        )
    serve, scrape, token = free_port(), free_port(), tmp_path / "token"
    token.write_text(TOKEN)
    (tmp_path / "prometheus.yml").write_text(CONFIG.format(token=token, port=serve))
    served = [sys.executable, "-m", "naslab", "serve", "--metrics", "--listen", str(serve), "--store", str(store)]
    assert prometheus is not None
    scraper = [prometheus, f"--config.file={tmp_path / 'prometheus.yml'}", f"--storage.tsdb.path={tmp_path / 'data'}",
               f"--web.listen-address=127.0.0.1:{scrape}"]  # fmt: skip
    env = {"NASLAB_TOKEN": TOKEN, "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    one, other = tmp_path / "serve.log", tmp_path / "prometheus.log"
    with running(served, one, env=env, preexec_fn=default_signals) as library:
        until(lambda: "Metrics:" in one.read_text(), "page", library, one)
        with running(scraper, other) as child:

            def health() -> dict[str, tuple[str, str]]:
                targets = asked(scrape, "/api/v1/targets")["activeTargets"]
                told = {each["labels"]["job"]: (each["health"], each["lastError"]) for each in targets}
                return told if told and "unknown" not in {state for state, _ in told.values()} else {}

            told = until(health, "scrape", child, other)
            assert told["naslab"] == ("up", "")
            assert told["without"][0] == "down" and "401" in told["without"][1]
            for query in queries():
                if query.startswith("label_values"):
                    name = query.removeprefix("label_values(").partition(",")[0]
                    values = asked(scrape, "/api/v1/label/target/values", **{"match[]": name})
                    assert sorted(values) == sorted([SIM, str(tmp_path / "files")])
                    continue
                found = asked(scrape, "/api/v1/query", query=query.replace("$target", ".*"))
                assert found["result"], query
            (rate,) = asked(
                scrape, "/api/v1/query",
                query=f'max by (target) (naslab_throughput_bytes_per_second{{run="{run.run_id}"}})',
            )["result"]  # fmt: skip
            assert float(rate["value"][1]) == max(cell.throughput_bytes_per_s or 0 for cell in run.cells)


def test_promtool_finds_nothing_to_complain_of(tmp_path: Path) -> None:
    from naslab.render.web.metrics import Metrics
    from naslab.results.store import Store
    from naslab.results.store.library import Library

    need(shutil.which("promtool"), "promtool")
    store = Store(tmp_path / "runs.sqlite")
    naslab.measure(SIM, kind="sweep", file_size="1m", record="64k", tests="write,read", store=store.path)
    text = Metrics(Library(store)).text()
    done = subprocess.run(
        ["promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False, timeout=HANG_S
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
