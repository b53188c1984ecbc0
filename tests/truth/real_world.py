"""One real system, from the inside: builds it, checks its parts, asks `naslab run`, writes what came out.

    unshare --mount --net --pid --fork --kill-child --mount-proc python real_world.py FOLDER

is how `real_truth` calls it: the first process of its own process namespace, so that all it began ends with it. FOLDER
holds `system.json` and takes `answer.json`. The client's network is this process's; server and switch have one each.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from truth import real_machine
from truth import real_parts as parts
from truth.asking import Answer, run_command
from truth.real_relay import Plan, Relay
from truth.real_systems import System

TMPFS_BYTES = 1 << 30
CREDIT_STEP_S = 0.05
DATA = Path("/mnt")
"""Where the served file system is mounted, in this mount namespace alone."""


class World:
    """A system that stands. facts: what was measured of its parts beside the client."""

    def __init__(self, system: System, folder: Path) -> None:
        self.system, self.spec, self.folder = system, system.spec, folder
        self.loopback = bool(self.spec.get("loopback"))
        self.host = "127.0.0.1" if self.loopback else parts.SERVER
        name = folder.name.removeprefix(parts.PREFIX)
        self.server, self.client = parts.group(f"{name}-server"), parts.group(f"{name}-client")
        self.inside: int | None = None
        self.minor: int | None = None
        self.facts: dict[str, Any] = {}
        self.over = threading.Event()

    def build(self) -> None:
        """Everything, in the order in which one thing needs the other. Raises OSError, CalledProcessError."""
        self._network()
        self._data()
        self._limits()
        self._start_server()
        if self.spec.get("relay"):
            self._start_relay()
        self._disturb()

    def _network(self) -> None:
        if self.loopback:
            parts.run("ip", "link", "set", "lo", "up")
            # Of a machine that has loopback's addresses alone, Ganesha says that "127.0.0.1" has no address.
            parts.run("ip", "address", "add", f"{parts.SERVER}/32", "dev", "lo")
            return
        self.inside, switch = (self._process(["unshare", "--net", "sleep", "infinity"]) for _ in range(2))
        mine = os.readlink("/proc/self/ns/net")
        others = [Path(f"/proc/{pid}/ns/net") for pid in (self.inside, switch)]
        parts.wait_for(lambda: all(os.readlink(each) != mine for each in others), 10, "networks")
        parts.build_network(self.inside, switch, self.spec.get("link") or {})

    def _data(self) -> None:
        memory = self.folder / "memory"
        memory.mkdir()
        if self.spec.get("disk"):
            self.minor = parts.build_disk(self.spec["disk"], memory, DATA)
            self.facts["disk"] = real_machine.check_disk(DATA, self.minor, self.spec["disk"])
        else:
            parts.run("mount", "-t", "tmpfs", "-o", f"size={TMPFS_BYTES}", "none", str(DATA))
            # Memory that a virtual machine touches for the first time is slower than a disk: not what is planted.
            parts.run("dd", "if=/dev/zero", f"of={DATA}/touched", "bs=1M", f"count={(TMPFS_BYTES >> 20) - 8}")
            (DATA / "touched").unlink()
        DATA.chmod(0o777)
        parts.run("mount", "-t", "tmpfs", "-o", "size=16m", "none", "/run")

    def _limits(self) -> None:
        period = int(self.spec.get("period_us", 100_000))
        for name, groups in (("server_cpu", self.server), ("client_cpu", self.client)):
            if self.spec.get(name):
                parts.set_quota(groups, float(self.spec[name]), period)
        if self.spec.get("memory_bytes"):
            parts.set_memory(self.server, int(self.spec["memory_bytes"]))

    def _start_server(self) -> None:
        make = parts.samba if self.system.protocol == "smb" else parts.ganesha
        place = self.folder / "server"
        place.mkdir()
        words = make(place, DATA, self.host, self.spec)
        if self.system.protocol == "nfs3":
            for each in parts.rpcbind(self.inside or os.getpid()):
                self._process(each)
            parts.wait_for(Path("/run/rpcbind.sock").exists, 20, "rpcbind")
        Path("/run/ganesha").mkdir(exist_ok=True)
        prefix = ["nsenter", "-t", str(self.inside), "-n"] if self.inside else []
        self._process([*prefix, *words], self.server, self._shim())
        ports = [parts.PORT] + ([parts.MOUNT_PORT] if self.system.protocol == "nfs3" else [])
        parts.wait_for(lambda: parts.answers(self.host, ports, self.inside), 60, "the server")

    def _shim(self) -> dict[str, str]:
        if not (self.spec.get("lock_us") or self.spec.get("slow_share")):
            return {}
        library, locks = self.folder / "shim.so", self.folder / "locks"
        locks.mkdir()
        source = Path(__file__).with_name("real_shim.c")
        parts.run("cc", "-O2", "-shared", "-fPIC", "-o", str(library), str(source), "-ldl")
        names = {"lock_us": "LOCK_US", "slow_share": "SLOW_SHARE", "slow_us": "SLOW_US"}
        values = {f"NASLAB_REAL_{to}": str(self.spec[name]) for name, to in names.items() if self.spec.get(name)}
        return {"LD_PRELOAD": str(library), "NASLAB_REAL_LOCKS": str(locks), **values}

    def _start_relay(self) -> None:
        """In the server's network, so that the client meets it where it would meet the server."""
        doors = [[parts.RELAY_PORT, parts.PORT]]
        if self.system.protocol == "nfs3":
            doors.append([parts.RELAY_MOUNT_PORT, parts.MOUNT_PORT])
        prefix = ["nsenter", "-t", str(self.inside), "-n"] if self.inside else []
        plan = json.dumps({"plan": self.spec["relay"], "host": self.host, "doors": doors})
        self._process([*prefix, sys.executable, __file__, "--relay", plan])
        parts.wait_for(lambda: parts.answers(self.host, [to for to, _ in doors], self.inside), 20, "the relay")

    def _disturb(self) -> None:
        """Stops, credit, other load."""
        if self.spec.get("stop"):
            self._thread(self._stop)
        if (self.spec.get("disk") or {}).get("credit"):
            self._thread(self._credit)
        for where, count in (self.spec.get("load") or {}).items():
            prefix = ["nsenter", "-t", str(self.inside), "-n"] if where == "server" and self.inside else []
            for _ in range(count):
                self._process([*prefix, sys.executable, "-c", "while True: sum(range(10**6))"])

    def _stop(self) -> None:
        every, stop = self.spec["stop"]["every_s"], self.spec["stop"]["stop_s"]
        while not self.over.wait(every - stop):
            pids = parts.members(self.server)
            for number, seconds in ((signal.SIGSTOP, stop), (signal.SIGCONT, 0.0)):
                for pid in pids:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, number)
                self.over.wait(seconds)

    def _credit(self) -> None:
        """A token bucket by rewriting the device's limits: reads and writes together spend it."""
        assert self.minor is not None
        credit = self.spec["disk"]["credit"]
        left, before, at, limited = float(credit["size"]), sum(parts.disk_moved(self.minor)), time.monotonic(), "peak"
        while not self.over.wait(CREDIT_STEP_S):
            now, moved = time.monotonic(), sum(parts.disk_moved(self.minor))
            left = min(left + (now - at) * credit["base"] - (moved - before), float(credit["size"]))
            at, before = now, moved
            wanted = "base" if left <= 0 else "peak" if left > credit["peak"] * 0.2 else limited
            if wanted != limited:
                limited = wanted
                parts.limit(self.minor, dict.fromkeys(("read", "write"), credit[wanted]))

    def _thread(self, work: Callable[[], None]) -> None:
        threading.Thread(target=work, daemon=True).start()

    def _process(
        self, words: list[str], groups: Mapping[str, Path] | None = None, more: Mapping[str, str] | None = None
    ) -> int:
        with (self.folder / "processes.log").open("ab") as out:
            child = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env={**os.environ, **(more or {})},
                preexec_fn=parts.joining(groups) if groups else None,  # noqa: PLW1509
            )  # fmt: skip
        return child.pid

    def ask(self) -> Answer:
        """`naslab run`, in the client's control group."""
        found: list[Answer] = []

        def one() -> None:
            for folder in self.client.values():  # this thread alone; what it begins stays there
                (folder / "tasks").write_text("0")
            where = parts.url(self.spec, self.host)
            found.append(run_command(where, f"{self.system.budget_s}s", self.folder / "store.sqlite", ["--no-sweep"]))

        thread = threading.Thread(target=one)
        thread.start()
        thread.join()
        return found[0] if found else Answer(None, "it was not asked", 0.0, 0.0)

    def watched(self) -> dict[str, Any]:
        """What the groups and the disk say at the end."""
        facts = dict(self.facts)
        for name, groups in (("server", self.server), ("client", self.client)):
            facts[name] = {"used_s": round(parts.used_s(groups), 3), **parts.throttled(groups)}
        if self.minor is not None:
            facts["disk_moved"] = parts.disk_moved(self.minor)
        facts["load"] = [float(each) for each in Path("/proc/loadavg").read_text().split()[:3]]
        return facts

    def end(self) -> None:
        """Unmounts, so that the device goes; processes go with this one."""
        self.over.set()
        for pid in parts.members(self.server):
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.1)
        for folder in [*self.server.values(), *self.client.values()]:
            with contextlib.suppress(OSError):
                folder.rmdir()
        if self.minor is not None:
            parts.unlimit(self.minor)
            with contextlib.suppress(subprocess.SubprocessError):
                parts.run("umount", str(DATA))
            parts.remove_loop(self.minor)


def relay(text: str) -> None:
    """The relay's process; for ever."""
    plan = json.loads(text)
    host = plan["host"]
    Relay(Plan.of(plan["plan"]), [((host, to), (host, server)) for to, server in plan["doors"]]).run()


def main() -> int:
    """Builds, asks, writes."""
    if sys.argv[1] == "--relay":
        relay(sys.argv[2])
    folder = Path(sys.argv[1])
    given = json.loads((folder / "system.json").read_text())
    os.environ["NASLAB_PASSWORD"] = parts.PASSWORD
    world = World(System.from_document(given), folder)
    try:
        world.build()
        if given.get("machine"):
            found = {"machine": real_machine.measure(world)}
        else:
            found = {"answer": asdict(world.ask()), "facts": world.watched()}
    except (OSError, subprocess.SubprocessError, TimeoutError) as error:
        said = getattr(error, "stderr", "") or ""
        found = {"answer": asdict(Answer(None, f"not built: {error} {said}"[:500], 0.0, 0.0)), "facts": {}}
    finally:
        world.end()
    part = folder / ".answer"
    part.write_text(json.dumps(found))
    part.rename(folder / "answer.json")
    return 0


if __name__ == "__main__":
    sys.exit(main())
