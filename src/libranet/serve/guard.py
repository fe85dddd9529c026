"""What every request passes before it reaches the application: who may ask, from where, how much, how slowly."""

import asyncio
import hmac
import time
from urllib.parse import quote_plus, unquote_plus, urlsplit

from fastapi import Request
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from libranet.serve.settings import ServeSettings, is_loopback

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
    "cache-control": "no-store",
}
_LOGIN = """<!doctype html><html lang="en"><meta charset="utf-8"><title>LiBrA-Net</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="stylesheet" href="page.css">
<main class="login"><h1>LiBrA-Net</h1><p>This server asks for its token.</p>
<form method="get" action="/"><label>Token
<input name="token" type="password" autocomplete="current-password" autofocus></label>
<button class="primary">Open</button></form></main></html>
"""


class Guard:
    """Wraps the application."""

    def __init__(self, app: ASGIApp, settings: ServeSettings) -> None:
        self._app, self._settings = app, settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        request = Request(scope)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        try:
            self._check_origin(request)
            answer = self._sign_in(request)
            if answer is None:
                limit = self._body_limit(scope["path"])
                if int(request.headers.get("content-length", 0)) > limit:
                    raise HTTPException(413, f"the body is larger than {limit} bytes")
                await self._app(scope, self._bounded(receive, limit), send_with_headers)
                return
        except HTTPException as refusal:
            answer = JSONResponse({"error": refusal.detail}, refusal.status_code)
        await answer(scope, receive, send_with_headers)

    def _check_origin(self, request: Request) -> None:
        """Other sites in the visitor's browser may neither read nor do anything here."""
        host = request.headers.get("host", "")
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            name = ""
        if self._settings.token is None and not is_loopback(name):
            raise HTTPException(403, "this server answers to localhost alone")
        foreign = request.headers.get("origin") not in (None, f"http://{host}", f"https://{host}")
        site = request.headers.get("sec-fetch-site", "none")
        if request.scope["path"].startswith("/api/") and (foreign or site in ("cross-site", "same-site")):
            raise HTTPException(403, "requests of other sites are refused")

    def _sign_in(self, request: Request) -> Response | None:
        """Check the token. Returns an answer where the application is not to give one."""
        token, path = self._settings.token, request.scope["path"]
        if token is None or path in ("/page.css", "/icon.svg"):
            return None
        if path == "/" and (given := request.query_params.get("token")):
            if not _same(given, token):
                return HTMLResponse(_LOGIN, 401)
            cookie = f"{COOKIE}={quote_plus(token)}; Path=/; HttpOnly; SameSite=Strict; Max-Age=2592000"
            return RedirectResponse("/", 303, {"set-cookie": cookie})
        scheme, _, bearer = request.headers.get("authorization", "").partition(" ")
        known = unquote_plus(request.cookies.get(COOKIE, ""))
        if (scheme.lower() == "bearer" and _same(bearer.strip(), token)) or _same(known, token):
            return None
        if path.startswith("/api/"):
            raise HTTPException(401, "the token is missing or wrong: send it as Authorization: Bearer TOKEN")
        return HTMLResponse(_LOGIN, 401)

    def _body_limit(self, path: str) -> int:
        if path.endswith("/content"):
            return self._settings.limits.chunk_bytes
        return CAMERA_BODY if path.endswith("/frames") else SMALL_BODY

    def _bounded(self, receive: Receive, limit: int) -> Receive:
        """Bodies come whole within the limit, without long pauses, and not in drops."""
        received, complete, limits = 0, False, self._settings.limits
        begin = time.monotonic()

        async def bounded() -> Message:
            nonlocal received, complete
            if complete:
                return await receive()
            try:
                left = limits.idle_seconds + received / limits.slowest_bytes - (time.monotonic() - begin)
                message = await asyncio.wait_for(receive(), max(0.0, min(left, limits.idle_seconds)))
            except TimeoutError:
                raise HTTPException(408, "the body came too slowly: send the rest again") from None
            received += len(message.get("body", b""))
            complete = not message.get("more_body", False)
            if received > limit:
                raise HTTPException(413, f"the body is larger than {limit} bytes")
            return message

        return bounded


def _same(given: str, token: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), token.encode())
