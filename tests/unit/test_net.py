"""Where `naslab reference net` measures and listens: names of hosts, and the result in words."""

from __future__ import annotations

import pytest

from naslab.cli.net import DEFAULT_PORT, Flow, NetResult, RoundTrip, Wire, describe, listen_address, split_host
from naslab.errors import UsageError


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("nas", "nas", DEFAULT_PORT),
        ("nas:7000", "nas", 7000),
        ("192.168.1.5:1", "192.168.1.5", 1),
        ("::1", "::1", DEFAULT_PORT),
        ("[::1]", "::1", DEFAULT_PORT),
        ("[fe80::1%eth0]:7000", "fe80::1%eth0", 7000),
    ],
)
def test_hosts(text: str, host: str, port: int) -> None:
    assert split_host(text, "HOST") == (host, port)


@pytest.mark.parametrize(
    "text", ["smb://nas", "nas/x", "nas:", "nas:0", "nas:65536", "nas:x", ":7000", "[::1", "[]:7", "[::1]x", "a b"]
)
def test_bad_hosts(text: str) -> None:
    with pytest.raises(UsageError, match="HOST"):
        split_host(text, "HOST")


@pytest.mark.parametrize(
    ("text", "address", "port"),
    [
        ("", None, DEFAULT_PORT),
        ("7000", None, 7000),
        ("0", None, 0),
        ("127.0.0.1", "127.0.0.1", DEFAULT_PORT),
        ("127.0.0.1:0", "127.0.0.1", 0),
        ("::1", "::1", DEFAULT_PORT),
        ("[::1]", "::1", DEFAULT_PORT),
        ("[::1]:7000", "::1", 7000),
    ],
)
def test_addresses_to_listen_on(text: str, address: str | None, port: int) -> None:
    assert listen_address(text) == (address, port)


@pytest.mark.parametrize("text", ["nas", "nas:7000", "127.0.0.1:x", "127.0.0.1:65536", "70000", "[::1", ":7000"])
def test_bad_addresses(text: str) -> None:
    with pytest.raises(UsageError, match="--listen"):
        listen_address(text)


def result(again: int) -> NetResult:
    flow = Flow(10**9, 10**9)
    return NetResult(
        "nas", 1, 2, 10**9, 117e6, 118e6, 90e6, 95e6, RoundTrip(200_000, 400_000, 64, 5),
        {"upload": flow, "both_upload": flow}, Wire(1448, 1500, again),
    )  # fmt: skip


def test_words() -> None:
    text = describe(result(0))
    for part in ("2 connections", "117 MB/s", "118 MB/s", "90 MB/s up, 95 MB/s down", "200 µs", "400 µs", "1500"):
        assert part in text
    assert "sent again" not in text
    assert "sent again" in describe(result(100)) and "are lost" not in describe(result(100))
    assert "are lost" in describe(result(10_000))
