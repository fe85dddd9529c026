"""Why each container's structure is followed: damage that nothing else notices.

Every file here lost frames or sound while the count of packets against frames, FFmpeg's errors and marks, and the
lengths in headers say nothing.
"""

from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path

import av
import pytest
from test_structure_signs import animation

from clips import Clip, write_clip
from libranet.errors import InputError
from libranet.video import wholeness
from libranet.video.reader import open_video
from libranet.video.structure.breaks import Breaks

STEP = 12_800 // 25


def pieces(data: bytes) -> Iterator[bytes]:
    """The file without a piece, at many places."""
    for at in range(len(data) // 3, len(data) - 400, 211):
        yield data[:at] + data[at + 350 :]


def repeated(data: bytes) -> Iterator[bytes]:
    """The file with a piece that comes twice."""
    for size in range(300, 900, 7):
        yield data[:900] + data[900 : 900 + size] + data[900:]


def ends(data: bytes) -> Iterator[bytes]:
    """The file cut off."""
    for at in range(len(data) // 2, len(data), 211):
        yield data[:at]


def late_frame(data: bytes) -> Iterator[bytes]:
    """One frame in the index of an mp4 file is shown after the end."""
    at = data.index(b"ctts") + 12 + 8 * 11 + 4
    yield data[:at] + (77 * STEP).to_bytes(4, "big") + data[at + 4 :]


def lost_fragment(data: bytes) -> Iterator[bytes]:
    """A fragment of an mp4 file lost its name."""
    at = data.rindex(b"trun")
    yield data[:at] + b"tHun" + data[at + 4 :]


def wrong_key(data: bytes) -> Iterator[bytes]:
    """One byte of the last frame's key in MXF."""
    at = data.rindex(bytes.fromhex("060e2b34010201010d01030115"))
    yield data[: at + 5] + b"\x37" + data[at + 6 :]


CASES: dict[str, tuple[Clip, Callable[[bytes], Iterator[bytes]]]] = {
    "a.mkv": (Clip(frames=30, audio=("aac",), options=(("g", "5"), ("crf", "10"))), pieces),
    "a.mp4": (Clip(frames=30, options=(("bf", "3"), ("g", "10"), ("threads", "1"))), late_frame),
    "fragments.mp4": (Clip(frames=30, options=(("g", "10"),)), lost_fragment),
    "a.ts": (Clip(frames=30, audio=("aac",)), pieces),
    "a.avi": (Clip(frames=20, audio=("libmp3lame",)), pieces),
    "a.flv": (Clip(frames=20, audio=("aac",)), pieces),
    "a.mxf": (Clip(codec="mpeg2video", frames=8, time_base=Fraction(1, 25)), wrong_key),
    "a.mpg": (Clip(codec="mpeg2video", frames=20, audio=("mp2",), time_base=Fraction(1, 25)), pieces),
    "a.ogv": (Clip(codec="libvpx", frames=20, audio=("libopus",)), pieces),
    "a.nut": (Clip(frames=20, audio=("aac",)), ends),
    "a.gif": (Clip(), repeated),
}


def content(path: Path) -> tuple[int, int, str]:
    """Frames, packets of sound, and what is said about damage."""
    sound = []
    with open_video(path) as reader:
        reader.on_packet = sound.append
        return len(list(reader.frames())), len(sound), reader.damage.sentence()


@pytest.mark.parametrize("name", CASES)
def test_what_only_the_structure_shows(name, tmp_path, monkeypatch):
    clip, damaged = CASES[name]
    path = tmp_path / name
    if name.startswith("fragments"):
        monkeypatch.setattr("clips._container_options", lambda *_: {"movflags": "frag_keyframe+empty_moov"})
    data = animation(path) if path.suffix == ".gif" else write_clip(path, clip).read_bytes()
    frames, sound, said = content(path)
    assert said == ""
    silent = 0
    for less in damaged(data):
        path.write_bytes(less)
        try:
            with monkeypatch.context() as patch:
                patch.setattr(wholeness, "find_breaks", lambda *_, **__: Breaks())
                found = content(path)
        except (InputError, av.FFmpegError):
            continue
        if found[2] == "" and (found[0] < frames or found[1] < sound):
            silent += 1
            assert content(path)[2]
        if silent == 3:
            break
    assert silent > 0
