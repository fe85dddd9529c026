"""Dehaze a video file, with progress. Sound, subtitles, timestamps and colour tags are kept."""

import sys

from libranet import DehazeOptions, LibraNetError, dehaze_video
from libranet.engine import Progress
from libranet.page import example_path

source = example_path()
options = DehazeOptions(strength=0.9, end=0.4)  # the first 0.4 s; leave `end` out for the whole file


def show(step: Progress) -> None:
    print(f"\r{step.frames}/{step.total or '?'} frames, bound by {step.bound_by}   ", end="", file=sys.stderr)


try:
    report = dehaze_video(source, "clear.mp4", options=options, overwrite=True, progress=show)
except LibraNetError as error:  # one sentence: what is wrong, and what to do
    sys.exit(f"\n{error}")
print(f"\n{report.frames} frames in {report.seconds:.1f} s -> {report.output}")
