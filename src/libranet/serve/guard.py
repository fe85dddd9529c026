"""What every request passes before it reaches the application: who may ask, from where, how much, how slowly."""

import asyncio
import hmac
import json
import re
import time
from collections.abc import Awaitable, Callable, MutableMapping
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from libranet.serve.settings import ServeSettings, is_loopback

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

COOKIE = "libranet"
SMALL_BODY = 64 << 10
CAMERA_BODY = 2 << 20
_CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; media-src 'self' blob:; "
    "connect-src 'self'; worker-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": _CSP,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(self), microphone=(), geolocation=()",
}
_LOGIN = """<!doctype html><html lang="en"><meta charset="utf-8"><title>LiBrA-Net</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="stylesheet" href="page.css">
<main class="login"><h1>LiBrA-Net</h1><p>This server asks for its token.</p>
<form method="get" action="/"><label>Token
<input name="token" type="password" autocomplete="current-password" autofocus></label>
<button class="primary">Open</button></form></main></html>
"""


class Refusal(Exception):  # noqa: N818
    """A request that is not carried out."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status, self.sentence = status, sentence


class Guard:
    """Wraps the application."""

    def __init__(self, app: App, settings: ServeSettings) -> None:
        self._app, self._settings = app, settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}

        async def send_with_headers(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                given = {name.lower() for name, _ in message["headers"]}
                ours = {**HEADERS, "cache-control": "no-store"}
                message["headers"] = [
                    *message["headers"],
                    *((k.encode(), v.encode()) for k, v in ours.items() if k.encode() not in given),
                ]
            await send(message)

        try:
            self._check_origin(scope, headers)
            if await self._sign_in(scope, headers, send_with_headers):
                return
            limit = self._body_limit(scope)
            if int(re.sub(r"\D", "", headers.get("content-length", "")) or 0) > limit:
                raise Refusal(413, f"the body is larger than {limit} bytes")
            await self._app(scope, self._bounded(receive, limit), send_with_headers)
        except Refusal as refusal:
            await _answer(send_with_headers, refusal.status, {"error": refusal.sentence})

    def _check_origin(self, scope: Scope, headers: dict[str, str]) -> None:
        """Other sites in the visitor's browser may neither read nor do anything here."""
        host = headers.get("host", "")
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            name = ""
        if self._settings.token is None and not is_loopback(name):
            raise Refusal(403, "this server answers to localhost alone")
        origin = headers.get("origin")
        foreign = origin not in (None, f"http://{host}", f"https://{host}")
        site = headers.get("sec-fetch-site", "none")
        if scope["path"].startswith("/api/") and (foreign or site in ("cross-site", "same-site")):
            raise Refusal(403, "requests of other sites are refused")

    async def _sign_in(self, scope: Scope, headers: dict[str, str], send: Send) -> bool:
        """Check the token. Returns whether the request is answered already."""
        token = self._settings.token
        if token is None or scope["path"] in ("/page.css", "/icon.svg"):
            return False
        if scope["path"] == "/" and (given := parse_qs(scope["query_string"].decode("latin-1")).get("token")):
            if not _same(given[0], token):
                await _answer(send, 401, _LOGIN)
                return True
            cookie = f"{COOKIE}={urlencode({'t': token})[2:]}; Path=/; HttpOnly; SameSite=Strict; Max-Age=2592000"
            await _answer(send, 303, "", [(b"location", b"/"), (b"set-cookie", cookie.encode())])
            return True
        scheme, _, bearer = headers.get("authorization", "").partition(" ")
        if (scheme.lower() == "bearer" and _same(bearer.strip(), token)) or _same(_cookie(headers), token):
            return False
        if scope["path"].startswith("/api/"):
            raise Refusal(401, "the token is missing or wrong: send it as Authorization: Bearer TOKEN")
        await _answer(send, 401, _LOGIN)
        return True

    def _body_limit(self, scope: Scope) -> int:
        if scope["path"].endswith("/content"):
            return self._settings.limits.chunk_bytes
        return CAMERA_BODY if scope["path"].endswith("/frames") else SMALL_BODY

    def _bounded(self, receive: Receive, limit: int) -> Receive:
        """Bodies come whole within the limit, without long pauses, and not in drops."""
        received, complete, limits = 0, False, self._settings.limits
        begin = time.monotonic()

        async def bounded() -> MutableMapping[str, Any]:
            nonlocal received, complete
            if complete:
                return await receive()
            try:
                left = limits.idle_seconds + received / limits.slowest_bytes - (time.monotonic() - begin)
                message = await asyncio.wait_for(receive(), max(0.0, min(left, limits.idle_seconds)))
            except TimeoutError:
                raise Refusal(408, "the body came too slowly: send the rest again") from None
            received += len(message.get("body", b""))
            complete = not message.get("more_body", False)
            if received > limit:
                raise Refusal(413, f"the body is larger than {limit} bytes")
            return message

        return bounded


def _same(given: str, token: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), token.encode())


def _cookie(headers: dict[str, str]) -> str:
    try:
        found = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return ""
    return parse_qs(f"t={found.value}").get("t", [""])[0] if found else ""


async def _answer(
    send: Send, status: int, body: str | dict[str, str], headers: list[tuple[bytes, bytes]] | None = None
) -> None:
    kind, text = ("text/html; charset=utf-8", body) if isinstance(body, str) else ("application/json", json.dumps(body))
    content = text.encode()
    base = [(b"content-type", kind.encode()), (b"content-length", str(len(content)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": base + (headers or [])})
    await send({"type": "http.response.body", "body": content})
