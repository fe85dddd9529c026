"""The HTTP interface: `make_app` for one server. The page is one of its visitors."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, Response
from starlette.exceptions import HTTPException

import libranet
from libranet.page import ASSETS, asset_path, read_asset
from libranet.serve.api_docs import describe_api
from libranet.serve.dispatcher import Dispatcher
from libranet.serve.guard import HEALTH, Guard
from libranet.serve.routes import Known, camera_router, job_router
from libranet.serve.schemas import ServerFacts
from libranet.serve.settings import ServeSettings, make_folders

logger = logging.getLogger(__name__)

_DESCRIPTION = """Dehaze videos and images over HTTP.

1. `POST /api/jobs` with name and size of a file.

2. `PATCH /api/jobs/{id}/content?offset=0` with its bytes, in pieces; after a broken connection, `GET /api/jobs/{id}`
says how many have come.

3. `GET /api/jobs/{id}/preview` shows one frame.

4. `POST /api/jobs/{id}/start` puts the job into the queue.

5. `GET /api/jobs/{id}/events` tells the progress.

6. `GET /api/jobs/{id}/result` has the result.

With a token, send `Authorization: Bearer TOKEN`. Errors are `{"error": "one sentence"}`.
"""


def make_app(settings: ServeSettings) -> Guard:
    """Make the application of one server. Its processes begin and end with it."""
    make_folders(settings)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        dispatcher = Dispatcher(settings)
        await dispatcher.start()
        app.state.dispatcher = dispatcher
        try:
            yield
        finally:
            await dispatcher.stop()

    app = FastAPI(
        title="LiBrA-Net",
        version=libranet.__version__,
        description=_DESCRIPTION,
        openapi_url="/api/openapi.json",
        docs_url=None,  # FastAPI's pages load scripts from another host
        redoc_url=None,
        lifespan=lifespan,
    )
    _add_page(app)
    app.include_router(job_router())
    app.include_router(camera_router())
    _add_error_handlers(app)
    return Guard(app, settings)


def _add_page(app: FastAPI) -> None:
    @app.get("/", include_in_schema=False)
    async def page() -> Response:
        return HTMLResponse(read_asset("index.html"))

    @app.get(HEALTH, tags=["server"])
    async def health() -> dict[str, str]:
        """Whether the server answers. It needs no token."""
        return {"status": "ok", "version": libranet.__version__}

    @app.get("/engine.js", include_in_schema=False)
    async def engine() -> Response:
        """The page's engine is this server."""
        return Response(read_asset("engine-server.js"), media_type="text/javascript")

    @app.get("/api/docs", include_in_schema=False)
    async def docs() -> Response:
        return HTMLResponse(describe_api(app.openapi()))

    @app.get("/api/server", tags=["server"])
    async def server(known: Known) -> ServerFacts:
        """What this server is, and what it accepts."""
        weights = [f"{hello['weights_name']} {hello['weights_version']}" for hello in known.hellos]
        devices = dict.fromkeys(hello["device"] for hello in known.hellos)
        facts = {"version": libranet.__version__, "weights": "".join(weights[:1]), "devices": list(devices)}
        facts["models"] = ["best", "fast"] if known.settings.fast_model else ["best"]
        return ServerFacts.model_validate(asdict(known.limits) | facts)

    @app.get("/{name}", include_in_schema=False)
    async def asset(name: str) -> Response:
        """The files of the page, by their names in a fixed table."""
        if name not in ASSETS:
            raise HTTPException(404, "there is nothing here")
        return Response(asset_path(name).read_bytes(), media_type=ASSETS[name], headers={"cache-control": "no-cache"})


def _add_error_handlers(app: FastAPI) -> None:
    """Every error is one sentence, and none of them tells about the inside."""

    async def refused(request: Request, error: Any) -> Response:
        return JSONResponse({"error": str(error.detail)}, error.status_code, headers=error.headers)

    async def invalid(request: Request, error: Any) -> Response:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"][1:]) or str(first["loc"][0])
        return JSONResponse({"error": f"{place}: {first['msg']}"}, 422)

    async def bug(request: Request, error: Exception) -> Response:
        logger.error("an unexpected error", exc_info=error)
        return JSONResponse({"error": "the server made a mistake, which is in its log"}, 500)

    app.add_exception_handler(HTTPException, refused)  # Starlette's, also of unknown paths
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(Exception, bug)
