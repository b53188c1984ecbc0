"""A command's arguments and options described, for its help, the reference page and the man page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from naslab.cli.registry import SYNONYMS

if TYPE_CHECKING:
    from naslab.cli.build import NaslabCommand

OWN = "Options"
FEW_OPTIONS = 12
"""Up to so many options share one panel."""
_PANELS = {
    "Data": ("--durability", "--cache", "--direct", "--cold", "--compress", "--dedupe", "--verify", "--seed"),
    "Price": ("--price-per-hour", "--price-per-month", "--price-per-gb", "--stored"),
    "Server and limits": ("--credentials", "--timeout", "--budget", "--max-bytes"),
    "Result": ("--label", "--note", "--output", "--force", "--details", "--redact", "--store", "--json", "--quiet"),
}
PANEL_OF = {option: panel for panel, options in _PANELS.items() for option in options}
"""The panel of an option in the help of a command with many; others are the command's own."""
_NO_BRACKETS = str.maketrans("", "", "[]")
_ENDS = ("min", "max")
"""Attributes of an option, or in other versions of Typer of its type."""


def arguments_of(command: NaslabCommand) -> list[Any]:
    """The positional parameters."""
    return [each for each in command.params if each.param_type_name == "argument"]


def options_of(command: NaslabCommand) -> list[Any]:
    """The options that are shown, in the function's order."""
    params: list[Any] = list(command.params)
    return [each for each in params if each.param_type_name == "option" and not each.hidden]


def usage(command: NaslabCommand) -> str:
    """`naslab sweep [TARGET] [OPTIONS]`; options come first where what follows is another program's."""
    words = [str(each.metavar) for each in arguments_of(command)]
    options = ["[OPTIONS]"]
    first = command.context_settings.get("allow_interspersed_args") is False
    return " ".join(["naslab", command.entry.name, *([*options, *words] if first else [*words, *options])])


def panels_of(command: NaslabCommand) -> list[tuple[str, list[tuple[str, str]]]]:
    """(panel, rows of (names, text)) for the help, arguments first."""
    found: dict[str, list[tuple[str, str]]] = {"Arguments": [], OWN: [], **{name: [] for name in _PANELS}}
    for each in arguments_of(command):
        found["Arguments"].append(
            (each.metavar.translate(_NO_BRACKETS), each.help + _in_brackets(default_of_argument(each)))
        )
    options = options_of(command)
    few = sum(1 for each in options if not each.rich_help_panel) <= FEW_OPTIONS
    for each in options:
        panel = each.rich_help_panel or (OWN if few else PANEL_OF.get(each.opts[0], OWN))
        default = "" if default_text(each) in ("none", "off") else default_text(each)
        text = f"{_with_other(command, each)}{range_text(each)}{_in_brackets(default)}"
        found.setdefault(panel, []).append((names_text(command, each), text))
    found[OWN].append(("-h, --help", "Show this help."))
    return [(name, rows) for name, rows in found.items() if rows]


def names_text(command: NaslabCommand, option: Any) -> str:
    """`-o, --output FILE`, `--sweep/--no-sweep`."""
    names = sorted(spellings(command, option), key=len)
    if option.is_flag:
        return "/".join([", ".join(names), *option.secondary_opts])
    return f"{', '.join(names)} {option.metavar}"


def spellings(command: NaslabCommand, option: Any) -> list[str]:
    """The names of an option that are shown."""
    return command.shown[str(option.name)]


def other_spelling(command: NaslabCommand, option: Any) -> str:
    """The word of a related command that is accepted for this option; empty where there is none."""
    return next((each for each in option.opts if each in SYNONYMS and each not in spellings(command, option)), "")


def _with_other(command: NaslabCommand, option: Any) -> str:
    other = other_spelling(command, option)
    return f"{option.help} Or {other}." if other else str(option.help)


def _in_brackets(default: str) -> str:
    return f" [{default}]" if default else ""


def default_text(parameter: Any) -> str:
    """What holds without the option, in words: `required`, `none`, `off`, a value, or what the option says."""
    if parameter.required:
        return "required"
    environment = f"{parameter.envvar}, else " if parameter.envvar else ""
    if isinstance(parameter.show_default, str):
        return environment + parameter.show_default
    if parameter.is_flag:
        return "on" if parameter.default is True else "off"
    if parameter.default in (None, "", (), []):
        return environment + "none"
    return f"{environment}{parameter.default}"


def default_of_argument(parameter: Any) -> str:
    """The default of an argument; empty where it has none."""
    return "" if parameter.required or not parameter.default else str(parameter.default)


def range_text(parameter: Any) -> str:
    """` 1 to 4096.` after the text of an option that takes a number; empty for others."""
    low, high = (getattr(parameter, name, getattr(getattr(parameter, "type", None), name, None)) for name in _ENDS)
    if low is None and high is None:
        return ""
    if high is None or high >= 1 << 62:
        return f" At least {low:g}."
    return f" {low:g} to {_number(high)}."


def _number(value: float) -> str:
    """`4096`, `1.05`, and `2,000,000` instead of 2e+06."""
    return f"{value:,.0f}" if value >= 10_000 else f"{value:g}"
