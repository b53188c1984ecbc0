"""docs/reference/cli.md, made from the commands themselves."""

from __future__ import annotations

from typing import Any

from naslab.cli.app import typer_app

_INTRO = """\
# The command line

<!-- Made by tools/make-docs from naslab/cli; edit the help texts there instead. -->

`naslab COMMAND --help` prints the same. Sizes: `64k`, `1m`, `2g` are powers of 1024, `64kB`, `1MB` powers of
1000. Durations: `200us`, `30s`, `5m`, `1h`; a bare number is seconds. Throughput is printed in MB/s (10^6).

A TARGET is one of

- `/mnt/nas`, `./folder`: a folder, with `?engine=posix|uring` and `?direct=1`;
- `smb://[domain;][user@]host[:port]/share[/dir]` or `\\\\host\\share[\\dir]`: a share, spoken to directly;
  [options](../guide/direct.md) pin dialect, signing, encryption and connections;
- `nfs://host[:port]/export[/dir]`: an export, spoken to directly; [options](../guide/direct.md) pin version,
  ports, identity and connections;
- `lab:NAME[?share=...&option=...]`: a private server of [the lab](../guide/lab.md), started for the command and
  removed after it;
- `sim:?field=value&...` or `sim:FILE.toml`: a simulated server ([fields](sim.md));
- `null:`, which answers at once and shows the engine's own floor.

Everything happens in one folder `naslab-<run id>` inside the target, which is removed at the end. A RUN is an
id, a unique prefix of one, `last`, or a file that `naslab export` wrote.

Results go to standard output, progress and messages to standard error. With `--json` standard output holds
exactly one JSON document ([fields](run-document.md)).

| exit code | meaning |
|---|---|
| 0 | done; a run that `--budget` ended early too |
| 1 | it ran, but failed; what was measured is stored |
| 2 | refused: a wrong option, a target that cannot take the plan; nothing was measured or stored |
| 130 | interrupted by Ctrl-C (a run also by SIGTERM or SIGHUP); what was measured is stored |
"""

_FORM = "<!-- example: the form of the command -->"


def reference_page() -> str:
    """The page as Markdown."""
    root = typer_app()
    parts = [_INTRO]
    for name, command in root.commands.items():
        parts.append(_command(name, command))
        parts += ["#" + _command(f"{name} {part}", one) for part, one in getattr(command, "commands", {}).items()]
    return "\n".join(parts)


def _command(name: str, command: Any) -> str:
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name == "option"]
    words = [f"naslab {name}", *(p.metavar for p in arguments)]
    if options:
        words.append("[OPTIONS]")
    lines = [f"## naslab {name}", "", _FORM, "```text", " ".join(words), "```", "", command.help.strip()]
    if name == "iozone":
        lines += ["", "Its options are IOzone's: [the list](iozone.md)."]
        return "\n".join(lines) + "\n"
    if name == "diskspd":
        lines += ["", "Its options are DiskSpd's: [the list](diskspd.md), [examples](../guide/diskspd.md)."]
        return "\n".join(lines) + "\n"
    if arguments:
        lines += ["", "| argument | meaning |", "|---|---|"]
        lines += [f"| `{p.metavar.strip('[].')}` | {_cell(p.help)}{_default_of_argument(p)} |" for p in arguments]
    if options:
        lines += ["", "| option | default | meaning |", "|---|---|---|"]
        lines += [f"| {_names(p)} | {_default(p)} | {_cell(p.help)}{_range(p)} |" for p in options]
    return "\n".join(lines) + "\n"


def _cell(text: str | None) -> str:
    return (text or "").replace("|", "\\|").replace("\n", " ")


def _names(parameter: Any) -> str:
    """`-o`, `--output FILE`."""
    value = "" if parameter.is_flag else f" {_cell(parameter.metavar)}"
    return ", ".join(f"`{name}{value if name.startswith('--') else ''}`" for name in sorted(parameter.opts, key=len))


def _default(parameter: Any) -> str:
    if parameter.required:
        return "required"
    environment = f"`{parameter.envvar}`, else " if parameter.envvar else ""
    if isinstance(parameter.show_default, str):
        return environment + parameter.show_default
    if parameter.is_flag:
        return "off"
    if parameter.default in (None, "", (), []):
        return environment + "none"
    return f"{environment}`{parameter.default}`"


def _default_of_argument(parameter: Any) -> str:
    return "" if parameter.required or not parameter.default else f" (default `{parameter.default}`)"


_ENDS = ("min", "max")
"""Attributes of an option, or in other versions of Typer of its type."""


def _range(parameter: Any) -> str:
    low, high = (getattr(parameter, name, getattr(getattr(parameter, "type", None), name, None)) for name in _ENDS)
    if low is None and high is None:
        return ""
    if high is None or high >= 1 << 62:
        return f" At least {low:g}."
    return f" {low:g} to {high:g}."
