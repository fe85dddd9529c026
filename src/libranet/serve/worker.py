"""The process that dehazes: one for each device, one job after another, by the same engine as `libranet dehaze`.

A process that is killed leaves a run that the next one continues.
"""

import time
from functools import partial
from pathlib import Path

from libranet.engine import DehazeOptions, Progress, dehaze_video
from libranet.engine.adjust import Adjustments
from libranet.engine.image_files import dehaze_image
from libranet.errors import InputError
from libranet.network import Network
from libranet.serve.media import without_paths
from libranet.serve.protocol import Message, Send, answer_with_network

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
        view=view if view in ("haze", "removed") else "result",
        adjust=Adjustments(**{key: settings[key] for key in ("exposure", "protect_sky", "protect_shadows", "color")}),
        deinterlace=interlaced,
    )


def run_job(network: Network, send: Send, job: Message) -> Message:
    """Dehaze one file, and send progress.

    Raises:
        LibraNetError: The file cannot be dehazed.
    """
    source, result = Path(job["source"]), Path(job["result"])
    options = make_options(job["settings"], interlaced=job["interlaced"])
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
    return {"report": {key: facts[key] for key in _REPORTED}}


if __name__ == "__main__":
    answer_with_network(lambda network, send: partial(run_job, network, send))
