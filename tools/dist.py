"""What the tools that make packages share: versions, time stamps, where packages go, and cargo's options.

Two builds of one commit give the same bytes: no path of the machine and no time but the commit's gets into them.
"""

from __future__ import annotations

import hashlib
import importlib.machinery
import importlib.util
import os
import shutil
import subprocess
import sys
import tomllib
import venv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "target" / os.environ.get("NASLAB_DIST", "dist")
"""Packages."""
BUILD = ROOT / "target" / os.environ.get("NASLAB_DIST_BUILD", "packages")
"""Cargo's folder of them: their flags are others than those of `make build`, and either would build all anew."""
MACHINES = ("x86_64", "aarch64")


class PackagingError(Exception):
    """A package could not be made; the text says why and what to do."""


def version() -> str:
    """The version that all crates and packages have."""
    text = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))
    return str(text["workspace"]["package"]["version"])


def epoch() -> int:
    """Seconds of the time that packages carry: SOURCE_DATE_EPOCH, or the last commit's."""
    if given := os.environ.get("SOURCE_DATE_EPOCH"):
        return int(given)
    return int(output(["git", "log", "-1", "--format=%ct"]))


def output(command: Sequence[str | Path]) -> str:
    """What a command prints. Raises CalledProcessError."""
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def run(command: Sequence[str | Path], environment: Mapping[str, str] | None = None, cwd: Path = ROOT) -> None:
    """Runs a command quietly; its output comes with the error where it fails. Raises PackagingError."""
    merged = {**os.environ, **(environment or {})}
    done = subprocess.run(
        command, cwd=cwd, env=merged, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise PackagingError(f"{' '.join(map(str, command))} failed with {done.returncode}:\n{done.stdout[-4000:]}")


def need(program: str, package: str) -> None:
    """Raises PackagingError where a program is missing."""
    if shutil.which(program) is None:
        raise PackagingError(f"{program} is needed: apt install {package} (Debian, Ubuntu)")


def cargo_environment() -> dict[str, str]:
    """For cargo: the same bytes wherever it builds, without symbols, in a folder of its own."""
    home = os.environ.get("CARGO_HOME", str(Path.home() / ".cargo"))
    # Of several that fit a path rustc takes the last.
    places = {ROOT: "/naslab", BUILD: "/build", home: "/cargo"}
    flags = [f"--remap-path-prefix={place}={name}" for place, name in places.items()]
    return {
        "CARGO_ENCODED_RUSTFLAGS": "\x1f".join(flags),
        "CARGO_INCREMENTAL": "0",
        "CARGO_PROFILE_RELEASE_DEBUG": "none",
        "CARGO_PROFILE_RELEASE_STRIP": "symbols",
        "CARGO_TARGET_DIR": str(BUILD),
        "SOURCE_DATE_EPOCH": str(epoch()),
    }


def need_targets(*targets: str) -> None:
    """Raises PackagingError where Rust's standard library for one of these is missing."""
    libraries = Path(output(["rustc", "--print", "sysroot"])) / "lib" / "rustlib"
    missing = [target for target in targets if not (libraries / target / "lib").is_dir()]
    if missing:
        raise PackagingError(f"Rust cannot build for {' and '.join(missing)}: rustup target add {' '.join(missing)}")


def release_tools() -> Path:
    """The programs of constraints/release.txt, installed where they were not: their folder."""
    pinned = ROOT / "constraints" / "release.txt"
    place, stamp = BUILD / "venv", BUILD / "venv" / sha256(pinned)
    if not stamp.exists():
        venv.create(place, with_pip=True, clear=True)
        pip = [place / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        run([*pip, "--require-hashes", "-r", pinned])
        stamp.touch()
    return place / "bin"


def sha256(path: Path) -> str:
    """Hash of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def put(built: Path, name: str, mode: int = 0o644) -> Path:
    """Copies a package to where packages go."""
    DIST.mkdir(parents=True, exist_ok=True)
    place = DIST / name
    shutil.copyfile(built, place)
    place.chmod(mode)
    return place


def mirror() -> str:
    """This machine's own source of Debian's packages; empty: debootstrap's."""
    listed = [Path("/etc/apt/sources.list"), *sorted(Path("/etc/apt/sources.list.d").glob("*"))]
    words = [word for path in listed if path.is_file() for word in path.read_text("utf-8").split()]
    return next((word for word in words if word.startswith("http") and word.rstrip("/").endswith("/debian")), "")


def tool(name: str) -> Any:
    """Another of the tools, as a module."""
    loader = importlib.machinery.SourceFileLoader(name.replace("-", "_"), str(ROOT / "tools" / name))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[loader.name] = module
    loader.exec_module(module)
    return module


def told(made: Sequence[Path]) -> None:
    """Prints packages with their sizes."""
    for path in made:
        print(f"{path.relative_to(ROOT)}  {path.stat().st_size / 1e6:.1f} MB")


def main(make: object) -> int:
    """Calls what makes packages, which returns their paths; the exit code."""
    try:
        told(make())  # type: ignore[operator]
    except PackagingError as error:
        print(error, file=sys.stderr)
        return 1
    return 0
