"""Losses that were silent once. Each test is named after what was lost."""

import random
import shutil
import subprocess
from dataclasses import replace
from fractions import Fraction

import av
import cv2
import numpy as np
import pytest

from clips import Clip, other_packets, read_all, same_frames, textured_frame, write_clip
from libranet.engine import DehazeOptions, dehaze_video
from libranet.engine.image_files import dehaze_image
from libranet.engine.video import plan_video
from libranet.errors import InputError
from libranet.images import Image, count_images, read_images, write_image
from libranet.video.pixels import plane_views
from libranet.video.reader import open_video

ZERO = DehazeOptions(strength=0.0, crf=0)
Q0 = (("qp", "0"),)
MS = Fraction(1, 1000)


def dehaze(source, output, network, options=ZERO, **more):
    return dehaze_video(source, output, model=network, options=options, device="cpu", **more)


@pytest.mark.parametrize("name", ["Sale 20%.mp4", "100%d.mp4", "%04d.mp4"])
def test_streams_of_a_file_with_a_percent_sign(tmp_path, tiny_model, name):
    source = write_clip(tmp_path / name, Clip(audio=("aac",), chapters=2, metadata=(("title", "Fog"),), options=Q0))
    report = dehaze(source, tmp_path / "out.mp4", tiny_model)
    assert (report.copied_streams, report.warnings) == (1, ())
    assert other_packets(tmp_path / "out.mp4") == other_packets(source)
    with av.open(str(tmp_path / "out.mp4")) as container:
        assert len(container.chapters()) == 2
        assert container.metadata["title"] == "Fog"


@pytest.mark.parametrize(
    ("name", "codec", "pixel_format", "output"),
    [
        ("in.mov", "prores_ks", "yuva444p10le", "out.mov"),
        ("in.mov", "qtrle", "argb", "out.mov"),
        ("in.mov", "qtrle", "argb", "out.mkv"),
        ("in.webm", "libvpx-vp9", "yuva420p", "out.webm"),
        ("in.mkv", "ffv1", "yuva420p", "out.mkv"),
        ("in.mkv", "ffv1", "yuva420p", "out.mov"),
    ],
)
def test_alpha(tmp_path, tiny_model, name, codec, pixel_format, output):
    source = tmp_path / name
    _write_alpha(source, codec, pixel_format)
    report = dehaze(source, tmp_path / output, tiny_model, DehazeOptions(strength=0.0))
    assert "a" in report.pixel_format.removeprefix("gbr").removeprefix("yuv")
    before, after = (_alpha_planes(path) for path in (source, tmp_path / output))
    assert len(before) == len(after) == 4
    slack = 8 if report.codec == "vp9" else 0  # its alpha is as lossy as its colours
    for a, b in zip(before, after, strict=True):
        assert np.abs(a - b).max() * 255 <= slack + 0.51
    assert np.ptp(before[0]) > 0.5


def test_alpha_that_no_codec_of_the_container_holds(tmp_path, tiny_model):
    source = tmp_path / "in.mov"
    _write_alpha(source, "qtrle", "argb")
    with pytest.raises(InputError, match="alpha"):
        dehaze(source, tmp_path / "out.mp4", tiny_model, DehazeOptions())
    report = dehaze(source, tmp_path / "out.mp4", tiny_model, DehazeOptions(pixel_format="yuv420p"))
    assert any("alpha" in note for note in report.warnings)


def test_opaque_alpha_is_dropped_with_a_note(tmp_path, tiny_model):
    source = tmp_path / "in.mov"
    _write_alpha(source, "qtrle", "argb", opaque=True)
    report = dehaze(source, tmp_path / "out.mp4", tiny_model, DehazeOptions())
    assert report.partial == ""
    assert any("opaque" in note for note in report.warnings)


@pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="needs Debian's ffmpeg")
def test_the_plan_says_that_a_later_frame_is_transparent(tmp_path, tiny_model):
    source = tmp_path / "in.gif"
    alpha = "format=rgba,geq=r='r(X,Y)':g='g(X,Y)':b='b(X,Y)':a='if(gte(N,2)*lt(X,20),0,255)'"
    graph = f"{alpha},split[a][b];[a]palettegen[p];[b][p]paletteuse"
    make = ["-f", "lavfi", "-i", "testsrc2=size=64x48:rate=10:duration=0.4", "-vf", graph]
    subprocess.run(["ffmpeg", "-v", "error", *make, "-gifflags", "-offsetting-transdiff", source], check=True)
    plan = plan_video(source, tmp_path / "out.gif", tiny_model)
    assert "the alpha channel is left out: the first frame is opaque, but not that at 0.30 s; .mkv keeps alpha" in (
        plan.notes
    )
    assert "1 frames are transparent" in dehaze(source, tmp_path / "out.gif", tiny_model, DehazeOptions()).partial
    assert "a" in dehaze(source, tmp_path / "out.mkv", tiny_model, DehazeOptions()).pixel_format[3:]


@pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="needs Debian's ffmpeg")
@pytest.mark.parametrize("order", ["progressive", "tt", "bb"])
def test_the_mark_of_interlaced_video_over_progressive_frames(tmp_path, tiny_model, order):
    source = tmp_path / "in.mov"
    make = ["-f", "lavfi", "-i", "testsrc2=size=64x48:duration=0.1", "-c:v", "prores_ks", "-field_order", order]
    subprocess.run(["ffmpeg", "-v", "error", *make, source], check=True)
    for deinterlace in (False, True):
        options = DehazeOptions(strength=0.0, deinterlace=deinterlace)
        notes = plan_video(source, tmp_path / "out.mov", tiny_model, options=options).notes
        assert any("calls its frames interlaced" in note for note in notes) is (
            order != "progressive" and not deinterlace
        )
    report = dehaze(source, tmp_path / "out.mov", tiny_model, DehazeOptions(strength=0.0))
    with av.open(report.output) as container:
        assert container.streams.video[0].codec_context.field_order <= 1


@pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="needs Debian's ffmpeg")
@pytest.mark.parametrize("programs", [1, 2, 3])
def test_programs_of_a_transport_stream(tmp_path, tiny_model, programs):
    source = tmp_path / "in.ts"
    pictures = [word for n in range(programs) for word in ("-f", "lavfi", "-i", f"testsrc2=size=64x{48 + 16 * n}:d=1")]
    maps = [word for n in range(programs) for word in ("-map", str(n), "-program", f"program_num={n + 5}:st={n}")]
    subprocess.run(["ffmpeg", "-v", "error", *pictures, *maps, "-c:v", "mpeg2video", source], check=True)
    for suffix in (".ts", ".mkv"):
        notes = " ".join(plan_video(source, tmp_path / f"out{suffix}", tiny_model).notes)
        assert (f"the {programs} programs, which become one" in notes) is (programs > 1)


@pytest.mark.parametrize("second", ["yuv420p10le", "yuv422p", "yuv444p"])
def test_colours_after_a_change_of_the_pixel_format(tmp_path, tiny_model, second):
    first = write_clip(tmp_path / "a.ts", Clip(options=Q0, frames=6))
    other = write_clip(tmp_path / "b.ts", Clip(options=Q0, frames=6, pixel_format=second))
    source = tmp_path / "in.ts"
    source.write_bytes(first.read_bytes() + other.read_bytes())
    report = dehaze(source, tmp_path / "out.mkv", tiny_model)
    assert f"from yuv420p to {second}" in report.partial
    assert same_frames(read_all(tmp_path / "out.mkv")[1], read_all(first)[1])


@pytest.mark.parametrize("second", [{"pixel_format": "yuv422p"}, {"width": 96}])
def test_the_rest_after_a_change_can_be_dehazed_as_the_sentence_says(tmp_path, tiny_model, second):
    first = write_clip(tmp_path / "a.ts", Clip(options=Q0, frames=6))
    other = write_clip(tmp_path / "b.ts", Clip(options=Q0, frames=6, **second))
    source = tmp_path / "in.ts"
    source.write_bytes(first.read_bytes() + other.read_bytes())
    partial = dehaze(source, tmp_path / "out.mkv", tiny_model).partial
    start = float(partial.rpartition("--start ")[2])
    report = dehaze(source, tmp_path / "rest.mkv", tiny_model, replace(ZERO, start=start))
    assert (report.frames, report.partial) == (6, "")
    assert same_frames(read_all(tmp_path / "rest.mkv")[1], read_all(other)[1])


@pytest.mark.parametrize(
    ("suffix", "clip"),
    [
        (".ts", Clip(audio=("flac",), time_base=MS)),
        (".webm", Clip(audio=("aac",), time_base=MS)),
        (".avi", Clip(subtitles="subrip", time_base=MS)),
        (".mov", Clip(attachment=True, time_base=MS)),
        (".mp4", Clip(attachment=True, time_base=MS)),
        (".ts", Clip(attachment=True, subtitles="subrip", time_base=MS)),
    ],
)
def test_streams_that_the_container_cannot_hold(tmp_path, tiny_model, suffix, clip):
    source = write_clip(tmp_path / "in.mkv", clip)
    report = dehaze(source, tmp_path / f"out{suffix}", tiny_model, DehazeOptions())
    with av.open(str(source)) as before, av.open(str(tmp_path / f"out{suffix}")) as after:
        lost = len(before.streams) - len(after.streams)
    assert lost == len(report.warnings) > 0
    assert report.copied_streams == len(clip.audio) + bool(clip.subtitles) + clip.attachment - lost


@pytest.mark.parametrize(("codec", "suffix"), [("opus", ".webm"), ("aac", ".ts"), ("pcm", ".mov"), ("flac", ".mkv")])
def test_sound_is_transcoded_where_asked(tmp_path, tiny_model, codec, suffix):
    source = write_clip(tmp_path / "in.mkv", Clip(audio=("ac3",), frames=25, time_base=MS))
    report = dehaze(source, tmp_path / f"out{suffix}", tiny_model, DehazeOptions(audio=codec))
    assert (report.warnings, report.partial) == ((), "")
    with av.open(str(tmp_path / f"out{suffix}")) as container:
        sound = container.streams.audio[0]
        assert sound.codec_context.codec.canonical_name.startswith(codec)
        samples = np.concatenate([frame.to_ndarray().reshape(-1) for frame in container.decode(sound)])
    assert 0.9 < samples.size / sound.codec_context.channels / sound.codec_context.sample_rate < 1.2
    assert samples.astype(float).std() > 0


def test_frames_behind_gaps_and_late_first_numbers(tmp_path, tiny_model):
    numbers = [7, 8, 12, 30]
    for number in numbers:
        write_image(tmp_path / f"f_{number:03d}.png", Image(np.full((48, 64, 3), number, np.uint8)))
    report = dehaze(str(tmp_path / "f_%03d.png"), tmp_path / "out.mkv", tiny_model, DehazeOptions(0.0, codec="ffv1"))
    assert report.frames == len(numbers)
    assert any("20 of the numbers 7 to 30 are missing: 9 to 11, 13 to 29" in note for note in report.warnings)
    levels = [int(planes[0][0, 0]) for planes in read_all(tmp_path / "out.mkv")[1]]
    assert levels == numbers


@pytest.mark.parametrize("suffix", [".webp", ".png", ".tif"])
def test_frames_of_animations_and_pages(tmp_path, tiny_model, suffix):
    frames = [np.full((48, 64, 3), 40 * index, np.uint8) for index in range(4)]
    source = tmp_path / f"in{suffix}"
    if suffix == ".tif":
        cv2.imwritemulti(str(source), frames)
    else:
        animation = cv2.Animation()
        animation.frames, animation.durations = frames, [50, 100, 150, 200]
        cv2.imwriteanimation(str(source), animation, [cv2.IMWRITE_WEBP_QUALITY, 101])
    assert count_images(source) == 4
    report = dehaze_image(source, tmp_path / f"out{suffix}", tiny_model, options=DehazeOptions(0.0))
    assert report.frames == 4
    before, after = (list(read_images(path)) for path in (source, tmp_path / f"out{suffix}"))
    for (a, seconds), (b, same) in zip(before, after, strict=True):
        assert np.array_equal(a.samples, b.samples)
        assert seconds == same
    with pytest.raises(InputError, match="holds 4 images"):
        dehaze_image(source, tmp_path / "out.jpg", tiny_model)
    assert dehaze(source, tmp_path / "out.mkv", tiny_model, DehazeOptions()).frames == 4


def test_frames_before_damage_at_the_end(tmp_path, tiny_model):
    """A decoder with many threads holds the last frames when the file ends, and gave up at the first damaged one."""
    clip = Clip(frames=15, width=128, height=96, options=(("g", "4"), ("bf", "0"), ("threads", "1")))
    source = write_clip(tmp_path / "in.mkv", clip)
    with av.open(str(source)) as container:
        packets = [(packet.pos, packet.size) for packet in container.demux(video=0) if packet.size]
    data = bytearray(source.read_bytes())
    at, size = packets[10]
    data[at + 12 : at + size] = random.Random(0).randbytes(size - 12)
    source.write_bytes(data)
    expected = _decoded_by_one_thread(source)
    report = dehaze(source, tmp_path / "out.mkv", tiny_model, DehazeOptions())
    assert report.frames >= expected >= 13
    assert report.partial


def test_packets_that_give_no_frame_are_counted(tmp_path, monkeypatch):
    from libranet.video import decoding

    source = write_clip(tmp_path / "in.mkv", Clip(frames=10, options=(("bf", "0"),)))
    real = decoding.FrameDecoder._seen
    monkeypatch.setattr(
        decoding.FrameDecoder, "_seen", lambda self, frames: real(self, [f for f in frames if f.pts != 80])
    )
    with open_video(source) as reader:
        assert len(list(reader.frames())) == 9
        assert reader.damage.lost == 1
        assert "1 packets of the video gave no frame" in reader.damage.sentence()


def test_a_clock_that_starts_over(tmp_path, tiny_model):
    part = write_clip(tmp_path / "part.ts", Clip(frames=20, audio=("aac",), options=Q0))
    source = tmp_path / "in.ts"
    source.write_bytes(part.read_bytes() * 3)
    for suffix in (".mp4", ".mkv", ".ts"):
        report = dehaze(source, tmp_path / f"out{suffix}", tiny_model)
        assert (report.frames, report.partial) == (60, "")
        times, frames = read_all(tmp_path / f"out{suffix}")
        steps = np.diff([float(time) for time in times])
        assert np.all(steps > 0.03)
        assert np.all(steps < 0.2)
        assert same_frames(frames[:20], frames[40:])
        with av.open(str(tmp_path / f"out{suffix}")) as container:
            sound = [float(p.pts * p.time_base) for p in container.demux(audio=0) if p.pts is not None]
        assert abs((sound[-1] - sound[0]) - float(times[-1] - times[0])) < 0.2


def test_names_with_a_colon(tmp_path, tiny_model):
    source = write_clip(tmp_path / "12:30 fog.mkv", Clip())
    assert dehaze(source, tmp_path / "at 12:30.mkv", tiny_model, DehazeOptions()).frames == 5
    shutil.copy(source, tmp_path / "pipe:0.mkv")
    assert dehaze(tmp_path / "pipe:0.mkv", tmp_path / "out.mkv", tiny_model, DehazeOptions()).frames == 5


def test_a_link_stays_a_link(tmp_path, tiny_model):
    source = write_clip(tmp_path / "in.mkv", Clip())
    (tmp_path / "real.mkv").touch()
    (tmp_path / "link.mkv").symlink_to(tmp_path / "real.mkv")
    dehaze(source, tmp_path / "link.mkv", tiny_model, DehazeOptions(), overwrite=True)
    assert (tmp_path / "link.mkv").is_symlink()
    assert (tmp_path / "real.mkv").stat().st_size > 0


def test_unfinished_work_lies_beside_the_file_that_a_link_points_to(tmp_path, tiny_model):
    """They may be on another file system than the link, and a finished file is moved within one."""
    source = write_clip(tmp_path / "in.mkv", Clip())
    (tmp_path / "store").mkdir()
    (tmp_path / "link.mkv").symlink_to(tmp_path / "store" / "real.mkv")
    seen = set()
    dehaze(
        source,
        tmp_path / "link.mkv",
        tiny_model,
        progress=lambda _: seen.update(path.parent.name for path in tmp_path.glob("**/*.libranet")),
    )
    assert seen == {"store"}
    assert (tmp_path / "link.mkv").is_symlink()
    assert (tmp_path / "store" / "real.mkv").stat().st_size > 0
    for name, target in (("dangling.mkv", tmp_path / "nowhere" / "x.mkv"), ("loop.mkv", tmp_path / "loop.mkv")):
        (tmp_path / name).symlink_to(target)
        with pytest.raises(InputError, match=r"no folder|leads to itself"):
            dehaze(source, tmp_path / name, tiny_model)


def _write_alpha(path, codec: str, pixel_format: str, *, opaque: bool = False) -> None:
    container = av.open(str(path), "w")
    video = container.add_stream(codec, rate=25)
    video.width, video.height, video.pix_fmt = 64, 48, pixel_format
    if codec == "libvpx-vp9":
        video.codec_context.options = {"lossless": "1"}
        video.metadata["alpha_mode"] = "1"
    for index in range(4):
        planar = "gbrap" if pixel_format == "argb" else pixel_format
        frame = textured_frame(planar, 64, 48, index)
        alpha = plane_views(frame)[3]
        peak = (1 << frame.format.components[3].bits) - 1
        ramp = np.linspace(0, peak, alpha.shape[1]).astype(alpha.dtype)
        alpha[...] = peak if opaque else np.roll(ramp, index)[None]
        frame = frame if planar == pixel_format else frame.reformat(format=pixel_format)
        frame.pts = index
        container.mux(video.encode(frame))
    container.mux(video.encode(None))
    container.close()


def _alpha_planes(path) -> list[np.ndarray]:
    with open_video(path) as reader:
        frames = [frame.image for frame in reader.frames()]
        return [plane_views(f)[3].astype(float) / ((1 << f.format.components[3].bits) - 1) for f in frames]


def _decoded_by_one_thread(path) -> int:
    with av.open(str(path)) as container:
        video = container.streams.video[0]
        video.codec_context.thread_count = 1
        count = 0
        for packet in container.demux(video):
            try:
                count += len(packet.decode())
            except av.FFmpegError:
                continue
    return count
