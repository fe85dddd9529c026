"""Jobs over HTTP: create, upload in pieces, look at a frame, start, follow, fetch, cancel, delete.

And a visitor's camera: a frame in, the restored frame out.
"""

import asyncio
import base64
import os
import secrets
import shutil
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import quote

from fastapi import APIRouter, Depends, HTTPException, Query, Request
from fastapi import Path as PathParameter
from fastapi.responses import FileResponse, Response, StreamingResponse

from libranet.page import EXAMPLE_NAME, example_path
from libranet.serve.child import ChildDied, Message
from libranet.serve.dispatcher import Dispatcher
from libranet.serve.jobs import CAN_START, ID_PATTERN, UNDER_WAY, Job, State
from libranet.serve.schemas import LARGEST_STRENGTH, Camera, ErrorBody, JobStatus, NewJob, PreviewSettings, RunSettings
from libranet.serve.settings import MOST_CAMERAS

_MEDIA_TYPES = {
    ".mp4": "video/mp4",
    ".mov": "video/quicktime",
    ".webm": "video/webm",
    ".mkv": "video/x-matroska",
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".webp": "image/webp",
    ".gif": "image/gif",
    ".bmp": "image/bmp",
    ".tif": "image/tiff",
}
_JPEG: dict[str, Any] = {"content": {"image/jpeg": {"schema": {"type": "string", "format": "binary"}}}}
_BYTES: dict[str, Any] = {"content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}}

_WRITE_BYTES = 1 << 20
_MOST_WAITING = 64
"""Previews at a time."""
_NEWS_SECONDS, _HEARTBEAT_SECONDS = 0.05, 15.0
_FORGOTTEN_SECONDS = 60.0
"""A camera that sends nothing for so long is closed."""


def _errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    return {status: {"model": ErrorBody} for status in (400, 401, 403, 408, 413, 422, *statuses)}


async def get_dispatcher(request: Request) -> Dispatcher:
    return request.app.state.dispatcher


async def find_job(
    request: Request, id: Annotated[str, PathParameter(pattern=ID_PATTERN, description="Of the job.")]
) -> Job:
    job = request.app.state.dispatcher.store.get(id)
    if job is None:
        raise HTTPException(404, "there is no such job: it may have been deleted")
    return job


Known = Annotated[Dispatcher, Depends(get_dispatcher)]
Named = Annotated[Job, Depends(find_job)]


async def find_whole_job(job: Named) -> Job:
    """The job that a path names, whose file is whole and good."""
    if job.media is None:
        raise HTTPException(409, "the file is not whole yet, or was refused")
    return job


Whole = Annotated[Job, Depends(find_whole_job)]


def status_of(job: Job, known: Dispatcher) -> JobStatus:
    """A job as visitors see it, now."""
    stem, dot, _ = job.name.rpartition(".")
    suffix = job.result.removeprefix("result")
    view = job.settings.get("view", "result")
    kind = "clear" if view == "result" else view  # a view of the haze is no cleared file
    more = {
        "received": known.store.folder(job).upload.stat().st_size if job.state == State.uploading else job.size,
        "settings": job.settings or None,
        "progress": known.progress.get(job.id),
        "result_name": f"{stem if dot else job.name}-{kind}{suffix}" if job.result else "",
        "queue_position": known.store.queue_position(job),
    }
    return JobStatus.model_validate({**vars(job), **more})


def job_router() -> APIRouter:
    router = APIRouter(prefix="/api/jobs", tags=["jobs"])
    uploading: set[str] = set()

    @router.get("", responses=_errors())
    async def list_jobs(known: Known) -> list[JobStatus]:
        """Every job of this server, the newest first."""
        return [status_of(job, known) for job in reversed(known.store.all())]

    @router.post("", status_code=201, responses=_errors(429, 507))
    async def create_job(body: NewJob, known: Known, request: Request) -> JobStatus:
        """Announce a file. Its bytes follow."""
        address = request.client.host if request.client else ""
        return status_of(await known.create(body.name, body.size, address=address), known)

    @router.post("/example", status_code=201, responses=_errors(429, 507))
    async def create_example(known: Known) -> JobStatus:
        """Begin with the example that comes with the package."""
        job = await known.create(EXAMPLE_NAME, example_path().stat().st_size)
        await asyncio.to_thread(shutil.copyfile, example_path(), known.store.folder(job).upload)
        known.check(_again(known, job))
        return await _written(known, job)

    @router.get("/{id}", responses=_errors(404))
    async def get_job(job: Named, known: Known) -> JobStatus:
        """How a job stands. During an upload, `received` is where to go on."""
        return status_of(job, known)

    @router.delete("/{id}", status_code=204, responses=_errors(404))
    async def delete_job(job: Named, known: Known) -> Response:
        """Stop a job and delete all of its files."""
        await known.delete(job)
        await known.store.written()
        return Response(status_code=204)

    @router.patch(
        "/{id}/content", responses=_errors(404, 409), openapi_extra={"requestBody": {**_BYTES, "required": True}}
    )
    async def upload(
        request: Request,
        job: Named,
        known: Known,
        offset: Annotated[int, Query(ge=0, le=1 << 50, description="Of the first byte of this piece.")],
    ) -> JobStatus:
        """Send a piece of the file. What has come before a broken connection is kept."""
        if job.state != State.uploading or job.id in uploading:
            raise HTTPException(409, "this job takes no bytes now")
        path = known.store.folder(job).upload
        if offset != path.stat().st_size:
            raise HTTPException(409, f"expected the piece at {path.stat().st_size}, got one at {offset}")
        uploading.add(job.id)
        try:
            await _append(request, path, job.size)
        finally:
            uploading.discard(job.id)
        current = _again(known, job)
        if path.stat().st_size == job.size:
            known.check(current)
        else:
            known.store.update(current)
        return await _written(known, job)

    @router.post("/{id}/start", responses=_errors(404, 409))
    async def start_job(body: RunSettings, job: Named, known: Known) -> JobStatus:
        """Put a job into the queue. A finished one may be started again with other settings."""
        if job.state not in CAN_START or job.media is None:
            raise HTTPException(409, f"a job that is {job.state} cannot be started")
        await known.submit(job, body.model_dump())
        return await _written(known, job)

    @router.post("/{id}/cancel", responses=_errors(404, 409))
    async def cancel_job(job: Named, known: Known) -> JobStatus:
        """Stop a job that waits or runs. The upload is kept."""
        if job.state not in UNDER_WAY:
            raise HTTPException(409, f"a job that is {job.state} cannot be cancelled")
        await known.cancel(job)
        return await _written(known, job)

    @router.get(
        "/{id}/events",
        response_class=StreamingResponse,
        responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}, **_errors(404)},
    )
    async def events(job: Named, known: Known) -> StreamingResponse:
        """Server-sent events: the status of the job whenever it changes, until it is deleted."""
        return StreamingResponse(_event_lines(job.id, known), media_type="text/event-stream")

    @router.get("/{id}/frame", response_class=Response, responses={200: _JPEG, **_errors(404, 409, 503)})
    async def frame(
        request: Request,
        job: Whole,
        known: Known,
        at: Annotated[float, Query(ge=0.0, le=1e6)] = 0.0,
        side: Annotated[int, Query(ge=64, le=3840, description="The longest side, in pixels.")] = 1280,
    ) -> Response:
        """One frame of the upload, upright."""
        return await ask(known, {**known.about(job), "op": "frame", "at": at, "side": side}, request)

    @router.get("/{id}/preview", response_class=Response, responses={200: _JPEG, **_errors(404, 409, 503)})
    async def preview(
        request: Request, job: Whole, known: Known, wish: Annotated[PreviewSettings, Query()]
    ) -> Response:
        """The same frame, restored."""
        how = {"op": "preview", "at": wish.at, "side": wish.side, "settings": wish.as_run()}
        return await ask(known, known.about(job) | how, request)

    ranges: dict[int | str, dict[str, Any]] = {200: _BYTES, 206: _BYTES, 416: {}, **_errors(404, 409)}

    @router.get("/{id}/source", response_class=FileResponse, responses=ranges)
    async def source(job: Whole, known: Known) -> Response:
        """The upload itself, whole or in ranges."""
        return _file(Path(known.about(job)["source"]), job.name, attachment=False)

    @router.get("/{id}/result", response_class=FileResponse, responses=ranges)
    async def result(
        job: Named,
        known: Known,
        download: Annotated[bool, Query(description="Have browsers save it instead of showing it.")] = False,
        copy: Annotated[
            Literal["before", "after"] | None,
            Query(description="A small H.264 copy of the upload or the result, where `report.copied` says so."),
        ] = None,
    ) -> Response:
        """The result, whole or in ranges."""
        if job.state != State.done:
            raise HTTPException(409, f"there is no result: the job is {job.state}")
        if copy:
            return _file(known.store.folder(job).path / f"result-{copy}.mp4", f"{copy}.mp4", attachment=False)
        path = known.store.folder(job).path / job.result
        return _file(path, status_of(job, known).result_name, attachment=download)

    return router


def camera_router() -> APIRouter:
    router = APIRouter(prefix="/api/cameras", tags=["camera"])
    seen: dict[str, float] = {}

    @router.post("", status_code=201, responses=_errors(429))
    async def open_camera() -> Camera:
        """Begin. Frames of one camera share the memory that keeps colours steady."""
        now = time.monotonic()
        for name, last in list(seen.items()):
            if now - last > _FORGOTTEN_SECONDS:
                del seen[name]
        if len(seen) >= MOST_CAMERAS:
            raise HTTPException(429, f"{MOST_CAMERAS} cameras are open already: try again in a minute")
        name = secrets.token_urlsafe(16)
        seen[name] = now
        return Camera(id=name)

    @router.post(
        "/{id}/frames",
        response_class=Response,
        responses={200: _JPEG, **_errors(404, 503)},
        openapi_extra={"requestBody": {**_JPEG, "required": True}},
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

    @router.delete("/{id}", status_code=204, responses=_errors(404))
    async def close_camera(id: Annotated[str, PathParameter(pattern=ID_PATTERN)]) -> Response:
        """End."""
        if seen.pop(id, None) is None:
            raise HTTPException(404, "there is no such camera")
        return Response(status_code=204)

    return router


def _again(known: Dispatcher, job: Job) -> Job:
    current = known.store.get(job.id)
    if current is None:
        raise HTTPException(404, "the job was deleted")
    return current


async def _written(known: Dispatcher, job: Job) -> JobStatus:
    """The status of a job that has changed, once the change would survive a kill of the server."""
    await known.store.written()
    return status_of(_again(known, job), known)


async def _append(request: Request, path: Path, size: int) -> None:
    """Write what comes to the end of a file, on another thread: a busy disk makes nobody else wait."""
    received = path.stat().st_size
    waiting = bytearray()

    def write() -> None:
        with path.open("ab") as file:
            file.write(waiting)
        waiting.clear()

    try:
        async for piece in request.stream():
            received += len(piece)
            if received > size:
                waiting.clear()
                os.truncate(path, 0)
                raise HTTPException(
                    413, f"more bytes came than the {size} that were announced: begin again at offset 0"
                )
            waiting += piece
            if len(waiting) >= _WRITE_BYTES:
                await asyncio.to_thread(write)
    finally:  # what has come before a broken connection is kept
        if waiting:
            with suppress(FileNotFoundError):  # the job was deleted
                await asyncio.to_thread(write)


async def _event_lines(id_: str, known: Dispatcher) -> AsyncIterator[str]:
    """Look at the job twenty times a second: that costs less than telling every change to everyone who follows it."""
    told, when = None, 0.0
    while (job := known.store.get(id_)) is not None:
        now = (job, known.progress.get(id_), known.store.queue_position(job))
        if now != told:
            told, when = now, time.monotonic()
            yield f"event: status\ndata: {status_of(job, known).model_dump_json()}\n\n"
        elif time.monotonic() - when > _HEARTBEAT_SECONDS:
            when = time.monotonic()
            yield ": still here\n\n"
        await asyncio.sleep(_NEWS_SECONDS)
    yield "event: deleted\ndata: {}\n\n"


async def ask(known: Dispatcher, wish: Message, request: Request) -> Response:
    """Have the previewer do something, as long as the visitor waits for it. Returns the frame, with its time."""
    await request.body()  # what comes after it is the end of the connection
    if known.previews.waiting >= _MOST_WAITING:
        raise HTTPException(503, "too many previews wait already: try again in a moment")
    try:
        async with known.previews.take() as previewer:
            if await request.is_disconnected():  # whoever moves a slider leaves requests behind
                raise HTTPException(503, "nobody waits for this frame any more")
            answer = await previewer.ask(wish, known.limits.preview_seconds)
    except TimeoutError:
        raise HTTPException(503, "the frame took too long") from None
    except ChildDied:
        raise HTTPException(422, "the frame cannot be decoded") from None
    if "error" in answer:
        raise HTTPException(422, answer["error"])
    headers = {"cache-control": "private, max-age=3600"}
    if "milliseconds" in answer:
        headers["server-timing"] = f"network;dur={answer['milliseconds']}"
    return Response(base64.b64decode(answer["image"]), media_type="image/jpeg", headers=headers)


def _file(path: Path, name: str, *, attachment: bool) -> FileResponse:
    if not path.is_file():
        raise HTTPException(404, "the file is gone")
    kind = _MEDIA_TYPES.get(path.suffix, "application/octet-stream")
    how = f"{'attachment' if attachment else 'inline'}; filename*=UTF-8''{quote(name)}"
    return FileResponse(path, media_type=kind, headers={"content-disposition": how, "cache-control": "private"})
