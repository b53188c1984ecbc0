"""What the parser refuses, in one line: the option, the value, the next step."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any

from naslab.cli.caller import caller
from naslab.errors import UsageError

if TYPE_CHECKING:
    from naslab.cli.build import NaslabCommand

_RULES = (
    ("Input should be greater than or equal to ", "give at least "),
    ("Input should be less than or equal to ", "give at most "),
    ("Input should be a valid integer", "give a whole number"),
    ("Input should be a valid number", "give a number"),
)


def is_usage_error(error: Exception) -> bool:
    """Typer carries its own copy of click; its errors are known by shape, not by import."""
    by_shape = hasattr(error, "exit_code") and hasattr(error, "format_message")
    return by_shape or type(error).__name__ in ("Exit", "Abort")


def say_usage_error(error: Any, command: NaslabCommand) -> int:
    """Prints the line instead of click's block; the exit code. Raises UsageError for a Python program."""
    code = int(getattr(error, "exit_code", 2))
    if not hasattr(error, "format_message"):
        return code
    said = _sentence(error, command)
    said = f"{said}{' See' if said.endswith('?') else '; see'} naslab {command.entry.name} --help"
    if caller() is not None:
        raise UsageError(said)
    print(f"naslab: {said}", file=sys.stderr)
    return code


def _sentence(error: Any, command: NaslabCommand) -> str:
    if hasattr(error, "possibilities"):
        return _no_such_option(str(error.option_name), command)
    message = error.format_message().strip()
    message = re.sub(r"^Invalid value for '?(.*?)'?: ", r"\1: ", message).rstrip(".")
    for theirs, ours in _RULES:
        if theirs in message:
            option, _, rest = message.partition(theirs)
            message = option + ours + rest.partition(",")[0]
    return str(message)


def _no_such_option(option: str, command: NaslabCommand) -> str:
    """With the option that it is most like, of those that help shows and those accepted for them."""
    from naslab.cli.describe import options_of
    from naslab.cli.lookup import nearest

    known = [name for each in options_of(command) for name in (*each.opts, *each.secondary_opts)]
    found = nearest(option, [name for name in known if name not in command.hints])
    hint = f"; did you mean {found}?" if found else ""
    return f"{command.entry.name} has no option {option}{hint}"
