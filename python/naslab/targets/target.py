"""A target as the command line names it, ready for the engine."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from naslab.execution.clients.run import Clients
    from naslab.execution.monitor import Monitor

DEFAULT_TIMEOUT_NS = 30_000_000_000
"""What servers are given to answer when no `--timeout` says otherwise."""
SERVERS = ("smb", "nfs")
"""Protocols that naslab speaks itself."""


class Secret:
    """A password on its way to the engine. No text form, no JSON form: it cannot be stored or shown by mistake."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """The password itself; for the engine only."""
        return self._text

    def __repr__(self) -> str:
        return "***"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("a password is not written to files or sent to other processes")

    def __deepcopy__(self, _memo: object) -> Secret:
        return self


@dataclass(frozen=True)
class Target:
    """What to measure.

    url: for results, without secrets. protocol: `local`, `sim`, `null`, `smb` or `nfs`. options: for the
    engine, without the password. direct: unbuffered I/O was asked for with `?direct=1`. password: kept apart
    from everything that is stored. whole_server: names a server but no share or export; only `doctor` takes
    it. may_log_in: neither user nor way of logging in was named, so credentials found elsewhere count, and
    without any it is a guest's login. warnings: (kind, message) pairs that belong to the run. lab: of the lab's
    server that a lab: target stands for: name, url, planted (its limits with what calibration found), calibrated_at,
    net (the network namespace that reaches it, None for the host's). clients: many, which measure it together.
    monitor: who watches its server meanwhile.
    """

    url: str
    protocol: str
    options: dict[str, Any] = field(default_factory=dict)
    direct: bool = False
    password: Secret | None = field(default=None, repr=False)
    whole_server: bool = False
    may_log_in: bool = False
    warnings: tuple[tuple[str, str], ...] = ()
    lab: dict[str, Any] | None = None
    clients: Clients | None = field(default=None, repr=False, compare=False)
    monitor: Monitor | None = field(default=None, repr=False, compare=False)

    def engine_spec(self) -> dict[str, Any]:
        """What the engine makes the target from. Holds the password: never store or show it."""
        spec = self.stored_spec()
        if self.password is not None:
            spec["options"]["password"] = self.password.reveal()
        return spec

    def stored_spec(self) -> dict[str, Any]:
        """The same without the password, as it is kept with the run."""
        return {"protocol": self.protocol, "options": dict(self.options)}

    def engine_json(self) -> str:
        """`engine_spec` as JSON text."""
        return json.dumps(self.engine_spec())

    def seeded(self, seed: int) -> Target:
        """The same, with the run's seed for a simulated server whose name gives none."""
        if self.protocol != "sim" or "seed" in self.options:
            return self
        return self.with_options(seed=seed)

    def with_timeout(self, timeout_ns: int) -> Target:
        """The same, with the longest time its server may take for one answer."""
        return self.with_options(timeout_ns=timeout_ns) if self.protocol in SERVERS else self

    def with_options(self, **options: Any) -> Target:
        """The same with some of the engine's options set anew."""
        return dataclasses.replace(self, options={**self.options, **options})

    def warned(self, kind: str, message: str) -> Target:
        """The same with one more warning for the run."""
        return dataclasses.replace(self, warnings=(*self.warnings, (kind, message)))
