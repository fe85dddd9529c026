"""The process that dehazes: one for each device, one job after another, by the same engine as `libranet dehaze`.

`python -m libranet.serve.worker DEVICE MODEL MEMORY` takes jobs as lines of JSON. A job may be cancelled; a process
that is killed leaves a run that the next one continues.
"""

import logging
import sys
import time
from pathlib import Path
from typing import Any

from libranet.engine import DehazeOptions, DehazeReport, Progress, dehaze_video, load_network
from libranet.engine.adjust import Adjustments
from libranet.engine.image_files import dehaze_image
from libranet.errors import InputError
from libranet.network import Network
from libranet.serve.confine import limit_address_space
from libranet.serve.media import without_paths
from libranet.serve.protocol import Channel, sentence_for_visitors

_SECONDS_BETWEEN_REPORTS = 0.1
_REPORTED = ("frames", "width", "height", "codec", "seconds", "fps", "partial", "warnings", "weights_name")
"""What visitors learn about a run."""


class Cancelled(Exception):  # noqa: N818
    """The visitor does not want this job any more."""


class Cancellations:
    """Runs that the visitor does not want any more. A run may be cancelled before this process has begun it."""

    def __init__(self) -> None:
        self._numbers: set[int] = set()

    def take(self, message: dict[str, Any]) -> bool:
        """Take notice of a cancellation. Returns whether the message was one."""
        if message["op"] != "cancel":
            return False
        self._numbers.add(message["run"])
        return True

    def check(self, run: int) -> None:
        """Raise `Cancelled` if this run was."""
        if run in self._numbers:
            raise Cancelled


def make_options(settings: dict[str, Any], *, interlaced: bool = False) -> DehazeOptions:
    """Turn what a visitor chose into the options of the engine."""
    view = settings.get("view", "result")
    return DehazeOptions(
        strength=settings.get("strength", 1.0),
        steady=settings.get("steady", 1.0),
        compare=view if view in ("split", "side") else None,
        view=view if view in ("haze", "removed") else "result",
        adjust=Adjustments(
            exposure=settings.get("exposure", "network"),
            protect_sky=settings.get("protect_sky", 0.0),
            protect_shadows=settings.get("protect_shadows", 0.0),
            color=settings.get("color", 1.0),
        ),
        deinterlace=interlaced,
    )


def run_job(job: dict[str, Any], network: Network, channel: Channel, cancelled: Cancellations) -> DehazeReport:
    """Dehaze one file, and report progress.

    Raises:
        Cancelled: As asked.
        LibraNetError: The file cannot be dehazed.
    """
    cancelled.check(job["run"])
    source, result = Path(job["source"]), Path(job["result"])
    options = make_options(job["settings"], interlaced=job["interlaced"])
    if job["kind"] == "image":
        return dehaze_image(source, result, network, options=options, overwrite=True)
    reported = 0.0

    def report(progress: Progress) -> None:
        nonlocal reported
        cancelled.check(job["run"])
        if progress.frames > job["most_frames"]:
            raise InputError(f"{source} has more frames than its header and the server's limit allow")
        if time.monotonic() - reported < _SECONDS_BETWEEN_REPORTS and progress.frames != progress.total:
            return
        reported = time.monotonic()
        channel.send({"event": "progress", **vars(progress)})

    return dehaze_video(source, result, model=network, options=options, overwrite=True, resume=True, progress=report)


def main() -> None:
    """Take jobs until the input ends."""
    device, model, memory = sys.argv[1:]
    logging.basicConfig(format="worker: %(message)s", level=logging.WARNING)
    cancelled = Cancellations()
    channel = Channel(cancelled.take)
    network = load_network(model or None, device=device)
    if network.device.type == "cpu":  # drivers of GPUs reserve more addresses than they use
        limit_address_space(int(memory))
    channel.send({"event": "ready", "device": str(network.device), **network.weights.as_json()})
    for job in channel.requests():
        channel.send({"event": "started"})
        try:
            report = run_job(job, network, channel, cancelled)
            facts = report.as_json()
            folder = Path(job["source"]).parent
            warnings = [without_paths(text, folder, job["name"]) for text in report.warnings]
            facts |= {"partial": without_paths(report.partial, folder, job["name"]), "warnings": warnings}
            answer = {"event": "done", "report": {key: facts[key] for key in _REPORTED}}
        except Cancelled:
            answer = {"event": "cancelled"}
        except BaseException as error:
            answer = {"event": "failed", "error": sentence_for_visitors(error, job["source"], job["name"])}
            if isinstance(error, KeyboardInterrupt | SystemExit):
                raise
        channel.send(answer)


if __name__ == "__main__":
    main()
