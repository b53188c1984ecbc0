"""`python -m naslab.lab.demo_server FOLDER`: the embedded NFS 3 server in a process of its own.

It prints one line of JSON with its port and serves the folder until its standard input ends or its parent
dies, kill -9 included.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
from pathlib import Path

from naslab import _engine
from naslab.client.process import die_with_parent
from naslab.errors import NaslabError


def main() -> int:
    """Entry point."""
    parser = argparse.ArgumentParser(prog="python -m naslab.lab.demo_server", description="Serve a folder with NFS 3.")
    parser.add_argument("folder", type=Path, help="what is served, as /data")
    parser.add_argument("--port", type=int, default=0, help="loopback port; a free one by default")
    args = parser.parse_args()
    die_with_parent(os.getppid())
    threading.Thread(target=_end_with_stdin, daemon=True).start()
    try:
        _engine.serve_demo(str(args.folder), args.port, _say_port)
    except NaslabError as error:
        print(f"naslab: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        pass
    return 0


def _say_port(port: int) -> None:
    print(json.dumps({"port": port}), flush=True)


def _end_with_stdin() -> None:
    """Ends the process when whoever started it lets go of its standard input."""
    while os.read(0, 4096):
        pass
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
