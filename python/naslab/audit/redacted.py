"""An audit that names nobody: the numbers are checked as they are, and only its findings lose their names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from naslab.audit.finding import Finding
from naslab.audit.subject import Subject
from naslab.exchange.redact import Names, words_about

if TYPE_CHECKING:
    from naslab.results.run import Run


def nameless(runs: Sequence[tuple[str, Run]], names: Names) -> list[tuple[str, Run]]:
    """(name, run) with a name that tells nothing: a run's id, which is a time, or `file-1`. What everybody has keeps
    its own."""
    return [(name if name.startswith("published:") else _name(name, run, names), run) for name, run in runs]


def _name(name: str, run: Run, names: Names) -> str:
    stored = name == "last" or run.run_id.startswith(name)
    return run.run_id if stored else names.of("file", name)


def without_names(found: Sequence[tuple[Subject, list[Finding]]], names: Names) -> list[tuple[Subject, list[Finding]]]:
    """Findings with the words and numbers that may stay (`naslab.exchange.redact`)."""
    return [(subject, [_cleared(each, subject, names) for each in told]) for subject, told in found]


def _cleared(finding: Finding, subject: Subject, names: Names) -> Finding:
    clear = words_about(subject.run, names)
    numbers = {name: clear(value) if isinstance(value, str) else value for name, value in finding.numbers.items()}
    return replace(
        finding, message=clear(finding.message), next=clear(finding.next), where=clear(finding.where), numbers=numbers
    )
