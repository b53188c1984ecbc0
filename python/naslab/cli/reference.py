"""docs/reference/cli.md, made from the commands themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from naslab.cli.build import parser_of
from naslab.cli.describe import (
    arguments_of,
    default_of_argument,
    default_text,
    names_text,
    options_of,
    other_spelling,
    range_text,
    usage,
)  # fmt: skip
from naslab.cli.lookup import old_names, parts_of, shown
from naslab.cli.registry import PANELS, Command

if TYPE_CHECKING:
    from naslab.cli.build import NaslabCommand

_INTRO = """\
# The command line

<!-- Made by tools/make-docs from naslab/cli; edit the help texts there instead. -->

`naslab COMMAND --help` prints the same. Sizes: `64k`, `1m`, `2g` are powers of 1024, `64kB`, `1MB` powers of
1000. Durations: `200us`, `30s`, `5m`, `1h`; a bare number is seconds. Throughput is printed in MB/s (10^6).

A TARGET is one of

- `/mnt/nas`, `./folder`: a folder, with `?engine=posix|uring` and `?direct=1`;
- `smb://[domain;][user@]host[:port]/share[/dir]` or `\\\\host\\share[\\dir]`: a share, accessed directly;
  [options](../guide/direct.md) pin dialect, signing, encryption and connections;
- `nfs://host[:port]/export[/dir]`: an export, accessed directly; [options](../guide/direct.md) pin version,
  ports, identity and connections;
- `lab:NAME[?share=...&option=...]`: a private server of [the lab](../guide/lab.md), started for the command and
  removed afterwards;
- `sim:?field=value&...` or `sim:FILE.toml`: a simulated server ([fields](sim.md));
- `null:`, which answers at once and shows the limits of the engine itself.

Everything happens in one folder `naslab-<run id>` inside the target, which is removed at the end. A RUN is an
id, a unique prefix of one, `last`, or a file that `naslab export` wrote.

Results go to standard output, progress and messages to standard error. With `--json` standard output holds
exactly one JSON document ([fields](run-document.md)).

| exit code | meaning |
|---|---|
| 0 | done, even if `--budget` ended the run early |
| 1 | it ran, but failed; what was measured is stored |
| 2 | refused: a wrong option, a target that cannot carry out the plan; nothing was measured or stored |
| 130 | interrupted by Ctrl-C (a run also by SIGTERM or SIGHUP); what was measured is stored |
"""

_FORM = "<!-- example: the form of the command -->"
_TESTED = "<!-- tested by: tests/e2e/test_cli_examples.py::test_an_example_works -->"


_FOREIGN = {
    "iozone": "Its options are IOzone's: [the list](iozone.md).",
    "diskspd": "Its options are DiskSpd's: [the list](diskspd.md), [examples](../guide/diskspd.md).",
}


def reference_page() -> str:
    """The page as Markdown."""
    parts = [_INTRO, _overview(), _old()]
    for entry in shown():
        heading = "###" if " " in entry.name and not entry.name.startswith("compare ") else "##"
        parts.append(f"{heading} naslab {entry.name}\n\n" + _body(entry))
    return "\n".join(parts)


def _overview() -> str:
    """A table of the commands, panel by panel."""
    lines = ["| command | what it does |", "|---|---|"]
    for panel in PANELS:
        lines.append(f"| **{panel}** | |")
        lines += [f"| [`{each.name}`](#naslab-{each.name.replace(' ', '-')}) | {_cell(each.brief)} |"
                  for each in shown() if each.panel == panel]  # fmt: skip
    return "\n".join(lines) + "\n"


def _old() -> str:
    names = [f"`naslab {old}` is `naslab {new}`" for old, new in old_names().items()]
    return f"Old names work until the next release, with a hint: {', '.join(names)}.\n"


def _body(entry: Command) -> str:
    if entry.own_syntax:
        lines = [
            _FORM,
            "```text",
            f"naslab {entry.name} [ARGS]...",
            "```",
            "",
            f"{entry.brief}. {_FOREIGN[entry.name]}",
            "",
            "In addition to that tool's own options:",
            "",
            *(f"- `{each.option} {_cell(each.value)}`: {_cell(each.text)}" for each in entry.shared()),
        ]
    elif not entry.where:
        form = f"naslab {entry.name} COMMAND [OPTIONS]"
        lines = [_FORM, "```text", form, "```", "", f"{entry.brief}.", "", *_parts(entry)]
    else:
        lines = _described(parser_of(entry.name))
    lines += ["", "Examples:", "", _TESTED, "```"]
    width = max(len(example.line) for example in entry.examples)
    lines += [f"{example.line:<{width}}  # {example.does}" for example in entry.examples]
    return "\n".join([*lines, "```"]) + "\n"


def _parts(entry: Command) -> list[str]:
    rows = [f"| `{part.name}` | {_cell(part.brief)} |" for part in parts_of(entry.name)]
    return ["| command | what it does |", "|---|---|", *rows]


def _described(command: NaslabCommand) -> list[str]:
    lines = [_FORM, "```text", usage(command), "```", "", str(command.help).strip()]
    if arguments := arguments_of(command):
        lines += ["", "| argument | meaning |", "|---|---|"]
        lines += [f"| `{p.metavar.strip('[].')}` | {_cell(p.help)}{_argument_default(p)} |" for p in arguments]
    if options := options_of(command):
        lines += ["", "| option | default | meaning |", "|---|---|---|"]
        lines += [f"| {_names(command, p)} | {_default(p)} | {_meaning(command, p)} |" for p in options]
    return lines


def _cell(text: str | None) -> str:
    return (text or "").replace("|", "\\|").replace("\n", " ")


def _names(command: NaslabCommand, parameter: Any) -> str:
    """`-o`, `--output FILE`."""
    return ", ".join(f"`{_cell(name)}`" for name in names_text(command, parameter).split(", "))


def _meaning(command: NaslabCommand, parameter: Any) -> str:
    other = other_spelling(command, parameter)
    return _cell(parameter.help) + range_text(parameter) + (f" `{other}` is accepted for it." if other else "")


def _default(parameter: Any) -> str:
    """A value and a variable as code, words as they are."""
    text = default_text(parameter)
    if parameter.envvar:
        text = text.replace(str(parameter.envvar), f"`{parameter.envvar}`", 1)
    is_value = text == str(parameter.default) and not isinstance(parameter.show_default, str)
    return f"`{text}`" if is_value else _cell(text)


def _argument_default(parameter: Any) -> str:
    default = default_of_argument(parameter)
    return f" (default `{default}`)" if default else ""
