"""Ask the plug-in in the host's Python for frames in several orders: `vapoursynth_requests.py MODEL`."""

import sys

import numpy as np
import vapoursynth as vs
import vslibranet
from vapoursynth_script import direct, make_clip, planes_of

model = sys.argv[1]
with np.load("hazy.npz") as stored:
    source = [stored[name] for name in sorted(stored)]
expected = direct(source, "YUV420P8", model)


def differences(numbers: list[int], clip: vs.VideoNode) -> list[int]:
    """The largest difference of each requested frame from the stream's."""
    found = []
    for n in numbers:
        with clip.get_frame(n) as frame:
            assert frame.props["Own"] == b"kept" or frame.props["Own"] == "kept"
            pairs = zip(planes_of(frame), expected[n], strict=True)
            found.append(max(int(np.abs(a.astype(int) - b).max()) for a, b in pairs))
    return found


def dehazed(**options: float) -> vs.VideoNode:
    return vslibranet.dehaze(make_clip(source, "YUV420P8"), model=model, **options)


count = len(source[0])
for threads in (1, 2, 5):
    vs.core.num_threads = threads
    assert differences(list(range(count)), dehazed()) == [0] * count
    clip = dehazed()
    waiting = [clip.get_frame_async(n) for n in reversed(range(count))]  # requests overtake each other
    for n, future in zip(reversed(range(count)), waiting, strict=True):
        with future.result() as frame:
            assert all(np.array_equal(a, b) for a, b in zip(planes_of(frame), expected[n], strict=True)), (threads, n)
# The clip is shorter than the second before a frame from which reading begins again: no difference at all.
assert differences([9, 2, 3, 11, 0, count - 1], dehazed()) == [0] * 6
same = dehazed(strength=0.0)
with same.get_frame(4) as frame:
    assert all(np.array_equal(a, b[4]) for a, b in zip(planes_of(frame), source, strict=True))
refused = 0
for wrong in (vs.core.std.BlankClip(format=vs.YUV444PS), vs.core.std.BlankClip(format=vs.RGBH)):
    try:
        vslibranet.dehaze(wrong)
    except ValueError as error:
        refused += "resize.Bicubic" in str(error)
print("refused", refused)
