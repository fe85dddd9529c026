"""What every request passes before it reaches the application: who may ask, from where, how much, how slowly."""

import asyncio
import hmac
import time
from collections import Counter
from functools import partial
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
MOST_OF_ONE_ADDRESS = 64
"""Requests under way, pages that follow their jobs included."""
HEALTH = "/health"
"""For health checks of containers and proxies: anyone may ask."""
_LOGIN = """<!doctype html><html lang="en"><meta charset="utf-8"><title>LiBrA-Net</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="stylesheet" href="{home}page.css">
<main class="login"><h1>LiBrA-Net</h1><p>This server asks for its token.</p>
<form method="get" action="{home}"><label>Token
<input name="token" type="password" autocomplete="current-password" autofocus></label>
<button class="primary">Open</button></form></main></html>
"""


class Guard:
    """Wraps the application."""

    def __init__(self, app: ASGIApp, settings: ServeSettings) -> None:
        self._app, self._settings = app, settings
        self._under_way: Counter[str] = Counter()
        """Requests by address."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        scope = self._below_sub_path(scope)
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
                await self._answer(request, receive, send_with_headers)
                return
        except HTTPException as refusal:
            answer = JSONResponse({"error": refusal.detail}, refusal.status_code)
        await answer(scope, receive, send_with_headers)

    async def _answer(self, request: Request, receive: Receive, send: Send) -> None:
        """Have the application answer, where this address has not too many requests under way."""
        path, address = request.scope["path"], request.client.host if request.client else ""
        limit = self._body_limit(path)
        if int(request.headers.get("content-length", 0)) > limit:
            raise HTTPException(413, f"the body is larger than {limit} bytes")
        if self._under_way[address] >= MOST_OF_ONE_ADDRESS:
            raise HTTPException(429, f"{MOST_OF_ONE_ADDRESS} requests from your address are under way: wait for them")
        self._under_way[address] += 1
        try:
            receive = self._bounded(receive, limit)
            if not path.endswith("/content"):  # those are written as they come
                receive = await _whole(receive)
            answer = partial(_answer_head, self._app) if request.method == "HEAD" else self._app
            await answer(request.scope, receive, send)
        finally:
            self._under_way -= Counter((address,))

    def _below_sub_path(self, scope: Scope) -> Scope:
        """The same request without the sub-path, which some proxies pass on and others do not."""
        prefix, path = self._settings.sub_path, scope["path"]
        return {**scope, "path": path.removeprefix(prefix)} if prefix and path.startswith(f"{prefix}/") else scope

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
        if path and path == self._settings.sub_path:
            return RedirectResponse(f"{path.rpartition('/')[2]}/", 308)  # links of the page are relative
        if token is None or path in ("/page.css", "/icon.svg", HEALTH):
            return None
        login = HTMLResponse(_LOGIN.format(home=_way_home(path)), 401)
        if path == "/" and (given := request.query_params.get("token")):
            if not _same(given, token):
                return login
            # Without a path the cookie is for the folder of the address that the browser sees: a sub-path, too.
            secure = "; Secure" if request.scope["scheme"] == "https" else ""
            cookie = f"{COOKIE}={quote_plus(token)}; HttpOnly; SameSite=Strict; Max-Age=2592000{secure}"
            return RedirectResponse(_way_home(path), 303, {"set-cookie": cookie})
        scheme, _, bearer = request.headers.get("authorization", "").partition(" ")
        known = unquote_plus(request.cookies.get(COOKIE, ""))
        if (scheme.lower() == "bearer" and _same(bearer.strip(), token)) or _same(known, token):
            return None
        if path.startswith("/api/"):
            raise HTTPException(401, "the token is missing or wrong: send it as Authorization: Bearer TOKEN")
        return login

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


def _way_home(path: str) -> str:
    """From a path to the page, relative: only a proxy knows what stands before it."""
    return "../" * (path.count("/") - 1) or "./"


async def _whole(receive: Receive) -> Receive:
    """Wait for a whole body, so that slow ones cost the application nothing. Returns what gives it in one piece."""
    first = await receive()
    while first.get("more_body"):
        more = await receive()
        first = {**more, "body": first["body"] + more.get("body", b"")}
    rest = iter((first,))

    async def replay() -> Message:
        message = next(rest, None)
        return await receive() if message is None else message

    return replay


async def _answer_head(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer HEAD as GET would, and end the application where its body would begin: some bodies never end."""
    begun = asyncio.Event()

    async def send_head(message: Message) -> None:
        if message["type"] == "http.response.start":
            await send(message)
            await send({"type": "http.response.body", "body": b"", "more_body": False})
            begun.set()
        await asyncio.Event().wait()

    answering = asyncio.ensure_future(app({**scope, "method": "GET"}, receive, send_head))
    waiting = asyncio.create_task(begun.wait())
    await asyncio.wait({answering, waiting}, return_when=asyncio.FIRST_COMPLETED)
    refused = answering.done()
    for task in (answering, waiting):
        task.cancel()
    await asyncio.wait({answering, waiting})
    if refused:
        answering.result()


def _same(given: str, token: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), token.encode())
