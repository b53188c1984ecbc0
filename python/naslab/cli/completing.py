"""`naslab completion SHELL`, and what may follow what is typed so far, for the script that it prints.

The scripts hold no commands or options: they ask naslab at each Tab, so that they are never out of date.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Any
from urllib.parse import quote

import typer

from naslab.cli.describe import arguments_of, options_of, spellings
from naslab.cli.lookup import Choice, choose, shown
from naslab.cli.registry import ASK
from naslab.errors import UsageError

FILES, FOLDERS = ":files", ":folders"
"""Lines that leave the rest to the shell."""
MAX_RUNS, MAX_TARGETS = 30, 20
Answer = tuple[str, str]
"""A word that may stand there, and what it means."""
BASH = """\
_naslab() {
    local line=${COMP_LINE:0:COMP_POINT} word text cur prefix=
    local -a words
    read -ra words <<< "$line"
    [[ $line == *[[:space:]] ]] && words+=("")
    cur=${words[-1]}
    # Bash itself takes a word after : and = for a new one.
    [[ $cur == *[:=]* ]] && prefix=${cur%"${cur##*[:=]}"}
    COMPREPLY=()
    while IFS=$'\\t' read -r word text; do
        case $word in
            :files) compopt -o filenames; mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -f -- "${cur#*=}") ;;
            :folders) compopt -o filenames; mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -d -- "${cur#*=}") ;;
            *) COMPREPLY+=("${word#"$prefix"}")
               [[ $word == *[:=/] ]] && compopt -o nospace ;;
        esac
    done < <("${words[0]}" ASK "${words[@]:1}" 2>/dev/null)
}
complete -o nosort -F _naslab naslab
"""
ZSH = """\
#compdef naslab
_naslab() {
    local line word
    local -a found
    for line in "${(@f)$("${words[1]}" ASK "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
        word=${line%%$'\\t'*}
        case $word in
            '') ;;
            :files) _files ;;
            :folders) _files -/ ;;
            *) found+=("${word//:/\\\\:}:${line#*$'\\t'}") ;;
        esac
    done
    (( $#found )) && _describe -V naslab found
}
compdef _naslab naslab
"""
FISH = """\
function __naslab
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    for line in (command $words[1] ASK $words[2..] "$current" 2>/dev/null)
        switch $line
            case ':files'
                __fish_complete_path "$current"
            case ':folders'
                __fish_complete_directories "$current" ''
            case '*'
                printf '%s\\n' $line
        end
    end
end
complete -c naslab -f -k -a '(__naslab)'
"""
SCRIPTS = {shell: text.replace("ASK", ASK) for shell, text in (("bash", BASH), ("zsh", ZSH), ("fish", FISH))}

ShellArg = Annotated[
    str, typer.Argument(metavar="bash|zsh|fish", help="The shell that will read the script.", show_default=False)
]


def completion(shell: ShellArg) -> int:
    """Print a script that lets the shell complete commands, options, runs and targets of naslab."""
    if shell not in SCRIPTS:
        raise UsageError(f"completion {shell!r}: choose one of {', '.join(SCRIPTS)}")
    print(SCRIPTS[shell], end="")
    return 0


def answer(words: Sequence[str]) -> int:
    """Prints what may stand in place of the last of `words`, a line each: the word, a tab, what it means."""
    for word, text in candidates(list(words) or [""]):
        print(f"{word}\t{text}" if text else word)
    return 0


def candidates(words: list[str]) -> list[Answer]:
    """What may stand in place of the last of `words`, which follow `naslab`."""
    *before, current = words
    if before[:1] == ["help"]:
        return _fitting(_names(before[1:]), current)
    choice = choose(before)
    if choice is None:
        more = [("help", "Help for a command"), ("version", "The version")] if not before else []
        return _fitting([*_names(before), *more], current)
    found = _names(choice.command.name.split()) if not choice.rest else []
    if choice.command.own_syntax:
        return [(FILES, "")]
    return _fitting(found, current) + (_after_command(choice, current) if choice.command.where else [])


def _names(before: list[str]) -> list[Answer]:
    """The words that continue a command's name."""
    found: dict[str, str] = {}
    for command in shown():
        words = command.name.split()
        if words[: len(before)] == before and len(words) > len(before):
            found.setdefault(words[len(before)], command.brief)
    return list(found.items())


def _fitting(found: Iterable[Answer], current: str) -> list[Answer]:
    return [each for each in found if each[0].startswith(current)]


def _after_command(choice: Choice, current: str) -> list[Answer]:
    from naslab.cli.build import parser_of

    command = parser_of(choice.command.name)
    named = {name: option for option in options_of(command) for name in (*option.opts, *option.secondary_opts)}
    name, equals, value = current.partition("=")
    if equals and name in named:
        return [(each if each in (FILES, FOLDERS) else f"{name}={each}", text)
                for each, text in _values(str(named[name].metavar), value)]  # fmt: skip
    last = named.get(choice.rest[-1]) if choice.rest else None
    if last is not None and not last.is_flag:
        return _values(str(last.metavar), current)
    if current.startswith("-"):
        used = {named[word].name for word in choice.rest if word in named and not named[word].multiple}
        listed = [(each, option) for option in options_of(command) for each in spellings(command, option)]
        rows = [(each, str(option.help)) for each, option in listed if option.name not in used and each[:2] == "--"]
        return _fitting([*rows, ("--help", "Show this help.")], current)
    arguments = arguments_of(command)
    at = _positional(choice.rest, named)
    if not arguments or (at >= len(arguments) and not str(arguments[-1].metavar).endswith("...")):
        return []
    return _values(str(arguments[min(at, len(arguments) - 1)].metavar), current)


def _positional(words: list[str], named: dict[str, Any]) -> int:
    """How many of the words are arguments and neither options nor their values."""
    count, skip = 0, False
    for word in words:
        if skip:
            skip = False
        elif word.startswith("-") and word != "-":
            skip = word in named and not named[word].is_flag
        else:
            count += 1
    return count


def _values(metavar: str, current: str) -> list[Answer]:
    """What a value may be, by its word in the help."""
    if "RUN" in metavar.rsplit("=", maxsplit=1)[-1]:
        return _fitting(_runs(), current) or [(FILES, "")]
    if "TARGET" in metavar:
        return [*_fitting(_targets(current), current), (FOLDERS, "")]
    if any(word in metavar for word in ("DIR", "FOLDER")):
        return [(FOLDERS, "")]
    if any(word in metavar for word in ("FILE", "PATH", "TRACE", "JOURNAL", "IN", "CMD")):
        return [(FILES, "")]
    choices = metavar.strip("[]").split("|")
    return _fitting([(each, "") for each in choices], current) if len(choices) > 1 else []


def _runs() -> Iterator[Answer]:
    yield "last", "the newest run"
    query = f"SELECT run_id, command, target FROM runs ORDER BY start_wall_ns DESC LIMIT {MAX_RUNS}"
    for run_id, command, target in _stored(query):
        yield run_id, f"{command} {target}"


def _targets(current: str) -> Iterator[Answer]:
    """Targets of stored runs, the lab's systems, then how others begin."""
    newest = f"SELECT target, max(start_wall_ns) FROM runs GROUP BY target ORDER BY 2 DESC LIMIT {MAX_TARGETS}"
    yield from ((target, "measured before") for target, _ in _stored(newest))
    if current.startswith("lab:"):
        from naslab.lab.systems import names

        yield from ((f"lab:{name}", "a server of the lab") for name in names())
        return
    yield "smb://", "a share, directly"
    yield "nfs://", "an export, directly"
    yield "lab:", "a server of the lab"
    yield "sim:", "a simulated server"
    yield "null:", "the limits of the engine itself"


def _stored(query: str) -> list[tuple[Any, ...]]:
    """Rows of the store, which is neither made nor changed; none where it cannot be read."""
    from naslab.results.store.store import default_path

    path = default_path()
    if not os.path.exists(path):
        return []
    try:
        database = sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True, timeout=0.2)
        try:
            return list(database.execute(query))
        finally:
            database.close()
    except sqlite3.Error:
        return []
