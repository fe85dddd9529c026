"""Run the VapourSynth example on frames of a .npy file: `run_vapoursynth.py example.py net.onnx hazy.npy clear.npy`.

The tests call it with a Python that has VapourSynth, which is not the one that runs them.
"""

import runpy
import sys

import numpy as np
import vapoursynth as vs

example, network, source, target = sys.argv[1:]
hazy = np.load(source)  # [n, 3, h, w]
count, _, height, width = hazy.shape
blank = vs.core.std.BlankClip(width=width, height=height, format=vs.RGBS, length=count)


def fill(n: int, f: vs.VideoFrame) -> vs.VideoFrame:
    frame = f.copy()
    for plane in range(3):
        np.asarray(frame[plane])[:] = hazy[n, plane]
    return frame


clip = runpy.run_path(example)["dehaze"](vs.core.std.ModifyFrame(blank, blank, fill), network)
np.save(target, np.stack([np.stack([np.asarray(frame[plane]) for plane in range(3)]) for frame in clip.frames()]))
