"""Pipelines with our element, in the Python of Debian's GStreamer: `gstreamer_pipelines.py CASE MODEL [CLIP]`.

Each case is a function that asserts; the last line says how many frames it compared.
"""

import sys

import gi
import numpy as np
import torch

gi.require_version("Gst", "1.0")
from gi.repository import GLib, Gst  # noqa: E402

from libranet import Dehazer  # noqa: E402
from libranet.frames import ColorSpec, FrameFormat, Frames, PixelLayout  # noqa: E402

Gst.init(None)
WIDTH, HEIGHT, COUNT = 66, 50, 12  # 66 luma and 33 chroma columns: both are padded in memory
SOURCE = f"videotestsrc pattern=chroma-zone-plate kx2=20 ky2=20 kt=1 num-buffers={COUNT} ! videoconvert ! "


def collect(pipeline: Gst.Pipeline) -> tuple[list[Gst.Sample], Gst.Message]:
    """Play a pipeline with an appsink called `out` to its end."""
    out, samples = pipeline.get_by_name("out"), []
    pipeline.set_state(Gst.State.PLAYING)
    while (sample := out.emit("try-pull-sample", 60 * Gst.SECOND)) is not None:
        samples.append(sample)
    kinds = Gst.MessageType.EOS | Gst.MessageType.ERROR
    message = pipeline.get_bus().timed_pop_filtered(60 * Gst.SECOND, kinds)
    pipeline.set_state(Gst.State.NULL)
    return samples, message


def both(form: str, model: str, options: str = "", source: str = SOURCE) -> tuple[list[Gst.Sample], list[Gst.Sample]]:
    """What goes into the element and what comes out: the sources give the same frames each time."""
    size = f"video/x-raw,format={form},width={WIDTH},height={HEIGHT},framerate=25/1,colorimetry=bt709"
    size = size.replace(",colorimetry=bt709", "") if form.startswith(("BGR", "GRAY")) else size
    sink = "appsink name=out sync=false max-buffers=0"
    pipes = [f"{source} {size} ! {middle} {sink}" for middle in ("", f"libranet model={model} {options} !")]
    before, after = (collect(Gst.parse_launch(pipe))[0] for pipe in pipes)
    assert len(before) == len(after) == COUNT, (len(before), len(after))
    for one, other in zip(before, after, strict=True):
        assert one.get_caps().is_equal(other.get_caps()), other.get_caps().to_string()
        one, other = one.get_buffer(), other.get_buffer()
        assert (one.pts, one.duration, one.offset) == (other.pts, other.duration, other.offset)
    return before, after


def data(sample: Gst.Sample) -> np.ndarray:
    buffer = sample.get_buffer()
    return np.frombuffer(buffer.extract_dup(0, buffer.get_size()), np.uint8)


def planes(form: str, sample: Gst.Sample) -> list[np.ndarray]:
    """Components of a frame, by the memory layouts that GStreamer's documentation gives."""
    octets, half, rows = data(sample), (WIDTH + 1) // 2, (HEIGHT + 1) // 2
    if form == "I420":
        luma, chroma = octets[: 68 * HEIGHT].reshape(HEIGHT, 68), octets[68 * HEIGHT :].reshape(2, rows, 36)
        return [luma[:, :WIDTH], *chroma[:, :, :half]]
    if form == "NV12":
        luma, chroma = octets[: 68 * HEIGHT].reshape(HEIGHT, 68), octets[68 * HEIGHT :].reshape(rows, 34, 2)
        return [luma[:, :WIDTH], chroma[:, :half, 0], chroma[:, :half, 1]]
    if form == "P010_10LE":
        words = octets.view("<u2") >> 6
        luma, chroma = words[: 66 * HEIGHT].reshape(HEIGHT, 66), words[66 * HEIGHT :].reshape(rows, 33, 2)
        return [luma[:, :WIDTH], chroma[:, :half, 0], chroma[:, :half, 1]]
    if form == "BGRx":
        pixels = octets.reshape(HEIGHT, WIDTH, 4)
        return [pixels[..., 1], pixels[..., 0], pixels[..., 2]]
    assert form == "GRAY8"
    return [octets.reshape(HEIGHT, 68)[:, :WIDTH]]


LAYOUTS = {
    "I420": PixelLayout("yuv420p", "yuv", 8, 2, 2, alpha=False),
    "NV12": PixelLayout("yuv420p", "yuv", 8, 2, 2, alpha=False),
    "P010_10LE": PixelLayout("yuv420p10le", "yuv", 10, 2, 2, alpha=False),
    "BGRx": PixelLayout("gbrp", "rgb", 8, 1, 1, alpha=False),
    "GRAY8": PixelLayout("gray", "gray", 8, 1, 1, alpha=False),
}


def direct(form: str, samples: list[Gst.Sample], model: str, **options: object) -> list[Frames]:
    layout = LAYOUTS[form]
    color = ColorSpec("bt709", full_range=layout.model != "yuv")
    shape = FrameFormat(WIDTH, HEIGHT, layout, color)
    read = [[torch.from_numpy(plane.copy())[None] for plane in planes(form, sample)] for sample in samples]
    dehazer = Dehazer(model, rate=25, **options)
    return dehazer.push_many([Frames(tuple(each), shape) for each in read]) + dehazer.flush()


def formats(model: str) -> int:
    """The element gives what `Dehazer` gives, bit by bit, in memory of every kind."""
    for form in LAYOUTS:
        for options, live in (("", False), ("live=true", True)):
            before, after = both(form, model, options)
            for sample, frame in zip(after, direct(form, before, model, live=live), strict=True):
                pairs = zip(planes(form, sample), frame.planes, strict=True)
                assert all(np.array_equal(a, b[0].numpy()) for a, b in pairs), (form, options)
            assert any(not np.array_equal(data(a), data(b)) for a, b in zip(before, after, strict=True))
    for form in ("YUY2", "ARGB", "Y444_12LE"):
        before, after = both(form, model, "strength=0")
        assert all(np.array_equal(data(a), data(b)) for a, b in zip(before, after, strict=True)), form
        before, after = both(form, model)
        assert any(not np.array_equal(data(a), data(b)) for a, b in zip(before, after, strict=True))
        if form == "ARGB":
            assert all(np.array_equal(data(a)[::4], data(b)[::4]) for a, b in zip(before, after, strict=True))
    return COUNT * (len(LAYOUTS) * 2 + 6)


def latency(model: str) -> int:
    """A live source: latency is two frames more, or none with `live`; frames arrive while the pipeline plays."""
    found = []
    for options in ("", "live=true"):
        pipe = (
            f"videotestsrc is-live=true num-buffers={COUNT} ! video/x-raw,format=I420,width=64,height=48,framerate=25/1"
            f" ! libranet model={model} {options} ! appsink name=out sync=true max-buffers=0"
        )
        pipeline = Gst.parse_launch(pipe)
        out = pipeline.get_by_name("out")
        pipeline.set_state(Gst.State.PLAYING)
        first = out.emit("try-pull-sample", 60 * Gst.SECOND)
        query = Gst.Query.new_latency()
        assert pipeline.query(query)
        found.append(query.parse_latency().min_latency)
        count = 1
        while out.emit("try-pull-sample", 60 * Gst.SECOND) is not None:
            count += 1
        assert (first is not None, count) == (True, COUNT)
        pipeline.set_state(Gst.State.NULL)
    assert found[0] - found[1] == 80 * Gst.MSECOND, found
    return 2 * COUNT


def seeking(model: str, clip: str) -> int:
    """A seek drops what waits and begins a new stream; a file is decoded by decodebin."""
    pipeline = Gst.parse_launch(
        f'filesrc location="{clip}" ! decodebin ! videoconvert ! libranet model={model} ! '
        "appsink name=out sync=false max-buffers=1"
    )
    out = pipeline.get_by_name("out")
    pipeline.set_state(Gst.State.PLAYING)
    first = [out.emit("try-pull-sample", 60 * Gst.SECOND).get_buffer().pts for _ in range(4)]
    assert pipeline.seek_simple(Gst.Format.TIME, Gst.SeekFlags.FLUSH | Gst.SeekFlags.ACCURATE, 0)
    times = []
    while (sample := out.emit("try-pull-sample", 60 * Gst.SECOND)) is not None:
        times.append(sample.get_buffer().pts)
    pipeline.set_state(Gst.State.NULL)
    assert times == sorted(set(times))
    assert times[:4] == first, (times[:4], first)
    return len(times)


def changing(model: str) -> int:
    """Another size and another strength in the middle: every frame comes, and in order."""
    pipeline = Gst.parse_launch(
        f"concat name=join ! libranet name=net model={model} ! appsink name=out sync=false max-buffers=0 "
        "videotestsrc num-buffers=5 ! video/x-raw,format=I420,width=64,height=48,framerate=25/1 ! join. "
        "videotestsrc num-buffers=7 ! video/x-raw,format=I420,width=96,height=64,framerate=25/1 ! join."
    )
    samples, message = collect(pipeline)
    assert message.type == Gst.MessageType.EOS, message.parse_error()
    widths = [sample.get_caps().get_structure(0).get_value("width") for sample in samples]
    assert widths == [64] * 5 + [96] * 7
    return len(samples)


def errors(model: str) -> int:
    """What is wrong is an error on the bus, in our words."""
    for options, words in (("model=nosuch", "no checkpoint at nosuch"), ("device=abacus", "abacus")):
        pipeline = Gst.parse_launch(
            f"videotestsrc num-buffers=3 ! video/x-raw,format=I420,width=64,height=48 ! libranet {options} ! "
            "appsink name=out sync=false"
        )
        _, message = collect(pipeline)
        assert message.type == Gst.MessageType.ERROR
        error: GLib.Error = message.parse_error()[0]
        assert words in error.message, error.message
    return 0


CASES = {case.__name__: case for case in (formats, latency, seeking, changing, errors)}
print(CASES[sys.argv[1]](*sys.argv[2:]), "frames")
