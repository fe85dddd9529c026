"""Frames in the form that an encoder takes: other orders of the same samples, and palettes."""

import av
import av.filter

from libranet.video.encoder import EncoderSettings


def encoder_frame(frame: av.VideoFrame, settings: EncoderSettings) -> av.VideoFrame:
    """Return a planar frame as the encoder takes it, with its time."""
    if settings.frame_format == frame.format.name:
        return frame
    if settings.frame_format == "pal8":
        ready = _with_palette(frame, settings)
    else:
        full = 2 if frame.format.is_rgb else frame.color_range or 1
        ready = frame.reformat(format=settings.frame_format, src_color_range=full, dst_color_range=full)
    ready.pts, ready.time_base = frame.pts, frame.time_base
    return ready


def _with_palette(frame: av.VideoFrame, settings: EncoderSettings) -> av.VideoFrame:
    """Reduce a frame to the 256 colours that suit it best."""
    graph = av.filter.Graph()
    source = graph.add_buffer(width=frame.width, height=frame.height, format=frame.format, time_base=settings.time_base)
    split = graph.add("split")
    palette = graph.add("palettegen", "stats_mode=single:reserve_transparent=0")
    use = graph.add("paletteuse", "new=1")
    sink = graph.add("buffersink")
    source.link_to(split)
    split.link_to(palette, 0, 0)
    split.link_to(use, 1, 0)
    palette.link_to(use, 0, 1)
    use.link_to(sink)
    graph.configure()
    graph.push(frame)
    graph.push(None)
    ready = graph.pull()
    assert isinstance(ready, av.VideoFrame)
    return ready
