"""The ladder within `naslab run`, and `naslab explain RUN`."""

from __future__ import annotations

from typing import Any

from naslab.analysis.validity import is_local_disk
from naslab.cli.common import Budget
from naslab.cli.progress import Progress
from naslab.client.limit import processors
from naslab.client.route import nic_bytes_per_s, route_to_all
from naslab.commands.plans.sweep import SweepOptions
from naslab.execution.execute import Execution
from naslab.execution.validity_watch import addresses_of
from naslab.explain import outcome, steps
from naslab.explain.climb import Climb
from naslab.explain.evidence import Evidence, slots_of
from naslab.targets.target import SERVERS


def climb_ladder(
    execution: Execution, progress: Progress, options: SweepOptions, budget_ns: int, room_bytes: int,
    most_bytes: int | None,
) -> None:  # fmt: skip
    """Climbs, and keeps ladder and verdict with the run, however far it came."""
    protocol = execution.target.protocol
    facts: dict[str, Any] = execution.document["environment"]["target"]
    bounds = steps.bounds_of(
        execution.caps, budget_ns, room_bytes, most_bytes, options.data, options.seed, protocol, facts
    )  # fmt: skip
    evidence = Evidence(
        granted_depth=bounds.most_depth if bounds.granted else None, most_depth=bounds.most_depth,
        slots=slots_of(protocol, facts, int(execution.caps["max_depth"])), client_cpus=processors(),
        nic_bytes_per_s=_interface(execution, facts), simulated=protocol == "sim", protocol=protocol,
        local_disk=is_local_disk(protocol, facts), same_machine=_is_here(execution),
    )  # fmt: skip
    budget = Budget(budget_ns, execution)
    budget.begin()
    climb = Climb(execution, progress, bounds, budget, evidence)
    try:
        climb.climb()
    finally:
        if execution.begun:
            progress.step("what the measurements say")
            found = outcome.parts(climb)
            execution.keep(**found)


def _is_here(execution: Execution) -> bool:
    """Whether the server runs on this machine, and shares its processors with the client."""
    if execution.target.protocol not in SERVERS:
        return False
    route = route_to_all(addresses_of(execution.target, execution.document["environment"]["target"]))
    return route is not None and route["loopback"]


def _interface(execution: Execution, facts: dict[str, Any]) -> int | None:
    """What the client's own network interface carries; None where there is none on the way, or nobody knows."""
    if execution.target.protocol not in SERVERS:
        return facts.get("client_nic_bytes_per_s") or None
    return nic_bytes_per_s(addresses_of(execution.target, facts))
