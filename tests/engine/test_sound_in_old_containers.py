"""Sound in containers without start times or with few codecs: what cannot stay is named, what stays is in step."""

from fractions import Fraction

import av
import pytest

from clips import Clip, other_packets, write_clip
from libranet.engine import DehazeOptions, dehaze_video

MS = Fraction(1, 1000)


def dehaze(source, output, network, **options):
    return dehaze_video(source, output, model=network, options=DehazeOptions(strength=0.0, **options), device="cpu")


@pytest.mark.parametrize(("first", "lost"), [(0, 0), (20, 1), (500, 16)])
def test_sound_before_the_first_frame(tmp_path, tiny_model, first, lost):
    """AVI has no start times: it would move the frames, so earlier packets of 32 ms are left out, with a note."""
    source = write_clip(tmp_path / "in.mkv", Clip(audio=("ac3",), frames=25, first=first, time_base=MS))
    report = dehaze(source, tmp_path / "out.avi", tiny_model)
    assert report.partial == ""
    before, after = (other_packets(path)[1] for path in (source, tmp_path / "out.avi"))
    assert [data for _, data in after] == [data for _, data in before][lost:]
    said = [float(note.split()[2]) for note in report.warnings if "first frame" in note]
    heard = 0.032 * lost - 0.005  # the encoder's lead-in is 5 ms
    assert said == (pytest.approx([heard], abs=0.001) if lost else [])


def test_a_chosen_start_is_no_loss(tmp_path, tiny_model):
    source = write_clip(tmp_path / "in.mkv", Clip(audio=("ac3",), frames=25, time_base=MS))
    warnings = dehaze(source, tmp_path / "out.avi", tiny_model, start=0.4).warnings
    assert not [note for note in warnings if "first frame" in note]


@pytest.mark.parametrize("rate", [5, 12, 25])
def test_frames_of_an_avi_are_in_step_with_its_sound(tmp_path, tiny_model, rate):
    """AVI has one time for each frame: a stream of reordered frames would show them late."""
    step = Fraction(1, rate)
    source = write_clip(tmp_path / "in.mp4", Clip(audio=("ac3",), frames=20, rate=Fraction(rate), time_base=step / 512))
    report = dehaze(source, tmp_path / "out.avi", tiny_model)
    assert (report.partial, report.codec) == ("", "h264")
    with av.open(str(tmp_path / "out.avi")) as container:
        packets = [packet for packet in container.demux(video=0) if packet.size]
        assert [packet.dts * packet.time_base for packet in packets] == [k * step for k in range(20)]
    with av.open(str(tmp_path / "out.avi")) as container:
        kinds = {frame.pict_type for frame in container.decode(video=0)}
    assert av.video.frame.PictureType.B not in kinds


@pytest.mark.parametrize("suffix", [".webm", ".avi", ".mpg", ".mxf", ".mov", ".ts"])
def test_the_remedy_for_sound_that_is_left_out_works(tmp_path, tiny_model, suffix):
    codec = "libopus" if suffix == ".avi" else "flac"
    source = write_clip(tmp_path / "in.mkv", Clip(audio=(codec,), frames=25, time_base=MS))
    report = dehaze(source, tmp_path / f"out{suffix}", tiny_model)
    (note,) = [note for note in report.warnings if "audio stream 1 (" in note]
    remedy = note.partition("; --audio ")[2].split()[0]
    report = dehaze(source, tmp_path / f"again{suffix}", tiny_model, audio=remedy)
    assert (report.copied_streams, report.partial) == (1, "")
    with av.open(str(tmp_path / f"again{suffix}")) as container:
        samples = sum(frame.samples for frame in container.decode(audio=0))
        assert 0.9 < samples / container.streams.audio[0].codec_context.sample_rate < 1.2


def test_a_container_without_sound_promises_none(tmp_path, tiny_model):
    source = write_clip(tmp_path / "in.mkv", Clip(audio=("aac",), time_base=MS))
    (note,) = [note for note in dehaze(source, tmp_path / "out.gif", tiny_model).warnings if "audio stream 1 (" in note]
    assert "--audio" not in note


def test_sound_that_cannot_be_decoded_is_counted(tmp_path, tiny_model):
    source = write_clip(tmp_path / "in.mkv", Clip(audio=("ac3",), frames=25, time_base=MS))
    damaged = tmp_path / "damaged.mkv"
    data = bytearray(source.read_bytes())
    bad = other_packets(source)[1][7][1]
    place = data.index(bad)
    data[place : place + len(bad)] = bytes(len(bad))
    damaged.write_bytes(data)
    report = dehaze(damaged, tmp_path / "out.mp4", tiny_model, audio="aac")
    assert any("1 packets of audio stream 1 could not be decoded" in note for note in report.warnings)
