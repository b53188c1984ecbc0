"""Real systems of the truth tests: how they are drawn, the arithmetic of their limits, the relay. No root needed."""

from __future__ import annotations

import socket
import threading
from typing import Any

import pytest

from truth import real_truth
from truth.real_relay import Plan, Relay, Tokens, is_stopped
from truth.real_systems import KINDS, System, draw
from truth.real_truths import APART, CLASSES, Class, RealTruth, truths

COSTS = {" ".join(where): {"ops_per_s": 1500.0 if where[1] == "large" else 30_000.0,
                           "client_s": 2e-4 if where[1] == "large" else 1e-5,
                           "server_s": 5e-4 if where[1] == "large" else 3e-5} for where in CLASSES}  # fmt: skip
MACHINE = dict.fromkeys(("smb", "nfs3", "nfs4.1", "smb+relay", "nfs4.1+relay"), COSTS)


def of(budget_s: int = 100, **spec: Any) -> dict[str, RealTruth]:
    found = truths(System("x", "x", budget_s, {"protocol": "nfs3", **spec}), MACHINE)
    return {" ".join(where): each for where, each in found.items()}


def test_a_seed_draws_the_same_systems_of_every_kind() -> None:
    assert draw(5) == draw(5) != draw(6)
    systems = draw(5)
    assert len(systems) >= 72
    assert {each.kind for each in systems[: len(KINDS)]} == set(KINDS), "a part has every kind"
    assert {each.budget_s for each in systems} == {60, 100, 300}
    assert {each.protocol for each in systems} >= {"smb", "nfs3", "nfs4.0", "nfs4.1", "nfs4.2"}
    assert len({each.name for each in systems}) == len(systems)
    assert all(System.from_document(each.document()) == each for each in systems)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_every_kind_plants_what_it_says(seed: int) -> None:
    """Whether a system's planted part is the limit of a class that counts, for most of those of a kind."""
    planted = {"link_reads": "link", "link_writes": "link", "link_uneven": "link", "window": "protocol",
               "slots": "protocol", "credits": "protocol", "relay_credit": "burst_credit", "fast": "machine",
               "link_credit": "burst_credit", "disk_credit": "burst_credit", "stops": "stop", "relay_stops": "stop",
               "disk_behind_link": "disk", "disk_within": "link", "slow_share": "slow"}  # fmt: skip
    hits: dict[str, list[bool]] = {}
    for system in draw(seed):
        found = truths(system, MACHINE)
        wanted = planted.get(system.kind, system.kind)
        hits.setdefault(system.kind, []).append(any(t.judged and t.part == wanted for t in found.values()))
    assert {kind for kind, each in hits.items() if 2 * sum(each) < len(each)} == set()


def test_a_link_is_the_limit_of_what_passes_it() -> None:
    found = of(link={"down": 80_000_000})
    assert found["read large"].part == "link" and found["read large"].judged
    assert found["read large"].value == pytest.approx(10e6 * 1448 / 1514, rel=1e-3)
    assert found["write large"].part == "machine"
    assert set(found["write large"].accepted) >= {"shared_machine", "server_cpu", "client_cpu"}


def test_a_limit_counts_only_well_below_the_next() -> None:
    wire, fast = round(40e6 * 8 / 0.956), 30e6
    near = of(link={"down": wire, "up": wire}, disk={"read": 38e6, "write": fast}, memory_bytes=200 << 20)
    assert near["read large"].part == "disk" and not near["read large"].judged
    assert near["write large"].judged and near["write large"].headroom >= APART
    assert near["write large"].value == pytest.approx(fast)


def test_the_machine_counts_where_the_most_it_may_do_is_least() -> None:
    """Its own ceiling is a careful guess: it is the limit only where nothing that was planted may be slower."""
    far, near = (of(lock_us=hold)["read large"] for hold in (100, 1e6 / MACHINE["nfs3"]["read large"]["ops_per_s"]))
    assert far.part == "machine" and far.judged
    assert near.part == "machine" and not near.judged and "may do as much" in near.why


def test_a_disk_counts_where_the_budget_gets_beyond_the_memory() -> None:
    disk = {"read": 20e6, "write": 20e6}
    assert of(60, disk=disk, memory_bytes=300 << 20)["read large"].why
    assert of(300, disk=disk, memory_bytes=300 << 20)["read large"].judged
    assert of(60, disk=disk)["read large"].part == "machine", "all of it lies in memory"


def test_quotas_divide_by_what_an_operation_costs() -> None:
    assert dict(of(client_cpu=0.05)["read small"].ranked)["client_cpu"] == pytest.approx(5000)
    assert dict(of(server_cpu=0.03)["read large"].ranked)["server_cpu"] == pytest.approx(60)


def test_stops_come_before_all_else() -> None:
    found = of(stop={"every_s": 2.0, "stop_s": 0.5}, link={"down": 80_000_000})
    assert all(each.judged and each.accepted == ("unknown",) for each in found.values())


def kept(kind: str, probability: float, value: float) -> dict[str, Any]:
    limit = {"kind": kind, "applies_to": {"op": "read", "size": "large"}, "confidence": probability, "value": value}
    where: Class = ("read", "large")
    system = System("000-link", "link", 60, {"protocol": "smb", "link": {"down": 80_000_000}}, "a link")
    found = {where: truths(system, MACHINE)[where]}
    document = {"verdict": {"limits": [limit]}, "ladder": {"spent_ns": 2e10}, "cells": [{"bytes": 1000}]}
    made = {"answer": {"document": document, "error": "", "wall_s": 1.0, "cpu_s": 1.0}}
    return real_truth.kept(system, 7, made, found)


def test_answers_are_held_against_the_truth() -> None:
    right, wrong = kept("link", 0.95, 9.6e6), kept("disk", 0.93, 9.6e6)
    assert [s.right for s in real_truth.statements(right)] == [True]
    assert [s.holds for s in real_truth.statements(right)] == [True]
    assert "WRONG (link)" in real_truth.line(wrong)
    found = real_truth.summed(7, [right, wrong])
    assert not found["ok"] and found["matrix"] == {"link": {"link": 1, "disk": 1}}
    assert "certain and wrong: 1 of 2 (at most 1)" in found["summary"]


def test_tokens_are_filled_and_spent() -> None:
    bucket = Tokens(rate=100.0, most=50.0, left=50.0)
    bucket.fill(1.0)
    bucket.take(50)
    assert bucket.room() == 0 and bucket.wait_s(20) == pytest.approx(0.2)
    bucket.fill(1.3)
    assert bucket.room() == pytest.approx(30)
    bucket.fill(9.0)
    assert bucket.room() == 50
    assert Tokens(0.0, 0.0).room() == float("inf")


def test_stops_of_a_relay() -> None:
    plan = Plan(every_s=2.0, stop_s=0.5)
    assert is_stopped(plan, 4.1) == pytest.approx(0.4) and is_stopped(plan, 4.6) == 0 and is_stopped(Plan(), 4.1) == 0


@pytest.mark.parametrize("plan", [Plan(), Plan(delay_s=0.02), Plan(rate_bytes_per_s=20e6),
                                  Plan(base_bytes_per_s=10e6, peak_bytes_per_s=50e6, size_bytes=1e6)])  # fmt: skip
def test_a_relay_passes_every_byte_on(plan: Plan) -> None:
    data = bytes(range(256)) * 8192
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        door = free.getsockname()
        free.close()
        relay = Relay(plan, [(door, server.getsockname())])
        thread = threading.Thread(target=echo, args=(server,))
        thread.start()
        ended = threading.Event()
        runner = threading.Thread(target=run_until, args=(relay, ended))
        runner.start()
        try:
            assert exchanged(door, data) == data
        finally:
            ended.set()
            runner.join(10)
            thread.join(10)
            relay.close()
    assert not relay.lines, "both ends are closed"


def run_until(relay: Relay, ended: threading.Event) -> None:
    import time

    while not ended.is_set():
        relay.run(time.monotonic() + 0.3)


def echo(server: socket.socket) -> None:
    peer, _ = server.accept()
    with peer:
        while data := peer.recv(65536):
            peer.sendall(data)


def exchanged(door: Any, data: bytes) -> bytes:
    with socket.create_connection(door, timeout=20) as client:
        sender = threading.Thread(target=lambda: (client.sendall(data), client.shutdown(socket.SHUT_WR)))
        sender.start()
        parts = []
        while part := client.recv(65536):
            parts.append(part)
        sender.join(10)
    return b"".join(parts)
