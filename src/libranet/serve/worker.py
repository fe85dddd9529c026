"""The process that dehazes: one for each device, one job after another, by the same engine as `libranet dehaze`.

A process that is killed leaves a run that the next one continues.
"""

import logging
import time
from functools import partial
from pathlib import Path

from libranet.engine import DehazeOptions, Progress, dehaze_video
from libranet.engine.adjust import Adjustments
from libranet.engine.image_files import dehaze_image
from libranet.errors import InputError
from libranet.serve.media import without_paths
from libranet.serve.playable import write_copy
from libranet.serve.protocol import Message, Networks, Send, answer_with_network, chosen_network

logger = logging.getLogger(__name__)

_SECONDS_BETWEEN_REPORTS = 0.1
_REPORTED = ("frames", "width", "height", "codec", "seconds", "fps", "partial", "warnings", "weights_name")
"""What visitors learn about a run."""


def make_options(settings: Message, *, interlaced: bool) -> DehazeOptions:
    """Turn what a visitor chose, a `RunSettings`, into the options of the engine."""
    view = settings["view"]
    return DehazeOptions(
        strength=settings["strength"],
        steady=settings["steady"],
        compare=view if view in ("split", "side") else None,
        view=view if view in ("haze", "removed", "confidence") else "result",
        adjust=Adjustments(**{key: settings[key] for key in ("exposure", "protect_sky", "protect_shadows", "color")}),
        codec=None if settings.get("codec", "same") == "same" else settings["codec"],
        pixel_format="yuv420p" if settings.get("codec") == "h264" else None,  # what every player takes
        deinterlace=interlaced,
    )


def run_job(networks: Networks, send: Send, job: Message) -> Message:
    """Dehaze one file, and send progress."""
    source, result = Path(job["source"]), Path(job["result"])
    options = make_options(job["settings"], interlaced=job["interlaced"])
    network = chosen_network(networks, job["settings"])
    sent = 0.0

    def show(progress: Progress) -> None:
        nonlocal sent
        frames, total, fps = progress.frames, progress.total, progress.fps
        if frames > job["most_frames"]:
            raise InputError(f"{source} has more frames than its header and the server's limit allow")
        if time.monotonic() - sent < _SECONDS_BETWEEN_REPORTS and frames != total:
            return
        sent = time.monotonic()
        left = (total - frames) / fps if total and fps > 0 else None
        send({"progress": {**vars(progress), "remaining_seconds": left}})

    if job["kind"] == "image":
        report = dehaze_image(source, result, network, options=options, overwrite=True)
    else:
        report = dehaze_video(
            source, result, model=network, options=options, overwrite=True, resume=True, progress=show
        )
    hide = partial(without_paths, folder=source.parent, name=job["name"])
    facts = report.as_json() | {"partial": hide(report.partial), "warnings": [hide(text) for text in report.warnings]}
    copied = job["kind"] == "video" and job["settings"].get("playable", False)
    copied = copied and _write_copies(source, result, report.frames, send)
    return {"report": {key: facts[key] for key in _REPORTED} | {"copied": copied}}


def _write_copies(source: Path, result: Path, frames: int, send: Send) -> bool:
    """Write what the visitor's browser plays. Returns whether it could be made: the result is good without it."""
    done, sent = 0, time.monotonic()

    def show() -> None:
        nonlocal done, sent
        done += 1
        if time.monotonic() - sent >= _SECONDS_BETWEEN_REPORTS:
            sent = time.monotonic()
            progress = {"frames": done, "total": max(done, 2 * frames), "fps": 0.0, "bound_by": "encode"}
            send({"progress": progress | {"phase": "copying", "remaining_seconds": None}})

    copies = {side: result.with_name(f"result-{side}.mp4") for side in ("before", "after")}
    try:
        write_copy(source, copies["before"], show=show)
        write_copy(result, copies["after"], show=show)
    except Exception as error:  # whatever a decoder of others may raise, the result is written
        logger.warning("no copy for the browser could be made: %s", error)
        for copy in copies.values():
            copy.unlink(missing_ok=True)
        return False
    return True


if __name__ == "__main__":
    answer_with_network(lambda networks, send: partial(run_job, networks, send))
