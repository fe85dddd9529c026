"""A visitor's camera over HTTP: a frame in, the restored frame out."""

import base64
import secrets
import time
from typing import Annotated

from fastapi import APIRouter, HTTPException, Query, Request
from fastapi import Path as PathParameter
from fastapi.responses import Response

from libranet.serve.job_routes import JPEG, Known, ask, errors
from libranet.serve.jobs import ID_PATTERN
from libranet.serve.schemas import LARGEST_STRENGTH, Camera
from libranet.serve.settings import MOST_CAMERAS

_FORGOTTEN_AFTER = 60.0


def camera_router() -> APIRouter:
    """The routes of cameras."""
    router = APIRouter(prefix="/api/cameras", tags=["camera"])
    seen: dict[str, float] = {}

    @router.post("", status_code=201, responses=errors(429))
    async def open_camera() -> Camera:
        """Begin. Frames of one camera share the memory that keeps colours steady."""
        now = time.monotonic()
        for name, last in list(seen.items()):
            if now - last > _FORGOTTEN_AFTER:
                del seen[name]
        if len(seen) >= MOST_CAMERAS:
            raise HTTPException(429, f"{MOST_CAMERAS} cameras are open already: try again in a minute")
        name = secrets.token_urlsafe(16)
        seen[name] = now
        return Camera(id=name)

    @router.post(
        "/{id}/frames",
        response_class=Response,
        responses={200: JPEG, **errors(404, 503)},
        openapi_extra={"requestBody": {**JPEG, "required": True}},
    )
    async def restore_frame(
        request: Request,
        known: Known,
        id: Annotated[str, PathParameter(pattern=ID_PATTERN)],
        strength: Annotated[float, Query(ge=0.0, le=LARGEST_STRENGTH)] = 1.0,
    ) -> Response:
        """Restore a JPEG frame of at most 1280 pixels a side. The header Server-Timing has the network's time."""
        if id not in seen:
            raise HTTPException(404, "there is no such camera: open one first")
        seen[id] = time.monotonic()
        image = base64.b64encode(await request.body()).decode("ascii")
        response = await ask(known, {"op": "camera", "camera": id, "strength": strength, "image": image}, request)
        response.headers["cache-control"] = "no-store"
        return response

    @router.delete("/{id}", status_code=204, responses=errors(404))
    async def close_camera(id: Annotated[str, PathParameter(pattern=ID_PATTERN)]) -> Response:
        """End."""
        if seen.pop(id, None) is None:
            raise HTTPException(404, "there is no such camera")
        return Response(status_code=204)

    return router
