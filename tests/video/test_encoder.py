import pytest

from libranet.errors import InputError
from libranet.video.encoder import choose_codec, pick_pixel_format
from libranet.video.encoder_options import encoder_options
from libranet.video.pixels import layout_of
from libranet.video.tags import VideoTags


@pytest.mark.parametrize(
    ("output", "source", "pixel_format", "codec"),
    [
        ("o.mp4", "h264", "yuv420p", "h264"),
        ("o.mp4", "hevc", "yuv420p10le", "hevc"),
        ("o.mp4", "mpeg2video", "yuv420p", "h264"),
        ("o.mp4", "ffv1", "yuv420p12le", "hevc"),
        ("o.mkv", "ffv1", "yuv422p10le", "ffv1"),
        ("o.mov", "prores", "yuv422p10le", "prores"),
        ("o.webm", "h264", "yuv420p", "vp9"),
        ("o.webm", "vp9", "yuv420p10le", "av1"),
        ("o.mkv", "rawvideo", "yuv444p16le", "ffv1"),
    ],
)
def test_the_default_codec_loses_nothing(output, source, pixel_format, codec):
    assert choose_codec(output, asked=None, source_codec=source, layout=layout_of(pixel_format), size=(64, 48)) == codec
    picked = pick_pixel_format(codec, layout_of(pixel_format))
    assert picked == (pixel_format, pixel_format)


@pytest.mark.parametrize(
    ("codec", "source", "target"),
    [("h264", "gbrp", "yuv444p"), ("prores", "yuv420p", "yuv422p10le"), ("h264", "yuv411p", "yuv422p")],
)
def test_other_formats_go_to_the_nearest_that_holds_them(codec, source, target):
    assert pick_pixel_format(codec, layout_of(source)) == (target, target)


def test_refusals():
    deep = layout_of("yuv444p16le")
    with pytest.raises(InputError, match=r"write to \.mkv"):
        choose_codec("o.mp4", asked=None, source_codec="ffv1", layout=deep, size=(64, 48))
    with pytest.raises(InputError, match=r"\.xyz"):
        choose_codec("o.xyz", asked=None, source_codec="h264", layout=deep, size=(64, 48))
    with pytest.raises(InputError, match="no meaning"):
        encoder_options("ffv1", crf=3, preset=None, layout=deep, tags=VideoTags())


@pytest.mark.parametrize(("output", "codec"), [("o.mp4", "av1"), ("o.mkv", "av1"), ("o.webm", "vp9")])
def test_odd_sizes_are_not_cut(output, codec):
    layout = layout_of("yuv420p")
    assert choose_codec(output, asked=None, source_codec="h264", layout=layout, size=(1279, 717)) == codec
    if output != "o.webm":
        with pytest.raises(InputError, match=r"1279x717.*av1"):
            choose_codec(output, asked="h264", source_codec="h264", layout=layout, size=(1279, 717))


@pytest.mark.parametrize(("asked", "size"), [("hevc", (48, 32)), ("av1", (128, 16)), ("av1", (16, 128))])
def test_sizes_that_crash_an_encoder_go_to_another(asked, size):
    """x265 4.1 writes past its arrays below a width of 64, SVT-AV1 4.1 waits for ever with a side below 30."""
    layout = layout_of("yuv420p")
    assert choose_codec("o.mkv", asked=None, source_codec=asked, layout=layout, size=size) == "h264"
    with pytest.raises(InputError, match=r"needs frames of \d+x\d+ or more.*codec h264"):
        choose_codec("o.mkv", asked=asked, source_codec="h264", layout=layout, size=size)
