"""What the types of a document's fields say: meaning, unit, least value, and what of a text may leave the machine.

    file_bytes: Annotated[Bytes, about("size of each file")]

A field that may be null has the type `X | None`; one that may be absent has a default, UNSET or what absence means.
What is measured or counted is never below 0; `int` and `float` have no least value.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

from msgspec import Meta, Struct, convert, to_builtins

CIPHERS = (
    "aes-128-gcm", "aes-256-gcm", "aes-128-ccm", "aes-256-ccm", "aes-gmac", "aes-cmac", "hmac-sha256", "required",
    "chacha20-poly1305",
    "aes128-cts-hmac-sha1-96", "aes256-cts-hmac-sha1-96", "aes128-cts-hmac-sha256-128", "aes256-cts-hmac-sha384-192",
    "arcfour-hmac", "camellia128-cts-cmac", "camellia256-cts-cmac",
)  # fmt: skip
"""Signing and encryption as targets name them."""
TLS_SUITES = ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256")
"""Of TLS 1.3, as IANA registers them."""
MACHINES = ("x86_64", "aarch64", "arm64", "armv7l", "i686", "riscv64", "amd64", "ppc64le", "s390x")
"""Architectures as systems name them, in lower case."""


class Part(Struct):
    """A part of a document. The first line of its docstring is its heading in the reference."""


class OpenPart(Part):
    """One that may have more fields: systems have facts that nobody described."""


P = TypeVar("P", bound=Part)


def typed(document: Mapping[str, Any], part: type[P]) -> P:
    """A part of a document by the attributes of its type. Raises ValidationError of msgspec where it is none.

    Every part that `naslab.results.shape` accepts is one: a whole number may be written 7.0, too.
    """
    return convert(document, part, strict=False)


def part_of(document: Mapping[str, Any], name: str, part: type[P]) -> P | None:
    """The part of this name as `typed` gives it; None where the document has none, or one that holds nothing."""
    found = document.get(name)
    return typed(found, part) if found else None


def plain(part: Part) -> dict[str, Any]:
    """A part as a document holds it, and JSON: dicts and lists; numbers of NumPy become Python's."""
    return _plain(part)  # type: ignore[no-any-return]


def _plain(value: Any) -> Any:
    return to_builtins(value, enc_hook=lambda number: number.item())


def about(
    meaning: str,
    unit: str | None = None,
    *,
    keep: str | tuple[str, ...] | None = None,
    private: bool = False,
    unreported: bool = False,
) -> Meta:
    """What a field means. unit: of its numbers, unless its type has one.

    keep: what may stay of its texts in a redacted document: one of these, or what a rule of `exchange.redact` keeps. A
    text without it is private and goes. private: of an object, its keys go, too. unreported: null where a `source` does
    not report it; never in naslab's own runs.
    """
    said = f"{meaning}; null: not reported by a `source`" if unreported else meaning
    extra = {"unit": unit, "keep": keep, "private": private, "unreported": unreported}
    return Meta(description=said, extra={key: value for key, value in extra.items() if value} or None)


def _kept(keep: str | tuple[str, ...]) -> Meta:
    return Meta(extra={"keep": keep})


def _least(least: int, unit: str | None = None) -> Meta:
    return Meta(ge=least, extra={"unit": unit} if unit else None)


Count = Annotated[int, _least(0)]
Positive = Annotated[int, _least(1)]
Number = Annotated[float, _least(0)]
Bytes = Annotated[int, _least(0, "bytes")]
Ns = Annotated[int, _least(0, "ns")]
WallNs = Annotated[int, _least(0, "ns since 1970")]
BytesPerS = Annotated[float, _least(0, "bytes/s")]
BitsPerS = Annotated[int, _least(0, "bit/s")]
PerS = Annotated[float, _least(0, "1/s")]

Interval = Annotated[list[float], Meta(extra={"interval": "closed"})]
"""Two ends: low, high."""
OpenInterval = Annotated[list[float | None], Meta(extra={"interval": "open"})]
"""The same; an end that is null: none."""
Facts = dict[str, Any]
"""Facts that nobody described, by name."""

Word = Annotated[str, _kept("word")]
"""One of naslab's own words."""
Sentence = Annotated[str, _kept("sentence")]
"""A sentence of naslab's, which may hold names."""
LoadName = Annotated[str, _kept("load_name")]
"""An application's or a workload's name; naslab's own stay."""
RunId = Annotated[str, _kept("run_id")]
HostName = Annotated[str, _kept("host_name")]
InterfaceName = Annotated[str, _kept("interface")]
"""A network interface's name, which may tell its address."""
Timestamp = Annotated[str, _kept("timestamp")]
"""ISO 8601 in UTC."""
Version = Annotated[str, _kept("version")]
Cipher = Annotated[str, _kept(CIPHERS)]
