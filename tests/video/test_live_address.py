import pytest

from libranet.video.copied_stream import StreamPlan
from libranet.video.live_address import live_address
from libranet.video.source import is_live_output


@pytest.mark.parametrize(
    ("name", "format_name"),
    [
        ("rtsp://host:8554/fog", "rtsp"),
        ("RTMP://host/live/fog", "flv"),
        ("srt://host:9000?mode=caller", "mpegts"),
        ("udp://239.0.0.1:1234", "mpegts"),
        ("out/live.m3u8", "hls"),
        ("/dev/video9", "v4l2"),
    ],
)
def test_what_is_live(name, format_name):
    assert is_live_output(name)
    assert live_address(name).format == format_name


@pytest.mark.parametrize(
    "name", ["out.mkv", "-", "s3://bucket/out.mp4", "out/%05d.png", "/dev/videos/a.mp4", "http.mp4"]
)
def test_what_is_not(name):
    assert not is_live_output(name)


def test_packets_of_udp_fit_into_a_frame_of_ethernet():
    assert live_address("udp://h:1").location == "udp://h:1?pkt_size=1316"
    assert live_address("udp://h:1?ttl=3").location == "udp://h:1?ttl=3&pkt_size=1316"
    assert live_address("udp://h:1?pkt_size=188").location == "udp://h:1?pkt_size=188"


def test_what_a_format_cannot_carry_is_named():
    streams = (
        StreamPlan(1, "audio", "aac", "copy", "aac"),
        StreamPlan(2, "audio", "opus", "copy", "opus"),
        StreamPlan(3, "subtitle", "subrip", "repack", "mov_text"),
        StreamPlan(4, "audio", "ac3", "leave out", reason="as you asked", asked=True),
    )
    carried = live_address("rtmp://host/live/fog").carried(streams)
    assert [stream.kept for stream in carried] == [True, False, False, False]
    assert carried[1].reason == "rtmp has no place for it; --audio aac keeps the sound"
    assert carried[2].reason == "rtmp has no place for it"
    assert carried[3] == streams[3]
