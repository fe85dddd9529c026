"""Dehaze a video file from Python, with progress.

python examples/dehaze_file.py foggy.mp4 clear.mp4 [weights.safetensors]
"""

import sys

from libranet import DehazeOptions, LibraNetError, dehaze_video
from libranet.engine import Progress


def show(step: Progress) -> None:
    total = f"/{step.total}" if step.total else ""
    print(f"\r{step.frames}{total} frames, {step.fps:.1f} fps, bound by {step.bound_by}   ", end="", file=sys.stderr)


def main() -> int:
    source, output, *model = sys.argv[1:]
    options = DehazeOptions(strength=1.0, crf=18)
    try:
        report = dehaze_video(
            source, output, model=model[0] if model else None, options=options, resume=True, progress=show
        )
    except LibraNetError as error:
        print(f"\n{error}", file=sys.stderr)
        return 2
    print(f"\n{report.frames} frames in {report.seconds:.1f} s -> {report.output}")
    if report.partial:
        print(f"partial: {report.partial}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
