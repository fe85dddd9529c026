"""Where a live video goes: an address of a server, an HLS playlist, a virtual camera; and what it can carry there."""

from dataclasses import dataclass, field, replace
from pathlib import Path

from libranet.video.copied_stream import StreamPlan

_PLAYLIST = {
    "hls_time": "2",
    "hls_list_size": "6",
    "hls_flags": "delete_segments+independent_segments+temp_file",
}
"""Six pieces of two seconds stay: a live playlist must not fill the disk."""


@dataclass(frozen=True)
class LiveAddress:
    """A live output."""

    name: str
    """As the user wrote it."""
    format: str
    """FFmpeg's name of the format; v4l2 for a virtual camera."""
    sound: tuple[str, ...]
    """Codecs of the sound that it can carry."""
    options: dict[str, str] = field(default_factory=dict)
    """Of the format."""

    @property
    def is_camera(self) -> bool:
        return self.format == "v4l2"

    @property
    def is_playlist(self) -> bool:
        """Whether it is an HLS playlist, a file that is no connection to be lost."""
        return self.format == "hls"

    @property
    def scheme(self) -> str:
        """What it is called in messages, such as rtmp."""
        return self.name.partition("://")[0].lower() if "://" in self.name else self.format

    @property
    def location(self) -> str:
        """What FFmpeg opens."""
        if self.name.lower().startswith("udp://") and "pkt_size" not in self.name:
            return f"{self.name}{'&' if '?' in self.name else '?'}pkt_size=1316"  # seven packets of a transport stream
        return self.name

    def carried(self, streams: tuple[StreamPlan, ...]) -> tuple[StreamPlan, ...]:
        """Leave out, with the reason, what it cannot carry."""
        return tuple(self._carried(stream) for stream in streams)

    def _carried(self, stream: StreamPlan) -> StreamPlan:
        if not stream.kept or (stream.kind == "audio" and stream.target in self.sound):
            return stream
        remedy = "; --audio aac keeps the sound" if stream.kind == "audio" and "aac" in self.sound else ""
        return replace(stream, action="leave out", target="", reason=f"{self.scheme} has no place for it{remedy}")


def live_address(name: str) -> LiveAddress:
    """Return what an output is for which `is_live_output` holds."""
    scheme = name.partition("://")[0].lower() if "://" in name else ""
    if scheme in ("rtsp", "rtsps"):
        sound = ("aac", "opus", "mp3", "pcm_alaw", "pcm_mulaw")
        return LiveAddress(name, "rtsp", sound, {"rtsp_transport": "tcp"})
    if scheme in ("rtmp", "rtmps"):
        return LiveAddress(name, "flv", ("aac", "mp3"), {"flvflags": "no_duration_filesize"})
    if scheme in ("srt", "udp", "tcp"):
        return LiveAddress(name, "mpegts", ("aac", "mp2", "mp3", "ac3", "eac3", "opus"))
    if Path(name).suffix.lower() == ".m3u8":
        pieces = {"hls_segment_filename": str(Path(name).with_suffix("")) + "-%05d.ts"}
        return LiveAddress(name, "hls", ("aac", "mp3", "ac3", "eac3"), _PLAYLIST | pieces)
    return LiveAddress(name, "v4l2", ())
