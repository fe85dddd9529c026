"""Real files of every kind through `dehaze_video` at strength 0 into a lossless codec: all comes back as it was."""

from dataclasses import replace
from fractions import Fraction

import av
import pytest

from clips import Clip, other_packets, read_all, same_frames, textured_frame, write_clip
from libranet.engine import DehazeOptions, dehaze_video
from libranet.errors import InputError
from libranet.video.reader import open_video
from libranet.video.tags import VideoTags

LOSSLESS = DehazeOptions(strength=0.0, crf=0)
AS_IT_WAS = DehazeOptions(strength=0.0)
FFV1 = DehazeOptions(strength=0.0, codec="ffv1")
Q0 = (("qp", "0"),)
X265 = (("x265-params", "lossless=1:log-level=error"),)
MS = Fraction(1, 1000)
BT601 = {"colorspace": 6, "primaries": 6, "transfer": 6}
BT2020 = {"colorspace": 9, "primaries": 9, "transfer": 16}

MATRIX = {
    "h264.mp4": (Clip(options=Q0), LOSSLESS),
    "h264_full_range.mp4": (Clip(options=Q0, color_range=2), LOSSLESS),
    "h264_bt601.mov": (Clip(options=Q0, **BT601), LOSSLESS),
    "h264_422.mkv": (Clip(pixel_format="yuv422p", options=Q0, time_base=MS), LOSSLESS),
    "h264_444.mp4": (Clip(pixel_format="yuv444p", options=Q0), LOSSLESS),
    "h264_10bit.mp4": (Clip(pixel_format="yuv420p10le", options=Q0), LOSSLESS),
    "h264_variable.mp4": (Clip(options=Q0, variable=True, frames=9), LOSSLESS),
    "h264_ntsc.mp4": (Clip(options=Q0, rate=Fraction(30000, 1001), time_base=Fraction(1, 30000)), LOSSLESS),
    "h264_late_start.mp4": (Clip(options=Q0, first=5120), LOSSLESS),
    "h264_late_start.mkv": (Clip(options=Q0, time_base=MS, variable=True, first=77), FFV1),
    "hevc.mp4": (Clip(codec="libx265", options=X265), LOSSLESS),
    "hevc_10bit_2020.mkv": (
        Clip(codec="libx265", pixel_format="yuv420p10le", options=X265, time_base=MS, **BT2020),
        LOSSLESS,
    ),
    "hevc_12bit_422.mkv": (Clip(codec="libx265", pixel_format="yuv422p12le", options=X265, time_base=MS), LOSSLESS),
    "av1.mkv": (Clip(codec="libsvtav1", width=128, height=96, time_base=MS), FFV1),
    "vp9.webm": (Clip(codec="libvpx-vp9", options=(("lossless", "1"),), time_base=MS), LOSSLESS),
    "vp9_444.webm": (
        Clip(codec="libvpx-vp9", pixel_format="yuv444p", options=(("lossless", "1"),), time_base=MS),
        LOSSLESS,
    ),
    "ffv1.mkv": (Clip(codec="ffv1", time_base=MS, rate=Fraction(20)), AS_IT_WAS),
    "ffv1_422_10bit_full.mkv": (
        Clip(codec="ffv1", pixel_format="yuv422p10le", color_range=2, time_base=MS, variable=True, frames=7),
        AS_IT_WAS,
    ),
    "ffv1_444_16bit.mkv": (Clip(codec="ffv1", pixel_format="yuv444p16le", time_base=MS), AS_IT_WAS),
    "ffv1_rgb.mkv": (Clip(codec="ffv1", pixel_format="gbrp10le", time_base=MS), AS_IT_WAS),
    "ffv1_gray.mkv": (Clip(codec="ffv1", pixel_format="gray", time_base=MS, color_range=2, colorspace=2), AS_IT_WAS),
    "ffv1_alpha.mkv": (Clip(codec="ffv1", pixel_format="yuva420p", time_base=MS), AS_IT_WAS),
    "prores.mov": (Clip(codec="prores_ks", pixel_format="yuv422p10le"), AS_IT_WAS),
    "prores_444.mov": (Clip(codec="prores_ks", pixel_format="yuv444p10le", options=(("profile", "4444"),)), AS_IT_WAS),
    "odd_size.mkv": (Clip(codec="ffv1", width=79, height=45, time_base=MS), AS_IT_WAS),
    "odd_1279x717.mkv": (Clip(codec="ffv1", width=1279, height=717, time_base=MS, frames=2), AS_IT_WAS),
    "odd_size.webm": (
        Clip(codec="libvpx-vp9", width=79, height=45, options=(("lossless", "1"),), time_base=MS),
        LOSSLESS,
    ),
    "odd_av1.mp4": (Clip(codec="libsvtav1", width=127, height=93), LOSSLESS),
    "odd_size.mp4": (Clip(pixel_format="yuv444p", width=79, height=45, options=Q0), LOSSLESS),
    "rotated.mp4": (Clip(options=Q0, rotation=90), LOSSLESS),
    "rotated.mkv": (Clip(options=Q0, rotation=-90, time_base=MS), LOSSLESS),
    "anamorphic.mp4": (Clip(options=Q0, aspect=Fraction(40, 33)), LOSSLESS),
    "anamorphic.mkv": (Clip(options=Q0, aspect=Fraction(40, 33), time_base=MS), FFV1),
    "siting.mkv": (
        Clip(codec="libx265", options=(("chroma_sample_location", "topleft"), *X265), time_base=MS),
        FFV1,
    ),
    **{f"{n}_frames.mp4": (Clip(options=Q0, frames=n), LOSSLESS) for n in (1, 2, 3, 4)},
}


def square(tags: VideoTags) -> VideoTags:
    """Not every codec can tell square pixels from an unknown shape."""
    return replace(tags, sample_aspect_ratio=tags.sample_aspect_ratio or Fraction(1))


@pytest.mark.parametrize("name", MATRIX)
def test_strength_zero_returns_every_frame_time_and_tag(tmp_path, tiny_model, name):
    clip, options = MATRIX[name]
    source, output = write_clip(tmp_path / name, clip), tmp_path / f"out_{name}"
    report = dehaze_video(source, output, model=tiny_model, options=options, device="cpu")
    assert (report.partial, [note for note in report.warnings if "bits per sample" not in note]) == ("", [])
    with open_video(source) as before, open_video(output) as after:
        assert square(after.tags) == square(before.tags)
        assert after.pixel_format == before.pixel_format
        assert (after.width, after.height, after.rate) == (before.width, before.height, before.rate)
    (times_before, frames_before), (times_after, frames_after) = read_all(source), read_all(output)
    assert len(times_before) == clip.frames
    assert times_after == times_before
    if clip.codec != "prores_ks":  # has no lossless mode
        assert same_frames(frames_before, frames_after)


def test_the_network_does_change_frames(tmp_path, tiny_model):
    """The matrix above proves something: the same network at strength 1 gives other frames."""
    clip, _ = MATRIX["h264.mp4"]
    source = write_clip(tmp_path / "in.mp4", clip)
    dehaze_video(source, tmp_path / "out.mp4", model=tiny_model, options=DehazeOptions(crf=0), device="cpu")
    assert not same_frames(read_all(source)[1], read_all(tmp_path / "out.mp4")[1])


HDR = "G(13250,34500)B(7500,3000)R(34000,16000)WP(15635,16450)L(10000000,1)"


@pytest.mark.parametrize("target", ["out.mp4", "out.mkv", "ffv1.mkv", "h264.mp4"])
def test_hdr_mastering_data_survives(tmp_path, tiny_model, target):
    x265 = (("x265-params", f"lossless=1:log-level=error:master-display={HDR}:max-cll=1000,400"),)
    clip = Clip(codec="libx265", pixel_format="yuv420p10le", options=x265, time_base=MS, **BT2020)
    source = write_clip(tmp_path / "hdr.mkv", clip)
    options = {"ffv1.mkv": FFV1, "h264.mp4": DehazeOptions(strength=0.0, crf=0, codec="h264")}.get(target, LOSSLESS)
    dehaze_video(source, tmp_path / target, model=tiny_model, options=options, device="cpu")
    with open_video(source) as before, open_video(tmp_path / target) as after:
        assert before.tags.mastering is not None
        assert before.tags.light_level == (1000, 400)
        assert after.tags == before.tags
    assert same_frames(read_all(source)[1], read_all(tmp_path / target)[1])


STREAMS = {
    "none.mp4": Clip(options=Q0),
    "one.mp4": Clip(options=Q0, audio=("aac",), frames=20),
    "two.mp4": Clip(
        options=Q0, audio=("aac", "aac"), subtitles="mov_text", chapters=2, frames=20, metadata=(("title", "Fog"),)
    ),
    "two.mkv": Clip(
        options=Q0,
        audio=("flac", "aac"),
        subtitles="subrip",
        chapters=3,
        attachment=True,
        frames=20,
        time_base=MS,
        metadata=(("title", "Fog"), ("LOCATION", "the pass")),
    ),
    "pcm.mov": Clip(codec="prores_ks", pixel_format="yuv422p10le", audio=("pcm_s16le",), frames=10),
    "opus.webm": Clip(codec="libvpx-vp9", audio=("libopus",), subtitles="webvtt", frames=10, time_base=MS),
    "unusual.mp4": Clip(options=Q0, metadata=(("title", "Fog"), ("com.example.place", "the pass"))),
}


@pytest.mark.parametrize("name", STREAMS)
def test_other_streams_are_copied_bit_for_bit(tmp_path, tiny_model, name):
    source, output = write_clip(tmp_path / name, STREAMS[name]), tmp_path / f"out_{name}"
    report = dehaze_video(source, output, model=tiny_model, options=DehazeOptions(segment_frames=7), device="cpu")
    assert report.warnings == ()
    assert other_packets(output) == other_packets(source)
    with av.open(str(source)) as a, av.open(str(output)) as b:
        assert [(s.type, s.language, s.disposition) for s in a.streams] == [
            (s.type, s.language, s.disposition) for s in b.streams
        ]
        assert [(c["start"] * c["time_base"], c["metadata"]) for c in a.chapters()] == [
            (c["start"] * c["time_base"], c["metadata"]) for c in b.chapters()
        ]
        stale = {"encoder", "ENCODER"}
        assert {k: v for k, v in a.metadata.items() if k not in stale} == {
            k: v for k, v in b.metadata.items() if k not in stale
        }
        attachments = [[s.data for s in c.streams if s.type == "attachment"] for c in (a, b)]
        assert attachments[0] == attachments[1]


def test_metadata_that_is_not_utf8_is_no_obstacle(tmp_path, tiny_model):
    """PyAV 18 replaces the bytes, PyAV 19 keeps them."""
    source = write_clip(tmp_path / "in.mkv", Clip(frames=3, time_base=MS, metadata=(("title", "the XX pass"),)))
    source.write_bytes(source.read_bytes().replace(b"the XX pass", b"the \xff\xfe pass"))
    report = dehaze_video(source, tmp_path / "out.mkv", model=tiny_model, device="cpu")
    assert (report.frames, report.partial, report.warnings) == (3, "", ())
    written = (tmp_path / "out.mkv").read_bytes()
    assert b"the \xff\xfe pass" in written or "the \ufffd\ufffd pass".encode() in written


@pytest.mark.parametrize(
    ("source_name", "kind", "target"), [("in.mkv", "subrip", "o.mp4"), ("in.mp4", "mov_text", "o.mkv")]
)
def test_plain_subtitles_are_repacked_for_another_container(tmp_path, tiny_model, source_name, kind, target):
    source = write_clip(tmp_path / source_name, Clip(subtitles=kind, frames=10, time_base=MS))
    report = dehaze_video(source, tmp_path / target, model=tiny_model, device="cpu")
    assert report.warnings == ()
    texts = [data for packets in other_packets(tmp_path / target).values() for _, data in packets]
    assert all(any(line in text for text in texts) for line in (b"line 0", b"line 1"))


def test_a_promise_of_a_lossless_stream_is_kept_or_refused(tmp_path, tiny_model):
    """SVT-AV1 changes some 10 bit video in its lossless mode; RGB in FFV1 stays RGB."""
    deep = write_clip(tmp_path / "in.webm", Clip(codec="libsvtav1", pixel_format="yuv420p10le", width=128, height=96))
    with pytest.raises(InputError, match="without loss"):
        dehaze_video(deep, tmp_path / "out.webm", model=tiny_model, options=LOSSLESS, device="cpu")
    colours = write_clip(tmp_path / "in.mkv", Clip(codec="libx264rgb", pixel_format="rgb24", options=Q0))
    zero = DehazeOptions(strength=0.0, codec="ffv1")
    report = dehaze_video(colours, tmp_path / "out.mkv", model=tiny_model, options=zero, device="cpu")
    assert report.pixel_format == "gbrp"
    assert same_frames(read_all(colours)[1], read_all(tmp_path / "out.mkv")[1])


def test_what_a_container_cannot_hold_is_named(tmp_path, tiny_model):
    source = write_clip(tmp_path / "in.mkv", Clip(audio=("flac",), frames=5, time_base=MS))
    report = dehaze_video(source, tmp_path / "o.webm", model=tiny_model, device="cpu")
    assert len(report.warnings) == 1
    assert "flac" in report.warnings[0]
    assert "--audio" in report.warnings[0]


def test_cover_art_is_copied(tmp_path, tiny_model):
    plain = write_clip(tmp_path / "plain.mp4", Clip(options=Q0))
    source = tmp_path / "in.mp4"
    with av.open(str(plain)) as original, av.open(str(source), "w") as container:
        video = container.add_stream_from_template(original.streams.video[0], opaque=True)
        cover = container.add_stream("png", rate=1)
        cover.width, cover.height, cover.pix_fmt = 32, 32, "rgb24"
        cover.disposition = av.stream.Disposition.attached_pic
        frame = textured_frame("gbrp", 32, 32, 0).reformat(format="rgb24")
        frame.pts = 0
        packets = cover.encode(frame) + cover.encode(None)
        for packet in packets:
            container.mux(packet)
        for packet in original.demux():
            if packet.dts is not None:
                packet.stream = video
                container.mux(packet)
    report = dehaze_video(source, tmp_path / "out.mp4", model=tiny_model, options=LOSSLESS, device="cpu")
    assert report.warnings == ()
    assert report.copied_streams == 1
    assert cover_of(tmp_path / "out.mp4") == cover_of(source) != []


def cover_of(path) -> list[bytes]:
    with av.open(str(path)) as container:
        attached = av.stream.Disposition.attached_pic
        return [bytes(p) for p in container.demux() if p.size and p.stream.disposition & attached]
