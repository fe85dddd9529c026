"""Dehaze a clip in VapourSynth: call `dehaze(clip, "net.onnx")` from a script.

net.onnx is a file of `libranet export --window`. Needs the packages vapoursynth and vapoursynth-mlrt-ort.
"""

import vapoursynth as vs

core = vs.core


def dehaze(clip: vs.VideoNode, network: str, *, window: int = 5) -> vs.VideoNode:
    """Restore every frame from those around it; the first and the last frame stand in beyond the ends."""
    yuv = clip.format.color_family == vs.YUV
    rgb = core.resize.Bicubic(clip, format=vs.RGBS, **({"matrix_in": vs.MATRIX_BT709} if yuv else {}))
    radius = window // 2
    padded = rgb[0] * radius + rgb + rgb[-1] * radius
    around = [padded[step : step + len(rgb)] for step in range(window)]
    clear = core.ort.Model(around, network_path=network)
    return core.resize.Bicubic(clear, format=clip.format.id, **({"matrix": vs.MATRIX_BT709} if yuv else {}))
