"""`naslab doctor [TARGET]`: prints the findings of `naslab.commands.doctor`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from msgspec import to_builtins

from naslab.commands.doctor import Advice, Checkup, Step, check_target, describe_machine, machine_advice
from naslab.commands.doctor.advice import WRONG_CLOCK_NS
from naslab.commands.doctor.machine import Machine
from naslab.commands.doctor.nearby import advice, host_of, look, to_type
from naslab.errors import UsageError
from naslab.lab.opening import open_target
from naslab.targets import Target
from naslab.units import amount_text, duration_text, parse_duration

_LABELS = {"error": "FIX", "warning": "look at", "hint": "know"}


def run_doctor(target_text: str, timeout: str, credentials: Path | None, as_json: bool) -> int:
    """The command; 0 when usable, 1 when something prevents measuring. Raises UsageError."""
    timeout_ns = parse_duration(timeout, "--timeout")
    if timeout_ns <= 0:
        raise UsageError(f"--timeout {timeout!r}: give more than 0")
    if not target_text:
        if credentials is not None:
            raise UsageError(
                f"--credentials {credentials}: there is no login without TARGET; give TARGET or leave it out"
            )
        return _machine(as_json)
    if "://" not in target_text and (host := host_of(target_text)):
        return _host(host, timeout_ns, credentials, as_json)
    found = _checked(
        open_target(target_text, credentials, whole_server=True, timeout_ns=timeout_ns), timeout_ns, as_json
    )
    if as_json:
        json.dump(found.document(), sys.stdout)
        print()
    return 0 if found.usable else 1


def _checked(target: Target, timeout_ns: int, as_json: bool) -> Checkup:
    """The checkup of a target; told while it goes on, unless it is to be JSON."""
    if not as_json:
        print(f"naslab doctor {target.url}")
    found = check_target(target, timeout_ns, (lambda step: None) if as_json else _say_step)
    if not as_json:
        print(describe(found))
    return found


def _host(host: str, timeout_ns: int, credentials: Path | None, as_json: bool) -> int:
    """All protocols that a machine answers; 0 if one of them can be used. Raises UsageError where it answers none."""
    nearby = look(host)
    if not any(offer.open for offer in nearby.offers):
        raise UsageError(advice(nearby, "naslab doctor"))
    checkups = []
    for offer in nearby.offers:
        if offer.open:
            guest = "?auth=guest" if offer.scheme == "smb" and credentials is None else ""
            target = open_target(
                f"{offer.scheme}://{host}{guest}", credentials, whole_server=True, timeout_ns=timeout_ns
            )
            checkups.append(_checked(target, timeout_ns, as_json))
            if not as_json:
                print("\n".join(["", "Next:", *to_type(offer, host, "naslab run"), ""]))
    if as_json:
        json.dump({"schema": 1, "host": host, "checkups": [each.document() for each in checkups]}, sys.stdout)
        print()
    return 0 if any(each.usable for each in checkups) else 1


def _machine(as_json: bool) -> int:
    machine = describe_machine()
    advice = machine_advice(machine)
    if as_json:
        json.dump(to_builtins({"schema": 1, "machine": machine, "usable": True, "advice": advice}), sys.stdout)
        print()
    else:
        print(describe_in_words(machine))
        print(_advice_text(advice, "Nothing to fix on this machine."))
    return 0


def _say_step(step: Step) -> None:
    print(f"  {'ok  ' if step.ok else 'FAIL'}  {step.name:<8} {step.detail}", flush=True)


def describe(found: Checkup) -> str:
    """All but the steps, as text."""
    lines = []
    if found.exports is not None:
        what = "shares" if found.target.protocol == "smb" else "exports"
        lines += ["", f"The server's {what}:" if found.exports else f"The server lists no {what}."]
        lines += [f"  {_entry(entry)}" for entry in found.exports]
    if found.negotiated:
        lines += ["", "Negotiated:"]
        width = max(map(len, found.negotiated))
        lines += [f"  {name.replace('_', ' '):<{width}}  {value}" for name, value in found.negotiated.items()]
    if found.versions:
        lines += ["", f"Speaks {found.target.protocol.upper()} {', '.join(found.versions)}."]
    if found.rights:
        lines += ["", *_rights(found)]
    if found.space:
        lines.append(f"Space: {amount_text(found.space.free_bytes)} free of {amount_text(found.space.total_bytes)}.")
    if found.clock_ahead_ns is not None:
        lines.append(f"Clock: {_clock(found.clock_ahead_ns)}.")
    if found.round_trip_ns:
        trip = found.round_trip_ns
        times = f"{duration_text(trip.p50)} (p50), {duration_text(trip.p99)} (p99), {trip.count} times"
        lines.append(f"Null operation: {times}.")
    return "\n".join([*lines, _advice_text(found.advice, "Nothing to fix.")])


def _clock(ahead_ns: int) -> str:
    """The server's clock beside this machine's."""
    if abs(ahead_ns) < WRONG_CLOCK_NS:
        return "as this machine's"
    return f"{duration_text(abs(ahead_ns))} {'ahead of' if ahead_ns > 0 else 'behind'} this machine's"


def _entry(entry: dict[str, str]) -> str:
    kind = f" ({entry['kind']})" if entry.get("kind") not in (None, "", "disk", "export") else ""
    comment = f"  {entry['comment']}" if entry.get("comment") else ""
    return f"{entry['name']}{kind}{comment}"


def _rights(found: Checkup) -> list[str]:
    def names(allowed: bool | None) -> str:
        return ", ".join(name.replace("_", " ") for name, right in found.rights.items() if right.allowed is allowed)

    lines = [f"Allowed: {names(True) or 'nothing'}."]
    for name, right in found.rights.items():
        if right.allowed is False:
            lines.append(f"Not allowed, {name.replace('_', ' ')}: {right.error}.")
    if names(None):
        lines.append(f"Not tried: {names(None)}.")
    return lines


def _advice_text(advice: list[Advice], none: str) -> str:
    if not advice:
        return f"\n{none}"
    order = list(_LABELS)
    ranked = sorted(advice, key=lambda one: order.index(one.severity))
    return "\n".join(["", *(f"{_LABELS[one.severity]}: {one.message}" for one in ranked)])


def _held_to(machine: Machine) -> str:
    """What a control group leaves of the processors, in words; nothing where it leaves all."""
    quota = machine.cpu_quota_cores
    return f", a control group allows {quota:g}" if quota else ""


def describe_in_words(machine: Machine) -> str:
    """The machine as text."""
    uring, limit = machine.io_uring, machine.open_files_limit
    memory = amount_text(machine.memory_bytes) if machine.memory_bytes else "unknown"
    lines = [
        f"naslab {machine.naslab_version}, engine {machine.engine_version}, Python {machine.python}",
        f"  system      {machine.system}, {machine.machine}",
        f"  CPU         {machine.cpu}, {machine.cpus_usable} of {machine.cpus} usable{_held_to(machine)}",
        f"  memory      {memory}",
        f"  io_uring    {'available' if uring.available else 'not available: ' + str(uring.reason)}",
        f"  clock       {machine.clock_source or 'unknown'}",
        f"  open files  {limit.soft or 'any number'} (hard limit {limit.hard or 'none'})",
        f"  passwords   {'keyring, ' if machine.keyring else ''}NASLAB_PASSWORD, --credentials FILE, prompt",
    ]
    for interface in machine.interfaces or []:
        speed = interface.speed_bits_per_s
        rate = f", {speed / 1e9:g} Gbit/s" if speed else ""
        lines.append(f"  interface   {interface.name}, packets of {interface.mtu_bytes} bytes{rate}")
    lines += [f"  {name} = {value}" for name, value in machine.sysctls.items() if value is not None]
    missing = [program for program in machine.programs if program.path is None]
    there = [program.name for program in machine.programs if program.path]
    lines.append(f"Optional programs installed: {', '.join(there) or 'none'}.")
    lines += [f"  missing {one.name}: {one.used_for} (package {one.package})" for one in missing]
    return "\n".join(lines)
