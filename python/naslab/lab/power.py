"""`python -m naslab.lab.power FACTS off|on`: cuts the power of a guest that another process started, or restores it.

FACTS is the file in which `cut_options` describes the server. So `naslab durable` in a process of its own, inside the
network of the server's clients, cuts it by its --cut-command.
"""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

from naslab.errors import NaslabError
from naslab.lab.server import Server, from_facts

_FACTS = "power.json"


def cut_options(server: Server) -> list[str]:
    """Options with which `naslab durable` cuts the power of this server's guest."""
    path = server.folder / _FACTS
    path.write_text(json.dumps({**server.facts, "guardian": list(server.facts["guardian"])}), "utf-8")
    off, on = (shlex.join([sys.executable, "-m", "naslab.lab.power", str(path), word]) for word in ("off", "on"))
    return ["--cut-command", off, "--restore-command", on]


def main(path: str, word: str) -> int:
    """Entry point; 1 with the reason on stderr where it failed."""
    server = from_facts(json.loads(Path(path).read_text("utf-8")))
    try:
        server.kill() if word == "off" else server.restart()
    except NaslabError as error:
        print(f"naslab: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
