"""Who may read: the Host header against DNS rebinding, a token for other machines, headers that forbid the rest.

Plain ASGI around the application, so that nothing, an error page included, passes without it.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from naslab.render.web.assets import assets
from naslab.render.web.connections import REQUEST_S, source_of
from naslab.render.web.failures import Failures
from naslab.render.web.frame import POLICY
from naslab.render.web.html import Html, tag

COOKIE = "naslab_library"
MOST_FORM_BYTES = 4096
HEADERS = {
    "Content-Security-Policy": f"{POLICY}; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


@dataclass(frozen=True)
class Guard:
    """app: what is guarded. names: host names it answers to beside addresses. token: None where none is asked."""

    app: ASGIApp
    names: Sequence[str]
    token: str | None
    failures: Failures = field(default_factory=Failures)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        refused = await self._refusal(scope, receive)
        await (refused or self.app)(scope, receive, _strict(send))

    async def _refusal(self, scope: Scope, receive: Receive) -> Response | None:
        headers = Headers(scope=scope)
        if not host_allowed(headers.getlist("host"), self.names):
            return PlainTextResponse(
                "This library does not answer to that host name. Open it with the address that naslab serve printed, "
                "or "
                "start it with --host NAME.\n", 400,
            )  # fmt: skip
        if self.token is not None and scope["path"] == "/login" and scope["method"] == "POST":
            return await self._login(scope, receive)
        if scope["method"] not in ("GET", "HEAD"):
            return PlainTextResponse("The library is read-only.\n", 405, {"Allow": "GET, HEAD"})
        if self.token is None:
            return None
        source, known = _source(scope), self._knows(headers)
        if known:
            self.failures.right(source)
            return None
        if known is not None:
            await self.failures.failed(source)
        return _ask(headers, 401)

    def _knows(self, headers: Headers) -> bool | None:
        """Whether the request carries the token, in constant time; None where it carries nothing."""
        assert self.token is not None
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and _same(given.strip(), self.token):
            return True
        try:
            cookie = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
        except CookieError:
            return False
        if cookie is None:
            return False if given else None
        return _same(cookie.value, cookie_of(self.token))

    async def _login(self, scope: Scope, receive: Receive) -> Response:
        """The token from the form makes the cookie; the cookie holds a digest of it."""
        assert self.token is not None
        try:
            body = await asyncio.wait_for(_form(receive), REQUEST_S)
        except TimeoutError:
            return PlainTextResponse("The form did not arrive in time.\n", 408)
        given = parse_qs(body.decode("utf-8", "replace")).get("token", [""])[0]
        if not _same(given.strip(), self.token):
            await self.failures.failed(_source(scope))
            return _ask(Headers(scope=scope), 403)
        self.failures.right(_source(scope))
        answer = RedirectResponse("/", 303)
        answer.set_cookie(COOKIE, cookie_of(self.token), httponly=True, samesite="strict", path="/")
        return answer


async def _form(receive: Receive) -> bytes:
    """The body of a request, as far as a form may be long."""
    body, more = b"", True
    while more and len(body) <= MOST_FORM_BYTES:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    return body[:MOST_FORM_BYTES]


def _source(scope: Scope) -> str:
    """Whose request it is."""
    return source_of(scope["client"][0] if scope.get("client") else "")


def cookie_of(token: str) -> str:
    """What a browser keeps instead of the token."""
    return hmac.new(token.encode(), b"naslab library cookie", hashlib.sha256).hexdigest()


def _same(given: str, known: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), known.encode())


def host_allowed(given: Sequence[str], names: Sequence[str]) -> bool:
    """Whether a request may be for this server: one Host header with an address or one of the names.

    A rebound name is what a hostile page has to use, for it owns no address here.
    """
    if len(given) != 1:
        return False
    host = given[0].strip().lower()
    if host.startswith("["):
        name, bracket, port = host[1:].partition("]")
        if not bracket or (port and not (port[0] == ":" and port[1:].isdigit())):
            return False
    else:
        name, colon, port = host.partition(":")
        if colon and not port.isdigit():
            return False
    if name.removesuffix(".") in names:
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _ask(headers: Headers, status: int) -> Response:
    """What to do without the token: a form for people, one line for programs."""
    more = {"WWW-Authenticate": 'Bearer realm="naslab library"'} if status == 401 else {}
    if "text/html" not in headers.get("accept", ""):
        words = "This library needs its token: send the header Authorization: Bearer TOKEN.\n"
        return PlainTextResponse(words, status, more)
    wrong = tag("p", "Wrong token.", role="alert", class_="wrong") if status == 403 else None
    box = tag("input", type="password", name="token", autocomplete="current-password", required=True)
    send = tag("button", "Open", type="submit")
    name = tag("label", tag("span", "Token"), box, class_="choice search")
    form = tag("form", name, send, method="post", action="/login", class_="controls filters")
    words = tag("p", "Ask whoever started it with --token; programs send Authorization: Bearer TOKEN instead.",
                class_="note")  # fmt: skip
    body = [tag("nav", tag("span", "naslab library", class_="name"), class_="bar", aria_label="Library"),
            tag("main", tag("h1", "This library needs its token"), wrong, form, words)]  # fmt: skip
    about = {"viewport": "width=device-width, initial-scale=1", "color-scheme": "light dark"}
    meta = [tag("meta", name=name, content=content) for name, content in about.items()]
    # The files of the library need the token, too: the styles stand in the page.
    style = tag("style", Html(b"".join(assets()[name].data for name in ("style.css", "library.css")).decode()))
    head = tag("head", tag("meta", charset="utf-8"), tag("title", "naslab library"), *meta,
               tag("link", rel="icon", href="data:,"), style)  # fmt: skip
    return HTMLResponse(f'<!doctype html>\n<html lang="en">{head}{tag("body", *body)}</html>\n', status, more)


def _strict(send: Send) -> Send:
    """Adds HEADERS to every answer; what is no asset is not kept by anyone."""

    async def wrapped(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers[name] = value
            headers.setdefault("Cache-Control", "no-store")
        await send(message)

    return wrapped
