"""What to measure: target names of the command line turned into what the engine needs.

Forms (DESIGN.md section 3): `/path`, `./path` with `?engine=posix|uring&direct=1`; `sim:` with the
simulator's fields as a query, `sim:FILE.toml`; `null:`. `smb://`, `nfs://`, UNC and `lab:` names are
recognised and refused until their clients are built.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import os
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote

from naslab.errors import UsageError
from naslab.messages import without_secrets
from naslab.units import parse_duration, parse_size

_NOT_YET = {
    "smb": "the direct SMB client is not built yet: mount the share and give the mount point",
    "nfs": "the direct NFS client is not built yet: mount the export and give the mount point",
    "lab": "the lab is not built yet: give a path, sim: or null:",
    "iscsi": "iSCSI is not supported: mount a file system that lies on it and give the mount point",
    "http": "HTTP servers are not supported: give a path, sim: or null:",
    "https": "HTTP servers are not supported: give a path, sim: or null:",
}
_SIM_SIZES = ("_bytes", "_bytes_per_s")
_TRUE, _FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off")


@dataclass(frozen=True)
class Target:
    """A target as the command line names it.

    url: for results, without secrets. protocol: `local`, `sim` or `null`. options: for the engine.
    direct: unbuffered I/O was asked for with `?direct=1`.
    """

    url: str
    protocol: str
    options: dict[str, Any] = field(default_factory=dict)
    direct: bool = False

    def engine_spec(self) -> dict[str, Any]:
        """What the engine makes the target from."""
        return {"protocol": self.protocol, "options": self.options}

    def seeded(self, seed: int) -> Target:
        """The same, with the run's seed for a simulated server whose name gives none."""
        if self.protocol != "sim" or "seed" in self.options:
            return self
        return dataclasses.replace(self, options={**self.options, "seed": seed})

    def engine_json(self) -> str:
        """`engine_spec` as JSON text."""
        return json.dumps(self.engine_spec())


def folder_target(folder: Path) -> Target:
    """A local folder, whatever its name looks like. Raises UsageError when it is none."""
    root = _folder(str(folder), folder)
    return Target(str(root), "local", {"root": str(root), "engine": "auto"})


def parse_target(text: str) -> Target:
    """The target that `text` names. Raises UsageError naming the text, without secrets, and the next step."""
    shown = without_secrets(text)
    if not text.strip() or "\0" in text:
        raise UsageError(f"target {shown!r}: give a folder, sim:… or null:")
    if text.startswith("\\\\"):
        raise UsageError(f"target UNC path: {_NOT_YET['smb']}")
    scheme, colon, rest = text.partition(":")
    is_scheme = colon and len(scheme) > 1 and "/" not in scheme and not os.path.lexists(text)
    if is_scheme and not scheme.startswith((".", "~")):
        return _parse_scheme(shown, scheme.lower(), rest)
    return _parse_path(text, shown)


def _parse_scheme(shown: str, scheme: str, rest: str) -> Target:
    if scheme == "null":
        if rest.strip("/"):
            raise UsageError(f"target {shown!r}: null: takes no options; write null:")
        return Target("null:", "null")
    if scheme == "sim":
        return _parse_sim(shown, rest)
    if scheme in _NOT_YET:
        raise UsageError(f"target {scheme}: {_NOT_YET[scheme]}")
    raise UsageError(f"target {shown!r}: unknown kind {scheme!r}; give a path, sim:… or null:")


def _parse_path(text: str, shown: str) -> Target:
    path_text, query, options = text, "", {}
    if "?" in text and not _exists(Path(text)):
        path_text, _, query = text.partition("?")
        options = _query(shown, query)
    root = _folder(without_secrets(path_text), Path(path_text))
    engine = options.pop("engine", "auto")
    if engine not in ("auto", "posix", "uring"):
        raise UsageError(f"target {shown!r}: engine={engine!r}; use auto, posix or uring")
    direct = _flag(shown, "direct", options.pop("direct", "0"))
    if options:
        unknown = ", ".join(options)
        raise UsageError(f"target {shown!r}: unknown option {unknown}; a path takes engine= and direct=")
    return Target(f"{root}?{query}" if query else str(root), "local", {"root": str(root), "engine": engine}, direct)


def _exists(path: Path) -> bool:
    """Whether there is such a path; a name no file system takes is none."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def _folder(shown: str, path: Path) -> Path:
    """The absolute path of a folder that is there. Raises UsageError."""
    try:
        root = Path(os.path.abspath(path.expanduser()))
        str(root).encode()
        is_there, is_folder = root.exists(), root.is_dir()
    except (OSError, ValueError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or "not a name that a folder can have"
        raise UsageError(f"target {shown!r}: {reason}; give another folder") from None
    if not is_there:
        raise UsageError(f"target {shown!r}: there is no such folder; create it or mount the share first")
    if not is_folder:
        raise UsageError(f"target {shown!r} is not a folder; give the folder that naslab shall work in")
    return root


def _parse_sim(shown: str, rest: str) -> Target:
    name, _, query = rest.partition("?")
    options: dict[str, Any] = _sim_file(shown, Path(unquote(name))) if name else {}
    for key, value in _query(shown, query).items():
        options[key] = _sim_value(shown, key, value)
    return Target(f"sim:{rest}", "sim", options)


def _sim_file(shown: str, path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"target {shown!r}: the file is not TOML: {error}; see docs/reference/sim.md") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"target {shown!r}: {reason}; give sim:FILE.toml or sim:?field=value") from None


def _sim_value(shown: str, key: str, value: str) -> Any:
    """Sizes, rates and times may carry a unit; tables (buckets, faults, files) are JSON."""
    where = f"target {shown!r}: {key}"
    if value[:1] in "[{" and value:
        try:
            return json.loads(value)
        except (json.JSONDecodeError, RecursionError) as error:
            raise UsageError(f"{where}: {value!r} is not JSON: {error}") from None
    if value.lower() in ("true", "false"):
        return value.lower() == "true"
    if key.endswith(("_ns", *_SIM_SIZES)):
        whole = value.isdecimal() and value.isascii()
        if key.endswith("_ns"):
            return int(value) if whole and len(value) < 20 else parse_duration(value, where)
        return parse_size(value, where)
    for number in (int, float):
        with contextlib.suppress(ValueError):
            found = number(value)
            if math.isfinite(found) and abs(found) < 1 << 64:
                return found
    return value


def _query(shown: str, query: str) -> dict[str, str]:
    """name=value pairs. Raises UsageError when malformed, or when a name comes twice."""
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query), encoding="utf-8")
    except ValueError:
        raise UsageError(f"target {shown!r}: {query!r} is not name=value&name=value") from None
    found = dict(pairs)
    if len(found) < len(pairs):
        raise UsageError(f"target {shown!r}: an option is given twice; give it once")
    return found


def _flag(shown: str, name: str, value: str) -> bool:
    if value.lower() in _TRUE:
        return True
    if value.lower() in _FALSE:
        return False
    raise UsageError(f"target {shown!r}: {name}={value!r}; use 1 or 0")
