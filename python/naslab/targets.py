"""What to measure: target names of the command line turned into what the engine needs.

Forms (DESIGN.md section 3): `/path`, `./path` with `?engine=posix|uring&direct=1`; `sim:` with the
simulator's fields as a query, `sim:FILE.toml`; `null:`. `smb://`, `nfs://`, UNC and `lab:` names are
recognised and refused until their clients are built.
"""

from __future__ import annotations

import contextlib
import json
import os
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote

from naslab.errors import UsageError
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

    def engine_json(self) -> str:
        """`engine_spec` as JSON text."""
        return json.dumps(self.engine_spec())


def parse_target(text: str) -> Target:
    """The target that `text` names. Raises UsageError naming the text and the next step."""
    if text.startswith("\\\\"):
        raise UsageError(f"target {text!r}: {_NOT_YET['smb']}")
    scheme, colon, rest = text.partition(":")
    if colon and len(scheme) > 1 and scheme.isalnum() and not Path(text).exists():
        return _parse_scheme(text, scheme.lower(), rest)
    return _parse_path(text)


def _parse_scheme(text: str, scheme: str, rest: str) -> Target:
    if scheme == "null":
        if rest.strip("/?"):
            raise UsageError(f"target {text!r}: null: takes no options")
        return Target("null:", "null")
    if scheme == "sim":
        return _parse_sim(text, rest)
    if scheme in _NOT_YET:
        raise UsageError(f"target {scheme}: {_NOT_YET[scheme]}")
    raise UsageError(f"target {text!r}: unknown kind {scheme!r}; give a path, sim:… or null:")


def _parse_path(text: str) -> Target:
    path_text, options = text, {}
    if "?" in text and not Path(text).exists():
        path_text, _, query = text.partition("?")
        options = dict(_query(text, query))
    path = Path(path_text).expanduser()
    root = Path(os.path.abspath(path))
    if not root.exists():
        raise UsageError(f"target {path_text!r}: there is no such folder; create it or mount the share first")
    if not root.is_dir():
        raise UsageError(f"target {path_text!r} is a file; give the folder that naslab shall work in")
    engine = options.pop("engine", "auto")
    if engine not in ("auto", "posix", "uring"):
        raise UsageError(f"target {text!r}: engine={engine!r}; use auto, posix or uring")
    direct = _flag(text, "direct", options.pop("direct", "0"))
    if options:
        unknown = ", ".join(options)
        raise UsageError(f"target {text!r}: unknown option {unknown}; a path takes engine= and direct=")
    return Target(text if path_text != text else str(root), "local", {"root": str(root), "engine": engine}, direct)


def _parse_sim(text: str, rest: str) -> Target:
    name, _, query = rest.partition("?")
    options: dict[str, Any] = {}
    if name:
        options = _sim_file(text, Path(unquote(name)))
    for key, value in _query(text, query):
        options[key] = _sim_value(key, value)
    return Target(text, "sim", options)


def _sim_file(text: str, path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text())
    except OSError as error:
        raise UsageError(f"target {text!r}: {path}: {error.strerror}; give sim:FILE.toml or sim:?field=value") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"target {text!r}: {path} is not TOML: {error}") from None


def _sim_value(key: str, value: str) -> Any:
    """Sizes, rates and times may carry a unit; tables (buckets, faults, files) are JSON."""
    if value[:1] in "[{":
        try:
            return json.loads(value)
        except json.JSONDecodeError as error:
            raise UsageError(f"{key}: {value!r} is not JSON: {error}") from None
    if value.lower() in ("true", "false"):
        return value.lower() == "true"
    if key.endswith(("_ns", *_SIM_SIZES)) and not value.isdigit():
        return parse_duration(value, key) if key.endswith("_ns") else parse_size(value, key)
    for number in (int, float):
        with contextlib.suppress(ValueError):
            return number(value)
    return value


def _query(text: str, query: str) -> list[tuple[str, str]]:
    try:
        return parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query))
    except ValueError:
        raise UsageError(f"target {text!r}: {query!r} is not name=value&name=value") from None


def _flag(text: str, name: str, value: str) -> bool:
    if value.lower() in _TRUE:
        return True
    if value.lower() in _FALSE:
        return False
    raise UsageError(f"target {text!r}: {name}={value!r}; use 1 or 0")
